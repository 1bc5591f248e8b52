package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/seed-7aedc3ff/memdb/internal/analysis"
	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/fsys/crashfs"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/race"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// TestModel runs random operations on a database and on a model beside it, and
// compares what both hold: one-shot calls, transactions that commit or do not,
// reopening, crashes and the passing of time.
//
// MEMDB_SOAK=n runs n seeds of 20,000 operations instead.
func TestModel(t *testing.T) {
	seeds, ops := uint64(6), 1500
	if race.Enabled {
		seeds, ops = 2, 300
	}
	if n, err := strconv.ParseUint(os.Getenv("MEMDB_SOAK"), 10, 64); err == nil {
		seeds, ops = n, 20_000
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed", seed), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, seed)
			for w.step = range ops {
				w.turn()
			}
			w.checkAll()
		})
	}
}

const (
	idPool   = 30
	imageDim = 5
)

// world is a database, its model, and what chance needs.
type world struct {
	t        *testing.T
	rng      *rand.Rand
	step     int
	clock    *testClock
	fs       *crashfs.Disk
	opts     setup
	db       *DB
	embedder *fakeEmbedder // nil: none
	dim      int           // of the default space
	analyzer *analysis.Analyzer
	indexed  []memory.IndexedField

	model *model
	// touched are the recalls of memories since they were stored; flushed those
	// that a crash may not take back. They are no part of a transaction.
	touched, flushed map[uint64]layout.Access
	entryIDs         map[historyPlace]string
	log              *testLog // of a database over a log
	// crashed: a crash beside a move may leave a vector behind, until its memory's next
	// version dies.
	crashed bool
}

// newWorld opens a database of its seed, over a log where one is given.
func newWorld(t *testing.T, seed uint64, over ...*testLog) *world {
	w := &world{
		t: t, rng: rand.New(rand.NewPCG(seed, 1)), clock: newTestClock(), fs: crashfs.NewDisk(), dim: 8,
		indexed: []memory.IndexedField{{Field: "name", Weight: 1}},
		model:   newModel(), touched: map[uint64]layout.Access{}, flushed: map[uint64]layout.Access{},
		entryIDs: map[historyPlace]string{},
	}
	w.opts = setup{Options: Options{Clock: w.clock.now, MemoryBudget: testBudget}, tuning: tuning{uncached: true, lookLeast: 1}}
	switch seed % 4 {
	case 0:
		w.opts.hotBytes = 1 // every commit begins a chunk
	case 2:
		w.opts.hotBytes = 28 << 10 // some do, and the documents of sparse ones move
	}
	if seed%4 != 1 {
		w.opts.firstDoc = MaxMemories - 3<<16 // chunks come again
	}
	if seed%2 == 1 {
		w.embedder = newFakeEmbedder(w.dim)
		w.opts.Embedder = w.embedder
	}
	if seed%3 == 1 {
		w.indexed = []memory.IndexedField{{Field: "name", Weight: 2}, {Field: "tag", Weight: 2.5}}
		w.opts.IndexedText = w.indexed
	}
	if len(over) > 0 {
		w.log = over[0]
		w.opts.logged = w.log.over()
	}
	var err error
	if w.analyzer, err = analysis.New(analysis.Config{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if w.db != nil {
			closeTest(t, w.db)
		}
		if t.Failed() {
			t.Logf("seed %d failed at step %d", seed, w.step)
		}
	})
	w.open()
	if seed%5/2 == 1 {
		w.keyByOwner()
	}
	return w
}

// keyByOwner makes a new database one of an older layout.
func (w *world) keyByOwner() {
	older := *w.db.keys()
	keyByOwner(&older)
	if err := w.db.store.Set(layout.GenerationsKey, older.EncodeGenerations(), pebble.Sync); err != nil {
		w.t.Fatal(err)
	}
	closeTest(w.t, w.db)
	w.open()
}

func (w *world) open() {
	db, err := openOn(w.fs, "db", w.opts)
	if err != nil {
		w.t.Fatal(err)
	}
	w.db = db
}

