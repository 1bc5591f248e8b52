package engine

import (
	"context"
	"errors"
	"sort"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/internal/records"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/internal/store"
)

// Growth is what was written since a time. It is read from the log of the commits and from the
// keys, which say in which commit they were written; so it is about when this database was written
// to, whatever times its memories have.
type Growth struct {
	// Since is from when on it counts: the time that was asked for, or the oldest commit in the log
	// where Whole is false, since the log does not reach back so far. LSN is the last commit before it.
	Since time.Time `json:"since"`
	LSN   uint64    `json:"lsn"`
	Whole bool      `json:"whole"`
	// Memories are those that were first stored since, as far as their records are kept, and Living
	// how many of them are there. Updated are versions of memories that updates have written since.
	// Deleted are deaths since, of any memories, as far as their histories are kept and they
	// are cleaned up after.
	Memories int64 `json:"memories"`
	Living   int64 `json:"living"`
	Updated  int64 `json:"updated"`
	Deleted  int64 `json:"deleted"`
	// Messages are those of sessions that were written since and are kept.
	Messages int64 `json:"messages"`
	// Bytes are those of the records, vectors, histories, log records and messages that were written
	// since and are kept: keys and values, before compression and without indexes.
	Bytes int64 `json:"bytes"`
}

const doingGrowth = "count what was written since"

// GrowthSince counts what was written since a time. It looks at the keys of all records, vectors
// and messages, which takes seconds in a database of some GB.
func (db *DB) GrowthSince(ctx context.Context, since time.Time) (g Growth, err error) {
	err = db.view(ctx, nil, func(tx *Tx) error {
		g, err = tx.growthSince(ctx, since)
		return err
	})
	return g, store.Error(doingGrowth, err)
}

func (tx *Tx) growthSince(ctx context.Context, since time.Time) (g Growth, err error) {
	g.Since, g.Whole = since.UTC(), true
	oldest, ok, err := tx.logFrom(0)
	if err != nil || !ok {
		return g, err
	}
	if oldest.lsn > 1 && oldest.at >= since.UnixMilli() {
		g.Since, g.Whole = clock.FromMillis(oldest.at), false
	}
	first := uint64(0)
	if before := oldest; before.at < since.UnixMilli() || !g.Whole {
		if before, err = tx.lastBefore(oldest, since.UnixMilli()); err != nil {
			return g, err
		}
		g.LSN, first = before.lsn, before.next.Seq
	}
	if err := tx.grownMemories(ctx, &g, first); err != nil {
		return g, err
	}
	for _, p := range tx.db.parts {
		grower, ok := p.(part.Grower)
		if !ok {
			continue
		}
		messages, bytes, err := grower.Grown((*partTx)(tx), g.LSN)
		if err != nil {
			return g, fault.Within("count the "+p.Name(), err)
		}
		g.Messages, g.Bytes = g.Messages+messages, g.Bytes+bytes
	}
	return g, nil
}

// loggedHead is the head of a log record.
type loggedHead struct {
	lsn  uint64
	at   int64
	next layout.Counters
}

// logFrom is the first log record from an LSN on, false where there is none.
func (tx *Tx) logFrom(lsn uint64) (l loggedHead, ok bool, err error) {
	_, upper := tx.state.Keys.Span(layout.KindLog)
	err = kv.Scan(tx.state.Reader, tx.state.Keys.LSN(layout.KindLog, lsn), upper, func(key, value []byte) (err error) {
		if l.lsn, ok = layout.ParseLSNKey(key); !ok {
			return layout.BadKey("log", key)
		}
		if l.next, err = layout.DecodeLogHead(value); err != nil {
			return err
		}
		l.at = layout.LoggedTime(value)
		return kv.ErrStop
	})
	if errors.Is(err, kv.ErrStop) {
		err = nil
	}
	return l, ok && l.lsn <= tx.state.LSN, err
}

// lastBefore is the last log record of before a time, of those from one on: the times of commits
// rise, unless a clock was set back.
func (tx *Tx) lastBefore(oldest loggedHead, ms int64) (loggedHead, error) {
	best := oldest
	var failed error
	sort.Search(int(tx.state.LSN-oldest.lsn), func(i int) bool {
		l, ok, err := tx.logFrom(oldest.lsn + uint64(i) + 1)
		if failed = err; err != nil || !ok || l.at >= ms {
			return true
		}
		if l.lsn > best.lsn {
			best = l
		}
		return false
	})
	return best, failed
}

// grownMemories counts what is under the keys of memories that were written after the LSN of g,
// when first was the highest Seq.
func (tx *Tx) grownMemories(ctx context.Context, g *Growth, first uint64) error {
	n, last := 0, uint64(0)
	for _, k := range []struct {
		kind byte
		lsn  func(key []byte) (uint64, bool)
		add  func(key, value []byte)
	}{
		{layout.KindRecord, bornOf(layout.ParseRecordKey), func(key, value []byte) {
			v, _ := layout.ParseRecordKey(key)
			flags := records.RecordFlags(value)
			switch {
			case v.Seq > first && v.Seq != last:
				g.Memories++
				if last = v.Seq; tx.reader().Listed(v.Seq) {
					g.Living++
				}
			case flags&layout.FlagUpdate != 0 && flags&layout.FlagEmbedded == 0:
				g.Updated++
			}
		}},
		{layout.KindVector, bornOf(layout.ParseVectorKey), nil},
		{layout.KindHistory, historyLSN, func(_, _ []byte) { g.Deleted++ }},
		{layout.KindLog, layout.ParseLSNKey, nil},
	} {
		lower, upper := tx.state.Keys.Span(k.kind)
		err := kv.Scan(tx.state.Reader, lower, upper, func(key, value []byte) error {
			if n++; n%state.CancelEvery == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			lsn, ok := k.lsn(key)
			switch {
			case !ok:
				return layout.BadKey("memory", key)
			case lsn <= g.LSN || lsn > tx.state.LSN:
				return nil
			}
			g.Bytes += int64(len(key) + len(value))
			if k.add != nil {
				k.add(key, value)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// bornOf is the LSN in a key of a version.
func bornOf(parse func([]byte) (layout.Version, bool)) func([]byte) (uint64, bool) {
	return func(key []byte) (uint64, bool) {
		v, ok := parse(key)
		return v.Born, ok
	}
}

func historyLSN(key []byte) (uint64, bool) {
	lsn, _, ok := layout.ParseHistoryKey(key)
	return lsn, ok
}
