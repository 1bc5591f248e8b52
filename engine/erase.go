package engine

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/seed-7aedc3ff/memdb/entries"
	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/lifecycle"
	"github.com/seed-7aedc3ff/memdb/internal/needles"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/scope"
	"github.com/seed-7aedc3ff/memdb/sessions"
	"github.com/seed-7aedc3ff/memdb/usage"
)

// An erasure leaves nothing of a memory, an agent or a user in the folder. It writes first, in
// numbers, what it is going to do. Then each step finds by itself what is left for it, so that a
// database that was killed goes on when it is opened: what lives is deleted; once no View is open
// from before that, so is what the history, the trash and the parts keep; chunks of the text index
// whose dictionaries have the words are moved; the log gets marks in the place of changes; names
// that nobody else has are deleted; and last, the files are rewritten.

const (
	doingErase = "erase"
	// eraseEvery is how often an erasure that has waited in vain is gone on with.
	eraseEvery = time.Second
	// eraseLook is how often it is looked whether older Views have ended.
	eraseLook = 2 * time.Millisecond
)

// EraseQuery says what [DB.Erase] erases.
type EraseQuery struct {
	// User and Agent say whose: with a user alone all that it has, over all agents and without
	// one; with an agent alone all that it has, of every user and of none, with its manifest; with
	// both, what this pair has.
	User  string
	Agent string
	// ID is that of one memory of theirs, living or not; empty for everything.
	ID string
	// DryRun: nothing is erased; the report says how much there is.
	DryRun bool
}

// Erased is how much is gone with an erasure.
type Erased struct {
	// Memories are those that lived and those that had died; Versions are their records, and
	// Events their ends.
	Memories int64 `json:"memories"`
	Versions int64 `json:"versions"`
	Events   int64 `json:"events"`
	// Entries are those of the key-value store, Messages those of sessions, Entities and Relations
	// those of the graph, Usage calls of models.
	Entries   int64 `json:"entries"`
	Messages  int64 `json:"messages"`
	Entities  int64 `json:"entities"`
	Relations int64 `json:"relations"`
	Usage     int64 `json:"usage"`
	// Names are those of users, agents, runs and metadata fields that nothing else has.
	Names int64 `json:"names"`
}

func (e *Erased) all() []*int64 {
	return []*int64{&e.Memories, &e.Versions, &e.Events, &e.Entries, &e.Messages, &e.Entities, &e.Relations, &e.Usage, &e.Names}
}

// Kept is something that an erasure leaves, or does not reach.
type Kept struct {
	// What it is, and Why it stays or is not reached, each in a few words.
	What string `json:"what"`
	Why  string `json:"why"`
}

// EraseReport is what an erasure has done.
type EraseReport struct {
	// Erased is how much is gone.
	Erased Erased `json:"erased"`
	// RewrittenBytes are those of tables that were written anew. FilesRemoved counts the files of
	// before that are gone.
	RewrittenBytes int64 `json:"rewritten_bytes"`
	FilesRemoved   int   `json:"files_removed"`
	// Derived are the summaries that had something of the erased, and what became of each.
	Derived []Kept `json:"derived"`
	// Left is what stays in the folder: what a search of all files for the erased texts and names has
	// found with others. It is empty where the search found nothing. OutOfReach is what the database
	// cannot reach.
	Left       []Kept `json:"left"`
	OutOfReach []Kept `json:"out_of_reach"`
	// LSN is that of the commit that began it. Seconds is how long it took, since it was begun or
	// gone on with; 0 for a dry run.
	LSN     uint64  `json:"lsn"`
	Seconds float64 `json:"seconds"`
}

// whose is what is erased: memories by their owners or, where there are Seqs, by these.
type whose struct {
	owners map[uint32]bool
	seqs   map[uint64]bool
}

func (w *whose) has(owner uint32, seq uint64) bool {
	return w.owners[owner] && (w.seqs == nil || w.seqs[seq])
}

