package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"

	"github.com/seed-7aedc3ff/memdb/internal/ageing"
	"github.com/seed-7aedc3ff/memdb/internal/analysis"
	"github.com/seed-7aedc3ff/memdb/internal/backups"
	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/ctxlock"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/fsys"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/lifecycle"
	"github.com/seed-7aedc3ff/memdb/internal/place"
	"github.com/seed-7aedc3ff/memdb/internal/records"
	"github.com/seed-7aedc3ff/memdb/internal/recovery"
	"github.com/seed-7aedc3ff/memdb/internal/replication"
	"github.com/seed-7aedc3ff/memdb/internal/spaces"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/internal/store"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/policy"
)

// Open opens the database in a folder, and creates it where the folder is missing
// or empty. nil options are the zero options.
//
// A database may also be one file. What is there decides: a folder is one; a regular file that
// begins or ends as memdb writes it is a database in one file, whatever its name, and so is
// each with a name that ends with [FileSuffix]. Where nothing is there, that suffix makes one
// file, and any other name a folder. A database in one file lives in RAM, and does all that one
// in a folder does: each commit is appended to the file before it is acknowledged, and now and then the
// whole file is replaced in one step. A file that is missing is an empty database, and is made by the
// first commit. While it is open, a file beside it is locked, with ".lock" at the end of its name; with
// ReadOnly it is not, and the last commit of a file is read that another program has open. A folder whose name
// ends with [FileSuffix] is opened only if it holds a database.
//
// It returns ErrLocked where the folder or the file is open already, ErrNotDatabase where it
// holds other files or is something else, ErrNewerLayout where a newer memdb wrote it,
// ErrMismatch where the options contradict it, ErrCorrupt where it is damaged, ErrFull for a
// file of more than Options.MaxFileBytes.
func Open(dir string, o *Options) (*DB, error) {
	if o == nil {
		o = &Options{}
	}
	fs, dir := fsys.Named(dir)
	return openEither(dir, o, &tuning{fs: fs})
}

// openEither opens a folder or a file.
func openEither(path string, o *Options, t *tuning) (*DB, error) {
	one, err := place.IsFile(t.fs, path)
	if err != nil {
		return nil, err
	}
	form := open
	if one {
		form = func(path string, o *Options, t *tuning) (*DB, error) { return openFile(t.fs, path, o, t) }
	}
	db, err := form(path, o, t)
	if err == nil {
		db.adoptKeys(t.fs, path, one, false)
	}
	return db, err
}

// OpenMemory makes a database that lives in memory, and ends when it is closed. It does all
// that one in a folder does. nil options are the zero options.
func OpenMemory(o *Options) (*DB, error) {
	if o == nil {
		o = &Options{}
	}
	db, err := open("memory", o, &tuning{fs: vfs.NewMem()})
	if err == nil {
		db.inMemory = true
	}
	return db, err
}

func open(dir string, o *Options, t *tuning) (*DB, error) {
	db, base := newDB(dir, o, t)
	if err := place.Look(base, dir); err != nil {
		return nil, err
	}
	if err := place.Refuse(base, dir); err != nil && !db.mayMend(err) {
		return nil, err
	}
	if !o.ReadOnly {
		if err := replication.Refuse(base, dir); err != nil {
			return nil, err
		}
	}
	if o.Schedule != nil {
		if err := o.Schedule.Check(); err != nil {
			return nil, fault.Within(place.Opening(dir), err)
		}
	}
	if err := db.ageing.SetHooks(o.Hooks, place.Opening(dir)); err != nil {
		return nil, err
	}
	if o.ReadOnly {
		if err := place.MustExist(base, dir); err != nil {
			return nil, err
		}
	} else if err := place.MakeDir(base, dir); err != nil {
		return nil, place.FullError(dir, err)
	}
	held, err := place.Lock(base, dir, db.clock(), o.ReadOnly)
	if err != nil {
		return nil, err
	}
	db.held = held
	if mode, wide := fsys.Wide(base, dir); wide {
		db.logger.Warn("others than its owner may enter the folder of the database: chmod 700", "folder", dir, "mode", mode.String())
	}
	if err := db.open(base, o); err != nil {
		if locked, is := errors.AsType[*fsys.LockedError](err); is {
			err = place.LockError(dir, locked)
		}
		return nil, errors.Join(place.FullError(dir, err), held.Close())
	}
	if err := db.stayInPlace(base, dir, fsys.LockName, store.LockName); err != nil {
		return nil, errors.Join(fault.Within(place.Opening(dir), err), db.Close())
	}
	return db, nil
}

