package sessions

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/seed-7aedc3ff/memdb/internal/messages"
)

func said(id, role, text string, second int) Item {
	m := &Message{ID: id, Role: role, Text: text}
	if second > 0 {
		m.At = time.Unix(int64(second), 0).UTC()
	}
	if text != "" {
		m.pieces = []piece{{text: text}}
	}
	return Item{Message: m}
}

func lines(items []Item) (all []string) {
	for _, i := range items {
		if i.Marker != nil {
			all = append(all, "---")
			continue
		}
		all = append(all, i.Message.ID+" "+i.Message.Role+": "+strings.ReplaceAll(i.Message.Text, "\n", "/"))
	}
	return all
}

// TestPlanRepair shows each kind of damage by itself, and all together.
func TestPlanRepair(t *testing.T) {
	marker := Item{Marker: &Marker{}}
	gone := said("g", "user", "x", 1)
	gone.Message.Orphan = true
	for _, c := range []struct {
		name  string
		in    []Item
		want  []string
		stats RepairStats
	}{
		{"sound", []Item{said("a", "user", "1", 1), said("b", "assistant", "2", 2)}, []string{"a user: 1", "b assistant: 2"}, RepairStats{}},
		{"empty", []Item{said("", "user", "", 1), said("b", "user", "", 2)}, nil, RepairStats{EmptyRemoved: 2}},
		{"no ID", []Item{said("", "user", "1", 1)}, []string{"8133eaf1-49db-53e1-83d9-e2e050383644 user: 1"}, RepairStats{IDsGiven: 1}},
		{"duplicates", []Item{said("a", "user", "1", 1), said("b", "tool", "2", 2), said("a", "user", "1", 3)}, []string{"a user: 1", "b tool: 2"}, RepairStats{DuplicatesRemoved: 1}},
		{"two under one ID", []Item{said("a", "user", "1", 1), said("b", "tool", "2", 2), said("a", "user", "3", 3)}, []string{"a user: 1", "b tool: 2", "8d0c2d46-952e-5a64-9169-4a2ff9806a2b user: 3"}, RepairStats{DuplicatesRemoved: 1}},
		{"in order, then merged", []Item{said("a", "user", "1", 5), said("b", "user", "2", 1), said("c", "user", "3", 3)}, []string{"b user: 2/3/1"}, RepairStats{Reordered: 2, ConsecutiveMerged: 2}},
		{"merged", []Item{said("a", "user", "1", 1), said("b", "user", "2", 2), said("c", "user", "3", 3)}, []string{"a user: 1/2/3"}, RepairStats{ConsecutiveMerged: 2}},
		{"system", []Item{said("a", "system", "1", 1), said("b", "system", "2", 2)}, []string{"a system: 1", "b system: 2"}, RepairStats{}},
		{"not across a marker", []Item{said("a", "user", "1", 5), marker, said("b", "user", "2", 2)}, []string{"a user: 1", "---", "b user: 2"}, RepairStats{}},
		{"reordered", []Item{said("a", "user", "1", 3), said("b", "tool", "2", 1), said("c", "system", "3", 2)}, []string{"b tool: 2", "c system: 3", "a user: 1"}, RepairStats{Reordered: 2}},
		{"merged after the order", []Item{said("a", "user", "1", 1), said("b", "tool", "2", 3), said("c", "user", "3", 2)}, []string{"a user: 1/3", "b tool: 2"}, RepairStats{Reordered: 1, ConsecutiveMerged: 1}},
		{"no time", []Item{said("a", "user", "1", 9), said("b", "tool", "2", 0), said("c", "user", "3", 10)}, []string{"a user: 1", "b tool: 2", "c user: 3"}, RepairStats{}},
		{"orphans and oversized are only told of", []Item{gone, said("b", "tool", strings.Repeat("x", Oversized+1), 2)}, []string{"g user: x", "b tool: " + strings.Repeat("x", Oversized+1)}, RepairStats{OrphanedRefs: 1, OversizedDetected: 1}},
		{
			"all",
			[]Item{said("", "user", "", 1), said("a", "user", "1", 4), said("a", "user", "1", 4), said("b", "user", "2", 5), said("c", "tool", "3", 2), gone},
			[]string{"g user: x", "c tool: 3", "a user: 1/2"},
			RepairStats{EmptyRemoved: 1, DuplicatesRemoved: 1, ConsecutiveMerged: 1, Reordered: 2, OrphanedRefs: 1},
		},
	} {
		out, stats := PlanRepair(c.in)
		if !slices.Equal(lines(out), c.want) || stats != c.stats {
			t.Errorf("%s: %q, %+v\nwant %q, %+v", c.name, lines(out), stats, c.want, c.stats)
		}
	}
}

