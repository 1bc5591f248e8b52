package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/records"
	"github.com/seed-7aedc3ff/memdb/internal/spaces"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/internal/store"
	"github.com/seed-7aedc3ff/memdb/policy"
)

// Tx is a transaction: the argument of the functions given to View and Update. It
// is valid until that function returns, and must stay on its goroutine.
type Tx struct {
	db    *DB
	state state.State // what is read; in an Update with what it has written
	done  bool
	point *point // of a View
	lease *lease // nil: the whole transaction is one call, or a View has no age
	trust *trust // of a View

	*writes // nil in a View
}

// writes is what an Update has gathered.
type writes struct {
	late       func() error // of the Update's context: no call begins after it is done
	batch      *pebble.Batch
	searchable bool // the batch is indexed; see batchReader
	changes    uint32
	log        []byte
	next       layout.Counters
	begun      []uint16 // chunks, in their order
	own        state.Own
	versions   records.Changes
	rec        records.Writer // writes versions
	undo       []undo
	dying      []records.Dead // to be reclaimed after the commit
	ranges     []layout.DeathRange
	broken     error // set where an operation stopped half-way: no commit
	applied    []appliedHook
	frees      bool // the transaction as a whole frees space: see needFor
	// owners are those whose data the transaction looks for or changes; nil: nobody asks. See Attempt.
	owners map[uint32]bool
}

// undo takes back what an aborted transaction did to the tables.
type undo struct {
	doc   uint32
	added bool     // else killed
	kept  []uint16 // spaces whose vector is that of the version before
}

// LSN is that of the state that a View reads, or of the commit that an Update
// will be.
func (tx *Tx) LSN() uint64 { return tx.state.LSN }

// Memories are the memories as this transaction sees them.
func (tx *Tx) Memories() Memories { return Memories{db: tx.db, tx: tx} }

func (tx *Tx) check(doing string, write bool) error {
	switch {
	case tx.done:
		return &fault.Error{Kind: fault.ErrTxDone, What: doing, Do: "use a transaction only inside the function that received it"}
	case write && tx.writes == nil:
		return &fault.Error{Kind: fault.ErrReadOnly, What: doing, Why: "a View only reads", Do: "use Update"}
	case write && tx.broken != nil:
		return tx.broken
	}
	if tx.writes != nil && tx.late != nil {
		if err := tx.late(); err != nil {
			return err
		}
	}
	return tx.db.usable(doing)
}

// View runs fn on the newest durable state, which does not change while it runs.
// It never waits for a writer. Where fn takes longer than Options.MaxViewAge, the calls
// that it begins from then on return ErrViewExpired.
func (db *DB) View(ctx context.Context, fn func(tx *Tx) error) error {
	return db.view(ctx, db.points.lease(), func(tx *Tx) error {
		tx.trust = &trust{of: map[*spaces.Space]policy.Trust{}}
		return fn(tx)
	})
}

// view is View under a lease, nil for fn that is one call.
func (db *DB) view(ctx context.Context, l *lease, fn func(tx *Tx) error) error {
	if a := attemptOf(ctx); a != nil {
		if joined, err := a.read(db, fn); joined {
			return db.incomplete(err)
		}
	}
	release, err := db.enter("read")
	if err != nil {
		return err
	}
	defer release()
	if err := ctx.Err(); err != nil {
		return err
	}
	p := db.points.acquire(l)
	tx := &Tx{db: db, state: p.state, point: p, lease: l}
	tx.state.Now = db.now()
	defer func() {
		tx.done = true
		db.unpin(l, p)
	}()
	return db.incomplete(fn(tx))
}

// unpin gives up a point that was acquired under a lease.
func (db *DB) unpin(l *lease, p *point) {
	if err := db.points.done(l, p); err != nil {
		db.logger.Error("closing a read point", "error", err)
	}
	db.janitor.wake()
}

// reading runs a call that reads. Nothing that the state of the transaction needs is freed
// as long as it runs.
func (tx *Tx) reading(doing string, call func() error) error {
	if err := tx.check(doing, false); err != nil {
		return err
	}
	if tx.lease == nil {
		return call()
	}
	if !tx.db.points.hold(tx.lease) {
		return &fault.Error{
			Kind: fault.ErrViewExpired, What: doing,
			Why: fmt.Sprintf("the View is older than the MaxViewAge of %v", tx.db.points.maxAge),
			Do:  "read in several Views, or open the database with a longer MaxViewAge",
		}
	}
	defer tx.db.points.letGo(tx.lease)
	return call()
}

