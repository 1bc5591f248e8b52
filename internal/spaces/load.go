package spaces

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/seed-7aedc3ff/memdb/hnsw"
	"github.com/seed-7aedc3ff/memdb/internal/codec"
	"github.com/seed-7aedc3ff/memdb/internal/ctxio"
	"github.com/seed-7aedc3ff/memdb/internal/doctable"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/panics"
	"github.com/seed-7aedc3ff/memdb/internal/store"
)

// loader gathers, while Open loads, which documents have which vectors, and
// reads the snapshots beside that.
type loader struct {
	wants  map[uint16][]want // by space
	cancel context.CancelFunc
	read   chan map[uint16]*snapshot // what was read of each space, once
}

// want is a vector that a document needs: brought by a version.
type want struct {
	doc uint32 // doctable.None: it has been found
	of  layout.Version
}

// snapshot is a space's index as a file has it.
type snapshot struct {
	name    string
	index   *hnsw.Index
	holders []layout.Version // by slot
}

// BeginLoad starts reading the snapshots of the spaces.
func (ss *Set) BeginLoad() {
	ctx, cancel := context.WithCancel(context.Background())
	l := &loader{wants: map[uint16][]want{}, cancel: cancel, read: make(chan map[uint16]*snapshot, 1)}
	ss.loading = l
	spaces := ss.All()
	go func() {
		read := map[uint16]*snapshot{}
		err := panics.Catch("reads snapshots of vectors", func() {
			for _, s := range spaces {
				if snap := ss.readSnapshots(ctx, s); snap != nil {
					read[s.Num] = snap
				}
			}
		})
		if err != nil { // what it has not read is made anew from the vectors
			ss.Logger.Error("a snapshot of vectors was not read", "error", err)
		}
		l.read <- read
	}()
}

// StopLoading ends the reading where Open fails.
func (ss *Set) StopLoading() {
	if l := ss.loading; l != nil {
		l.cancel()
		<-l.read
	}
}

// wantsLeast is how many vectors a space has room for from the first on.
const wantsLeast = 1 << 10

// Want notes the vectors of a document.
func (ss *Set) Want(doc uint32, v *layout.Version, refs []layout.VectorRef) {
	l := ss.loading
	for _, ref := range refs {
		wants := l.wants[ref.Space]
		if len(wants) == cap(wants) {
			// Twice as many at a time: growing by less leaves more behind in all.
			wants = slices.Grow(wants, max(len(wants), wantsLeast))
		}
		l.wants[ref.Space] = append(wants, want{doc, ref.Of(*v)})
	}
}

// Load fills the indexes with the vectors that live documents refer to:
// from the snapshots, and what those lack from the store.
func (ss *Set) Load() error {
	l := ss.loading
	ss.loading = nil
	read := <-l.read
	l.cancel()
	for num, wants := range l.wants {
		if ss.Numbered(num) == nil {
			ss.Lost(fmt.Sprintf("the vector space of %d memories", len(wants)), &fault.Error{Kind: fault.ErrCorrupt, What: "load vectors", Why: fmt.Sprintf("there is no space number %d", num)})
			continue
		}
		// By document, which is nearly the order in which they were added.
		slices.SortFunc(wants, func(a, b want) int { return cmp.Compare(a.doc, b.doc) })
	}
	for _, s := range ss.All() {
		wants := l.wants[s.Num]
		if snap := read[s.Num]; snap != nil {
			ss.adopt(s, snap, wants)
		}
		if err := ss.loadMissing(s, wants); err != nil {
			return err
		}
	}
	return nil
}

// adopt makes a snapshot the index of a space: documents get the slots of their
// vectors, and what no document refers to any more is taken out.
func (ss *Set) adopt(s *Space, snap *snapshot, wants []want) {
	s.Index = snap.index
	at := 0
	for slot := range s.Index.Len() {
		// A node that lost its row is a waypoint still, and the next snapshot asks
		// for its holder too.
		of, doc := snap.holders[slot], uint32(doctable.None)
		s.Holders.Grow(uint64(slot)).set(of)
		if !s.Index.Live(slot) {
			continue
		}
		if row := ss.Tables.Docs.Seq(of.Seq); row != nil {
			doc = row.Doc.Load() - 1
		}
		// In a database that has seen few changes slots are in the order of
		// documents.
		if at >= len(wants) || wants[at].doc != doc {
			at, _ = slices.BinarySearchFunc(wants, doc, func(w want, doc uint32) int { return cmp.Compare(w.doc, doc) })
		}
		_, has := s.Slot(doc)
		if has || at >= len(wants) || wants[at] != (want{doc, of}) {
			s.Index.Remove(slot)
			s.Removed.Add(1)
			continue
		}
		s.Hold(doc, slot, of)
		at++
	}
	s.Added.Store(uint64(s.Used.Load()))
	s.Saved = saved{Name: snap.name, added: s.Added.Load(), work: s.Index.Work()}
}

