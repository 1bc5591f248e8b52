package sessions_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/internal/testdb"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/sessions"
)

// A turn of a form asks tools and answers them: c are the IDs of the calls, and f the mark of the turn,
// which each part of it that says something has.
var turnsOf = map[string]func(f string, c []string) []string{
	"openai": func(f string, c []string) []string {
		lines := []string{user(f), `{"role":"assistant","content":null,"reasoning_content":"hm","tool_calls":[` +
			each(c, `{"id":"%s","type":"function","function":{"name":"depth","arguments":"{\"of\":\"%s-call\"}"}}`, f) + `]}`}
		for _, id := range c {
			lines = append(lines, fmt.Sprintf(`{"role":"tool","tool_call_id":"%s","content":"%s-result"}`, id, f))
		}
		return lines
	},
	"responses": func(f string, c []string) []string {
		lines := []string{user(f), fmt.Sprintf(`{"type":"reasoning","id":"rs-%s","summary":[],"encrypted_content":"x"}`, f)}
		for _, id := range c {
			lines = append(lines, fmt.Sprintf(`{"type":"function_call","call_id":"%s","name":"depth","arguments":"%s-call"}`, id, f))
		}
		for _, id := range c {
			lines = append(lines, fmt.Sprintf(`{"type":"function_call_output","call_id":"%s","output":"%s-result"}`, id, f))
		}
		return lines
	},
	"anthropic": func(f string, c []string) []string {
		return []string{
			user(f), `{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},` + each(c, `{"type":"tool_use","id":"%s","name":"depth","input":{"of":"%s-call"}}`, f) + `]}`,
			`{"role":"user","content":[` + each(c, `{"type":"tool_result","tool_use_id":"%s","content":[{"type":"text","text":"%s-result"}]}`, f) + `]}`,
		}
	},
	"gemini": func(f string, c []string) []string {
		return []string{
			fmt.Sprintf(`{"role":"user","parts":[{"text":"%s-ask"}]}`, f), `{"role":"model","parts":[{"text":"let me see"}]}`,
			`{"role":"model","parts":[` + each(c, `{"functionCall":{"id":"%s","name":"depth","args":{"of":"%s-call"}},"thoughtSignature":"s"}`, f) + `]}`,
			`{"role":"user","parts":[` + each(c, `{"functionResponse":{"id":"%s","name":"depth","response":{"v":"%s-result"}}}`, f) + `]}`,
		}
	},
	"bedrock": func(f string, c []string) []string {
		return []string{
			fmt.Sprintf(`{"role":"user","content":[{"text":"%s-ask"}]}`, f),
			`{"role":"assistant","content":[` + each(c, `{"toolUse":{"toolUseId":"%s","name":"depth","input":{"of":"%s-call"}}}`, f) + `]}`,
			`{"role":"user","content":[` + each(c, `{"toolResult":{"toolUseId":"%s","content":[{"text":"%s-result"}],"status":"success"}}`, f) + `]}`,
		}
	},
	"vercel": func(f string, c []string) []string {
		return []string{
			user(f), `{"role":"assistant","content":[` + each(c, `{"type":"tool-call","toolCallId":"%s","toolName":"depth","input":{"of":"%s-call"}}`, f) + `]}`,
			`{"role":"tool","content":[` + each(c, `{"type":"tool-result","toolCallId":"%s","toolName":"depth","output":{"type":"text","value":"%s-result"}}`, f) + `]}`,
		}
	},
	"langchain": func(f string, c []string) []string {
		lines := []string{
			fmt.Sprintf(`{"type":"human","content":"%s-ask"}`, f),
			`{"type":"ai","data":{"content":"","tool_calls":[` + each(c, `{"name":"depth","args":{"of":"%[2]s-call"},"id":"%[1]s"}`, f) + `]}}`,
		}
		for _, id := range c {
			lines = append(lines, fmt.Sprintf(`{"type":"tool","tool_call_id":"%s","content":"%s-result"}`, id, f))
		}
		return lines
	},
	"ollama": func(f string, c []string) []string {
		lines := []string{user(f), `{"role":"assistant","content":"","thinking":"hm","tool_calls":[` + each(c, `{"function":{"name":"depth-%s","arguments":{"of":"%s-call"}}}`, f) + `]}`}
		for _, id := range c {
			lines = append(lines, fmt.Sprintf(`{"role":"tool","tool_name":"depth-%s","content":"%s-result"}`, id, f))
		}
		return lines
	},
	"of nobody": func(f string, c []string) []string {
		return []string{
			fmt.Sprintf(`{"role":"user","content":[{"kind":"say","words":"%s-ask"}],"dialogue_id":"d1"}`, f),
			`{"role":"assistant","content":[` + each(c, `{"kind":"invoke","handle":"%s","verb":"depth","of":"%s-call"}`, f) + `],"dialogue_id":"d1"}`,
			`{"role":"user","content":[` + each(c, `{"kind":"outcome","handle":"%s","said":{"v":"%s-result"}}`, f) + `],"dialogue_id":"d1"}`,
		}
	},
}

