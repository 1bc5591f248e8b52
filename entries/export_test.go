package entries

import (
	"context"

	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// Work does the work that the database has the part do now and then.
func Work(ctx context.Context, k KV) error { return Part{}.Work(ctx, k.run) }

// Left counts the keys by expiry, and those of deleted owners that are to be cleaned up after.
func Left(ctx context.Context, k KV) (expiries, gone int, err error) {
	err = k.run.View(ctx, "count keys", func(v part.View) error {
		for kind, n := range map[byte]*int{kindExpiry: &expiries, kindGone: &gone} {
			lower := v.Key(kind, 0)
			if err := v.Scan(lower, layout.PrefixEnd(lower), func(_, _ []byte) error { *n++; return nil }); err != nil {
				return err
			}
		}
		return nil
	})
	return expiries, gone, err
}

// Damage changes keys of an entry that expires behind the back of the part.
type Damage struct {
	Says  string // a part of what Check says of it
	write func(t part.Tx, owner uint32, e *Entry) error
}

// Damages are those that Check finds.
var Damages = []Damage{
	{"its counter says", func(t part.Tx, owner uint32, _ *Entry) error { return t.Count(kindEntry, owner, 1) }},
	{"it is not in the expiry index", func(t part.Tx, owner uint32, e *Entry) error {
		return t.Delete(expiryKey(t, e.ExpiresAt.UnixMilli(), owner, e.Key))
	}},
	{"there is no entry", func(t part.Tx, owner uint32, e *Entry) error { return t.Set(expiryKey(t, 5, owner, e.Key), nil) }},
	{"malformed expiry key", func(t part.Tx, _ uint32, _ *Entry) error { return t.Set(t.Key(kindExpiry, 0), nil) }},
	{"malformed entry key", func(t part.Tx, _ uint32, _ *Entry) error { return t.Set(t.Key(kindEntry, 0), nil) }},
	{"its value is no JSON", func(t part.Tx, owner uint32, e *Entry) error {
		e.Value = []byte("{")
		return t.Set(entryKey(t, owner, e.Key), e.encode())
	}},
	{"it lies under owner", func(t part.Tx, owner uint32, e *Entry) error {
		e.Owner = scope.Owner{User: "bob"}
		return t.Set(entryKey(t, owner, e.Key), e.encode())
	}},
	{"damaged: value is cut off", func(t part.Tx, owner uint32, e *Entry) error { return t.Set(entryKey(t, owner, e.Key), []byte{99}) }},
}

// Do does the damage to an entry of an owner.
func (d Damage) Do(ctx context.Context, k KV, o scope.Owner, key string) error {
	return k.run.Update(ctx, "damage", func(t part.Tx) error {
		owner, _, err := t.Owner(o)
		if err != nil {
			return err
		}
		e, _, err := stored(t, owner, key)
		if err != nil {
			return err
		}
		t.Log(opClean, nil)
		return d.write(t, owner, &e)
	})
}
