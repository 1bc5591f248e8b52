package invindex

import (
	"context"
	"fmt"
	"slices"
)

// moveCache is enough for the pages that a move reads one after another, so that they
// do not push those of queries out of memory.
const moveCache = 4 << 20

// Move writes documents of sealed chunks to w as a new chunk, in the order in which
// they are given: docs[i] becomes the document of slot i. They keep their terms,
// lengths, values and numbers; the pages are those that Seal would have written, had
// they been added. The index changes only by Moved. Move may run beside readers and the
// writer; while it does it takes the memory of a chunk that is not sealed.
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
	sources := map[uint16]bool{}
	for _, doc := range docs {
		sources[uint16(doc>>16)] = true
	}
	for _, c := range s.list(x) {
		if !sources[c.id()] {
			continue
		}
		m.comeFrom(c.id(), docs)
		if _, sealed := c.(*sealedChunk); !sealed {
			return fmt.Errorf("%w: chunk %d is not sealed", ErrInvalid, c.id())
		}
		from, err := own.openSealed(s.Reader, c.id())
		if err == nil {
			err = m.take(from)
		}
		if err != nil {
			return err
		}
	}
	if m.moved < len(docs) {
		return fmt.Errorf("%w: %d of %d documents to move are in no chunk, or come twice", ErrInvalid, len(docs)-m.moved, len(docs))
	}
	m.sort()
	return x.seal(w, m.to)
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
	to     *hotChunk
	moved  int
	// place is where the documents of the current source go: a slot plus one, or 0.
	place [chunkDocs]uint32
}

// comeFrom places the documents of a chunk.
func (m *mover) comeFrom(number uint16, docs []uint32) {
	clear(m.place[:])
	for i, doc := range docs {
		if uint16(doc>>16) == number {
			m.place[doc%chunkDocs] = uint32(i + 1)
		}
	}
}

// take adds the placed documents of a chunk.
func (m *mover) take(c *sealedChunk) error {
	if err := m.takeLengths(c); err != nil {
		return err
	}
	for kind, to := range map[dictKind]*dict{ofTerms: m.to.terms, ofValues: m.to.values} {
		if err := m.takeLists(c, kind, to); err != nil {
			return err
		}
	}
	if !c.numbered {
		m.to.columns.unknown.Store(true)
	}
	return c.eachNumber(m.reader, func(field uint16, value uint64, slot uint16) {
		if at := m.place[slot]; at > 0 {
			m.to.columns.put(field, pair{value, uint16(at - 1)})
		}
	})
}

func (m *mover) takeLengths(c *sealedChunk) error {
	lengths, err := c.lengths(m.reader)
	if err != nil {
		return err
	}
	for slot, at := range m.place {
		if at == 0 {
			continue
		}
		stored := lengths.stored(uint32(slot))
		if stored == 0 {
			return fmt.Errorf("%w: there is no document %d to move", ErrInvalid, uint32(c.number)<<16|uint32(slot))
		}
		m.to.setLength(uint16(at-1), stored)
		m.moved++
	}
	return nil
}

func (m *mover) takeLists(c *sealedChunk, kind dictKind, to *dict) error {
	var buf []posting
	return c.eachList(m.reader, kind, func(key []byte, l *postingList) error {
		if err := m.ctx.Err(); err != nil {
			return err
		}
		p, err := l.appendTo(buf[:0])
		if err != nil {
			return err
		}
		buf = p
		var list *list
		for _, x := range p {
			at := m.place[x>>16]
			if at == 0 {
				continue
			}
			if list == nil {
				if list = to.find(string(key)); list == nil {
					list, _ = to.insert(string(key))
				}
			}
			list.add(newPosting(uint16(at-1), x&MaxFreq))
		}
		return nil
	})
}

// sort puts the lists into the order of their documents.
func (m *mover) sort() {
	for _, d := range []*dict{m.to.terms, m.to.values} {
		for i := range d.count.Load() {
			slices.Sort(d.list(i).postings())
		}
	}
}
