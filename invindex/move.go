package invindex

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
)

const (
	// moveCache is enough for the pages that a move reads one after another, so that they
	// do not push those of queries out of memory.
	moveCache = 4 << 20
	// MaxMovedPages is the most pages that the chunks of a move should have together, see
	// [Index.Pages]: pages have numbers of 16 bits, and lists that were short in several
	// chunks may take twice their room in one.
	MaxMovedPages = 1 << 15
	// NoDoc stands for no document where Move is given documents: its slot stays empty.
	NoDoc = math.MaxUint32
)

// Move writes documents of sealed chunks to w as a new chunk, in the order in which
// they are given: docs[i] becomes the document of slot i, NoDoc of none. They keep their terms,
// lengths, values and numbers; the pages are those that Seal would have written, had
// they been added. The index changes only by Moved. Move may run beside readers and the
// writer. Lists go from page to page: it takes the memory of the lengths and the numbers,
// of a page or two of each chunk, and of the longest list.
//
// It is ErrInvalid for a document that the snapshot does not have in a sealed chunk, or
// that comes twice, and for none or more than a chunk holds. The caller sees to it that
// the number of the chunk is free, see Moved.
func (x *Index) Move(ctx context.Context, s Snapshot, w Writer, chunk uint16, docs []uint32) error {
	if len(docs) == 0 || len(docs) > chunkDocs {
		return fmt.Errorf("%w: %d documents to move; 1 to %d are possible", ErrInvalid, len(docs), chunkDocs)
	}
	own := New(Config{Prefix: x.prefix, CacheBytes: moveCache})
	m := &mover{ctx: ctx, reader: s.Reader, to: newHotChunk(chunk, &own.memory)}
	sources, n := map[uint16][]uint32{}, 0
	for i, doc := range docs {
		if doc == NoDoc {
			continue
		}
		n++
		place := sources[uint16(doc>>16)]
		slot := int(doc % chunkDocs)
		place = append(place, make([]uint32, max(slot+1-len(place), 0))...)
		place[slot] = uint32(i + 1)
		sources[uint16(doc>>16)] = place
	}
	for _, c := range s.list(x) {
		place := sources[c.id()]
		if place == nil {
			continue
		}
		if _, sealed := c.(*sealedChunk); !sealed {
			return fmt.Errorf("%w: chunk %d is not sealed", ErrInvalid, c.id())
		}
		from, err := own.openSealed(s.Reader, c.id())
		if err == nil {
			err = m.take(&source{from, place})
		}
		if err != nil {
			return err
		}
	}
	if n == 0 || m.moved < n {
		return fmt.Errorf("%w: %d of %d documents to move are in no chunk, or come twice", ErrInvalid, n-m.moved, n)
	}
	return m.write(x.newSealer(w, m.to))
}

// Pages is how many pages of keys and of lists a sealed chunk has, 0 for others.
func (x *Index) Pages(chunk uint16) int {
	if at, ok := placeOf(x.list(), chunk); ok {
		if c, sealed := x.list()[at].(*sealedChunk); sealed {
			return len(c.terms.pages) + len(c.values.pages) + len(c.postings)
		}
	}
	return 0
}

// Moved makes what Move wrote a part of the index, and in the same step drops chunks:
// those that the documents were in. r must find the pages: the store after the commit
// that holds them. Snapshots pinned before go on reading the chunks that they pinned,
// where their Reader still finds the pages; each later one has each document once.
//
// The number may be one that was dropped, now or before, or was passed over by Add, or
// any other that no chunk has. One goroutine may call it
// at a time, and none beside Add, Sealed or Drop.
func (x *Index) Moved(r Reader, number uint16, drop ...uint16) error {
	chunks := x.list()
	at, taken := placeOf(chunks, number)
	if hot := taken && isHot(chunks[at]); taken && (hot || !slices.Contains(drop, number)) {
		return fmt.Errorf("%w: documents can't be moved to chunk %d, which there is", ErrInvalid, number)
	}
	c, err := x.openSealed(r, number)
	if err != nil {
		return err
	}
	x.drop(drop, slices.Insert(slices.Clone(chunks), at, chunk(c)), c)
	return nil
}

func isHot(c chunk) bool {
	_, hot := c.(*hotChunk)
	return hot
}

// mover gathers documents in a new chunk.
type mover struct {
	ctx    context.Context
	reader Reader
	to     *hotChunk // has their lengths and numbers, and no lists
	from   []*source
	moved  int
}

// source is a chunk that documents come from.
type source struct {
	*sealedChunk
	// place is where its documents go, by slot: a slot plus one, or 0.
	place []uint32
}

// slot is where the document of a slot goes, if it does.
func (f *source) slot(from uint32) (to uint16, ok bool) {
	if from >= uint32(len(f.place)) || f.place[from] == 0 {
		return 0, false
	}
	return uint16(f.place[from] - 1), true
}

// take adds a source.
func (m *mover) take(f *source) error {
	lengths, err := f.lengths(m.reader)
	if err != nil {
		return err
	}
	for slot := range f.place {
		to, ok := f.slot(uint32(slot))
		if !ok {
			continue
		}
		stored := lengths.stored(uint32(slot))
		if stored == 0 {
			return fmt.Errorf("%w: there is no document %d to move", ErrInvalid, uint32(f.number)<<16|uint32(slot))
		}
		m.to.setLength(to, stored)
		m.moved++
	}
	if !f.numbered {
		m.to.columns.unknown.Store(true)
	}
	m.from = append(m.from, f)
	return f.eachNumber(m.reader, func(field uint16, value uint64, slot uint16) {
		if to, ok := f.slot(uint32(slot)); ok {
			m.to.columns.put(field, pair{value, to})
		}
	})
}

// write writes the pages.
func (m *mover) write(s *sealer) error {
	if err := m.merge(s, ofTerms, s.addTerm); err != nil {
		return err
	}
	s.endTerms()
	if err := m.merge(s, ofValues, s.addValue); err != nil {
		return err
	}
	return s.end()
}

// merge gives the lists of all sources to add, in the order of their keys.
func (m *mover) merge(s *sealer, kind dictKind, add func(key string, p []posting)) error {
	cursors := make([]keyCursor, len(m.from))
	for i, f := range m.from {
		cursors[i] = f.keys(kind)
		if err := cursors[i].next(m.reader); err != nil {
			return err
		}
	}
	var key []byte
	var all, one, buf []posting
	for {
		if err := cmp.Or(m.ctx.Err(), s.err); err != nil {
			return err
		}
		least := -1
		for i := range cursors {
			if !cursors[i].done && (least < 0 || bytes.Compare(cursors[i].key, cursors[least].key) < 0) {
				least = i
			}
		}
		if least < 0 {
			return nil
		}
		key, all = append(key[:0], cursors[least].key...), all[:0]
		for i := least; i < len(cursors); i++ {
			c := &cursors[i]
			if c.done || !bytes.Equal(c.key, key) {
				continue
			}
			var err error
			if one, err = c.postings(m.reader, one[:0], &buf); err != nil {
				return err
			}
			for _, x := range one {
				if to, ok := m.from[i].slot(x >> 16); ok {
					all = append(all, newPosting(to, x&MaxFreq))
				}
			}
			if err := c.next(m.reader); err != nil {
				return err
			}
		}
		if len(all) > 0 {
			slices.Sort(all)
			add(string(key), all)
		}
	}
}
