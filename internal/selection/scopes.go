// Package selection finds which memories a reader means: those of a scope, those for which a filter
// holds, those that are visible.
package selection

import (
	"context"
	"slices"
	"sync"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/seed-7aedc3ff/memdb/hnsw"
	"github.com/seed-7aedc3ff/memdb/internal/analysis"
	"github.com/seed-7aedc3ff/memdb/internal/doctable"
	"github.com/seed-7aedc3ff/memdb/internal/spaces"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/invindex"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// Cache remember which documents the newest states show of the scopes that were
// recalled from last: to gather them from the postings takes longer than most of
// what a recall then does with them. A later state is made from an earlier one by
// what was born and has died in between.
type Cache struct {
	mu    sync.Mutex
	known map[memory.Scope]*Scoped // the empty scope is that of everything
	bytes int64
	// Limit bounds the memory of what is remembered. Spaces are those that searches look into.
	Limit  int64
	Spaces *spaces.Set
	uses   uint64
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

// Scoped is what a state shows of a scope. It never changes.
type Scoped struct {
	*Members
	Scope memory.Scope
	LSN   uint64
	mark  uint32 // one past the newest document
	index *invindex.Index
	// Where timed is set, the scope has memories that expire, and the state is that
	// of the readings of the clock from since on, and before until.
	timed        bool
	since, until int64
	unhidden     uint64 // doctable.Table.Unhidden before it was gathered

	used  uint64 // guarded by scopes.mu
	bytes int64  // likewise
}

// Remembered is the state of a scope that was remembered last, nil for none.
func (c *Cache) Remembered(s memory.Scope) *Scoped {
	c.mu.Lock()
	defer c.mu.Unlock()
	sc := c.known[s]
	if sc != nil {
		c.uses++
		sc.used = c.uses
	}
	return sc
}

// put remembers a state, unless a later one is. It returns the state to be used, and
// whether it is remembered.
func (c *Cache) put(sc *Scoped, st *state.State) (*Scoped, bool) {
	bytes := sc.size(c)
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.known[sc.Scope]
	switch {
	case old != nil && old.of(st):
		return old, true // more may be known of its members
	case old != nil && old.LSN > sc.LSN || bytes > c.Limit || st.NewestIndex.Load() != sc.index:
		return sc, false
	}
	if old != nil {
		c.bytes -= old.bytes
	}
	if c.known == nil {
		c.known = map[memory.Scope]*Scoped{}
	}
	c.uses++
	sc.used, sc.bytes = c.uses, bytes
	c.known[sc.Scope] = sc
	c.bytes += bytes
	for c.bytes > c.Limit || len(c.known) > scopesMost {
		oldest := sc
		for _, other := range c.known {
			if other.used < oldest.used {
				oldest = other
			}
		}
		delete(c.known, oldest.Scope)
		c.bytes -= oldest.bytes
	}
	return sc, true
}

// forget forgets all states, with the index that they were gathered from.
func (c *Cache) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known, c.bytes = nil, 0
}

// Size is the memory of what is remembered, in bytes.
func (c *Cache) Size() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes
}

// Scoped is what a reader sees of a scope, everything for an empty one, and
// whether that is remembered for others.
func (c *Cache) Scoped(ctx context.Context, st *state.State, s memory.Scope) (sc *Scoped, remembered bool, err error) {
	if !st.Shared() { // nobody else reads this state
		sc, err = Gather(ctx, st, s)
		return sc, false, err
	}
	if sc = c.Remembered(s); sc != nil {
		if sc.of(st) {
			return sc, true, nil
		}
		if sc, err = sc.Carry(ctx, st); err != nil {
			return nil, false, err
		}
	}
	if sc == nil {
		if sc, err = Gather(ctx, st, s); err != nil {
			return nil, false, err
		}
	}
	sc, remembered = c.put(sc, st)
	return sc, remembered, nil
}

// of reports whether the state is what a reader sees.
func (sc *Scoped) of(st *state.State) bool {
	return sc.LSN == st.LSN && sc.index == st.Index && sc.now(st)
}

// now reports whether a reader's clock shows what the state does.
func (sc *Scoped) now(st *state.State) bool {
	return !sc.timed || sc.since <= st.Now && st.Now < sc.until && sc.unhidden == st.Docs.Unhidden.Load()
}

// Gather finds what is in a scope from the postings.
func Gather(ctx context.Context, st *state.State, s memory.Scope) (*Scoped, error) {
	sc := &Scoped{Scope: s, LSN: st.LSN, mark: st.Postings.Docs, index: st.Index, since: st.Now, until: maxTime, unhidden: st.Docs.Unhidden.Load()}
	var set *roaring.Bitmap
	var err error
	if s == (memory.Scope{}) {
		set, err = everything(ctx, st, sc)
	} else if set, err = ScopeSet(st, s); err == nil {
		set, err = onlyVisible(ctx, st, set, sc)
	}
	if err != nil {
		return nil, err
	}
	sc.Members = NewMembers(set)
	return sc, nil
}

// maxTime is later than any clock.
const maxTime = 1<<63 - 1

// expiring notes a document that expires at a time.
func (sc *Scoped) expiring(at, now int64) {
	sc.timed = true
	if at > now {
		sc.until = min(sc.until, at)
	} else {
		sc.since = now
	}
}