// erasure is one that runs.
type erasure struct {
	layout.Erasure
	whose
	erased Erased
	names  []scope.Owner // those that own it
	report EraseReport
	stays  []Kept // memories that say the same
	// passages are the texts and names to search all files for at the end; nil if the program was
	// interrupted. goneNames are the names of users, agents and runs among them.
	passages  *needles.Passages
	goneNames []string
	traces    *graph.Traces // once the log was read
}

func newErasure(l layout.Erasure) *erasure {
	e := &erasure{Erasure: l, whose: whose{owners: map[uint32]bool{}}}
	for _, o := range l.Owners {
		e.owners[o] = true
	}
	for _, s := range l.Seqs {
		if e.seqs == nil {
			e.seqs = map[uint64]bool{}
		}
		e.seqs[s] = true
	}
	for i, n := range e.erased.all() {
		if i < len(l.Counts) {
			*n = l.Counts[i]
		}
	}
	return e
}

// encode is the erasure as it is stored.
func (e *erasure) encode() []byte {
	e.Counts = e.Counts[:0]
	for _, n := range e.erased.all() {
		e.Counts = append(e.Counts, *n)
	}
	return e.Encode()
}

// Erase removes every trace of a memory, an agent or a user from the folder: records with their
// history and what the trash keeps, vectors and their snapshots, the words in the text index, what
// others were told when they were merged, entries, sessions and messages, notes, the graph, usage
// and budgets, the changes in the log, and names that nobody else has. Then it rewrites the files:
// tables, logs and the MANIFEST.
//
// It waits for Views that were begun before, and for what else reads a state of before, as an archive
// that begins or a rebuild, as long as LockWait and ctx allow, and then returns ErrBusy; past states of
// before it, see [DB.ViewAt], are gone. The erasure stays begun: it goes on as soon as it can, also when
// the database is opened again after a crash, and a call that says the same goes on with it and reports.
// While it runs, writes for a user or an agent that is erased return ErrBusy. Within a View, an Update or
// a callback it would wait for itself: that is ErrInvalid.
//
// It takes as long as it takes to read all records and the log, and to rewrite what tables hold of
// theirs beside that of others. ErrNotFound where there is nothing of that name; ErrAmbiguous where
// several owners have a memory with the ID; ErrReadOnly.
func (db *DB) Erase(ctx context.Context, q EraseQuery) (EraseReport, error) {
	if err := q.check(); err != nil {
		return EraseReport{}, err
	}
	if !q.DryRun && db.life.Busy() && lifecycle.CalledBack() {
		return EraseReport{}, fault.Invalid(doingErase, "it is called within a View, an Update or a callback, for whose end it would wait", "return from that first")
	}
	if q.DryRun {
		return db.eraseDry(ctx, &q)
	}
	ctx, err := db.apart(ctx, doingErase)
	if err != nil {
		return EraseReport{}, err
	}
	release, err := db.admit(ctx)
	if err != nil {
		return EraseReport{}, err
	}
	defer release()
	wait, cancel := db.lockLimit(ctx)
	defer cancel()
	if err := db.turn.LockContext(wait); err != nil {
		return EraseReport{}, db.lockError(ctx, doingErase, "an eviction, a consolidation or another erasure runs")
	}
	defer db.turn.Unlock()
	began := clock.System()
	if pending := db.erasing.Load(); pending != nil {
		same, err := db.sameErasure(ctx, pending, &q)
		if err != nil {
			return EraseReport{}, err
		}
		if err := db.erase(ctx, wait, pending, began, same); err != nil {
			return EraseReport{}, db.beganError(ctx, err)
		}
		if same {
			return db.erasedReport(pending, began), nil
		}
	}
	e, err := db.beginErasure(ctx, &q)
	if errors.Is(err, fault.ErrNotFound) {
		if r, ended, rerr := db.endedErasure(&q); rerr != nil || ended {
			return r, rerr
		}
	}
	if err != nil {
		return EraseReport{}, err
	}
	if err := db.erase(ctx, wait, e, began, true); err != nil {
		return EraseReport{}, db.beganError(ctx, err)
	}
	return db.erasedReport(e, began), nil
}

