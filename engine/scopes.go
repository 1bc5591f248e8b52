package engine

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/seed-7aedc3ff/memdb/hnsw"
	"github.com/seed-7aedc3ff/memdb/internal/simd"
	"github.com/seed-7aedc3ff/memdb/invindex"
)

// scopes remember which documents the newest states show of the scopes that were
// recalled from last: to gather them from the postings takes longer than most of
// what a recall then does with them. A later state is made from an earlier one by
// what was born and has died in between.
type scopes struct {
	mu    sync.Mutex
	known map[Scope]*scopeState // the empty scope is that of everything
	bytes int64
	limit int64
	uses  uint64
}

const (
	// scopesMost bounds how many scopes are remembered, to find the one that was
	// used longest ago by looking at all.
	scopesMost = 1024
	// newbornMost is how many documents may have come for a scope to be carried on:
	// each is looked at.
	newbornMost = 4096
	// ownersMost is how many owners a scope knows to be in it or not.
	ownersMost = 1024
	// scopeOverhead is about what a remembered scope takes without its sets.
	scopeOverhead = 1024
)

// scopeState is what a state shows of a scope. It never changes.
type scopeState struct {
	*members
	scope Scope
	lsn   uint64
	mark  uint32 // documents below it were looked at
	index *invindex.Index
	// Where timed is set, the scope has memories that expire, and the state is that
	// of the readings of the clock from since on, and before until.
	timed        bool
	since, until int64
	run          uint32 // number of the scope's run
	// owners are those of which it is known whether the scope has them.
	owners map[uint32]bool

	used  uint64 // guarded by scopes.mu
	bytes int64  // likewise
}

// get returns what was remembered last.
func (c *scopes) get(s Scope) *scopeState {
	c.mu.Lock()
	defer c.mu.Unlock()
	st := c.known[s]
	if st != nil {
		c.uses++
		st.used = c.uses
	}
	return st
}

// put remembers a state, unless a later one is.
func (c *scopes) put(st *scopeState, db *DB) {
	bytes := st.size(db)
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.known[st.scope]
	if old != nil && old.lsn > st.lsn || bytes > c.limit {
		return
	}
	if old != nil {
		c.bytes -= old.bytes
	}
	if c.known == nil {
		c.known = map[Scope]*scopeState{}
	}
	c.uses++
	st.used, st.bytes = c.uses, bytes
	c.known[st.scope] = st
	c.bytes += bytes
	for c.bytes > c.limit || len(c.known) > scopesMost {
		oldest := st
		for _, other := range c.known {
			if other.used < oldest.used {
				oldest = other
			}
		}
		delete(c.known, oldest.scope)
		c.bytes -= oldest.bytes
	}
}

func (c *scopes) size() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes
}

// scoped is what the transaction sees of a scope: everything for an empty one.
func (tx *Tx) scoped(ctx context.Context, s Scope) (*scopeState, error) {
	if tx.writes != nil || tx.past { // nobody else reads this state
		return tx.gather(ctx, s)
	}
	cache := &tx.db.scopes
	st := cache.get(s)
	if st != nil && st.lsn == tx.lsn && st.now(tx) {
		return st, nil
	}
	if st != nil {
		next, err := st.carry(ctx, tx)
		if err != nil {
			return nil, err
		}
		if next != nil {
			cache.put(next, tx.db)
			return next, nil
		}
	}
	st, err := tx.gather(ctx, s)
	if err == nil {
		cache.put(st, tx.db)
	}
	return st, err
}

// now tells whether the transaction's clock shows what the state does.
func (st *scopeState) now(tx *Tx) bool {
	return !st.timed || st.since <= tx.now && tx.now < st.until
}

// gather finds what is in a scope from the postings.
func (tx *Tx) gather(ctx context.Context, s Scope) (*scopeState, error) {
	st := &scopeState{scope: s, lsn: tx.lsn, mark: tx.text.Docs, index: tx.index, since: tx.now, until: maxTime}
	if s.Run != "" {
		var err error
		if st.run, _, err = tx.lookup(nameKey{nameRun, s.Run}); err != nil {
			return nil, err
		}
	}
	var set *roaring.Bitmap
	var err error
	if s == (Scope{}) {
		set, err = tx.everything(ctx, st)
	} else if set, err = tx.scopeSet(s); err == nil {
		set, err = tx.onlyVisible(ctx, set, st)
	}
	if err != nil {
		return nil, err
	}
	st.members = newMembers(set)
	return st, nil
}

