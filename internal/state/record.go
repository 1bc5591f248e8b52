package state

import (
	"errors"
	"fmt"

	"github.com/seed-7aedc3ff/memdb/internal/doctable"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/store"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/policy"
)

// Roles and Kinds are the words by the numbers that stand for them in records.
var (
	Roles = [layout.RoleCount]memory.Role{memory.RoleUser, memory.RoleAssistant, memory.RoleSystem, memory.RoleTool}
	Kinds = [layout.KindCount]memory.Kind{memory.KindMessage, memory.KindFragment, memory.KindFact, memory.KindNote, memory.KindArchive, memory.KindSummary}
)

// IsNote reports whether a record is one of a note or an archive.
func IsNote(r *layout.Record) bool {
	k := Kinds[r.Kind]
	return (k == memory.KindNote || k == memory.KindArchive) && r.Name != ""
}

// Record reads a version, which must be there, with the expiry to which reads have moved it.
func (s *State) Record(v layout.Version) (*layout.Record, error) {
	rec, err := s.ReadRecord(v)
	if err != nil {
		return nil, store.Error(fmt.Sprintf("read memory number %d", v.Seq), err)
	}
	rec.Expires = s.Docs.ExpiryOf(v, rec.Expires)
	return rec, nil
}

// ReadRecord reads a version as it is stored: kv.ErrNotFound where it is gone.
func (s *State) ReadRecord(v layout.Version) (*layout.Record, error) {
	b, closer, err := s.Reader.Get(s.Keys.Record(v))
	if err != nil {
		return nil, err
	}
	rec, err := layout.DecodeRecord(b)
	return rec, errors.Join(err, closer.Close())
}

// Aged is what consolidations look at of a version.
func (t *Tables) Aged(v layout.Version, created int64, stored float64) policy.Aged {
	m := policy.Aged{Owner: v.Owner, Stored: stored, After: v.Born, Last: created}
	if s := t.Docs.Seq(v.Seq); s != nil {
		m.Last = max(m.Last, s.Accessed.Load()) // before Fade: see there
		if f := s.Fade.Load(); f != nil {
			m.Debt, m.After = policy.Debt(f.Debt), max(m.After, f.Folded)
		}
	}
	return m
}

// ConfidenceOf is the confidence now of a version with a stored one.
func (s *State) ConfidenceOf(v layout.Version, created int64, stored float64) float64 {
	runs := s.Ageing.Runs()
	if runs.Count() == 0 || s.Own != nil && s.Own.Anew[v.Seq] {
		return stored
	}
	m := s.Aged(v, created, stored)
	return policy.Confidence(stored, runs.Owed(&m, s.LSN, s.Now))
}

// Confidence is ConfidenceOf the version of a row.
func (s *State) Confidence(r *doctable.Row) float64 {
	return s.ConfidenceOf(r.Version, r.Created, r.Confidence)
}