// Carry makes the state of an earlier one that of a later reader. It returns nil
// where that is to be gathered anew.
func (sc *Scoped) Carry(ctx context.Context, st *state.State) (*Scoped, error) {
	docs := &st.Docs
	if sc.LSN > st.LSN || sc.mark > st.Postings.Docs || st.Postings.Docs-sc.mark > newbornMost ||
		sc.index != st.Index || docs.Moved.Load() > sc.LSN || !sc.now(st) {
		return nil, nil
	}
	next := &Scoped{
		Members: sc.Members, Scope: sc.Scope, LSN: st.LSN, mark: st.Postings.Docs, index: st.Index,
		timed: sc.timed, since: sc.since, until: sc.until, unhidden: sc.unhidden,
	}
	born, err := next.newborn(ctx, st, sc.mark)
	if err != nil {
		return nil, err
	}
	var died []uint32
	if docs.NewestDeath.Load() > sc.LSN {
		if died, err = invisible(ctx, st, sc.Set, next); err != nil {
			return nil, err
		}
	}
	if len(born) > 0 || len(died) > 0 {
		next.Members = sc.Members.changed(&docs.Glances, born, died)
	}
	return next, nil
}

// newborn are the documents of the scope that were born since the number from was the
// next, as the postings have them.
func (sc *Scoped) newborn(ctx context.Context, st *state.State, from uint32) ([]uint32, error) {
	set, err := scopeSetIn(st, sc.Scope, from, st.Postings.Docs)
	if err != nil {
		return nil, err
	}
	if set == nil { // everything
		set = roaring.New()
		set.AddRange(uint64(from), uint64(st.Postings.Docs))
	}
	set.AndNot(sc.Set) // of chunks that were passed over, since they are in use
	if set, err = onlyVisible(ctx, st, set, sc); err != nil {
		return nil, err
	}
	return set.ToArray(), nil
}

// Members are the documents of a set that is searched, with what searches of
// vectors want to know of them.
type Members struct {
	Set *roaring.Bitmap // not to be changed
	N   int

	mu     sync.Mutex
	docs   []uint32          // in ascending order; nil until it is asked for, as is what follows
	looks  []doctable.Glance // of each of docs
	spaces map[*spaces.Space]*memberSlots
	shares *analysis.Shares
}

// memberSlots are the slots of members in a space. Each part is nil until it is
// asked for.
type memberSlots struct {
	of  []uint32 // the slot of each member, spaces.NoSlot or above if it has none
	set *hnsw.Set
}

// NewMembers are those of a set.
func NewMembers(set *roaring.Bitmap) *Members {
	return &Members{Set: set, N: int(set.GetCardinality())}
}

// Languages say in which languages the documents are; a state that shows them is asked once.
func (m *Members) Languages(ctx context.Context, st *state.State) (analysis.Shares, error) {
	m.mu.Lock()
	known := m.shares
	m.mu.Unlock()
	if known != nil {
		return *known, nil
	}
	shares, err := st.Languages(ctx, m.Set)
	if err != nil {
		return analysis.Shares{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.shares = &shares
	return shares, nil
}

// keeps reports whether lists of the members are kept.
func (m *Members) Keeps() bool { return m.N <= listsMost }

// list are the documents.
func (m *Members) List() []uint32 {
	if !m.Keeps() {
		return m.Set.ToArray()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.listed()
}

// listed is list; mu is held.
func (m *Members) listed() []uint32 {
	if m.docs == nil {
		m.docs = m.Set.ToArray()
	}
	return m.docs
}

// glances are those of the listed documents, which are kept.
func (m *Members) Glances(of *doctable.Glances) []doctable.Glance {
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
func (m *Members) in(s *spaces.Space) *memberSlots {
	if m.spaces == nil {
		m.spaces = map[*spaces.Space]*memberSlots{}
	}
	if m.spaces[s] == nil {
		m.spaces[s] = &memberSlots{}
	}
	return m.spaces[s]
}

// slotsOf are the slots of the listed documents, which are kept, spaces.NoSlot or above where
// one has none.
func (m *Members) SlotsOf(s *spaces.Space) []uint32 {
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
func (m *Members) SlotSet(s *spaces.Space) *hnsw.Set {
	m.mu.Lock()
	defer m.mu.Unlock()
	in := m.in(s)
	if in.set == nil {
		in.set = hnsw.NewSet()
		s.EachSlot(m.Set, func(slots []uint32) { in.set.Add(slots...) })
	}
	return in.set
}

// changed are the members with those that were born and without those that have died. The
// lists are made anew where what was born does not come after all others: see giveDoc.
func (m *Members) changed(of *doctable.Glances, born, died []uint32) *Members {
	set := m.Set.Clone()
	set.AndNot(roaring.BitmapOf(died...))
	set.AddMany(born)
	next := NewMembers(set)
	after := len(born) == 0 || m.Set.IsEmpty() || born[0] > m.Set.Maximum()
	m.mu.Lock()
	defer m.mu.Unlock()
	var places []int // of those that have died, in the list
	if m.docs != nil {
		for _, doc := range died {
			i, _ := slices.BinarySearch(m.docs, doc)
			places = append(places, i)
		}
		if next.Keeps() && after {
			next.docs = append(without(m.docs, places, len(born)), born...)
		}
	}
	if m.looks != nil && next.Keeps() && after {
		next.looks = without(m.looks, places, len(born))
		for _, doc := range born {
			next.looks = append(next.looks, of.Of(doc))
		}
	}
	for s, in := range m.spaces {
		next.in(s).changed(s, in, born, died)
		if in.of != nil && next.Keeps() && after {
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
func (sc *Scoped) size(c *Cache) int64 {
	const perMember, perSlot = 6, 4 // in the list and of its glance; in a space
	bytes, spaces := scopeOverhead+int64(sc.Set.GetSizeInBytes()), c.Spaces.All()
	if sc.Keeps() {
		bytes += (perMember + perSlot*int64(len(spaces))) * int64(sc.N)
	}
	if sc.N > c.Spaces.Limits.Exhaustive {
		for _, s := range spaces {
			bytes += int64(s.Index.Len()) / 8
		}
	}
	return bytes
}
