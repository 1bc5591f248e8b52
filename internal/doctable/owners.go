package doctable

import (
	"math"
	"sync"
	"sync/atomic"
)

// Owners count the living documents of each owner, and tell of the owners that have many.
type Owners struct {
	counts Paged[ownerCount]
	// most is how many an owner may have untold, 0 for any number.
	most   atomic.Int64
	signal chan<- struct{}

	mu     sync.Mutex
	crowd  map[uint32]uint32 // a document of each owner that is to be told of
	spared chan struct{}     // closed when an owner is spared; nil: nobody waits for it
}

// ownerCount is what is known of an owner.
type ownerCount struct {
	living atomic.Int64
	spared atomic.Int64 // up to how many the owner is not told of, see Spare
}

// untold is ownerCount.spared of an owner who is told of and not yet spared.
const untold = math.MaxInt64

// add counts a document that has come or gone. The writer calls it.
func (o *Owners) add(doc uint32, owner uint32, by int64) {
	c := o.counts.Grow(uint64(owner))
	n := c.living.Add(by)
	if most := o.most.Load(); by > 0 && most > 0 && n > most {
		o.tell(c, owner, doc)
	}
}

// tell puts an owner among those to be told of, unless it is spared.
func (o *Owners) tell(c *ownerCount, owner, doc uint32) {
	if c.living.Load() <= c.spared.Load() {
		return
	}
	c.spared.Store(untold)
	o.mu.Lock()
	if o.crowd == nil {
		o.crowd = map[uint32]uint32{}
	}
	o.crowd[owner] = doc
	o.mu.Unlock()
	select {
	case o.signal <- struct{}{}:
	default:
	}
}

// Living is how many living documents an owner has.
func (o *Owners) Living(owner uint32) int64 {
	if c := o.counts.At(uint64(owner)); c != nil {
		return c.living.Load()
	}
	return 0
}

// Most is the number that Watch was called with last.
func (o *Owners) Most() int64 { return o.most.Load() }

// Spare leaves an owner untold up to a number of documents. doc is one of them, or was.
func (o *Owners) Spare(owner, doc uint32, upTo int64) {
	if c := o.counts.At(uint64(owner)); c != nil {
		c.spared.Store(upTo)
		if c.living.Load() > max(upTo, o.most.Load()) { // by what came meanwhile
			o.tell(c, owner, doc)
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.spared != nil {
		close(o.spared)
		o.spared = nil
	}
}

// Crowded returns what is closed once an owner is spared, nil where this owner need not be: it
// has no more than a number of living documents, or was not told of.
func (o *Owners) Crowded(owner uint32, more int64) <-chan struct{} {
	c := o.counts.At(uint64(owner))
	if c == nil || c.living.Load() <= more {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if c.spared.Load() != untold {
		return nil
	}
	if o.spared == nil {
		o.spared = make(chan struct{})
	}
	return o.spared
}

// Next takes an owner that is to be told of, and one of its documents; false for none.
func (o *Owners) Next() (owner, doc uint32, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for owner, doc = range o.crowd {
		delete(o.crowd, owner)
		return owner, doc, true
	}
	return 0, 0, false
}

// Watch tells, from now on, of each owner that comes to have more than most living documents,
// and of those that have: Next has them, and signal gets an element unless it is full. The
// lock of writers is held.
func (t *Table) Watch(most int64, signal chan<- struct{}) {
	o := &t.Owners
	o.signal = signal
	o.most.Store(most)
	t.Rows.Each(math.MaxUint32, func(doc uint64, r *Row) bool {
		if r.Died.Load() != Alive {
			return true
		}
		if c := o.counts.At(uint64(r.Owner)); c.living.Load() > most {
			if c.spared.Load() != untold {
				c.spared.Store(0)
			}
			o.tell(c, r.Owner, uint32(doc))
		}
		return true
	})
}
