package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/race"
	"github.com/seed-7aedc3ff/memdb/internal/selection"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/memory"
)

const (
	// filtersVar sets how many filters each run of TestFilterAgainstNaive tries.
	filtersVar      = "MEMDB_FILTERS"
	filtersOfARun   = 20
	filteredRecords = 250
)

// filterCount is what a run of random filters has compared.
type filterCount struct{ filters, forms, answers, verdicts, matches int }

// TestFilterAgainstNaive evaluates random filters over random memories, as a value,
// as JSON and as short text, by List and by every profile of recall, and compares
// with a naive evaluation of what Get returns: over one chunk in memory, over many
// sealed ones, and with other fields taking all the room of the filter index.
func TestFilterAgainstNaive(t *testing.T) {
	race.Sequential(t)
	t.Parallel()
	filters := race.Times(filtersOfARun)
	if n, err := strconv.Atoi(os.Getenv(filtersVar)); err == nil {
		filters = n
	}
	var sum filterCount
	for seed, variant := range []filterVariant{
		{name: "in memory"},
		{name: "by columns", opts: setup{tuning: tuning{columns: true}}},
		{name: "by sealed columns", opts: setup{tuning: tuning{columns: true, hotBytes: 16 << 10}}, sealed: true},
		{name: "in sealed chunks", opts: setup{tuning: tuning{hotBytes: 8 << 10}}, sealed: true},
		{name: "outside the index", others: memory.MaxIndexedPaths},
		{name: "half in the index", others: memory.MaxIndexedPaths - 2, opts: setup{tuning: tuning{hotBytes: 20 << 10}}, sealed: true},
	} {
		t.Run(variant.name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(uint64(seed), 3))
			run := newFilterRun(t, rng, variant)
			for range filters {
				run.try(randomFilter(rng, 3))
			}
			n := run.count
			t.Logf("seed %d: %d filters over %d memories, %d matches", seed, n.filters, len(run.all), n.matches)
			if n.matches == 0 {
				t.Error("no filter ever matched")
			}
			sum = filterCount{sum.filters + n.filters, sum.forms + n.forms, sum.answers + n.answers, sum.verdicts + n.verdicts, sum.matches + n.matches}
		})
	}
	t.Logf("%d filters in %d forms: %d answers of lists and recalls, %d verdicts on a memory, %d matches",
		sum.filters, sum.forms, sum.answers, sum.verdicts, sum.matches)
}

var filterNow = time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)

// filterVariant is a way to hold the memories that filters are tried on.
type filterVariant struct {
	name   string
	opts   setup
	others int // metadata fields that are stored before
	sealed bool
}

// filterRun is a database of random memories.
type filterRun struct {
	*testing.T
	db    *DB
	rng   *rand.Rand
	all   []memory.Memory
	count filterCount
}

