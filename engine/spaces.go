package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/seed-7aedc3ff/memdb/embed"
	"github.com/seed-7aedc3ff/memdb/hnsw"
	"github.com/seed-7aedc3ff/memdb/internal/codec"
	"github.com/seed-7aedc3ff/memdb/internal/doctable"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/store"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// pendingSpace stands for the default space in the keys of what is still to
// be embedded: that space may not exist yet.
const pendingSpace = 0

// space is a set of vectors that can be compared: one dimension, one metric, one
// model.
type space struct {
	num    uint16
	name   string
	dim    int
	metric hnsw.Metric
	model  string
	base   string // where model is, empty for its provider's own; see embed.Base
	born   uint64 // LSN of the commit that made it; 0: it was there at Open

	index   *hnsw.Index
	file    *codesFile
	slots   doctable.Paged[atomic.Uint32] // doc → slot + 1, 0: the doc has no vector here; see freed
	holders doctable.Paged[slotHolder]    // slot → whose vector it is

	used    atomic.Int64  // vectors that are not freed
	asked   atomic.Bool   // a search came, since vectors were last linked, that links would have helped
	reads   atomic.Int64  // of single vectors from the store by searches, since they were filled
	filled  atomic.Int64  // used, when all that there were were read to be kept
	added   atomic.Uint64 // vectors ever put into the index since it was opened
	removed atomic.Uint64
	// broken is set where linking failed, as for lack of memory: searches then
	// score what is not linked, and writers do not wait for what does not come.
	broken atomic.Bool
	saved  saved // of the snapshot on disk; the linker's, and Close's when that has ended
	// replaces is the space of before a rebuild, until the linker has replaced the snapshot.
	replaces atomic.Pointer[space]
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

func (h *slotHolder) version() layout.Version {
	return layout.Version{Owner: h.owner, Seq: h.seq.Load(), Born: h.born, Change: h.change}
}

func (h *slotHolder) set(v layout.Version) {
	h.owner, h.born, h.change = v.Owner, v.Born, v.Change
	h.seq.Store(v.Seq)
}

func (db *DB) newSpace(num uint16, name string, dim int, metric hnsw.Metric, model string) (*space, error) {
	s := &space{num: num, name: name, dim: dim, metric: metric, model: model, file: db.newCodesFile(num)}
	index, err := hnsw.New(db.indexConfig(s))
	if err != nil {
		return nil, &fault.Error{Kind: fault.ErrInvalid, What: "open the vector space " + name, Cause: err}
	}
	s.index = index
	return s, nil
}

// indexConfig is that of a space's index, new or read from a snapshot.
func (db *DB) indexConfig(s *space) hnsw.Config {
	return hnsw.Config{
		Dim: s.dim, Metric: s.metric, Seed: uint64(s.num), Crossover: db.limits.crossover,
		File: s.file, CodeMemory: db.codesShare(), Sketched: db.limits.sketched, Truth: noTruth, Rows: db.rows,
	}
}

// noTruth stands for the truth of each search, which reads what its transaction
// sees: see Tx.truth.
func noTruth(uint32, []float32) ([]float32, error) {
	return nil, errors.New("a search of vectors without a transaction")
}

// truth reads vectors of a space from the store as of the transaction.
func (tx *Tx) truth(s *space) hnsw.Truth {
	return func(slot uint32, dst []float32) ([]float32, error) {
		if !s.index.Live(slot) {
			return nil, &fault.Error{Kind: fault.ErrCorrupt, What: "read a vector", Why: "its slot is free"}
		}
		s.missed(tx.db)
		v := s.holders.At(uint64(slot)).version()
		b, closer, err := tx.state.Reader.Get(tx.state.Keys.Vector(s.num, v))
		if err != nil {
			return nil, store.Error(fmt.Sprintf("read a vector of memory number %d", v.Seq), err)
		}
		dst, err = codec.FloatsInto(dst, b)
		return dst, errors.Join(err, closer.Close())
	}
}

// slot is where a doc's vector is.
func (s *space) slot(doc uint32) (uint32, bool) {
	p := s.slots.At(uint64(doc))
	if p == nil {
		return 0, false
	}
	n := p.Load() - 1
	return n, n < noSlot
}

// has tells whether a document has a vector in the space, which no document has where s is nil.
func (s *space) has(doc uint32) bool {
	if s == nil {
		return false
	}
	_, has := s.slot(doc)
	return has
}

// freed marks the slot that a document had: it tells those who keep sets of slots
// which one to leave out. Documents with a vector are never given their number again.
const freed = 1 << 31

// former is the slot that a document has or had.
func (s *space) former(doc uint32) (uint32, bool) {
	p := s.slots.At(uint64(doc))
	if p == nil {
		return 0, false
	}
	n := p.Load()&^freed - 1
	return n, n < noSlot
}

func (s *space) setSlot(doc, slot uint32) { s.slots.Grow(uint64(doc)).Store(slot + 1) }

// eachSlot visits the slots of documents, in parts that are valid until the next.
func (s *space) eachSlot(set *roaring.Bitmap, visit func(slots []uint32)) {
	docs, part := make([]uint32, compareBatch), make([]uint32, 0, compareBatch)
	for it := set.ManyIterator(); ; {
		n := it.NextMany(docs)
		if n == 0 {
			return
		}
		part = slices.DeleteFunc(appendSlots(part[:0], &s.slots, docs[:n]), func(slot uint32) bool { return slot >= noSlot })
		visit(part)
	}
}

// doc is the document as of lsn whose vector is in a slot, noDoc if there is none.
func (s *space) doc(docs *doctable.Table, slot uint32, lsn uint64) uint32 {
	h := s.holders.At(uint64(slot))
	if h == nil {
		return doctable.None
	}
	doc := docs.At(h.seq.Load(), lsn)
	if doc == doctable.None {
		return doctable.None
	}
	if at, ok := s.slot(doc); !ok || at != slot {
		return doctable.None
	}
	return doc
}

// add puts a document's vector into the index; of is the version that brought it.
// The writer lock is held.
func (s *space) add(doc uint32, of layout.Version, vec []float32) error {
	slot, err := s.index.Add(vec)
	if err != nil {
		return err
	}
	s.hold(doc, slot, of)
	s.added.Add(1)
	return nil
}

// hold notes whose vector is in a slot.
func (s *space) hold(doc, slot uint32, of layout.Version) {
	s.holders.Grow(uint64(slot)).set(of)
	s.setSlot(doc, slot)
	s.used.Add(1)
}

// free takes a document's vector out, unless the next version of its memory keeps
// it. Nobody can see the document any more; the writer lock is held.
func (s *space) free(doc uint32, kept bool) {
	slot, ok := s.slot(doc)
	if !ok {
		return
	}
	s.slots.At(uint64(doc)).Store(slot + 1 | freed)
	if !kept {
		s.index.Remove(slot)
		s.used.Add(-1)
		s.removed.Add(1)
	}
}

// bytes is the memory of the vectors, and documents that of the way from documents
// to them.
func (s *space) bytes() int64 { return s.index.Bytes() + s.holders.Bytes(holderSize) }

func (s *space) documents() int64 {
	const slotSize = 4
	return s.slots.Bytes(slotSize)
}

func (s *space) info() SpaceInfo {
	st, used := s.index.Stats(), s.used.Load()
	linked := min(int64(st.Linked-st.Removed), used)
	return SpaceInfo{
		Name: s.name, Dim: s.dim, Metric: s.metric.String(), Model: s.model, Base: s.base,
		Vectors: used, Linked: linked, Unlinked: used - linked, Bytes: s.bytes(), FileBytes: st.FileBytes,
	}
}

func (s *space) encode() []byte {
	b := codec.AppendBytes(nil, s.model)
	b = append(b, byte(s.metric), byte(s.dim), byte(s.dim>>8))
	if s.base != "" {
		b = codec.AppendBytes(b, s.base)
	}
	return b
}

func (db *DB) decodeSpace(num uint32, name string, b []byte) (*space, error) {
	r := codec.NewReader(b)
	model := r.String()
	metric := hnsw.Metric(r.Byte())
	dim := int(r.Byte()) | int(r.Byte())<<8
	base := ""
	if r.Len() > 0 {
		base = r.String()
	}
	if r.Err() != nil {
		return nil, &fault.Error{Kind: fault.ErrCorrupt, What: "read the vector space " + name, Cause: r.Err()}
	}
	s, err := db.newSpace(uint16(num), name, dim, metric, model)
	if err != nil { // what is stored was once valid
		return nil, &fault.Error{Kind: fault.ErrCorrupt, What: "read the vector space " + name, Why: err.Error(), Do: rescueIt}
	}
	s.base = base
	return s, nil
}

// spaces are those of a database; the writer adds, readers look up.
type spaces struct {
	mu     sync.RWMutex
	byName map[string]*space
	byNum  map[uint16]*space
}

func newSpaces() *spaces {
	return &spaces{byName: map[string]*space{}, byNum: map[uint16]*space{}}
}

func (ss *spaces) named(name string) *space {
	ss.mu.RLock()
	defer ss.mu.RUnlock()
	return ss.byName[name]
}

func (ss *spaces) numbered(num uint16) *space {
	ss.mu.RLock()
	defer ss.mu.RUnlock()
	return ss.byNum[num]
}

func (ss *spaces) all() []*space {
	ss.mu.RLock()
	defer ss.mu.RUnlock()
	all := make([]*space, 0, len(ss.byNum))
	for _, s := range ss.byNum {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b *space) int { return int(a.num) - int(b.num) })
	return all
}

