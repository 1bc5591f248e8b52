package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/batchrepr"

	"github.com/seed-7aedc3ff/memdb/internal/kv"
)

// Every write comes into the store by one of four ways: ApplyBatch for commits, Apply and Set for
// what has no LSN, SyncLog for the log itself; into one that follows another by Follow. Nothing else writes to Pebble, and nothing is
// ingested but into a store that is being made: the batches, in the order of applying, are a complete record of the store, and a store
// made of them alone is the same database.
//
// While an [Outlet] is attached, each batch has a number, one more than that of the batch before,
// and writes its number under Config.NumberKey along with all else. So a store that was closed, or
// killed, tells which batch is the last that it holds; and a copy that is made of the batches tells
// it, too. A store that is opened to be written without an outlet forgets its number, since from then
// on there are batches without one.

// Written is a batch that was applied.
type Written struct {
	Number uint64
	LSN    uint64 // of the newest commit that was applied then, with this batch
	Time   int64  // of that commit, in Unix milliseconds; both 0: no commit was since the outlet is there
	Repr   []byte // as Pebble has it, with the number
}

// Commit is the last commit in a batch.
type Commit struct {
	LSN  uint64
	Time int64
}

// shipping is what all outlets share.
type shipping struct {
	on    atomic.Bool // an outlet is attached
	stale atomic.Bool // the store holds a number that the next write makes wrong

	mu      sync.Mutex // held while a batch is applied that is shipped: the order of numbers is that of applying
	number  uint64     // of the newest batch
	fresh   bool       // the store was empty when it began
	synced  uint64     // the batches up to this number are on disk
	lsn     uint64
	time    int64
	asked   map[*pebble.Batch]uint64 // the numbers of batches whose sync was asked for
	outlets []*Outlet
	sending sending // see Config.Sent
}

// Outlet receives all batches that are applied from its beginning on. It keeps them in RAM until they
// are taken, up to a bound; then it drops all that it has, and is to begin anew.
type Outlet struct {
	of    *shipping
	store *Store
	bound int64
	ready chan struct{}

	// of.mu guards these, which are all that the outlet has.
	queue []Written
	bytes int64
	lost  bool // batches were dropped
}

// Numbered says which batch is the last that the store holds, 0 if that is not known. With ship it
// attaches an outlet for the batches after that, which begins with those that the log of the store
// holds; otherwise the first write has the store forget the number. It is called after Open, before
// anything is written. fresh says that the store is empty: its first batch has the number 1, and that of
// no other store has it.
func (s *Store) Numbered(ship, fresh bool, bound int64) (number uint64, o *Outlet, err error) {
	b, closer, err := s.Get(s.config.NumberKey)
	switch {
	case errors.Is(err, kv.ErrNotFound):
	case err != nil:
		if !Unreadable(err) {
			return 0, nil, err
		} // damaged: it is not known
	default:
		number = decodeNumber(b, s.timeline)
		if err := closer.Close(); err != nil {
			return 0, nil, err
		}
		s.ship.stale.Store(!ship)
	}
	if ship {
		s.ship.number, s.ship.synced = number, number
		if number == 0 && fresh {
			s.ship.fresh = true
		}
		o = s.Attach(bound)
		o.begin(s.tail, number)
		s.tail = nil
	}
	return number, o, nil
}

// Attach begins an outlet, which keeps up to bound bytes. No commit may be applied meanwhile.
func (s *Store) Attach(bound int64) *Outlet {
	sh := &s.ship
	sh.mu.Lock()
	defer sh.mu.Unlock()
	o := &Outlet{of: sh, store: s, bound: bound, ready: make(chan struct{}, 1)}
	sh.outlets = append(sh.outlets, o)
	if sh.number == 0 && !sh.fresh {
		sh.number = 1
	}
	if sh.asked == nil {
		sh.asked = map[*pebble.Batch]uint64{}
	}
	sh.on.Store(true)
	return o
}

// Detach ends an outlet. The store goes on to number its batches until it is closed.
func (o *Outlet) Detach() {
	o.of.mu.Lock()
	defer o.of.mu.Unlock()
	for i, other := range o.of.outlets {
		if other == o {
			o.of.outlets = append(o.of.outlets[:i:i], o.of.outlets[i+1:]...)
			break
		}
	}
	o.queue, o.bytes, o.lost = nil, 0, true
}

// Shipping reports whether batches are handed to an outlet. A batch of several commits is then applied
// as they have written it, one after the other, so that a copy can be made of the first of them alone.
func (s *Store) Shipping() bool { return s.ship.on.Load() }

