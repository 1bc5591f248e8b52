package exchange

import (
	"errors"
	"io"
	"os"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/realdata"
	"github.com/seed-7aedc3ff/memdb/memory"
)

func openFile(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func conversations(t *testing.T, r io.Reader) []*Conversation {
	t.Helper()
	var out []*Conversation
	for c, err := range ReadLocomo(r) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, c)
	}
	return out
}

func TestReadLocomo(t *testing.T) {
	may := time.Date(2023, 5, 8, 13, 56, 0, 0, time.UTC)
	want := []*Conversation{
		{
			ID: "talk-1", Speakers: [2]string{"Ilse", "Bram"},
			Turns: []Turn{
				{"talk-1/D1:1", "session_1", "Ilse", "The kiln arrived this morning.", "", may},
				{"talk-1/D1:2", "session_1", "Bram", "Look at mine!", "a photo of a blue kiln", may},
				{"talk-1/D2:1", "session_2", "Ilse", "I fired forty tiles.", "", time.Date(2023, 9, 13, 0, 9, 0, 0, time.UTC)},
				{"talk-1/D10:1", "session_10", "Bram", "Happy new year.", "", time.Date(2024, 1, 1, 12, 30, 0, 0, time.UTC)},
			},
			Questions: []Question{
				{"When did the kiln arrive?", 2, []string{"talk-1/D1:1"}},
				{"What did they make?", 1, []string{"talk-1/D1:2", "talk-1/D2:1", "talk-1/D10:1"}},
				{"Who flew?", 5, nil},
			},
		},
		{
			ID: "talk-2", Speakers: [2]string{"Noor", "Piet"},
			Turns: []Turn{{"talk-2/D1:1", "session_1", "Noor", "The kiln arrived this morning.", "", time.Time{}}},
		},
	}
	want[0].left = Counts{
		`"event_summary" of conversations`: 1, `"qa" of conversations`: 1, `"session_11_date_time" of conversations`: 1,
		`"img_url" of turns`: 1, `"re-download" of turns`: 1,
	}
	want[1].left = Counts{`"qa" of conversations`: 1}
	got := conversations(t, iotest.OneByteReader(openFile(t, "testdata/locomo.json")))
	if !reflect.DeepEqual(got, want) {
		for i := range got {
			t.Errorf("got  %+v", *got[i])
		}
	}
}

func TestImportLocomo(t *testing.T) {
	db := open(t)
	report, err := ImportLocomo(t.Context(), db, openFile(t, "testdata/locomo.json"), nil)
	if err != nil {
		t.Fatal(err)
	}
	counts(t, report, 5, 0, 0, 0)
	m, err := db.Memories().Get(t.Context(), memory.Scope{Agent: "talk-1", Run: "session_1"}, "talk-1/D1:2")
	if err != nil {
		t.Fatal(err)
	}
	if m.Text != "Look at mine!" || m.Role != memory.RoleAssistant || m.Kind != memory.KindMessage ||
		!reflect.DeepEqual(m.Metadata, map[string]any{"speaker": "Bram", "caption": "a photo of a blue kiln"}) ||
		!m.EventTime.Equal(time.Date(2023, 5, 8, 13, 56, 0, 0, time.UTC)) || time.Since(m.CreatedAt) > time.Hour {
		t.Errorf("got %+v", m)
	}
	if first := all(t, db)[0]; first.Role != memory.RoleUser {
		t.Errorf("the first speaker has the role %s", first.Role)
	}
	report, err = ImportLocomo(t.Context(), db, openFile(t, "testdata/locomo.json"), nil)
	if err != nil {
		t.Fatal(err)
	}
	counts(t, report, 0, 0, 5, 0)
}

