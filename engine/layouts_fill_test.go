package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/entries"
	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// The databases of all layouts have lived from layoutStart to layoutEnd, and are
// looked at then, so that what has expired is the same for ever.
var (
	layoutStart = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	layoutEnd   = layoutStart.Add(24 * time.Hour)
)

// The owners of these databases.
var (
	layoutAda = memory.Scope{User: "ada", Agent: "coach", Run: "trip"}
	layoutBen = memory.Scope{User: "ben", Run: "work"}
)

// remembered is a memory by its ID.
type remembered struct {
	scope memory.Scope
	id    string
}

// layoutGone are memories that are no more, and whose histories still are.
var layoutGone = []remembered{
	{layoutAda, "deleted"},
	{layoutAda, "expired"},
	{layoutAda, "old-1"},
	{layoutBen, "scrap-0"},
	{layoutBen, "filler-3"},
	{layoutBen, "obsolete-2"},
}

// layoutEmbedder makes vectors of eight numbers of the letters of a text, and refuses
// texts about lanterns while it is weak.
type layoutEmbedder struct{ weak atomic.Bool }

func (e *layoutEmbedder) Dim() int      { return 8 }
func (e *layoutEmbedder) Model() string { return "letters" }

func (e *layoutEmbedder) Embed(_ context.Context, texts []string) ([][]float32, error) {
	all := make([][]float32, len(texts))
	for i, text := range texts {
		if e.weak.Load() && strings.Contains(text, "lantern") {
			return nil, errors.New("no words for lanterns")
		}
		all[i] = make([]float32, 8)
		for _, b := range []byte(text) {
			all[i][b%8] += float32(b)
		}
	}
	return all, nil
}

// layoutVector is a vector of the default space, another for each number.
func layoutVector(n int) []float32 {
	v := make([]float32, 8)
	for i := range v {
		v[i] = float32((n*(2*i+3)+i)%17) - 7.5
	}
	return v
}

// openLayout opens a database at a moment that does not pass, with a budget so small
// that chunks of the text index are soon full.
func openLayout(t *testing.T, dir string, at time.Time) *engine.DB {
	t.Helper()
	db, err := engine.OpenAsItIs(dir, &engine.Options{
		Embedder: &layoutEmbedder{}, MemoryBudget: 1 << 20, Clock: func() time.Time { return at },
	})
	if err != nil {
		t.Fatal(err)
	}
	return db
}

func closeLayout(t *testing.T, db *engine.DB) {
	t.Helper()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// filling writes a database at moments of its own.
type filling struct {
	t  *testing.T
	db *engine.DB
}

func (f filling) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f filling) store(m memory.Memory, o *memory.StoreOptions) memory.Stored {
	f.t.Helper()
	st, err := f.db.Memories().Store(f.t.Context(), m, o)
	f.must(err)
	return st
}

func (f filling) update(s memory.Scope, id string, p memory.Patch) {
	f.t.Helper()
	_, err := f.db.Memories().Update(f.t.Context(), s, id, p)
	f.must(err)
}

// fillLayout makes the database and packs it while it is open, as a crash would leave
// it: a part is in tables of the store, a part in its log only, and deletions by scope
// and filter are still to be carried out.
func fillLayout(t *testing.T, dir string) []byte {
	weak := &layoutEmbedder{}
	var at atomic.Int64
	open := func(d time.Duration) filling {
		at.Store(layoutStart.Add(d).UnixMilli())
		db, err := engine.OpenAsItIs(dir, &engine.Options{
			Embedder: weak, MemoryBudget: 1 << 20, Clock: func() time.Time { return time.UnixMilli(at.Load()).UTC() },
		})
		if err != nil {
			t.Fatal(err)
		}
		return filling{t, db}
	}
	f := open(0)
	f.fields()
	f.fillers()
	time.Sleep(2 * time.Second) // the full chunk is sealed in the background
	f.entries()
	at.Add(time.Hour.Milliseconds())
	f.changes()
	closeLayout(t, f.db)
	f = open(2 * time.Hour)
	weak.weak.Store(true)
	f.store(memory.Memory{ID: "pending", Scope: layoutAda, Text: "The lantern has no vector yet."}, nil)
	f.spaces()
	f.touches()
	var packed []byte
	f.must(f.db.View(t.Context(), func(*engine.Tx) error { // its state keeps the deletions from being carried out
		f.deletions()
		packed = pack(t, dir)
		return nil
	}))
	closeLayout(t, f.db)
	return packed
}