// beganError is the error of a call whose erasure has begun: ErrBusy where the time of the call is over.
func (db *DB) beganError(ctx context.Context, err error) error {
	if errors.Is(err, context.DeadlineExceeded) && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return unendedError("the deadline of the call is over")
	}
	return err
}

func (q *EraseQuery) check() error {
	if q.User == "" && q.Agent == "" {
		return fault.Invalid(doingErase, "it names neither a user nor an agent", "name whose it is")
	}
	if err := scope.Check(doingErase, scope.Scope{User: q.User, Agent: q.Agent}); err != nil {
		return err
	}
	if q.ID == "" {
		return nil
	}
	return valid.Word(doingErase, "ID", q.ID)
}

// means reports whether an owner is one of those that the query names.
func (q *EraseQuery) means(o scope.Owner) bool {
	return (q.User == "" || q.User == o.User) && (q.Agent == "" || q.Agent == o.Agent)
}

// what names what is erased in an error.
func (q *EraseQuery) what() string {
	switch {
	case q.ID != "":
		return fmt.Sprintf("memory %q", valid.Short(q.ID))
	case q.Agent == "":
		return fmt.Sprintf("user %q", valid.Short(q.User))
	case q.User == "":
		return fmt.Sprintf("agent %q", valid.Short(q.Agent))
	}
	return fmt.Sprintf("user %q and agent %q", valid.Short(q.User), valid.Short(q.Agent))
}

func (db *DB) erasedReport(e *erasure, began time.Time) EraseReport {
	r := e.report
	r.Erased, r.LSN, r.Seconds = e.erased, e.LSN, clock.System().Sub(began).Seconds()
	if r.Left == nil {
		r.Left = []Kept{}
	}
	if r.Derived == nil {
		r.Derived = []Kept{}
	}
	r.OutOfReach = db.outOfReach()
	return r
}

// eraseDry counts what an erasure would erase.
func (db *DB) eraseDry(ctx context.Context, q *EraseQuery) (r EraseReport, err error) {
	err = db.view(ctx, nil, func(tx *Tx) error {
		e, err := tx.erasureOf(ctx, q)
		if err != nil {
			return err
		}
		if err = tx.follow(ctx, e); err != nil {
			return err
		}
		if err = tx.countErased(ctx, e); err != nil {
			return err
		}
		e.LSN, e.report.Left = tx.state.LSN, e.stays
		r = db.erasedReport(e, clock.System())
		r.Seconds = 0
		return nil
	})
	return r, err
}

// sameErasure reports whether a query means what an erasure that has begun erases. Of one whose names
// are gone already the fingerprint says so.
func (db *DB) sameErasure(ctx context.Context, e *erasure, q *EraseQuery) (same bool, err error) {
	err = db.view(ctx, nil, func(tx *Tx) error {
		of, err := tx.erasureOf(ctx, q)
		if errors.Is(err, fault.ErrNotFound) {
			same = e.Asked == q.fingerprint() || e.Asked == 0 && e.Rewriting
			return nil
		}
		if err == nil {
			missing := func(seq uint64) bool { return !slices.Contains(e.Seqs, seq) }
			same = slices.Equal(of.Owners, e.Owners) && (of.Seqs == nil) == (e.Seqs == nil) && !slices.ContainsFunc(of.Seqs, missing)
		}
		return err
	})
	return same, err
}

