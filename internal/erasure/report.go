package erasure

import (
	"encoding/json"
	"errors"
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/records"
)

// An erasure that ends while nobody waits for it, in the background or in another program, keeps its
// report in the database. The next call that asks for the same gets it.

// mostReports bounds the reports that are kept.
const mostReports = 8

// keptReport is a report under the fingerprint of what was asked for: the names are erased.
type keptReport struct {
	Asked  uint32 `json:"asked"`
	Report Report `json:"report"`
}

// Fingerprint is two bytes of a hash of what is asked for, and never 0. So many names have the same one
// that it tells none of them.
func (q *Query) Fingerprint() uint32 {
	b, _ := json.Marshal([]string{q.User, q.Agent, q.ID}) // strings have JSON
	return 1<<16 | uint32(xxh3.Hash(b)&0xffff)
}

// reports are those that are kept, the newest last.
func reports(r kv.Reader) (all []keptReport, err error) {
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

// Keep returns the reports that are kept, with that of an erasure that is done.
func (e *Erasure) Keep(r kv.Reader, report Report) ([]byte, error) {
	all, err := reports(r)
	if err != nil {
		all = nil // it is written over
	}
	all = append(all, keptReport{e.Asked, report})
	return json.Marshal(all[max(0, len(all)-mostReports):])
}

// Ended is the report of the newest erasure of the same that has ended.
func (q *Query) Ended(from kv.Reader) (r Report, ended bool, err error) {
	all, err := reports(from)
	for _, kept := range slices.Backward(all) {
		if kept.Asked == q.Fingerprint() {
			return kept.Report, true, nil
		}
	}
	return r, false, err
}

// CloseReports takes the names out of the reports that are kept: a later erasure may be of these.
func CloseReports(w *records.Writer) error {
	all, err := reports(w.Reader)
	if err != nil {
		return w.Delete(layout.ErasedKey)
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
	return w.Set(layout.ErasedKey, value)
}

var closedKept = Kept{What: "a list of then", Why: "it was removed by a later erasure, since it had names"}
