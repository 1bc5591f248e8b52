package selection

import (
	"context"
	"math/bits"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/seed-7aedc3ff/memdb/internal/doctable"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/scalar"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/invindex"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// plain has the bits of those documents from 64·i on that the reader sees for
// certain. One that reads a past state may know of documents that are younger, and one
// from before a move of those that took the place of others since.
func plain(st *state.State, i int) uint64 {
	w := st.Docs.Plain.Word(i)
	if st.Past || st.Docs.Moved.Load() > st.LSN { // after the bits: a move is noted before it sets any
		return 0
	}
	return w
}

// denseShare: a set that has at least one in so many documents is looked at word by
// word, a sparser one document by document.
const denseShare = 64

// shows reports whether a document is visible and has not expired, by its row. That one
// expires is noted in a state of a scope, unless that is nil.
func shows(st *state.State, doc uint32, sc *Scoped) bool {
	r := st.Docs.Row(doc)
	if !r.Visible(st.LSN) {
		return false
	}
	at := r.Expires.Load()
	if at == 0 {
		return true
	}
	if sc != nil {
		if at <= st.Now {
			at = st.Docs.Hide(r, st.Now)
		}
		sc.expiring(at, st.Now)
	}
	return at > st.Now
}

// everything is the set of all visible documents. What expires is noted in a state
// of a scope, unless that is nil.
func everything(ctx context.Context, st *state.State, sc *Scoped) (*roaring.Bitmap, error) {
	all := roaring.New()
	for chunk, slots := range st.Index.Extents(st.Postings) {
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
			dense[i] = visibleOf(st, first+uint32(64*i), born, sc)
		}
		all.Or(roaring.AddOffset(roaring.FromDense(dense, false), first))
	}
	return all, nil
}

// EachRow visits the rows of all documents of the state, in ascending order, until visit
// returns false.
func EachRow(st *state.State, visit func(doc uint32, r *doctable.Row) bool) {
	more := true
	for chunk, slots := range st.Index.Extents(st.Postings) {
		first := uint64(chunk) << 16
		st.Docs.Rows.EachFrom(first, first+uint64(slots), func(doc uint64, r *doctable.Row) bool {
			more = visit(uint32(doc), r)
			return more
		})
		if !more {
			return
		}
	}
}

// visibleOf are the visible ones of those 64 documents from one on that are born.
func visibleOf(st *state.State, first uint32, born uint64, sc *Scoped) uint64 {
	w := plain(st, int(first/64)) & born
	if st.Docs.Row(first) == nil {
		return w
	}
	for rest := born &^ w; rest != 0; rest &= rest - 1 {
		if bit := bits.TrailingZeros64(rest); shows(st, first+uint32(bit), sc) {
			w |= 1 << bit
		}
	}
	return w
}

// onlyVisible removes what is not born, dead or expired. What expires is noted in a
// state of a scope, unless that is nil.
func onlyVisible(ctx context.Context, st *state.State, set *roaring.Bitmap, sc *Scoped) (*roaring.Bitmap, error) {
	out, err := invisible(ctx, st, set, sc)
	if err != nil {
		return nil, err
	}
	if len(out) > 0 {
		set.AndNot(roaring.BitmapOf(out...))
	}
	return set, nil
}

// invisible are the documents of a set that are not born, dead or expired.
func invisible(ctx context.Context, st *state.State, set *roaring.Bitmap, sc *Scoped) (out []uint32, err error) {
	if set.IsEmpty() {
		return nil, nil
	}
	check := func(doc uint32) {
		if !shows(st, doc, sc) {
			out = append(out, doc)
		}
	}
	if set.GetCardinality() >= uint64(set.Maximum())/denseShare {
		for i, w := range set.ToDense() {
			if i%state.CancelEvery == 0 && ctx.Err() != nil {
				return nil, ctx.Err()
			}
			for w &^= plain(st, i); w != 0; w &= w - 1 {
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
			if plain(st, int(doc/64))>>(doc%64)&1 == 0 {
				check(doc)
			}
		}
	}
	return out, nil
}

// scopeSet intersects the postings of the given fields; nil without any.
func ScopeSet(st *state.State, s memory.Scope) (*roaring.Bitmap, error) {
	return scopeSetIn(st, s, 0, invindex.MaxDoc+1)
}

// scopeSetIn is scopeSet for the documents from one up to, but not including, another.
func scopeSetIn(st *state.State, s memory.Scope, from, to uint32) (*roaring.Bitmap, error) {
	var set *roaring.Bitmap
	for _, f := range []struct {
		field uint16
		class layout.NameClass
		name  string
	}{{layout.FieldRun, layout.NameRun, s.Run}, {layout.FieldUser, layout.NameUser, s.User}, {layout.FieldAgent, layout.NameAgent, s.Agent}} {
		if f.name == "" {
			continue
		}
		num, ok, err := st.Lookup(layout.Name{Class: f.class, Text: f.name})
		if err != nil {
			return nil, err
		}
		if !ok {
			return roaring.New(), nil
		}
		with, err := st.Index.FindIn(st.Postings, invindex.Value{Field: f.field, Key: layout.NumberValue(num)}, from, to)
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

// WithValue is the set of documents with a filter value, visible or not.
func WithValue(st *state.State, field uint16, key string) (*roaring.Bitmap, error) {
	set, err := st.Index.Find(st.Postings, invindex.Value{Field: field, Key: key})
	return set, state.TextError(readingFilters, err)
}

// withField is the set of documents that have any value of a field, visible or not.
func withField(ctx context.Context, st *state.State, field uint16) (*roaring.Bitmap, error) {
	set, err := st.Index.FindField(ctx, st.Postings, field)
	return set, state.TextError(readingFilters, err)
}

// withTimes is the set of documents, visible or not, that have a value of a field which passes the
// test of a condition on times. What is a time is decided here and not when a value is stored, so
// that the index never holds what an older reader of times made of a value.
func withTimes(ctx context.Context, st *state.State, field uint16, test func(v any) bool) (*roaring.Bitmap, error) {
	set, err := st.Index.FindValues(ctx, st.Postings, field, func(key string) bool { return test(scalar.TextOrNumber(key)) })
	return set, state.TextError(readingFilters, err)
}

const readingFilters = "read the filter index"

// Born is the set of documents in a scope that have not died, expired or
// not, and the number of those that have not expired.
func Born(st *state.State, s memory.Scope) (docs *roaring.Bitmap, n int, err error) {
	set, err := ScopeSet(st, s)
	if err != nil {
		return nil, 0, err
	}
	docs = roaring.New()
	born := func(doc uint32, r *doctable.Row) {
		if !r.Visible(st.LSN) {
			return
		}
		docs.Add(doc)
		if !r.Over(st.Now) {
			n++
		}
	}
	if set == nil { // every owner's
		EachRow(st, func(doc uint32, r *doctable.Row) bool {
			born(doc, r)
			return true
		})
		return docs, n, nil
	}
	for it := set.Iterator(); it.HasNext(); {
		doc := it.Next()
		born(doc, st.Docs.Row(doc))
	}
	return docs, n, nil
}