// beginErasure writes what is going to be erased.
func (db *DB) beginErasure(ctx context.Context, q *EraseQuery) (e *erasure, err error) {
	var counted *erasure
	err = db.view(ctx, nil, func(tx *Tx) error { // without the lock: it reads all records
		if counted, err = tx.erasureOf(ctx, q); err != nil {
			return err
		}
		if err := tx.follow(ctx, counted); err != nil {
			return err
		}
		if err := tx.countErased(ctx, counted); err != nil {
			return err
		}
		return tx.gather(ctx, counted)
	})
	if err != nil {
		return nil, err
	}
	err = db.acknowledge(db.update(ctx, func(tx *Tx) error {
		if e, err = tx.erasureOf(ctx, q); err != nil {
			return err
		}
		e = e.with(counted)
		e.LSN, e.At, e.Asked = tx.state.LSN, tx.state.Now, q.fingerprint()
		if err := tx.needToFree(doingErase, 64+12*(len(e.Owners)+len(e.Seqs)+len(e.Commits))); err != nil {
			return err
		}
		if err := tx.set(layout.ErasureKey, e.encode()); err != nil {
			return err
		}
		if err := tx.closeReports(); err != nil {
			return err
		}
		tx.change()
		tx.log = appendErase(tx.log, &e.Erasure)
		tx.onApplied(func(uint64) error {
			db.erasing.Store(e)
			return nil
		})
		return nil
	}))
	return e, err
}

// with is an erasure under the lock, with what a View of shortly before has counted and found: nothing
// is merged or consolidated meanwhile.
func (e *erasure) with(counted *erasure) *erasure {
	counted.Owners, counted.names, counted.owners = e.Owners, e.names, e.owners
	for _, seq := range e.Seqs {
		if !counted.seqs[seq] {
			counted.seqs[seq], counted.Seqs = true, append(counted.Seqs, seq)
		}
	}
	return counted
}

// appendErase appends the operation of an erasure.
func appendErase(b []byte, e *layout.Erasure) []byte {
	b = append(b, byte(layout.LogErase))
	b = binary.AppendUvarint(b, uint64(len(e.Seqs)))
	for _, seq := range e.Seqs {
		b = binary.AppendUvarint(b, seq)
	}
	b = binary.AppendUvarint(b, uint64(len(e.Owners)))
	for _, o := range e.Owners {
		b = binary.AppendUvarint(b, uint64(o))
	}
	return b
}

// erasureOf finds what a query means.
func (tx *Tx) erasureOf(ctx context.Context, q *EraseQuery) (*erasure, error) {
	names := map[uint32]scope.Owner{}
	err := tx.eachOwner(ctx, func(number uint32, o scope.Owner) {
		if q.means(o) {
			names[number] = o
		}
	})
	if err != nil {
		return nil, err
	}
	l := layout.Erasure{}
	if q.ID != "" {
		if l.Seqs, err = tx.withID(q.ID, names); err != nil {
			return nil, err
		}
		if len(l.Seqs) == 0 {
			clear(names)
		}
	}
	if len(names) == 0 {
		return nil, &fault.Error{Kind: fault.ErrNotFound, What: doingErase + ": there is no " + q.what(), Do: "check the names"}
	}
	for number := range names {
		l.Owners = append(l.Owners, number)
	}
	slices.Sort(l.Owners)
	e := newErasure(l)
	for _, number := range l.Owners {
		e.names = append(e.names, names[number])
	}
	return e, nil
}

// withID are the memories that have or had an ID, of one of some owners, which alone stays.
func (tx *Tx) withID(id string, names map[uint32]scope.Owner) (seqs []uint64, err error) {
	of := map[uint32]bool{}
	err = tx.holders(anyOwner, id, func(c claim) error {
		if _, ours := names[c.owner]; !ours || slices.Contains(seqs, c.seq) {
			return nil
		}
		prefix := tx.state.Keys.Records(c.owner, c.seq)
		return kv.Scan(tx.state.Reader, prefix, layout.PrefixEnd(prefix), func(_, value []byte) error {
			rec, err := layout.DecodeRecord(value)
			if err != nil || rec.ID != id { // what cannot be read, check tells
				return nil
			}
			seqs, of[c.owner] = append(seqs, c.seq), true
			return kv.ErrStop
		})
	})
	if errors.Is(err, kv.ErrStop) {
		err = nil
	}
	if err == nil && len(of) > 1 {
		err = ambiguous(fmt.Sprintf("erase memory %q", valid.Short(id)), len(of))
	}
	for number := range names {
		if !of[number] {
			delete(names, number)
		}
	}
	slices.Sort(seqs)
	return seqs, err
}

