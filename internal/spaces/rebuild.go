package spaces

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

// Rebuild makes the index of each space anew. It returns [ErrEnded] where the set was closed
// meanwhile.
func (ss *Set) Rebuild(ctx context.Context, progress func(done, of int64)) error {
	if err := ss.Linker.Rebuilding.LockContext(ctx); err != nil {
		return err
	}
	defer ss.Linker.Rebuilding.Unlock()
	told := &vectorProgress{tell: progress}
	spaces := ss.All()
	for _, s := range spaces {
		told.of += s.Used.Load()
	}
	for _, s := range spaces {
		if err := ss.rebuildSpace(ctx, s, told); err != nil {
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
	set       *Set
	old, next *Space
	moved     []movedSlot // by the slot in old
	read      int
	told      *vectorProgress
}

// movedSlot is what became of the vector in a slot.
type movedSlot struct {
	of   layout.Version // whose vector it was; without a Seq: it was not read
	slot uint32         // in the next index, NoSlot where the store has no such vector
}

// heldSlot is a slot, and the version whose vector is in it.
type heldSlot struct {
	slot uint32
	of   layout.Version
}

func (ss *Set) rebuildSpace(ctx context.Context, old *Space, told *vectorProgress) error {
	next, err := ss.New(old.Num, old.Name, old.Dim, old.Metric, old.Model)
	if err != nil {
		return err
	}
	next.Base, next.Born = old.Base, old.Born
	b := &vectorBuilder{set: ss, old: old, next: next, told: told}
	if err := b.fill(ctx); err != nil {
		return errors.Join(err, next.File.Close())
	}
	told.before += next.Used.Load()
	return ss.Linker.Await(ctx, func() bool { return next.Replaces.Load() == nil })
}

// fill reads and links what there is, until it has so little left that writers wait for it.
func (b *vectorBuilder) fill(ctx context.Context) error {
	for chunk := range layout.MaxChunks {
		if err := b.set.Lock(ctx); err != nil {
			return err
		}
		list := b.missing(uint16(chunk), nil)
		b.set.Unlock()
		if err := b.add(ctx, list); err != nil {
			return err
		}
	}
	for {
		if err := b.link(ctx); err != nil {
			return err
		}
		if err := b.set.Lock(ctx); err != nil {
			return err
		}
		var list []heldSlot
		for chunk := range layout.MaxChunks {
			list = b.missing(uint16(chunk), list)
		}
		if len(list) > littleLeft {
			b.set.Unlock()
			if err := b.add(ctx, list); err != nil {
				return err
			}
			continue
		}
		defer b.set.Unlock()
		if err := b.add(ctx, list); err != nil {
			return err
		}
		return b.replace()
	}
}

// eachHeld visits the documents of a chunk that have a vector. The lock is held.
func (b *vectorBuilder) eachHeld(chunk uint16, visit func(doc uint32, h heldSlot)) {
	if !b.set.Used(chunk) {
		return
	}
	first := uint32(chunk) << 16
	for doc := first; doc-first < 1<<16; doc++ {
		if slot, ok := b.old.Slot(doc); ok {
			visit(doc, heldSlot{slot, b.old.Holders.At(uint64(slot)).Version()})
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
	keys, num := b.set.keys(), b.old.Num
	slices.SortFunc(list, func(a, c heldSlot) int { return keys.CompareVectors(a.of, c.of) })
	in := &seeker{
		reader: b.set.Store, lower: keys.Vector(num, list[0].of), upper: append(keys.Vector(num, list[len(list)-1].of), 0),
	}
	defer func() { err = errors.Join(err, in.close()) }()
	vec := make([]float32, 0, b.old.Dim)
	for i, h := range list {
		if i%state.CancelEvery == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
			b.told.now(b.read, b.next.Index.Linked())
		}
		if i > 0 && h == list[i-1] { // two documents share it
			continue
		}
		value, err := in.seek(keys.Vector(num, h.of))
		if err == nil {
			vec, err = codec.FloatsInto(vec[:0], value)
		}
		slot := uint32(NoSlot)
		if err == nil {
			slot, err = b.next.Index.Add(vec)
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
	if m := &b.moved[h.slot]; m.of.Seq != 0 && m.slot != NoSlot {
		b.next.Index.Remove(m.slot)
	}
	b.moved[h.slot] = movedSlot{h.of, slot}
	b.read++
}

// link links what was read, with half of the processors.
func (b *vectorBuilder) link(ctx context.Context) error {
	index := b.next.Index
	index.SetBuilders(b.set.Linker.builders())
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
			return fmt.Errorf("link the vectors of the space %s: %w", b.old.Name, err)
		}
		b.told.now(b.read, index.Linked())
	}
	return nil
}

// replace gives the documents their slots in the next index, which becomes that of the space.
// The lock is held.
func (b *vectorBuilder) replace() error {
	ss, next, lost := b.set, b.next, 0
	taken := make([]bool, next.Index.Len())
	for chunk := range layout.MaxChunks {
		b.eachHeld(uint16(chunk), func(doc uint32, h heldSlot) {
			switch slot := b.moved[h.slot].slot; {
			case slot == NoSlot:
				if r := ss.Tables.Docs.Row(doc); r != nil && r.Died.Load() == doctable.Alive {
					lost++
				}
			case taken[slot]:
				next.SetSlot(doc, slot)
			default:
				taken[slot] = true
				next.Hold(doc, slot, h.of)
			}
		})
	}
	for slot, is := range taken {
		if !is && next.Index.Live(uint32(slot)) {
			next.Index.Remove(uint32(slot))
		}
	}
	if lost > 0 {
		ss.Logger.Error("vectors cannot be read, so that no search by vectors finds their memories; check names them", "space", next.Name, "vectors", lost)
	}
	next.Added.Store(uint64(next.Used.Load()))
	next.Replaces.Store(b.old)
	ss.Add(next)
	ss.Replaced()
	ss.Linker.Wake()
	return b.old.File.Close() // who still searches it has it mapped
}