// nasty is a random session with every kind of damage, of parts and of tools.
func nasty(r *rand.Rand) (in []Item) {
	for n := range r.IntN(14) {
		if r.IntN(6) == 0 {
			in = append(in, Item{Marker: &Marker{Summarized: n}})
			continue
		}
		i := said(fmt.Sprint("m", r.IntN(12)), []string{"user", "assistant", "system", "tool", "developer"}[r.IntN(5)], fmt.Sprint("t", r.IntN(2)*n), r.IntN(6))
		m := i.Message
		if r.IntN(8) == 0 {
			m.ID = ""
		}
		if r.IntN(6) == 0 {
			m.Text, m.pieces = "", nil
		}
		if r.IntN(4) == 0 {
			m.MemoryIDs = []string{fmt.Sprint("ref", n)}
		}
		call := fmt.Sprint("c", r.IntN(4))
		switch r.IntN(18) {
		case 9:
			m.Parts = fmt.Appendf(nil, `[{"functionCall":{"id":%q,"name":"f","args":{}}}]`, call)
		case 10:
			m.Parts = fmt.Appendf(nil, `[{"toolResult":{"toolUseId":%q,"content":[]}}]`, call)
		case 11:
			m.Parts = fmt.Appendf(nil, `[{"kind":"ask","ticket_id":"t%d"}]`, n%5)
		case 12:
			m.Parts = fmt.Appendf(nil, `[{"type":"thinking","thinking":"hm","signature":"s%d"}]`, n)
			m.Text, m.pieces = "", nil
		case 13:
			m.Parts = [][]byte{[]byte(`[{"type":"text","text":""}]`), []byte(`[{"text":" "}]`), []byte(`[{"type":"text","text":"a"}]`), []byte(`[{"text":"b"}]`)}[r.IntN(4)]
		case 14:
			m.Extra = fmt.Appendf(nil, `{"colour":"red %d"}`, n)
		case 0:
			m.Parts = fmt.Appendf(nil, `[{"type":"text","text":%q},{"type":"image","n":%d}]`, m.Text, n)
		case 1:
			m.Parts = fmt.Appendf(nil, `[{"type":"text","text":"p%d"},[],{},null,%d,"s%d"]`, n, n, n)
		case 2:
			m.Parts = [][]byte{[]byte(`[]`), []byte(`{}`), []byte(`""`), []byte(`0`), []byte(`[null]`)}[r.IntN(5)]
		case 3:
			m.Parts = fmt.Appendf(nil, `[{"type":"tool_use","id":%q}]`, call)
		case 4:
			m.Parts = fmt.Appendf(nil, `[{"type":"tool_result","tool_use_id":%q,"content":"r%d"}]`, call, n)
		case 5:
			m.ToolCalls = fmt.Appendf(nil, `[{"id":%q}]`, call)
		case 6:
			m.ToolCallID = call
		case 7:
			m.Name = []string{"ada", "bob"}[r.IntN(2)]
		case 8:
			m.Extra = []byte(`{"refusal":null}`)
		}
		in = append(in, i)
	}
	return in
}

// TestPlanRepairProperties repairs random sessions: a second repair fixes nothing, nothing that
// is said and no reference is lost, no IDs are missing or twice there, a call stays with the
// results that follow it, nothing crosses a marker, and what is given is not changed.
func TestPlanRepairProperties(t *testing.T) {
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(uint64(seed), 1))
	for range 1000 {
		in := nasty(r)
		given := dump(in)
		out, stats := PlanRepair(in)
		if dump(in) != given {
			t.Fatalf("the plan has changed what was given:\n%s\nwas\n%s", dump(in), given)
		}
		again, second := PlanRepair(out)
		if second.Fixes() != 0 || !reflect.DeepEqual(again, out) {
			t.Fatalf("%s\nrepaired to\n%s\nand again to\n%s\n%+v", given, dump(out), dump(again), second)
		}
		if stats.Fixes() == 0 && !reflect.DeepEqual(in, out) {
			t.Fatalf("nothing was to be fixed of\n%s\nwhich became\n%s", given, dump(out))
		}
		checkKept(t, in, out, stats)
		checkTogether(t, in, out)
	}
}