func newFilterRun(t *testing.T, rng *rand.Rand, v filterVariant) *filterRun {
	v.opts.Clock = func() time.Time { return filterNow }
	r := &filterRun{T: t, rng: rng, db: openTest(t, vfs.NewMem(), v.opts)}
	t.Cleanup(func() { closeTest(t, r.db) })
	if v.others > 0 {
		others := map[string]any{}
		for i := range v.others {
			others[fmt.Sprint("other", i)] = i
		}
		mustStore(t, r.db.Memories(), memory.Memory{Scope: memory.Scope{User: "ada"}, Text: "common", Metadata: others, Embedding: []float32{1, 1}})
	}
	for i := range filteredRecords {
		m := randomFiltered(rng, i)
		if _, err := r.db.Memories().Store(t.Context(), m, &memory.StoreOptions{NoDedup: true}); err != nil {
			t.Fatal(err)
		}
		switch rng.IntN(12) {
		case 0:
			other := randomFiltered(rng, i)
			patch := memory.Patch{Metadata: &other.Metadata, Text: &other.Text, Importance: other.Importance, Embedding: other.Embedding}
			if _, err := r.db.Memories().Update(t.Context(), memory.Scope{}, m.ID, patch); err != nil {
				t.Fatal(err)
			}
		case 1:
			if err := r.db.Memories().Delete(t.Context(), memory.Scope{}, m.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
	// Small chunks are merged beside this, so how many there are tells little.
	if n, docs := r.db.waitSealed(t), r.db.sealedDocs(); v.sealed != (docs > filteredRecords/2) {
		t.Fatalf("%d documents of %d are sealed, in %d chunks", docs, filteredRecords, n)
	}
	for m, err := range r.db.Memories().All(t.Context(), memory.ListQuery{AllScopes: true}) {
		if err != nil {
			t.Fatal(err)
		}
		r.all = append(r.all, m)
	}
	return r
}

// try compares every answer to a filter in each of its forms, over the whole or in a
// scope.
func (r *filterRun) try(f filter.Filter) {
	r.Helper()
	scope := pick(r.rng, memory.Scope{}, memory.Scope{}, memory.Scope{User: "ada"}, memory.Scope{Agent: "a1"}, memory.Scope{User: "bob", Run: "r1"})
	var want []string
	for _, m := range r.all {
		if inScope(&m, scope) && naive(f, &m) {
			want = append(want, m.ID)
		}
	}
	forms := map[string]filter.Filter{"value": f}
	written, err := json.Marshal(f)
	if err != nil {
		r.Fatalf("%s: %v", f, err)
	}
	for name, form := range map[string]string{"JSON": filterJSON(r.T, f), "text": filterText(f), "written JSON": string(written), "written text": f.String()} {
		read, err := filter.Parse(r.Context(), []byte(form))
		if err != nil {
			r.Fatalf("%s: %v", form, err)
		}
		forms[name] = read
	}
	for name, form := range forms {
		page, err := r.db.Memories().List(r.Context(), memory.ListQuery{Scope: scope, AllScopes: scope == memory.Scope{}, Filter: form, Limit: valid.MaxLimit})
		if err != nil {
			r.Fatalf("%s %#v: %v", name, form, err)
		}
		if got := idsOf(page.Memories); !slices.Equal(got, want) {
			r.Fatalf("%s %#v in %+v\nlists %v\nwant  %v", name, form, scope, got, want)
		}
	}
	r.recalls(forms[pick(r.rng, "value", "JSON", "text", "written JSON", "written text")], scope, want)
	const profiles = 5
	r.count.filters++
	r.count.forms += len(forms)
	r.count.answers += len(forms) + 2*profiles
	r.count.verdicts += (len(forms) + profiles) * len(r.all)
	r.count.matches += len(want)
}

func inScope(m *memory.Memory, s memory.Scope) bool {
	return (s.User == "" || s.User == m.User) && (s.Agent == "" || s.Agent == m.Agent) && (s.Run == "" || s.Run == m.Run)
}

// recalls: every memory holds the word "common" and has a vector, so each profile
// finds just what the filter leaves; with a limit it finds the first of them.
func (r *filterRun) recalls(f filter.Filter, scope memory.Scope, want []string) {
	r.Helper()
	sorted := slices.Sorted(slices.Values(want))
	for _, p := range []memory.Profile{memory.ProfileText, memory.ProfileVector, memory.ProfileHybrid, memory.ProfileSubstrate, memory.ProfileBest} {
		q := memory.Query{
			Scope: scope, AllScopes: scope == memory.Scope{}, Text: "common", Embedding: []float32{1, 1}, Filter: f, Limit: valid.MaxLimit, Profile: p, NoTouch: true,
		}
		err := r.db.View(r.Context(), func(tx *Tx) error { // where the weight of the vectors stands still
			whole := hitIDs(mustRecall(r, tx.Memories(), q))
			if got := slices.Sorted(slices.Values(whole)); !slices.Equal(got, sorted) {
				return fmt.Errorf("finds %v\nwant %v", got, sorted)
			}
			q.Limit = 5
			if got := hitIDs(mustRecall(r, tx.Memories(), q)); !slices.Equal(got, whole[:min(5, len(whole))]) {
				return fmt.Errorf("finds first %v of %v", got, whole)
			}
			return nil
		})
		if err != nil {
			r.Fatalf("%#v in %+v\nprofile %s %v", f, scope, p, err)
		}
	}
}

// filterJSON writes a filter as JSON.
func filterJSON(t *testing.T, f filter.Filter) string {
	t.Helper()
	b, err := json.Marshal(filterTree(f))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func filterTree(f filter.Filter) any {
	list := func(parts []filter.Filter) []any {
		out := []any{}
		for _, g := range parts {
			out = append(out, filterTree(g))
		}
		return out
	}
	switch f := f.(type) {
	case filter.All:
		return map[string]any{"AND": list(f)}
	case filter.Any:
		return map[string]any{"OR": list(f)}
	case filter.Negation:
		return map[string]any{"NOT": filterTree(f.Filter)}
	}
	c := f.(filter.Condition)
	node := map[string]any{"field": c.Field, "operator": c.Op.String()}
	switch c.Op {
	case filter.OpExists:
	case filter.OpIn, filter.OpNin:
		node["value"] = append([]any{}, c.Values...)
	default:
		node["value"] = c.Values[0]
	}
	return node
}

// filterText writes a filter as short text, every composition in parentheses.
func filterText(f filter.Filter) string {
	join := func(parts []filter.Filter, word, none string) string {
		var out []string
		for _, g := range parts {
			out = append(out, filterText(g))
		}
		if out == nil {
			return none
		}
		return "(" + strings.Join(out, " "+word+" ") + ")"
	}
	switch f := f.(type) {
	case filter.All:
		return join(f, "and", "id nin ()")
	case filter.Any:
		return join(f, "OR", "id in ()")
	case filter.Negation:
		return "not " + filterText(f.Filter)
	}
	c := f.(filter.Condition)
	var values []string
	for _, v := range c.Values {
		if at, ok := v.(time.Time); ok {
			v = at.Format(time.RFC3339)
		}
		number, _ := json.Marshal(v)
		text := string(number)
		if s, isString := v.(string); isString {
			text = `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
		}
		values = append(values, text)
	}
	list := strings.Join(values, ", ")
	if c.Op == filter.OpIn || c.Op == filter.OpNin {
		list = "(" + list + ")"
	}
	return c.Field + " " + c.Op.String() + " " + list
}

func idsOf(ms []memory.Memory) []string {
	var ids []string
	for _, m := range ms {
		ids = append(ids, m.ID)
	}
	return ids
}

func pick[T any](rng *rand.Rand, from ...T) T { return from[rng.IntN(len(from))] }

var filterWords = []string{"work", "home", "Draft", "straße", "STRASSE", "1", "true", ""}

func randomFiltered(rng *rand.Rand, i int) memory.Memory {
	meta := map[string]any{}
	for _, name := range []string{"tag", "n", "mixed", "deep.er", "list", "when"} {
		if rng.IntN(3) == 0 {
			continue
		}
		switch name {
		case "when":
			meta[name] = pick(rng, randomWhen(rng), randomWhen(rng), randomWhen(rng), pick[any](rng, "yesterday", "2026-02-30", "Zz", 7, true, nil,
				[]any{"2026-05-01"}, strings.Repeat(" ", 300)+"2026-05-01", "1777593600"))
		case "tag":
			meta[name] = pick(rng, filterWords...)
		case "n":
			meta[name] = pick[any](rng, 1, 2.5, -3, 1e300, json.Number("9007199254740993"), json.Number("9007199254740992"), 9007199254740992.0)
		case "mixed":
			meta[name] = pick[any](rng, 1, "1", true, nil, "true", 0, false, []any{"work", 1}, strings.Repeat("long", 100))
		case "deep.er":
			meta[name] = pick[any](rng, "a", "b")
			meta["deep"] = map[string]any{"er": pick[any](rng, "a", "b"), "other": rng.IntN(3)}
		case "list":
			meta[name] = []any{pick(rng, filterWords...), pick[any](rng, 1, "home")}
		}
	}
	if rng.IntN(5) == 0 {
		meta["role"] = "user" // hidden behind the built-in field
	}
	m := memory.Memory{
		ID:    fmt.Sprintf("m%03d", i),
		Scope: memory.Scope{User: pick(rng, "ada", "bob"), Agent: pick(rng, "", "a1"), Run: pick(rng, "", "r1", "r2")},
		Role:  pick(rng, memory.RoleUser, memory.RoleAssistant, memory.RoleTool), Kind: pick(rng, memory.KindMessage, memory.KindFact),
		Source: pick(rng, "", memory.SourceWebSearch, memory.Source(strings.Repeat("long", 100))), Text: "common " + pick(rng, filterWords...), Metadata: meta,
		Embedding: []float32{1, rng.Float32()}, Pinned: rng.IntN(4) == 0,
		CreatedAt: filterNow.AddDate(0, 0, -rng.IntN(5)), AccessCount: uint64(rng.IntN(3)),
	}
	if rng.IntN(2) == 0 {
		m.EventTime = filterNow.AddDate(0, 0, -rng.IntN(5))
	}
	if rng.IntN(2) == 0 {
		m.Importance = new(pick(rng, 0.1, 0.5, 1))
	}
	if rng.IntN(3) == 0 {
		m.Name, m.Confidence, m.LastAccessed = pick(rng, "work", "ß"), new(0.5), m.CreatedAt
		m.Aliases = []string{"work", pick(rng, "Draft", "straße")}
	}
	return m
}

func randomFilter(rng *rand.Rand, depth int) filter.Filter {
	if depth > 0 && rng.IntN(2) == 0 {
		var parts []filter.Filter
		for range rng.IntN(4) {
			parts = append(parts, randomFilter(rng, depth-1))
		}
		switch rng.IntN(3) {
		case 0:
			return filter.And(parts...)
		case 1:
			return filter.Or(parts...)
		}
		return filter.Not(randomFilter(rng, depth-1))
	}
	name := pick(rng, "user", "agent_id", "run", "role", "metadata.role", "kind", "source", "pinned", "id", "text", "content",
		"importance", "access_count", "created_at", "event_time", "expires_at", "tag", "n", "mixed", "deep", "deep.er", "deep.other", "metadata.deep.er", "metadata.list",
		"when", "when", "metadata.when", "name", "aliases", "confidence", "updated_at", "last_accessed", "nothing")
	for {
		if f := randomCondition(rng, name); filter.Check(f) == nil {
			return f
		}
	}
}

// randomCondition is a condition on a field, which the field may be unfit for.
func randomCondition(rng *rand.Rand, name string) filter.Filter {
	value := func() any {
		return pick[any](rng, "work", "home", "1", 1, 1.0, 2.5, true, nil, "a", "b", "ada", "a1", "r1", "user", "tool", "fact", "web_search", 0.5, 2, "", "",
			json.Number("9007199254740993"), "m100", "common work", "common ", strings.Repeat("long", 100))
	}
	ordered := pick[any](rng, "work", "b", "1", 1, 2.5, 0.5, -3.5, 9007199254740992.0, json.Number("9007199254740993"), "m150")
	if f, err := filter.Lookup(name); err == nil && f.IsTime() {
		value = func() any {
			day := filterNow.AddDate(0, 0, -rng.IntN(5))
			return pick[any](rng, day, day.Format(time.RFC3339), day.Format(time.DateOnly), day.UnixMilli())
		}
		ordered = value()
	}
	if strings.HasSuffix(name, "when") {
		value = func() any {
			return pick(rng, randomWhen(rng), randomWhen(rng), randomWhen(rng), pick[any](rng, filterNow, "yesterday", 7, nil, "2026-02-30"))
		}
		ordered = pick(rng, randomWhen(rng), randomWhen(rng), randomWhen(rng), pick[any](rng, filterNow, "yesterday", 1777593600))
	}
	word := pick(rng, "o", "work", "STRAS", "strasse", "ß", "1", "", "common w")
	pattern := pick(rng, "o", "^w", "k$", "^$", "(?i)STRA(ß|ss)", `\d`, "a|b")
	return pick(rng, filter.Eq(name, value()), filter.Ne(name, value()), filter.Gt(name, ordered), filter.Gte(name, ordered), filter.Lt(name, ordered),
		filter.Lte(name, ordered), filter.In(name, value(), value()), filter.Nin(name, value(), value()), filter.Contains(name, word), filter.Contains(name, value()), filter.IContains(name, word), filter.In(name),
		filter.Exists(name), filter.Prefix(name, word), filter.Regexp(name, pattern))
}

// whenForms are the instants of the forms of times that randomWhen gives, by their text.
var whenForms = map[string]time.Time{}

func init() {
	for i := range 12 {
		for _, v := range formsOf(filterNow.Add(time.Duration(i) * 6 * time.Hour)) {
			whenForms[fmt.Sprint(v)] = filterNow.Add(time.Duration(i) * 6 * time.Hour)
		}
	}
}

// formsOf are forms of one instant: texts and numbers.
func formsOf(at time.Time) []any {
	east, west := time.FixedZone("", 9*3600), time.FixedZone("", -5*3600)
	forms := []any{
		at.Format(time.RFC3339), at.Format("2006-01-02 15:04:05"), at.In(east).Format(time.RFC3339), at.In(west).Format("2006-01-02 15:04:05 -0700"),
		at.In(west).Format(time.RFC1123Z), at.Format("2006-01-02T15:04:05.000000"), at.In(west).Format("2 Jan 2006 15:04:05 EST"), at.Format("20060102T150405Z"),
		at.Unix(), at.UnixMilli(), json.Number(fmt.Sprint(at.UnixNano())),
	}
	if at.Hour() == 0 {
		forms = append(forms, at.Format(time.DateOnly), at.Format("2006/01/02"))
	}
	return forms
}

// randomWhen is one of some times in a random form.
func randomWhen(rng *rand.Rand) any {
	return pick(rng, formsOf(filterNow.Add(time.Duration(rng.IntN(12))*6*time.Hour))...)
}

// naiveMoment is the instant of a value: of a condition a text or a time.Time, of a memory a text
// or a number.
func naiveMoment(v any, isField bool) (time.Time, bool) {
	switch v := v.(type) {
	case time.Time:
		return v, true
	case string:
		if v == "1777593600" {
			return time.Time{}, false
		}
	default:
		if !isField {
			return time.Time{}, false
		}
	}
	at, ok := whenForms[fmt.Sprint(v)]
	return at, ok
}

// naive evaluates a filter on what a caller sees.
func naive(f filter.Filter, m *memory.Memory) bool {
	switch f := f.(type) {
	case filter.All:
		return !slices.ContainsFunc(f, func(g filter.Filter) bool { return !naive(g, m) })
	case filter.Any:
		return slices.ContainsFunc(f, func(g filter.Filter) bool { return naive(g, m) })
	case filter.Negation:
		return !naive(f.Filter, m)
	case filter.Condition:
		return naiveCondition(f, m)
	}
	panic(fmt.Sprintf("%T", f))
}

func naiveCondition(c filter.Condition, m *memory.Memory) bool {
	is := func(op filter.Op, values ...any) bool {
		return naiveCondition(filter.Condition{Field: c.Field, Op: op, Values: values}, m)
	}
	switch c.Op {
	case filter.OpIn:
		return slices.ContainsFunc(c.Values, func(v any) bool { return is(filter.OpEq, v) })
	case filter.OpNin:
		return !is(filter.OpIn, c.Values...)
	case filter.OpExists:
		_, ok := naiveField(c.Field, m)
		return ok
	}
	have, ok := naiveField(c.Field, m)
	text, isText := have.(string)
	switch v := c.Values[0]; c.Op {
	case filter.OpEq:
		if !ok {
			return v == any("") && slices.Contains([]string{"user", "agent_id", "run", "source", "name", "text", "content"}, c.Field)
		}
		return naiveCompare(have, v, func(c int) bool { return c == 0 }, true)
	case filter.OpNe:
		return !is(filter.OpEq, v)
	case filter.OpGt:
		return ok && naiveCompare(have, v, func(c int) bool { return c > 0 }, false)
	case filter.OpGte:
		return is(filter.OpGt, v) || naiveTie(c.Field, v, m)
	case filter.OpLt:
		return ok && naiveCompare(have, v, func(c int) bool { return c < 0 }, false)
	case filter.OpLte:
		return is(filter.OpLt, v) || naiveTie(c.Field, v, m)
	case filter.OpContains:
		return naiveContains(c.Field, v, m, func(s string) string { return s })
	case filter.OpIContains:
		return naiveContains(c.Field, v, m, func(s string) string {
			return strings.ReplaceAll(strings.ToLower(s), "ß", "ss")
		})
	case filter.OpPrefix:
		return ok && isText && len(text) >= len(v.(string)) && text[:len(v.(string))] == v
	case filter.OpRegexp:
		return ok && isText && regexp.MustCompile(v.(string)).MatchString(text)
	}
	panic(c.Op)
}

func naiveTie(name string, v any, m *memory.Memory) bool {
	have, ok := naiveField(name, m)
	if _, isBool := have.(bool); isBool || have == nil {
		return false
	}
	return ok && naiveCompare(have, v, func(c int) bool { return c == 0 }, true)
}

func naiveField(name string, m *memory.Memory) (any, bool) {
	str := func(s string) (any, bool) { return s, s != "" }
	at := func(ts time.Time) (any, bool) { return ts, !ts.IsZero() }
	switch name {
	case "user":
		return str(m.User)
	case "agent_id":
		return str(m.Agent)
	case "run":
		return str(m.Run)
	case "role":
		return str(string(m.Role))
	case "kind":
		return str(string(m.Kind))
	case "source":
		return str(string(m.Source))
	case "text", "content":
		return str(m.Text)
	case "id":
		return m.ID, true
	case "pinned":
		return m.Pinned, true
	case "importance":
		return *m.Importance, true
	case "access_count":
		return m.AccessCount, true
	case "created_at":
		return at(m.CreatedAt)
	case "updated_at":
		return at(m.UpdatedAt)
	case "last_accessed":
		return at(m.LastAccessed)
	case "name":
		return str(m.Name)
	case "aliases":
		var list []any
		for _, a := range m.Aliases {
			list = append(list, a)
		}
		return list, list != nil
	case "confidence":
		return *m.Confidence, true
	case "event_time":
		return at(m.EventTime)
	case "expires_at":
		return at(m.ExpiresAt)
	case "deep.other":
		deep, _ := m.Metadata["deep"].(map[string]any)
		v, ok := deep["other"]
		return v, ok
	}
	v, ok := m.Metadata[strings.TrimPrefix(name, "metadata.")]
	return v, ok
}

func naiveCompare(have, want any, test func(int) bool, equality bool) bool {
	if ts, ok := have.(time.Time); ok {
		var w time.Time
		switch v := want.(type) {
		case time.Time:
			w = v
		case int64:
			w = time.UnixMilli(v)
		case string:
			var err error
			if w, err = time.Parse(time.RFC3339, v); err != nil {
				w, _ = time.Parse(time.DateOnly, v)
			}
		}
		return test(ts.Compare(w))
	}
	if w, ok := naiveMoment(want, false); ok {
		h, ok := naiveMoment(have, true)
		return ok && test(h.Compare(w))
	}
	if a, ok := have.(string); ok {
		b, ok := want.(string)
		return ok && test(strings.Compare(a, b))
	}
	if a, ok := naiveNumber(have); ok {
		b, ok := naiveNumber(want)
		return ok && test(a.Cmp(b))
	}
	if _, isList := have.([]any); isList || !equality {
		return false
	}
	return have == want
}

// naiveNumber is a number as an exact fraction.
func naiveNumber(v any) (*big.Rat, bool) {
	switch v.(type) {
	case json.Number, float64, int, int64, uint64:
		return new(big.Rat).SetString(fmt.Sprint(v))
	}
	return nil, false
}

func naiveContains(name string, value any, m *memory.Memory, fold func(string) string) bool {
	have, ok := naiveField(name, m)
	if !ok {
		return false
	}
	word, isWord := value.(string)
	if !isWord {
		b, _ := json.Marshal(value)
		word = string(b)
	}
	if list, ok := have.([]any); ok {
		return slices.ContainsFunc(list, func(e any) bool {
			if s, ok := e.(string); ok {
				return isWord && fold(s) == fold(word)
			}
			return naiveCompare(e, value, func(c int) bool { return c == 0 }, true)
		})
	}
	s, ok := have.(string)
	return ok && strings.Contains(fold(s), fold(word))
}

// TestFilterFieldWithoutNumber: within the transaction that takes the last number for a
// metadata field, the fields that got none are looked at all the same.
func TestFilterFieldWithoutNumber(t *testing.T) {
	ctx := context.Background()
	db := openTest(t, vfs.NewMem(), Options{})
	ada := memory.Scope{User: "ada"}
	for i := range memory.MaxIndexedPaths - 1 {
		mustStore(t, db.Memories(), memory.Memory{Scope: ada, Text: fmt.Sprint(i), Metadata: map[string]any{fmt.Sprint("f", i): 1}})
	}
	err := db.Update(ctx, func(tx *Tx) error {
		m := tx.Memories()
		mustStore(t, m, memory.Memory{ID: "x", Scope: ada, Text: "x", Metadata: map[string]any{"p1": "a", "p2": "b", "p3": 7}})
		for _, c := range []struct {
			f    filter.Filter
			want int
		}{
			{filter.Eq("p1", "a"), 1},
			{filter.Eq("p2", "b"), 1},
			{filter.Gt("p3", 1), 1},
			{filter.Contains("p2", "b"), 1},
			{filter.Ne("p2", "b"), memory.MaxIndexedPaths - 1},
			{filter.Ne("p3", 7), memory.MaxIndexedPaths - 1},
		} {
			page, err := m.List(ctx, memory.ListQuery{Scope: ada, Filter: c.f, Limit: 1000})
			if err != nil || len(page.Memories) != c.want {
				t.Errorf("%v: %d memories, %v; want %d", c.f, len(page.Memories), err, c.want)
			}
		}
		n, err := m.DeleteMatching(ctx, memory.DeleteQuery{Scope: ada, Filter: filter.Ne("p2", "b")})
		if err != nil || n != memory.MaxIndexedPaths-1 {
			t.Errorf("deleted %d, %v; want %d", n, err, memory.MaxIndexedPaths-1)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	mustCheck(t, db, 1)
}

// TestFilterValuesOfNamedTypes: the package's own constants are values.
func TestFilterValuesOfNamedTypes(t *testing.T) {
	db := openTest(t, vfs.NewMem(), Options{})
	ada := memory.Scope{User: "ada"}
	mustStore(t, db.Memories(), memory.Memory{ID: "a", Scope: ada, Text: "a", Role: memory.RoleAssistant})
	mustStore(t, db.Memories(), memory.Memory{ID: "b", Scope: ada, Text: "b", Role: memory.RoleUser})
	for _, f := range []filter.Filter{filter.Eq("role", memory.RoleUser), filter.In("role", memory.RoleUser, memory.RoleTool), filter.Ne("role", memory.RoleAssistant)} {
		page, err := db.Memories().List(t.Context(), memory.ListQuery{Scope: ada, Filter: f})
		if got := idsOf(page.Memories); err != nil || !slices.Equal(got, []string{"b"}) {
			t.Errorf("%#v: %v, %v", f, got, err)
		}
	}
	for _, f := range []filter.Filter{filter.Gt("role", memory.RoleUser), filter.Contains("text", memory.RoleUser)} {
		_, err := db.Memories().List(t.Context(), memory.ListQuery{Scope: ada, Filter: f})
		wantError(t, fmt.Sprintf("%#v", f), err, fault.ErrInvalid)
	}

	type name string
	type small float32
	type flag bool
	type count int8
	mustStore(t, db.Memories(), memory.Memory{ID: "c", Scope: memory.Scope{User: "ada", Agent: "g", Run: "r"}, Text: "c", Role: memory.RoleSystem, Metadata: map[string]any{
		"s": name("x"), "f": small(0.1), "b": flag(true), "n": count(-3),
	}})
	for field, v := range map[string]any{
		"user": name("ada"), "agent": name("g"), "run": name("r"), "id": name("c"), "s": name("x"), "f": small(0.1), "b": flag(true), "n": count(-3),
	} {
		want := map[string]bool{"c": true, "a": field == "user", "b": field == "user"}
		for _, f := range []filter.Filter{filter.Eq(field, v), filter.In(field, v), filter.Not(filter.Ne(field, v)), filter.Not(filter.Nin(field, v))} {
			page, err := db.Memories().List(t.Context(), memory.ListQuery{Scope: ada, Filter: f})
			if got := idsOf(page.Memories); err != nil || len(got) != map[bool]int{true: 3, false: 1}[want["a"]] || !want[got[0]] {
				t.Errorf("%#v: %v, %v", f, got, err)
			}
		}
	}
}

// TestFilterReadsOnce: however many conditions look at them, memories are read once.
func TestFilterReadsOnce(t *testing.T) {
	db := openTest(t, vfs.NewMem(), Options{})
	ada := memory.Scope{User: "ada"}
	const memories, conditions = 50, 40
	for i := range memories {
		mustStore(t, db.Memories(), memory.Memory{Scope: ada, Text: fmt.Sprint("number ", i), Metadata: map[string]any{"n": i}})
	}
	reads := func(f filter.Filter) (n int) {
		err := db.View(t.Context(), func(tx *Tx) error {
			r := &countingReader{Reader: tx.state.Reader}
			tx.state.Reader = r
			set, err := selection.Selected(t.Context(), &tx.state, ada, false, f)
			if err == nil && set.GetCardinality() != memories {
				t.Errorf("%d memories", set.GetCardinality())
			}
			n = r.gets
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	one := reads(filter.Contains("text", "number"))
	var or filter.Any
	and := filter.All{filter.Gte("n", 0)}
	for i := range conditions {
		or = append(or, filter.Not(filter.Or(filter.IContains("text", fmt.Sprint("Absent ", i)), filter.Eq("id", "x"))))
		and = append(and, filter.Contains("text", "number"))
	}
	or[0] = filter.Contains("text", "nowhere")
	if many := reads(or); many != one {
		t.Errorf("%d reads for %d conditions, %d for one", many, conditions, one)
	}
	if many := reads(and); many != one {
		t.Errorf("%d reads for %d conditions, %d for one", many, conditions, one)
	}
}

// countingReader counts what is read by key.
type countingReader struct {
	kv.Reader
	gets int
}

func (r *countingReader) Get(key []byte) ([]byte, io.Closer, error) {
	r.gets++
	return r.Reader.Get(key)
}

// TestFilterOfLargeFloats: a float64 equals itself, as JSON stores it.
func TestFilterOfLargeFloats(t *testing.T) {
	db := openTest(t, vfs.NewMem(), Options{})
	ada := memory.Scope{User: "ada"}
	for i, v := range []float64{1 << 53, 1 << 60, 1 << 63, 1 << 70, -1 << 60, 1e21, 1.5e300, 1<<53 + 2} {
		mustStore(t, db.Memories(), memory.Memory{Scope: ada, Text: fmt.Sprint(i), Metadata: map[string]any{"n": v}})
		for _, f := range []filter.Filter{filter.Eq("n", v), filter.And(filter.Lte("n", v), filter.Gte("n", v)), filter.Not(filter.Or(filter.Lt("n", v), filter.Gt("n", v)))} {
			page, err := db.Memories().List(t.Context(), memory.ListQuery{Scope: ada, Filter: f})
			if err != nil || len(page.Memories) != 1 {
				t.Errorf("%#v: %d memories, %v", f, len(page.Memories), err)
			}
		}
	}
}