// maxTime is later than any clock.
const maxTime = 1<<63 - 1

// expiring notes a document that expires.
func (st *scopeState) expiring(r *docRow, now int64) {
	st.timed = true
	if r.expires > now {
		st.until = min(st.until, r.expires)
	} else {
		st.since = now
	}
}

// carry makes the state of an earlier one that of a transaction. It returns nil
// where that is to be gathered anew.
func (st *scopeState) carry(ctx context.Context, tx *Tx) (*scopeState, error) {
	docs := &tx.db.docs
	if st.lsn > tx.lsn || st.mark > tx.text.Docs || tx.text.Docs-st.mark > newbornMost ||
		st.index != tx.index || docs.moved.Load() > st.lsn || !st.now(tx) {
		return nil, nil
	}
	next := &scopeState{
		members: st.members, scope: st.scope, lsn: tx.lsn, mark: tx.text.Docs, index: tx.index,
		timed: st.timed, since: st.since, until: st.until, run: st.run, owners: st.owners,
	}
	born, err := next.newborn(tx, st.mark)
	if err != nil {
		return nil, err
	}
	var died *roaring.Bitmap
	if docs.newestDeath.Load() > st.lsn {
		left, err := tx.onlyVisible(ctx, st.set.Clone(), next)
		if err != nil {
			return nil, err
		}
		if left.GetCardinality() < uint64(st.n) {
			died = roaring.AndNot(st.set, left)
		}
	}
	if len(born) > 0 || died != nil {
		next.members = st.members.changed(&docs.glances, born, died)
	}
	return next, nil
}

// newborn are the documents of the scope from a number on.
func (st *scopeState) newborn(tx *Tx, from uint32) (born []uint32, err error) {
	tx.db.docs.rows.eachFrom(uint64(from), uint64(tx.text.Docs), func(doc uint64, r *docRow) bool {
		if !r.visible(tx.lsn) {
			return true
		}
		var in bool
		if in, err = st.has(tx, r); err != nil || !in {
			return err == nil
		}
		if r.expires != 0 {
			st.expiring(r, tx.now)
		}
		if r.expires == 0 || r.expires > tx.now {
			born = append(born, uint32(doc))
		}
		return true
	})
	return born, err
}

// has tells whether the scope has a version.
func (st *scopeState) has(tx *Tx, r *docRow) (bool, error) {
	s := &st.scope
	if s.Run != "" && r.run != st.run {
		return false, nil
	}
	if s.User == "" && s.Agent == "" {
		return true, nil
	}
	if in, known := st.owners[r.owner]; known {
		return in, nil
	}
	rec, err := tx.record(r.version)
	if err != nil {
		return false, err
	}
	in := (s.User == "" || s.User == rec.scope.User) && (s.Agent == "" || s.Agent == rec.scope.Agent)
	if len(st.owners) >= ownersMost {
		st.owners = nil
	}
	owners := make(map[uint32]bool, len(st.owners)+1) // the old one is read by others
	maps.Copy(owners, st.owners)
	owners[r.owner], st.owners = in, owners
	return in, nil
}

// members are the documents of a set that is searched, with what searches of
// vectors want to know of them.
type members struct {
	set *roaring.Bitmap // not to be changed
	n   int

	mu     sync.Mutex
	docs   []uint32 // in ascending order; nil until it is asked for, as is what follows
	looks  []glance // of each of docs
	spaces map[*space]*memberSlots
}

// memberSlots are the slots of members in a space. Each part is nil until it is
// asked for.
type memberSlots struct {
	of  []uint32 // the slot of each member, noSlot or above if it has none
	set *hnsw.Set
}

func newMembers(set *roaring.Bitmap) *members {
	return &members{set: set, n: int(set.GetCardinality())}
}

// list are the documents.
func (m *members) list() []uint32 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.listed()
}

// listed is list; mu is held.
func (m *members) listed() []uint32 {
	if m.docs == nil {
		m.docs = m.set.ToArray()
	}
	return m.docs
}

// glances are those of the listed documents.
func (m *members) glances(of *glances) []glance {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.looks == nil {
		m.looks = make([]glance, 0, len(m.listed()))
		for _, doc := range m.docs {
			m.looks = append(m.looks, of.of(doc))
		}
	}
	return m.looks
}