func user(f string) string { return fmt.Sprintf(`{"role":"user","content":"%s-ask"}`, f) }

// each writes an element for each ID.
func each(ids []string, form, f string) string {
	var all []string
	for _, id := range ids {
		all = append(all, fmt.Sprintf(form, id, f))
	}
	return strings.Join(all, ",")
}

// TestForms puts generated conversations of every form, and of one that nothing knows, through save,
// append, windows, tokens, compaction, repair, and export and import: nothing is lost, no call is
// separated from its results, and a repair of a healthy session changes nothing.
func TestForms(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	w, other := newTalk(t), newTalk(t)
	for _, form := range slices.Sorted(maps.Keys(turnsOf)) {
		turn := turnsOf[form]
		t.Run(form, func(t *testing.T) {
			var given []sessions.Message
			for n := range 12 {
				ids := make([]string, 1+r.IntN(3))
				for k := range ids {
					ids[k] = fmt.Sprintf("call-%d-%d-%d", n, k, r.IntN(1000))
				}
				for _, line := range turn(fmt.Sprintf("turn%02d", n), ids) {
					var m sessions.Message
					if err := json.Unmarshal([]byte(line), &m); err != nil {
						t.Fatalf("%s: %v", line, err)
					}
					given = append(given, m)
				}
			}
			s, ctx := w.db.Sessions(), t.Context()
			items := make([]sessions.Item, len(given))
			for i := range given {
				m := given[i]
				m.At = time.Time{}
				items[i].Message = &m
			}
			if _, err := s.Save(ctx, supportAgent, form, items, nil); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Append(ctx, supportAgent, form+" appended", given, &sessions.AppendOptions{Strict: form != "of nobody"}); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{form, form + " appended"} {
				holds(t, w.db, name, 12)
				whole(t, w.db, name, len(given))
				healthy(t, w.db, name)
			}
			for _, drop := range []bool{false, true} {
				if _, err := s.Compact(ctx, supportAgent, form, &sessions.CompactOptions{Threshold: 12, KeepRecent: 5 + r.IntN(5), Drop: drop}); err != nil {
					t.Fatal(err)
				}
				l, err := s.Load(ctx, supportAgent, form, &sessions.Window{Whole: true})
				if err != nil || len(l.Messages) == 0 {
					t.Fatal(l, err)
				}
				cutWhole(t, fmt.Sprint("compacted, drop ", drop), l.Messages)
				// Of a form that nothing knows, a summary takes whatever elements it has room for.
				if form != "of nobody" && !strings.Contains(l.Summary, "-result") {
					t.Errorf("the summary does not tell of results: %s", l.Summary)
				}
			}
			// The JSON of a session is read again as it is.
			text := dumpJSON(t, w.db, form+" appended")
			var again []sessions.Item
			for line := range strings.Lines(text) {
				var i sessions.Item
				if err := json.Unmarshal([]byte(line), &i); err != nil {
					t.Fatal(err)
				}
				if i.Message != nil {
					i.Message.MemoryIDs = nil // they stay in the other database
				}
				again = append(again, i)
			}
			if _, err := other.db.Sessions().Save(ctx, supportAgent, form, again, nil); err != nil {
				t.Fatal(err)
			}
			holds(t, other.db, form, 12)
		})
	}
	lines := testdb.Lines(t, w.db, memory.Scope{})
	if len(lines) == 0 || strings.Contains(strings.Join(lines, ""), `\u0000`) {
		t.Error(len(lines))
	}
	testdb.Close(t, w.db)
	w.open()
}

// dumpJSON is a session as lines.
func dumpJSON(t *testing.T, db *engine.DB, name string) string {
	t.Helper()
	var b strings.Builder
	for i, err := range db.Sessions().Items(t.Context(), supportAgent, name) {
		testdb.NoError(t, err)
		line, err := json.Marshal(i)
		testdb.NoError(t, err)
		b.Write(append(line, '\n'))
	}
	return b.String()
}

// holds verifies that a session has what each turn asks, calls and answers.
func holds(t *testing.T, db *engine.DB, name string, turns int) {
	t.Helper()
	text := dumpJSON(t, db, name)
	for n := range turns {
		for _, what := range []string{"ask", "call", "result"} {
			if !strings.Contains(text, fmt.Sprintf("turn%02d-%s", n, what)) {
				t.Errorf("%s lost the %s of turn %d", name, what, n)
			}
		}
	}
}

// cutWhole verifies that of each turn that a window shows a result of, the calls are shown, too: a
// window begins where no call is before it whose result is in it.
func cutWhole(t *testing.T, what string, window []sessions.Message) {
	t.Helper()
	var text strings.Builder
	for i := range window {
		text.WriteString(window[i].Content() + "\n")
	}
	for n := range 12 {
		call, result := fmt.Sprintf("turn%02d-call", n), fmt.Sprintf("turn%02d-result", n)
		if shows := text.String(); strings.Contains(shows, result) && strings.Count(shows, call) < strings.Count(shows, result) || strings.Contains(shows, call) && !strings.Contains(shows, result) {
			t.Errorf("%s separates the calls of turn %d from their results:\n%s", what, n, shows)
		}
	}
}

