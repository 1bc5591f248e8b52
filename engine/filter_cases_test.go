package engine

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// filterCases are memories by ID, and what each condition leaves of them.
var filterCases = []struct {
	id   string
	text string
	meta map[string]any
}{
	{"a", "Python and tea", map[string]any{"tag": "work", "mixed": 1, "n": 1}},
	{"b", "python and 100% milk", map[string]any{"tag": "Work", "mixed": "1", "n": 2.5}},
	{"c", "PYTHON_3 * 2", map[string]any{"u": uint64(math.MaxUint64 - 1), "tag": nil, "mixed": true, "n": -3}},
	{"d", "Straße", map[string]any{"mixed": []any{1, "1"}, "n": 1e300}},
	{"e", "STRASSE", map[string]any{"tag": []any{"work", "home"}, "mixed": nil, "n": uint64(9007199254740993)}},
	{"f", "tea", map[string]any{"tag": "", "n": json.Number("1e999"), "u": uint64(math.MaxUint64), "o": map[string]any{"tag": "work", "list": []any{map[string]any{"x": 1}}}, "role": "guest", "text": "hidden"}},
}

// TestFilterCases: the semantics of filters, case by case, in lists and in recall by
// text, vector and both.
func TestFilterCases(t *testing.T) {
	for name, o := range map[string]setup{
		"in memory": {}, "sealed": {tuning: tuning{hotBytes: 1}}, "by columns": {tuning: tuning{columns: true}}, "by sealed columns": {tuning: tuning{columns: true, hotBytes: 1}},
	} {
		t.Run(name, func(t *testing.T) { filterCasesRun(t, o) })
	}
}

