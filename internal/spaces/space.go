package spaces

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/seed-7aedc3ff/memdb/hnsw"
	"github.com/seed-7aedc3ff/memdb/internal/codec"
	"github.com/seed-7aedc3ff/memdb/internal/doctable"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/simd"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/internal/store"
	"github.com/seed-7aedc3ff/memdb/policy"
)

// Space is a set of vectors that can be compared: one dimension, one metric, one
// model.
type Space struct {
	set    *Set
	Num    uint16
	Name   string
	Dim    int
	Metric hnsw.Metric
	Model  string
	Base   string // where model is, empty for its provider's own; see embed.Base
	Born   uint64 // LSN of the commit that made it; 0: it was there at Open

	Index   *hnsw.Index
	File    *codesFile
	Slots   doctable.Paged[atomic.Uint32] // doc → slot + 1, 0: the doc has no vector here; see freed
	Holders doctable.Paged[slotHolder]    // slot → whose vector it is

	Used    atomic.Int64  // vectors that are not freed
	Asked   atomic.Bool   // a search came, since vectors were last linked, that links would have helped
	Reads   atomic.Int64  // of single vectors from the store by searches, since they were filled
	filled  atomic.Int64  // used, when all that there were were read to be kept
	Added   atomic.Uint64 // vectors ever put into the index since it was opened
	Removed atomic.Uint64
	// Broken is set where linking failed, as for lack of memory: searches then
	// score what is not linked, and writers do not wait for what does not come.
	Broken atomic.Bool
	Saved  saved // of the snapshot on disk; the linker's, and Close's when that has ended
	// Replaces is the space of before a rebuild, until the linker has replaced the snapshot.
	Replaces atomic.Pointer[Space]
	// trust is what the vectors have shown in questions, and what of that recalls go by; turns
	// counts the questions that were learned from.
	trust struct {
		mu       sync.Mutex
		of, told policy.Trust
		asked    uint64
		turns    uint64
		unkept   bool // told is not in the store yet
	}
	// renew has the linker write the snapshot anew, see [Set.Renew].
	renew atomic.Bool
}

// slotHolder is the version that brought the vector in a slot: the vector's key in the
// store, and by its Seq the way to the documents that share it. It is written
// before a document points to the slot, and again only when the slot is used
// again, which nobody then can see by that document.
type slotHolder struct {
	// seq is looked at by searches that meet the slot before its document is
	// born, and so is the only one to be atomic.
	seq    atomic.Uint64
	born   uint64
	owner  uint32
	change uint32
}

func (h *slotHolder) Version() layout.Version {
	return layout.Version{Owner: h.owner, Seq: h.seq.Load(), Born: h.born, Change: h.change}
}

func (h *slotHolder) set(v layout.Version) {
	h.owner, h.born, h.change = v.Owner, v.Born, v.Change
	h.seq.Store(v.Seq)
}

// Truth reads vectors of a space from the store as of a state.
func (s *Space) Truth(st *state.State) hnsw.Truth {
	return func(slot uint32, dst []float32) ([]float32, error) {
		if !s.Index.Live(slot) {
			return nil, &fault.Error{Kind: fault.ErrCorrupt, What: "read a vector", Why: "its slot is free"}
		}
		s.missed()
		v := s.Holders.At(uint64(slot)).Version()
		b, closer, err := st.Reader.Get(st.Keys.Vector(s.Num, v))
		if err != nil {
			return nil, store.Error(fmt.Sprintf("read a vector of memory number %d", v.Seq), err)
		}
		dst, err = codec.FloatsInto(dst, b)
		return dst, errors.Join(err, closer.Close())
	}
}

// Slot is where a doc's vector is.
func (s *Space) Slot(doc uint32) (uint32, bool) {
	p := s.Slots.At(uint64(doc))
	if p == nil {
		return 0, false
	}
	n := p.Load() - 1
	return n, n < NoSlot
}

