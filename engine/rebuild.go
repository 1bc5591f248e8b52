package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/cockroachdb/pebble/v2"

	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/internal/analysis"
	"github.com/seed-7aedc3ff/memdb/internal/doctable"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/internal/place"
	"github.com/seed-7aedc3ff/memdb/internal/recovery"
	"github.com/seed-7aedc3ff/memdb/internal/spaces"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/internal/store"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/invindex"
)

const doingRebuild = "rebuild"

// Rebuild makes an index anew from what is stored, beside readers and writers, who use the
// one that there is until the new one takes its place. It mends damage. Interrupted, it leaves
// what is found as it was, or better; the next call begins again.
//
// The text index follows from the memories, and is replaced in one commit: also words of
// memories that were indexed by another version of the analyzer are found then. A database
// that was made for English alone becomes one of all languages, unless Options.Language says
// "english". The indexes of vectors follow from the vectors of the memories, and take as much
// memory again until each is replaced, and its snapshot with it. The keys of the graph follow
// from its entities, relations and links to memories; they are mended in commits of bounded
// size, and what leads to nothing is removed.
//
// progress, if it is not nil, is told how many are done, and of how many: documents, vectors,
// keys of the graph. IndexAll tells of each of the three from the beginning.
func (db *DB) Rebuild(ctx context.Context, index string, progress func(done, of int64)) error {
	var steps []func(context.Context, func(done, of int64)) error
	switch index {
	case IndexText:
		steps = append(steps, db.rebuildWords)
	case IndexVectors:
		steps = append(steps, db.rebuildVectors)
	case IndexGraph:
		steps = append(steps, db.rebuildGraph)
	case IndexAll:
		steps = append(steps, db.rebuildWords, db.rebuildVectors, db.rebuildGraph)
	default:
		return fault.Invalid(doingRebuild, fmt.Sprintf("there is no index %q to rebuild", valid.Short(index)), "name text, vectors, graph or all")
	}
	ctx, err := db.apart(ctx, doingRebuild)
	if err != nil {
		return err
	}
	release, err := db.enter(doingRebuild)
	if err != nil {
		return err
	}
	defer release()
	if err := db.writable(doingRebuild); err != nil {
		return err
	}
	for _, rebuild := range steps {
		if err := rebuild(ctx, progress); err != nil {
			return err
		}
	}
	return nil
}

// rebuildWords makes the text index anew.
func (db *DB) rebuildWords(ctx context.Context, progress func(done, of int64)) error {
	// The janitor neither seals nor frees meanwhile, and writers do not wait for it.
	j := db.janitor
	if err := j.rest(ctx); err != nil {
		return err
	}
	defer j.db.chunks.busy.Unlock()
	j.progress(true, nil)
	defer j.wake()
	if err := db.moveAnalyzer(ctx); err != nil {
		return err
	}
	return db.rebuild(ctx, progress)
}

// rebuildGraph makes the keys anew by which the graph is found.
func (db *DB) rebuildGraph(ctx context.Context, progress func(done, of int64)) error {
	removed, err := partOf[*graph.Part](db).Mend(ctx, restingRunner{runner{db: db}}, progress)
	if removed > 0 {
		db.logger.Warn("keys of the graph led to nothing, and are removed", "keys", removed)
	}
	return err
}

// restingRunner changes nothing while the janitor works, which removes keys that refer to
// memories without the writer lock.
type restingRunner struct{ runner }

func (r restingRunner) Update(ctx context.Context, doing string, fn func(part.Tx) error) error {
	j := r.db.janitor
	if err := j.rest(ctx); err != nil {
		return err
	}
	defer r.db.chunks.busy.Unlock()
	j.progress(true, nil)
	defer j.wake()
	return r.runner.Update(ctx, doing, fn)
}

// rebuild is Rebuild where the janitor is busy.
func (db *DB) rebuild(ctx context.Context, progress func(done, of int64)) error {
	j := db.janitor
	// What the new index goes without must have left nothing behind: without a row
	// or a forward record nothing would lead to it any more. And it goes without all
	// that is cleaned up, whose tombstones are gone.
	oldest := db.points.oldest()
	err := j.cleanUp(ctx, oldest)
	if errors.Is(err, fault.ErrCorrupt) {
		db.logger.Warn("rebuild: what died cannot be cleaned up", "error", err)
	} else if err != nil {
		return err
	}
	return db.rebuildText(ctx, oldest, progress)
}