func whole(t *testing.T, db *engine.DB, name string, size int) {
	t.Helper()
	for last := 1; last <= size; last++ {
		one := func(string) int { return 1 }
		for what, win := range map[string]*sessions.Window{"last": {Last: last}, "tokens": {Tokens: last, Count: one}} {
			l, err := db.Sessions().Load(t.Context(), supportAgent, name, win)
			testdb.NoError(t, err)
			cutWhole(t, fmt.Sprintf("%s: %s %d", name, what, last), l.Messages)
			if what == "last" && len(l.Messages) < last-8 {
				t.Errorf("%s: the last %d are %d", name, last, len(l.Messages))
			}
		}
	}
}

// healthy verifies that a repair neither changes the session nor reports damage.
func healthy(t *testing.T, db *engine.DB, name string) {
	t.Helper()
	before := dumpJSON(t, db, name)
	r, err := db.Sessions().Repair(t.Context(), supportAgent, name, false)
	if err != nil || r.Stats != (sessions.RepairStats{}) || dumpJSON(t, db, name) != before {
		t.Errorf("%s: repaired %+v, %v", name, r, err)
	}
}

// TestRepairReports verifies what a repair removes and reports of sessions whose turns broke off.
func TestRepairReports(t *testing.T) {
	w := newTalk(t)
	for _, c := range []struct {
		name, lines string
		want        sessions.RepairStats
		left        int
	}{
		{"aborted", `{"role":"user","content":"Start"}
{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"pump","input":{}}]}
{"role":"assistant","content":[]}
{"role":"user","content":"There?"}
{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"}]}
{"role":"user","content":"Hello?"}
{"role":"user","parts":[]}
{"role":"model","parts":[{"text":" "}]}
{"role":"assistant","content":null,"tool_calls":[]}
{"role":"assistant","content":"Yes."}`, sessions.RepairStats{EmptyRemoved: 5, ConsecutiveMerged: 1, UnansweredCalls: 1}, 4},
		{"orphans", `{"role":"user","content":"Start"}
{"role":"assistant","tool_calls":[{"id":"c1","function":{"name":"pump"}},{"id":"c2","function":{"name":"valve"}}]}
{"role":"tool","tool_call_id":"c1","content":"on"}
{"role":"user","content":"Thanks"}
{"role":"tool","tool_call_id":"c9","content":"orphan"}
{"role":"tool","tool_call_id":"c1","content":"on"}
{"role":"assistant","content":"Welcome","tool_calls":[]}`, sessions.RepairStats{UnansweredCalls: 1, OrphanResults: 1, DoubledResults: 1}, 7},
	} {
		var items []sessions.Item
		for line := range strings.Lines(c.lines) {
			var i sessions.Item
			testdb.NoError(t, json.Unmarshal([]byte(line), &i))
			items = append(items, i)
		}
		s := w.db.Sessions()
		if _, err := s.Save(t.Context(), supportAgent, c.name, items, nil); err != nil {
			t.Fatal(err)
		}
		before := dumpJSON(t, w.db, c.name)
		r, err := s.Repair(t.Context(), supportAgent, c.name, false)
		if got := strings.Count(dumpJSON(t, w.db, c.name), "\n"); err != nil || r.Stats != c.want || got != c.left {
			t.Errorf("%s: %+v, %v, %d messages are left", c.name, r, err, got)
		}
		if !r.Repaired {
			continue
		}
		testdb.NoError(t, s.UndoRepair(t.Context(), supportAgent, c.name))
		if dumpJSON(t, w.db, c.name) != before {
			t.Errorf("%s: the undo does not show what was there before", c.name)
		}
	}
}

// TestForeignKeys verifies that keys of a message which have the names of memdb's own are in its line,
// and in the message that is read from it.
func TestForeignKeys(t *testing.T) {
	for _, line := range []string{
		`{"type":"human","content":"hi","session":"s1","user":{"id":5},"position":"top","colour":"red"}`,
		`{"role":"user","content":"hi","at":"home","foreign":[1],"id":17,"name":{"a":1}}`,
		`{"role":7,"text":{"v":"hi"},"content":1.50,"orphan":"maybe"}`,
	} {
		var m, again sessions.Message
		testdb.NoError(t, json.Unmarshal([]byte(line), &m))
		b, err := json.Marshal(m)
		testdb.NoError(t, err)
		testdb.NoError(t, json.Unmarshal(b, &again))
		if string(again.Extra) != string(m.Extra) || string(again.Parts) != string(m.Parts) || again.Role != m.Role || again.Text != m.Text {
			t.Errorf("%s\nbecame %s\nand %+v, want %+v", line, b, again, m)
		}
		var keys map[string]json.RawMessage
		testdb.NoError(t, json.Unmarshal([]byte(line), &keys))
		for key, value := range keys {
			if !slices.Contains([]string{"content", "role", "text"}, key) && !strings.Contains(string(m.Extra), fmt.Sprintf("%q:%s", key, value)) {
				t.Errorf("%s lost %s: %s", line, key, m.Extra)
			}
		}
	}
}