// Has reports whether a document has a vector in the space, which no document has where s is nil.
func (s *Space) Has(doc uint32) bool {
	if s == nil {
		return false
	}
	_, has := s.Slot(doc)
	return has
}

// freed marks the slot that a document had: it tells those who keep sets of slots
// which one to leave out. Documents with a vector are never given their number again.
const freed = 1 << 31

// Former is the slot that a document has or had.
func (s *Space) Former(doc uint32) (uint32, bool) {
	p := s.Slots.At(uint64(doc))
	if p == nil {
		return 0, false
	}
	n := p.Load()&^freed - 1
	return n, n < NoSlot
}

// SetSlot notes where a document's vector is.
func (s *Space) SetSlot(doc, slot uint32) { s.Slots.Grow(uint64(doc)).Store(slot + 1) }

// EachSlot visits the slots of documents, in parts that are valid until the next.
func (s *Space) EachSlot(set *roaring.Bitmap, visit func(slots []uint32)) {
	docs, part := make([]uint32, CompareBatch), make([]uint32, 0, CompareBatch)
	for it := set.ManyIterator(); ; {
		n := it.NextMany(docs)
		if n == 0 {
			return
		}
		part = slices.DeleteFunc(AppendSlots(part[:0], &s.Slots, docs[:n]), func(slot uint32) bool { return slot >= NoSlot })
		visit(part)
	}
}

// Doc is the document as of lsn whose vector is in a slot, doctable.None if there is none.
func (s *Space) Doc(docs *doctable.Table, slot uint32, lsn uint64) uint32 {
	h := s.Holders.At(uint64(slot))
	if h == nil {
		return doctable.None
	}
	doc := docs.At(h.seq.Load(), lsn)
	if doc == doctable.None {
		return doctable.None
	}
	if at, ok := s.Slot(doc); !ok || at != slot {
		return doctable.None
	}
	return doc
}

// Add puts a document's vector into the index; of is the version that brought it.
// The writer lock is held.
func (s *Space) Add(doc uint32, of layout.Version, vec []float32) error {
	slot, err := s.Index.Add(vec)
	if err != nil {
		return err
	}
	s.Hold(doc, slot, of)
	s.Added.Add(1)
	return nil
}

// Hold notes whose vector is in a slot.
func (s *Space) Hold(doc, slot uint32, of layout.Version) {
	s.Holders.Grow(uint64(slot)).set(of)
	s.SetSlot(doc, slot)
	s.Used.Add(1)
}

// Free takes a document's vector out, unless the next version of its memory keeps
// it. Nobody can see the document any more; the writer lock is held.
func (s *Space) Free(doc uint32, kept bool) {
	slot, ok := s.Slot(doc)
	if !ok {
		return
	}
	s.Slots.At(uint64(doc)).Store(slot + 1 | freed)
	if !kept {
		s.Index.Remove(slot)
		s.Used.Add(-1)
		s.Removed.Add(1)
	}
}

// Bytes is the memory of the vectors, and documents that of the way from documents
// to them.
func (s *Space) Bytes() int64 { return s.Index.Bytes() + s.Holders.Bytes(layout.HolderSize) }

// Documents is the memory of the way from documents to their vectors.
func (s *Space) Documents() int64 {
	const slotSize = 4
	return s.Slots.Bytes(slotSize)
}

// Encode is the space as its name's value has it.
func (s *Space) Encode() []byte {
	b := codec.AppendBytes(nil, s.Model)
	b = append(b, byte(s.Metric), byte(s.Dim), byte(s.Dim>>8))
	if s.Base != "" {
		b = codec.AppendBytes(b, s.Base)
	}
	return b
}

// Check checks a vector by itself and against its space, nil if that does not exist
// yet: the vector makes it then.
func (s *Space) Check(doing, name string, vec []float32) error {
	dim, metric := 0, hnsw.Cosine
	if s != nil {
		dim, metric = s.Dim, s.Metric
	}
	err := hnsw.CheckVector(vec, dim, metric)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, hnsw.ErrDimension) && dim != 0:
		return dimensionError(doing, name, dim, len(vec))
	}
	return &fault.Error{Kind: fault.ErrInvalid, What: doing, Why: fmt.Sprintf("its vector in the space %s cannot be used", name), Cause: err, Do: "check what made it"}
}