// Update runs fn with the writer lock and commits what it wrote when it returns
// nil; an error or a panic takes everything back. It returns when the commit, and
// all that fn could have observed, is durable. fn must not call Update, Reset,
// Rebuild, WaitIndexed or a one-shot write of the same database, which would wait
// for itself. Once ctx is done, no call in fn begins any more, and what fn wrote is taken
// back: Update returns ctx's error, unless fn has returned before.
//
// Within [Once] the commit waits for the end of the request.
func (db *DB) Update(ctx context.Context, fn func(tx *Tx) error) error {
	if a := attemptOf(ctx); a != nil {
		return a.join(ctx, db, fn)
	}
	release, err := db.admit(ctx)
	if err != nil {
		return err
	}
	defer release()
	began := clock.System()
	seen, err := db.update(ctx, func(tx *Tx) error {
		tx.late = ctx.Err
		if err := fn(tx); err != nil {
			return err
		}
		return ctx.Err()
	})
	applied := clock.System()
	err = db.acknowledgeWithin(ctx, seen, err)
	db.wrote(began, applied)
	return db.incomplete(err)
}

// admit lets a writer in, as enter does, and keeps it waiting while the work that is
// done behind the writers, on the indexes, is too far behind.
func (db *DB) admit(ctx context.Context) (release func(), err error) {
	const doing = "write"
	if err := mayWrite(ctx, doing); err != nil {
		return nil, err
	}
	if release, err = db.enter(doing); err != nil {
		return nil, err
	}
	if err = db.writable(doing); err == nil {
		err = db.store.AdmitSending(doing)
	}
	if err == nil {
		err = db.archives.AwaitLate(ctx)
	}
	if err == nil {
		err = db.waitForSealing(ctx)
	}
	if err == nil {
		err = db.waitForLinking(ctx)
	}
	if err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// writable refuses a write of a database that was opened to be read.
func (db *DB) writable(doing string) error {
	if !db.readOnly {
		return nil
	}
	return &fault.Error{Kind: fault.ErrReadOnly, What: doing, Why: "the database was opened with ReadOnly", Do: "open it without"}
}

// acknowledge returns when everything up to the LSN that a write has seen is
// durable, also for one that changed nothing or was refused for what is there.
func (db *DB) acknowledge(seen uint64, err error) error {
	if err != nil && (seen == 0 || errors.Is(err, fault.ErrFailed) || errors.Is(err, fault.ErrNotOwner)) {
		return err
	}
	if db.durability == Durable {
		if werr := db.syncer.Wait(seen); werr != nil {
			return werr
		}
		if db.janitor.waits.Load() {
			db.janitor.wake() // when the commit was applied it could not be seen yet
		}
	}
	return err
}

// acknowledgeWithin is acknowledge for as long as the context of a call lasts.
func (db *DB) acknowledgeWithin(ctx context.Context, seen uint64, err error) error {
	if !db.archives.First || ctx.Done() == nil {
		return db.acknowledge(seen, err)
	}
	return db.archives.Acknowledge(ctx, func() error { return db.acknowledge(seen, err) }, err)
}

// update runs fn under the lock and returns the newest LSN that it observed or
// made, 0 if it observed nothing.
func (db *DB) update(ctx context.Context, fn func(tx *Tx) error) (seen uint64, err error) {
	if err := db.lock(ctx); err != nil {
		return 0, err
	}
	defer db.unlock()
	return db.transact(fn)
}

// updateBehind is update for work behind the calls.
func (db *DB) updateBehind(ctx context.Context, fn func(tx *Tx) error) (seen uint64, err error) {
	if err := db.lockBehind(ctx); err != nil {
		return 0, err
	}
	defer db.unlock()
	return db.transact(fn)
}

// transact is update for who holds the lock.
func (db *DB) transact(fn func(tx *Tx) error) (seen uint64, err error) {
	tx := db.begin()
	defer tx.end() // fn failed or panicked
	if err := fn(tx); err != nil {
		return tx.state.LSN - 1, err
	}
	return tx.commit()
}

// end takes back what the transaction has not committed.
func (tx *Tx) end() {
	tx.done = true
	if tx.batch != nil {
		tx.rollback()
	}
}

// commit commits the transaction, and returns the newest LSN that it observed or made.
func (tx *Tx) commit() (seen uint64, err error) {
	if tx.broken != nil {
		return tx.state.LSN - 1, tx.broken
	}
	if tx.changes == 0 {
		return tx.state.LSN - 1, nil
	}
	if err := tx.seal(); err != nil {
		return tx.state.LSN - 1, err
	}
	if err := tx.apply(); err != nil {
		return 0, err
	}
	return tx.state.LSN - 1, nil
}

func (db *DB) begin() *Tx {
	db.rollChunk()
	tx := &Tx{
		db: db, state: db.newestState(),
		writes: &writes{
			batch: db.store.NewBatch(), next: db.writer.next,
			own:      state.Own{Names: map[layout.Name]uint32{}, Committed: db.store},
			versions: records.Changes{BySeq: map[uint64]*records.Pending{}, Spaces: map[string]*spaces.Space{}},
		},
	}
	tx.own.Given = &tx.next
	tx.state.LSN, tx.state.Own, tx.state.Reader = db.writer.applied+1, &tx.own, batchReader{tx}
	tx.rec = records.Writer{
		View: tx.reader(), Batch: (*recordsHost)(tx), Host: (*recordsHost)(tx), Touches: db.touched, Applied: db.writer.applied,
		Settings: records.Settings{Dedup: db.dedup, Embeds: db.embedder != nil},
	}
	return tx
}

// reader reads the versions that the transaction sees.
func (tx *Tx) reader() records.View {
	view := records.View{State: &tx.state, Spaces: tx.db.spaces, Seen: &tx.db.writer.seen, Database: tx.db.id}
	if tx.writes != nil {
		view.Changes = &tx.versions
	}
	return view
}

// rollback takes back everything, also from the tables.
func (tx *Tx) rollback() {
	tx.rec.GiveBack()
	for _, u := range slices.Backward(tx.undo) {
		if u.added {
			tx.db.tables.Docs.Drop(u.doc)
			tx.db.freeSlots(u.doc, u.kept)
		} else {
			tx.db.tables.Docs.Revive(u.doc)
		}
	}
	for _, s := range tx.versions.Spaces {
		tx.db.spaces.Remove(s)
		if err := s.File.Close(); err != nil {
			tx.db.logger.Error("closing the file of a space that was taken back", "space", s.Name, "error", err)
		}
	}
	if len(tx.undo) > 0 {
		// Documents that were materialised stay in the indexes as holes, so
		// their IDs are spent; and so are Seqs, which a recall may have touched.
		tx.keepBegun()
		tx.db.writer.next.Seq = tx.next.Seq
	}
	tx.closeBatch()
}

func (tx *Tx) closeBatch() {
	if err := tx.batch.Close(); err != nil {
		tx.db.logger.Error("closing a batch", "error", err)
	}
	tx.batch = nil
}

// seal writes the log record that ends the commit of this LSN. What is written
// after it belongs to the next.
func (tx *Tx) seal() error {
	if err := tx.set(tx.state.Keys.LSN(layout.KindLog, tx.state.LSN), tx.logRecord()); err != nil {
		return err
	}
	tx.state.LSN++
	tx.changes, tx.log = 0, tx.log[:0]
	return nil
}

// appliedHook is what a structure does in RAM once a commit is applied.
type appliedHook struct {
	lsn uint64
	do  func(lsn uint64) error
}

// onApplied has a structure change what it keeps in RAM once the commit of now is in the store
// and its documents are in the tables, before a read point shows it: in the order of the calls,
// each with the LSN of its commit. An error fails the database, which a reopening mends.
func (tx *Tx) onApplied(do func(lsn uint64) error) {
	tx.applied = append(tx.applied, appliedHook{tx.state.LSN, do})
}

// apply applies the batch, whose commits are sealed, and makes the new state that
// of the tables and, once durable, of the next read point.
func (tx *Tx) apply() error {
	db := tx.db
	began, commits := clock.System(), tx.state.LSN-1-db.writer.applied
	// Give the batch its order. From here on the syncer closes it, since a sync that was asked
	// for may refer to it.
	batch, err := db.writer.orderer.InOrder(db.store, tx.batch)
	if err != nil {
		return tx.breaks(store.Error("order the writes of a transaction", err))
	}
	tx.batch = nil
	// Apply it to the store, without waiting for the disk.
	if err := db.store.ApplyBatch(batch, db.durability == Durable, store.Commit{LSN: tx.state.LSN - 1, Time: tx.state.Now}); err != nil {
		db.store.Fail(err)
	}
	if err := db.Failed(); err != nil {
		return err
	}
	if db.durability == Durable && !db.spaces.Linker.All.Load() {
		// On a busy processor the log would else be written only when this
		// goroutine waits for it: the disk shall work while the tables grow. Where
		// linking takes all processors, it would have to wait for one itself.
		runtime.Gosched()
	}
	// Show the structures what they have written: memories first, then those that asked to be
	// told. What fails here is on disk, but not in RAM.
	if err := tx.show(); err != nil {
		db.store.Fail(err)
		return db.Failed()
	}
	// Tell the janitor of the dead before a read point tells that nobody sees them.
	died := db.janitor.add(tx.dying, tx.ranges)
	// Publish the new state, once it is durable.
	note := db.syncer.Committed
	if db.durability == Buffered {
		note = db.syncer.Buffered
	}
	if err := note(db.newPoint(db.writer.applied), batch); err != nil {
		db.store.Fail(err)
	}
	if died {
		db.janitor.wake()
	}
	m := &db.meters
	m.commits.Add(commits)
	m.batches.Add(1)
	m.apply.Observe(clock.System().Sub(began))
	return db.Failed()
}

// show makes what was applied that of the tables, where readers of the new state look.
func (tx *Tx) show() error {
	if err := tx.materialise(); err != nil {
		return err
	}
	tx.spend()
	tx.rec.ForgiveDebts()
	for _, h := range tx.applied {
		if err := h.do(h.lsn); err != nil {
			return err
		}
	}
	return nil
}

// spend makes the numbers that were given those of the database: of names, commits, memories,
// documents and their chunks.
func (tx *Tx) spend() {
	db := tx.db
	for k, num := range tx.own.Names {
		db.tables.Names.Remember(k, num)
		if k.Class == layout.NameField {
			db.tables.Fields.Add(k.Text, num)
		}
	}
	if tx.next.Doc>>16 != db.writer.next.Doc>>16 {
		db.janitor.wake() // a chunk is full
	}
	db.writer.next, db.writer.applied = tx.next, tx.state.LSN-1
	for _, chunk := range tx.begun {
		db.chunks.used[chunk] = true
	}
}

// materialise moves what is pending into the tables and indexes, where only a
// reader at this transaction's LSN can see it.
func (tx *Tx) materialise() error {
	db := tx.db
	for _, d := range tx.versions.Killed {
		db.tables.Docs.Kill(d.Doc, d.LSN)
		tx.undo = append(tx.undo, undo{doc: d.Doc})
		if p := tx.versions.BySeq[db.tables.Docs.Row(d.Doc).Seq]; p != nil && !p.Gone && p.Inherits == d.Doc {
			d.Kept = p.Keeps
		}
		tx.dying = append(tx.dying, d)
	}
	tx.versions.Killed = nil
	for _, s := range tx.versions.Spaces {
		db.spaces.Add(s)
	}
	tx.noteBegun()
	for _, p := range tx.versions.Added {
		if p.Gone { // added and changed or removed by this same transaction
			continue
		}
		if err := db.show(p); err != nil {
			return err
		}
		tx.undo = append(tx.undo, undo{doc: p.Doc, added: true, kept: p.Keeps})
	}
	tx.versions.Added = nil
	clear(tx.versions.BySeq)
	tx.state.Postings = db.newestText()
	return nil
}

// show adds a version to the tables and indexes.
func (db *DB) show(p *records.Pending) error {
	if err := db.showVectors(p); err != nil {
		return err
	}
	if err := db.tables.NewestIndex.Load().Add(p.Doc, &p.Index); err != nil {
		return fault.Within(fmt.Sprintf("index document %d", p.Doc), err)
	}
	db.touched.Publish(p)
	if p.Access != (layout.Access{}) {
		s := db.tables.Docs.Seq(p.Seq)
		s.Count.Add(p.Access.Count)
		s.See(p.Access.Last)
	}
	return nil
}

// change takes the number of the next change.
func (tx *Tx) change() uint32 {
	tx.changes++
	return tx.changes - 1
}

// logRecord tells what the commit did. docs/format/log.md describes it.
func (tx *Tx) logRecord() []byte {
	return append(layout.AppendLogHead(nil, tx.state.Now, &tx.next, tx.changes), tx.log...)
}

// batchReader reads what a transaction has written over the newest state of the
// store. The batch is indexed when that is asked for: most stores look nothing up,
// and the index of a batch costs more than the batch.
type batchReader struct{ tx *Tx }

func (r batchReader) Get(key []byte) ([]byte, io.Closer, error) {
	reader, err := r.tx.readable()
	if err != nil {
		return nil, nil, err
	}
	return reader.Get(key)
}

func (r batchReader) Iter(lower, upper []byte) (kv.Iterator, error) {
	reader, err := r.tx.readable()
	if err != nil {
		return nil, err
	}
	return reader.Iter(lower, upper)
}

// readable is what the transaction reads, with all that it has written so far.
func (tx *Tx) readable() (kv.Reader, error) {
	switch {
	case tx.batch == nil || !tx.searchable && tx.batch.Empty(): // applied, or nothing is written
		return tx.db.store, nil
	case tx.searchable:
		return store.Batch{Batch: tx.batch}, nil
	}
	indexed := tx.db.store.NewIndexedBatch()
	if err := indexed.Apply(tx.batch, nil); err != nil {
		return nil, errors.Join(err, indexed.Close())
	}
	plain := tx.batch
	tx.batch, tx.searchable = indexed, true
	return store.Batch{Batch: indexed}, plain.Close()
}
