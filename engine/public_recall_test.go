package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/entries"
	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/race"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// What a program sees of recalls, embedders and the stores beside each other.

var researcher = memory.Owner{Agent: "researcher"}

func (d *publicDB) put(o memory.Owner, key, value string, opts *entries.PutOptions) entries.Entry {
	d.t.Helper()
	e, err := d.KV().Put(d.t.Context(), o, key, json.RawMessage(value), opts)
	if err != nil {
		d.t.Fatal(err)
	}
	return e
}

// value is what lies under a key, empty where nothing does.
func (d *publicDB) value(o memory.Owner, key string) string {
	d.t.Helper()
	e, found, err := d.KV().Lookup(d.t.Context(), o, key)
	if err != nil || found != (len(e.Value) > 0) {
		d.t.Fatal(e, found, err)
	}
	return string(e.Value)
}

// Opening creates a database that is not there.
func TestOpenCreates(t *testing.T) {
	dir := t.TempDir() + "/new/memory"
	if there, err := engine.Exists(dir); there || err != nil {
		t.Fatal(there, err)
	}
	db, err := engine.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if there, err := engine.Exists(dir); !there || err != nil {
		t.Error(there, err)
	}
}

// One commit covers a key and a memory,
// or neither.
func TestStoresShareOneCommit(t *testing.T) {
	d := newPublicDB(t, engine.Options{})
	both := func(fail error) error {
		return d.Update(t.Context(), func(tx *engine.Tx) error {
			if _, err := tx.KV().Put(t.Context(), researcher, "reports_count", 1, nil); err != nil {
				return err
			}
			if _, err := tx.Memories().Store(t.Context(), memory.Memory{Scope: memory.Scope{Agent: "researcher"}, Text: "wrote a report"}, nil); err != nil {
				return err
			}
			return fail
		})
	}
	failed := errors.New("no")
	d.wantErr(both(failed), failed)
	if d.value(researcher, "reports_count") != "" || d.all(memory.Scope{Agent: "researcher"}) != nil {
		t.Error("half of a transaction that failed is there")
	}
	before := d.LSN()
	if err := both(nil); err != nil || d.LSN() != before+1 {
		t.Error(err, d.LSN())
	}
	if d.value(researcher, "reports_count") != "1" {
		t.Error("the key is missing")
	}
	d.wantAll(memory.Scope{Agent: "researcher"}, "wrote a report")
}

// A reader sees the state before a write that runs,
// and does not wait for it.
func TestReadsBesideAWrite(t *testing.T) {
	d := newPublicDB(t, engine.Options{})
	d.put(researcher, "k", "1", nil)
	err := d.Update(t.Context(), func(tx *engine.Tx) error {
		if _, err := tx.KV().Put(t.Context(), researcher, "k", 2, nil); err != nil {
			return err
		}
		if got := d.value(researcher, "k"); got != "1" {
			t.Errorf("read %s beside the write", got)
		}
		return nil
	})
	if got := d.value(researcher, "k"); err != nil || got != "2" {
		t.Errorf("read %s after it, %v", got, err)
	}
}