// rebuildText builds the text index under the next generation and switches to it,
// without the documents that died at oldest or before: they are cleaned up. The janitor
// is busy.
func (db *DB) rebuildText(ctx context.Context, oldest uint64, progress func(done, of int64)) error {
	b, err := db.newTextBuilder(progress)
	if err != nil {
		return err
	}
	// Without the lock until little is left. What dies meanwhile is built, too: its
	// rows tell.
	const little = 1000
	for {
		if err := db.lockBehind(ctx); err != nil {
			return err
		}
		// Below the committed number no transaction adds a document.
		rest, docs := b.rest()
		if docs > little {
			db.unlock()
			if err := b.add(ctx, rest, oldest); err != nil {
				return err
			}
			continue
		}
		defer db.unlock()
		if err := b.add(ctx, rest, oldest); err != nil {
			return err
		}
		if err := b.commit(ctx); err != nil {
			return err
		}
		if err := db.store.SyncLog(nil); err != nil { // the switch has no LSN that a group would wait for
			return err
		}
		return errors.Join(db.republish(), db.noteAnalyzer())
	}
}

// mendText builds the text index anew where Open found it damaged. Nobody uses the
// database yet.
func (db *DB) mendText() error {
	if db.opening.damaged == nil || db.readOnly {
		return db.opening.damaged
	}
	db.logger.Warn("the text index is damaged, and is built anew from the memories", "damage", db.opening.damaged)
	b, err := db.newTextBuilder(nil)
	if err != nil {
		return err
	}
	ctx := context.Background()
	rest, _ := b.rest()
	if err := b.add(ctx, rest, 0); err != nil {
		return err
	}
	if err := b.commit(ctx); err != nil {
		return err
	}
	db.opening.damaged = nil
	return nil
}

// nextKeys are the keys with some kinds in their next generation.
func (db *DB) nextKeys(kinds ...byte) *layout.Keys {
	next := *db.keys()
	for _, k := range kinds {
		next.Gen[k]++
	}
	return &next
}

// textBuilder fills a text index and the forward records that belong to it.
type textBuilder struct {
	db       *DB
	keys     *layout.Keys // of the new generation
	index    *invindex.Index
	built    map[uint16]uint64 // of each chunk, one past the last document that was looked at
	parts    chunkParts
	sealed   map[uint16]bool // the chunks that it has sealed
	done     int64
	progress func(done, of int64)
}

// newTextBuilder begins with the empty index, whatever a rebuild that was
// interrupted has left.
func (db *DB) newTextBuilder(progress func(done, of int64)) (*textBuilder, error) {
	b := &textBuilder{db: db, keys: db.nextKeys(layout.KindText, layout.KindForward), built: map[uint16]uint64{}, sealed: map[uint16]bool{}, progress: progress}
	prefix, _ := b.keys.Span(layout.KindText)
	b.index = db.newText(prefix)
	b.parts.next = maxChunks
	return b, db.applyBare(func(batch *pebble.Batch) error { return deleteKinds(batch, b.keys) })
}

// deleteKinds removes the text index and the forward records of a generation.
func deleteKinds(batch *pebble.Batch, ks *layout.Keys) error {
	for _, kind := range []byte{layout.KindText, layout.KindForward} {
		lower, upper := ks.Span(kind)
		if err := batch.DeleteRange(lower, upper, nil); err != nil {
			return err
		}
	}
	return nil
}

// docSpan is documents of one chunk, from one up to, but not including, another.
type docSpan struct{ from, to uint64 }

// rest is what is not built yet, in the order in which it can be: an index takes no more
// documents for a chunk once it has one of another. docs is how many there are at most.
// The lock is held.
func (b *textBuilder) rest() (spans []docSpan, docs int) {
	db := b.db
	add := func(chunk uint16) {
		first := uint64(chunk) << 16
		s := docSpan{max(first, b.built[chunk]), first + 1<<16}
		if db.grows(chunk) {
			s.to = uint64(db.writer.next.Doc)
		}
		if s.from < s.to {
			spans, docs = append(spans, s), docs+int(s.to-s.from)
		}
	}
	now, begun := b.growing()
	if begun {
		add(now)
	}
	for chunk, used := range db.chunks.used {
		if c := uint16(chunk); used && !db.grows(c) && (!begun || c != now) {
			add(c)
		}
	}
	if next := layout.ChunkOf(db.writer.next.Doc); db.grows(next) && (!begun || next != now) {
		add(next)
	}
	return spans, docs
}