// turn does one thing and looks at some of what it may have changed.
func (w *world) turn() {
	if w.embedder != nil && w.rng.IntN(10) == 0 {
		w.embedder.set(func(f *fakeEmbedder) {
			f.fail = nil
			if w.rng.IntN(3) == 0 {
				f.fail = errors.New("no network")
			}
		})
	}
	switch n := w.rng.IntN(200); {
	case n < 1 && w.chance(20):
		w.reset()
	case n < 1 && w.chance(3):
		w.rebuild()
	case n < 1:
		w.reopen()
	case n < 2:
		w.crash()
	case n < 4:
		w.flush()
	case n < 6:
		w.embedPending()
	case n < 7:
		w.expire()
	case n < 20:
		w.clock.advance(time.Duration(w.rng.IntN(600)) * time.Second)
	case n < 50:
		w.transaction()
	default:
		w.operation(w.db.Memories(), w.model, false)
	}
	switch {
	case w.step%100 == 99:
		w.checkAll()
		mustCheck(w.t, w.db, len(w.model.live))
		janitorDone(w.t, w.db)
		if !w.crashed {
			checkOnlyLive(w.t, w.db)
		}
	case w.step%3 == 0:
		w.look(w.db.Memories(), w.model)
	}
}

func (w *world) look(mm Memories, s *model) {
	switch w.rng.IntN(4) {
	case 0:
		w.checkGet(mm, s)
	case 1:
		w.checkList(mm, s)
	case 2:
		w.checkRecall(mm, s)
	case 3:
		w.checkHistory(mm, s)
	}
}

func (w *world) expire() {
	w.db.chunks.busy.Lock() // what is moved meanwhile may be passed by, until the next time
	err := w.db.ageing.Expire(context.Background())
	w.db.chunks.busy.Unlock()
	if err != nil {
		w.t.Fatal(err)
	}
	w.model.expire(w.clock.now())
	if got, want := w.db.tables.Docs.Live.Load(), int64(len(w.model.live)); got != want {
		w.t.Fatalf("%d memories are left by what has expired, want %d", got, want)
	}
}

func (w *world) reopen() {
	if err := w.db.Close(); err != nil {
		w.t.Fatal(err)
	}
	w.flushed = maps.Clone(w.touched)
	w.open()
	w.checkAll()
}

func (w *world) rebuild() {
	if err := w.db.Rebuild(context.Background(), IndexText, nil); err != nil {
		w.t.Fatal(err)
	}
	w.checkAll()
}

// reset deletes everything, histories included.
func (w *world) reset() {
	n, err := w.db.Reset(context.Background())
	if want := len(w.model.visible(memory.Scope{}, w.clock.now())); err != nil || n != want {
		w.t.Fatalf("reset: %d, %v; want %d", n, err, want)
	}
	highest := w.model.highest
	w.model = newModel()
	w.model.highest = highest
	clear(w.touched)
	w.checkAll()
}

func (w *world) flush() {
	if err := w.db.FlushTouches(context.Background()); err != nil {
		w.t.Fatal(err)
	}
	w.flushed = maps.Clone(w.touched)
}

// crash goes on with what a crash at this instant leaves: all that was
// acknowledged, but perhaps for the newest recalls.
func (w *world) crash() {
	clone := w.fs.Lose(w.rng.IntN(2)*50, w.rng)
	if w.log != nil {
		w.db.Disown("it crashes")
	}
	if err := w.db.Close(); err != nil {
		w.t.Fatal(err)
	}
	w.fs, w.crashed = clone, true
	if w.log != nil {
		w.log.bringUp(w.t, w.fs)
	}
	w.open()
	for seq, m := range w.model.live {
		given := layout.Access{Count: m.AccessCount, Last: clock.ToMillis(m.LastAccessed)}
		row := w.db.tables.Docs.Seq(seq)
		if row == nil {
			w.t.Fatalf("memory %d is lost", seq)
		}
		count := row.Count.Load()
		if least, most := w.flushed[seq].Count, w.touched[seq].Count; count < given.Count+least || count > given.Count+most {
			w.t.Fatalf("memory %d has %d recalls after a crash, of %d to %d", seq, count-given.Count, least, most)
		}
		w.touched[seq] = layout.Access{Count: count - given.Count, Last: row.Accessed.Load()}
	}
	w.flushed = maps.Clone(w.touched)
	w.checkAll()
}

