package requests

import (
	"context"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/scope"
)

const (
	// removeEvery is how often expired records are removed. They count no more from the moment on in
	// which they expire.
	removeEvery = 10 * time.Minute
	// removeBatch bounds the records that one commit removes.
	removeBatch = 1000

	doingRemove = "remove expired records of requests"
)

// Part is the structure as the database sees it.
type Part struct{}

var (
	_ part.Worker = Part{}
	_ part.Eraser = Part{}
)

// Name is "requests".
func (Part) Name() string { return "requests" }

// Kinds lists the kinds of keys of the two halves of records.
func (Part) Kinds() []part.Kind { return []part.Kind{kindDone, kindAnswer} }

// Ops are none: the log says what a request did, and not that it had an ID.
func (Part) Ops() []part.Op { return nil }

// Lines are none: an export has no requests.
func (Part) Lines(part.View, scope.Scope, func(part.Line) error) error { return nil }

// NewLine is nil.
func (Part) NewLine(string) part.Line { return nil }

// Figures are none: to count the records would be to read them all.
func (Part) Figures(part.View) (map[string]int64, error) { return map[string]int64{}, nil }

// answersOf are the ranges of the answers of an owner, and of those under no owner.
func answersOf(v part.View, owner uint32) [2][]byte {
	return [2][]byte{answersKey(v, 0), answersKey(v, owner)}
}

// DeleteOwner deletes the answers of requests that changed data of an owner.
func (Part) DeleteOwner(t part.Tx, owner uint32) (map[string]int64, error) {
	return map[string]int64{}, Forget(t, owner)
}

// Forget deletes the answers of requests that changed data of an owner, and those of requests that
// changed data of several owners.
func Forget(t part.Tx, owner uint32) error {
	for _, lower := range answersOf(t, owner) {
		some := false
		err := t.Scan(lower, layout.PrefixEnd(lower), func([]byte, []byte) error {
			some = true
			return kv.ErrStop
		})
		if err == nil && some {
			err = t.NeedToFree("forget the answers of an owner", len(lower))
		}
		if err == nil && some {
			t.Log(part.OpInternal, nil)
			err = t.DeleteRange(lower, layout.PrefixEnd(lower))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// EraseOwners deletes the answers of owners, and those of several.
func (Part) EraseOwners(v part.View, owners map[uint32]bool, del func(lower, upper []byte) error) error {
	for owner := range owners {
		for _, lower := range answersOf(v, owner) {
			if err := del(lower, layout.PrefixEnd(lower)); err != nil {
				return err
			}
		}
	}
	return nil
}

// Every is how often expired records are removed.
func (Part) Every() time.Duration { return removeEvery }

// Work removes the records that have expired.
func (Part) Work(ctx context.Context, r part.Runner) error {
	for {
		var due []place
		err := r.View(ctx, doingRemove, func(v part.View) (err error) {
			due, err = expiredRecords(v)
			return err
		})
		if err == nil && len(due) > 0 {
			err = r.Update(ctx, doingRemove, func(t part.Tx) error { return removeAll(t, due) })
		}
		if err != nil || len(due) < removeBatch {
			return err
		}
	}
}

// expiredRecords are the oldest records that have expired, at most removeBatch of them.
func expiredRecords(v part.View) (due []place, err error) {
	err = v.Scan(timesKey(v, 0), timesKey(v, v.Now()-Keep.Milliseconds()+1), func(key, _ []byte) error {
		p, ok := parseDone(key)
		if !ok {
			return layout.BadKey("request", key)
		}
		if due = append(due, p); len(due) == removeBatch {
			return kv.ErrStop
		}
		return nil
	})
	return due, err
}

// removeAll removes records, and the keys of those that were replaced since.
func removeAll(t part.Tx, due []place) error {
	t.Log(part.OpInternal, nil)
	for _, p := range due {
		if err := t.NeedToFree(doingRemove, 128); err != nil {
			return err
		}
		b, found, err := t.Get(doneKey(t, p.key))
		if err != nil {
			return err
		}
		var r Record
		if found {
			if r, err = decodeDone(b); err != nil {
				return err
			}
		}
		if found && r.At == p.ms {
			err = remove(t, p.key)
		} else {
			err = t.Delete(timeKey(t, p.ms, p.key))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
