package engine

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"

	"github.com/seed-7aedc3ff/memdb/embed"
	"github.com/seed-7aedc3ff/memdb/hnsw"
	"github.com/seed-7aedc3ff/memdb/internal/analysis"
	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/doctable"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/fsys"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"

	"github.com/seed-7aedc3ff/memdb/internal/store"
)

// Open opens the database in a folder, and creates it where the folder is missing
// or empty. nil options are the zero options.
//
// It returns ErrLocked where the folder is open already, ErrNotDatabase where it
// holds other files, ErrNewerLayout where a newer memdb wrote it, ErrMismatch
// where the options contradict it, ErrCorrupt where it is damaged.
func Open(dir string, o *Options) (*DB, error) {
	if o == nil {
		o = &Options{}
	}
	db, base := newDB(dir, o)
	if err := refuse(base, dir); err != nil {
		return nil, err
	}
	if o.ReadOnly {
		if err := mustExist(base, dir); err != nil {
			return nil, err
		}
	} else if err := makeDir(base, dir); err != nil {
		return nil, fullError(dir, err)
	}
	held, err := fsys.LockDir(base, dir, holder(db.clock()))
	if err != nil {
		return nil, lockError(dir, err)
	}
	db.held = held
	if err := db.open(base, o); err != nil {
		return nil, errors.Join(fullError(dir, err), held.Close())
	}
	return db, nil
}

// mustExist refuses a folder without a database.
func mustExist(base vfs.FS, dir string) error {
	id, err := readIdentity(base, dir)
	if id == nil && err == nil {
		err = &fault.Error{Kind: fault.ErrNotDatabase, What: doingOpen(dir), Why: "there is no database in this folder", Do: "open it without ReadOnly, which makes one"}
	}
	return err
}

func newDB(dir string, o *Options) (*DB, vfs.FS) {
	base := o.FS
	if base == nil {
		base = vfs.Default
	}
	db := &DB{
		dir: dir, parts: append(newParts(), o.beside...), log: o.Logger, clock: o.Clock,
		durability: o.Durability, dedup: o.Dedup, readOnly: o.ReadOnly, lockWait: o.LockWait, embedder: o.Embedder,
		budget: o.MemoryBudget, hotBytes: o.hotBytes, lookLeast: o.lookLeast, columns: o.columns, spaces: newSpaces(), names: newNames(),
		fields: &fields{num: map[string]uint32{}}, touched: newTouches(),
		writer: make(chan struct{}, 1), sealed: map[uint16]bool{}, buried: map[uint16]int{}, emptied: map[uint16]bool{}, retain: o.Retain,
	}
	db.points = newPoints(o.Retain, func() int64 { return db.now() })
	db.gate.idle.L = &db.gate.mu
	db.limits = defaultVectorLimits()
	if o.vectorLimits != nil {
		db.limits = *o.vectorLimits
	}
	db.linker = newLinker(db)
	if db.log == nil {
		db.log = slog.New(slog.DiscardHandler)
	}
	if db.clock == nil {
		db.clock = clock.System
	}
	if db.budget == 0 {
		db.budget = defaultBudget()
	}
	db.store = store.New(store.Config{
		Dir: dir, Base: base, Log: db.log, ReadOnly: db.readOnly, Budget: db.budget, Reserve: o.DiskReserve,
		Merger: db.merger(), Appended: appended, Resume: db.resume, ManifestBytes: o.manifestBytes,
	})
	db.scopes.limit, db.rows = db.scopesShare(), hnsw.NewRowBudget(db.rowsShare())
	if _, lexical := db.embedder.(*embed.Lexical); db.embedder != nil && !lexical && !o.uncached {
		db.embedder = embed.NewCache(db.embedder, 0, db.embeddingShare())
	}
	if db.hotBytes == 0 {
		db.hotBytes = min(max(db.budget/16, minHotBytes), maxHotBytes)
	}
	if db.lookLeast == 0 {
		db.lookLeast = lookLeast
	}
	return db, base
}

