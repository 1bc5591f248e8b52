package sessions

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// Work does the work that the database has the part do now and then, where nobody reads a state
// that is older than that of an LSN; 0: that is not known.
func Work(ctx context.Context, s Sessions, oldest uint64) error {
	p := &Part{}
	p.Release(oldest)
	return p.Work(ctx, s.run)
}

// CountKeys counts the keys that belong to a session.
func CountKeys(ctx context.Context, s Sessions, of scope.Owner, session string) (n int, err error) {
	err = s.run.View(ctx, "count keys", func(v part.View) error {
		run, _, err := v.Run(session)
		owner, _, oerr := v.Owner(of)
		for _, kind := range (&Part{}).Kinds() {
			if kind == kindOrder { // its keys have the session at their end
				continue
			}
			lower := v.Key(byte(kind), 8)
			lower = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(lower, owner), run)
			upper := slices.Clone(lower)
			upper[len(upper)-1]++
			if err := v.Scan(lower, upper, func(_, _ []byte) error { n++; return nil }); err != nil {
				return err
			}
		}
		return errors.Join(err, oerr)
	})
	return n, err
}

// Drop deletes the last key of a kind behind the back of the part.
func Drop(ctx context.Context, s Sessions, kind byte) error {
	return s.run.Update(ctx, "damage", func(tx part.Tx) error {
		var key []byte
		err := tx.Scan(tx.Key(kind, 0), tx.Key(kind+1, 0), func(k, _ []byte) error {
			key = slices.Clone(k)
			return nil
		})
		tx.Log((&Part{}).Ops()[0], nil)
		return errors.Join(err, tx.Delete(key))
	})
}