func filterCasesRun(t *testing.T, o setup) {
	o.Clock = func() time.Time { return filterNow }
	db := openTest(t, vfs.NewMem(), o)
	for i, m := range filterCases {
		mustStore(t, db.Memories(), memory.Memory{
			ID: m.id, Scope: memory.Scope{User: "u"}, Text: m.text + " common", Metadata: m.meta,
			Embedding: []float32{1, float32(i)}, CreatedAt: filterNow.AddDate(0, 0, -i),
		})
	}
	db.waitSealed(t)
	for _, c := range []struct{ filter, want string }{
		// Equality minds the case and never turns one type into another.
		{`tag = work`, "a"},
		{`tag = Work`, "b"},
		{`mixed = 1`, "a"},
		{`mixed = 1.0`, "a"},
		{`mixed = 1e0`, "a"},
		{`mixed = "1"`, "b"},
		{`mixed = true`, "c"},
		{`mixed = "true"`, ""},
		{`tag = ""`, "f"},
		// null is a value, and not the same as missing.
		{`tag = null`, "c"},
		{`tag != null`, "a b d e f"},
		{`mixed = null`, "e"},
		{`nothing = null`, ""},
		{`nothing != null`, "a b c d e f"},
		// A missing field fails all but ne, nin and not.
		{`nothing = x`, ""},
		{`nothing != x`, "a b c d e f"},
		{`nothing in (x, null)`, ""},
		{`nothing nin (x, null)`, "a b c d e f"},
		{`nothing > 0 or nothing >= 0 or nothing < 0 or nothing <= 0`, ""},
		{`nothing contains "" or nothing icontains ""`, ""},
		{`not nothing > 0`, "a b c d e f"},
		{`tag != work`, "b c d e f"},
		// Lists contain their elements and equal nothing.
		{`tag contains work`, "a e"},
		{`tag contains wor`, "a"},
		{`tag icontains WORK`, "a b e"},
		{`tag icontains HOME`, "e"},
		{`tag in (work, home)`, "a"},
		{`tag nin (work, home)`, "b c d e f"},
		{`mixed contains "1"`, "b d"},
		{`mixed > 0`, "a"},
		// Numbers are compared exactly, strings by their bytes, never with each other.
		{`mixed >= "0"`, "b"},
		{`mixed < 2`, "a"},
		{`n > 1`, "b d e f"},
		{`n >= 1`, "a b d e f"},
		{`n < 1`, "c"},
		{`n <= 1`, "a c"},
		{`n = 9007199254740993`, "e"},
		{`n = 9007199254740992`, ""},
		{`n > 9007199254740992 and n < 9007199254740994`, "e"},
		{`n >= 1e300`, "d f"},
		{`n > 1e300`, "f"},
		{`n = 1e999`, "f"},
		{`n = 1e998`, ""},
		{`u > 18446744073709551614`, "f"},
		{`u <= 18446744073709551614`, "c"},
		{`u < 18446744073709551616`, "c f"},
		{`n in (1, -3, "2.5")`, "a c"},
		{`tag > Work and tag < x`, "a"},
		{`tag <= ""`, "f"},
		{`n > "0"`, ""},
		{`n contains "1"`, ""},
		// contains minds the case, icontains does not, and neither knows wildcards.
		{`text contains Python`, "a"},
		{`memory icontains python`, "a b c"},
		{`content icontains strasse`, "d e"},
		{`text contains "%"`, "b"},
		{`text contains "_"`, "c"},
		{`text contains "*"`, "c"},
		{`text contains "P*n"`, ""},
		{`text contains ""`, "a b c d e f"},
		{`tag contains ""`, "a b f"},
		// Sets.
		{`tag in ()`, ""},
		{`tag nin ()`, "a b c d e f"},
		{`tag in (work, work, null)`, "a c"},
		// exists: there, be it as null.
		{`tag exists`, "a b c e f"},
		{`not tag exists`, "d"},
		{`tag exists and tag != null`, "a b e f"},
		{`o exists and o.tag exists and not o.nothing exists`, "f"},
		{`nothing exists`, ""},
		{`mixed exists and n exists`, "a b c d e"},
		{`run exists or agent exists or name exists or aliases exists or source exists`, ""},
		{`user exists and role exists and text exists and created_at exists and pinned exists`, "a b c d e f"},
		{`event_time exists or expires_at exists or last_accessed exists`, ""},
		{`{"field":"tag","operator":"exists"}`, "a b c e f"},
		{`{"field":"tag","op":"exists","value":true}`, "a b c e f"},
		// prefix and regex: of strings alone, minding the case.
		{`tag prefix wo`, "a"},
		{`tag prefix ""`, "a b f"},
		{`text prefix Python`, "a"},
		{`mixed prefix 1`, "b"},
		{`tag regex "^[wW]o"`, "a b"},
		{`tag regex ""`, "a b f"},
		{`text regex "(?i)^python.*(tea|2 common)$"`, "c"},
		{`mixed regex 1`, "b"},
		{`text regex "\\bmilk\\b"`, "b"},
		// A text that a memory does not have is "", to equality alone.
		{`agent = ""`, "a b c d e f"},
		{`agent != ""`, ""},
		{`run in (x, "") and source nin (x) and name = ""`, "a b c d e f"},
		{`source nin ("", x)`, ""},
		{`user = ""`, ""},
		{`user != ""`, "a b c d e f"},
		{`user in (u, "")`, "a b c d e f"},
		{`agent prefix "" or agent >= "" or agent contains ""`, ""},
		{`nothing = ""`, ""},
		// Composition.
		{`tag = work or tag = Work and n > 100`, "a"},
		{`(tag = work or tag = Work) and n > 2`, "b"},
		{`not tag = work and not tag = Work`, "c d e f"},
		{`not (tag = work or n < 0)`, "b d e f"},
		{`n < 0 or n > 1e300`, "c f"},
		{`not not tag = work`, "a"},
		{`{"AND":[]}`, "a b c d e f"},
		{`and ()`, "a b c d e f"},
		{`or () or not and (tag exists, n < 0)`, "a b d e f"},
		{`{"OR":[]}`, ""},
		{`{"NOT":{"OR":[]}}`, "a b c d e f"},
		{`{"NOT":{"NOT":{"field":"tag","op":"eq","value":"work"}}}`, "a"},
		// A bare name is a built-in field before it is metadata; metadata.x forces it.
		{`role contains guest`, ""},
		{`role = user`, "a b c d e f"},
		{`metadata.role = guest`, "f"},
		{`metadata.text = hidden`, "f"},
		{`metadata.tag = work`, "a"},
		{`o.tag = work`, "f"},
		{`metadata.o.tag = work`, "f"},
		{`o = work`, ""},
		{`o.list contains x`, ""},
		{`metadata.metadata.tag = work`, ""},
		// The other names, and times in their three forms.
		{`user_id = u and user = u`, "a b c d e f"},
		{`agent_id = u or run_id = u`, ""},
		{`id in (a, f)`, "a f"},
		{`created_at >= 2026-04-30`, "a b"},
		{`created_at = 2026-04-30T00:00:00Z`, "b"},
		{`created_at = 2026-04-30T02:00:00+02:00`, "b"},
		{`created_at < 1777420800000`, "d e f"},
		{`expires_at < 2030-01-01`, ""},
		{`not expires_at < 2030-01-01`, "a b c d e f"},
		{`created_at nin (2026-04-30, 2026-05-01)`, "c d e f"},
	} {
		f, err := filter.Parse(t.Context(), []byte(c.filter))
		if err != nil {
			t.Errorf("%s: %v", c.filter, err)
			continue
		}
		page, err := db.Memories().List(t.Context(), memory.ListQuery{Scope: memory.Scope{User: "u"}, Filter: f})
		if got := strings.Join(idsOf(page.Memories), " "); err != nil || got != c.want {
			t.Errorf("%s lists %q, want %q, %v", c.filter, got, c.want, err)
		}
		for _, p := range []memory.Profile{memory.ProfileText, memory.ProfileVector, memory.ProfileHybrid, memory.ProfileBest, memory.ProfileSubstrate} {
			got := hitIDs(mustRecall(t, db.Memories(), memory.Query{Scope: memory.Scope{User: "u"}, Text: "common", Embedding: []float32{1, 0}, Filter: f, Profile: p, NoTouch: true}))
			slices.Sort(got)
			if got := strings.Join(got, " "); got != c.want {
				t.Errorf("%s recalls by %s %q, want %q", c.filter, p, got, c.want)
			}
		}
	}
}