// unnumbered has a batch that nobody follows take the number away.
func (s *Store) unnumbered(b *pebble.Batch) error {
	if !s.ship.stale.Load() || b.Empty() {
		return nil
	}
	s.ship.mu.Lock()
	defer s.ship.mu.Unlock()
	if !s.ship.stale.Swap(false) {
		return nil
	}
	return b.Delete(s.config.NumberKey, nil)
}

// shipped applies a batch and hands it to the outlets.
func (s *Store) shipped(b *pebble.Batch, c Commit, apply func() error) error {
	sh := &s.ship
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if err := b.Set(s.config.NumberKey, EncodeNumber(sh.number+1, s.timeline), nil); err != nil {
		return err
	}
	if s.config.Sent != nil {
		if err := b.Set(s.config.MarkKey, s.config.Sent.Mark(), nil); err != nil {
			return err
		}
	}
	repr := bytes.Clone(b.Repr()) // a large batch gives its memory away when it is applied
	if err := apply(); err != nil {
		return err
	}
	sh.number++
	if c.LSN != 0 {
		sh.lsn, sh.time = c.LSN, c.Time
	}
	w := Written{Number: sh.number, LSN: sh.lsn, Time: sh.time, Repr: repr}
	for _, o := range sh.outlets {
		o.add(w)
	}
	if s.config.Sent != nil {
		sh.sending.add(w)
	}
	return nil
}

// add notes a batch; of.mu is held.
func (o *Outlet) add(w Written) {
	if o.lost {
		return
	}
	if o.bytes += int64(len(w.Repr)); o.bytes > o.bound && len(o.queue) > 0 {
		o.queue, o.bytes, o.lost = nil, 0, true
		o.wake()
		return
	}
	o.queue = append(o.queue, w)
}

func (o *Outlet) wake() {
	select {
	case o.ready <- struct{}{}:
	default:
	}
}

// Ready has a value when there may be something to take.
func (o *Outlet) Ready() <-chan struct{} { return o.ready }

// Waiting are the bytes that were not taken yet, and how many of the batches are not on disk yet; lost
// says that batches were dropped, so that the outlet gives nothing until [Outlet.Anew].
func (o *Outlet) Waiting() (bytes int64, unsynced int, lost bool) {
	o.of.mu.Lock()
	defer o.of.mu.Unlock()
	for _, w := range o.queue {
		if w.Number > o.of.synced {
			unsynced++
		}
	}
	return o.bytes, unsynced, o.lost
}

// Peek returns the oldest batches that are on disk, about most bytes of them. They stay until Drop.
func (o *Outlet) Peek(most int64) []Written {
	o.of.mu.Lock()
	defer o.of.mu.Unlock()
	n, size := 0, int64(0)
	for _, w := range o.queue {
		if size += int64(len(w.Repr)); w.Number > o.of.synced || n > 0 && size > most {
			break
		}
		n++
	}
	return o.queue[:n:n]
}

// Drop gives up the batches up to a number: they were taken.
func (o *Outlet) Drop(upto uint64) {
	o.of.mu.Lock()
	defer o.of.mu.Unlock()
	n := 0
	for n < len(o.queue) && o.queue[n].Number <= upto {
		o.bytes -= int64(len(o.queue[n].Repr))
		n++
	}
	o.queue = append([]Written(nil), o.queue[n:]...)
}

// Anew begins the outlet again from the state of now: the snapshot, which is to be closed, holds
// everything up to the batch of the number, and the outlet gives what comes after. The number is higher
// than above.
func (o *Outlet) Anew(above uint64) (snap Snapshot, number uint64, err error) {
	sh := o.of
	sh.mu.Lock()
	if above >= sh.number { // leave out a number: who follows shall not take what comes for what comes next
		sh.number = above + 1
		for _, other := range sh.outlets {
			other.queue, other.bytes, other.lost = nil, 0, true
			other.wake()
		}
	}
	snap, number = o.store.NewSnapshot(), sh.number
	o.queue, o.bytes, o.lost = nil, 0, false
	sh.mu.Unlock()
	// A batch of its own tells the store the number. What the snapshot holds is to be on disk before
	// anybody is told of it.
	b := o.store.NewBatch()
	err = o.store.shipped(b, Commit{}, func() error {
		return o.store.into(b, 0, func() error { return o.store.db.Apply(b, pebble.NoSync) })
	})
	if err = errors.Join(err, b.Close()); err == nil {
		err = o.store.SyncLog(nil)
	}
	if err != nil {
		err = errors.Join(err, snap.Close())
	}
	return snap, number, err
}