// A turn that the database refuses is skipped and named, or ends the import.
func TestImportLocomoSkips(t *testing.T) {
	const file = `[{"sample_id":"s","conversation":{"speaker_a":"A","session_1":[
		{"speaker":"A","dia_id":"D1:1","text":"one"},{"speaker":"A","dia_id":"D1:2"},{"speaker":"A","dia_id":"D1:3","text":"three"}]}}]`
	report, err := ImportLocomo(t.Context(), open(t), strings.NewReader(file), nil)
	if err != nil {
		t.Fatal(err)
	}
	counts(t, report, 2, 0, 0, 1)
	if got := report.Errors[0].Error(); !strings.HasPrefix(got, "turn s/D1:2: ") {
		t.Errorf("error %s", got)
	}
	report, err = ImportLocomo(t.Context(), open(t), strings.NewReader(file), &Options{Strict: true})
	if bad, ok := errors.AsType[LineError](err); !ok || bad.ID != "s/D1:2" {
		t.Errorf("error %v", err)
	}
	counts(t, report, 1, 0, 0, 1)
}

func TestReadLocomoRefuses(t *testing.T) {
	const one = `{"sample_id":"s","conversation":{"session_1":[{"dia_id":"D1:1","text":"t"}]}}`
	for _, test := range []struct{ file, want string }{
		{``, "the file ends before"},
		{`{"sample_id":"s"}`, "no JSON list of conversations"},
		{`nonsense`, "no JSON list of conversations"},
		{`[` + one, "the file ends before"},
		{`[` + one + ` ` + one + `]`, "conversation 2: "},
		{`[` + one + `,` + one[:40], "conversation 2: the file ends in the middle of it"},
		{`[7]`, "conversation 1: it is a number, not an object"},
		{`[{}]`, "conversation 1: it has no sample_id"},
		{`[{"sample_id":"s","conversation":{"session_1":{}}}]`, "s: session_1: session_1: it is an object, not a list"},
		{`[{"sample_id":"s","conversation":{"session_1":[{"text":"t"}]}}]`, "s: session_1: turn 1 has no dia_id"},
		{`[{"sample_id":"s","conversation":{"session_1":[{"dia_id":"D1:1","text":8}]}}]`, `"text" is a number, not a string`},
		{`[{"sample_id":"s","conversation":{"session_1":[],"session_1_date_time":"May 8"}}]`, `its date "May 8" has not the form`},
		{`[{"sample_id":"s","qa":[{"category":"x"}]}]`, `"category" is a string, not a number`},
		{"[{\"sample_id\":\"\xff\"}]", "invalid UTF-8"},
	} {
		var err error
		for _, err = range ReadLocomo(strings.NewReader(test.file)) {
			if err != nil {
				break
			}
		}
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s\n got %v\nwant %s", test.file, err, test.want)
		}
	}
}

func TestReadLocomoBoundsAConversation(t *testing.T) {
	r := io.MultiReader(strings.NewReader(`[{"sample_id":"`), io.LimitReader(filler('x'), 2*maxConversation))
	for _, err := range ReadLocomo(r) {
		if err == nil || !strings.Contains(err.Error(), "longer than 16 MiB") {
			t.Errorf("error %v", err)
		}
	}
}

// realLocomo is the file of the real conversations.
func realLocomo(t *testing.T) string {
	t.Helper()
	return realdata.Path(t, "locomo/locomo5.json")
}

// The real conversations: the numbers are those of their own JSON, counted
// apart from this code.
func TestReadLocomoRealData(t *testing.T) {
	path := realLocomo(t)
	turns, questions, judged := 0, 0, 0
	for _, c := range conversations(t, openFile(t, path)) {
		turns += len(c.Turns)
		for _, q := range c.Questions {
			if q.Category != 5 {
				questions++
				if len(q.Evidence) > 0 {
					judged++
				}
			}
		}
	}
	if turns != 2760 || questions != 762 || judged != 760 {
		t.Errorf("%d turns, %d questions of the categories 1 to 4, %d with evidence", turns, questions, judged)
	}
}

// TestExportOfRealData: five conversations, some changed, deleted and recalled, come
// back byte for byte.
func TestExportOfRealData(t *testing.T) {
	path := realLocomo(t)
	now := newTestClock()
	db, other := openAt(t, now, LocomoIndexedText()...), openAt(t, now, LocomoIndexedText()...)
	if _, err := ImportLocomo(t.Context(), db, openFile(t, path), nil); err != nil {
		t.Fatal(err)
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