// dump is a session as a person reads it where a test fails.
func dump(items []Item) string {
	var b strings.Builder
	for _, i := range items {
		if i.Marker != nil {
			b.WriteString("---\n")
			continue
		}
		m := i.Message
		fmt.Fprintf(&b, "%s %s %s %d: %q %s %s %s %s %v\n", m.ID, m.Role, m.Name, m.At.Unix(), m.Text, m.Parts, m.ToolCalls, m.ToolCallID, m.Extra, m.MemoryIDs)
	}
	return b.String()
}

// heard is what each stretch between markers says, in lines and parts, and refers to. What
// repeats under one ID what was there before is left out, and so is what says nothing.
func heard(items []Item) (says [][]string, repeated int) {
	gone := map[*Message]bool{}
	for _, i := range items {
		if i.Message != nil {
			gone[i.Message] = true
		}
	}
	for _, i := range withoutEmpty(items, &RepairStats{}) {
		delete(gone, i.Message)
	}
	says = [][]string{nil}
	first := map[string]*Message{}
	for _, i := range items {
		if i.Marker != nil {
			says = append(says, nil)
			continue
		}
		m := *i.Message
		if gone[i.Message] {
			continue
		}
		if have := first[m.ID]; have != nil && m.ID != "" {
			if have.Role == m.Role && have.Text == m.Text && have.Name == m.Name && have.ToolCallID == m.ToolCallID && string(have.Parts) == string(m.Parts) &&
				string(have.ToolCalls) == string(m.ToolCalls) && string(have.Extra) == string(m.Extra) && slices.Equal(have.MemoryIDs, m.MemoryIDs) {
				repeated++
				continue
			}
		} else {
			first[m.ID] = &m
		}
		at := len(says) - 1
		for line := range strings.SplitSeq(m.Text, "\n") {
			if line != "" {
				says[at] = append(says[at], "text "+line)
			}
		}
		for _, raw := range messages.Elements(m.Parts) {
			var p struct{ Type, Text string }
			_ = json.Unmarshal(raw, &p) // of another part it says nothing
			texts := strings.Split(m.Text, "\n")
			if p.Type != "text" || slices.ContainsFunc(strings.Split(p.Text, "\n"), func(line string) bool { return line != "" && !slices.Contains(texts, line) }) {
				says[at] = append(says[at], "part "+string(raw)) // but for what the text says, as a merge has it
			}
		}
		for _, ref := range m.MemoryIDs {
			says[at] = append(says[at], "ref "+ref)
		}
		for what, of := range map[string]string{"calls ": string(m.ToolCalls), "answers ": m.ToolCallID, "extra ": string(m.Extra)} {
			if of != "" {
				says[at] = append(says[at], what+of)
			}
		}
	}
	for i := range says {
		slices.Sort(says[i])
	}
	return says, repeated
}

// checkKept compares what is said before and after, by brute force.
func checkKept(t *testing.T, in, out []Item, stats RepairStats) {
	t.Helper()
	want, repeated := heard(in)
	got, _ := heard(out)
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%s\nrepaired to\n%s\nsays %q\nwant %q", dump(in), dump(out), got, want)
	}
	if gone := len(in) - len(out); gone != stats.EmptyRemoved+repeated+stats.ConsecutiveMerged {
		t.Fatalf("%s\nrepaired to\n%s\n%d are gone, %d are repeated: %+v", dump(in), dump(out), gone, repeated, stats)
	}
	seen := map[string]bool{}
	for _, i := range out {
		if m := i.Message; m != nil && (m.ID == "" || seen[m.ID]) {
			t.Fatalf("%s\nrepaired to\n%s\nthe ID %q", dump(in), dump(out), m.ID)
		} else if m != nil {
			seen[m.ID] = true
		}
	}
}

// checkTogether finds each result that followed its call directly behind it again.
func checkTogether(t *testing.T, in, out []Item) {
	t.Helper()
	follows := func(items []Item) map[string]int {
		n := map[string]int{}
		for i := 1; i < len(items); i++ {
			a, b := items[i-1].Message, items[i].Message
			if a == nil || b == nil {
				continue
			}
			both := []messages.Use{a.form().Use(), b.form().Use()}
			if messages.Pairs(both[1:]).Orphans > 0 && len(messages.Pairs(both).Pairs) > 0 { // by an ID
				n[fmt.Sprintf("%s %s %s > %s %s %s", a.Text, a.Parts, a.ToolCalls, b.Text, b.Parts, b.ToolCallID)]++
			}
		}
		return n
	}
	var stats RepairStats
	kept := withIDs(withoutEmpty(in, &stats), &stats) // what is removed leaves others behind each other
	got := follows(out)
	for what := range follows(kept) {
		if got[what] == 0 {
			t.Fatalf("%s\nrepaired to\n%s\nparts %s", dump(in), dump(out), what)
		}
	}
}

