package state

import (
	"errors"
	"fmt"

	"github.com/seed-7aedc3ff/memdb/internal/doctable"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
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

// Reasons are the words by the numbers that stand for them in the store.
var Reasons = [layout.Reasons]memory.Reason{
	layout.ReasonScope: memory.ReasonScope, layout.ReasonAge: memory.ReasonAge, layout.ReasonConfidence: memory.ReasonConfidence,
	layout.ReasonCap: memory.ReasonCap, layout.ReasonExpired: memory.ReasonExpired, layout.ReasonPruned: memory.ReasonPruned,
	layout.ReasonMerged: memory.ReasonMerged, layout.ReasonCaller: memory.ReasonCaller,
}

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

// LastRecord is the newest record of a memory, which may be gone; nil where there is none.
func (s *State) LastRecord(owner uint32, seq uint64) (rec *layout.Record, err error) {
	prefix := s.Keys.Records(owner, seq)
	err = kv.Scan(s.Reader, prefix, layout.PrefixEnd(prefix), func(_, value []byte) error {
		rec, err = layout.DecodeRecord(value)
		return err
	})
	return rec, err
}

// LastID is the ID of a memory, which may be gone; empty where nothing is known of it.
func (s *State) LastID(owner uint32, seq uint64) (string, error) {
	rec, err := s.LastRecord(owner, seq)
	if rec == nil || err != nil {
		return "", err
	}
	return rec.ID, nil
}

// RangeDeath is the death of a memory by a death range that is not cleaned up yet, with its LSN and its change; nil if
// there is none.
func (s *State) RangeDeath(seq uint64) (*layout.Death, uint64, uint32, error) {
	lower, upper := s.Keys.Span(layout.KindRange)
	m := s.Docs.Seq(seq)
	if m == nil {
		return nil, 0, 0, nil
	}
	doc := m.Doc.Load() - 1
	if doc == doctable.None {
		return nil, 0, 0, nil
	}
	row := s.Docs.Of(doc, seq)
	if row == nil { // released: the snapshot is from after the clean-up, which wrote an entry
		return nil, 0, 0, nil
	}
	var found *layout.Death
	var lsn uint64
	var change uint32
	err := kv.Scan(s.Reader, lower, upper, func(key, value []byte) error {
		d, err := layout.DecodeRange(s.Keys, key, value)
		if err != nil || d.LSN != row.Died.Load() {
			return err
		}
		if found != nil { // the first one that covers it killed it
			return nil
		}
		rec, err := s.Record(row.Version)
		if err != nil || !d.Covers(doc, row.Version, rec.Scope) {
			return err
		}
		found = &layout.Death{At: d.At, Born: row.Born, Change: row.Change, Cause: d.CauseOf(doc)}
		lsn, change = d.LSN, d.Change
		return nil
	})
	return found, lsn, change, err
}
