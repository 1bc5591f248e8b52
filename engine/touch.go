package engine

import (
	"context"
	"encoding/binary"
	"sync"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/layout"
)

const (
	// touchEvery is how long a recall's touch may stay in RAM: what a crash may
	// lose of the access counts, and nothing else.
	touchEvery = 5 * time.Second
	// touchMost is the number of memories that are gathered before a flush.
	touchMost = 4096
	// touchSize is what one takes in a commit, in bytes.
	touchSize = 64
)

// touches gathers which memories were recalled: one commit for many recalls.
type touches struct {
	mu      sync.Mutex
	pending map[uint64]layout.Access // by Seq
	full    chan struct{}
}

func newTouches() *touches {
	return &touches{pending: map[uint64]layout.Access{}, full: make(chan struct{}, 1)}
}

// touch notes that memories were recalled. Readers see it at once.
func (db *DB) touch(seqs []uint64, now int64) {
	if db.readOnly {
		return
	}
	for _, seq := range seqs {
		if s := db.docs.Seq(seq); s != nil {
			s.Count.Add(1)
			for last := s.Accessed.Load(); last < now && !s.Accessed.CompareAndSwap(last, now); {
				last = s.Accessed.Load()
			}
		}
	}
	t := db.touched
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, seq := range seqs {
		t.pending[seq] = t.pending[seq].Fold(layout.Access{Count: 1, Last: now})
	}
	if len(t.pending) >= touchMost {
		select {
		case t.full <- struct{}{}:
		default:
		}
	}
}

// FlushTouches commits the access counts and times that recalls have gathered. It
// happens by itself every few seconds and on Close.
func (db *DB) FlushTouches(ctx context.Context) error {
	return db.flush(func(fn func(*Tx) error) error { return db.Update(ctx, fn) })
}

// flush commits what is gathered, and gathers it again where that fails.
func (db *DB) flush(update func(func(*Tx) error) error) error {
	t := db.touched
	t.mu.Lock()
	batch := t.pending
	t.pending = map[uint64]layout.Access{}
	t.mu.Unlock()
	if len(batch) == 0 {
		return nil
	}
	err := update(func(tx *Tx) error { return tx.flushTouches(batch) })
	if err != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		for seq, a := range batch {
			t.pending[seq] = t.pending[seq].Fold(a)
		}
	}
	return err
}

func (tx *Tx) flushTouches(batch map[uint64]layout.Access) error {
	if err := tx.db.store.AdmitFreeing("keep access counts", len(batch)*touchSize); err != nil {
		return err // they stay in RAM, and are a part of no memory
	}
	var body []byte
	n := 0
	for seq, a := range batch {
		l, ok := tx.at(seq)
		if !ok {
			continue // deleted since
		}
		if err := tx.merge(tx.keys.Stats(l.Owner, seq), a.Encode()); err != nil {
			return err
		}
		body = binary.AppendUvarint(body, uint64(l.Owner))
		body = binary.AppendUvarint(body, seq)
		body = binary.AppendUvarint(body, a.Count)
		body = binary.AppendVarint(body, a.Last)
		n++
	}
	if n == 0 {
		return nil
	}
	tx.change()
	tx.log = append(tx.log, byte(layout.LogTouch))
	tx.log = binary.AppendUvarint(tx.log, uint64(n))
	tx.log = append(tx.log, body...)
	return nil
}
