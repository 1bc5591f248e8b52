package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/doctable"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/lifecycle"
	"github.com/seed-7aedc3ff/memdb/internal/records"
	"github.com/seed-7aedc3ff/memdb/internal/retry"
	"github.com/seed-7aedc3ff/memdb/internal/store"
)

// janitor frees what died once no reader can see it: documents of superseded and
// deleted versions, and what death ranges left behind. And it seals the chunks of
// the text index that are full, and moves the documents of sparse ones. It runs beside
// readers and writers, and takes the lock for the last step of each only.
type janitor struct {
	db     *DB
	signal chan struct{}
	group  *lifecycle.Group

	// dying is how many documents of death ranges are still to be cleaned up.
	dying atomic.Int64
	// died is how many documents have died since the database was opened.
	died atomic.Int64
	// released is what died was when RAM was last freed of memories that are gone.
	released atomic.Int64
	// awaited is how many calls wait until the janitor rests, or has sealed a chunk.
	awaited atomic.Int32

	// wiped is the LSN of a reset whose space the store still holds, 0 for none.
	wiped atomic.Uint64

	// mourned: a clean-up has told the parts of memories that are gone.
	mourned atomic.Bool

	// waits: there is something to clean up, perhaps only from the next read point on.
	waits atomic.Bool

	mu     sync.Mutex
	dead   []records.Dead // in the order of their LSN
	ranges []layout.DeathRange
	sealed chan struct{} // closed when a chunk was sealed, or could not be
	stuck  bool          // sealing failed, or has ended: nobody should wait for it
	// mourners are told of a clean-up that parts have left work for.
	mourners []chan<- struct{}

	failure error // why it failed, nil if it has not
}

func newJanitor(db *DB) *janitor {
	return &janitor{db: db, signal: make(chan struct{}, 1), group: db.life.Group(), sealed: make(chan struct{})}
}

func (j *janitor) start() {
	j.group.Go("cleans up", func(ctx context.Context) {
		defer j.progress(true, nil) // nobody waits for what has ended
		j.run(ctx)
	})
}

func (j *janitor) stop() {
	j.group.End()
	j.progress(true, nil)
}

// progress tells the writers that wait for a chunk to be sealed to look again, and what
// keeps it from being sealed.
func (j *janitor) progress(stuck bool, failure error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.stuck, j.failure = stuck, failure
	close(j.sealed)
	j.sealed = make(chan struct{})
}

// add notes what died in a commit, and reports whether there was any.
func (j *janitor) add(d []records.Dead, r []layout.DeathRange) bool {
	if len(d) == 0 && len(r) == 0 {
		return false
	}
	j.waits.Store(true)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.dead = append(j.dead, d...)
	j.ranges = append(j.ranges, r...)
	died := int64(len(d))
	for i := range r {
		n := int64(r[i].Docs.GetCardinality())
		j.dying.Add(n)
		died += n
	}
	j.died.Add(died)
	return true
}

// wake makes the janitor look again: something died, or a reader has gone.
func (j *janitor) wake() {
	select {
	case j.signal <- struct{}{}:
	default:
	}
}

// expiryLooks is how often, in the time that a View may be old, the janitor looks for one
// that is older: what such a View holds back is freed at most a quarter of that time late.
const expiryLooks = 4

func (j *janitor) run(ctx context.Context) {
	var look <-chan time.Time // nil, which never fires, where Views may be of any age
	if age := j.db.points.maxAge; age > 0 {
		tick := time.NewTicker(max(age/expiryLooks, time.Millisecond))
		defer tick.Stop()
		look = tick.C
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-j.signal:
		case <-look:
			if !j.db.points.aged() {
				continue
			}
		}
		err := errors.Join(j.work(ctx), j.compactWiped(ctx))
		j.tellMourners()
		if !j.ranged() && j.db.due.uncleaned.Swap(false) {
			j.db.due.tellTrash()
		}
		if err != nil && ctx.Err() == nil && !fault.Told(err) {
			j.db.logger.Error("cleaning up", "error", err)
		}
	}
}