// add adds those documents of spans that did not die at oldest or before: those nobody
// can see.
func (b *textBuilder) add(ctx context.Context, spans []docSpan, oldest uint64) (err error) {
	db := b.db
	snap := db.store.NewSnapshot()
	defer func() { err = errors.Join(err, snap.Close()) }()
	tx := &Tx{db: db, state: db.stateOf(snap, state.MaxLSN)}
	batch := db.store.NewBatch()
	defer func() { err = errors.Join(err, batch.Close()) }()
	flush := func() error {
		err := db.store.AdmitMaintenance(doingRebuild, batch.Len())
		if err == nil {
			err = db.store.Apply(batch, pebble.NoSync)
		}
		batch.Reset()
		return errors.Join(db.Failed(), err)
	}
	build := func(doc uint64, r *doctable.Row) bool {
		// Who sees a document of a chunk that was emptied has pinned the old index.
		if r.Died.Load() <= oldest || r.Seq == 0 || db.chunks.emptied[layout.ChunkOf(uint32(doc))] {
			return true
		}
		if err = ctx.Err(); err != nil {
			return false
		}
		if err = b.closeChunks(ctx, layout.ChunkOf(uint32(doc))); err != nil {
			return false
		}
		if err = b.document(ctx, tx, batch, uint32(doc), r); err == nil && batch.Len() > sealBatch {
			err = flush()
		}
		return err == nil
	}
	for _, s := range spans {
		db.tables.Docs.Rows.EachFrom(s.from, s.to, build)
		if err != nil {
			return err
		}
		b.built[uint16(s.from>>16)] = s.to
	}
	return flush()
}

// document indexes a document, and writes its forward record where its chunk has
// them.
func (b *textBuilder) document(ctx context.Context, tx *Tx, batch *pebble.Batch, doc uint32, r *doctable.Row) error {
	pv, err := tx.recovering().IndexAgain(ctx, r)
	if store.Unreadable(err) {
		b.db.opening.losses.Lost(fmt.Sprintf("memory number %d, which no search finds from now on", r.Seq), err)
		return nil
	}
	if pv == nil || err != nil {
		return err
	}
	if err := b.put(ctx, doc, &pv.Index); err != nil {
		return err
	}
	if b.done++; b.progress != nil && b.done%1024 == 0 {
		b.progress(b.done, b.db.tables.Docs.Live.Load())
	}
	if b.db.chunks.sealed[layout.ChunkOf(doc)] {
		return nil
	}
	return batch.Set(b.keys.Doc(layout.KindForward, doc), pv.AppendForward(nil), nil)
}

// closeChunks seals the chunk that grows, if the next document is of another one and the
// old index has it sealed.
func (b *textBuilder) closeChunks(ctx context.Context, next uint16) error {
	number, ok := b.growing()
	if !ok || number == next || !b.db.chunks.sealed[number] {
		return nil
	}
	if err := b.sealGrowing(ctx); err != nil {
		return err
	}
	b.sealed[number] = true
	return b.joinParts(ctx, number)
}

// sealGrowing seals the chunk that grows.
func (b *textBuilder) sealGrowing(ctx context.Context) error {
	number, _, ok := b.index.Growing()
	if !ok {
		return nil
	}
	b.index.End()
	err := b.write(ctx, func(w *sealWriter) error { return b.index.Seal(w, number) })
	if err != nil {
		return err
	}
	return b.index.Sealed(b.db.store, number)
}

// write writes pages.
func (b *textBuilder) write(ctx context.Context, pages func(*sealWriter) error) (err error) {
	w := &sealWriter{db: b.db, ctx: ctx, batch: b.db.store.NewBatch()}
	defer func() { err = errors.Join(err, w.batch.Close()) }()
	if err := pages(w); err != nil {
		return err
	}
	return w.apply()
}

// commit switches to the new generation. The lock is held.
func (b *textBuilder) commit(ctx context.Context) error {
	db := b.db
	if number, ok := b.growing(); ok && !db.grows(number) {
		if err := b.closeChunks(ctx, number+1); err != nil { // as if one of another came
			return err
		}
	}
	if b.progress != nil {
		b.progress(b.done, b.done)
	}
	err := db.applyBare(func(batch *pebble.Batch) error {
		var left []uint16
		for chunk := range db.chunks.sealed {
			if b.sealed[chunk] {
				continue
			}
			left = append(left, chunk)
			// None of its documents is left, and without a page it has no rows either.
			for _, kind := range []byte{layout.KindRows, layout.KindTombstone} {
				prefix := db.keys().Chunk(kind, chunk)
				if err := batch.DeleteRange(prefix, layout.PrefixEnd(prefix), nil); err != nil {
					return err
				}
			}
		}
		set := func(key, value []byte) error { return batch.Set(key, value, nil) }
		if err := db.keepTombstones(left, set); err != nil {
			return err
		}
		if err := deleteKinds(batch, db.keys()); err != nil {
			return err
		}
		return batch.Set(layout.GenerationsKey, b.keys.EncodeGenerations(), nil)
	})
	if err != nil {
		return err
	}
	db.tables.NewestKeys.Store(b.keys)
	db.chunks.sealed = b.sealed
	maps.DeleteFunc(db.chunks.size, func(chunk uint16, _ int) bool { return !b.sealed[chunk] })
	db.tables.NewestIndex.Store(b.index)
	db.leaveEmpty()
	db.scopes.Forget()
	return nil
}

