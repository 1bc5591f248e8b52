package fuzz

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/seed-7aedc3ff/memdb/memory"
)

// key addresses a memory: its user and its ID.
type key struct{ user, id string }

// change is what a commit did to one memory, or, with a scope, to all that were
// in it.
type change struct {
	event memory.Event
	key   key
	run   string
	seq   uint64
	text  string
	scope memory.Scope // of an EventDelete without a key
}

// hit is a duplicate that was recognised: the memory that it named must have
// been there, with that text, in the state before its transaction.
type hit struct {
	key  key
	text string
}

// commit is what one transaction did.
type commit struct {
	lsn     uint64
	changes []change
	hits    []hit
}

// journal is what every commit did, by LSN, and how far acknowledgements went.
// LSNs without an entry are commits of the database's own, which change nothing
// that the model knows.
type journal struct {
	mu      sync.Mutex
	commits map[uint64][]change
	hits    map[uint64][]hit
	durable uint64 // every commit up to here was acknowledged, or seen by one that was
}

func newJournal() *journal { return &journal{commits: map[uint64][]change{}, hits: map[uint64][]hit{}} }

// note records what a transaction is about to commit. One that changes nothing
// takes no LSN.
func (j *journal) note(c commit) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(c.changes) > 0 {
		j.commits[c.lsn] = c.changes
	}
	j.hits[c.lsn] = append(j.hits[c.lsn], c.hits...)
}

// acknowledged records that a call has returned: its commit, or all that it saw
// if it made none, is durable.
func (j *journal) acknowledged(c commit) {
	j.mu.Lock()
	defer j.mu.Unlock()
	lsn := c.lsn
	if len(c.changes) == 0 {
		lsn--
	}
	j.durable = max(j.durable, lsn)
}

// watermark is the LSN that a crash from now on may not fall behind.
func (j *journal) watermark() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.durable
}

// remembered is what the model knows of one.
type remembered struct {
	key  key
	run  string
	seq  uint64
	text string
}

// entry is one line of a memory's history.
type entry struct {
	lsn      uint64
	event    memory.Event
	old, new string
}

func (e entry) String() string {
	return fmt.Sprintf("%s@%d %.12q->%.12q", e.event, e.lsn, e.old, e.new)
}

// state is the journal up to an LSN.
type state struct {
	live    map[key]remembered
	history map[key][]entry
}

// inOrder lists what lives in the order of Seq.
func (s *state) inOrder() []remembered {
	return slices.SortedFunc(maps.Values(s.live), func(a, b remembered) int { return cmp.Compare(a.seq, b.seq) })
}

// at folds the journal up to an LSN.
func (j *journal) at(lsn uint64) (*state, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	s := &state{live: map[key]remembered{}, history: map[key][]entry{}}
	for n := uint64(1); n <= lsn; n++ {
		for _, c := range j.commits[n] {
			if err := s.apply(n, c); err != nil {
				return nil, err
			}
		}
		for _, h := range j.hits[n+1] {
			if m, ok := s.live[h.key]; !ok || m.text != h.text {
				return nil, fmt.Errorf("at LSN %d: a duplicate named %v, which was not there with that text", n, h.key)
			}
		}
	}
	return s, nil
}

func (s *state) apply(lsn uint64, c change) error {
	if c.key == (key{}) {
		for k, m := range s.live {
			if k.user == c.scope.User && (c.scope.Run == "" || m.run == c.scope.Run) {
				s.history[k] = append(s.history[k], entry{lsn, memory.EventDelete, m.text, ""})
				delete(s.live, k)
			}
		}
		return nil
	}
	old, alive := s.live[c.key]
	if alive != (c.event != memory.EventAdd) {
		return fmt.Errorf("at LSN %d: %s of %v, which is alive: %v", lsn, c.event, c.key, alive)
	}
	s.history[c.key] = append(s.history[c.key], entry{lsn, c.event, old.text, c.text})
	switch c.event {
	case memory.EventAdd:
		s.live[c.key] = remembered{c.key, c.run, c.seq, c.text}
	case memory.EventUpdate:
		old.text = c.text
		s.live[c.key] = old
	case memory.EventDelete:
		delete(s.live, c.key)
	}
	return nil
}
