package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
)

// Log is where batches become durable instead of on the disk of the store: see Config.Sent.
type Log interface {
	// Mark is where the log is: it is written under Config.MarkKey with each batch.
	Mark() []byte
	// Send returns once the log has the batches, behind all that it has. It tries for as long as ctx lets
	// it; any other error is for good, and the store has failed. One call runs at a time.
	Send(ctx context.Context, batches []Written) error
}

const (
	// sendBytes are about the most that is sent at once.
	sendBytes = 8 << 20
	// unsentBytes bound what waits in RAM for the log.
	unsentBytes = 64 << 20
)

// sending is what waits for the log of the store.
type sending struct {
	mu      sync.Mutex // taken alone, or within shipping.mu
	turn    sync.Cond  // broadcast when any of this changes
	queue   []Written  // what the log does not have, also what is being sent
	bytes   int64
	applied uint64 // the number of the newest batch
	sent    uint64 // the number up to which the log has all
	wanted  uint64 // somebody waits for this number
	late    bool   // the log has not answered for Config.LogWait
	ended   bool   // nothing is sent any more
	tries   uint64 // how often something was sent
}

// Sent says that what is applied is sent to the log of the configuration, behind the batch of the number that
// it returns. It is called after Open, before anything is written. fresh says that the store is empty.
func (s *Store) Sent(fresh bool) (number uint64, err error) {
	b, closer, err := s.Get(s.config.NumberKey)
	switch {
	case errors.Is(err, kv.ErrNotFound):
	case err != nil:
		return 0, Error("read how far the log was applied", err)
	default:
		number = decodeNumber(b, s.timeline)
		if err := closer.Close(); err != nil {
			return 0, err
		}
	}
	if number == 0 && !fresh {
		return 0, &fault.Error{Kind: fault.ErrCorrupt, What: s.opening(), Why: "it does not tell how far it has followed its log", Do: "remove the folder: it is made again from the log"}
	}
	sh := &s.ship
	sh.number, sh.fresh = number, number == 0
	sh.sending.turn.L = &sh.sending.mu
	sh.sending.applied, sh.sending.sent = number, number
	sh.on.Store(true)
	return number, nil
}

// RunLog sends what waits until ctx ends, or the store has failed. It is to run for as long as something may
// wait for it.
func (s *Store) RunLog(ctx context.Context) {
	se := &s.ship.sending
	stop := context.AfterFunc(ctx, se.end)
	defer stop()
	for {
		batches := se.next()
		if len(batches) == 0 {
			return
		}
		if err := s.send(ctx, batches); err != nil {
			se.end()
			if ctx.Err() == nil {
				s.refuse(err)
			}
			return
		}
		se.drop(len(batches))
	}
}

// next waits for somebody who waits, and returns the oldest batches that the log does not have; none where
// nothing is sent any more.
func (se *sending) next() []Written {
	se.mu.Lock()
	defer se.mu.Unlock()
	for {
		if se.ended {
			return nil
		}
		if len(se.queue) > 0 && (se.wanted > se.sent || se.bytes >= sendBytes) {
			n, size := 0, 0
			for _, w := range se.queue {
				if size += len(w.Repr); n > 0 && size > sendBytes {
					break
				}
				n++
			}
			return append([]Written(nil), se.queue[:n]...)
		}
		se.turn.Wait()
	}
}

// drop gives up the oldest batches: the log has them.
func (se *sending) drop(n int) {
	se.mu.Lock()
	defer se.mu.Unlock()
	for _, w := range se.queue[:n] {
		se.bytes -= int64(len(w.Repr))
		se.sent = w.Number
	}
	rest := copy(se.queue, se.queue[n:])
	clear(se.queue[rest:])
	se.queue = se.queue[:rest]
	se.turn.Broadcast()
}

// send sends batches, and says so where the log does not answer for long.
func (s *Store) send(ctx context.Context, batches []Written) error {
	se := &s.ship.sending
	se.mu.Lock()
	se.tries++
	try := se.tries
	se.mu.Unlock()
	timer := time.AfterFunc(s.config.LogWait, func() {
		if se.lateAt(try) {
			s.config.Log.Warn("the log of the database does not answer: writes are refused until it does", "dir", s.config.Dir, "for", s.config.LogWait)
		}
	})
	defer timer.Stop()
	if err := s.config.Sent.Send(ctx, batches); err != nil {
		return err
	}
	se.mu.Lock()
	defer se.mu.Unlock()
	se.tries++ // a timer that has fired comes too late
	if se.late {
		s.config.Log.Warn("the log of the database answers again", "dir", s.config.Dir)
	}
	se.late = false
	return nil
}

