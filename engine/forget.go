package engine

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/seed-7aedc3ff/memdb/internal/codec"
	"github.com/seed-7aedc3ff/memdb/internal/doctable"
	"github.com/seed-7aedc3ff/memdb/internal/erasure"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/records"
	"github.com/seed-7aedc3ff/memdb/internal/spaces"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/internal/store"
	"github.com/seed-7aedc3ff/memdb/policy"
)

// What has died stays as a history, and each commit as a record of the log, until the policy
// lets go of them. Then a pass over the records removes the versions that were superseded, and
// the memories that died, longer ago than History, and a range of the oldest log records goes.
// Both are no commits: no state that can still be read has them. The policy's job JobForget
// says up to which time histories may have been removed.

const (
	// forgetEvery is how often the policy is asked what may go.
	forgetEvery = 5 * time.Second
	// forgetShare is which part of the time that histories stay lies between two passes over
	// them: so much longer than the policy says they may stay.
	forgetShare = 8
	// forgetPage and forgetBytes bound the records that are read while no clean-up goes on.
	forgetPage  = 1 << 14
	forgetBytes = 16 << 20
	doingForget = "remove old histories"
)

// forget removes what the policy does not keep any longer. last is when it last passed over
// the histories.
func (db *DB) forget(ctx context.Context, last *time.Time) error {
	p, now := db.tables.Ageing.At(state.MaxLSN), db.clock()
	err := errors.Join(db.refillWritten(ctx), db.releaseDead(ctx))
	if db.steady.jumped() {
		return err
	}
	err = errors.Join(err, db.trimLog(p, now))
	if every := time.Duration(p.History) / forgetShare; p.History == 0 || now.Sub(*last) < every && !now.Before(*last) {
		return err
	}
	if perr := db.forgetHistories(ctx, now.UnixMilli()-p.History.Millis()); perr != nil {
		return errors.Join(err, perr)
	}
	*last = now
	return err
}

// forgetHistories removes the versions and the deaths that are older than a time. It says so
// before, and again after, whose commit shows new readers that they are gone.
func (db *DB) forgetHistories(ctx context.Context, cutoff int64) error {
	lower, upper := db.keys().Span(layout.KindRecord)
	for lower != nil { // nothing is written where nothing goes
		page, err := db.forgettable(ctx, lower, upper, cutoff)
		if err != nil {
			return err
		}
		if len(page.keys)+len(page.texts) > 0 {
			break
		}
		lower = page.next
	}
	if lower != nil {
		err := db.noteForgotten(ctx, cutoff)
		for err == nil && lower != nil {
			lower, err = db.forgetPage(ctx, lower, upper, cutoff)
		}
		if err = errors.Join(err, db.noteForgotten(ctx, cutoff)); err != nil {
			return err
		}
	}
	return db.releaseSeqs(ctx)
}

func (db *DB) noteForgotten(ctx context.Context, cutoff int64) error {
	return db.acknowledge(db.updateBehind(ctx, func(tx *Tx) error { return policy.Note((*partTx)(tx), policy.JobForget, cutoff) }))
}

// forgetPage removes what may go of the memories from a key on, and returns where the next
// ones begin, nil where there are none. What has aged goes once the parts have its text.
func (db *DB) forgetPage(ctx context.Context, lower, upper []byte, cutoff int64) (next []byte, err error) {
	told := map[uint64]bool{}
	for {
		page, err := db.forgetTold(ctx, lower, upper, cutoff, told)
		if err != nil || len(page.texts) == 0 {
			return page.next, err
		}
		if err := db.bequeath(ctx, page.texts); err != nil {
			return nil, err
		}
		for _, of := range page.texts {
			for seq := range of {
				told[seq] = true
			}
		}
	}
}

// forgetTold removes what may go of a page, unless there is something that the parts were not
// told of.
func (db *DB) forgetTold(ctx context.Context, lower, upper []byte, cutoff int64, told map[uint64]bool) (forgetting, error) {
	if err := db.janitor.rest(ctx); err != nil {
		return forgetting{}, err
	}
	defer db.chunks.busy.Unlock()
	page, err := db.forgettablePage(lower, upper, cutoff, told)
	if err != nil || len(page.keys) == 0 || len(page.texts) > 0 {
		return page, err
	}
	err = db.applyBare(func(b *pebble.Batch) error {
		for _, key := range page.keys {
			if err := b.Delete(key, nil); err != nil {
				return err
			}
		}
		return db.store.AdmitFreeing(doingForget, b.Len())
	})
	if err == nil {
		db.shadowed(page.bytes)
	}
	return page, err
}

