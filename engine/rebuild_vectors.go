package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/seed-7aedc3ff/memdb/internal/codec"
	"github.com/seed-7aedc3ff/memdb/internal/doctable"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/internal/store"
)

// A rebuild of vectors fills another index of each space from the vectors in the store and
// links it, while the one that there is serves readers and writers. Then it takes the place
// of that one under the writer lock, with the vectors that came meanwhile. Nothing of it is
// in the store: whoever opens a database whose rebuild was interrupted finds the snapshot of
// before, or none.

// littleLeft is how many vectors may be left to read while writers wait.
const littleLeft = 1000

// rebuildVectors makes the index of each space anew.
func (db *DB) rebuildVectors(ctx context.Context, progress func(done, of int64)) error {
	if err := db.linker.rebuilding.lockContext(ctx); err != nil {
		return err
	}
	defer db.linker.rebuilding.Unlock()
	told := &vectorProgress{tell: progress}
	spaces := db.spaces.all()
	for _, s := range spaces {
		told.of += s.used.Load()
	}
	for _, s := range spaces {
		if err := db.rebuildSpace(ctx, s, told); err != nil {
			return err
		}
	}
	told.of = told.before
	told.now(0, 0)
	return nil
}

// vectorProgress counts the vectors of all spaces. One is done half when it is read, and
// whole when it is linked.
type vectorProgress struct {
	tell       func(done, of int64)
	before, of int64 // vectors of the spaces that are done; of all
}

func (p *vectorProgress) now(read, linked int) {
	if p.tell != nil {
		p.tell(min(p.before+int64(read+linked)/2, p.of), p.of)
	}
}

// vectorBuilder fills the index that takes the place of a space's.
type vectorBuilder struct {
	db        *DB
	old, next *space
	moved     []movedSlot // by the slot in old
	read      int
	told      *vectorProgress
}

// movedSlot is what became of the vector in a slot.
type movedSlot struct {
	of   layout.Version // whose vector it was; without a Seq: it was not read
	slot uint32         // in the next index, noSlot where the store has no such vector
}

// heldSlot is a slot, and the version whose vector is in it.
type heldSlot struct {
	slot uint32
	of   layout.Version
}

func (db *DB) rebuildSpace(ctx context.Context, old *space, told *vectorProgress) error {
	next, err := db.newSpace(old.num, old.name, old.dim, old.metric, old.model)
	if err != nil {
		return err
	}
	next.base, next.born = old.base, old.born
	b := &vectorBuilder{db: db, old: old, next: next, told: told}
	if err := b.fill(ctx); err != nil {
		return errors.Join(err, next.file.Close())
	}
	told.before += next.used.Load()
	err = db.linker.await(ctx, func() bool { return next.replaces.Load() == nil })
	if errors.Is(err, errLinkerEnded) {
		return closedError(doingRebuild)
	}
	return err
}

// fill reads and links what there is, until it has so little left that writers wait for it.
func (b *vectorBuilder) fill(ctx context.Context) error {
	for chunk := range maxChunks {
		if err := b.db.lockBehind(ctx); err != nil {
			return err
		}
		list := b.missing(uint16(chunk), nil)
		b.db.unlock()
		if err := b.add(ctx, list); err != nil {
			return err
		}
	}
	for {
		if err := b.link(ctx); err != nil {
			return err
		}
		if err := b.db.lockBehind(ctx); err != nil {
			return err
		}
		var list []heldSlot
		for chunk := range maxChunks {
			list = b.missing(uint16(chunk), list)
		}
		if len(list) > littleLeft {
			b.db.unlock()
			if err := b.add(ctx, list); err != nil {
				return err
			}
			continue
		}
		defer b.db.unlock()
		if err := b.add(ctx, list); err != nil {
			return err
		}
		return b.replace()
	}
}

// eachHeld visits the documents of a chunk that have a vector. The lock is held.
func (b *vectorBuilder) eachHeld(chunk uint16, visit func(doc uint32, h heldSlot)) {
	if db := b.db; !db.chunks.used[chunk] && !db.grows(chunk) {
		return
	}
	first := uint32(chunk) << 16
	for doc := first; doc-first < 1<<16; doc++ {
		if slot, ok := b.old.slot(doc); ok {
			visit(doc, heldSlot{slot, b.old.holders.At(uint64(slot)).version()})
		}
	}
}

