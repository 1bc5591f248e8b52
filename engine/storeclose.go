package engine

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// closeStore closes the store, of a failed database for a bounded time only.
func (db *DB) closeStore() error {
	if db.Failed() == nil {
		flushed := !db.readOnly && db.flushStore()
		err := db.store.Close()
		db.cache.Unref()
		if err == nil && flushed {
			if left := db.dropOldLogs(); left != nil {
				db.log.Warn("an old log of the store was not removed; the next Open removes it", "error", left)
			}
		}
		return err
	}
	done := make(chan error, 1)
	go func() {
		defer func() { _ = recover() }() // the store asserts on what a freeze leaves undone
		done <- db.store.Close()
		db.cache.Unref()
	}()
	timer := time.NewTimer(closeWait)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		return db.fs.ReleaseLocks()
	}
}

// mostReplayed is how much the log may hold that the next Open has to replay.
const mostReplayed = 1 << 20

// flushStore writes what only the log holds to tables, if that is much, or if the store
// keeps old logs. It tells whether the log holds nothing any more.
func (db *DB) flushStore() bool {
	wal := db.store.Metrics().WAL
	if wal.Size < mostReplayed && wal.ObsoleteFiles == 0 || db.flushError.Load() != nil {
		return false
	}
	flushed, err := db.store.AsyncFlush()
	if err != nil {
		return false // Close tells
	}
	timer := time.NewTimer(closeWait)
	defer timer.Stop()
	select {
	case <-flushed:
		return db.Failed() == nil
	case <-timer.C:
		return false
	}
}

// dropOldLogs removes the logs that the store keeps to write them again, each as large
// as a memtable. After a flush the newest is the only one that it reads, and the next
// Open would remove the others.
func (db *DB) dropOldLogs() error {
	dir := db.fs.PathJoin(db.dir, storeDir)
	names, err := db.fs.List(dir)
	if err != nil {
		return err
	}
	logs := slices.DeleteFunc(names, func(name string) bool { return !strings.HasSuffix(name, ".log") })
	slices.SortFunc(logs, func(a, b string) int { return cmp.Or(len(a)-len(b), strings.Compare(a, b)) })
	for _, name := range logs[:max(len(logs)-1, 0)] {
		if err := db.fs.Remove(db.fs.PathJoin(dir, name)); err != nil {
			return err
		}
	}
	return nil
}