func lockError(dir string, err error) error {
	if locked, ok := errors.AsType[*fsys.LockedError](err); ok {
		return &fault.Error{
			Kind: fault.ErrLocked, What: doingOpen(dir), Why: locked.Error(),
			Do: "close it there, or wait", Cause: nil,
		}
	}
	return fmt.Errorf("%s: %w", doingOpen(dir), err)
}

// open does all of Open that the folder's lock protects.
func (db *DB) open(base vfs.FS, o *Options) error {
	id, err := readIdentity(base, db.dir)
	if err != nil {
		return err
	}
	if id == nil {
		if err := refuse(base, db.dir); err != nil {
			return err
		}
		if id, err = db.create(base, o); err != nil {
			return err
		}
	}
	keys, err := layout.NewKeys(id.HashSeed, db.partKinds()...)
	if err != nil {
		return &fault.Error{Kind: fault.ErrFailed, What: doingOpen(db.dir), Cause: err}
	}
	db.newestKeys.Store(keys)
	if db.id, err = uuid.Parse(id.Settings.ID); err != nil {
		return &fault.Error{Kind: fault.ErrCorrupt, What: doingOpen(db.dir), Why: identityName + " holds no ID", Cause: err}
	}
	if err := db.configure(id, o); err != nil {
		return err
	}
	if err := db.store.Open(id.Created); err != nil {
		return err
	}
	if err := db.start(base, id, o); err != nil {
		db.loading.stop()
		return errors.Join(err, db.points.close(), db.closeCodes(), db.store.Close())
	}
	return nil
}

// create marks the folder as that of a new database.
func (db *DB) create(base vfs.FS, o *Options) (*identity, error) {
	id, err := newIdentity(o, db.clock())
	if err != nil {
		return nil, err
	}
	if err := db.configure(id, o); err != nil {
		return nil, err // before anything is written
	}
	id.Settings.Analyzer = db.analyzer.Fingerprint()
	id.Settings.LexicalModel = db.lexical.model.Model()
	if err := id.write(base, db.dir); err != nil {
		return nil, fmt.Errorf("create %s: %w", db.dir, err)
	}
	return id, nil
}

// configure sets up what the text is analysed with.
func (db *DB) configure(id *identity, o *Options) (err error) {
	// What is stored was once valid.
	damaged := func(what string, err error) error {
		return &fault.Error{
			Kind: fault.ErrCorrupt, What: doingOpen(db.dir), Why: identityName + " is damaged: its " + what + " cannot be", Cause: err,
			Do: "restore that file from a backup of the folder",
		}
	}
	language := cmp.Or(o.Language, id.Settings.Language)
	if db.analyzer, err = analysis.New(analysis.Config{Language: language}); err != nil {
		if o.Language == "" {
			return damaged("language", err)
		}
		return fault.Invalid(doingOpen(db.dir), err.Error(), "choose one of them")
	}
	indexed := id.Settings.IndexedText
	if o.IndexedText != nil {
		indexed = o.IndexedText
	}
	if db.indexedText, db.textUnit, err = textFields(indexed); err != nil {
		if o.IndexedText == nil {
			// Whatever kind of error it is for a caller's setting, here the file is damaged.
			return damaged("indexed text", errors.New(err.Error()))
		}
		return err
	}
	db.lexical, err = newLexical()
	return err
}