func (w *world) embedPending() {
	n, err := w.db.EmbedPending(context.Background(), 0)
	if w.embedder == nil {
		if n != 0 || err != nil {
			w.t.Fatalf("%d embedded without an embedder, %v", n, err)
		}
		return
	}
	if w.embedder.failing() {
		if n != 0 {
			w.t.Fatalf("%d embedded by an embedder that fails", n)
		}
		clear(w.db.backlog.refused) // the model's embedder refuses no text for itself
		return
	}
	if want := w.model.embedPending(w.clock.now(), w.embedder.vector); err != nil || n != want {
		w.t.Fatalf("%d pending memories embedded, %v; want %d", n, err, want)
	}
}

// transaction does several things, which all count or none does.
func (w *world) transaction() {
	s := w.model.clone()
	failure := errors.New("changed my mind")
	ending := w.rng.IntN(5)
	err := func() (err error) {
		defer func() {
			if p := recover(); p != nil {
				err = p.(error)
			}
		}()
		return w.db.Update(context.Background(), func(tx *Tx) error {
			for range 1 + w.rng.IntN(8) {
				w.operation(tx.Memories(), s, true)
				if s.broken {
					return nil
				}
				if w.rng.IntN(3) == 0 {
					w.look(tx.Memories(), s)
				}
			}
			switch ending {
			case 0:
				return failure
			case 1:
				panic(failure)
			}
			return nil
		})
	}()
	switch {
	case s.broken:
		w.wantKind("commit after half a batch", err, fault.ErrExists)
	case ending > 1:
		if err != nil {
			w.t.Fatalf("commit: %v", err)
		}
		w.model = s
		return
	case !errors.Is(err, failure):
		w.t.Fatalf("abort: %v", err)
	}
	for seq := range w.touched {
		if w.model.life[seq] == nil {
			delete(w.touched, seq)
		}
	}
}

func (w *world) operation(mm Memories, s *model, inTx bool) {
	switch n := w.rng.IntN(100); {
	case n < 45:
		w.store(mm, s, inTx, 1)
	case n < 55:
		w.store(mm, s, inTx, 2+w.rng.IntN(6))
	case n < 80:
		w.update(mm, s, inTx)
	case n < 97:
		w.delete(mm, s)
	default:
		w.deleteScope(mm, s)
	}
}

// renewed follows what becomes of a memory whose text was stored again: it is as young as the text.
// In a batch that failed, the failure may have come first.
func (w *world) renewed(m *memory.Memory, said, now time.Time, sure bool) {
	if !said.After(m.CreatedAt) {
		return
	}
	at := min(said.UnixMilli(), now.UnixMilli())
	if sure || w.db.tables.Docs.Seq(m.Seq).Accessed.Load() == at {
		w.touched[m.Seq] = w.touched[m.Seq].Fold(layout.Access{Last: at})
	}
}

func (w *world) store(mm Memories, s *model, inTx bool, n int) {
	o := memory.StoreOptions{Upsert: w.rng.IntN(3) == 0, NoDedup: w.rng.IntN(4) == 0, SkipInvalid: w.rng.IntN(3) == 0}
	mems := make([]memory.Memory, n)
	for i := range mems {
		mems[i] = w.memory(s)
	}
	now, known := w.clock.now(), w.model.highest
	got, err := mm.StoreBatch(context.Background(), mems, &o)
	after, changed := s.clone(), false
	for i := range mems {
		answer := memory.Stored{ID: fmt.Sprint("of a failed batch ", i), Seq: after.highest + 1}
		if err == nil {
			answer = got[i]
		}
		stored := w.asStored(mems[i], inTx, now)
		want := after.store(&mems[i], stored, o, now, answer)
		if want.fails == nil && want.Deduplicated && want.Seq <= known {
			old := after.live[want.Seq]
			w.renewed(&old.Memory, stored.CreatedAt, now, err == nil)
		}
		switch {
		case want.fails != nil && !o.SkipInvalid:
			w.wantKind(fmt.Sprintf("store %+v", mems[i]), err, want.fails)
			// Half a batch is in the transaction, which must not commit so.
			s.broken = inTx && changed
			return
		case want.fails != nil:
			w.wantKind("store", answer.Err, want.fails)
			continue
		}
		if err != nil {
			answer = want.Stored // another memory of the batch failed
		}
		if err == nil && answer.Pending == (answer.PendingWhy == "") {
			w.t.Fatalf("it is pending without a reason, or the other way round: %+v", answer)
		}
		answer.PendingWhy = ""
		if answer != want.Stored || answer.Stored && answer.Seq <= after.highest {
			w.t.Fatalf("store %+v with %+v: %+v, want %+v with a Seq above %d", mems[i], o, answer, want.Stored, after.highest)
		}
		after.highest = max(after.highest, answer.Seq)
		changed = changed || answer.Stored || answer.Updated
	}
	if err != nil {
		w.t.Fatalf("store %+v: %v", mems, err)
	}
	*s = *after
}

