package engine_test

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/entries"
	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// The lines of a dump have types of their own, not the engine's: a field that a later
// engine adds is not in what an older one wrote.
type (
	memoryLine struct {
		ID, User, Agent, Run, Role, Kind, Source, Text, Name, Hash string

		Seq                                        uint64
		Aliases                                    []string
		Metadata                                   map[string]any
		Embedding                                  []float32
		Vectors                                    map[string][]float32
		Created, Updated, Event, Expires, Accessed string
		Pinned, AutoImportance                     bool
		Importance, Confidence                     *float64
		Accesses                                   uint64
	}
	historyLine struct {
		ID, Memory, User, Agent, Run, Event, Time string

		Old, New *string
		Seq, LSN uint64
		Deleted  bool
	}
	entryLine struct {
		User, Agent, Key, Updated, Expires string

		Value   json.RawMessage
		Version uint64
	}
	answerLine struct {
		Question string
		IDs      []string
	}
)

// dump writes all that is in a database as lines of JSON, by public calls alone.
func dump(t *testing.T, db *engine.DB) string {
	t.Helper()
	var b strings.Builder
	enc := json.NewEncoder(&b)
	line := func(kind string, v any) {
		if err := enc.Encode(map[string]any{kind: v}); err != nil {
			t.Fatal(err)
		}
	}
	s := db.Settings()
	line("settings", map[string]any{"ID": s.ID, "Language": s.Language, "IndexedText": s.IndexedText, "Created": instant(s.CreatedAt)})
	gone := slices.Clone(layoutGone)
	for m, err := range db.Memories().All(t.Context(), memory.ListQuery{AllScopes: true, WithVectors: true}) {
		if err != nil {
			t.Fatal(err)
		}
		line("memory", lineOf(&m))
		gone = append(gone, remembered{m.Scope, m.ID})
	}
	for _, r := range gone {
		entries, err := db.Memories().History(t.Context(), r.scope, r.id)
		if err != nil {
			t.Fatalf("history of %s: %v", r.id, err)
		}
		for _, h := range entries {
			if r.id == "expired" && h.Event == memory.EventDelete {
				continue // it is removed in the background, at any time
			}
			line("history", historyLine{
				ID: h.ID, Memory: h.MemoryID, User: h.Scope.User, Agent: h.Scope.Agent, Run: h.Scope.Run,
				Event: string(h.Event), Time: instant(h.Time), Old: h.OldText, New: h.NewText, Seq: h.Seq, LSN: h.LSN, Deleted: h.IsDeleted,
			})
		}
	}
	dumpEntries(t, db, line)
	dumpAnswers(t, db, line)
	return b.String()
}

func lineOf(m *memory.Memory) memoryLine {
	return memoryLine{
		ID: m.ID, User: m.User, Agent: m.Agent, Run: m.Run, Role: string(m.Role), Kind: string(m.Kind), Source: string(m.Source),
		Text: m.Text, Name: m.Name, Hash: m.Hash, Seq: m.Seq, Aliases: m.Aliases, Metadata: m.Metadata, Embedding: m.Embedding, Vectors: m.Vectors,
		Created: instant(m.CreatedAt), Updated: instant(m.UpdatedAt), Event: instant(m.EventTime), Expires: instant(m.ExpiresAt), Accessed: instant(m.LastAccessed),
		Pinned: m.Pinned, AutoImportance: m.AutoImportance, Importance: m.Importance, Confidence: m.Confidence, Accesses: m.AccessCount,
	}
}

func instant(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.UTC().Format(time.RFC3339Nano)
}

func dumpEntries(t *testing.T, db *engine.DB, line func(string, any)) {
	t.Helper()
	owners, err := db.KV().Owners(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range owners {
		for e, err := range db.KV().All(t.Context(), entries.Query{Owner: o}) {
			if err != nil {
				t.Fatal(err)
			}
			line("entry", entryLine{User: e.User, Agent: e.Agent, Key: e.Key, Updated: instant(e.UpdatedAt), Expires: instant(e.ExpiresAt), Value: e.Value, Version: e.Version})
		}
	}
}

// dumpAnswers asks the indexes. Of words it writes which memories have them, in the
// order of their Seq: how they rank may be tuned. What the closest vectors are may
// not.
func dumpAnswers(t *testing.T, db *engine.DB, line func(string, any)) {
	t.Helper()
	for _, word := range []string{"tea", "ghent", "harbour", "lantern", "obsolete", "violin"} {
		q := memory.Query{AllScopes: true, Text: word, Profile: memory.ProfileText, Limit: 100}
		hits := recall(t, db, q)
		slices.SortFunc(hits, func(a, b memory.Hit) int { return cmp.Compare(a.Seq, b.Seq) })
		line("answer", answerLine{"word " + word, hitIDs(hits)})
	}
	for _, space := range []struct {
		name string
		at   []float32
	}{{"default", layoutVector(5)}, {"image", []float32{0.1, 1, 0}}} {
		q := memory.Query{AllScopes: true, Embedding: space.at, Space: space.name, Profile: memory.ProfileVector, Limit: 5}
		line("answer", answerLine{"vector in " + space.name, hitIDs(recall(t, db, q))})
	}
	for _, f := range []struct {
		name   string
		filter filter.Filter
	}{
		{"text", filter.Eq("tag", "drink")},
		{"number", filter.Gt("count", 40)},
		{"fraction", filter.Lte("score", 0.5)},
		{"boolean", filter.Eq("done", true)},
		{"null", filter.Eq("nothing", nil)},
		{"list", filter.Contains("days", "friday")},
		{"nested", filter.Eq("place.city", "Ghent")},
		{"kind", filter.Eq("kind", "note")},
		{"run", filter.Eq("run", "trip")},
	} {
		page, err := db.Memories().List(t.Context(), memory.ListQuery{AllScopes: true, Filter: f.filter, Limit: 1000})
		if err != nil {
			t.Fatalf("%s: %v", f.name, err)
		}
		ids := []string{}
		for i := range page.Memories {
			ids = append(ids, page.Memories[i].ID)
		}
		line("answer", answerLine{"filter " + f.name, ids})
	}
}

func recall(t *testing.T, db *engine.DB, q memory.Query) []memory.Hit {
	t.Helper()
	q.NoTouch = true
	r, err := db.Memories().Recall(t.Context(), q)
	if err != nil {
		t.Fatalf("recall %q: %v", q.Text, err)
	}
	return r.Hits
}

func hitIDs(hits []memory.Hit) []string {
	ids := []string{}
	for i := range hits {
		ids = append(ids, hits[i].ID)
	}
	return ids
}
