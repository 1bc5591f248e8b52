package graph

import (
	"cmp"
	"fmt"
	"sort"
	"sync"

	"github.com/seed-7aedc3ff/memdb/internal/part"
)

// residents are the graphs that are in RAM, by owner: an adjacency each, and the commits
// since. What is staged by a commit is there before a reader can see the commit, so a
// reader finds all deltas up to its LSN.
type residents struct {
	sync.Mutex
	budget int64 // bytes
	owners map[uint32]*resident
	// changed has the LSN of the newest change of owners that may have changed since the
	// oldest state that is read, and wiped that of the newest reset.
	changed map[uint32]uint64
	wiped   uint64
	// walked counts the relations of an owner that were read by keys.
	walked map[uint32]uint64
	clock  uint64 // counts uses
}

// resident is the graph of an owner in RAM.
type resident struct {
	base   *adjacency // nil while it is being made
	making bool       // a reader makes it, or folds the deltas into another
	deltas []delta    // since base, or since the beginning of making, by LSN
	size   int64      // of the deltas
	newest *overlay   // the last one that was asked for
	used   uint64
}

const (
	// worthMaking is the share of an owner's relations that queries read by keys before the
	// graph is read into RAM: one in so many.
	worthMaking = 4
	// smallGraph is the number of relations that are read into RAM at once.
	smallGraph = 1000
	// foldAfter bounds the deltas beside an adjacency, in bytes, if they are more than an
	// eighth of it.
	foldAfter = 16 << 10
	// maxWalked bounds the owners whose reads are counted.
	maxWalked = 1 << 16
)

// Load notes what the part may take. Nothing is read before a query wants it.
func (p *Part) Load(_ part.View, o part.Opening) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.budget = o.Budget
	p.mu.owners, p.mu.changed, p.mu.walked = map[uint32]*resident{}, map[uint32]uint64{}, map[uint32]uint64{}
	return nil
}

// Bytes are about those that the part holds in RAM.
func (p *Part) Bytes() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.bytes()
}

func (m *residents) bytes() (n int64) {
	for _, r := range m.owners {
		n += r.bytes()
	}
	return n
}

func (r *resident) bytes() int64 {
	n := 3 * r.size // with the overlay
	if r.base != nil {
		n += r.base.bytes()
	}
	return n
}

// stage has the graph in RAM follow the commit.
func (p *Part) stage(t part.Tx, owner uint32, d delta) {
	t.Stage(func(lsn uint64) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.mu.changed[owner] = lsn
		r := p.mu.owners[owner]
		switch {
		case r == nil:
		case d.all:
			delete(p.mu.owners, owner) // who makes it sees that it is another's
		default:
			d.lsn = lsn
			r.deltas = append(r.deltas, d)
			r.size += d.size()
		}
	})
}

// Reset forgets everything.
func (p *Part) Reset(lsn uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.mu.owners)
	clear(p.mu.walked)
	p.mu.wiped = lsn
}

// Release forgets which owners have changed before the oldest state that is read.
func (p *Part) Release(oldest uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for owner, lsn := range p.mu.changed {
		if lsn <= oldest {
			delete(p.mu.changed, owner)
		}
	}
}

// source is where a query finds relations, and why not in RAM.
func (p *Part) source(r *reader, own *owned, validAt int64) (source, string, error) {
	switch byKeys := newKeys(r, own, validAt); {
	case r.asOf != 0:
		return byKeys, "the query is as of an LSN", nil
	case validAt != 0:
		return byKeys, "the query is at a time of validity", nil
	case r.Writing():
		return byKeys, "the transaction may have changed the graph", nil
	default:
		m, why, err := p.memory(r, own)
		if m == nil {
			return byKeys, why, err
		}
		return m, "", nil
	}
}

