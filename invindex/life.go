package invindex

import (
	"context"
	"slices"
)

// Growing returns the number of the chunk that takes documents, and the bytes that it
// holds in memory; false where there is none. A caller that wants to bound them gives
// the next document a number in another chunk.
func (x *Index) Growing() (chunk uint16, bytes int64, ok bool) {
	c := x.last.Load()
	if c == nil {
		return 0, 0, false
	}
	return c.number, c.bytes.Load(), true
}

// Drop removes chunks from the index, which from now on has none of their
// documents. Snapshots pinned before go on reading them, where their Reader still
// finds the pages. One goroutine may call it at a time, and none beside Add or
// Sealed. Numbers that the index does not have are passed over.
func (x *Index) Drop(numbers ...uint16) {
	x.drop(numbers, x.list(), nil)
}

// Documents is how many documents each chunk of a snapshot has, those included that no caller
// looks for any more: their words are in the chunk until its documents are moved.
func (x *Index) Documents(s Snapshot) (map[uint16]int, error) {
	docs := map[uint16]int{}
	for _, c := range s.list(x) {
		lengths, err := c.lengths(s.Reader)
		if err != nil {
			return nil, err
		}
		n := 0
		for slot := range uint32(chunkDocs) {
			if lengths.stored(slot) != 0 {
				n++
			}
		}
		docs[c.id()] = n
	}
	return docs, nil
}

// drop makes chunks those of the index, but for all of the given numbers that are not
// the one to keep.
func (x *Index) drop(numbers []uint16, chunks []chunk, keep *sealedChunk) {
	var rest []chunk
	var gone []*sealedChunk
	for _, c := range chunks {
		s, sealed := c.(*sealedChunk)
		if !slices.Contains(numbers, c.id()) || sealed && s == keep {
			rest = append(rest, c)
		} else if sealed {
			gone = append(gone, s)
		}
	}
	x.chunks.Store(&rest)
	if last := x.last.Load(); last != nil && slices.Contains(numbers, last.number) {
		x.End()
	}
	for _, s := range gone {
		x.cache.drop(s)
	}
}

// drop forgets the pages of a chunk. A snapshot that still reads the chunk may
// bring some in again; the clock evicts them.
func (c *pageCache) drop(s *sealedChunk) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ring = slices.DeleteFunc(c.ring, func(slot *pageSlot) bool {
		if slot.id.chunk != s.number || !s.owns(slot) {
			return false
		}
		if p := slot.page.Swap(nil); p != nil {
			c.used -= p.bytes()
		}
		return true
	})
	c.hand = 0
}

// owns reports whether a slot is one of the chunk's own: a chunk that was dropped
// may share its number with a later one.
func (c *sealedChunk) owns(slot *pageSlot) bool {
	if slot == &c.lens {
		return true
	}
	n := int(slot.id.number)
	for _, slots := range c.paged() {
		if n < len(slots) && slot == &slots[n] {
			return true
		}
	}
	return false
}

// paged returns the slots of all pages but the header and the lengths.
func (c *sealedChunk) paged() [][]pageSlot {
	return [][]pageSlot{c.terms.pages, c.values.pages, c.postings, c.numbers}
}

// Verify reads every page of the sealed chunks of a snapshot, whatever is in memory,
// and reports those that are damaged.
func (x *Index) Verify(ctx context.Context, s Snapshot, report func(error)) error {
	for _, c := range s.list(x) {
		sealed, ok := c.(*sealedChunk)
		if !ok {
			continue
		}
		ids := []pageID{{chunk: sealed.number, section: sectionHeader}, sealed.lens.id}
		for _, slots := range sealed.paged() {
			for i := range slots {
				ids = append(ids, slots[i].id)
			}
		}
		for _, id := range ids {
			if err := ctx.Err(); err != nil {
				return err
			}
			if _, err := readPage(s.Reader, x.prefix, id); err != nil {
				report(err)
			}
		}
	}
	return nil
}

// End says that the chunk which takes documents takes no more of them, so that it can be
// sealed. One goroutine may call it at a time, and none beside Add.
func (x *Index) End() { x.last.Store(nil) }
