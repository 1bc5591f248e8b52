package engine

import (
	"fmt"
	"slices"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/records"
)

// # How documents get their numbers
//
// A document's number is that of its chunk and its slot. Slots are given in ascending order
// and each once, until the chunk is full or closed early. Then another chunk begins: of
// those that no document has, the next one above, or where that is far above what is in use
// the lowest: tables by number have a place for all below the highest. Chunks that were
// closed early keep no numbers from others, see crowded. A chunk's number is free again when the chunk was emptied, all that its documents
// left behind is cleaned up, and no View is from before that: see releaseChunks. So numbers
// go round, and a database is full when all are in use at once.
//
// What follows from it for who reads numbers:
//
//   - Only the newest chunk has documents that a state does not see yet beside some that it
//     sees: the mark of a state is one past the newest document, and says something of that
//     chunk alone. Other chunks are in the list that the state has pinned, or are not.
//   - A number that is greater is not that of a younger document. Whoever goes on with
//     something remembered, or trusts the bits of plain documents, asks doctable's Moved,
//     the LSN of the newest state in which a chunk began below another, or was left.
//   - The number that a memory had once may be another's: doctable's Of asks whose it is.
//
// In the log a number that begins a chunk says only where to look for the next free one;
// so the logs of all layouts mean the same. Which chunks are in use is found at Open.

const (
	// maxChunks is how many chunks there can be.
	maxChunks = layout.MaxChunks
	// moveNumbers are so many numbers of chunks that stores leave to moves, by which others
	// become free.
	moveNumbers = 2
	// leastSpread and spread bound the numbers that are given: leastSpread, or so many times
	// those in use.
	leastSpread, spread = 64, 4
)

// use notes that a number is not free.
func (c *chunks) use(chunk uint16) { c.used[chunk] = true }

// freeFrom is the first chunk from one on that is not in use, nor one of taken, or else the
// lowest such. The writer lock is held.
func (c *chunks) freeFrom(first int, taken []uint16) (uint16, bool) {
	for i := range maxChunks {
		n := uint16((first + i) % maxChunks)
		if !c.used[n] && !slices.Contains(taken, n) {
			return n, true
		}
	}
	return 0, false
}

// inUse is how many numbers are not free. The writer lock is held.
func (c *chunks) inUse() (n int) {
	for _, used := range c.used {
		if used {
			n++
		}
	}
	return n
}

// giveDoc gives the next document number.
func (tx *Tx) giveDoc() (uint32, error) {
	if tx.next.Doc&0xffff == 0 {
		first, inUse := int(tx.next.Doc>>16), tx.db.chunks.inUse()+len(tx.begun)
		if first >= max(leastSpread, spread*inUse) && tx.db.firstDoc == 0 {
			first = 0
		}
		chunk, ok := tx.db.chunks.freeFrom(first, tx.begun)
		if !ok || inUse >= maxChunks-moveNumbers {
			return 0, tx.breaks(&fault.Error{
				Kind: fault.ErrFull, What: records.DoingStore, Why: fmt.Sprintf("all %d chunks of documents are in use", maxChunks),
				Do: "export the memories and import them into a new database",
			})
		}
		tx.begun = append(tx.begun, chunk)
		tx.next.Doc = uint32(chunk) << 16
	}
	doc := tx.next.Doc
	tx.next.Doc++
	return doc, nil
}

// noteBegun notes the chunks that a transaction has begun, before its documents are shown.
func (tx *Tx) noteBegun() {
	c := &tx.db.chunks
	for _, chunk := range tx.begun {
		if int(chunk) < c.top {
			tx.db.tables.Docs.Moved.Store(max(tx.db.tables.Docs.Moved.Load(), tx.state.LSN))
		}
		c.top = max(c.top, int(chunk))
	}
}

// keepBegun spends the numbers of documents that a transaction has shown, which stay in
// the indexes as holes.
func (tx *Tx) keepBegun() {
	w, mark := &tx.db.writer, tx.db.tables.Docs.Mark.Load()
	if mark == 0 {
		return
	}
	at := slices.Index(tx.begun, layout.ChunkOf(mark-1))
	if at < 0 && w.next.Doc > 0 && layout.ChunkOf(mark-1) != layout.ChunkOf(w.next.Doc-1) {
		return
	}
	for _, chunk := range tx.begun[:at+1] {
		tx.db.chunks.used[chunk] = true
	}
	if at >= 0 {
		w.next.Doc = mark
	} else {
		w.next.Doc = max(w.next.Doc, mark)
	}
}

// grows reports whether a chunk takes the documents of the next transaction. The writer
// lock is held.
func (db *DB) grows(chunk uint16) bool {
	next := db.writer.next.Doc
	return next&0xffff != 0 && layout.ChunkOf(next) == chunk
}

// noNumber is the error of a document that lies beyond the last number.
func noNumber(doc uint32) error {
	return &fault.Error{Kind: fault.ErrCorrupt, What: fmt.Sprintf("load document %d", doc), Why: "no document has so high a number"}
}