// asStored is how a memory reads once it is stored, with the vector that the
// embedder makes.
func (w *world) asStored(given memory.Memory, inTx bool, now time.Time) modelMemory {
	m := modelMemory{Memory: asRead(given, now)}
	if w.embedder != nil && m.Text != "" && m.Embedding == nil {
		if m.pending = inTx || w.embedder.failing(); !m.pending {
			m.Embedding = w.embedder.vector(m.Text)
		}
	}
	return m
}

func (w *world) update(mm Memories, s *model, inTx bool) {
	in, id := w.target(s)
	p := w.patch()
	want := s.find(in, id, w.clock.now())
	got, err := mm.Update(context.Background(), in, id, p)
	if kind := findError(len(want)); kind != nil {
		w.wantKind("update", err, kind)
		return
	}
	var learned []float32
	if w.embedder != nil && p.Text != nil && !inTx && !w.embedder.failing() {
		learned = w.embedder.vector(*p.Text)
	}
	if kind := s.update(want[0], &p, w.embedder != nil, learned, w.clock.now()); kind != nil || err != nil {
		w.wantKind(fmt.Sprintf("update %+v of %+v", p, want[0]), err, kind)
		return
	}
	if !w.same(got, s.live[got.Seq], false) {
		w.t.Fatalf("update %+v of %+v", p, want[0])
	}
}

func (w *world) delete(mm Memories, s *model) {
	in, id := w.target(s)
	want := s.find(in, id, w.clock.now())
	err := mm.Delete(context.Background(), in, id)
	if kind := findError(len(want)); kind != nil || err != nil {
		w.wantKind("delete", err, kind)
		return
	}
	s.remove(want[0], w.clock.now())
}

// deleteScope deletes a scope, or what a filter chooses of it, or seldom of all.
func (w *world) deleteScope(mm Memories, s *model) {
	q := memory.DeleteQuery{Scope: w.scope()}
	if w.chance(10) {
		q = memory.DeleteQuery{AllScopes: true}
	}
	if w.chance(40) {
		all := func() (int, error) { return mm.DeleteScope(context.Background(), q.Scope) }
		if q.AllScopes {
			all = func() (int, error) { return mm.DeleteAll(context.Background()) }
		}
		n, err := all()
		if want := s.removeScope(q.Scope, w.clock.now()); err != nil || n != want {
			w.t.Fatalf("delete %+v: %d, %v; want %d", q, n, err, want)
		}
		return
	}
	c := w.condition()
	q.Filter = c.filter
	doomed := slices.DeleteFunc(s.visible(q.Scope, w.clock.now()), func(m modelMemory) bool { return !c.holds(&m.Memory) })
	n, err := mm.DeleteMatching(context.Background(), q)
	if err != nil || n != len(doomed) {
		w.t.Fatalf("delete %+v: %d, %v; want %d", q, n, err, len(doomed))
	}
	for _, m := range doomed {
		s.removeOf(m, w.clock.now())
	}
}

// target is a memory to change: mostly one that is there.
func (w *world) target(s *model) (memory.Scope, string) {
	if len(s.live) == 0 || w.rng.IntN(8) == 0 {
		return w.scope(), w.idAt(s, w.rng.IntN(idPool))
	}
	seqs := slices.Sorted(maps.Keys(s.live))
	m := s.live[seqs[w.rng.IntN(len(seqs))]]
	if w.rng.IntN(3) == 0 {
		return memory.Scope{}, m.ID
	}
	return m.Scope, m.ID
}