// TestFilterNesting: what nests 10,000 deep is an error in each form, at once; 60 deep
// is evaluated.
func TestFilterNesting(t *testing.T) {
	db := openTest(t, vfs.NewMem(), Options{})
	mustStore(t, db.Memories(), memory.Memory{ID: "a", Scope: memory.Scope{User: "u"}, Text: "tea", Metadata: map[string]any{"tag": "work"}})
	value := func(n int) filter.Filter {
		f := filter.Eq("tag", "work")
		for i := range n {
			switch i % 3 {
			case 0:
				f = filter.And(f)
			case 1:
				f = filter.Or(f)
			default:
				f = filter.Not(filter.Not(f))
			}
		}
		return f
	}
	list := func(f filter.Filter) (int, error) {
		page, err := db.Memories().List(t.Context(), memory.ListQuery{Scope: memory.Scope{User: "u"}, Filter: f})
		return len(page.Memories), err
	}
	form := func(open, end string, n int) (int, error) {
		inner := `{"field":"tag","op":"eq","value":"work"}`
		if open == "(" {
			inner = "tag = work"
		}
		f, err := filter.Parse(t.Context(), []byte(strings.Repeat(open, n)+inner+strings.Repeat(end, n)))
		if err != nil {
			return 0, err
		}
		return list(f)
	}
	for name, try := range map[string]func(n int) (int, error){
		"value": func(n int) (int, error) { return list(value(n * 3 / 4)) }, // a Not is two
		"AND":   func(n int) (int, error) { return form(`{"AND":[`, `]}`, n) },
		"OR":    func(n int) (int, error) { return form(`{"OR":[`, `]}`, n) },
		"NOT":   func(n int) (int, error) { return form(`{"NOT":`, `}`, n) },
		"text":  func(n int) (int, error) { return form("(", ")", n) },
	} {
		if n, err := try(60); err != nil || n != 1 {
			t.Errorf("%s, 60 deep: %d, %v", name, n, err)
		}
		for _, depth := range []int{100, 10_000, 1_000_000} {
			if _, err := try(depth); !errors.Is(err, fault.ErrInvalid) || len(err.Error()) > 500 {
				t.Errorf("%s, %d deep: %v", name, depth, err)
			}
		}
	}
	for _, f := range []filter.Filter{filter.Eq("n", math.NaN()), filter.In("n", 1, float32(math.NaN())), filter.Or(value(3), filter.Gt("n", math.NaN())), filter.Lte("n", json.Number("-1e999"))} {
		if _, err := list(f); !errors.Is(err, fault.ErrInvalid) {
			t.Errorf("%#v: %v", f, err)
		}
	}
}
