package engine

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2"
)

// janitor frees what died once no reader can see it: documents of superseded and
// deleted versions, and what death ranges left behind. And it seals the chunks of
// the text index that are full, and moves the documents of sparse ones. It runs beside
// readers and writers, and takes the lock for the last step of each only.
// Who takes several locks takes busy first, then the writer lock, then mu or that of
// the read points.
type janitor struct {
	db     *DB
	signal chan struct{}
	cancel context.CancelFunc
	done   sync.WaitGroup

	// busy is held while the janitor works, so that a reset or a rebuild does not come
	// between its steps.
	busy sync.Mutex

	graves int // documents of sealed chunks that were reclaimed since the chunks were looked at

	mu     sync.Mutex
	dead   []dead // in the order of their LSN
	ranges []deathRange
	sealed chan struct{} // closed when a chunk was sealed, or could not be
	stuck  bool          // sealing failed, or has ended: nobody should wait for it
}

func newJanitor(db *DB) *janitor {
	return &janitor{db: db, signal: make(chan struct{}, 1), sealed: make(chan struct{})}
}

func (j *janitor) start() {
	ctx, cancel := context.WithCancel(context.Background())
	j.cancel = cancel
	j.done.Go(func() { j.run(ctx) })
}

func (j *janitor) stop() {
	if j.cancel != nil {
		j.cancel()
	}
	j.done.Wait()
	j.progress(true)
}

// progress tells the writers that wait for a chunk to be sealed to look again.
func (j *janitor) progress(stuck bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.stuck = stuck
	close(j.sealed)
	j.sealed = make(chan struct{})
}

func (j *janitor) add(d []dead, r []deathRange) {
	if len(d) == 0 && len(r) == 0 {
		return
	}
	j.mu.Lock()
	j.dead = append(j.dead, d...)
	j.ranges = append(j.ranges, r...)
	j.mu.Unlock()
	j.wake()
}

// wake makes the janitor look again: something died, or a reader has gone.
func (j *janitor) wake() {
	select {
	case j.signal <- struct{}{}:
	default:
	}
}

func (j *janitor) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-j.signal:
		}
		err := j.work(ctx)
		if err != nil && ctx.Err() == nil && !errors.Is(err, ErrFailed) {
			j.db.log.Error("cleaning up", "error", err)
		}
	}
}

// reclaimBatch bounds the documents that are freed in one commit.
const reclaimBatch = 1000

// work frees all that can be freed now.
func (j *janitor) work(ctx context.Context) error {
	j.busy.Lock()
	defer j.busy.Unlock()
	for ctx.Err() == nil {
		part := j.takeDead(j.db.points.oldest())
		if len(part) == 0 {
			break
		}
		if err := j.db.reclaim(ctx, part); err != nil {
			j.mu.Lock()
			j.dead = slices.Insert(j.dead, 0, part...) // to be begun again
			j.mu.Unlock()
			return err
		}
	}
	for ctx.Err() == nil {
		d, ok := j.takeRange(j.db.points.oldest())
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
	if err := j.db.sealChunks(ctx); err != nil {
		j.progress(true)
		return err
	}
	return j.db.moveSparse(ctx)
}

// ranging tells whether memories of a death range are still to be cleaned up.
func (j *janitor) ranging() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.ranges) > 0
}

func (j *janitor) takeDead(oldest uint64) []dead {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := 0
	for n < len(j.dead) && n < reclaimBatch && j.dead[n].lsn <= oldest {
		n++
	}
	part := j.dead[:n:n]
	j.dead = j.dead[n:]
	return part
}

func (j *janitor) takeRange(oldest uint64) (deathRange, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.ranges) == 0 || j.ranges[0].lsn > oldest {
		return deathRange{}, false
	}
	d := j.ranges[0]
	j.ranges = j.ranges[1:]
	return d, true
}

// reclaim removes the forward records and tombstones of documents that nobody can
// see, and frees their slots.
func (db *DB) reclaim(ctx context.Context, part []dead) error {
	graves := 0
	err := db.applyBare(func(b *pebble.Batch) error {
		for _, d := range part {
			if db.sealed[chunkOf(d.doc)] {
				graves++
				continue // it has no forward record, and only the tombstone tells
			}
			for _, kind := range []byte{kindForward, kindTombstone} {
				if err := b.Delete(db.keys.doc(kind, d.doc), nil); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := db.lockBehind(ctx); err != nil {
		return err
	}
	defer db.unlock()
	db.janitor.graves += graves
	for _, d := range part {
		db.freeSlots(d.doc, d.kept)
	}
	db.linker.wake()
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
	db.linker.wake()
	return nil
}

// freeSlots gives back the vectors of a document, but for those that the next
// version of its memory has taken over. The lock is held.
func (db *DB) freeSlots(doc uint32, kept []uint16) {
	db.lexical.forget(doc)
	for _, s := range db.spaces.all() {
		s.free(doc, slices.Contains(kept, s.num))
	}
}