// leaveEmpty leaves the chunks of which the new index has no document. The lock is held.
func (db *DB) leaveEmpty() {
	var kept [maxChunks]bool
	for chunk := range db.tables.NewestIndex.Load().Extents(db.newestText()) {
		kept[chunk] = true
	}
	for _, l := range db.chunks.left {
		kept[l.chunk] = true // it is noted
	}
	for chunk, used := range db.chunks.used {
		if used && !kept[chunk] && !db.grows(uint16(chunk)) {
			db.leave(uint16(chunk))
		}
	}
}

// noteAnalyzer remembers by what the text was indexed, once that is durable. The lock is
// held.
func (db *DB) noteAnalyzer() error {
	if err := db.Failed(); err != nil {
		return err
	}
	fingerprint := db.tables.Words.Analyzer.Load().Fingerprint()
	if db.identity.Settings.Analyzer == fingerprint {
		return nil
	}
	id := *db.identity
	id.Settings.Analyzer = fingerprint
	if err := db.keepIdentity(&id); err != nil {
		return fault.Within("note the analyzer in "+place.Name, err)
	}
	db.setIdentity(&id)
	return nil
}

// recovering is the transaction as recovery reads it.
func (tx *Tx) recovering() *recovery.State {
	st := &recovery.State{View: tx.reader(), Part: (*partTx)(tx)}
	if tx.db.mends {
		st.Name = tx.db.giveName
	}
	return st
}

// giveName gives a name that cannot be read a new number, in a copy of what is left of a database.
func (db *DB) giveName(k layout.Name) (num uint32, err error) {
	n := &db.writer.next.Names[k.Class]
	*n++
	key := db.keys().Name(k.Class, k.Text)
	return *n, db.store.Set(key, layout.EncodeName(key, *n, k.Text, nil), pebble.NoSync)
}

// dropOldGenerations removes what a rebuild that was interrupted has left behind.
func (db *DB) dropOldGenerations() error {
	next := db.nextKeys(layout.KindText, layout.KindForward)
	for _, kind := range []byte{layout.KindText, layout.KindForward} {
		lower, upper := next.Span(kind)
		err := kv.Scan(db.store, lower, upper, func(_, _ []byte) error { return kv.ErrStop })
		switch {
		case errors.Is(err, kv.ErrStop) && db.readOnly:
			return nil
		case errors.Is(err, kv.ErrStop):
			return db.applyBare(func(batch *pebble.Batch) error { return deleteKinds(batch, next) })
		case err != nil:
			return err
		}
	}
	return nil
}

// rebuildVectors makes the index of each space anew.
func (db *DB) rebuildVectors(ctx context.Context, progress func(done, of int64)) error {
	err := db.spaces.Rebuild(ctx, progress)
	if errors.Is(err, spaces.ErrEnded) {
		return closedError(doingRebuild)
	}
	return err
}

// moving begins the name of the analyzer of a text index that is being made anew by newer
// rules: what is stored meanwhile is analysed by these already, and so is a query, also after
// the database was closed in between.
const moving = "moving from "

// moveAnalyzer gives the database the newest rules of its language, and makes one that was
// made for English alone one that finds the language of each text, unless it was opened to be
// English. It comes before the text is indexed anew, and memdb.json says so first: a text that
// was indexed as English is found by any query, and one in a language only where it is looked
// for.
func (db *DB) moveAnalyzer(ctx context.Context) error {
	if err := db.lockBehind(ctx); err != nil {
		return err
	}
	defer db.unlock()
	if err := db.Failed(); err != nil {
		return err
	}
	now, id := db.tables.Words.Analyzer.Load(), *db.identity
	if !db.english && id.Settings.Language == analysis.English {
		id.Settings.Language = analysis.Auto
	} else if !now.Older() {
		return nil
	}
	newest, err := analysis.New(analysis.Config{Language: id.Settings.Language})
	if err != nil {
		return fault.Within(doingRebuild, err)
	}
	if now.Older() {
		id.Settings.Analyzer = moving + id.Settings.Analyzer
	}
	if err := db.keepIdentity(&id); err != nil {
		return fault.Within("note the language in "+place.Name, err)
	}
	db.setIdentity(&id)
	db.tables.Words.Analyzer.Store(newest)
	return nil
}