// forgettable is forgettablePage beside the clean-up.
func (db *DB) forgettable(ctx context.Context, lower, upper []byte, cutoff int64) (forgetting, error) {
	if err := db.janitor.rest(ctx); err != nil {
		return forgetting{}, err
	}
	defer db.chunks.busy.Unlock()
	return db.forgettablePage(lower, upper, cutoff, nil)
}

// forgetting is what may go of a page of records.
type forgetting struct {
	db     *DB
	tx     *Tx
	cutoff int64
	limit  uint64 // LSN: nobody sees what died at it or before, and it is cleaned up
	// erases, if not nil, are those whose dead memories are erased, with no thought of who inherits
	// them. left counts those that stay, living those that are alive, whose histories are not touched.
	erases       *erasure.Whose
	left, living int

	told  map[uint64]bool              // the Seqs of what has aged that the parts know of
	texts map[uint32]map[uint64]string // by owner and Seq: the last of others, which stay until they do
	keys  [][]byte
	bytes int    // of the records under them
	next  []byte // where the page after this one begins, nil for none

	of       records.Home // the memory whose versions are read
	versions []oldVersion
	broken   bool // one of them cannot be read
	trash    map[uint64]bool
}

// oldVersion is what is asked of a version.
type oldVersion struct {
	layout.Version
	id       string
	updated  int64
	bytes    int
	embedded bool // it only embedded the text: what it took the place of is its history
	text     string
}

// forgettablePage looks at the records of a page, and no further than the memory that fills it.
func (db *DB) forgettablePage(lower, upper []byte, cutoff int64, told map[uint64]bool) (forgetting, error) {
	f := forgetting{db: db, cutoff: cutoff, told: told}
	err := f.read(lower, upper)
	return f, err
}

// read fills f from a page of records.
func (f *forgetting) read(lower, upper []byte) (err error) {
	db := f.db
	r := db.store.NewSweep()
	defer func() { err = errors.Join(err, r.Close()) }()
	f.limit, f.texts, f.trash = db.janitor.cleanTo(db.points.oldest()), map[uint32]map[uint64]string{}, map[uint64]bool{}
	f.tx = &Tx{db: db, state: db.stateOf(r, db.points.lsn())}
	read, bytes := 0, 0
	err = kv.Scan(r, lower, upper, func(key, value []byte) error {
		v, ok := layout.ParseRecordKey(key)
		if !ok {
			return layout.BadKey("record", key)
		}
		if at := (records.Home{Seq: v.Seq, Owner: v.Owner}); at != f.of {
			if err := f.memory(); err != nil {
				return err
			}
			if read >= forgetPage || bytes >= forgetBytes {
				f.next = slices.Clone(key)
				return kv.ErrStop
			}
			f.of = at
		}
		read++
		bytes += len(value)
		if f.erases != nil && !f.erases.Has(v.Owner, v.Seq) {
			return nil
		}
		rec, err := layout.DecodeRecord(value)
		if err != nil {
			f.broken = true
			return nil
		}
		f.versions = append(f.versions, oldVersion{v, rec.ID, rec.Updated, len(value), rec.Flags&layout.FlagEmbedded != 0, rec.Text})
		return nil
	})
	if err == nil {
		err = f.memory()
	} else if errors.Is(err, kv.ErrStop) {
		err = nil
	}
	return store.Error(doingForget, err)
}

// memory adds what may go of the memory whose versions were read.
func (f *forgetting) memory() error {
	versions, broken, before := f.versions, f.broken, len(f.keys)+f.living
	f.versions, f.broken = f.versions[:0], false
	var err error
	if len(versions) > 0 && !broken {
		err = f.whole(versions)
	}
	if f.erases != nil && (len(versions) > 0 || broken) && len(f.keys)+f.living == before {
		f.left++
	}
	return err
}