// loadMissing reads from the store the vectors that no slot holds yet, in the order
// of their keys.
func (ss *Set) loadMissing(s *Space, wants []want) (err error) {
	missing := slices.DeleteFunc(wants, func(w want) bool {
		_, has := s.Slot(w.doc)
		return has
	})
	if len(missing) == 0 {
		return nil
	}
	slices.SortFunc(missing, func(a, b want) int { return ss.keys().CompareVectors(a.of, b.of) })
	lower := ss.keys().Vector(s.Num, missing[0].of)
	upper := append(ss.keys().Vector(s.Num, missing[len(missing)-1].of), 0)
	in := &seeker{reader: ss.Store, lower: lower, upper: upper}
	defer func() { err = errors.Join(err, in.close()) }()
	vec := make([]float32, 0, s.Dim)
	for _, w := range missing {
		value, err := in.seek(ss.keys().Vector(s.Num, w.of))
		if err == nil {
			if vec, err = codec.FloatsInto(vec[:0], value); err != nil {
				err = &fault.Error{Kind: fault.ErrCorrupt, What: "load a vector", Cause: err}
			}
		}
		if store.Unreadable(err) {
			ss.Lost(fmt.Sprintf("the vector of memory number %d in the space %s", w.of.Seq, s.Name), err)
			continue
		}
		if err != nil {
			return err
		}
		if err := s.Add(w.doc, w.of, vec); err != nil {
			// It should never have been stored, but all others can be had.
			ss.Logger.Error("a vector can't be indexed, so that no search by vectors finds its memory; check names it",
				"space", s.Name, "memory number", w.of.Seq, "error", err)
		}
	}
	return nil
}

// readSnapshots returns the newest snapshot of a space that can be used, nil if
// there is none. What cannot be used is removed later, as what is old.
func (ss *Set) readSnapshots(ctx context.Context, s *Space) *snapshot {
	names, err := ss.Store.FS.List(ss.Dir)
	if err != nil {
		ss.Logger.Warn("the folder could not be listed; vectors are indexed anew", "error", err)
		return nil
	}
	slices.Sort(names) // of one space by LSN
	for _, name := range slices.Backward(names) {
		space, lsn, ok := ParseSnapshotName(name)
		if !ok || space != s.Num {
			continue
		}
		snap, err := ss.readSnapshot(ctx, s, name, lsn)
		if err == nil {
			return snap
		}
		if ctx.Err() != nil {
			return nil
		}
		ss.Logger.Warn("a snapshot of vectors cannot be used; they are indexed anew", "file", name, "error", err)
	}
	return nil
}

func (ss *Set) readSnapshot(ctx context.Context, s *Space, name string, lsn uint64) (snap *snapshot, err error) {
	file, err := ss.Store.FS.Open(ss.Store.FS.PathJoin(ss.Dir, name))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	in := bufio.NewReaderSize(ctxio.Reader(ctx, file), snapshotBuffer)
	r := &spaceReader{in: in, sum: xxh3.New()}
	slots, err := r.header(ss, s.Num, lsn)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if size := info.Size(); int64(slots) > size/layout.HolderSize {
		return nil, badSnapshot("it says that it has %d slots in %d bytes", slots, size)
	}
	holders, err := r.holders(slots)
	if err != nil {
		return nil, err
	}
	index, err := hnsw.ReadSnapshot(in, ss.IndexConfig(s))
	if err != nil {
		return nil, err
	}
	if index.Len() != slots {
		return nil, badSnapshot("it has %d slots and the holders of %d", index.Len(), slots)
	}
	if _, err := in.ReadByte(); !errors.Is(err, io.EOF) {
		return nil, badSnapshot("something follows its end")
	}
	return &snapshot{name: name, index: index, holders: holders}, nil
}

func badSnapshot(format string, args ...any) error {
	return &fault.Error{Kind: fault.ErrCorrupt, What: "read a snapshot of vectors", Why: fmt.Sprintf(format, args...)}
}

// spaceReader reads what stands before the index in a snapshot.
type spaceReader struct {
	in  io.Reader
	sum *xxh3.Hasher
	buf []byte
}

// take reads n bytes, which are valid until the next call.
func (r *spaceReader) take(n int) ([]byte, error) {
	r.buf = slices.Grow(r.buf[:0], n)[:n]
	if _, err := io.ReadFull(r.in, r.buf); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = badSnapshot("it ends early")
		}
		return nil, err
	}
	_, _ = r.sum.Write(r.buf) // hashers don't fail
	return r.buf, nil
}

func (r *spaceReader) checksum() error {
	want := r.sum.Sum64()
	b, err := r.take(checksumSize)
	if err != nil {
		return err
	}
	if got := binary.LittleEndian.Uint64(b); got != want {
		return badSnapshot("its checksum is %016x; what it holds has %016x", got, want)
	}
	r.sum.Reset()
	return nil
}

// header reads and checks whose snapshot it is.
func (r *spaceReader) header(ss *Set, num uint16, lsn uint64) (slots uint32, err error) {
	b, err := r.take(layout.SnapshotHeadSize)
	if err != nil {
		return 0, err
	}
	h, err := layout.DecodeSnapshotHead(b)
	if err != nil {
		return 0, err
	}
	if err := r.checksum(); err != nil {
		return 0, err
	}
	switch {
	case h.DB != ss.ID():
		return 0, badSnapshot("it is of another database")
	case h.Space != num || h.LSN != lsn:
		return 0, badSnapshot("it is that of space %d at LSN %d under another name", h.Space, h.LSN)
	case lsn > ss.Applied():
		return 0, badSnapshot("it is newer than the store, whose LSN is %d", ss.Applied())
	case h.Slots > hnsw.MaxSlots:
		return 0, badSnapshot("%d slots", h.Slots)
	}
	is, err := ss.logMark(lsn)
	if err != nil || is != h.Mark {
		return 0, badSnapshot("the store has another past, or has forgotten it")
	}
	return h.Slots, nil
}

// holders reads whose the slots are. There may be as many, going by the file's size.
func (r *spaceReader) holders(slots uint32) ([]layout.Version, error) {
	all := make([]layout.Version, 0, slots)
	for left := slots; left > 0; {
		n := min(left, snapshotBuffer/layout.HolderSize)
		b, err := r.take(int(n) * layout.HolderSize)
		if err != nil {
			return nil, err
		}
		for ; len(b) > 0; b = b[layout.HolderSize:] {
			all = append(all, layout.DecodeHolder(b))
		}
		left -= n
	}
	return all, r.checksum()
}