// reached notes that the batches up to a number are on disk.
func (sh *shipping) reached(number uint64) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if number <= sh.synced {
		return
	}
	sh.synced = number
	for _, o := range sh.outlets {
		o.wake()
	}
}

// upto is the number up to which a sync of the given batches makes everything durable, of all where
// there are none.
func (sh *shipping) upto(batches []*pebble.Batch) (number uint64) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if len(batches) == 0 {
		return sh.number
	}
	for _, b := range batches {
		number = max(number, sh.asked[b])
		delete(sh.asked, b)
	}
	return number
}

// Rewrite applies what fill writes, in a batch without an LSN: for [Store.Purge] where nobody else writes.
func (s *Store) Rewrite(fill func(*pebble.Batch) error) error {
	b := s.NewBatch()
	err := fill(b)
	if err == nil {
		err = s.Apply(b, pebble.NoSync)
	}
	return errors.Join(err, b.Close())
}

// Timeline is that of the database.
func (s *Store) Timeline() Timeline { return s.timeline }

// Synced is the number up to which all batches are on disk.
func (s *Store) Synced() uint64 {
	s.ship.mu.Lock()
	defer s.ship.mu.Unlock()
	return s.ship.synced
}

const numberSize = 8 + len(Timeline{})

// EncodeNumber is the value of Config.NumberKey: the number, big-endian, and the timeline.
func EncodeNumber(n uint64, t Timeline) []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, numberSize), n)
	return append(b, t[:]...)
}

// decodeNumber reads such a value: 0 for one of another timeline, and for a damaged one.
func decodeNumber(b []byte, t Timeline) uint64 {
	if len(b) != numberSize || Timeline(b[8:]) != t {
		return 0
	}
	return binary.BigEndian.Uint64(b)
}

// begin puts those of the log of the store before what comes that lead up to its number.
func (o *Outlet) begin(tail []Written, number uint64) {
	for len(tail) > 0 && tail[len(tail)-1].Number > number { // not replayed
		tail = tail[:len(tail)-1]
	}
	first := len(tail)
	for next := number; first > 0 && tail[first-1].Number == next; next-- {
		first--
	}
	for _, w := range tail[first:] {
		o.queue, o.bytes = append(o.queue, w), o.bytes+int64(len(w.Repr))
	}
}

// First is the number of the oldest batch that was not dropped, 0 if there is none.
func (o *Outlet) First() uint64 {
	o.of.mu.Lock()
	defer o.of.mu.Unlock()
	if len(o.queue) == 0 {
		return 0
	}
	return o.queue[0].Number
}

// readTail reads the numbered batches of the logs, at most about bound bytes of them, the newest: of a
// program that was killed, nobody else may have them.
func (s *Store) readTail(bound int64) (tail []Written) {
	dir := s.FS.PathJoin(s.config.Dir, Dir)
	names, err := s.FS.List(dir)
	if err != nil {
		return nil
	}
	var logs []uint64
	for _, name := range names {
		if num, ok := logNumber(name); ok {
			logs = append(logs, num)
		}
	}
	slices.Sort(logs)
	size := int64(0)
	for _, num := range logs {
		b, err := readWhole(s.FS, s.FS.PathJoin(dir, logName(num)))
		if err != nil {
			return nil
		}
		records, _ := logRecords(b) // also such as Pebble does not replay: see begin
		for _, rec := range records {
			n := s.numberOf(rec)
			if n == 0 {
				continue
			}
			for k := len(tail) - 1; k >= 0 && tail[k].Number >= n; k-- { // lost in an earlier crash, and given again
				size, tail = size-int64(len(tail[k].Repr)), tail[:k]
			}
			tail, size = append(tail, Written{Number: n, Repr: bytes.Clone(rec)}), size+int64(len(rec))
			for ; size > bound; tail = tail[1:] {
				size -= int64(len(tail[0].Repr))
			}
		}
	}
	return tail
}

// numberOf is the number of a batch, 0 if it has none of this timeline.
func (s *Store) numberOf(repr []byte) (number uint64) {
	defer func() {
		if recover() != nil { // it is damaged, and Pebble asserts
			number = 0
		}
	}()
	if len(repr) < batchrepr.HeaderLen {
		return 0
	}
	for r := batchrepr.Read(repr); ; {
		kind, key, value, more, err := r.Next()
		if err != nil || !more {
			return number
		}
		if kind == pebble.InternalKeyKindSet && bytes.Equal(key, s.config.NumberKey) {
			number = decodeNumber(value, s.timeline)
		}
	}
}
