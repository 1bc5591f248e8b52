package engine

import (
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/embed"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// servedEmbedder is an embedder of a server.
type servedEmbedder struct {
	*fakeEmbedder
	base string
}

func (a servedEmbedder) Base() string { return a.base }

// TestEmbedderOf: a database tells what made its vectors and where, and is opened with the
// embedder that is made of that. Without it, what has no vector says why.
func TestEmbedderOf(t *testing.T) {
	fs, ada := vfs.NewMem(), memory.Scope{User: "ada"}
	made := servedEmbedder{newFakeEmbedder(8), "https://models.example/v1"}
	asked := VectorModel{Dim: -1}
	of := func(e embed.Embedder) Options {
		return Options{EmbedderOf: func(m VectorModel) embed.Embedder {
			asked = m
			return e
		}}
	}
	db := openTest(t, fs, of(made))
	if asked != (VectorModel{}) {
		t.Errorf("of a new database: %+v", asked)
	}
	if s := mustStore(t, db.Memories(), memory.Memory{Scope: ada, Text: "tea"}); s.Pending {
		t.Errorf("%+v", s)
	}
	want := VectorModel{Model: made.Model(), Base: made.base, Dim: 8}
	if got := db.VectorModel(); got != want {
		t.Errorf("%+v", got)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}

	db = openTest(t, fs, of(made))
	if r := answerOf(t, db, memory.Query{Scope: ada, Text: "tea", Explain: true}); asked != want || r.Plan.Vector != memory.DefaultSpace || r.Unembedded != "" {
		t.Errorf("of %+v: %+v", asked, r)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}

	db = openTest(t, fs, of(nil))
	r := answerOf(t, db, memory.Query{Scope: ada, Text: "tea", Profile: memory.ProfileHybrid, Explain: true})
	if !strings.Contains(r.Unembedded, made.Model()) || r.Plan.Unembedded != r.Unembedded || len(r.Hits) != 1 {
		t.Errorf("without it: %+v", r)
	}
	if r := answerOf(t, db, memory.Query{Scope: ada, Text: "tea", Profile: memory.ProfileText}); r.Unembedded != "" {
		t.Errorf("a text needs no vector: %+v", r)
	}
	if s := mustStore(t, db.Memories(), memory.Memory{Scope: ada, Text: "coffee"}); !s.Pending || !strings.Contains(s.PendingWhy, made.Model()) {
		t.Errorf("%+v", s)
	}
	if s := mustStore(t, db.Memories(), memory.Memory{Scope: ada, Text: "milk", Embedding: make8(1)}); s.Pending {
		t.Errorf("%+v", s)
	}
	mustCheck(t, db, 3)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = openTest(t, fs, Options{Embedder: made})
	if n, err := db.EmbedPending(t.Context(), 0); n != 1 || err != nil {
		t.Errorf("%d embedded, error %v", n, err)
	}
}

// answerOf is the whole answer to a query.
func answerOf(t *testing.T, db *DB, q memory.Query) memory.Result {
	t.Helper()
	r, err := db.Memories().Recall(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func make8(first float32) []float32 { return []float32{first, 0, 0, 0, 0, 0, 0, 1} }
