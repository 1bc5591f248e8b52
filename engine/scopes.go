package engine

import (
	"context"
	"slices"
	"sync"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/seed-7aedc3ff/memdb/hnsw"
	"github.com/seed-7aedc3ff/memdb/internal/doctable"
	"github.com/seed-7aedc3ff/memdb/internal/spaces"
	"github.com/seed-7aedc3ff/memdb/invindex"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// scopes remember which documents the newest states show of the scopes that were
// recalled from last: to gather them from the postings takes longer than most of
// what a recall then does with them. A later state is made from an earlier one by
// what was born and has died in between.
type scopes struct {
	mu    sync.Mutex
	known map[memory.Scope]*scopeState // the empty scope is that of everything
	bytes int64
	limit int64
	uses  uint64
}

const (
	// scopesMost bounds how many scopes are remembered, to find the one that was
	// used longest ago by looking at all.
	scopesMost = 1024
	// newbornMost is how many documents may have come for a scope to be carried on: the
	// postings of their chunks are looked at.
	newbornMost = 1 << 16
	// listsMost is up to how many members are listed, slot by slot, for later recalls;
	// more are listed for one at a time.
	listsMost = 1 << 16
	// scopeOverhead is about what a remembered scope takes without its sets.
	scopeOverhead = 1024
)

// scopeState is what a state shows of a scope. It never changes.
type scopeState struct {
	*members
	scope memory.Scope
	lsn   uint64
	mark  uint32 // one past the newest document
	index *invindex.Index
	// Where timed is set, the scope has memories that expire, and the state is that
	// of the readings of the clock from since on, and before until.
	timed        bool
	since, until int64

	used  uint64 // guarded by scopes.mu
	bytes int64  // likewise
}

// get returns what was remembered last.
func (c *scopes) get(s memory.Scope) *scopeState {
	c.mu.Lock()
	defer c.mu.Unlock()
	st := c.known[s]
	if st != nil {
		c.uses++
		st.used = c.uses
	}
	return st
}

// put remembers a state, unless a later one is. It returns the state to be used, and
// whether it is remembered.
func (c *scopes) put(st *scopeState, tx *Tx) (*scopeState, bool) {
	bytes := st.size(tx.db)
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.known[st.scope]
	switch {
	case old != nil && old.of(tx):
		return old, true // more may be known of its members
	case old != nil && old.lsn > st.lsn || bytes > c.limit || tx.db.tables.NewestIndex.Load() != st.index:
		return st, false
	}
	if old != nil {
		c.bytes -= old.bytes
	}
	if c.known == nil {
		c.known = map[memory.Scope]*scopeState{}
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
	return st, true
}

// forget forgets all states, with the index that they were gathered from.
func (c *scopes) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known, c.bytes = nil, 0
}

func (c *scopes) size() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes
}

// scoped is what the transaction sees of a scope, everything for an empty one, and
// whether that is remembered for others.
func (tx *Tx) scoped(ctx context.Context, s memory.Scope) (st *scopeState, remembered bool, err error) {
	if tx.writes != nil || tx.state.Past { // nobody else reads this state
		st, err = tx.gather(ctx, s)
		return st, false, err
	}
	cache := &tx.db.scopes
	if st = cache.get(s); st != nil {
		if st.of(tx) {
			return st, true, nil
		}
		if st, err = st.carry(ctx, tx); err != nil {
			return nil, false, err
		}
	}
	if st == nil {
		if st, err = tx.gather(ctx, s); err != nil {
			return nil, false, err
		}
	}
	st, remembered = cache.put(st, tx)
	return st, remembered, nil
}

// of tells whether the state is what the transaction sees.
func (st *scopeState) of(tx *Tx) bool {
	return st.lsn == tx.state.LSN && st.index == tx.state.Index && st.now(tx)
}

// now tells whether the transaction's clock shows what the state does.
func (st *scopeState) now(tx *Tx) bool {
	return !st.timed || st.since <= tx.state.Now && tx.state.Now < st.until
}