func newDB(dir string, o *Options, t *tuning) (*DB, vfs.FS) {
	base := t.fs
	if base == nil {
		base = fsys.Disk
	}
	rules := policy.NewPart()
	db := &DB{
		dir: dir, config: newConfig(o, t), parts: append(newParts(rules), t.beside...),
		writer: writer{lock: make(chan struct{}, 1)}, turn: ctxlock.New(), moving: ctxlock.New(), due: due{rewritten: make(chan struct{}, 1), look: make(chan struct{}, 1)},
		chunks: chunks{busy: ctxlock.New(), sealed: map[uint16]bool{}, size: map[uint16]int{}, buried: map[uint16]int{}, emptied: map[uint16]bool{}},
	}
	db.tables.Names, db.tables.Fields = state.NewNames(), state.NewFields()
	db.ageing = ageing.New((*ageingHost)(db), ageing.Config{
		Logger: db.logger, Clock: db.clock, Jumped: db.steady.jumped,
		Trashed: func(lsn uint64, until int64) {
			db.due.newest.Store(lsn)
			db.due.trash.before(until)
		},
	})
	db.touched = records.NewTouches(&db.tables, db.now)
	db.tables.Ageing, db.tables.Columns = rules, t.columns
	db.points = newPoints(o.Retain, o.MaxViewAge, func() int64 { return db.now() })
	db.life = lifecycle.New(func(err error) { db.store.Fail(err) }, db.report)
	db.copier = backups.NewCopier((*backupHost)(db))
	db.archives = backups.NewArchives((*backupHost)(db), backups.Config{
		First: o.ArchiveFirst, Unsent: t.unsent, LastSend: t.lastArchive, Logger: db.logger, Work: db.life.Group(),
	})
	if t.logged != nil {
		t.logged.db = db
	}
	if db.store = t.frozen; db.store == nil {
		db.store = store.New(db.storeConfig(base, o, t))
	}
	db.tables.Damages, db.tables.Behind = db.store.Damages(), db.store.Behind
	db.opening.losses = recovery.NewLosses(db.tables.Damages, db.logger)
	db.scopes.Limit = db.scopesShare()
	db.spaces = db.newSpaces(t.vectors)
	db.scopes.Spaces = db.spaces
	db.uncached = t.uncached
	db.setEmbedder(o.Embedder)
	return db, base
}

// storeConfig is what the store of the database is opened with.
func (db *DB) storeConfig(base vfs.FS, o *Options, t *tuning) store.Config {
	c := store.Config{
		Dir: db.dir, Base: base, Log: db.logger, ReadOnly: db.readOnly, Budget: db.budget, Reserve: o.DiskReserve,
		Merger: db.merger(), Appended: appended, Resume: db.resume, Rewritten: db.ageing.Rewritten, ManifestBytes: t.manifestBytes,
		Salvage: o.Salvage, NumberKey: layout.NumberKey, TailBytes: tailBytes(o, t), File: t.file, MarkKey: layout.LogMarkKey,
	}
	if t.logged != nil {
		c.Sent, c.LogWait = t.logged, t.logged.wait
	}
	return c
}

// newConfig fills in what the options leave open.
func newConfig(o *Options, t *tuning) config {
	c := config{
		logger: o.Logger, clock: o.Clock, durability: o.Durability, dedup: o.Dedup, readOnly: o.ReadOnly, salvage: o.Salvage, strictAgents: o.StrictAgents,
		lockWait: o.LockWait, changesLag: cmp.Or(o.MaxChangesLag, changesHold), slowAfter: o.SlowAfter, budget: o.MemoryBudget, retain: o.Retain, extractor: newExtractor(o.Extractor),
		mends: t.mends, logged: t.logged, follows: t.follows, expiring: !t.keepsExpired, firstDoc: t.firstDoc, hotBytes: t.hotBytes, lookLeast: cmp.Or(t.lookLeast, lookLeast),
	}
	if c.logger == nil {
		c.logger = slog.New(slog.DiscardHandler)
	}
	if c.clock == nil {
		c.clock = clock.System
	}
	c.owns = o.Admit
	c.steady = newSteady(c.clock, t.passed, c.logger)
	if c.budget == 0 {
		c.budget = defaultBudget()
	}
	if c.hotBytes == 0 {
		c.hotBytes = min(max(c.budget/16, minHotBytes), maxHotBytes)
	}
	return c
}

