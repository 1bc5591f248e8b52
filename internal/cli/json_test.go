package cli

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/usage"
)

// TestMarshalled: what a program marshals has the keys and values of an export, and an import
// takes it: the copy exports the same.
func TestMarshalled(t *testing.T) {
	db, copied := inMemory(t), inMemory(t)
	ctx, ada := t.Context(), memory.Scope{User: "ada", Run: "r"}
	stored, err := db.Memories().Store(ctx, memory.Memory{
		Scope: ada, Text: "tea", Embedding: []float32{1, .5}, Metadata: map[string]any{"n": json.Number("12345678901234567890")}, Pinned: true,
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	m, err := db.Memories().GetWithVectors(ctx, ada, stored.ID)
	if err != nil {
		t.Fatal(err)
	}
	own, record := keysOf(t, m), keysOf(t, exchange.NewRecord(m))
	if !reflect.DeepEqual(own, record) {
		t.Errorf("a memory is\n%v\nand its record\n%v", own, record)
	}
	entry, err := db.KV().Put(ctx, ada.Owner(), "k", []byte(`{"page":4}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	agent, err := db.Usage().AddAgent(ctx, usage.Agent{ID: "coach", Name: "The coach"})
	if err != nil {
		t.Fatal(err)
	}
	call, err := db.Usage().Add(ctx, usage.Record{Owner: memory.Owner{Agent: "coach"}, Model: "m", PromptTokens: 3}, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.Graph().Write(ctx, ada.Owner(), graph.Batch{
		Entities:  []graph.Entity{{ID: "e", Type: "person"}, {ID: "f"}},
		Relations: []graph.Relation{{ID: "r", From: "e", Type: "knows", To: "f"}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var first, second, lines bytes.Buffer
	if _, err := exchange.Export(ctx, db, &first, &exchange.ExportOptions{}); err != nil {
		t.Fatal(err)
	}
	held := []any{agent, m, entry, call}
	for line := range strings.Lines(first.String()) {
		switch {
		case strings.HasPrefix(line, `{"type":"entity"`):
			held = append(held, readLine[graph.Entity](t, line))
		case strings.HasPrefix(line, `{"type":"relation"`):
			held = append(held, readLine[graph.Relation](t, line))
		}
	}
	if len(held) != 7 {
		t.Fatalf("%d things of\n%s", len(held), first.String())
	}
	enc := json.NewEncoder(&lines)
	for _, v := range held {
		if err := enc.Encode(v); err != nil {
			t.Fatal(err)
		}
	}
	report, err := exchange.ImportJSONL(ctx, copied, strings.NewReader(lines.String()), nil)
	if err != nil || report.Skipped > 0 {
		t.Fatalf("%+v, error %v of\n%s", report, err, lines.String())
	}
	if _, err := exchange.Export(ctx, copied, &second, &exchange.ExportOptions{}); err != nil {
		t.Fatal(err)
	}
	if first.String() != second.String() {
		t.Errorf("exported\n%s\nand of the copy\n%s", first.String(), second.String())
	}
}

// keysOf is the JSON of a value as a map.
func keysOf(t *testing.T, v any) map[string]any {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var keys map[string]any
	if err := json.Unmarshal(b, &keys); err != nil {
		t.Fatal(err)
	}
	return keys
}

// readLine reads a line into what a program holds.
func readLine[T any](t *testing.T, line string) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(line), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func inMemory(t *testing.T) *engine.DB {
	t.Helper()
	db, err := engine.OpenMemory(nil)
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
