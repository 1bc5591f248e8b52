package exchange

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/engine"
)

func openAt(t *testing.T, now *time.Time) *engine.DB {
	t.Helper()
	db, err := engine.Open("db", &engine.Options{FS: vfs.NewMem(), Clock: func() time.Time { return *now }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func export(t *testing.T, db *engine.DB, o *ExportOptions) string {
	t.Helper()
	var b bytes.Buffer
	report, err := Export(t.Context(), db, &b, o)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(b.String(), "\n"); n != report.Memories+report.Entries {
		t.Errorf("%d lines, reported %+v", n, report)
	}
	return b.String()
}

// fill stores memories of every shape, changes some, deletes some, recalls some.
func fill(t *testing.T, db *engine.DB, now *time.Time) {
	rng := rand.New(rand.NewPCG(1, 2))
	ctx := context.Background()
	for i := range 60 {
		*now = now.Add(time.Second)
		m := engine.Memory{
			ID: fmt.Sprint("m", i), Scope: engine.Scope{User: []string{"ada", "bob"}[i%2], Run: []string{"", "r"}[i/2%2]},
			Role: engine.RoleAssistant, Kind: engine.KindFragment, Source: "web_search",
			Text: fmt.Sprintf("tea <b>&amp; \u2028 %d", i), Metadata: map[string]any{"n": json.Number("12345678901234567890.5"), "deep": map[string]any{"l": []any{1, nil, "x"}}},
			Pinned: i%3 == 0, EventTime: *now, AccessCount: uint64(i % 4),
		}
		if i%4 == 0 {
			m.Embedding = []float32{rng.Float32(), -1e-30, 3.4e38}
			m.Vectors = map[string][]float32{"other": {1, rng.Float32()}}
		}
		if i%5 == 0 {
			m.Importance, m.Confidence = new(rng.Float64()), new(rng.Float64())
		}
		if _, err := db.Memories().Store(ctx, m, nil); err != nil {
			t.Fatal(err)
		}
	}
	for i := 0; i < 60; i += 7 {
		*now = now.Add(time.Second)
		text := fmt.Sprint("coffee ", i)
		if _, err := db.Memories().Update(ctx, engine.Scope{}, fmt.Sprint("m", i), engine.Patch{Text: &text}); err != nil {
			t.Fatal(err)
		}
		if err := db.Memories().Delete(ctx, engine.Scope{}, fmt.Sprint("m", i+1)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := db.Memories().Recall(ctx, engine.Query{Scope: engine.Scope{User: "ada"}, Text: "tea"}); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		o := engine.Owner{User: []string{"ada", ""}[i%2], Agent: []string{"", "planner"}[i%2]}
		opts := &engine.PutOptions{}
		if i%3 == 0 {
			opts.TTL = time.Hour
		}
		if _, err := db.KV().Put(ctx, o, fmt.Sprint("k", i), json.RawMessage(`{"n": 12345678901234567890}`), opts); err != nil {
			t.Fatal(err)
		}
	}
}

// TestExportIsLossless: export, import into a new database, export again: the
// same bytes; and importing again changes nothing.
func TestExportIsLossless(t *testing.T) {
	now := time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)
	db := openAt(t, &now)
	fill(t, db, &now)
	first := export(t, db, nil)
	later := now.Add(30 * time.Minute)
	other := openAt(t, &later)
	for round := range 2 {
		report, err := ImportJSONL(t.Context(), other, strings.NewReader(first), &Options{Strict: true})
		if err != nil || report.Skipped > 0 || report.Updated > 0 || (round == 1) != (report.Stored == 0) {
			t.Fatalf("round %d: %+v, %v", round, report, err)
		}
		if second := export(t, other, nil); second != first {
			t.Fatalf("round %d:\n%s\nwant\n%s", round, second, first)
		}
	}
	r, err := other.Check(t.Context())
	if err != nil || !r.OK {
		t.Error(r, err)
	}
}

// TestExportOfAPart: scope and filter choose memories, and then no entries come
// along.
func TestExportOfAPart(t *testing.T) {
	now := time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)
	db := openAt(t, &now)
	fill(t, db, &now)
	out := export(t, db, &ExportOptions{Scope: engine.Scope{User: "ada"}, Filter: engine.Eq{Field: "pinned", Value: true}})
	n := 0
	for line := range strings.Lines(out) {
		var r Record
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		if r.Type != TypeMemory || r.User != "ada" || !r.Pinned {
			t.Errorf("exported %s", line)
		}
		n++
	}
	if n == 0 {
		t.Error("nothing was exported")
	}
}