// whole is memory for one of which every version can be read.
func (f *forgetting) whole(versions []oldVersion) error {
	if last := versions[len(versions)-1]; last.Born > f.tx.state.LSN {
		return nil // it changes
	}
	l, lives := f.tx.reader().At(f.of.Seq)
	if lives && f.erases != nil { // it was stored after the deletion
		f.living++
		return nil
	}
	if lives {
		var next *oldVersion
		for i := range slices.Backward(versions) {
			v := &versions[i]
			if next != nil && v.Version != l.Version && next.Born <= f.limit && next.updated <= f.cutoff {
				f.keys = append(f.keys, f.tx.state.Keys.Record(v.Version))
				f.bytes += v.bytes
			}
			if !v.embedded {
				next = v
			}
		}
		return f.deaths(func(lsn uint64, d *layout.Death) bool { return d.At <= f.cutoff }) // it is back since
	}
	died, err := f.tx.reader().DeathOf(f.of.Owner, f.of.Seq)
	if err != nil || died == nil || died.Where.Born > f.limit || died.At > f.cutoff {
		return err
	}
	if kept, err := f.trashed(died.Where.Born); kept || err != nil {
		return err
	}
	if text := versions[len(versions)-1].text; f.erases == nil && byItself(died.Reason) && text != "" && !f.told[f.of.Seq] {
		if f.texts[f.of.Owner] == nil {
			f.texts[f.of.Owner] = map[uint64]string{}
		}
		f.texts[f.of.Owner][f.of.Seq] = text
		return nil
	}
	for i := range versions {
		v := &versions[i]
		f.keys = append(f.keys, f.tx.state.Keys.Record(v.Version))
		f.bytes += v.bytes
		if i == 0 || v.id != versions[i-1].id {
			f.keys = append(f.keys, f.tx.state.Keys.ID(v.id, v.Owner, v.Seq))
		}
	}
	return f.deaths(func(uint64, *layout.Death) bool { return true })
}

// byItself reports whether a memory died by ageing. What a caller has deleted, or has given an end,
// is to be gone with its history.
func byItself(why layout.Reason) bool {
	switch why {
	case layout.ReasonAge, layout.ReasonConfidence, layout.ReasonCap, layout.ReasonPruned, layout.ReasonMerged, layout.ReasonCaller:
		return true
	}
	return false
}

// deaths adds the entries of deaths of the memory for which fit returns true.
func (f *forgetting) deaths(fit func(lsn uint64, d *layout.Death) bool) error {
	prefix := f.tx.state.Keys.Histories(f.of.Owner, f.of.Seq)
	return kv.Scan(f.tx.state.Reader, prefix, layout.PrefixEnd(prefix), func(key, value []byte) error {
		lsn, _, ok := layout.ParseHistoryKey(key)
		if !ok {
			return layout.BadKey("history", key)
		}
		d, err := layout.DecodeDeath(value)
		if err == nil && lsn <= f.limit && fit(lsn, &d) {
			f.keys = append(f.keys, slices.Clone(key))
		}
		return err
	})
}

// trashed reports whether what died at an LSN may come back.
func (f *forgetting) trashed(lsn uint64) (bool, error) {
	kept, known := f.trash[lsn]
	if known {
		return kept, nil
	}
	t, kept, err := policy.TrashOf((*partTx)(f.tx), lsn)
	if f.erases != nil { // what is erased of it is taken out of it before
		kept = slices.ContainsFunc(t.Things, func(x policy.Trashed) bool { return f.erases.Has(x.Owner, x.Seq) })
	}
	f.trash[lsn] = kept
	return kept, err
}

// cleanTo is the LSN up to which all that died is cleaned up, of those up to oldest.
func (j *janitor) cleanTo(oldest uint64) uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.dead) > 0 {
		oldest = min(oldest, j.dead[0].LSN-1)
	}
	for i := range j.ranges {
		oldest = min(oldest, j.ranges[i].LSN-1)
	}
	return oldest
}

// seqStep is how many memories are looked at while writers wait, and of how many the newest
// are left alone.
const seqStep = 4 * doctable.SeqStep

