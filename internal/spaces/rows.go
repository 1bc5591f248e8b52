package spaces

import (
	"context"
	"errors"
	"slices"

	"github.com/seed-7aedc3ff/memdb/internal/codec"
	"github.com/seed-7aedc3ff/memdb/internal/doctable"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/internal/turn"
)

const (
	// fillShare: once searches have read one in so many of a space's vectors from the
	// store, all are read, in the order of their keys: that takes a quarter of what they
	// would take one by one, and nobody waits for it.
	fillShare = 16
	// fillAgain: they are read again when the space has so many times the vectors that
	// it had.
	fillAgain = 2
	// fillPart is how many are read before the state is let go that they are read of.
	fillPart = 1024
)

// missed notes that a search has read a vector from the store.
func (s *Space) missed() {
	s.Reads.Add(1)
	if s.fillDue() {
		s.set.Linker.Wake()
	}
}

// fillDue reports whether all vectors of the space are to be read, to be kept where
// searches find them: they are met in no order, and one by one to read them takes much
// longer.
func (s *Space) fillDue() bool {
	used := s.Used.Load()
	return s.Reads.Load() >= max(s.set.Limits.FillLeast, used/fillShare) && used >= fillAgain*s.filled.Load() && s.Index.KeepsAll()
}

// fill reads the vectors of a space. It is the linker's work.
func (s *Space) fill(ctx context.Context) {
	s.filled.Store(max(1, s.Used.Load()))
	s.Reads.Store(0)
	from := s.set.keys().Vectors(s.Num)
	upper := layout.PrefixEnd(from)
	for from != nil && ctx.Err() == nil {
		err := s.set.View(ctx, func(st *state.State) (err error) {
			from, err = s.keepRows(st, from, upper)
			return err
		})
		if err != nil {
			if ctx.Err() == nil && !errors.Is(err, fault.ErrClosed) {
				s.set.Logger.Warn("reading vectors ahead of searches failed; they are read when they are needed", "space", s.Name, "error", err)
			}
			return
		}
	}
}

// keepRows reads some vectors in the order of their keys and keeps those that are in
// an index as of the state: nobody gives their slots away meanwhile. It returns
// the key to go on from, nil after the last.
func (s *Space) keepRows(st *state.State, from, upper []byte) (next []byte, err error) {
	it, err := st.Reader.Iter(from, upper)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	vec := make([]float32, 0, s.Dim)
	n := 0
	var turn turn.Turn
	for ok := it.First(); ok; ok = it.Next() {
		if n++; n > fillPart {
			return slices.Clone(it.Key()), nil
		}
		slot, ok := s.slotOf(st, it.Key())
		if !ok {
			continue
		}
		value, err := it.ValueAndErr()
		if err != nil {
			return nil, err
		}
		if vec, err = codec.FloatsInto(vec[:0], value); err != nil {
			return nil, err
		}
		s.Index.Keep(slot, vec)
		turn.Spare()
	}
	return nil, it.Error()
}

// slotOf is the slot of the vector under a key, if the state has a document that
// has it.
func (s *Space) slotOf(st *state.State, key []byte) (uint32, bool) {
	v, ok := layout.ParseVectorKey(key)
	if !ok {
		return 0, false
	}
	doc := st.Docs.At(v.Seq, st.LSN)
	if doc == doctable.None {
		return 0, false
	}
	slot, ok := s.Slot(doc)
	return slot, ok && s.Holders.At(uint64(slot)).Version() == v
}
