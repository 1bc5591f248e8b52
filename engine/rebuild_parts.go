package engine

import (
	"context"
	"errors"
	"slices"

	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/invindex"
)

// A chunk of many long texts was merged of several, and would not fit in memory whole. So a
// rebuild builds it in parts, as chunks under numbers that no document has: an index has
// 2¹⁶, and documents are in the first maxChunks. Parts of one size are merged, and when the
// chunk is complete the rest of them, into its own number. What a rebuild that was
// interrupted leaves of them goes with all else of its generation.

// chunkParts are the parts of the chunk that is built, none where it is in memory whole.
type chunkParts struct {
	of    uint16   // the chunk
	slots []uint16 // of the documents in the parts and in the one that grows
	all   []chunkPart
	next  uint16 // the number of the next part
}

// chunkPart is a sealed part.
type chunkPart struct {
	number   uint16
	level    int // of merges
	from, to int // which of chunkParts.slots
}

// growing is the chunk that is built, false for none.
func (b *textBuilder) growing() (number uint16, ok bool) {
	if len(b.parts.all) > 0 {
		return b.parts.of, true
	}
	number, _, ok = b.index.Growing()
	return number, ok
}

// put adds a document to the chunk that is built.
func (b *textBuilder) put(ctx context.Context, doc uint32, d *invindex.Doc) error {
	p := &b.parts
	number, size, ok := b.index.Growing()
	of := uint16(doc >> 16)
	part := number == of || number >= maxChunks // and not a chunk before, which waits to be sealed
	if ok && part && b.db.chunks.sealed[of] && size > b.db.hotBytes {
		if err := b.endPart(ctx, number); err != nil {
			return err
		}
	}
	if len(p.all) == 0 && p.of != of {
		p.of, p.slots = of, p.slots[:0]
	}
	p.slots = append(p.slots, uint16(doc))
	if len(p.all) > 0 {
		doc = uint32(p.next)<<16 | doc&0xffff
	}
	return b.index.Add(doc, d)
}

// endPart seals the part that grows, and merges parts of one level as soon as there are
// mergeAt.
func (b *textBuilder) endPart(ctx context.Context, number uint16) error {
	p := &b.parts
	if err := b.sealGrowing(ctx); err != nil {
		return err
	}
	from := 0
	if len(p.all) > 0 {
		from = p.all[len(p.all)-1].to
	}
	p.all = append(p.all, chunkPart{number: number, from: from, to: len(p.slots)})
	p.skip()
	for n := len(p.all) - mergeAt; n >= 0 && p.all[n].level == p.all[len(p.all)-1].level; n = len(p.all) - mergeAt {
		if err := b.mergeParts(ctx, n, p.next); err != nil {
			return err
		}
		p.skip()
	}
	return nil
}

// skip goes on to the next number of a part that is free.
func (p *chunkParts) skip() {
	for {
		if p.next++; p.next < maxChunks {
			p.next = maxChunks
		}
		if !slices.ContainsFunc(p.all, func(c chunkPart) bool { return c.number == p.next }) {
			return
		}
	}
}

// joinParts makes a complete chunk of its parts, the newest of which was sealed.
func (b *textBuilder) joinParts(ctx context.Context, chunk uint16) error {
	p := &b.parts
	if len(p.all) == 0 {
		p.slots = p.slots[:0]
		return nil
	}
	if last := p.all[len(p.all)-1].to; last < len(p.slots) {
		p.all = append(p.all, chunkPart{number: p.next, from: last, to: len(p.slots)})
		p.skip()
	}
	err := b.mergeParts(ctx, 0, chunk)
	p.all, p.slots = p.all[:0], p.slots[:0]
	return err
}

// mergeParts makes those parts from one on a part under another number.
func (b *textBuilder) mergeParts(ctx context.Context, first int, number uint16) (err error) {
	p := &b.parts
	parts := p.all[first:]
	from, to := parts[0].from, parts[len(parts)-1].to
	docs := slices.Repeat([]uint32{invindex.NoDoc}, int(p.slots[to-1])+1)
	numbers := make([]uint16, len(parts))
	for i, c := range parts {
		numbers[i] = c.number
		for _, slot := range p.slots[c.from:c.to] {
			docs[slot] = uint32(c.number)<<16 | uint32(slot)
		}
	}
	snap := b.db.store.NewSnapshot()
	defer func() { err = errors.Join(err, snap.Close()) }()
	text := b.index.Snapshot()
	text.Reader = snap // the number may be that of a part, too
	err = b.write(ctx, func(w *sealWriter) error {
		lower, upper := b.index.Span(number)
		if err := w.batch.DeleteRange(lower, upper, nil); err != nil {
			return err
		}
		return state.TextError(doingRebuild, b.index.Move(ctx, text, w, number, docs))
	})
	if err != nil {
		return err
	}
	if err := b.index.Moved(b.db.store, number, numbers...); err != nil {
		return err
	}
	level := parts[0].level + 1
	p.all = append(p.all[:first], chunkPart{number: number, level: level, from: from, to: to})
	return b.write(ctx, func(w *sealWriter) error {
		for _, gone := range numbers {
			if gone == number {
				continue
			}
			lower, upper := b.index.Span(gone)
			if err := w.batch.DeleteRange(lower, upper, nil); err != nil {
				return err
			}
		}
		return nil
	})
}