// open does all of Open that the folder's lock protects.
func (db *DB) open(base vfs.FS, o *Options) error {
	id, err := db.identify(base, o)
	if err != nil {
		return err
	}
	if err := refuseLogged(id, db.dir, o.ReadOnly, db.logged); err != nil {
		return err
	}
	if err := db.become(id, o); err != nil {
		return err
	}
	timeline, err := id.TimelineIn(base, db.dir)
	if err != nil {
		return err
	}
	if err := db.store.Open(id.Created, timeline); err != nil {
		return err
	}
	return db.launch(id, o)
}

// become sets up what depends on the identity alone.
func (db *DB) become(id *place.Identity, o *Options) error {
	keys, err := layout.NewKeys(id.HashSeed, db.partKinds()...)
	if err != nil {
		return &fault.Error{Kind: fault.ErrFailed, What: place.Opening(db.dir), Cause: err}
	}
	db.tables.NewestKeys.Store(keys)
	if db.id, err = uuid.Parse(id.Settings.ID); err != nil {
		return &fault.Error{Kind: fault.ErrCorrupt, What: place.Opening(db.dir), Why: place.Name + " holds no ID", Cause: err, Do: place.WayOn}
	}
	return db.configure(id, o)
}

// launch loads from the store, which is open, and closes it where that fails.
func (db *DB) launch(id *place.Identity, o *Options) error {
	begin := db.beginArchive
	if db.logged != nil {
		begin = func(_ *Options, fresh bool) error { return db.beginLog(fresh) }
	}
	err := begin(o, !id.Created)
	if err == nil {
		err = db.start(id, o)
	}
	if err != nil {
		db.logged.end()
		db.spaces.StopLoading()
		return errors.Join(err, db.points.close(), db.spaces.CloseFiles(), db.store.Close())
	}
	return nil
}

// mayMend reports whether Salvage may mend what opening meets.
func (db *DB) mayMend(err error) bool {
	return db.salvage && !db.readOnly && errors.Is(err, fault.ErrCorrupt)
}

// identify reads what the folder says of the database, creates one in a folder without, and
// restores what is damaged if Salvage may.
func (db *DB) identify(base vfs.FS, o *Options) (*place.Identity, error) {
	id, err := place.Read(base, db.dir)
	if id == nil && err == nil {
		if err = place.Refuse(base, db.dir); err == nil {
			return db.create(base, o)
		}
	}
	if err != nil && db.mayMend(err) {
		return db.restoreIdentity(base)
	}
	return id, err
}

// create marks the folder as that of a new database.
func (db *DB) create(base vfs.FS, o *Options) (*place.Identity, error) {
	id, err := place.New(o.Language, o.IndexedText, db.clock())
	if err != nil {
		return nil, err
	}
	id.Logged = db.logged != nil
	if err := db.configure(id, o); err != nil {
		return nil, err // before anything is written
	}
	id.Settings.Analyzer = db.tables.Words.Analyzer.Load().Fingerprint()
	id.Settings.LexicalModel = db.spaces.Lexical.Model.Model()
	if err := id.Write(base, db.dir); err != nil {
		return nil, fault.Within("create "+db.dir, err)
	}
	return id, nil
}