// idAt is the ID at a place of the pool: half of it are IDs that callers give,
// the rest are of memories that are there.
func (w *world) idAt(s *model, i int) string {
	if i%2 == 1 && len(s.live) > 0 {
		seqs := slices.Sorted(maps.Keys(s.live))
		return s.live[seqs[i*7919%len(seqs)]].ID
	}
	return fmt.Sprint("id", i)
}

func (w *world) scope() memory.Scope {
	return []memory.Scope{
		{User: "ada"},
		{User: "bob"},
		{Agent: "a1"},
		{Run: "r1"},
		{Run: "r2"},
		{User: "ada", Agent: "a1"},
		{User: "ada", Run: "r1"},
		{User: "bob", Agent: "a1", Run: "r2"},
		{User: "nobody"},
	}[w.rng.IntN(9)]
}

func (w *world) vector(dim int) []float32 {
	vec := make([]float32, dim)
	for i := range vec {
		vec[i] = float32(w.rng.NormFloat64())
	}
	if w.rng.IntN(8) == 0 {
		clear(vec)
		vec[w.rng.IntN(dim)] = 1 // vectors that are equal, and cosines of 0
	}
	return vec
}

var modelWords = strings.Fields("tea coffee river house garden train music winter quiet x2 café 東京 the")

func (w *world) sentence(n int) string {
	var words []string
	for range n {
		words = append(words, modelWords[w.rng.IntN(len(modelWords))])
	}
	return strings.Join(words, " ")
}

func choose[T any](w *world, values ...T) T { return values[w.rng.IntN(len(values))] }

func (w *world) chance(percent int) bool { return w.rng.IntN(100) < percent }

// memory makes one up. The fields that no rule depends on are set rarely.
func (w *world) memory(s *model) memory.Memory {
	m := memory.Memory{
		Scope: w.scope(), Kind: choose(w, "", memory.KindMessage, memory.KindMessage, memory.KindFragment, memory.KindFact, memory.KindNote, memory.KindArchive, memory.KindSummary),
		Role: choose(w, "", memory.RoleUser, memory.RoleAssistant, memory.RoleTool), Text: w.sentence(1 + w.rng.IntN(1+w.rng.IntN(8))),
		Metadata: w.metadata(),
	}
	if w.chance(35) {
		m.ID = w.idAt(s, 2*w.rng.IntN(idPool/2))
	}
	if m.Kind == memory.KindNote || w.chance(10) {
		m.Name = choose(w, "", "plan", "diary", "tea list")
	}
	if w.chance(40) {
		m.Embedding = w.vector(w.dim)
		if w.chance(20) {
			m.Text = ""
		}
	}
	if w.chance(20) {
		m.Vectors = map[string][]float32{"img": w.vector(imageDim)}
	}
	if w.chance(30) {
		m.CreatedAt = w.clock.now().Add(-time.Duration(w.rng.IntN(1000)) * time.Hour)
	}
	if w.chance(20) {
		m.ExpiresAt = w.clock.now().Add(time.Duration(w.rng.IntN(4000)-300) * time.Second)
	}
	if w.chance(20) {
		m.Importance, m.Confidence = new(w.rng.Float64()), new(w.rng.Float64())
	}
	if w.chance(10) {
		m.EventTime, m.Pinned, m.Source = w.clock.now().Add(time.Hour), true, memory.SourceWebSearch
		m.Aliases = []string{"a", "b"}
	}
	if w.chance(10) {
		m.AccessCount, m.LastAccessed = uint64(w.rng.IntN(9)), w.clock.now().Add(-time.Minute)
	}
	return m
}

