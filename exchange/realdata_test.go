package exchange

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/realdata"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// realTurns are the turns of five real conversations, as lines of JSON, and their number.
func realTurns(t *testing.T) (lines string, n int) {
	t.Helper()
	text, err := os.ReadFile(realdata.Path(t, "locomo/locomo5.json"))
	if err != nil {
		t.Fatal(err)
	}
	var talks []struct {
		ID           string                     `json:"sample_id"`
		Conversation map[string]json.RawMessage `json:"conversation"`
	}
	if err := json.Unmarshal(text, &talks); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	e := json.NewEncoder(&b)
	for _, c := range talks {
		for run, session := range c.Conversation {
			var turns []struct {
				ID      string `json:"dia_id"`
				Speaker string `json:"speaker"`
				Text    string `json:"text"`
			}
			if json.Unmarshal(session, &turns) != nil {
				continue // the name of a speaker, or a date
			}
			for _, turn := range turns {
				n++
				if err := e.Encode(map[string]any{"id": c.ID + "/" + turn.ID, "agent": c.ID, "run": run, "text": turn.Text, "metadata": map[string]any{"speaker": turn.Speaker}}); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	return b.String(), n
}

// TestExportOfRealData verifies that five conversations, some changed, deleted and recalled, come
// back byte for byte.
func TestExportOfRealData(t *testing.T) {
	lines, n := realTurns(t)
	now, speaker := newTestClock(), memory.IndexedField{Field: "metadata.speaker", Weight: 1}
	db, other := openAt(t, now, speaker), openAt(t, now, speaker)
	if r, err := ImportJSONL(t.Context(), db, strings.NewReader(lines), nil); err != nil || r.Stored != n || n != 2760 {
		t.Fatalf("%d turns, %+v, error %v", n, r, err)
	}
	page, err := db.Memories().List(t.Context(), memory.ListQuery{AllScopes: true, Limit: memory.MaxLimit})
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range page.Memories {
		now.advance(time.Second)
		switch i % 10 {
		case 0:
			_, err = db.Memories().Update(t.Context(), m.Scope, m.ID, memory.Patch{Text: new(m.Text + " Indeed.")})
		case 1:
			err = db.Memories().Delete(t.Context(), m.Scope, m.ID)
		case 2:
			_, err = db.Memories().Recall(t.Context(), memory.Query{Scope: m.Scope, Text: m.Text})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	out := export(t, db, nil)
	if _, err := ImportJSONL(t.Context(), other, strings.NewReader(out), nil); err != nil {
		t.Fatal(err)
	}
	if again := export(t, other, nil); again != out {
		t.Errorf("%d bytes are exported again, and %d before", len(again), len(out))
	}
	t.Logf("%d lines, %d bytes", strings.Count(out, "\n"), len(out))
}
