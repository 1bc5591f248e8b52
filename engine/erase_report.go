package engine

import (
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/zeebo/xxh3"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
)

// An erasure that ends while nobody waits for it, in the background or in another program, keeps its
// report in the database. The next call that asks for the same gets it.

// mostReports bounds the reports that are kept.
const mostReports = 8

// keptReport is a report under the fingerprint of what was asked for: the names are erased.
type keptReport struct {
	Asked  uint32      `json:"asked"`
	Report EraseReport `json:"report"`
}

// fingerprint is two bytes of a hash of what is asked for, and never 0. So many names have the same one
// that it tells none of them.
func (q *EraseQuery) fingerprint() uint32 {
	b, _ := json.Marshal([]string{q.User, q.Agent, q.ID}) // strings have JSON
	return 1<<16 | uint32(xxh3.Hash(b)&0xffff)
}

// reports are those that are kept, the newest last.
func (db *DB) reports(r kv.Reader) (all []keptReport, err error) {
	b, closer, err := r.Get(layout.ErasedKey)
	if errors.Is(err, kv.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	err = json.Unmarshal(b, &all)
	if err = errors.Join(err, closer.Close()); err != nil {
		return nil, &fault.Error{Kind: fault.ErrCorrupt, What: "read the reports of erasures", Cause: err, Do: "run check"}
	}
	return all, nil
}

// keepReport adds the report of an erasure that is done.
func (db *DB) keepReport(b *pebble.Batch, e *erasure, began time.Time) error {
	all, err := db.reports(db.store)
	if err != nil {
		all = nil // it is written over
	}
	all = append(all, keptReport{e.Asked, db.erasedReport(e, began)})
	value, err := json.Marshal(all[max(0, len(all)-mostReports):])
	if err != nil {
		return err
	}
	return b.Set(layout.ErasedKey, value, nil)
}

// endedErasure is the report of the newest erasure of the same that has ended.
func (db *DB) endedErasure(q *EraseQuery) (r EraseReport, ended bool, err error) {
	all, err := db.reports(db.store)
	for _, kept := range slices.Backward(all) {
		if kept.Asked == q.fingerprint() {
			return kept.Report, true, nil
		}
	}
	return r, false, err
}

// closeReports takes the names out of the reports that are kept: a later erasure may be of these.
func (tx *Tx) closeReports() error {
	all, err := tx.db.reports(tx.state.Reader)
	if err != nil {
		return tx.del(layout.ErasedKey)
	}
	changed := false
	for i := range all {
		for _, list := range []*[]Kept{&all[i].Report.Left, &all[i].Report.Derived} {
			if len(*list) > 0 && (*list)[0] != closedKept {
				*list, changed = []Kept{closedKept}, true
			}
		}
	}
	if !changed {
		return nil
	}
	value, err := json.Marshal(all)
	if err != nil {
		return err
	}
	return tx.set(layout.ErasedKey, value)
}

var closedKept = Kept{What: "a list of then", Why: "it was removed by a later erasure, since it had names"}