// releaseSeqs frees what RAM holds of memories that are gone, but for the newest ones: a
// transaction may be about to show one.
func (db *DB) releaseSeqs(ctx context.Context) error {
	for from, end := uint64(0), uint64(seqStep); from+seqStep <= end; from += seqStep {
		if err := db.lockBehind(ctx); err != nil {
			return err
		}
		end = db.writer.next.Seq
		if from+seqStep <= end {
			db.tables.Docs.ReleaseSeqs(from, from+seqStep, db.janitor.cleanTo(db.points.oldest()))
		}
		db.unlock()
	}
	return nil
}

// releaseDead frees what RAM holds of memories and runs that are gone, once many memories
// have died since it did so last.
func (db *DB) releaseDead(ctx context.Context) error {
	died := db.janitor.died.Load()
	if died-db.janitor.released.Load() < seqStep {
		return nil
	}
	db.janitor.released.Store(died)
	return errors.Join(db.releaseSeqs(ctx), db.releaseRuns(ctx))
}

// releaseRuns frees what RAM holds of runs of which no memory is left.
func (db *DB) releaseRuns(ctx context.Context) error {
	if err := db.lockBehind(ctx); err != nil {
		return err
	}
	defer db.unlock()
	db.tables.Docs.ReleaseRuns(db.janitor.cleanTo(db.points.oldest()))
	return nil
}

// refillWritten makes the set of keys that were written anew, once most of them may be gone:
// it has far more than the living memories, and twice as many as when it was filled, when it
// had those of histories, too.
func (db *DB) refillWritten(ctx context.Context) error {
	const perMemory, perFilled, least = 4, 2, 1 << 17 // a memory has two at most
	known, filled := db.writer.seen.Len()
	if known < max(perMemory*int(db.tables.Docs.Live.Load()), perFilled*filled, least) {
		return nil
	}
	if err := db.lockBehind(ctx); err != nil { // no transaction has written what the store lacks
		return err
	}
	db.writer.seen.Clear()
	snap := db.store.NewSnapshot()
	db.unlock()
	return db.writer.seen.Fill(ctx, snap, db.keys())
}

// trimLog removes the log records that are older than the policy keeps, but for those that
// the snapshots of vectors name, the newest, and those that readers of changes have still to read,
// which go later.
func (db *DB) trimLog(p *policy.Policy, now time.Time) error {
	if p.Log == 0 {
		return nil
	}
	cutoff := now.UnixMilli() - p.Log.Millis()
	end, err := db.oldestSnapshot()
	if err != nil {
		return err
	}
	end = min(end, db.points.oldest())
	held, heldFrom := db.program.feeds.Oldest(math.MaxUint64), cutoff-db.changesLag.Milliseconds()
	upTo, found, bytes := uint64(0), false, 0
	lower, upper := db.keys().Span(layout.KindLog)
	err = kv.Scan(db.store, lower, upper, func(key, value []byte) error {
		lsn, ok := layout.ParseLSNKey(key)
		if !ok {
			return layout.BadKey("log", key)
		}
		c := codec.NewReader(value)
		c.Byte()
		if at := c.Varint(); lsn >= end || c.Err() != nil || at > cutoff || lsn >= held && at > heldFrom {
			return kv.ErrStop
		}
		upTo, found, bytes = lsn, true, bytes+len(value)
		return nil
	})
	if err != nil && !errors.Is(err, kv.ErrStop) {
		return store.Error("trim the log", err)
	}
	if !found {
		return nil
	}
	db.shadowed(bytes)
	return db.applyBare(func(b *pebble.Batch) error {
		return b.DeleteRange(lower, db.keys().LSN(layout.KindLog, upTo+1), nil)
	})
}

// oldestSnapshot is the LSN of the oldest snapshot of vectors in the folder, finished or not.
// A file of codes has none.
func (db *DB) oldestSnapshot() (uint64, error) {
	names, err := db.store.FS.List(db.dir)
	if err != nil {
		return 0, fault.Within("trim the log", err)
	}
	oldest := uint64(math.MaxUint64)
	for _, name := range names {
		if _, lsn, ok := spaces.ParseSnapshotName(strings.TrimSuffix(name, spaces.SnapshotTemp)); ok && lsn > 0 {
			oldest = min(oldest, lsn)
		}
	}
	return oldest, nil
}