// start loads the state and begins the background work.
func (db *DB) start(base vfs.FS, id *identity, o *Options) error {
	if err := db.load(); err != nil {
		return err
	}
	changed, err := id.adopt(db.dir, o, db.next.Doc == 0)
	if err != nil {
		return err
	}
	if !id.Created {
		id.Created, changed = true, true
	}
	if id.Layout < layoutVersion { // what an older one wrote is read as it is
		id.Layout, id.Settings.Layout, changed = layoutVersion, layoutVersion, true
	}
	fingerprint := db.analyzer.Fingerprint()
	if id.Settings.Analyzer != fingerprint && db.next.Doc == 0 {
		id.Settings.Analyzer, changed = fingerprint, true
	}
	if id.Settings.Analyzer != fingerprint {
		db.log.Warn("the text was indexed by another version of the analyzer; words that it splits in another way are not found until the index is rebuilt: memdbctl rebuild text",
			"indexed", id.Settings.Analyzer, "now", fingerprint)
	}
	if err := db.checkModel(); err != nil {
		return err
	}
	if changed && !db.readOnly {
		if err := id.write(base, db.dir); err != nil {
			return fmt.Errorf("%s: %w", doingOpen(db.dir), err)
		}
	}
	db.identity = id
	db.settings.Store(&id.Settings)
	db.syncer = store.NewSyncer(db.applied, db.points.publish, db.store.SyncLog)
	if err := db.points.publish(db.newPoint(db.applied)); err != nil {
		return err
	}
	db.docs.Link(db.next.Seq, db.points.oldest)
	ctx, cancel := context.WithCancel(context.Background())
	db.stopped = cancel
	db.work.Go(func() { db.linker.run(ctx) })
	if !db.readOnly {
		db.startWriting(ctx)
	}
	return nil
}

// appended are the large kinds of which new keys come last, in the order of keys.
var appended = []byte{layout.KindForward, layout.KindRecord, layout.KindText, layout.KindVector}

// resume looks for the background work that a full disk has put off.
func (db *DB) resume() {
	db.janitor.wake()
	db.linker.wake()
}

// startWriting begins the background work of a database that is not only read.
func (db *DB) startWriting(ctx context.Context) {
	db.janitor.start()
	db.janitor.wake()
	snap := db.store.NewSnapshot() // before anything is written
	db.work.Go(func() {
		if err := db.fillWritten(ctx, snap); err != nil && ctx.Err() == nil {
			db.log.Warn("every store will look for a duplicate in the store", "error", err)
		}
	})
	db.background(ctx, touchEvery, db.touched.full, db.FlushTouches)
	db.startParts(ctx)
	if db.durability == Buffered {
		db.background(ctx, bufferedSync, nil, func(context.Context) error {
			return db.syncer.Wait(db.syncer.Newest())
		})
	}
}

// bufferedSync is how often a Buffered database syncs: what a crash may lose.
const bufferedSync = 100 * time.Millisecond

// checkModel refuses an embedder whose vectors are not comparable with those that
// are stored.
func (db *DB) checkModel() error {
	s := db.spaces.named(defaultSpace)
	if db.embedder == nil || s == nil {
		return nil
	}
	if s.dim != db.embedder.Dim() {
		return &fault.Error{
			Kind: fault.ErrMismatch, What: doingOpen(db.dir),
			Why: fmt.Sprintf("its vectors have %d dimensions, those of %s have %d", s.dim, db.embedder.Model(), db.embedder.Dim()),
			Do:  "use the embedder that made them",
		}
	}
	if s.model != "" && s.model != db.embedder.Model() {
		return &fault.Error{
			Kind: fault.ErrMismatch, What: doingOpen(db.dir),
			Why: fmt.Sprintf("its vectors were made by %s, not by %s", s.model, db.embedder.Model()), Do: "use the embedder that made them",
		}
	}
	return nil
}

// load reads the state from the store into the tables and indexes.
func (db *DB) load() error {
	db.janitor = newJanitor(db)
	for _, step := range []struct {
		what string
		run  func() error
	}{
		{"the generations", db.loadGenerations},
		{"the log", db.loadLog},
		{"the names", db.loadNames},
		{"the documents", db.loadDocs},
		{"the text index", db.mendText},
		{"the vectors", db.loadVectors},
		{"the access statistics", db.loadStats},
		{"the death ranges", db.loadRanges},
		{"the parts", db.loadParts},
		{"what a rebuild left behind", db.dropOldGenerations},
		{"what a move left behind", db.dropStrayPages},
	} {
		if err := step.run(); err != nil {
			return fmt.Errorf("%s: load %s: %w", doingOpen(db.dir), step.what, store.Error("read the store", err))
		}
	}
	return db.Failed()
}

