package store

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/panics"
)

// closeWait bounds two waits of Close: for the flush of what only the log holds, which the
// next Open replays otherwise; and for the store of a failed database, which is needed no
// more.
const closeWait = 10 * time.Second

// Ending announces Close: work that waits for room on the disk stops waiting.
func (s *Store) Ending() { close(s.ending) }

// Close closes the store. It waits for the store of a failed database for a bounded time
// only.
func (s *Store) Close() error {
	if s.frozen.pinned != nil {
		return s.frozen.Close()
	}
	if s.Failed() == nil {
		if err := s.writeFile(); err != nil { // what has no LSN waits for the next commit, or for Close
			return errors.Join(err, s.closeFailed())
		}
		flushed := !s.config.ReadOnly && s.flushAll()
		err := s.db.Close()
		s.cache.Unref()
		if left := s.closeMark(err == nil && flushed); left != nil {
			s.config.Log.Warn("that the logs are complete could not be written down", "error", left)
		}
		if err == nil && flushed {
			if left := s.dropOldLogs(); left != nil {
				s.config.Log.Warn("an old log of the store was not removed; the next Open removes it", "error", left)
			}
		}
		return err
	}
	return s.closeFailed()
}

// closeFailed closes a store that has failed.
func (s *Store) closeFailed() error {
	done := make(chan error, 1)
	go func() {
		err := panics.Catch("closes the store", func() { // which asserts on what a freeze leaves undone
			done <- s.db.Close()
			s.cache.Unref()
		})
		if err != nil {
			s.config.Log.Debug("the store of a failed database", "error", err)
		}
	}()
	timer := time.NewTimer(closeWait)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		return s.FS.ReleaseLocks()
	}
}

// flushAll writes what only the log holds to tables: the next Open would do so otherwise, and
// a log without content cannot lose any. It reports whether the log holds nothing any more.
func (s *Store) flushAll() bool {
	wal := s.Metrics().WAL
	if s.flushError.Load() != nil {
		return false
	}
	if wal.BytesIn == 0 && wal.ObsoleteFiles == 0 { // Open has flushed what was there
		return true
	}
	flushed, err := s.AsyncFlush()
	if err != nil {
		return false // Close tells
	}
	timer := time.NewTimer(closeWait)
	defer timer.Stop()
	select {
	case <-flushed:
		return s.Failed() == nil
	case <-timer.C:
		return false
	}
}

// dropOldLogs removes the logs that the store keeps to write them again, each as large
// as a memtable. After a flush the newest is the only one that it reads, and the next
// Open would remove the others.
func (s *Store) dropOldLogs() error {
	dir := s.FS.PathJoin(s.config.Dir, Dir)
	names, err := s.FS.List(dir)
	if err != nil {
		return err
	}
	logs := slices.DeleteFunc(names, func(name string) bool { return !strings.HasSuffix(name, ".log") })
	slices.SortFunc(logs, func(a, b string) int { return cmp.Or(len(a)-len(b), strings.Compare(a, b)) })
	for _, name := range logs[:max(len(logs)-1, 0)] {
		if err := s.FS.Remove(s.FS.PathJoin(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// WatchStall fails a store whose flushes cannot succeed, as on a full disk, until the
// function that is returned is called: a write that waits for such a flush would keep
// Close waiting for ever. What was acknowledged is in the log.
func (s *Store) WatchStall() (done func()) {
	stop := make(chan struct{})
	go func() {
		err := panics.Catch("watches Close", func() { s.watchStall(stop) })
		if err != nil {
			s.Fail(err)
		}
	}()
	return func() { close(stop) }
}

func (s *Store) watchStall(stop <-chan struct{}) {
	tick := time.NewTicker(closeWait)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		if err := s.flushError.Load(); err != nil {
			s.Fail(fmt.Errorf("close while the store cannot be written: %w", *err))
			return
		}
	}
}
