package entries

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/part"
)

const (
	// expireEvery is how often expired entries are removed; they are hidden from
	// the moment they expire.
	expireEvery = time.Minute
	// expireBatch bounds the entries that one commit removes.
	expireBatch = 1000

	doingExpire = "remove expired entries"
)

// Every is how often expired entries are removed.
func (Part) Every() time.Duration { return expireEvery }

// due is a key of the index by expiry, read.
type due struct {
	expires int64
	owner   uint32
	key     string
}

// of reports whether the key is that of an entry.
func (d due) of(e *Entry) bool { return max(clock.ToMillis(e.ExpiresAt), 0) == d.expires }

// Work removes the entries that have expired, and what deleted owners have left.
func (Part) Work(ctx context.Context, r part.Runner) error {
	if err := sweep(ctx, r); err != nil {
		return err
	}
	for {
		var all []due
		err := r.View(ctx, doingExpire, func(v part.View) (err error) {
			all, err = dueEntries(v)
			return err
		})
		if err == nil && len(all) > 0 {
			err = r.Update(ctx, doingExpire, func(t part.Tx) error { return removeDue(t, all) })
		}
		if err != nil || len(all) < expireBatch {
			return err
		}
	}
}

func dueEntries(v part.View) (all []due, err error) {
	lower := v.Key(kindExpiry, 0)
	err = v.Scan(lower, expiryKey(v, v.Now()+1, 0, ""), func(key, _ []byte) error {
		d, err := parseDue(key)
		if err != nil {
			return err
		}
		if all = append(all, d); len(all) == expireBatch {
			return kv.ErrStop
		}
		return nil
	})
	return all, err
}

func parseDue(key []byte) (d due, err error) {
	var ok bool
	if d.expires, d.owner, d.key, ok = parseExpiryKey(key); !ok {
		return due{}, layout.BadKey("expiry", key)
	}
	return d, nil
}

// removeDue removes entries that have expired, and keys of the index whose entry is gone
// or expires at another time.
func removeDue(t part.Tx, all []due) error {
	for _, d := range all {
		e, found, err := stored(t, d.owner, d.key)
		switch {
		case err != nil:
		case found && d.of(&e) && e.expired(t.Now()):
			err = remove(t, doingExpire, d.owner, &e)
		case !found || !d.of(&e):
			err = dropStray(t, d)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func dropStray(t part.Tx, d due) error {
	if err := t.NeedToFree(doingExpire, freed(d.key)); err != nil {
		return err
	}
	if err := t.Delete(expiryKey(t, d.expires, d.owner, d.key)); err != nil {
		return err
	}
	t.Log(opClean, binary.AppendUvarint(nil, uint64(d.owner)))
	return nil
}