// metadata has values of every type, and now and then a field that goes beyond
// what is indexed.
func (w *world) metadata() map[string]any {
	if w.chance(40) {
		return nil
	}
	m := map[string]any{
		"tag":  choose[any](w, "red", "blue", "river house", strings.Repeat("long", 80), 7),
		"n":    choose[any](w, 0, 1, 2.5, 1e16, int64(9007199254740993), 1e300, float32(0.1), "1"),
		"flag": choose[any](w, true, false, nil),
	}
	if w.chance(30) {
		m["o"] = choose[any](w, map[string]any{"x": 1, "y": map[string]any{"z": "deep"}}, "plain", []any{1, 2})
	}
	if w.chance(10) {
		m[fmt.Sprint("f", w.rng.IntN(120))] = w.rng.IntN(3)
	}
	return m
}

// condition makes up a filter over what memory makes up.
func (w *world) condition() modelFilter {
	text := w.sentence(1)
	f := fmt.Sprint("f", w.rng.IntN(120))
	one := func() modelFilter {
		return choose(w,
			equals("role", func(m *memory.Memory) any { return string(m.Role) }, choose[any](w, "user", "tool", "assistant")),
			equals("kind", func(m *memory.Memory) any { return string(m.Kind) }, "fact", "message"),
			equals("source", func(m *memory.Memory) any { return string(m.Source) }, choose[any](w, string(memory.SourceWebSearch), "")),
			equals("pinned", func(m *memory.Memory) any { return m.Pinned }, choose[any](w, true, false)),
			equals("user_id", func(m *memory.Memory) any { return m.User }, choose[any](w, "ada", "", "eve")),
			equals("agent", func(m *memory.Memory) any { return m.Agent }, "a1", "a2", choose[any](w, "3", "")),
			equals("run", func(m *memory.Memory) any { return m.Run }, "r1"),
			equals("name", func(m *memory.Memory) any { return m.Name }, "plan", "diary"),
			equals("content", func(m *memory.Memory) any { return m.Text }, text),
			equals("id", func(m *memory.Memory) any { return m.ID }, "id0", "id2", "id4"),
			equals("tag", metaAt("tag"), choose[any](w, "red", strings.Repeat("long", 80), json.Number("7.0"), "7")),
			equals("tag", metaAt("tag"), "blue", strings.Repeat("long", 80)),
			equals("metadata.n", metaAt("n"), choose[any](w, 0, 1.0, "1", 2.5, 1e16, int64(9007199254740993), 1e300, float32(0.1), 0.1)),
			equals("n", metaAt("n"), 0, json.Number("1e0"), json.Number("10000000000000000")),
			equals("flag", metaAt("flag"), choose[any](w, true, nil)),
			equals("o.x", metaAt("o", "x"), 1),
			equals("metadata.o.y.z", metaAt("o", "y", "z"), "deep"),
			equals("o", metaAt("o"), "plain"),
			equals(f, metaAt(f), w.rng.IntN(3)),
			equals("never", metaAt("never"), 1, nil),
		)
	}
	switch w.rng.IntN(4) {
	case 0:
		return allOf(one(), one())
	case 1:
		return allOf(one(), allOf(one()), allOf())
	}
	return one()
}

// patch makes up a change.
func (w *world) patch() memory.Patch {
	var p memory.Patch
	if w.chance(30) {
		p.Text = new(w.sentence(w.rng.IntN(5)))
	}
	if w.chance(20) {
		p.Role = new(choose(w, memory.RoleSystem, memory.RoleUser, ""))
	}
	if w.chance(20) {
		p.Metadata = new(w.metadata())
	}
	if w.chance(20) {
		p.Name, p.Source, p.Pinned = new(choose(w, "", "plan", "café")), new(memory.SourceToolResult), new(w.chance(50))
	}
	if w.chance(10) {
		p.Aliases = new(choose(w, nil, []string{"c"}))
	}
	if w.chance(25) {
		p.Embedding = w.vector(w.dim)
	}
	if w.chance(15) {
		p.Vectors = map[string][]float32{"img": w.vector(imageDim)}
	}
	if w.chance(15) {
		p.ExpiresAt = new(choose(w, time.Time{}, w.clock.now().Add(time.Minute), w.clock.now()))
		p.EventTime = new(choose(w, time.Time{}, w.clock.now()))
	}
	if w.chance(15) {
		p.Importance, p.Confidence = new(w.rng.Float64()), new(w.rng.Float64())
	}
	p.AutoImportance = w.chance(10)
	return p
}
