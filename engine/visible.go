package engine

import (
	"context"
	"math/bits"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/seed-7aedc3ff/memdb/internal/doctable"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/invindex"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// plain has the bits of those documents from 64·i on that the transaction sees for
// certain. One that reads a past state may know of documents that are younger, and one
// from before a move of those that took the place of others since.
func (tx *Tx) plain(i int) uint64 {
	w := tx.db.tables.Docs.Plain.Word(i)
	if tx.state.Past || tx.db.tables.Docs.Moved.Load() > tx.state.LSN { // after the bits: a move is noted before it sets any
		return 0
	}
	return w
}

// denseShare: a set that has at least one in so many documents is looked at word by
// word, a sparser one document by document.
const denseShare = 64

// shows tells whether a document is visible and has not expired, by its row. That one
// expires is noted in a state of a scope, unless that is nil.
func (tx *Tx) shows(doc uint32, st *scopeState) bool {
	r := tx.db.tables.Docs.Row(doc)
	switch {
	case !r.Visible(tx.state.LSN):
		return false
	case r.Expires == 0:
		return true
	}
	if st != nil {
		st.expiring(r, tx.state.Now)
	}
	return r.Expires > tx.state.Now
}

// everything is the set of all visible documents. What expires is noted in a state
// of a scope, unless that is nil.
func (tx *Tx) everything(ctx context.Context, st *scopeState) (*roaring.Bitmap, error) {
	all := roaring.New()
	for chunk, slots := range tx.state.Index.Extents(tx.state.Postings) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		dense := make([]uint64, (slots+63)/64)
		first := uint32(chunk) << 16
		for i := range dense {
			born := ^uint64(0)
			if left := slots - uint32(64*i); left < 64 {
				born = 1<<left - 1 // of what comes after, rows may be written just now
			}
			dense[i] = tx.visibleOf(first+uint32(64*i), born, st)
		}
		all.Or(roaring.AddOffset(roaring.FromDense(dense, false), first))
	}
	return all, nil
}

// eachRow visits the rows of all documents of the state, in ascending order, until visit
// returns false.
func (tx *Tx) eachRow(visit func(doc uint32, r *doctable.Row) bool) {
	more := true
	for chunk, slots := range tx.state.Index.Extents(tx.state.Postings) {
		first := uint64(chunk) << 16
		tx.db.tables.Docs.Rows.EachFrom(first, first+uint64(slots), func(doc uint64, r *doctable.Row) bool {
			more = visit(uint32(doc), r)
			return more
		})
		if !more {
			return
		}
	}
}

// visibleOf are the visible ones of those 64 documents from one on that are born.
func (tx *Tx) visibleOf(first uint32, born uint64, st *scopeState) uint64 {
	w := tx.plain(int(first/64)) & born
	if tx.db.tables.Docs.Row(first) == nil {
		return w
	}
	for rest := born &^ w; rest != 0; rest &= rest - 1 {
		if bit := bits.TrailingZeros64(rest); tx.shows(first+uint32(bit), st) {
			w |= 1 << bit
		}
	}
	return w
}

// onlyVisible removes what is not born, dead or expired. What expires is noted in a
// state of a scope, unless that is nil.
func (tx *Tx) onlyVisible(ctx context.Context, set *roaring.Bitmap, st *scopeState) (*roaring.Bitmap, error) {
	out, err := tx.invisible(ctx, set, st)
	if err != nil {
		return nil, err
	}
	if len(out) > 0 {
		set.AndNot(roaring.BitmapOf(out...))
	}
	return set, nil
}

// invisible are the documents of a set that are not born, dead or expired.
func (tx *Tx) invisible(ctx context.Context, set *roaring.Bitmap, st *scopeState) (out []uint32, err error) {
	if set.IsEmpty() {
		return nil, nil
	}
	check := func(doc uint32) {
		if !tx.shows(doc, st) {
			out = append(out, doc)
		}
	}
	if set.GetCardinality() >= uint64(set.Maximum())/denseShare {
		for i, w := range set.ToDense() {
			if i%state.CancelEvery == 0 && ctx.Err() != nil {
				return nil, ctx.Err()
			}
			for w &^= tx.plain(i); w != 0; w &= w - 1 {
				check(uint32(64*i + bits.TrailingZeros64(w)))
			}
		}
	} else {
		n := 0
		for it := set.Iterator(); it.HasNext(); {
			doc := it.Next()
			if n++; n%state.CancelEvery == 0 && ctx.Err() != nil {
				return nil, ctx.Err()
			}
			if tx.plain(int(doc/64))>>(doc%64)&1 == 0 {
				check(doc)
			}
		}
	}
	return out, nil
}

// scopeSet intersects the postings of the given fields; nil without any.
func (tx *Tx) scopeSet(s memory.Scope) (*roaring.Bitmap, error) {
	return tx.scopeSetIn(s, 0, invindex.MaxDoc+1)
}

// scopeSetIn is scopeSet for the documents from one up to, but not including, another.
func (tx *Tx) scopeSetIn(s memory.Scope, from, to uint32) (*roaring.Bitmap, error) {
	var set *roaring.Bitmap
	for _, f := range []struct {
		field uint16
		class layout.NameClass
		name  string
	}{{layout.FieldRun, layout.NameRun, s.Run}, {layout.FieldUser, layout.NameUser, s.User}, {layout.FieldAgent, layout.NameAgent, s.Agent}} {
		if f.name == "" {
			continue
		}
		num, ok, err := tx.state.Lookup(layout.Name{Class: f.class, Text: f.name})
		if err != nil {
			return nil, err
		}
		if !ok {
			return roaring.New(), nil
		}
		with, err := tx.state.Index.FindIn(tx.state.Postings, invindex.Value{Field: f.field, Key: layout.NumberValue(num)}, from, to)
		if err != nil {
			return nil, state.TextError(readingFilters, err)
		}
		set = intersect(set, with)
	}
	return set, nil
}

func intersect(set, with *roaring.Bitmap) *roaring.Bitmap {
	if set == nil {
		return with
	}
	set.And(with)
	return set
}

// newestState is what the newest commit shows. The lock is held.
func (db *DB) newestState() state.State {
	s := db.stateOf(db.store, db.writer.applied)
	s.Index, s.Postings = db.tables.NewestIndex.Load(), db.newestText()
	return s
}

// newestText is the state of the text index that an Update reads. The lock is
// held.
func (db *DB) newestText() invindex.Snapshot {
	s := db.tables.NewestIndex.Load().Snapshot()
	s.Docs, s.Reader = db.tables.Docs.Mark.Load(), db.store
	return s
}

// withValue is the set of documents with a filter value, visible or not.
func (tx *Tx) withValue(field uint16, key string) (*roaring.Bitmap, error) {
	set, err := tx.state.Index.Find(tx.state.Postings, invindex.Value{Field: field, Key: key})
	return set, state.TextError(readingFilters, err)
}

// withField is the set of documents that have any value of a field, visible or not.
func (tx *Tx) withField(ctx context.Context, field uint16) (*roaring.Bitmap, error) {
	set, err := tx.state.Index.FindField(ctx, tx.state.Postings, field)
	return set, state.TextError(readingFilters, err)
}

const readingFilters = "read the filter index"