// TestPlanRepairJoins: texts and parts are joined together, and no further than a message may
// be long.
func TestPlanRepairJoins(t *testing.T) {
	parts := said("a", "user", "look", 1)
	parts.Message.Parts = []byte(`[{"type":"image"}]`)
	more := said("c", "user", "", 3)
	more.Message.Parts = []byte(`[{"type":"audio"}]`)
	out, stats := PlanRepair([]Item{parts, said("b", "user", "at <it>\nnow", 2), more})
	want := `[{"type":"text","text":"look"},{"type":"image"},{"type":"text","text":"at <it>\nnow"},{"type":"audio"}]`
	if len(out) != 1 || out[0].Message.Text != "look\nat <it>\nnow" || string(out[0].Message.Parts) != want || stats.ConsecutiveMerged != 2 {
		t.Errorf("%s\nwant %s, %+v", dump(out), want, stats)
	}
	// Merged once more, no text is there twice.
	out, _ = PlanRepair(append(out, said("d", "user", "end", 4)))
	want = want[:len(want)-1] + `,{"type":"text","text":"end"}]`
	if len(out) != 1 || string(out[0].Message.Parts) != want {
		t.Errorf("%s\nwant %s", dump(out), want)
	}

	var long []Item
	total := 0
	for n := range 20 {
		long = append(long, said(fmt.Sprint("m", n), "user", strings.Repeat(string(rune('a'+n)), 500_000), n+1))
	}
	out, _ = PlanRepair(long)
	for _, i := range out {
		total += strings.Count(i.Message.Text, "") - 1 - strings.Count(i.Message.Text, "\n")
		if doing := "repair"; checkWords(doing, i.Message) != nil {
			t.Errorf("a message of %d bytes cannot be imported", len(i.Message.Text))
		}
	}
	if again, stats := PlanRepair(out); total != 20*500_000 || len(out) != 2 || stats.Fixes() != 0 || len(again) != 2 {
		t.Errorf("%d messages of %d bytes together, %+v", len(out), total, stats)
	}

	deep := said("a", "user", "", 1)
	deep.Message.Parts = []byte(strings.Repeat(`{"a":`, MaxDepth) + "1" + strings.Repeat("}", MaxDepth))
	if out, stats := PlanRepair([]Item{deep, said("b", "user", "x", 2)}); len(out) != 2 || stats.Fixes() != 0 {
		t.Errorf("what nests as deep as it may was merged: %+v", stats)
	}
}

// TestCuts verifies that a cut which would be within a pair moves to the nearest one that is not.
func TestCuts(t *testing.T) {
	pairs := []messages.Pair{{Call: 1, Result: 2}, {Call: 1, Result: 3}, {Call: 5, Result: 7}, {Call: 8, Result: 9}, {Call: 8, Result: 10}, {Call: 15, Result: 16}}
	for cut := range 18 {
		e, l := earlier(pairs, cut), later(pairs, cut)
		for _, p := range pairs {
			if p.Call < e && e <= p.Result || p.Call < l && l <= p.Result || e > cut || l < cut {
				t.Errorf("cut %d becomes %d or %d, beside %v", cut, e, l, p)
			}
		}
		if crossed := slices.ContainsFunc(pairs, func(p messages.Pair) bool { return p.Call < cut && cut <= p.Result }); !crossed && (e != cut || l != cut) {
			t.Errorf("the cut %d becomes %d or %d without a reason", cut, e, l)
		}
	}
	overlapping := []messages.Pair{{Call: 0, Result: 3}, {Call: 2, Result: 6}, {Call: 5, Result: 8}}
	if e, l := earlier(overlapping, 7), later(overlapping, 1); e != 0 || l != 9 {
		t.Errorf("%d, %d", e, l)
	}
}