// tellMourners has the parts do at once what a clean-up has left to them.
func (j *janitor) tellMourners() {
	if !j.mourned.Swap(false) {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, signal := range j.mourners {
		select {
		case signal <- struct{}{}:
		default:
		}
	}
}

// mourner is told of each clean-up that parts have left work for, and of what was left when the
// database was closed.
func (j *janitor) mourner() <-chan struct{} {
	signal := make(chan struct{}, 1)
	signal <- struct{}{}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.mourners = append(j.mourners, signal)
	return signal
}

// compactWiped gives the disk its space back once nobody sees what was there before a
// reset. Little is left that a compaction would have to rewrite.
func (j *janitor) compactWiped(ctx context.Context) error {
	lsn := j.wiped.Load()
	if lsn == 0 || j.db.points.oldest() < lsn {
		return nil
	}
	j.wiped.CompareAndSwap(lsn, 0)
	return j.db.store.Compact(ctx, []byte{0}, []byte{0xff}, false)
}

// rest keeps the janitor from its work until it is unlocked.
func (j *janitor) rest(ctx context.Context) error {
	j.awaited.Add(1)
	defer j.awaited.Add(-1)
	return j.db.chunks.busy.LockContext(ctx)
}

// A pace leaves the processor, the memory and the disk to calls between the batches of a
// clean-up.
type pace struct {
	j     *janitor
	began time.Time
	// Since the pause before: how many documents were cleaned up, and from which count on
	// more have died.
	cleaned, died int64
}

const (
	// paceShare: beside calls, a batch is followed by a pause of so many times its length.
	paceShare = 1
	// paceMost is the longest pause.
	paceMost = 50 * time.Millisecond
)

func (j *janitor) newPace() pace { return pace{j: j, began: clock.System(), died: j.died.Load()} }

// pause follows a batch that has cleaned up n documents. There is none where nobody calls, where
// somebody waits for the janitor, and where as many have died meanwhile.
func (p *pace) pause(ctx context.Context, n int) {
	p.cleaned += int64(n)
	died := p.j.died.Load()
	if died-p.died < p.cleaned && p.j.awaited.Load() == 0 && p.j.db.life.Busy() {
		_ = retry.Sleep(ctx, min(paceShare*clock.System().Sub(p.began), paceMost))
		p.cleaned, p.died = 0, died
	}
	p.began = clock.System()
}

// reclaimBatch bounds the documents that are freed in one commit.
const reclaimBatch = 1000

// work frees all that can be freed now, and seals and moves. What cannot be freed does
// not keep it from sealing: writers may wait for that.
func (j *janitor) work(ctx context.Context) error {
	if err := j.db.chunks.busy.LockContext(ctx); err != nil {
		return err
	}
	defer j.db.chunks.busy.Unlock()
	j.waits.Store(false)
	if err := j.db.points.expire(); err != nil {
		j.db.logger.Error("closing the read point of a View that is too old", "error", err)
	}
	oldest := j.db.points.oldest()
	err := j.cleanUp(ctx, oldest)
	j.db.releaseParts(oldest)
	if err == nil {
		err = j.db.releaseChunks(ctx, oldest)
	}
	if sealed := j.db.sealChunks(ctx); sealed != nil {
		j.progress(true, sealed)
		return errors.Join(err, sealed)
	}
	err = errors.Join(err, j.db.moveChunks(ctx))
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.dead) > 0 || len(j.ranges) > 0 || len(j.db.chunks.left) > 0 {
		j.waits.Store(true)
	}
	return err
}

// cleanUp removes what the memories left behind that died at oldest or before, the LSN
// of a state such that nobody sees an older one.
func (j *janitor) cleanUp(ctx context.Context, oldest uint64) error {
	return errors.Join(j.reclaimDead(ctx, oldest), j.cleanRanges(ctx, oldest))
}

func (j *janitor) reclaimDead(ctx context.Context, oldest uint64) error {
	for pace := j.newPace(); ctx.Err() == nil; {
		part := j.takeDead(oldest)
		if len(part) == 0 {
			break
		}
		if err := j.db.reclaim(ctx, part, oldest); err != nil {
			j.mu.Lock()
			j.dead = slices.Insert(j.dead, 0, part...) // to be begun again
			j.mu.Unlock()
			return err
		}
		pace.pause(ctx, len(part))
	}
	return ctx.Err()
}

func (j *janitor) cleanRanges(ctx context.Context, oldest uint64) error {
	for ctx.Err() == nil {
		d, ok := j.takeRange(oldest)
		if !ok {
			break
		}
		if err := j.db.clean(ctx, &d); err != nil {
			j.mu.Lock()
			j.ranges = slices.Insert(j.ranges, 0, d) // to be begun again
			j.mu.Unlock()
			return err
		}
	}
	return ctx.Err()
}

// ranging reports whether memories of a death range that are still to be cleaned up are in
// one of some chunks.
func (j *janitor) ranging(chunks []uint16) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.ContainsFunc(j.ranges, func(d layout.DeathRange) bool {
		return slices.ContainsFunc(chunks, func(chunk uint16) bool {
			first := uint64(chunk) << 16
			return d.Docs.IntersectsWithInterval(first, first+1<<16)
		})
	})
}

// deadOf are the documents of chunks that have died and are not reclaimed. The janitor is
// busy.
func (j *janitor) deadOf(chunks []uint16) []records.Dead {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(j.dead), func(d records.Dead) bool {
		return !slices.Contains(chunks, layout.ChunkOf(d.Doc))
	})
}

func (j *janitor) takeDead(oldest uint64) []records.Dead {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := 0
	for n < len(j.dead) && n < reclaimBatch && j.dead[n].LSN <= oldest {
		n++
	}
	part := j.dead[:n:n]
	j.dead = j.dead[n:]
	return part
}

// ranged reports whether death ranges are left to be cleaned up.
func (j *janitor) ranged() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.ranges) > 0
}