// in is what is known of the members in a space; mu is held.
func (m *members) in(s *space) *memberSlots {
	if m.spaces == nil {
		m.spaces = map[*space]*memberSlots{}
	}
	if m.spaces[s] == nil {
		m.spaces[s] = &memberSlots{}
	}
	return m.spaces[s]
}

// slotsOf are the slots of the listed documents, noSlot or above where one has none.
func (m *members) slotsOf(s *space) []uint32 {
	m.mu.Lock()
	defer m.mu.Unlock()
	in := m.in(s)
	if in.of == nil {
		docs := m.listed()
		in.of = appendSlots(make([]uint32, 0, len(docs)), &s.slots, docs)
	}
	return in.of
}

// slotSet are the slots of the documents. It may have some of documents that have
// died: who searches by it looks at the hits, and asks for it anew if one is such.
func (m *members) slotSet(s *space, anew bool) *hnsw.Set {
	m.mu.Lock()
	defer m.mu.Unlock()
	in := m.in(s)
	if in.set == nil || anew {
		in.set = hnsw.NewSet()
		s.eachSlot(m.set, func(slots []uint32) { in.set.Add(slots...) })
	}
	return in.set
}

// changed are the members with those that were born, which come after all others,
// and without those that have died.
func (m *members) changed(of *glances, born []uint32, died *roaring.Bitmap) *members {
	set := m.set.Clone()
	if died != nil {
		set.AndNot(died)
	}
	set.AddMany(born)
	next := newMembers(set)
	m.mu.Lock()
	defer m.mu.Unlock()
	var places []int // of those that have died, in the list
	if m.docs != nil {
		if died != nil {
			for i, doc := range m.docs {
				if died.Contains(doc) {
					places = append(places, i)
				}
			}
		}
		next.docs = append(without(m.docs, places, len(born)), born...)
	}
	if m.looks != nil {
		next.looks = without(m.looks, places, len(born))
		for _, doc := range born {
			next.looks = append(next.looks, of.of(doc))
		}
	}
	for s, in := range m.spaces {
		next.in(s).changed(s, in, born, died, places)
	}
	return next
}

// without copies a list but for some places, with room for more.
func without[T any](list []T, places []int, more int) []T {
	kept := make([]T, 0, len(list)-len(places)+more)
	from := 0
	for _, i := range places {
		kept = append(kept, list[from:i]...)
		from = i + 1
	}
	return append(kept, list[from:]...)
}

// changed makes the slots those of old with what was born, and without what has died.
func (in *memberSlots) changed(s *space, old *memberSlots, born []uint32, died *roaring.Bitmap, places []int) {
	if old.of != nil {
		in.of = without(old.of, places, len(born))
		in.of = appendSlots(in.of, &s.slots, born)
	}
	if old.set == nil {
		return
	}
	in.set = old.set.Clone()
	if died != nil {
		// Of one whose slot is free again nobody knows any more which it was.
		s.eachSlot(died, func(slots []uint32) {
			for _, slot := range slots {
				in.set.Remove(slot)
			}
		})
	}
	for _, doc := range born {
		if slot, ok := s.slot(doc); ok {
			in.set.Add(slot)
		}
	}
}

// size is about the memory that a state takes when all has been asked of it.
func (st *scopeState) size(db *DB) int64 {
	const perMember = 10 // in the list, of its slot and of its glance
	bytes := scopeOverhead + int64(st.set.GetSizeInBytes())
	if st.n <= db.limits.exhaustive {
		return bytes + perMember*int64(st.n)
	}
	for _, s := range db.spaces.all() {
		bytes += int64(s.index.Len()) / 8
	}
	return bytes
}

// noSlot stands for a document without a vector: so do the numbers above it.
const noSlot = hnsw.MaxSlots

// appendSlots appends the slots of documents, as a table has them plus one.
func appendSlots(dst []uint32, table *paged[atomic.Uint32], docs []uint32) []uint32 {
	for i, doc := range docs {
		if i+ahead < len(docs) {
			simd.Prefetch(unsafe.Pointer(table.at(uint64(docs[i+ahead]))))
		}
		slot := uint32(0)
		if p := table.at(uint64(doc)); p != nil {
			slot = p.Load()
		}
		dst = append(dst, slot-1) // of 0 that is above noSlot
	}
	return dst
}
