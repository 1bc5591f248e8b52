package engine

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/seed-7aedc3ff/memdb/internal/doctable"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/place"
	"github.com/seed-7aedc3ff/memdb/internal/records"
	"github.com/seed-7aedc3ff/memdb/internal/recovery"
	"github.com/seed-7aedc3ff/memdb/internal/selection"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/internal/store"
)

// load reads the state from the store into the tables and indexes.
func (db *DB) load() error {
	db.janitor = newJanitor(db)
	for _, step := range []struct {
		what string
		run  func() error
	}{
		{"the generations", func() error { return db.opening.losses.LoadGenerations(db.store, db.keys(), db.readOnly) }},
		{"the log", db.loadLog},
		{"the names", db.loadNames},
		{"the spaces without a name", func() error {
			return db.opening.losses.DeriveSpaces((&Tx{db: db, state: db.stateOf(db.store, 0)}).recovering())
		}},
		{"the documents", db.loadDocs},
		{"the text index", db.mendText},
		{"the vectors", db.spaces.Load},
		{"what the vectors have shown", db.loadTrust},
		{"the access statistics", db.loadStats},
		{"the death ranges", db.loadRanges},
		{"the parts", db.loadParts},
		{"an erasure that has begun", db.loadErasure},
		{"what a rebuild left behind", func() error { return db.opening.losses.Without("what a rebuild left behind", db.dropOldGenerations()) }},
		{"what a move left behind", func() error { return db.opening.losses.Without("what a move left behind", db.dropStrayPages()) }},
	} {
		if err := step.run(); err != nil {
			return fault.Within(fmt.Sprintf("%s: load %s", place.Opening(db.dir), step.what), store.Error("read the store", err))
		}
	}
	return db.Failed()
}

// loadLog finds the newest commit, which tells what numbers were given out.
func (db *DB) loadLog() (err error) {
	if db.mends { // the newest record that is there need not be the newest that was
		return db.deriveLog()
	}
	lower, upper := db.keys().Span(layout.KindLog)
	it, err := db.store.Iter(lower, upper)
	if err != nil {
		return err
	}
	last, err := lastLogRecord(it)
	if err = errors.Join(err, it.Close()); store.Unreadable(err) {
		db.opening.losses.Lost("the newest record of the log", err)
		return db.deriveLog()
	}
	if err != nil || last == nil {
		db.writer.next.Doc = db.firstDoc
		return err
	}
	db.writer.applied, db.writer.next = last.LSN, last.Next
	return nil
}

// deriveLog finds what numbers were given out from what has them.
func (db *DB) deriveLog() error {
	end := recovery.Log{Next: layout.Counters{Doc: db.firstDoc}}
	err := end.DeriveLog(MaxMemories, func(kind byte, visit func(key, value []byte) error) error {
		lower, upper := db.keys().Span(kind)
		return db.loadKeys("something that tells which numbers were given out", lower, upper, visit)
	})
	db.writer.applied, db.writer.next = end.LSN, end.Next
	return err
}

// lastLogRecord reads the last record of the log, nil where there is none.
func lastLogRecord(it kv.Iterator) (*recovery.Log, error) {
	if !it.Last() {
		return nil, it.Error()
	}
	value, err := it.ValueAndErr()
	if err != nil {
		return nil, err
	}
	return decodeLogEnd(it.Key(), value)
}

func decodeLogEnd(key, value []byte) (*recovery.Log, error) {
	lsn, ok := layout.ParseLSNKey(key)
	if !ok {
		return nil, layout.BadKey("log", key)
	}
	next, err := layout.DecodeLogHead(value)
	if err == nil && next.Doc > MaxMemories {
		err = &fault.Error{Kind: fault.ErrCorrupt, What: "read the log", Why: "its next document number is beyond the last", Do: store.Rescue}
	}
	return &recovery.Log{LSN: lsn, Next: next}, err
}