// loadLog finds the newest commit, which tells what numbers were given out.
func (db *DB) loadLog() (err error) {
	lower, upper := db.keys().Span(layout.KindLog)
	it, err := db.store.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	if !it.Last() {
		return it.Error()
	}
	lsn, ok := layout.ParseLSNKey(it.Key())
	if !ok {
		return layout.BadKey("log", it.Key())
	}
	value, err := it.ValueAndErr()
	if err != nil {
		return err
	}
	db.applied = lsn
	db.next, err = layout.DecodeLogHead(value)
	return err
}

// loadNames reads the fields and the spaces; the other names are looked up as
// they are needed.
func (db *DB) loadNames() error {
	if err := db.checkSeed(); err != nil {
		return err
	}
	for _, class := range []layout.NameClass{layout.NameField, layout.NameSpace} {
		prefix := append(db.keys().Header(layout.KindName, 1), byte(class))
		err := kv.Scan(db.store, prefix, layout.PrefixEnd(prefix), func(_, value []byte) error {
			num, name, extra, err := layout.DecodeName(value)
			if err != nil {
				return err
			}
			if class == layout.NameField {
				db.fields.add(name, num)
				return nil
			}
			s, err := db.decodeSpace(num, name, extra)
			if err != nil {
				return err
			}
			db.spaces.add(s)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// checkSeed compares a name with the key that it lies under. With the hash seed of
// another database no name and no ID would be found, and this one would seem
// empty.
func (db *DB) checkSeed() error {
	lower, upper := db.keys().Span(layout.KindName)
	err := kv.Scan(db.store, lower, upper, func(key, value []byte) error {
		_, name, _, err := layout.DecodeName(value)
		if err != nil {
			return err
		}
		if len(key) <= layout.KeyHeader || !bytes.Equal(key, db.keys().Name(layout.NameClass(key[layout.KeyHeader]), name)) {
			return &fault.Error{
				Kind: fault.ErrCorrupt, What: "compare the hash seed", Why: identityName + " is not that of this store",
				Do: "restore that file from a backup of the folder",
			}
		}
		return kv.ErrStop
	})
	if errors.Is(err, kv.ErrStop) {
		return nil
	}
	return err
}

// loadDocs rebuilds the document table and the text index from the forward
// records. What is dead is left to the janitor.
func (db *DB) loadDocs() error {
	db.beginVectors() // it reads beside this, since the spaces are known
	tombs, err := db.loadTombstones()
	if err != nil {
		return err
	}
	prefix, _ := db.keys().Span(layout.KindText)
	db.text.Store(db.newText(prefix))
	if err := db.loadSealed(tombs.covers); err != nil {
		return err
	}
	lower, upper := db.keys().Span(layout.KindForward)
	err = kv.Scan(db.store, lower, upper, func(key, value []byte) error {
		doc, ok := layout.ParseDocKey(key)
		if !ok {
			return layout.BadKey("forward", key)
		}
		if tombs.all.Contains(doc) {
			f, _, err := layout.DecodeRow(value)
			if err == nil {
				tombs.covers(doc, f.Version)
			}
			return err
		}
		return db.loadDoc(doc, value)
	})
	db.leaveToJanitor(tombs)
	// A chunk may have been closed by a transaction that did not commit, and
	// sealed: it takes no documents all the same.
	for chunk := range db.sealed {
		db.next.Doc = max(db.next.Doc, (uint32(chunk)+1)<<16)
	}
	return err
}

// tombstones are those that Open finds.
type tombstones struct {
	all  *roaring.Bitmap
	left map[uint32]*dead // those whose vectors are still to be removed
}

func (db *DB) loadTombstones() (*tombstones, error) {
	t := &tombstones{all: roaring.New(), left: map[uint32]*dead{}}
	lower, upper := db.keys().Span(layout.KindTombstone)
	err := kv.Scan(db.store, lower, upper, func(key, value []byte) error {
		doc, ok := layout.ParseDocKey(key)
		if !ok {
			return layout.BadKey("tombstone", key)
		}
		lsn, cleared, err := layout.DecodeTombstone(value)
		if !cleared {
			t.left[doc] = &dead{doc: doc, lsn: lsn}
		}
		t.all.Add(doc)
		return err
	})
	return t, err
}

// covers tells whether a document has a tombstone, and notes its version.
func (t *tombstones) covers(doc uint32, v layout.Version) bool {
	if d := t.left[doc]; d != nil {
		d.of = v
	}
	return t.all.Contains(doc)
}

// leaveToJanitor gives it what is to be reclaimed. Tombstones of sealed chunks stay for
// as long as the chunk does.
func (db *DB) leaveToJanitor(t *tombstones) {
	for it := t.all.Iterator(); it.HasNext(); {
		doc := it.Next()
		sealed := db.sealed[layout.ChunkOf(doc)]
		if sealed {
			db.buried[layout.ChunkOf(doc)]++
		}
		if d := t.left[doc]; d != nil {
			db.janitor.dead = append(db.janitor.dead, *d)
		} else if sealed {
			db.janitor.graves++
		}
	}
	db.janitor.sort()
}

func (db *DB) loadDoc(doc uint32, value []byte) error {
	f, err := decodeForward(value)
	if err != nil {
		return fmt.Errorf("document %d: %w", doc, err)
	}
	if err := db.loadRow(doc, &f.Row); err != nil {
		return err
	}
	if db.damaged != nil {
		return nil // the index is built anew
	}
	return db.text.Load().Add(doc, &f.idx)
}

// loadRow enters a document into the tables.
func (db *DB) loadRow(doc uint32, f *layout.Row) error {
	if doc >= db.next.Doc || f.Seq == 0 || f.Seq > db.next.Seq {
		return &fault.Error{Kind: fault.ErrCorrupt, What: fmt.Sprintf("load document %d", doc), Why: "the log never gave out its numbers"}
	}
	db.docs.Add(doc, func(r *doctable.Row) {
		r.Version, r.Run = f.Version, f.Run
		r.Created, r.Expires = f.Created, f.Expires
		r.Importance, r.Confidence = f.Importance, f.Confidence
	})
	db.loading.want(doc, &f.Version, f.Vectors)
	return nil
}

func (db *DB) loadStats() error {
	lower, upper := db.keys().Span(layout.KindStats)
	return kv.Scan(db.store, lower, upper, func(key, value []byte) error {
		_, seq, ok := layout.ParseStatsKey(key)
		if !ok {
			return layout.BadKey("statistics", key)
		}
		a, err := layout.DecodeAccess(value)
		if err != nil {
			return err
		}
		if s := db.docs.Seq(seq); s != nil {
			s.Count.Store(a.Count)
			s.Accessed.Store(a.Last)
		}
		return nil
	})
}

// loadRanges puts unfinished death ranges in force again.
func (db *DB) loadRanges() error {
	tx := &Tx{db: db, reader: db.store, keys: db.keys(), lsn: maxLSN, index: db.text.Load(), text: db.newestText()}
	lower, upper := db.keys().Span(layout.KindRange)
	return kv.Scan(db.store, lower, upper, func(key, value []byte) error {
		d, err := layout.DecodeRange(db.keys(), key, value)
		if err != nil {
			return err
		}
		set := d.Docs
		if !d.Listed {
			if set, _, err = tx.bornInScope(d.Scope); err != nil {
				return err
			}
		}
		d.Docs = roaring.New()
		it := set.Iterator()
		for it.HasNext() {
			doc := it.Next()
			if row := db.docs.Row(doc); row.Visible(maxLSN) && (d.Listed || d.Before(row.Version)) {
				d.Docs.Add(doc)
				db.docs.Kill(doc, d.LSN)
			}
		}
		db.janitor.ranges = append(db.janitor.ranges, d)
		return nil
	})
}