// fields stores memories that have between them each field and each type of metadata.
func (f filling) fields() {
	half, third := 0.5, 0.3
	f.store(memory.Memory{
		ID: "full", Scope: layoutAda, Role: memory.RoleTool, Kind: memory.KindFact, Source: memory.SourceWebSearch,
		Text: "Prefers tea – naïve 東京 – to coffee.", Name: "drinks", Aliases: []string{"tea", "beverages"},
		Metadata: map[string]any{
			"tag": "drink", "count": 42, "score": 0.25, "big": int64(9007199254740993), "done": true, "nothing": nil,
			"days": []any{"friday", 5, false}, "place": map[string]any{"city": "Ghent", "floor": -3},
		},
		Embedding: layoutVector(1), Vectors: map[string][]float32{"image": {0, 1, 0.5}},
		CreatedAt: layoutStart.AddDate(-1, 0, 0), EventTime: time.Date(1969, 7, 20, 20, 17, 40, 0, time.UTC),
		ExpiresAt: layoutStart.AddDate(10, 0, 0), Pinned: true, Importance: &half, Confidence: &third,
	}, nil)
	f.store(memory.Memory{ID: "plain", Scope: layoutAda, Text: "Has a train to Ghent on Friday."}, nil)
	f.store(memory.Memory{Scope: layoutAda, Text: "An ID of the database's own, at the harbour.", Role: memory.RoleAssistant}, nil)
	f.store(memory.Memory{ID: "note", Scope: layoutAda, Kind: memory.KindNote, Name: "packing", Text: "Pack the violin."}, nil)
	f.store(memory.Memory{ID: "silent", Scope: layoutBen, Embedding: layoutVector(5), Metadata: map[string]any{"tag": "drink", "count": 7}}, nil)
	f.store(memory.Memory{ID: "picture", Scope: layoutBen, Text: "A harbour at dusk.", Vectors: map[string][]float32{"image": {0, 1, 0}}}, nil)
	f.store(memory.Memory{ID: "expired", Scope: layoutAda, Text: "Tea is served until five.", ExpiresAt: layoutStart.Add(3 * time.Hour)}, nil)
	f.store(memory.Memory{ID: "deleted", Scope: layoutAda, Text: "Ghent is in France."}, nil)
	again := f.store(memory.Memory{Scope: layoutAda, Text: "Has a train to Ghent on Friday."}, nil)
	if !again.Deduplicated || again.ID != "plain" {
		f.t.Fatalf("the same text again: %+v", again)
	}
	f.store(memory.Memory{ID: "twice", Scope: layoutBen, Text: "A harbour at dusk."}, &memory.StoreOptions{NoDedup: true})
	for i := range 3 {
		s := layoutAda
		s.Run = fmt.Sprintf("old-%d", i)
		f.store(memory.Memory{ID: fmt.Sprintf("old-%d", i), Scope: s, Text: fmt.Sprintf("Said in old run %d of a lantern.", i)}, nil)
		f.store(memory.Memory{ID: fmt.Sprintf("obsolete-%d", i), Scope: layoutBen, Text: fmt.Sprintf("Obsolete remark number %d.", i), Metadata: map[string]any{"stale": i > 0}}, nil)
	}
}

// fillers are as many memories as fill a chunk of the text index, in one commit for
// each ten.
func (f filling) fillers() {
	for i := 0; i < 120; i += 10 {
		var batch []memory.Memory
		for n := i; n < i+10; n++ {
			batch = append(batch, memory.Memory{
				ID: fmt.Sprintf("filler-%d", n), Scope: layoutBen, Embedding: layoutVector(n + 10), CreatedAt: layoutStart.Add(time.Duration(n) * time.Second),
				Text:     fmt.Sprintf("Remark%d of word%d, phrase%d and term%d about the harbour.", n, n*7%50, n*11%60, n*13%70),
				Metadata: map[string]any{"count": n % 45},
			})
		}
		_, err := f.db.Memories().StoreBatch(f.t.Context(), batch, nil)
		f.must(err)
	}
}

// entries writes the key-value store.
func (f filling) entries() {
	kv, ctx := f.db.KV(), f.t.Context()
	ada, ben := memory.Owner{User: "ada", Agent: "coach"}, memory.Owner{User: "ben"}
	for _, e := range []struct {
		owner memory.Owner
		key   string
		value any
		ttl   time.Duration
	}{
		{ada, "cart", map[string]any{"tea": 2, "price": 3.75}, 0},
		{ada, "cart/draft", []any{nil, true, "x"}, 0},
		{ada, "later", "expires in a year", 365 * 24 * time.Hour},
		{ada, "soon", "expires within the day", time.Hour},
		{ada, "removed", 1, 0},
		{ben, "cart", "of another owner", 0},
		{ben, "ключ", int64(9007199254740993), 0},
	} {
		_, err := kv.Put(ctx, e.owner, e.key, e.value, &entries.PutOptions{TTL: e.ttl})
		f.must(err)
	}
	_, err := kv.Put(ctx, ben, "cart", "put again", nil)
	f.must(err)
	f.must(kv.Delete(ctx, ada, "removed"))
}