func (ss *spaces) add(s *space) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.byName[s.name], ss.byNum[s.num] = s, s
}

func (ss *spaces) remove(s *space) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	delete(ss.byName, s.name)
	delete(ss.byNum, s.num)
}

// spaceAt is the space of a name as of an LSN, nil if there is none.
func (db *DB) spaceAt(name string, lsn uint64) *space {
	if s := db.spaces.named(name); s != nil && s.born <= lsn {
		return s
	}
	return nil
}

// knownSpace refuses the name of a space that nothing was ever stored in, but for the
// default one, in which the first vector may still come.
func (db *DB) knownSpace(name string) error {
	if name == memory.DefaultSpace || db.spaces.named(name) != nil {
		return nil
	}
	names := []string{memory.DefaultSpace}
	for _, s := range db.spaces.all() {
		if s.name != memory.DefaultSpace {
			names = append(names, s.name)
		}
	}
	return fault.Invalid(doingRecall, fmt.Sprintf("there is no vector space %q", valid.Short(name)), "name one that there is: "+strings.Join(names, ", "))
}

// check checks a vector by itself and against its space, nil if that does not exist
// yet: the vector makes it then.
func (s *space) check(doing, name string, vec []float32) error {
	dim, metric := 0, hnsw.Cosine
	if s != nil {
		dim, metric = s.dim, s.metric
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

// lexical holds the vectors of the built-in embedder. They are derived from the
// text alone, so they are a cache by doc ID: made when a query first needs them,
// kept in RAM as int8, in no file.
type lexical struct {
	model *embed.Lexical
	mu    sync.Mutex // held to add
	index *hnsw.Index
	slots doctable.Paged[atomic.Uint32] // doc → slot + 1
	none  uint32                        // the slot + 1 that marks a doc without features
}

func newLexical() (*lexical, error) {
	model := embed.NewLexical()
	index, err := hnsw.New(hnsw.Config{Dim: model.Dim(), Metric: hnsw.Cosine, Quantized: true})
	if err != nil {
		return nil, err
	}
	return &lexical{model: model, index: index, none: 1<<32 - 1}, nil
}

// fill makes the missing vectors of docs. text gives a doc's text.
func (l *lexical) fill(ctx context.Context, docs []uint32, text func(doc uint32) (string, error)) error {
	for i, doc := range docs {
		if p := l.slots.At(uint64(doc)); p != nil && p.Load() != 0 {
			continue
		}
		if i%64 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		s, err := text(doc)
		if err != nil {
			return err
		}
		vecs, err := l.model.Embed(ctx, []string{s})
		if err != nil {
			return err
		}
		if err := l.add(doc, vecs[0]); err != nil {
			return err
		}
	}
	return nil
}

func (l *lexical) add(doc uint32, vec []float32) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.slots.Grow(uint64(doc))
	if p.Load() != 0 {
		return nil
	}
	if hnsw.CheckVector(vec, l.index.Config().Dim, hnsw.Cosine) != nil {
		p.Store(l.none) // a text without a single feature, such as "!"
		return nil
	}
	slot, err := l.index.Add(vec)
	if err != nil {
		return err
	}
	p.Store(slot + 1)
	return nil
}

// forget frees the vector of a doc that nobody can see any more.
func (l *lexical) forget(doc uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.slots.At(uint64(doc))
	if p == nil {
		return
	}
	if n := p.Load(); n != 0 && n != l.none {
		l.index.Remove(n - 1)
	}
	p.Store(0)
}

// release drops what is kept of the docs of a chunk, which were forgotten.
func (l *lexical) release(first, end uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.slots.Release(first, end)
}
