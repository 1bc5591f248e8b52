package recovery

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/seed-7aedc3ff/memdb/internal/doctable"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/records"
	"github.com/seed-7aedc3ff/memdb/internal/store"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
)

// versions calls visit with the newest version of each memory, of record keys in their
// order.
type versions struct {
	visit func(layout.Version) error
	lacks bool // some keys cannot be read
	last  layout.Version
}

// key takes the next key.
func (vs *versions) key(key []byte) (err error) {
	v, ok := layout.ParseRecordKey(key)
	if !ok {
		return layout.BadKey("record", key)
	}
	if v.Seq != vs.last.Seq || v.Owner != vs.last.Owner {
		err = vs.end()
	}
	vs.last = v
	return err
}

// end says that no key follows.
func (vs *versions) end() error {
	if vs.last.Seq == 0 {
		return nil
	}
	return vs.visit(vs.last)
}

// placeless reports whether a memory lives by its newest version and has no document.
func (st *State) placeless(v layout.Version) (bool, error) {
	if st.Docs.At(v.Seq, st.LSN) != doctable.None {
		return false, nil
	}
	return st.livesByRecord(v)
}

// livesByRecord reports whether a memory lives, going by what does not follow from its place
// in the indexes: it has no death, and no death range means it.
func (st *State) livesByRecord(v layout.Version) (lives bool, err error) {
	prefix := st.Keys.Histories(v.Owner, v.Seq)
	err = kv.Scan(st.Reader, prefix, layout.PrefixEnd(prefix), func(_, _ []byte) error { return kv.ErrStop })
	if errors.Is(err, kv.ErrStop) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	rec, err := st.Record(v)
	if err != nil || rec.Flags&layout.FlagPast != 0 {
		return false, err
	}
	lower, upper := st.Keys.Span(layout.KindRange)
	lives = true
	err = kv.Scan(st.Reader, lower, upper, func(key, value []byte) error {
		d, err := layout.DecodeRange(st.Keys, key, value)
		if store.Unreadable(err) {
			return nil // it was told of when the database was opened
		}
		if err == nil && (d.Listed && st.Name == nil || !d.Listed && d.Covers(doctable.None, v, rec.Scope)) { // listed by its document
			lives = false
		}
		return err
	})
	return lives, err
}

// IndexAgain reads a memory and analyses it anew; nil where it has been erased.
func (st *State) IndexAgain(ctx context.Context, r *doctable.Row) (*records.Pending, error) {
	rec, err := st.ReadRecord(r.Version)
	switch {
	case errors.Is(err, kv.ErrNotFound) && r.Died.Load() != doctable.Alive:
		return nil, nil // by a reset
	case err != nil:
		return nil, store.Error(fmt.Sprintf("read memory number %d", r.Seq), err)
	}
	p := &records.Prepared{Rec: *rec}
	if err := records.Analyse(ctx, st.Tables, p); err != nil {
		return nil, err
	}
	pv := &records.Pending{Version: r.Version, Run: r.Run, Rec: rec}
	pv.Index, err = records.IndexedDoc(p, r.Run, st.Number)
	return pv, err
}

// Number is the number of a name that was given before.
func (st *State) Number(k layout.Name) (uint32, bool, error) {
	if k.Class == layout.NameField {
		num, ok := st.Fields.Number(k.Text)
		return num, ok, nil
	}
	num, ok, err := st.Lookup(k)
	switch {
	case st.Name != nil && (store.Unreadable(err) || err == nil && !ok):
		num, err = st.Name(k)
		return num, true, err
	case err == nil && !ok:
		err = &fault.Error{Kind: fault.ErrCorrupt, What: doingRebuild, Why: fmt.Sprintf("the name %q has no number", valid.Short(k.Text)), Do: "run check"}
	}
	return num, ok, err
}

// DiedByRecord reports whether a version is dead by what its tombstone does not tell: its memory
// has a later version, or died later. What cannot be read does not tell that it is dead.
func DiedByRecord(r kv.Reader, ks *layout.Keys, v layout.Version) bool {
	later := func(from, to []byte, of func(key []byte) bool) bool {
		found := false
		err := kv.Scan(r, append(from, 0), to, func(key, _ []byte) error {
			found = of(key)
			return kv.ErrStop
		})
		return found && errors.Is(err, kv.ErrStop)
	}
	_, end := ks.Span(layout.KindRecord)
	all := ks.Histories(v.Owner, v.Seq)
	after := binary.BigEndian.AppendUint64(ks.Histories(v.Owner, v.Seq), v.Born+1)
	return later(ks.Record(v), end, func(key []byte) bool {
		next, ok := layout.ParseRecordKey(key)
		return ok && next.Seq == v.Seq && next.Owner == v.Owner
	}) || later(after, layout.PrefixEnd(all), func([]byte) bool { return true })
}