// TestContent: everything that a message says is said as text, in each form.
func TestContent(t *testing.T) {
	for _, c := range []struct {
		m    Message
		want string
	}{
		{Message{Text: "hello"}, "hello"},
		{Message{Text: "hello", Parts: []byte(`[{"type":"text","text":"hello"},{"type":"image","source":{}}]`)}, "hello\n[image]"},
		{Message{Parts: []byte(`["one",{"type":"input_text","text":"two"},{"type":"refusal","refusal":"no"},{"type":"thinking","thinking":"hm"}]`)}, "one\ntwo\nno\nhm"},
		{Message{Parts: []byte(`[{"type":"tool_use","id":"c","name":"search","input":{"q":"tea"}}]`)}, `search {"q":"tea"}`},
		{Message{Parts: []byte(`[{"type":"tool_result","tool_use_id":"c","content":"42"},{"type":"tool_result","content":[{"type":"text","text":"43"},{"type":"image"}]}]`)}, "42\n43\n[image]"},
		{Message{Parts: []byte(`[{"type":"tool_result","id":"c","ok":1}]`)}, `{"type":"tool_result","id":"c","ok":1}`},
		{Message{Parts: []byte(`{"answer":42}`)}, `{"answer":42}`},
		{Message{Parts: []byte(`7`)}, `7`},
		{Message{ToolCalls: []byte(`[{"id":"c","type":"function","function":{"name":"search","arguments":"{\"q\":\"tea\"}"}},{"custom":{"name":"run","input":"ls"}},{"odd":1}]`)}, "search {\"q\":\"tea\"}\nrun ls\n{\"odd\":1}"},
		{Message{Extra: []byte(`{"function_call":{"name":"f","arguments":"{}"},"refusal":"never","model":"m"}`)}, "f {}\nnever"},
		{Message{Extra: []byte(`{"function_call":7,"refusal":"still"}`)}, "function_call: 7\nstill"},
	} {
		if got := c.m.Content(); got != c.want {
			t.Errorf("%+v says %q, want %q", c.m, got, c.want)
		}
	}
}

// TestChunks: no chunk has more characters than it may, and together they say everything.
func TestChunks(t *testing.T) {
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(uint64(seed), 1))
	for range 500 {
		limit := 5 + r.IntN(40)
		var all []Message
		var whole strings.Builder
		for n := range r.IntN(20) {
			m := Message{ID: fmt.Sprint(n), Role: "user", Text: strings.Repeat("é", r.IntN(60))}
			if r.IntN(5) == 0 {
				m.Parts = []byte(`["p"]`)
			}
			if r.IntN(5) == 0 {
				m.ToolCalls, m.Extra = []byte(`[{"id":"c"}]`), []byte(`{"refusal":"r"}`)
			}
			all = append(all, m)
			whole.WriteString(m.Text + string(m.Parts) + string(m.ToolCalls) + string(m.Extra))
		}
		got, borders := "", 0
		for _, chunk := range chunks(all, limit) {
			n := 0
			for _, m := range chunk {
				n += chars(&m)
				got += m.Text + string(m.Parts) + string(m.ToolCalls) + string(m.Extra)
				if !utf8.ValidString(m.Text) {
					t.Fatal("a character was cut")
				}
			}
			if n > limit || len(chunk) == 0 {
				t.Fatalf("a chunk of %d characters, the limit is %d", n, limit)
			}
			borders++
		}
		if got != whole.String() {
			t.Fatalf("%d chunks say %q, want %q", borders, got, whole.String())
		}
	}
}

// TestExtractive: the extract is of the sentences, within its bound, the same each time, and
// says what it is.
func TestExtractive(t *testing.T) {
	talk := []Message{
		{Role: "user", Text: "The invoice of the printer is wrong. Hello! It says printer twice."},
		{Role: "assistant", Text: "The printer invoice will be corrected by Monday.\nAnything else?"},
	}
	e := Extractive{MaxChars: 160}
	first, err := e.Summarize(t.Context(), "", talk)
	if err != nil || !strings.HasPrefix(first, ExtractHead) || utf8.RuneCountInString(first) > 160 || !strings.Contains(first, "printer invoice will be corrected") {
		t.Errorf("%q, %v", first, err)
	}
	again, _ := e.Summarize(t.Context(), "", talk)
	if again != first {
		t.Errorf("%q, then %q", first, again)
	}
	tools := []Message{{Role: "assistant", ToolCalls: []byte(`[{"function":{"name":"look_up_invoice","arguments":"{\"printer\":7}"}}]`)}, {Role: "tool", Parts: []byte(`[{"type":"tool_result","content":"Paid in March."}]`)}}
	if s, err := e.Summarize(t.Context(), "", tools); err != nil || !strings.Contains(s, "look_up_invoice") || !strings.Contains(s, "tool: Paid in March.") {
		t.Errorf("of tools: %q, %v", s, err)
	}
	next, err := e.Summarize(t.Context(), first, []Message{{Role: "user", Text: "Thanks."}})
	if err != nil || strings.Count(next, ExtractHead) != 1 || !strings.Contains(next, "printer invoice") {
		t.Errorf("with the one before: %q, %v", next, err)
	}
}
