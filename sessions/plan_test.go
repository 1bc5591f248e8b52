package sessions

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
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
		{"empty", []Item{said("", "user", "1", 1), said("b", "user", "", 2)}, nil, RepairStats{EmptyRemoved: 2}},
		{"duplicates", []Item{said("a", "user", "1", 1), said("b", "tool", "2", 2), said("a", "user", "3", 3)}, []string{"a user: 1", "b tool: 2"}, RepairStats{DuplicatesRemoved: 1}},
		{"merged", []Item{said("a", "user", "1", 1), said("b", "user", "2", 2), said("c", "user", "3", 3)}, []string{"a user: 1/2/3"}, RepairStats{ConsecutiveMerged: 2}},
		{"system", []Item{said("a", "system", "1", 1), said("b", "system", "2", 2)}, []string{"a system: 1", "b system: 2"}, RepairStats{}},
		{"not across a marker", []Item{said("a", "user", "1", 5), marker, said("b", "user", "2", 2)}, []string{"a user: 1", "---", "b user: 2"}, RepairStats{}},
		{"reordered", []Item{said("a", "user", "1", 3), said("b", "tool", "2", 1), said("c", "system", "3", 2)}, []string{"b tool: 2", "c system: 3", "a user: 1"}, RepairStats{Reordered: 2}},
		{"merged after the order", []Item{said("a", "user", "1", 1), said("b", "tool", "2", 3), said("c", "user", "3", 2)}, []string{"a user: 1/3", "b tool: 2"}, RepairStats{Reordered: 1, ConsecutiveMerged: 1}},
		{"no time", []Item{said("a", "user", "1", 9), said("b", "tool", "2", 0), said("c", "user", "3", 10)}, []string{"a user: 1", "b tool: 2", "c user: 3"}, RepairStats{}},
		{"orphans and oversized are only told of", []Item{gone, said("b", "tool", strings.Repeat("x", Oversized+1), 2)}, []string{"g user: x", "b tool: " + strings.Repeat("x", Oversized+1)}, RepairStats{OrphanedRefs: 1, OversizedDetected: 1}},
		{
			"all",
			[]Item{said("", "user", "0", 1), said("a", "user", "1", 4), said("a", "user", "1", 4), said("b", "user", "2", 5), said("c", "tool", "3", 2), gone},
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

// TestPlanRepairProperties repairs random sessions: a second repair fixes nothing, no text
// and no reference of a message that stays is lost, nothing crosses a marker, and what is
// given is not changed.
func TestPlanRepairProperties(t *testing.T) {
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(uint64(seed), 1))
	for range 3000 {
		var in []Item
		for n := range r.IntN(14) {
			if r.IntN(6) == 0 {
				in = append(in, Item{Marker: &Marker{Summarized: n}})
				continue
			}
			i := said(fmt.Sprint("m", r.IntN(12)), []string{"user", "assistant", "system", "tool"}[r.IntN(4)], fmt.Sprint("t", n), r.IntN(6))
			if r.IntN(8) == 0 {
				i.Message.ID = ""
			}
			if r.IntN(8) == 0 {
				i.Message.Text, i.Message.pieces = "", nil
			}
			if r.IntN(4) == 0 {
				i.Message.MemoryIDs = []string{fmt.Sprint("ref", n)}
			}
			in = append(in, i)
		}
		given := lines(in)
		out, stats := PlanRepair(in)
		if !slices.Equal(lines(in), given) {
			t.Fatalf("the plan has changed what was given: %q, was %q", lines(in), given)
		}
		again, second := PlanRepair(out)
		if second.Fixes() != 0 || !reflect.DeepEqual(lines(again), lines(out)) {
			t.Fatalf("%q\nrepaired to %q\nand again to %q, %+v", given, lines(out), lines(again), second)
		}
		checkKept(t, in, out, stats)
	}
}

// checkKept compares what each stretch between markers says and refers to, by brute force.
func checkKept(t *testing.T, in, out []Item, stats RepairStats) {
	t.Helper()
	says := func(items []Item, all bool) (texts, refs [][]string) {
		seen := map[string]bool{}
		texts, refs = [][]string{nil}, [][]string{nil}
		for _, i := range items {
			if i.Marker != nil {
				texts, refs = append(texts, nil), append(refs, nil)
				continue
			}
			m := i.Message
			if !all && (m.ID == "" || seen[m.ID] || m.Text == "" && len(m.MemoryIDs) == 0) {
				continue
			}
			seen[m.ID] = true
			at := len(texts) - 1
			if m.Text != "" {
				texts[at] = append(texts[at], strings.Split(m.Text, "\n")...)
			}
			refs[at] = append(refs[at], m.MemoryIDs...)
		}
		for i := range texts {
			slices.Sort(texts[i])
			slices.Sort(refs[i])
		}
		return texts, refs
	}
	wantTexts, wantRefs := says(in, false)
	gotTexts, gotRefs := says(out, true)
	if !reflect.DeepEqual(gotTexts, wantTexts) || !reflect.DeepEqual(gotRefs, wantRefs) {
		t.Fatalf("%q\nrepaired to %q: texts %q and references %q, want %q and %q", lines(in), lines(out), gotTexts, gotRefs, wantTexts, wantRefs)
	}
	if len(in)-len(out) != stats.EmptyRemoved+stats.DuplicatesRemoved+stats.ConsecutiveMerged {
		t.Fatalf("%d items became %d: %+v", len(in), len(out), stats)
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
			all = append(all, m)
			whole.WriteString(m.Text + string(m.Parts))
		}
		got, borders := "", 0
		for _, chunk := range chunks(all, limit) {
			n := 0
			for _, m := range chunk {
				n += chars(&m)
				got += m.Text + string(m.Parts)
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
	messages := []Message{
		{Role: "user", Text: "The invoice of the printer is wrong. Hello! It says printer twice."},
		{Role: "assistant", Text: "The printer invoice will be corrected by Monday.\nAnything else?"},
	}
	e := Extractive{MaxChars: 160}
	first, err := e.Summarize(t.Context(), "", messages)
	if err != nil || !strings.HasPrefix(first, extractHead) || utf8.RuneCountInString(first) > 160 || !strings.Contains(first, "printer invoice will be corrected") {
		t.Errorf("%q, %v", first, err)
	}
	again, _ := e.Summarize(t.Context(), "", messages)
	if again != first {
		t.Errorf("%q, then %q", first, again)
	}
	next, err := e.Summarize(t.Context(), first, []Message{{Role: "user", Text: "Thanks."}})
	if err != nil || strings.Count(next, extractHead) != 1 || !strings.Contains(next, "printer invoice") {
		t.Errorf("with the one before: %q, %v", next, err)
	}
}