// configure sets up what the text is analysed with.
func (db *DB) configure(id *place.Identity, o *Options) (err error) {
	// What is stored was once valid.
	damaged := func(what string, err error) error {
		return &fault.Error{
			Kind: fault.ErrCorrupt, What: place.Opening(db.dir), Why: place.Name + " is damaged: its " + what + " cannot be", Cause: err,
			Do: place.WayOn,
		}
	}
	language := cmp.Or(o.Language, id.Settings.Language)
	analyzer, err := analysis.New(analysis.Config{Language: language, Index: id.Settings.Analyzer})
	if err != nil {
		if o.Language == "" {
			return damaged("language", err)
		}
		return fault.Invalid(place.Opening(db.dir), err.Error(), "choose one of them")
	}
	db.tables.Words.Analyzer.Store(analyzer)
	db.english = o.Language == analysis.English
	indexed := id.Settings.IndexedText
	if o.IndexedText != nil {
		indexed = o.IndexedText
	}
	if db.tables.Words.Indexed, db.tables.Words.Unit, err = state.TextFields(indexed); err != nil {
		if o.IndexedText == nil {
			// Whatever kind of error it is for a caller's setting, here the file is damaged.
			return damaged("indexed text", errors.New(err.Error()))
		}
		return err
	}
	db.spaces.Lexical, err = spaces.NewLexical()
	return err
}

// start loads the state and begins the background work.
func (db *DB) start(id *place.Identity, o *Options) error {
	if err := db.load(); err != nil {
		return err
	}
	if err := cmp.Or(db.proveLSN(), db.beginTime()); err != nil {
		return err
	}
	changed, err := id.Adopt(db.dir, o.Language, o.IndexedText, db.writer.next.Seq == 0)
	if err != nil {
		return err
	}
	if !id.Created {
		id.Created, changed = true, true
	}
	if id.Layout < place.Layout { // what an older one wrote is read as it is
		id.Layout, id.Settings.Layout, changed = place.Layout, place.Layout, true
	}
	fingerprint := db.tables.Words.Analyzer.Load().Fingerprint()
	if id.Settings.Analyzer != fingerprint && db.writer.next.Seq == 0 {
		id.Settings.Analyzer, changed = fingerprint, true
	}
	if id.Settings.Analyzer != fingerprint {
		db.logger.Warn("the text was indexed by another version of the analyzer; words that it splits in another way are not found until the index is rebuilt: memdbctl rebuild text",
			"indexed", id.Settings.Analyzer, "now", fingerprint)
	}
	if db.embedder == nil && o.EmbedderOf != nil {
		db.setEmbedder(o.EmbedderOf(db.VectorModel()))
	}
	if err := db.checkModel(); err != nil {
		return err
	}
	if err := db.adopted(id, changed); err != nil {
		return err
	}
	db.setIdentity(id)
	db.opening.lsn = db.writer.applied
	db.syncer = store.NewSyncer(db.writer.applied, db.points.publish, db.syncLog)
	if err := db.points.publish(db.newPoint(db.writer.applied)); err != nil {
		return err
	}
	db.tables.Docs.Link(db.writer.next.Seq, db.points.oldest)
	db.backlog = newBacklog(db.writer.next.Seq)
	if !db.readOnly {
		o := recovery.Opened{Losses: db.opening.losses, Ranges: db.janitor.ranges, Applied: db.writer.applied, Seq: db.writer.next.Seq, Stats: db.loadStats}
		if err := o.Recover(context.Background(), (*recoveryHost)(db)); err != nil {
			return err
		}
		if err := db.opening.losses.Without("notes without a number", db.numberNotes(context.Background())); err != nil {
			return fault.Within(place.Opening(db.dir), err)
		}
	}
	if db.logged != nil {
		if err := db.store.SyncLog(nil); err != nil { // what opening has written
			return err
		}
	}
	db.life.Go("links vectors", db.spaces.Linker.Run)
	if !db.readOnly {
		db.startWriting(o)
	}
	return nil
}

// adopted writes what a database is now, where that has changed.
func (db *DB) adopted(id *place.Identity, changed bool) error {
	if db.readOnly {
		return nil
	}
	if err := db.Failed(); err != nil {
		return err
	}
	keep := db.copyIdentity
	if changed {
		keep = db.keepIdentity
	}
	return fault.Within(place.Opening(db.dir), keep(id))
}

// proveLSN holds the newest commit against the mark beside the store. The files of the store
// fit the mark, as Open has proven: this is what they hold.
func (db *DB) proveLSN() error {
	marked := db.store.MarkedLSN()
	if db.writer.applied >= marked {
		return nil
	}
	damage := errors.New(recovery.MissingCommits(db.writer.applied, marked))
	if !db.salvage || db.readOnly {
		return &fault.Error{Kind: fault.ErrCorrupt, What: place.Opening(db.dir), Cause: damage, Do: store.WayOn}
	}
	db.opening.mended = append(db.opening.mended, damage.Error())
	return db.store.GoBackTo(db.writer.applied)
}