// loadNames reads the fields and the spaces; the other names are looked up as
// they are needed.
func (db *DB) loadNames() error {
	if err := db.checkSeed(); err != nil {
		return err
	}
	db.tables.Fields.Gave(db.writer.next.Names[layout.NameField])
	for _, class := range []layout.NameClass{layout.NameField, layout.NameSpace} {
		prefix := append(db.keys().Header(layout.KindName, 1), byte(class))
		err := db.loadKeys("a name of a field or a vector space", prefix, layout.PrefixEnd(prefix), func(key, value []byte) error {
			num, name, extra, err := layout.DecodeName(key, value)
			if err != nil {
				return err
			}
			if !bytes.Equal(key, db.keys().Name(class, name)) {
				return misnamed(name)
			}
			if class == layout.NameField {
				db.tables.Fields.Add(name, num)
				return nil
			}
			s, err := db.spaces.Decode(num, name, extra)
			if err != nil {
				return err
			}
			db.spaces.Add(s)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// misnamed is the error of a name that lies under the key of another.
func misnamed(name string) error {
	return &fault.Error{Kind: fault.ErrCorrupt, What: fmt.Sprintf("read the name %q", name), Why: "it lies under a key that is not its own", Do: store.Rescue}
}

// loadKeys visits keys, and goes on without what cannot be read.
func (db *DB) loadKeys(what string, lower, upper []byte, visit func(key, value []byte) error) error {
	tx := &Tx{db: db, state: db.stateOf(db.store, 0)}
	tx.state.Lose = func(err error) { db.opening.losses.Lost(what, err) }
	return tx.state.Scan(lower, upper, visit)
}

// checkSeed compares a name with the key that it lies under. With the hash seed of
// another database no name and no ID would be found, and this one would seem
// empty.
func (db *DB) checkSeed() error {
	lower, upper := db.keys().Span(layout.KindName)
	others := 0
	err := db.loadKeys("a name", lower, upper, func(key, value []byte) error {
		_, name, _, err := layout.DecodeName(key, value)
		switch {
		case err != nil:
			return nil // it is looked at when it is asked for
		case len(key) <= layout.KeyHeader || !bytes.Equal(key, db.keys().Name(layout.NameClass(key[layout.KeyHeader]), name)):
			if others++; others < seedTries {
				return nil
			}
		default:
			others = 0
		}
		return kv.ErrStop
	})
	if others > 0 {
		return &fault.Error{
			Kind: fault.ErrCorrupt, What: "compare the hash seed", Why: place.Name + " belongs to another store",
			Do: "restore that file from a backup of the folder, or make a new database of this one: memdbctl rescue",
		}
	}
	if errors.Is(err, kv.ErrStop) {
		return nil
	}
	return err
}

// seedTries is how many names must contradict the hash seed: fewer are damaged.
const seedTries = 8

// loadDocs rebuilds the document table and the text index from the forward
// records. What is dead is left to the janitor.
func (db *DB) loadDocs() error {
	db.spaces.BeginLoad() // it reads beside this, since the spaces are known
	tombs, err := db.loadTombstones()
	if err != nil {
		return err
	}
	prefix, _ := db.keys().Span(layout.KindText)
	db.tables.NewestIndex.Store(db.newText(prefix))
	if err := db.loadSealed(tombs.covers); err != nil {
		return err
	}
	// What grows comes last: the index takes no document for a chunk that is not the newest.
	all := recovery.DocKeys(db.keys(), layout.KindForward)
	parts := []*recovery.Numbered{all}
	if next := db.writer.next.Doc; next&0xffff != 0 {
		first := uint64(layout.ChunkOf(next)) << 16
		parts = []*recovery.Numbered{all.Within(0, first), all.From(first + 1<<16), all.Within(first, first+1<<16)}
	}
	for _, part := range parts {
		if err := db.loadForward(part, tombs); err != nil {
			return err
		}
	}
	db.leaveToJanitor(tombs)
	// The newest chunk may have been closed by a transaction that did not commit, and
	// sealed: it takes no documents all the same.
	if next := &db.writer.next.Doc; *next&0xffff != 0 {
		chunk := layout.ChunkOf(*next)
		db.chunks.used[chunk] = true
		if db.chunks.sealed[chunk] {
			*next = (uint32(chunk) + 1) << 16
		}
	}
	db.tables.Docs.Mark.Store(db.writer.next.Doc)
	for chunk, used := range db.chunks.used {
		if used {
			db.chunks.top = chunk
		}
	}
	return nil
}

// loadForward reads forward records.
func (db *DB) loadForward(keys *recovery.Numbered, tombs *tombstones) error {
	return db.opening.losses.ScanDocs(db.store, keys, "documents", func(n uint64, value []byte) error {
		doc := uint32(n)
		if doc >= MaxMemories {
			return noNumber(doc)
		}
		db.chunks.used[layout.ChunkOf(doc)] = true
		if f, _, err := layout.DecodeRow(value); tombs.all.Contains(doc) || tombs.incomplete {
			if gone := err == nil && tombs.covers(doc, f.Version); gone || err != nil {
				return err
			}
		}
		return db.loadDoc(doc, value)
	}, db.chunks.use)
}

// tombstones are those that Open finds.
type tombstones struct {
	all  *roaring.Bitmap
	left map[uint32]*records.Dead // those whose vectors are still to be removed
	// incomplete: some could not be read. died then tells of a version whether it is dead.
	incomplete bool
	died       func(v layout.Version) bool
}

func (db *DB) loadTombstones() (*tombstones, error) {
	t := &tombstones{all: roaring.New(), left: map[uint32]*records.Dead{}, died: func(v layout.Version) bool { return recovery.DiedByRecord(db.store, db.keys(), v) }}
	tx := &Tx{db: db, state: db.stateOf(db.store, 0)}
	tx.state.Lose = func(err error) {
		t.incomplete = true
		db.opening.losses.Lost("a tombstone", err)
	}
	lower, upper := db.keys().Span(layout.KindTombstone)
	err := tx.state.Scan(lower, upper, func(key, value []byte) error {
		doc, ok := layout.ParseDocKey(key)
		if !ok {
			return layout.BadKey("tombstone", key)
		}
		tomb, err := layout.DecodeTombstone(value)
		if err != nil { // it is dead, whatever else there was to say
			tomb = layout.Tombstone{LSN: db.writer.applied}
		}
		if !tomb.Cleared {
			t.left[doc] = &records.Dead{Doc: doc, LSN: tomb.LSN, Of: tomb.Of}
		}
		t.all.Add(doc)
		return err
	})
	return t, err
}

// covers reports whether a document is dead, and notes its version: it has a tombstone, or its
// tombstone may be one that cannot be read and the version is dead by its record.
func (t *tombstones) covers(doc uint32, v layout.Version) bool {
	if t.incomplete && !t.all.Contains(doc) && t.died(v) {
		t.all.Add(doc)
		t.left[doc] = &records.Dead{Doc: doc, LSN: v.Born}
	}
	if d := t.left[doc]; d != nil {
		d.Of = v
	}
	return t.all.Contains(doc)
}

// leaveToJanitor gives it what is to be reclaimed. Tombstones of sealed chunks stay for
// as long as the chunk does.
func (db *DB) leaveToJanitor(t *tombstones) {
	for it := t.all.Iterator(); it.HasNext(); {
		doc := it.Next()
		sealed := db.chunks.sealed[layout.ChunkOf(doc)]
		if doc < MaxMemories {
			db.chunks.used[layout.ChunkOf(doc)] = true
		}
		if sealed {
			db.chunks.buried[layout.ChunkOf(doc)]++
		}
		if d := t.left[doc]; d != nil {
			db.janitor.dead = append(db.janitor.dead, *d)
		} else if sealed {
			db.chunks.graves++
		}
	}
	db.janitor.sort()
}

func (db *DB) loadDoc(doc uint32, value []byte) error {
	f, err := records.DecodeForward(value)
	if err != nil {
		return fault.Within(fmt.Sprintf("document %d", doc), err)
	}
	if err := db.loadRow(doc, &f.Row); err != nil {
		return err
	}
	if db.opening.damaged != nil {
		return nil // the index is built anew
	}
	err = db.tables.NewestIndex.Load().Add(doc, &f.Index)
	if err != nil && db.mends { // chunks are missing, and the numbers do not rise any more
		db.opening.damaged, err = err, nil
	}
	return err
}

// loadRow enters a document into the tables.
func (db *DB) loadRow(doc uint32, f *layout.Row) error {
	if doc >= MaxMemories || f.Seq == 0 || f.Seq > db.writer.next.Seq {
		return &fault.Error{Kind: fault.ErrCorrupt, What: fmt.Sprintf("load document %d", doc), Why: "the log never gave out its numbers"}
	}
	db.tables.Docs.Add(doc, func(r *doctable.Row) {
		r.Version, r.Run = f.Version, f.Run
		r.Created = f.Created
		r.Expires.Store(f.Expires)
		r.Importance, r.Confidence = f.Importance, f.Confidence
	})
	db.spaces.Want(doc, &f.Version, f.Vectors)
	return nil
}

func (db *DB) loadStats() error {
	lower, upper := db.keys().Span(layout.KindStats)
	return db.loadKeys("the access statistics of a memory", lower, upper, func(key, value []byte) error {
		_, seq, ok := layout.ParseStatsKey(key)
		if !ok {
			return layout.BadKey("statistics", key)
		}
		a, err := records.DecodeAccess(key, value)
		if err != nil {
			return err
		}
		if s := db.tables.Docs.Seq(seq); s != nil {
			s.Count.Store(a.Count)
			s.Accessed.Store(a.Last)
			records.ExtendAgain(&db.tables, s, a.Lease)
			if a.Debt != 0 || a.Folded != 0 {
				s.Fade.Store(&doctable.Fade{Debt: a.Debt, Folded: a.Folded})
			}
		}
		return nil
	})
}

// loadRanges puts unfinished death ranges in force again.
func (db *DB) loadRanges() error {
	tx := &Tx{db: db, state: db.newestState()}
	tx.state.LSN = state.MaxLSN
	lower, upper := db.keys().Span(layout.KindRange)
	return db.loadKeys("a delete of a scope that is not cleaned up after", lower, upper, func(key, value []byte) error {
		d, err := layout.DecodeRange(db.keys(), key, value)
		if err != nil {
			return err
		}
		set := d.Docs
		if !d.Listed {
			if set, _, err = selection.Born(&tx.state, d.Scope); err != nil {
				return err
			}
		}
		d.Docs = roaring.New()
		it := set.Iterator()
		for it.HasNext() {
			doc := it.Next()
			if doc < MaxMemories {
				db.chunks.used[layout.ChunkOf(doc)] = true // as long as the range names it
			}
			if row := db.tables.Docs.Row(doc); row.Visible(state.MaxLSN) && (d.Listed || d.Before(row.Version)) {
				d.Docs.Add(doc)
				db.tables.Docs.Kill(doc, d.LSN)
			}
		}
		db.janitor.ranges = append(db.janitor.ranges, d)
		db.janitor.dying.Add(int64(d.Docs.GetCardinality()))
		return nil
	})
}