// gather finds what is in a scope from the postings.
func (tx *Tx) gather(ctx context.Context, s memory.Scope) (*scopeState, error) {
	st := &scopeState{scope: s, lsn: tx.state.LSN, mark: tx.state.Postings.Docs, index: tx.state.Index, since: tx.state.Now, until: maxTime}
	var set *roaring.Bitmap
	var err error
	if s == (memory.Scope{}) {
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
func (st *scopeState) expiring(r *doctable.Row, now int64) {
	st.timed = true
	if r.Expires > now {
		st.until = min(st.until, r.Expires)
	} else {
		st.since = now
	}
}

// carry makes the state of an earlier one that of a transaction. It returns nil
// where that is to be gathered anew.
func (st *scopeState) carry(ctx context.Context, tx *Tx) (*scopeState, error) {
	docs := &tx.db.tables.Docs
	if st.lsn > tx.state.LSN || st.mark > tx.state.Postings.Docs || tx.state.Postings.Docs-st.mark > newbornMost ||
		st.index != tx.state.Index || docs.Moved.Load() > st.lsn || !st.now(tx) {
		return nil, nil
	}
	next := &scopeState{
		members: st.members, scope: st.scope, lsn: tx.state.LSN, mark: tx.state.Postings.Docs, index: tx.state.Index,
		timed: st.timed, since: st.since, until: st.until,
	}
	born, err := next.newborn(ctx, tx, st.mark)
	if err != nil {
		return nil, err
	}
	var died []uint32
	if docs.NewestDeath.Load() > st.lsn {
		if died, err = tx.invisible(ctx, st.set, next); err != nil {
			return nil, err
		}
	}
	if len(born) > 0 || len(died) > 0 {
		next.members = st.members.changed(&docs.Glances, born, died)
	}
	return next, nil
}

// newborn are the documents of the scope that were born since the number from was the
// next, as the postings have them.
func (st *scopeState) newborn(ctx context.Context, tx *Tx, from uint32) ([]uint32, error) {
	set, err := tx.scopeSetIn(st.scope, from, tx.state.Postings.Docs)
	if err != nil {
		return nil, err
	}
	if set == nil { // everything
		set = roaring.New()
		set.AddRange(uint64(from), uint64(tx.state.Postings.Docs))
	}
	set.AndNot(st.set) // of chunks that were passed over, since they are in use
	if set, err = tx.onlyVisible(ctx, set, st); err != nil {
		return nil, err
	}
	return set.ToArray(), nil
}

// members are the documents of a set that is searched, with what searches of
// vectors want to know of them.
type members struct {
	set *roaring.Bitmap // not to be changed
	n   int

	mu     sync.Mutex
	docs   []uint32          // in ascending order; nil until it is asked for, as is what follows
	looks  []doctable.Glance // of each of docs
	spaces map[*spaces.Space]*memberSlots
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

// keeps tells whether lists of the members are kept.
func (m *members) keeps() bool { return m.n <= listsMost }

// list are the documents.
func (m *members) list() []uint32 {
	if !m.keeps() {
		return m.set.ToArray()
	}
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

// glances are those of the listed documents, which are kept.
func (m *members) glances(of *doctable.Glances) []doctable.Glance {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.looks == nil {
		m.looks = make([]doctable.Glance, 0, len(m.listed()))
		for _, doc := range m.docs {
			m.looks = append(m.looks, of.Of(doc))
		}
	}
	return m.looks
}

// in is what is known of the members in a space; mu is held.
func (m *members) in(s *spaces.Space) *memberSlots {
	if m.spaces == nil {
		m.spaces = map[*spaces.Space]*memberSlots{}
	}
	if m.spaces[s] == nil {
		m.spaces[s] = &memberSlots{}
	}
	return m.spaces[s]
}

// slotsOf are the slots of the listed documents, which are kept, noSlot or above where
// one has none.
func (m *members) slotsOf(s *spaces.Space) []uint32 {
	m.mu.Lock()
	defer m.mu.Unlock()
	in := m.in(s)
	if in.of == nil {
		docs := m.listed()
		in.of = spaces.AppendSlots(make([]uint32, 0, len(docs)), &s.Slots, docs)
	}
	return in.of
}

// slotSet are the slots of the documents.
func (m *members) slotSet(s *spaces.Space) *hnsw.Set {
	m.mu.Lock()
	defer m.mu.Unlock()
	in := m.in(s)
	if in.set == nil {
		in.set = hnsw.NewSet()
		s.EachSlot(m.set, func(slots []uint32) { in.set.Add(slots...) })
	}
	return in.set
}

// changed are the members with those that were born and without those that have died. The
// lists are made anew where what was born does not come after all others: see giveDoc.
func (m *members) changed(of *doctable.Glances, born, died []uint32) *members {
	set := m.set.Clone()
	set.AndNot(roaring.BitmapOf(died...))
	set.AddMany(born)
	next := newMembers(set)
	after := len(born) == 0 || m.set.IsEmpty() || born[0] > m.set.Maximum()
	m.mu.Lock()
	defer m.mu.Unlock()
	var places []int // of those that have died, in the list
	if m.docs != nil {
		for _, doc := range died {
			i, _ := slices.BinarySearch(m.docs, doc)
			places = append(places, i)
		}
		if next.keeps() && after {
			next.docs = append(without(m.docs, places, len(born)), born...)
		}
	}
	if m.looks != nil && next.keeps() && after {
		next.looks = without(m.looks, places, len(born))
		for _, doc := range born {
			next.looks = append(next.looks, of.Of(doc))
		}
	}
	for s, in := range m.spaces {
		next.in(s).changed(s, in, born, died)
		if in.of != nil && next.keeps() && after {
			next.in(s).of = spaces.AppendSlots(without(in.of, places, len(born)), &s.Slots, born)
		}
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

// changed makes the set that of old with what was born, and without what has died. A
// slot that was freed may be that of one which was born since.
func (in *memberSlots) changed(s *spaces.Space, old *memberSlots, born, died []uint32) {
	if old.set == nil {
		return
	}
	in.set = old.set.Clone()
	for _, doc := range died {
		if slot, ok := s.Former(doc); ok {
			in.set.Remove(slot)
		}
	}
	for _, doc := range born {
		if slot, ok := s.Slot(doc); ok {
			in.set.Add(slot)
		}
	}
}

// size is about the memory that a state takes when all has been asked of it.
func (st *scopeState) size(db *DB) int64 {
	const perMember, perSlot = 6, 4 // in the list and of its glance; in a space
	bytes, spaces := scopeOverhead+int64(st.set.GetSizeInBytes()), db.spaces.All()
	if st.keeps() {
		bytes += (perMember + perSlot*int64(len(spaces))) * int64(st.n)
	}
	if st.n > db.spaces.Limits.Exhaustive {
		for _, s := range spaces {
			bytes += int64(s.Index.Len()) / 8
		}
	}
	return bytes
}