// appended are the large kinds of which new keys come last, in the order of keys.
var appended = []byte{layout.KindForward, layout.KindRecord, layout.KindText, layout.KindVector}

// resume looks for the background work that a full disk has put off.
func (db *DB) resume() {
	db.janitor.wake()
	db.spaces.Linker.Wake()
}

// startWriting begins the background work of a database that is not only read.
func (db *DB) startWriting(o *Options) {
	db.archives.Start()
	db.janitor.start()
	db.janitor.wake()
	snap := db.store.NewSnapshot() // before anything is written
	db.life.Go("reads the keys of memories", func(ctx context.Context) {
		if err := db.writer.seen.Fill(ctx, snap, db.keys()); err != nil && ctx.Err() == nil {
			db.logger.Warn("every store will look for a duplicate in the store", "error", err)
		}
	})
	db.life.Every("writes access counts", touchEvery, db.touched.Full(), db.FlushTouches)
	db.life.Every("marks the logs", markEvery, nil, func(context.Context) error {
		db.reached()
		return db.store.MarkLogs()
	})
	db.life.Every("erases", eraseEvery, lifecycle.AtOnce(), db.goOnErasing)
	if db.expiring {
		db.ageing.StartExpiring(db.life)
	}
	db.startParts()
	if db.logged != nil {
		db.startLog()
	}
	if db.ageing.Observed() {
		db.life.Go("tells of evictions", db.ageing.RunObserver)
	}
	if o.KeepCaps {
		db.ageing.StartCaps(db.life)
	}
	if o.EvictOnCompaction {
		db.ageing.StartSweeping(db.life)
	}
	var forgot time.Time
	db.life.Every("forgets", forgetEvery, nil, func(ctx context.Context) error { return db.forget(ctx, &forgot) })
	var dead deadness
	db.life.Every("compacts", compactEvery, db.due.rewritten, func(ctx context.Context) error { return db.compactDead(ctx, &dead) })
	db.due.tellTrash()
	db.life.Every("empties the trash", trashEvery, db.due.look, db.emptyTrash)
	if o.Schedule != nil {
		s := *o.Schedule
		// At once, too: many a program is never open for as long as that.
		db.life.Every("evicts and consolidates", ageing.ScheduleEvery, lifecycle.AtOnce(), func(ctx context.Context) error { return db.ageing.KeepSchedule(ctx, s) })
	}
	if o.EmbedInBackground && db.embedder != nil {
		db.life.Every("embeds memories", embedEvery, nil, db.embedBehind)
	}
	if db.durability == Buffered {
		db.life.Every("syncs", bufferedSync, nil, func(context.Context) error {
			return db.syncer.Wait(db.syncer.Newest())
		})
	}
}

// markEvery is how often it is written down how much of the log is on disk: damage that
// takes what was acknowledged longer ago is noticed.
const markEvery = time.Second

// changesHold is Options.MaxChangesLag where that is not given.
const changesHold = time.Hour

// bufferedSync is how often a Buffered database syncs: what a crash may lose.
const bufferedSync = 100 * time.Millisecond

// checkModel refuses an embedder whose vectors are not comparable with those that
// are stored.
func (db *DB) checkModel() error {
	s := db.spaces.Named(memory.DefaultSpace)
	if db.embedder == nil || s == nil {
		return nil
	}
	if s.Dim != db.embedder.Dim() {
		return &fault.Error{
			Kind: fault.ErrMismatch, What: place.Opening(db.dir),
			Why: fmt.Sprintf("its vectors have %d dimensions, those of %s have %d", s.Dim, db.embedder.Model(), db.embedder.Dim()),
			Do:  "use the embedder that made them, or make vectors anew with Reembed",
		}
	}
	if s.Model != "" && s.Model != db.embedder.Model() {
		return &fault.Error{
			Kind: fault.ErrMismatch, What: place.Opening(db.dir),
			Why: fmt.Sprintf("its vectors were made by %s, not by %s", s.Model, db.embedder.Model()), Do: "use the embedder that made them, or make vectors anew with Reembed",
		}
	}
	return nil
}