// missing appends the vectors of a chunk that were not read. The lock is held.
func (b *vectorBuilder) missing(chunk uint16, list []heldSlot) []heldSlot {
	b.eachHeld(chunk, func(_ uint32, h heldSlot) {
		if int(h.slot) >= len(b.moved) || b.moved[h.slot].of != h.of {
			list = append(list, h)
		}
	})
	return list
}

// add reads vectors from the store, in the order of their keys.
func (b *vectorBuilder) add(ctx context.Context, list []heldSlot) (err error) {
	if len(list) == 0 {
		return nil
	}
	keys, num := b.db.keys(), b.old.num
	slices.SortFunc(list, func(a, c heldSlot) int { return keys.CompareVectors(a.of, c.of) })
	in := &vectorSeeker{
		reader: b.db.store, lower: keys.Vector(num, list[0].of), upper: append(keys.Vector(num, list[len(list)-1].of), 0),
	}
	defer func() { err = errors.Join(err, in.close()) }()
	vec := make([]float32, 0, b.old.dim)
	for i, h := range list {
		if i%state.CancelEvery == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
			b.told.now(b.read, b.next.index.Linked())
		}
		if i > 0 && h == list[i-1] { // two documents share it
			continue
		}
		value, err := in.seek(keys.Vector(num, h.of))
		if err == nil {
			vec, err = codec.FloatsInto(vec[:0], value)
		}
		slot := uint32(noSlot)
		if err == nil {
			slot, err = b.next.index.Add(vec)
		} else if store.Unreadable(err) { // who had it may be gone meanwhile; see replace
			err = nil
		}
		if err != nil {
			return err
		}
		b.note(h, slot)
	}
	return nil
}

// note notes where the vector of a slot is. The slot may have had another before.
func (b *vectorBuilder) note(h heldSlot, slot uint32) {
	for int(h.slot) >= len(b.moved) {
		b.moved = append(b.moved, movedSlot{})
	}
	if m := &b.moved[h.slot]; m.of.Seq != 0 && m.slot != noSlot {
		b.next.index.Remove(m.slot)
	}
	b.moved[h.slot] = movedSlot{h.of, slot}
	b.read++
}

// link links what was read, with half of the processors.
func (b *vectorBuilder) link(ctx context.Context) error {
	index := b.next.index
	index.SetBuilders(b.db.linker.builders())
	index.SetYield(true)
	for index.Due() {
		turn, cancel := context.WithTimeout(ctx, linkFor)
		err := index.Link(turn, index.Len())
		ended := turn.Err()
		cancel()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && ended == nil:
			return fmt.Errorf("link the vectors of the space %s: %w", b.old.name, err)
		}
		b.told.now(b.read, index.Linked())
	}
	return nil
}

// replace gives the documents their slots in the next index, which becomes that of the space.
// The lock is held.
func (b *vectorBuilder) replace() error {
	db, next, lost := b.db, b.next, 0
	taken := make([]bool, next.index.Len())
	for chunk := range maxChunks {
		b.eachHeld(uint16(chunk), func(doc uint32, h heldSlot) {
			switch slot := b.moved[h.slot].slot; {
			case slot == noSlot:
				if r := db.tables.Docs.Row(doc); r != nil && r.Died.Load() == doctable.Alive {
					lost++
				}
			case taken[slot]:
				next.setSlot(doc, slot)
			default:
				taken[slot] = true
				next.hold(doc, slot, h.of)
			}
		})
	}
	for slot, is := range taken {
		if !is && next.index.Live(uint32(slot)) {
			next.index.Remove(uint32(slot))
		}
	}
	if lost > 0 {
		db.logger.Error("vectors cannot be read, so that no search by vectors finds their memories; check names them", "space", next.name, "vectors", lost)
	}
	next.added.Store(uint64(next.used.Load()))
	next.replaces.Store(b.old)
	db.spaces.add(next)
	db.scopes.forget()
	db.linker.wake()
	return b.old.file.Close() // who still searches it has it mapped
}