// changes updates memories in each way, in the sealed chunk and out of it.
func (f filling) changes() {
	text, other := "Has a train to Ghent on Saturday.", "Remark with a violin in it."
	f.update(layoutAda, "plain", memory.Patch{Text: &text})
	f.update(layoutBen, "filler-7", memory.Patch{Text: &other, Embedding: layoutVector(200)})
	f.update(layoutBen, "picture", memory.Patch{Metadata: &map[string]any{"tag": "view"}, Vectors: map[string][]float32{"image": {0.2, 0.9, 0}}})
	pinned, never := true, time.Time{}
	f.update(layoutBen, "filler-8", memory.Patch{Pinned: &pinned, ExpiresAt: &never})
	st := f.store(memory.Memory{ID: "note", Scope: layoutAda, Kind: memory.KindNote, Name: "packing", Text: "Pack the violin and the bow."}, &memory.StoreOptions{Upsert: true})
	if !st.Updated {
		f.t.Fatalf("an upsert: %+v", st)
	}
}

// spaces makes spaces that are not compared by cosine.
func (f filling) spaces() {
	f.must(f.db.CreateSpace(f.t.Context(), engine.SpaceConfig{Name: "place", Dim: 2, Metric: engine.MetricL2, Model: "map"}))
	f.store(memory.Memory{ID: "placed", Scope: layoutBen, Text: "Stood on the bridge.", Vectors: map[string][]float32{"place": {51, 3.7}}}, nil)
}

// deletions deletes one memory, a run, what a filter finds, and several in one
// transaction.
func (f filling) deletions() {
	m, ctx := f.db.Memories(), f.t.Context()
	f.must(m.Delete(ctx, layoutAda, "deleted"))
	f.must(m.Delete(ctx, layoutBen, "filler-3"))
	f.store(memory.Memory{ID: "old-1", Scope: layoutAda, Text: "Moved under an ID that another run has."}, &memory.StoreOptions{Upsert: true})
	n, err := m.DeleteScope(ctx, memory.Scope{User: "ada", Run: "old-0"})
	if f.must(err); n != 1 {
		f.t.Fatalf("%d memories of the run deleted", n)
	}
	n, err = m.DeleteMatching(ctx, memory.DeleteQuery{Scope: memory.Scope{User: "ben"}, Filter: filter.Eq("stale", true)})
	if f.must(err); n != 2 {
		f.t.Fatalf("%d stale memories deleted", n)
	}
	f.must(f.db.Update(ctx, func(tx *engine.Tx) error {
		_, err := tx.Memories().Store(ctx, memory.Memory{ID: "scrap-0", Scope: layoutBen, Text: "Lives for a moment."}, nil)
		if err != nil {
			return err
		}
		return tx.Memories().Delete(ctx, layoutBen, "scrap-0")
	}))
}

// touches recalls memories, which counts.
func (f filling) touches() {
	for _, q := range []memory.Query{{Scope: layoutAda, Text: "train ghent"}, {Scope: layoutAda, Text: "violin train"}, {Scope: layoutBen, Text: "harbour dusk"}} {
		q.Profile, q.Limit = memory.ProfileText, 2
		_, err := f.db.Memories().Recall(f.t.Context(), q)
		f.must(err)
	}
	f.must(f.db.FlushTouches(f.t.Context()))
}

// goOn writes to a database of an older layout: what is stored already is known, new
// memories, changes of old ones and entries are taken, and what waits for a vector
// gets it.
func goOn(t *testing.T, db *engine.DB) {
	t.Helper()
	f, ctx := filling{t, db}, t.Context()
	known := f.store(memory.Memory{Scope: layoutAda, Text: "Has a train to Ghent on Saturday."}, nil)
	if !known.Deduplicated || known.ID != "plain" {
		t.Errorf("an old text again: %+v", known)
	}
	if n, err := db.EmbedPending(ctx, 10); n != 1 || err != nil {
		t.Errorf("%d memories embedded, %v", n, err)
	}
	added := f.store(memory.Memory{Scope: layoutAda, Text: "Stored by a later program, with an oboe.", Vectors: map[string][]float32{"image": {1, 0, 0}}}, nil)
	text := "Remark with an oboe in it."
	f.update(layoutBen, "filler-8", memory.Patch{Text: &text})
	f.must(db.Memories().Delete(ctx, layoutBen, "filler-9"))
	_, err := db.KV().Put(ctx, memory.Owner{User: "ben"}, "later", "put by a later program", nil)
	f.must(err)
	hits := recall(t, db, memory.Query{AllScopes: true, Text: "oboe", Profile: memory.ProfileText})
	if len(hits) != 2 || hits[0].ID != added.ID && hits[1].ID != added.ID {
		t.Errorf("what was added is not found: %q", hitIDs(hits))
	}
}