func (j *janitor) takeRange(oldest uint64) (layout.DeathRange, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.ranges) == 0 || j.ranges[0].LSN > oldest {
		return layout.DeathRange{}, false
	}
	d := j.ranges[0]
	j.ranges = j.ranges[1:]
	return d, true
}

// reclaim removes the vectors, forward records and tombstones of documents that no state
// from oldest on has, and frees their slots.
func (db *DB) reclaim(ctx context.Context, part []records.Dead, oldest uint64) error {
	graves, vectors := 0, len(db.spaces.All()) > 0
	err := db.applySwept(func(b *pebble.Batch, r kv.Reader) error {
		for i := range part {
			if db.chunks.sealed[layout.ChunkOf(part[i].Doc)] {
				graves++
			}
			if err := db.reclaimOne(b, r, &part[i], oldest, vectors); err != nil {
				return err
			}
		}
		return db.store.AdmitFreeing(doingClean, b.Len())
	})
	if err != nil {
		return err
	}
	if err := db.lockBehind(ctx); err != nil {
		return err
	}
	defer db.unlock()
	db.chunks.graves += graves
	for _, d := range part {
		db.freeSlots(d.Doc, d.Kept)
	}
	db.spaces.Linker.Wake()
	return nil
}

// reclaimOne removes what a document has left in the store. vectors reports whether there
// are any.
func (db *DB) reclaimOne(b *pebble.Batch, r kv.Reader, d *records.Dead, oldest uint64, vectors bool) error {
	v := d.Of
	if row := db.tables.Docs.Row(d.Doc); row != nil && row.Seq != 0 {
		v = row.Version
	}
	// Of a version that has moved they go with its new number, which tells that it died:
	// an opening after a crash would look for them.
	if last := db.tables.Docs.Last(v); last != doctable.None && last != d.Doc {
		vectors = false
	}
	if vectors = vectors && v.Seq != 0; vectors {
		_, err := db.dropVersion(b, r, v, oldest)
		if errors.Is(err, fault.ErrCorrupt) { // its vectors stay, and all else is reclaimed
			db.logger.Warn("a version that died cannot be read", "error", err)
		} else if err != nil {
			return err
		}
	}
	if v.Seq != 0 && db.tables.Docs.At(v.Seq, oldest) == doctable.None { // not only a version of it
		if err := db.mourn(b, r, v); err != nil {
			return err
		}
	}
	if db.chunks.sealed[layout.ChunkOf(d.Doc)] { // it has no forward record, and only the tombstone tells
		if !vectors {
			return nil
		}
		return b.Set(db.keys().Doc(layout.KindTombstone, d.Doc), (&layout.Tombstone{LSN: d.LSN, Cleared: true}).Encode(), nil)
	}
	for _, kind := range []byte{layout.KindForward, layout.KindTombstone} {
		if err := b.Delete(db.keys().Doc(kind, d.Doc), nil); err != nil {
			return err
		}
	}
	return nil
}

func (db *DB) freeAll(ctx context.Context, docs []uint32) error {
	if err := db.lockBehind(ctx); err != nil {
		return err
	}
	defer db.unlock()
	for _, doc := range docs {
		db.freeSlots(doc, nil)
	}
	db.spaces.Linker.Wake()
	return nil
}

// freeSlots gives back the vectors of a document, but for those that the next
// version of its memory has taken over. The lock is held.
func (db *DB) freeSlots(doc uint32, kept []uint16) {
	db.spaces.Lexical.Forget(doc)
	for _, s := range db.spaces.All() {
		s.Free(doc, slices.Contains(kept, s.Num))
	}
}

// The record of a version that died stays: it is the history, which tells its text.
// Its vectors are nobody's any more once no reader can see it, unless the version
// after it has kept them, and go.

// dropVersion deletes what no history tells of a version that no state from oldest on
// has: the vectors that the memory's version of then has not kept, and the record where
// the update was only that it was embedded. It returns the record, nil where that was
// done before.
func (db *DB) dropVersion(batch *pebble.Batch, r kv.Reader, v layout.Version, oldest uint64) (*layout.Record, error) {
	now := db.tables.Docs.At(v.Seq, oldest)
	tx := Tx{db: db, state: db.stateOf(r, oldest)}
	rec, err := tx.state.ReadRecord(v)
	switch {
	case errors.Is(err, kv.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, store.Error(fmt.Sprintf("read memory number %d", v.Seq), err)
	}
	var kept []layout.VectorKey
	if now != doctable.None && len(rec.Vectors) > 0 {
		row := db.tables.Docs.Row(now)
		next, err := tx.state.Record(row.Version)
		if err != nil {
			return nil, err
		}
		kept = row.Brought(next.Vectors)
	}
	for _, vec := range v.Brought(rec.Vectors) {
		if slices.Contains(kept, vec) {
			continue
		}
		if err := batch.Delete(vec.Key(db.keys(), v.Owner), nil); err != nil {
			return nil, err
		}
	}
	if rec.Flags&layout.FlagEmbedded != 0 {
		err = batch.Delete(db.keys().Record(v), nil)
	}
	return rec, err
}