// countErased counts what there is.
func (tx *Tx) countErased(ctx context.Context, e *erasure) error {
	n := &e.erased
	last := home{}
	for _, span := range tx.db.recordSpans(e) {
		err := kv.Scan(tx.state.Reader, span[0], span[1], func(key, _ []byte) error {
			v, ok := layout.ParseRecordKey(key)
			if !ok || !e.has(v.Owner, v.Seq) {
				return ctx.Err()
			}
			n.Versions++
			if at := (home{v.Seq, v.Owner}); at != last {
				n.Memories++
				last = at
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	for _, lower := range tx.db.ownedKeys(e, layout.KindHistory) {
		err := kv.Scan(tx.state.Reader, lower, layout.PrefixEnd(lower), func(_, _ []byte) error {
			n.Events++
			return ctx.Err()
		})
		if err != nil {
			return err
		}
	}
	if e.seqs != nil {
		return nil
	}
	for _, o := range e.names {
		count := func(l Line) error {
			if l.Owner() == o {
				n.count(l)
			}
			return ctx.Err()
		}
		if err := tx.Lines(o.Scope(), nil, count); err != nil {
			return err
		}
	}
	return nil
}

// count counts a line of an export.
func (e *Erased) count(l Line) {
	switch l.Type() {
	case entries.TypeLine:
		e.Entries++
	case sessions.TypeMessage:
		e.Messages++
	case graph.TypeEntity:
		e.Entities++
	case graph.TypeRelation:
		e.Relations++
	case usage.TypeUsage:
		calls := int64(1)
		if of, ok := l.(interface{ Count() int64 }); ok {
			calls = of.Count()
		}
		e.Usage += calls
	}
}

// recordSpans are where the records of what is erased lie.
func (db *DB) recordSpans(e *erasure) (spans [][2][]byte) {
	if e.seqs == nil {
		lower, upper := db.keys().Span(layout.KindRecord)
		return append(spans, [2][]byte{lower, upper})
	}
	for _, owner := range e.Owners {
		for _, seq := range e.Seqs {
			prefix := db.keys().Records(owner, seq)
			spans = append(spans, [2][]byte{prefix, layout.PrefixEnd(prefix)})
		}
	}
	return spans
}

// ownedKeys are the prefixes of the keys of a kind whose keys begin with the owner and the Seq.
func (db *DB) ownedKeys(e *erasure, kind byte) (prefixes [][]byte) {
	for _, owner := range e.Owners {
		k := binary.BigEndian.AppendUint32(db.keys().Header(kind, 12), owner)
		if e.seqs == nil {
			prefixes = append(prefixes, k)
		}
		for _, seq := range e.Seqs {
			prefixes = append(prefixes, binary.BigEndian.AppendUint64(slices.Clone(k), seq))
		}
	}
	return prefixes
}

// loadErasure finds an erasure that has begun.
func (db *DB) loadErasure() error {
	b, closer, err := db.store.Get(layout.ErasureKey)
	if errors.Is(err, kv.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	l, err := layout.DecodeErasure(b)
	if err = errors.Join(err, closer.Close()); err != nil {
		return err
	}
	db.erasing.Store(newErasure(*l))
	return nil
}

// goOnErasing goes on with an erasure that was interrupted, or waits for Views.
func (db *DB) goOnErasing(ctx context.Context) error {
	if db.erasing.Load() == nil {
		return nil
	}
	if err := db.turn.LockContext(ctx); err != nil {
		return err
	}
	defer db.turn.Unlock()
	e := db.erasing.Load()
	if e == nil || !e.Rewriting && db.points.oldestOpen() < e.LSN {
		return nil // a View may take long
	}
	wait, cancel := context.WithTimeout(ctx, eraseEvery)
	defer cancel()
	err := db.erase(ctx, wait, e, clock.System(), false)
	if err == nil {
		db.logger.Info("an erasure that had begun is done", "lsn", e.LSN)
	}
	if errors.Is(err, fault.ErrBusy) {
		return nil // it is tried again
	}
	return err
}

// finishErasing completes a pending erasure before the database closes, since a short-lived program
// never reaches it in the background. It leaves an erasure that waits for an open View.
func (db *DB) finishErasing() {
	if db.readOnly || db.Failed() != nil {
		return
	}
	if err := db.goOnErasing(context.Background()); err != nil {
		db.logger.Warn("an erasure that had begun is not done; it goes on when the database is opened again", "error", err)
	}
}

// erase does what an erasure has left to do. wait bounds how long it waits for Views. told: the caller
// gets the report; otherwise it is kept.
func (db *DB) erase(ctx, wait context.Context, e *erasure, began time.Time, told bool) error {
	if !e.Rewriting {
		if err := db.eraseKeys(ctx, wait, e); err != nil {
			return fault.Within(doingErase, err)
		}
	}
	if err := db.eraseFiles(ctx, wait, e); err != nil {
		return fault.Within(doingErase, err)
	}
	err := db.applyBare(func(b *pebble.Batch) error {
		if !told {
			if err := db.keepReport(b, e, began); err != nil {
				return err
			}
		}
		return b.Delete(layout.ErasureKey, nil)
	})
	if err = cmp.Or(err, db.store.SyncLog(nil)); err != nil {
		return err
	}
	db.erasing.Store(nil)
	if db.logged != nil && db.logged.erased != nil {
		db.logged.erased()
	}
	return nil
}

// awaitReaders waits until nobody reads a state of before what was deleted last.
func (db *DB) awaitReaders(ctx, wait context.Context) error {
	lsn := db.syncer.Newest()
	if err := db.syncer.Wait(lsn); err != nil {
		return err
	}
	db.points.dropPast(lsn)
	return db.awaitEnds(ctx, wait, func() bool { return db.points.oldest() >= lsn })
}

// awaitEnds waits until enough Views have ended.
func (db *DB) awaitEnds(ctx, wait context.Context, enough func() bool) error {
	for {
		if err := db.points.expire(); err != nil {
			return err
		}
		if enough() {
			return nil
		}
		if sleep(wait, eraseLook); wait.Err() != nil {
			if errors.Is(ctx.Err(), context.Canceled) {
				return ctx.Err()
			}
			return readersError()
		}
	}
}

func readersError() error { return unendedError("a View is open that was begun before") }

// unendedError says that an erasure has begun and waits.
func unendedError(why string) error {
	return &fault.Error{
		Kind: fault.ErrBusy, What: doingErase, Why: why,
		Do: "wait for the reads that began before it; the erasure continues in the background; call it again for its report",
	}
}

// refuseErased refuses a write for an owner that is being erased.
func (db *DB) refuseErased(owner uint32) error {
	e := db.erasing.Load()
	if e == nil || e.seqs != nil || !e.owners[owner] {
		return nil
	}
	return &fault.Error{Kind: fault.ErrBusy, What: "write", Why: "its user or agent is being erased", Do: "try again when that is done"}
}

// outOfReach is what an erasure cannot reach.
func (db *DB) outOfReach() (kept []Kept) {
	if len(db.Archives()) > 0 {
		kept = append(kept, Kept{What: "the archive that this database is written to", Why: "its segments of before have it: begin a new archive, and remove the old one"})
	}
	return append(kept, Kept{What: "backups, archives and exports made before", Why: "the database does not know where they are: erase or remove them, too"})
}