func dimensionError(doing, name string, want, got int) error {
	return fault.Invalid(doing, fmt.Sprintf("its vector has %d dimensions, those of the space %s have %d", got, name, want),
		"use the model that made the others, or another space")
}

// NoSlot stands for a document without a vector: so do the numbers above it.
const NoSlot = hnsw.MaxSlots

// AppendSlots appends the slots of documents, as a table has them plus one.
func AppendSlots(dst []uint32, table *doctable.Paged[atomic.Uint32], docs []uint32) []uint32 {
	for i, doc := range docs {
		if i+Ahead < len(docs) {
			simd.Prefetch(unsafe.Pointer(table.At(uint64(docs[i+Ahead]))))
		}
		slot := uint32(0)
		if p := table.At(uint64(doc)); p != nil {
			slot = p.Load()
		}
		dst = append(dst, slot-1) // of 0 that is above NoSlot
	}
	return dst
}

// CompareBatch is how many rows are scored between looks at the context, and stay in
// a processor's cache until their scales have been read.
const CompareBatch = 1024

// Ahead is how many documents ahead of the one that is looked at are fetched from
// memory: those of an owner are spread over tables of many megabytes.
const Ahead = 12

// Similarity makes a score one that can stand for a cosine: a distance d is
// 1/(1+d). Dot products are expected to be those of vectors of length one or less
// where somebody mixes them with other signals.
func (s *Space) Similarity(score float32) float32 {
	switch s.Metric {
	case hnsw.L2:
		return 1 / (1 - score)
	case hnsw.Dot:
		return max(-1, min(1, score))
	}
	return score
}

// Trust is what the vectors of the space have shown in questions, as of some questions ago: it
// changes when there are twice as many as before, and then every trustEvery, so that the same
// question asked again has the same answer nearly always.
func (s *Space) Trust() policy.Trust {
	s.trust.mu.Lock()
	defer s.trust.mu.Unlock()
	return s.trust.told
}

// The first number of questions whose sum is told, and after how many more it is at the latest.
const trustFirst, trustEvery = 8, 256

// Learn takes in what one question has shown: see policy.Trust.
func (s *Space) Learn(stands, follows float64) {
	s.trust.mu.Lock()
	defer s.trust.mu.Unlock()
	s.trust.of.Add(stands, follows)
	s.trust.turns++
	if n := s.trust.turns; n%trustEvery == 0 || n >= trustFirst && n&(n-1) == 0 {
		s.trust.told, s.trust.unkept = s.trust.of, true
	}
}

// Remember goes on from what the vectors had shown when the database was closed.
func (s *Space) Remember(t policy.Trust) {
	s.trust.mu.Lock()
	defer s.trust.mu.Unlock()
	s.trust.of, s.trust.told, s.trust.turns = t, t, uint64(t.Asked)
}

// Unkept returns what recalls go by, and whether that is not in the store yet.
func (s *Space) Unkept() (t policy.Trust, unkept bool) {
	s.trust.mu.Lock()
	defer s.trust.mu.Unlock()
	return s.trust.told, s.trust.unkept
}

// Kept notes that what recalls went by is in the store.
func (s *Space) Kept(t policy.Trust) {
	s.trust.mu.Lock()
	defer s.trust.mu.Unlock()
	s.trust.unkept = s.trust.told != t
}

// Teaches reports whether a question is to be learned from: the first ones, and then one of every
// so many.
func (s *Space) Teaches(first, every uint64) bool {
	s.trust.mu.Lock()
	defer s.trust.mu.Unlock()
	s.trust.asked++
	return s.trust.asked <= first || s.trust.asked%every == 0
}
