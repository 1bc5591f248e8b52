package engine

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/notes"
)

// wantBack marshals a value, reads it again, and wants it as it was.
func wantBack[T any](t *testing.T, v T) map[string]any {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var back T
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatalf("%s: %v", b, err)
	}
	if !reflect.DeepEqual(v, back) {
		t.Errorf("%T\n%+v\nis read back as\n%+v\nfrom %s", v, v, back, b)
	}
	var keys map[string]any
	if err := json.Unmarshal(b, &keys); err != nil {
		t.Fatal(err)
	}
	return keys
}

// TestJSON: what the database returns can be marshalled and read again, and loses nothing.
func TestJSON(t *testing.T) {
	db := openTest(t, vfs.NewMem(), Options{})
	ada, at := memory.Scope{User: "ada", Agent: "coach", Run: "r"}, time.Date(2026, 11, 20, 8, 0, 0, 5e6, time.UTC)
	stored := mustStore(t, db.Memories(), memory.Memory{
		Scope: ada, Role: memory.RoleTool, Kind: memory.KindFact, Source: memory.SourceWebSearch, Text: "tea <b>", Name: "drink", Aliases: []string{"cup"},
		Metadata:  map[string]any{"n": json.Number("12345678901234567890.123"), "in": map[string]any{"a": []any{"b", nil, true}}},
		Embedding: []float32{1, .5}, Vectors: map[string][]float32{"image": {.25}}, EventTime: at, ExpiresAt: at.AddDate(9, 0, 0), Pinned: true,
	})
	m, err := db.Memories().GetWithVectors(t.Context(), ada, stored.ID)
	if err != nil {
		t.Fatal(err)
	}
	if keys := wantBack(t, m); keys["type"] != memory.TypeMemory || keys["user"] != "ada" || keys["event_time"] != "2026-11-20T08:00:00.005Z" || keys["pinned"] != true {
		t.Errorf("%v", keys)
	}
	wantBack(t, memory.Memory{Scope: memory.Scope{Run: "r"}, Text: "bare"})
	r := answerOf(t, db, memory.Query{Scope: ada, Text: "tea", Highlight: true})
	if len(r.Hits) != 1 || len(r.Hits[0].Spans) == 0 {
		t.Fatalf("%+v", r.Hits)
	}
	if keys := wantBack(t, r.Hits[0]); keys["score"] != r.Hits[0].Score || keys["text"] != "tea <b>" || keys["parts"] == nil {
		t.Errorf("%v", keys)
	}
	if _, err := db.Notes().Add(t.Context(), ada.Owner(), "deploy", "at six", memory.KindNote); err != nil {
		t.Fatal(err)
	}
	n, err := db.Notes().Alias(t.Context(), ada.Owner(), "deploy", "release")
	if err != nil {
		t.Fatal(err)
	}
	if keys := wantBack(t, n); keys["type"] != notes.TypeNote || keys["memory_id"] != n.MemoryID || keys["content"] != "at six" {
		t.Errorf("%v", keys)
	}
	found, err := db.Notes().Search(t.Context(), ada.Owner(), "six", 1)
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	if keys := wantBack(t, found[0]); keys["score"] != found[0].Score || keys["name"] != "deploy" {
		t.Errorf("%v", keys)
	}
}

// TestLacking: calls by an ID mean no agent where they are told so, and any where not.
func TestLacking(t *testing.T) {
	db := openTest(t, vfs.NewMem(), Options{})
	m, ada := db.Memories(), memory.Scope{User: "ada"}
	mustStore(t, m, memory.Memory{ID: "m1", Scope: ada, Text: "hers"})
	mustStore(t, m, memory.Memory{ID: "m1", Scope: memory.Scope{User: "ada", Agent: "coach"}, Text: "the coach's"})
	_, err := m.Get(t.Context(), ada, "m1")
	wantError(t, "get of any agent", err, memory.ErrAmbiguous)
	alone := m.Lacking(memory.Lack{Agent: true})
	if got, err := alone.Get(t.Context(), ada, "m1"); err != nil || got.Text != "hers" {
		t.Errorf("%q, error %v", got.Text, err)
	}
	text := "hers alone"
	if got, err := alone.Update(t.Context(), ada, "m1", memory.Patch{Text: &text}); err != nil || got.Agent != "" {
		t.Errorf("%+v, error %v", got, err)
	}
	if all, err := alone.History(t.Context(), ada, "m1"); err != nil || len(all) != 2 {
		t.Errorf("%d events, error %v", len(all), err)
	}
	if err := alone.Delete(t.Context(), ada, "m1"); err != nil {
		t.Error(err)
	}
	if got, err := m.Get(t.Context(), ada, "m1"); err != nil || got.Text != "the coach's" {
		t.Errorf("%q, error %v", got.Text, err)
	}
	_, err = m.Lacking(memory.Lack{User: true}).Get(t.Context(), memory.Scope{Agent: "coach"}, "m1")
	wantError(t, "get without a user", err, memory.ErrNotFound)
}
