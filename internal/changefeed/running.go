package changefeed

import (
	"sync"

	"github.com/seed-7aedc3ff/memdb/metrics"
)

// Running are the readers of a database that run. The zero value is ready for use.
type Running struct {
	mu struct {
		sync.Mutex
		running map[*feed]struct{}
	}
}

// open keeps what a reader has still to read from being trimmed, until close is called.
func (rs *Running) open(f *feed) (close func()) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.mu.running == nil {
		rs.mu.running = map[*feed]struct{}{}
	}
	f.holds.Store(f.next)
	rs.mu.running[f] = struct{}{}
	return func() {
		rs.mu.Lock()
		defer rs.mu.Unlock()
		delete(rs.mu.running, f)
	}
}

// Oldest is the LSN of the first record that a reader has still to read, none where nobody reads.
func (rs *Running) Oldest(none uint64) uint64 {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for f := range rs.mu.running {
		none = min(none, f.holds.Load())
	}
	return none
}

// Metrics are those of the readers, as of an LSN.
func (rs *Running) Metrics(lsn uint64) metrics.Changes {
	oldest := rs.Oldest(lsn + 1)
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return metrics.Changes{Readers: len(rs.mu.running), Behind: lsn + 1 - oldest}
}