// A writer waits for another one as long
// as LockWait says, and then fails.
func TestBusyTimeout(t *testing.T) {
	d := newPublicDB(t, engine.Options{LockWait: 200 * time.Millisecond})
	err := d.Update(t.Context(), func(*engine.Tx) error {
		done := make(chan error)
		go func() {
			_, err := d.KV().Put(context.Background(), researcher, "k", 1, nil)
			done <- err
		}()
		d.wantErr(<-done, fault.ErrBusy)
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// fragment is a text of an agent from a source.
func fragment(agent, text string, source memory.Source) memory.Memory {
	return memory.Memory{Scope: memory.Scope{Agent: agent}, Text: text, Source: source, Kind: memory.KindFragment}
}

// A fragment has one of six sources, which tells where it came from.
func TestStoreWithASource(t *testing.T) {
	d := newPublicDB(t, engine.Options{})
	id := d.add(fragment("a", "The user prefers concise explanations without jargon.", memory.SourceUserPreference))
	if m := d.get(id); m.Source != memory.SourceUserPreference || m.Kind != memory.KindFragment || m.Embedding != nil {
		t.Errorf("got %+v", m)
	}
	m := fragment("a", "With a vector.", memory.SourceToolResult)
	m.Embedding = []float32{0.5, 1}
	if got := d.get(d.add(m)); !slices.Equal(got.Embedding, m.Embedding) {
		t.Errorf("vector %v", got.Embedding)
	}
	for _, source := range []memory.Source{
		memory.SourceUserMessage, memory.SourceAgentResponse, memory.SourceToolResult,
		memory.SourceWebSearch, memory.SourceUserPreference, memory.SourceSystemNote,
	} {
		d.add(fragment("b", "From "+string(source), source))
		d.filtered(memory.Scope{Agent: "b"}, "from", `{"field":"source","operator":"eq","value":"`+string(source)+`"}`, "From "+string(source))
	}
}

// A recall by agent and source has the best matches of these alone.
func TestRecallWithAFilter(t *testing.T) {
	d := newPublicDB(t, engine.Options{})
	d.add(fragment("a", "Company XYZ launched a new product on 2025-03-01.", memory.SourceWebSearch))
	d.add(fragment("a", "The user asked about the product launch.", memory.SourceUserMessage))
	d.add(fragment("b", "Another agent knows of a product launch.", memory.SourceWebSearch))
	for _, word := range []string{"one", "two", "three", "four", "five", "six"} {
		d.add(fragment("a", "Nothing but a launch, number "+word, memory.SourceWebSearch))
	}
	q := memory.Query{
		Scope: memory.Scope{Agent: "a"}, Text: "product launch", Limit: 5, Profile: memory.ProfileSubstrate,
		Filter: filter.Eq("source", "web_search"),
	}
	got := d.search(q)
	if len(got) != 5 || got[0] != "Company XYZ launched a new product on 2025-03-01." {
		t.Errorf("found %q", got)
	}
	for _, text := range got[1:] {
		if !strings.HasPrefix(text, "Nothing but a launch") {
			t.Errorf("found %q", text)
		}
	}
}

func (d *publicDB) wantOrder(text string, want ...string) {
	d.t.Helper()
	q := memory.Query{Scope: memory.Scope{Agent: "a"}, Text: text, Profile: memory.ProfileSubstrate, NoTouch: true}
	if got := d.search(q); !slices.Equal(got, want) {
		d.t.Errorf("%q found %q, want %q", text, got, want)
	}
}

// Better matches of the words rank higher.
func TestRecallByKeywords(t *testing.T) {
	d := newPublicDB(t, engine.Options{})
	d.add(fragment("a", "product of the week", ""))
	d.add(fragment("a", "product launch party", ""))
	d.add(fragment("a", "a walk in the park", ""))
	d.wantOrder("product launch", "product launch party", "product of the week")
}

// Of equal matches the newer ranks higher.
func TestRecallByRecency(t *testing.T) {
	d := newPublicDB(t, engine.Options{})
	d.add(fragment("a", "launch alpha", ""))
	d.advance(30 * 24 * time.Hour)
	d.add(fragment("a", "launch omega", ""))
	d.wantOrder("launch", "launch omega", "launch alpha")
}

// What is recalled more often ranks higher,
// until that fades.
func TestRecallByAccess(t *testing.T) {
	d := newPublicDB(t, engine.Options{})
	older := d.add(fragment("a", "launch alpha", ""))
	d.add(fragment("a", "launch omega", ""))
	d.wantOrder("launch", "launch omega", "launch alpha")
	for range 5 {
		d.finds(memory.Query{Scope: memory.Scope{Agent: "a"}, Text: "alpha", Profile: memory.ProfileText}, "launch alpha")
	}
	if m := d.get(older); m.AccessCount != 5 || !m.LastAccessed.Equal(d.now()) {
		t.Errorf("accessed %d times, last at %v", m.AccessCount, m.LastAccessed)
	}
	d.wantOrder("launch", "launch alpha", "launch omega")
	part := func() float64 {
		r, err := d.Memories().Recall(t.Context(), memory.Query{Scope: memory.Scope{Agent: "a"}, Text: "launch", Profile: memory.ProfileSubstrate, NoTouch: true})
		if err != nil || r.Hits[0].ID != older {
			t.Fatal(r, err)
		}
		return r.Hits[0].Parts.Access
	}
	fresh := part()
	d.advance(24 * time.Hour)
	if later := part(); math.Abs(later-0.95*fresh) > 1e-9 || fresh == 0 {
		t.Errorf("the access counts %v, and %v a day later", fresh, later)
	}
}

// A recall by a vector has the memories whose vectors are most alike by cosine.
func TestRecallWithEmbedding(t *testing.T) {
	d := newPublicDB(t, engine.Options{})
	for text, v := range map[string][]float32{"east": {1, 0}, "north": {0, 1}, "north-east": {1, 1}, "west": {-1, 0}} {
		m := fragment("a", text, "")
		m.Embedding = v
		d.add(m)
	}
	q := memory.Query{Scope: memory.Scope{Agent: "a"}, Text: "product launch", Embedding: []float32{0.2, 5}, Limit: 3, Profile: memory.ProfileSubstrate}
	if got := d.search(q); !slices.Equal(got, []string{"north", "north-east", "east"}) {
		t.Errorf("found %q", got)
	}
	r, err := d.Memories().Recall(t.Context(), q)
	if err != nil || math.Abs(r.Hits[0].Score-5/math.Hypot(0.2, 5)) > 1e-6 {
		t.Errorf("the cosine is %v, %v", r.Hits[0].Score, err)
	}
}

// axes is an embedding driver: a dimension for each of its words.
type axes []string

func (a axes) Dim() int      { return len(a) }
func (a axes) Model() string { return "axes" }

func (a axes) Embed(_ context.Context, texts []string) ([][]float32, error) {
	out := make([][]float32, len(texts))
	for i, text := range texts {
		out[i] = make([]float32, len(a))
		for j, word := range a {
			out[i][j] = 0.01
			if strings.Contains(text, word) {
				out[i][j] = 1
			}
		}
	}
	return out, nil
}

// An embedder embeds what is stored and what is asked.
func TestEmbeddingDriver(t *testing.T) {
	d := newPublicDB(t, engine.Options{Embedder: axes{"dog", "cat", "hound"}})
	d.add(fragment("a", "my dog, a hound", ""))
	d.add(fragment("a", "the cat", ""))
	d.finds(memory.Query{Scope: memory.Scope{Agent: "a"}, Text: "a hound?", Limit: 1, Profile: memory.ProfileVector}, "my dog, a hound")
	if m := d.get(d.add(fragment("a", "one more dog", ""))); len(m.Embedding) != 3 {
		t.Errorf("vector %v", m.Embedding)
	}
	m := fragment("a", "of another model", "")
	m.Embedding = []float32{1, 2}
	_, err := d.Memories().Store(t.Context(), m, nil)
	if err == nil || !strings.Contains(err.Error(), "2 dimensions") || !strings.Contains(err.Error(), "3") {
		t.Errorf("a vector of another dimension: %v", err)
	}
}

// Without an embedder, text finds what is meant.
func TestRecallWithoutADriver(t *testing.T) {
	d := newPublicDB(t, engine.Options{})
	d.add(fragment("a", "The kiln arrived", ""))
	d.add(fragment("a", "The train left", ""))
	d.wantOrder("kilns", "The kiln arrived")
	d.finds(memory.Query{Scope: memory.Scope{Agent: "a"}, Text: "kilns"}, "The kiln arrived")
}

// What a fragment has from the beginning. An importance that is
// not given is computed; 1.0 can be given.
func TestFragmentSchema(t *testing.T) {
	d := newPublicDB(t, engine.Options{})
	m := d.get(d.add(fragment("a", "The kiln arrived", memory.SourceSystemNote)))
	if m.ID == "" || m.Agent != "a" || m.Importance == nil || !m.AutoImportance || m.AccessCount != 0 || !m.CreatedAt.Equal(d.now()) {
		t.Errorf("got %+v", m)
	}
	given := fragment("a", "The train left", "")
	given.Importance = new(1.0)
	if m := d.get(d.add(given)); *m.Importance != 1 || m.AutoImportance {
		t.Errorf("importance %v", *m.Importance)
	}
}

// An agent's fragments go at once with it, and are not found.
func TestDeletingAnAgent(t *testing.T) {
	d := newPublicDB(t, engine.Options{})
	d.add(fragment("a", "The kiln arrived", ""))
	d.add(fragment("b", "The kiln left", ""))
	if n, err := d.Memories().DeleteScope(t.Context(), memory.Scope{Agent: "a"}); n != 1 || err != nil {
		t.Error(n, err)
	}
	d.finds(memory.Query{Scope: memory.Scope{Agent: "a"}, Text: "kiln"})
	d.finds(memory.Query{AllScopes: true, Text: "kiln"}, "The kiln left")
}

// batches is an embedding driver that counts its calls and what they embed.
type batches struct {
	axes
	calls, texts int
}

func (b *batches) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	b.calls, b.texts = b.calls+1, b.texts+len(texts)
	return b.axes.Embed(ctx, texts)
}

// A batch of memories is embedded by one call,
// and the driver's dimensions are those of the space.
func TestEmbedBatch(t *testing.T) {
	driver := &batches{axes: axes{"dog", "cat"}}
	d := newPublicDB(t, engine.Options{Embedder: driver})
	var batch []memory.Memory
	for i := range 20 {
		batch = append(batch, fragment("a", fmt.Sprint("a dog or a cat, number ", i), ""))
	}
	if _, err := d.Memories().StoreBatch(t.Context(), batch, nil); err != nil {
		t.Fatal(err)
	}
	if driver.calls != 1 || driver.texts != len(batch) {
		t.Errorf("%d calls for %d texts", driver.calls, driver.texts)
	}
	s, err := d.Stats(t.Context())
	if err != nil || s.Vectors != 20 || len(s.Spaces) != 1 || s.Spaces[0].Dim != driver.Dim() || s.Spaces[0].Model != "axes" {
		t.Errorf("stats %+v, %v", s, err)
	}
}

// The vectors of the newest 10,000 texts are kept, and no others.
func TestEmbeddingCacheHoldsTheNewest(t *testing.T) {
	race.Sequential(t)
	const cached = 10_000
	driver := &batches{axes: axes{"dog"}}
	d := newPublicDB(t, engine.Options{Embedder: driver})
	var batch []memory.Memory
	for i := range cached + 1 {
		batch = append(batch, fragment("a", fmt.Sprint("text ", i), ""))
	}
	if _, err := d.Memories().StoreBatch(t.Context(), batch, nil); err != nil {
		t.Fatal(err)
	}
	ask := func(text string) int {
		before := driver.texts
		d.search(memory.Query{Scope: memory.Scope{Agent: "a"}, Text: text, Profile: memory.ProfileVector, NoTouch: true})
		return driver.texts - before
	}
	if n := ask(fmt.Sprint("text ", cached)); n != 0 {
		t.Errorf("the newest of %d was embedded again", cached+1)
	}
	if n := ask("text 1"); n != 0 {
		t.Error("the oldest but one was embedded again")
	}
	if n := ask("text 0"); n != 1 {
		t.Errorf("what is beyond the %d was embedded %d times", cached, n)
	}
}

// Any number of goroutines use one database, and none waits
// for another's transaction to read.
func TestManyAgentsAtOnce(t *testing.T) {
	d := newPublicDB(t, engine.Options{})
	const agents, each = 8, 10
	done := make(chan error)
	for a := range agents {
		go func() {
			name, err := fmt.Sprint("agent", a), error(nil)
			for i := range each {
				_, e := d.Memories().Store(context.Background(), fragment(name, fmt.Sprint("note ", i), ""), nil)
				_, f := d.KV().Put(context.Background(), memory.Owner{Agent: name}, "notes", i+1, nil)
				r, g := d.Memories().Recall(context.Background(), memory.Query{Scope: memory.Scope{Agent: name}, Text: "note", Limit: 100})
				if err = errors.Join(err, e, f, g); g == nil && len(r.Hits) != i+1 {
					err = errors.Join(err, fmt.Errorf("%s recalls %d of %d", name, len(r.Hits), i+1))
				}
			}
			done <- err
		}()
	}
	for range agents {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	for a := range agents {
		if got := d.value(memory.Owner{Agent: fmt.Sprint("agent", a)}, "notes"); got != fmt.Sprint(each) {
			t.Errorf("agent %d counted %s", a, got)
		}
	}
}