// memory is the graph in RAM as a reader sees it, nil and why where there is none.
func (p *Part) memory(r *reader, own *owned) (*memory, string, error) {
	p.mu.Lock()
	at := p.mu.owners[r.owner]
	switch {
	case at == nil:
		if why := p.mu.unfit(r, own); why != "" {
			p.mu.Unlock()
			return nil, why, nil
		}
		at = &resident{making: true}
		p.mu.owners[r.owner] = at
		p.mu.Unlock()
		return p.make(r, own, at)
	case at.base == nil:
		p.mu.Unlock()
		return nil, "the graph is being read into memory", nil
	case at.base.lsn > r.LSN():
		p.mu.Unlock()
		return nil, "the state is older than the one in memory", nil
	}
	p.mu.clock++
	at.used = p.mu.clock
	m := at.at(r.LSN())
	fold := !at.making && at.size > max(foldAfter, at.base.bytes()/8)
	at.making = at.making || fold
	p.mu.Unlock()
	if fold {
		return p.fold(r, at, m)
	}
	return m, "", nil
}

// unfit says why the graph of an owner is not to be read into RAM now.
func (m *residents) unfit(r *reader, own *owned) string {
	need := expected(own)
	switch {
	case need > m.budget:
		return fmt.Sprintf("the graph needs %d bytes of memory, and its share is %d", need, m.budget)
	case m.changed[r.owner] > r.LSN() || m.wiped > r.LSN():
		return "the state is older than the newest"
	case own.relations > smallGraph && m.walked[r.owner] < own.relations/worthMaking:
		return "few of the relations were read so far"
	}
	return ""
}

// make reads the graph of an owner into RAM.
func (p *Part) make(r *reader, own *owned, at *resident) (*memory, string, error) {
	base, err := readAdjacency(r, own)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil || p.mu.owners[r.owner] != at { // it failed, or all was deleted meanwhile
		if p.mu.owners[r.owner] == at {
			delete(p.mu.owners, r.owner)
		}
		return nil, "the graph was deleted meanwhile", err
	}
	p.mu.clock++
	at.base, at.making, at.used = base, false, p.mu.clock
	delete(p.mu.walked, r.owner)
	p.mu.evict(r.owner)
	return at.at(r.LSN()), "", nil
}

// fold takes the changes that a reader sees into the adjacency.
func (p *Part) fold(r *reader, at *resident, m *memory) (*memory, string, error) {
	base, err := m.folded(r.LSN())
	p.mu.Lock()
	defer p.mu.Unlock()
	at.making = false
	if err != nil {
		return nil, "", err
	}
	at.base, at.newest = base, nil
	at.deltas = append([]delta(nil), at.deltas[m.deltas:]...)
	at.size = 0
	for i := range at.deltas {
		at.size += at.deltas[i].size()
	}
	p.mu.evict(r.owner)
	return &memory{adjacency: base, overlay: newOverlay(nil, uint32(len(base.types)-1))}, "", nil
}

// evict drops the graphs that were used the longest ago until all fit, but for one.
func (m *residents) evict(but uint32) {
	for m.bytes() > m.budget {
		oldest, used := but, m.clock+1
		for owner, r := range m.owners {
			if owner != but && !r.making && cmp.Less(r.used, used) {
				oldest, used = owner, r.used
			}
		}
		if oldest == but {
			return
		}
		delete(m.owners, oldest)
	}
}

// at is the graph as a reader at an LSN sees it. The lock is held.
func (r *resident) at(lsn uint64) *memory {
	n := sort.Search(len(r.deltas), func(i int) bool { return r.deltas[i].lsn > lsn })
	if r.newest == nil || r.newest.deltas != n {
		o := newOverlay(r.deltas[:n], uint32(len(r.base.types)-1))
		if r.newest != nil && r.newest.deltas > n {
			return &memory{adjacency: r.base, overlay: o} // an older state: it is not kept
		}
		r.newest = o
	}
	return &memory{adjacency: r.base, overlay: r.newest}
}

// read notes that a query has read relations by keys.
func (p *Part) read(owner uint32, edges int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.mu.walked) >= maxWalked {
		clear(p.mu.walked)
	}
	p.mu.walked[owner] += uint64(edges)
}
