package entries

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// PutOptions changes what Put does. nil is the default.
type PutOptions struct {
	// TTL hides the entry after this time. 0: never.
	TTL time.Duration
	// ExpiresAt is TTL as an instant; give one of the two. The start of 1970 is no time.
	ExpiresAt time.Time
	// UpdatedAt is when it was put, for an import. Zero: now.
	UpdatedAt time.Time
	// IfVersion puts only where the entry has this version, 0: only where there is
	// none. Otherwise Put returns ErrConflict.
	IfVersion *uint64
}

// check refuses times that cannot be stored.
func (o *PutOptions) check(doing string) error {
	if o.TTL < 0 || o.TTL > 0 && !o.ExpiresAt.IsZero() {
		return fault.Invalid(doing, "its time to live is negative or given twice", "give TTL or ExpiresAt")
	}
	for what, t := range map[string]time.Time{"updated_at": o.UpdatedAt, "expires_at": o.ExpiresAt} {
		if err := valid.Time(doing, what, t); err != nil {
			return err
		}
	}
	return nil
}

// Put keeps a value under a key, in place of what is there: anything that encoding/json
// can write, a json.RawMessage as it is. It returns the entry as it is stored.
func (k KV) Put(ctx context.Context, o scope.Owner, key string, value any, opts *PutOptions) (e Entry, err error) {
	doing := fmt.Sprintf("put the entry %q", valid.Short(key))
	if opts == nil {
		opts = &PutOptions{}
	}
	if err := checkEntry(doing, o, key); err != nil {
		return Entry{}, err
	}
	if err := opts.check(doing); err != nil {
		return Entry{}, err
	}
	b, err := encodeValue(doing, value)
	if err != nil {
		return Entry{}, err
	}
	err = k.run.Append(ctx, doing, needed(key, b), func(t part.Tx) error {
		e, err = put(t, doing, o, key, b, opts)
		return err
	})
	if err != nil {
		return Entry{}, err
	}
	return e, nil
}

// needed is about what a put writes, in bytes: the entry, its log record and its owner's
// name.
func needed(key string, value []byte) int { return 2*(len(value)+len(key)) + 4*valid.MaxID }

func put(t part.Tx, doing string, o scope.Owner, key string, value json.RawMessage, opts *PutOptions) (Entry, error) {
	e := Entry{
		Owner: o, Key: key, Value: value, Version: t.LSN(),
		UpdatedAt: clock.FromMillis(t.Now()), ExpiresAt: opts.ExpiresAt,
	}
	if opts.TTL > 0 {
		e.ExpiresAt = clock.FromMillis(t.Now() + max(opts.TTL.Milliseconds(), 1))
	}
	if !opts.UpdatedAt.IsZero() {
		e.UpdatedAt = clock.FromMillis(clock.ToMillis(opts.UpdatedAt))
	}
	e.ExpiresAt = clock.FromMillis(clock.ToMillis(e.ExpiresAt)) // as it will be read
	if err := t.Need(doing, needed(key, value)); err != nil {
		return Entry{}, err
	}
	if err := conflicts(t, doing, o, key, opts.IfVersion); err != nil {
		return Entry{}, err
	}
	owner, err := t.GiveOwner(o)
	if err != nil {
		return Entry{}, err
	}
	return e, write(t, owner, &e)
}

// conflicts checks the expectation of a compare-and-set, before anything is written.
func conflicts(t part.Tx, doing string, o scope.Owner, key string, want *uint64) error {
	if want == nil {
		return nil
	}
	have := uint64(0)
	if owner, known, err := t.Owner(o); err != nil {
		return err
	} else if known {
		old, found, err := stored(t, owner, key)
		if err != nil {
			return err
		}
		if found && !old.expired(t.Now()) {
			have = old.Version
		}
	}
	if *want == have {
		return nil
	}
	return &fault.Error{
		Kind: fault.ErrConflict, What: doing, Why: fmt.Sprintf("its version is %d, not %d", have, *want), Do: "read it again and decide",
	}
}

// write puts an entry in place of what is there.
func write(t part.Tx, owner uint32, e *Entry) error {
	old, found, err := stored(t, owner, e.Key)
	switch {
	case err != nil:
		return err
	case found:
		t.Replaces(len(old.Value))
		err = dropExpiry(t, owner, &old)
	default:
		err = count(t, owner, 1)
	}
	if err != nil {
		return err
	}
	value := e.encode()
	if err := t.Set(entryKey(t, owner, e.Key), value); err != nil {
		return err
	}
	if !e.ExpiresAt.IsZero() {
		if err := t.Set(expiryKey(t, clock.ToMillis(e.ExpiresAt), owner, e.Key), nil); err != nil {
			return err
		}
	}
	t.Log(opPut, logged(owner, e.Key, value))
	return nil
}

func dropExpiry(t part.Tx, owner uint32, old *Entry) error {
	if old.ExpiresAt.IsZero() {
		return nil
	}
	return t.Delete(expiryKey(t, clock.ToMillis(old.ExpiresAt), owner, old.Key))
}