// lateAt notes that the log has not answered a try for long, and reports whether it still runs.
func (se *sending) lateAt(try uint64) bool {
	se.mu.Lock()
	defer se.mu.Unlock()
	if se.tries != try {
		return false
	}
	se.late = true
	se.turn.Broadcast()
	return true
}

// end has nothing sent any more, and nobody wait.
func (se *sending) end() {
	se.mu.Lock()
	defer se.mu.Unlock()
	se.ended = true
	se.turn.Broadcast()
}

// add keeps a batch that was applied for the log.
func (se *sending) add(w Written) {
	se.mu.Lock()
	defer se.mu.Unlock()
	se.applied = w.Number
	se.queue = append(se.queue, w)
	if se.bytes += int64(len(w.Repr)); se.bytes >= sendBytes {
		se.turn.Broadcast()
	}
}

// want asks for everything that was applied.
func (se *sending) want() {
	se.mu.Lock()
	defer se.mu.Unlock()
	se.wanted = se.applied
	se.turn.Broadcast()
}

// Numbering is the newest state, which is to be closed, and the number of the newest batch in it.
func (s *Store) Numbering() (Snapshot, uint64) {
	s.ship.mu.Lock()
	defer s.ship.mu.Unlock()
	return s.NewSnapshot(), s.ship.number
}

// Unsent are the batches that the log does not have, and their bytes; late says that it has not answered for
// Config.LogWait.
func (s *Store) Unsent() (batches int, bytes int64, late bool) {
	se := &s.ship.sending
	se.mu.Lock()
	defer se.mu.Unlock()
	return len(se.queue), se.bytes, se.late
}

// AdmitSending keeps a write waiting while too much waits for the log, and refuses it where the log does not
// answer.
func (s *Store) AdmitSending(doing string) error {
	if s.config.Sent == nil {
		return nil
	}
	se := &s.ship.sending
	se.mu.Lock()
	defer se.mu.Unlock()
	for {
		switch {
		case se.late:
			return s.unavailable(doing, "nothing was changed")
		case se.ended || se.bytes < unsentBytes:
			return nil
		}
		se.turn.Wait()
	}
}

// sendAll returns once the log has everything that was applied before the call, and closes the batches.
func (s *Store) sendAll(batches []*pebble.Batch) error {
	for _, b := range batches {
		if err := b.Close(); err != nil {
			s.Fail(err)
		}
	}
	if err := s.Failed(); err != nil {
		return err
	}
	if err := s.awaitSent(); err != nil {
		return cmp.Or(s.Failed(), err)
	}
	return s.Failed()
}

func (s *Store) awaitSent() error {
	const doing = "send a write to the log of the database"
	se := &s.ship.sending
	se.mu.Lock()
	defer se.mu.Unlock()
	for upto := se.applied; se.sent < upto; se.turn.Wait() {
		switch {
		case se.ended:
			return &fault.Error{
				Kind: fault.ErrClosed, What: doing, Why: "the database is being closed",
				Do: "open it again: the write is there or not, as the log has it",
			}
		case se.late:
			return s.unavailable(doing, "the write is kept, and sent once the log answers")
		case se.wanted < upto:
			se.wanted = upto
			se.turn.Broadcast()
		}
	}
	return nil
}

func (s *Store) unavailable(doing, what string) error {
	return &fault.Error{
		Kind: fault.ErrUnavailable, What: doing, Why: fmt.Sprintf("the log has not answered for %v, and %s", s.config.LogWait, what),
		Do: "see that most of the servers of the log run and reach each other; then try again",
	}
}

// SyncOwn makes what was applied durable on the store's own disk, also where that is not what counts.
func (s *Store) SyncOwn() error {
	if err := s.db.LogData(nil, pebble.Sync); err != nil {
		s.Fail(err)
	}
	return s.Failed()
}

// refuse fails the store for what its log has said.
func (s *Store) refuse(err error) {
	if e, ok := errors.AsType[*fault.Error](err); ok && errors.Is(e.Kind, fault.ErrNotOwner) {
		s.Refuse(e)
		return
	}
	s.Fail(err)
}

// Refuse has every later call return an error, which says why the database is not to be used any more, and
// leaves the folder as it is.
func (s *Store) Refuse(why *fault.Error) {
	if s.failure.CompareAndSwap(nil, why) {
		s.FS.Poison(why)
	}
	if s.config.Sent != nil {
		s.ship.sending.end()
	}
}
