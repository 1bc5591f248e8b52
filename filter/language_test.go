package filter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
)

// TestEscapes: quoted text takes the escapes of JSON, and no others.
func TestEscapes(t *testing.T) {
	for form, want := range map[string]string{
		`"\u00c4nne"`: "Änne", `'\u00C4nne'`: "Änne", `"\"\\\/\b\f\n\r\t"`: "\"\\/\b\f\n\r\t", `"\ud83d\ude00!"`: "😀!",
		`'it\'s'`: "it's", `"it's"`: "it's", `'say "x"'`: `say "x"`, `"\u0041\u0000"`: "A\x00", `"a` + "\n" + `b"`: "a\nb",
	} {
		f, err := Parse(t.Context(), []byte("tag = "+form))
		if err != nil || !reflect.DeepEqual(f, Eq("tag", want)) {
			t.Errorf("%s: %v, %v; want %q", form, f, err, want)
		}
	}
	for form, says := range map[string]string{
		`"\x41"`: `\x`, `"\a"`: `\a`, `"\ü"`: `\ü`, `"\u12"`: "incomplete", `"\u12g4"`: "incomplete",
		`"\ud83d"`: "half", `"\ud83dx"`: "half", `"\ud83d\u0041"`: "half", `"\ude00"`: "half", `"\u`: "incomplete", `"\`: "end",
		"\"\xff\"": "UTF-8",
	} {
		_, err := Parse(t.Context(), []byte("tag = "+form))
		if !errors.Is(err, fault.ErrInvalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want one that says %q", form, err, says)
		}
	}
	if _, err := Parse(t.Context(), []byte(`{"field":"tag","op":"eq","value":"\ud83d"}`)); !errors.Is(err, fault.ErrInvalid) || !strings.Contains(err.Error(), "half") {
		t.Errorf("half a pair in JSON: %v", err)
	}
}

// TestReservedNames: what memdb shows of a memory and a filter does not know is an error
// that says what serves instead, unless it is forced to be metadata.
func TestReservedNames(t *testing.T) {
	for name, says := range map[string]string{
		"seq": "created_at", "hash": "use text", "embedding": "recall by vector", "vectors": "recall by vector", "vectors.big": "recall by vector",
		"auto_importance": "use importance", "scope": "use user", "scope.user": "use user", "metadata": "metadata.tag",
	} {
		for _, f := range []Filter{Eq(name, "x"), Not(Contains(name, "x")), Or(Exists(name)), Lt(name, 3)} {
			err := Check(f)
			if !errors.Is(err, fault.ErrInvalid) || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %v, want one that says %q", name, err, says)
			}
		}
		if err := Check(Eq("metadata."+name, "x")); err != nil {
			t.Errorf("metadata.%s: %v", name, err)
		}
	}
	for _, name := range []string{"", "metadata."} {
		if err := Check(Exists(name)); !errors.Is(err, fault.ErrInvalid) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if f, err := Lookup("hashes"); err != nil || f.Path != "hashes" || f.Name != "" {
		t.Errorf("hashes is %+v, %v", f, err)
	}
}

// TestTypesThatCannotFit: a built-in field is compared with what it can be, and an error
// names the choices.
func TestTypesThatCannotFit(t *testing.T) {
	for form, says := range map[string]string{
		`role = asistant`: "user, assistant, system or tool", `role != ""`: "user, assistant", `role in (user, asistant)`: "asistant",
		`role nin (5)`: "user, assistant", `kind = foo`: "message, fragment, fact, note, archive or summary", `kind = Message`: "message",
		`pinned = yes`: "pinned = true", `pinned = 1`: "pinned = true", `pinned contains true`: "use eq, ne, in, nin or exists", `pinned > true`: "use eq",
		`importance > high`: "a number", `importance = "0.5"`: "a number", `confidence in (1, x)`: "a number", `importance = null`: "a number",
		`access_count contains 1`: "contains does not apply", `access_count prefix 1`: "prefix does not apply", `access_count regex 1`: "regex does not apply",
		`user = 5`: `"5"`, `agent = null`: `""`, `id > 3`: `"3"`, `name = true`: `"true"`, `text in (a, 1)`: `"1"`,
		`aliases = todo`: "use contains, icontains or exists", `aliases contains 1`: "strings",
		`created_at > 2026`: "2026-01-01", `created_at = 99999999`: "nine digits", `event_time in (2026-01-01, 0)`: "nine digits", `expires_at < -5`: "nine digits",
		`created_at > 20260101`: "2026-01-02", `created_at > 1e300`: "check its unit", `created_at prefix 2026`: "time", `updated_at regex 2026`: "time", `updated_at icontains 2026`: "time",
	} {
		_, err := Parse(t.Context(), []byte(form))
		if !errors.Is(err, fault.ErrInvalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want one that says %q", form, err, says)
		}
	}
	for _, form := range []string{
		`role contains assist and role > a and role prefix sys and role regex "^s"`, `kind in (fact, note)`, `kind in ()`, `pinned != true`, `importance >= 0.5`,
		`access_count in (1, 2.0)`, `user = "5"`, `agent = "" and run nin ("") and source != "" and name in ("", x)`, `text contains 5`, `text contains null`,
		`created_at > 100000000`, `created_at > -1000000000000`, `created_at > "1705744800"`, `created_at = 2026-01-01`, `tag = yes and n > high and x = 2026`, `aliases contains x`,
		`metadata.role = asistant`, `n in (null, true, 1, x)`, `last_accessed exists and text exists and pinned exists`,
	} {
		if _, err := Parse(t.Context(), []byte(form)); err != nil {
			t.Errorf("%s: %v", form, err)
		}
	}
}

// TestPatterns: regular expressions are RE2, short and few.
func TestPatterns(t *testing.T) {
	long := strings.Repeat("a", MaxPattern)
	many := make(Any, MaxPatterns)
	for i := range many {
		many[i] = Regexp("tag", "a")
	}
	for _, f := range []Filter{Regexp("text", long), many, Regexp("text", `(?i)\bé+$`)} {
		if err := Check(f); err != nil {
			t.Errorf("%.50s: %v", f, err)
		}
	}
	for _, c := range []struct {
		f    Filter
		says string
	}{
		{Regexp("text", long+"a"), fmt.Sprint(MaxPattern)},
		{Not(append(many, Regexp("tag", "b"))), fmt.Sprint(MaxPatterns)},
		{Regexp("text", "("), "RE2"},
		{Regexp("text", `(a)\1`), "RE2"},
		{Regexp("text", "a{2000}"), "RE2"},
		{Regexp("text", strings.Repeat("x{1000}", 139)), fmt.Sprint(MaxProgram)},
		{Regexp("text", strings.Repeat("((ab){30}c){30}", 10)), fmt.Sprint(MaxProgram)},
		{Regexp("text", strings.Repeat(`\pL`, 300)), fmt.Sprint(MaxProgram)},
		{All{Regexp("text", strings.Repeat("x{1000}", 6)), Regexp("text", strings.Repeat("y{1000}", 6))}, fmt.Sprint(MaxProgram)},
	} {
		if err := Check(c.f); !errors.Is(err, fault.ErrInvalid) || !strings.Contains(err.Error(), c.says) || len(err.Error()) > 1200 {
			t.Errorf("%v, want one that says %q", err, c.says)
		}
	}
}

// TestParseIsBounded: the largest filter of regular expressions takes neither long nor much
// memory, and a context that is over ends it.
func TestParseIsBounded(t *testing.T) {
	one := `text regexp "` + strings.Repeat("x{1000}", 139) + `"`
	form := []byte(strings.Repeat(one+" or ", MaxPatterns-1) + one)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := Parse(t.Context(), form)
	runtime.ReadMemStats(&after)
	if !errors.Is(err, fault.ErrInvalid) {
		t.Errorf("error %v", err)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 20<<20 {
		t.Errorf("%d bytes", took)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Parse(ctx, []byte("tag = work")); !errors.Is(err, context.Canceled) {
		t.Errorf("of a context that is over: %v", err)
	}
}

// TestCheckOfTrees: what was put together by hand, and wrongly, is an error, and neither
// writes nor compiles.
func TestCheckOfTrees(t *testing.T) {
	endless := make(All, 1)
	endless[0] = endless
	for name, f := range map[string]Filter{
		"pointer": &Condition{Field: "a", Values: []any{1}}, "nil pointer": Or((*Negation)(nil)), "nil part": And(nil), "empty negation": Negation{},
		"wrapped": And(struct{ Filter }{Eq("a", 1)}), "operator": Condition{Field: "a", Op: 99, Values: []any{1}},
		"no value": Condition{Field: "a", Op: OpEq}, "two values": Condition{Field: "a", Op: OpGt, Values: []any{1, 2}},
		"a value of exists": Condition{Field: "a", Op: OpExists, Values: []any{1}}, "a number for icontains": Condition{Field: "a", Op: OpIContains, Values: []any{1}},
		"NaN": Eq("a", math.NaN()), "infinity": Lt("a", math.Inf(1)), "no number": Eq("a", json.Number("x")), "a string as a number": Eq("a", json.Number(`"1"`)),
		"a list": In("a", []any{1}), "an object": Eq("a", map[string]any{}), "a time for a text": Eq("id", time.Now()), "a time of no year": Gt("a", time.Unix(1<<40, 0)), "a channel": Eq("a", make(chan int)),
		"bytes of a string": Eq("a", "\xff"), "bytes of a name": Eq("\xff", 1), "itself": endless,
	} {
		if err := Check(f); !errors.Is(err, fault.ErrInvalid) || len(err.Error()) > 400 {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := Compile(f); err == nil {
			t.Errorf("%s compiles", name)
		}
		if name == "nil pointer" || name == "pointer" || name == "wrapped" {
			continue // String of these is that of the value within, if there is any
		}
		if s := f.String(); !strings.HasPrefix(s, "%!(") {
			t.Errorf("%s is written as %s", name, s)
		}
		if _, err := f.MarshalJSON(); err == nil {
			t.Errorf("%s is JSON", name)
		}
	}
	if err := Check(nil); err != nil {
		t.Error(err)
	}
}

// TestConvertible: what Parse has read it reads again from both forms, as the same tree,
// and a tree made of any values of Go is what its forms say.
func TestConvertible(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 16))
	for range 3000 {
		f := randomTree(rng, 4)
		if Check(f) != nil {
			continue
		}
		wantSame(t, f)
	}
	deep := Eq("a", "b")
	for i := range MaxDepth + 1 {
		deep = []Filter{And(deep), Or(deep), Not(deep), And(deep, Not(deep))}[i%3]
	}
	wantSame(t, deep)
}

// wantSame compares a filter with what its two forms are read as.
func wantSame(t *testing.T, f Filter) {
	t.Helper()
	text := f.String()
	written, err := json.Marshal(f)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	ofText, err := Parse(t.Context(), []byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	ofJSON, err := Parse(t.Context(), written)
	if err != nil {
		t.Fatalf("%s: %v", written, err)
	}
	if !reflect.DeepEqual(ofText, ofJSON) {
		t.Fatalf("%s\n%s\n%#v\n%#v", text, written, ofText, ofJSON)
	}
	again, err := json.Marshal(ofText)
	if err != nil || string(again) != string(written) || ofJSON.String() != text {
		t.Fatalf("%s is written again as %s, and %s as %s, %v", text, ofJSON, written, again, err)
	}
}

func pick[T any](rng *rand.Rand, from ...T) T { return from[rng.IntN(len(from))] }

func randomTree(rng *rand.Rand, depth int) Filter {
	if depth > 0 && rng.IntN(2) == 0 {
		var parts []Filter
		for range rng.IntN(4) {
			parts = append(parts, randomTree(rng, depth-1))
		}
		return pick(rng, And(parts...), Or(parts...), Not(randomTree(rng, depth-1)))
	}
	type word string
	type count int16
	field := pick(rng, "tag", "n", "a.b", "metadata.hash", "id", "role", "text", "created_at", "pinned", "importance", "aliases", "a b", `q"'\`, "and", "Not", "or", "in", "exists", "5", "true", "ä", "x=(y)", "\u2028\x01")
	value := func() any {
		return pick[any](rng, "", "work", "two words", "1", "1e5", "true", "null", "and", `"\'`, "\n\t\x00\u2028<&>😀", "2026-01-31", "a,b", "(", "=", "-", "user",
			1, -3, 2.5, 1e300, float32(0.1), uint64(math.MaxUint64), json.Number("1.50"), json.Number("1e999"), true, false, nil, word("x y"), count(7),
			time.Date(2026, 5, 1, 2, 3, 4, 5678, time.FixedZone("", 7200)), time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), int64(1777420800000))
	}
	text := pick(rng, "", "a", "1", "a b", `\d+`, "(?i)x|y", `"`, "not")
	return pick(rng, Eq(field, value()), Ne(field, value()), Gt(field, value()), Gte(field, value()), Lt(field, value()), Lte(field, value()),
		In(field, value(), value()), Nin(field, value()), In(field), Contains(field, value()), IContains(field, text), Exists(field), Prefix(field, text), Regexp(field, text))
}

// FuzzConvertible: whatever text is read as a filter, both its forms are read as the same.
func FuzzConvertible(f *testing.F) {
	for _, s := range []string{
		`role = user`, `{"AND":[]}`, `not not (a in (1,2))`, `and (or (), not (a exists)) or b regex "x"`, `"a b" <> 'x\u00e9' and c == -1e5`,
		`created_at > 2026-01-01`, `{"NOT":{"OR":[{"field":"x","op":"eq","value":"\ud83d\ude00"}]}}`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		g, err := Parse(t.Context(), []byte(s))
		if err != nil {
			return
		}
		wantSame(t, g)
		if h, err := Parse(t.Context(), []byte(g.String())); err != nil || !reflect.DeepEqual(g, h) {
			t.Errorf("%q is %#v, and of its text %#v, %v", s, g, h, err)
		}
	})
}

// subject is what a test tries a filter on.
type subject struct {
	fields map[string]any
}

func (s *subject) Value(f Field) (any, bool) {
	v, ok := s.fields[f.Name+f.Path]
	return v, ok
}

// TestCompile: a filter decides on anything that has values.
func TestCompile(t *testing.T) {
	s := &subject{fields: map[string]any{"tag": "Straße", "n": 3, "null": nil, "list": []any{"A", json.Number("1")}, "created_at": int64(1767225600000), "user": "ada"}}
	for form, want := range map[string]bool{
		`tag icontains STRASSE and list icontains a and list contains 1`: true, `n = 3.0 and n < 3.5`: true, `n = "3"`: false, `null exists and null = null`: true,
		`agent = "" and not user = ""`: true, `created_at = 2026-01-01 and created_at <= 2026-01-01T00:00:00Z`: true, `tag prefix Stra and tag regex ß`: true, `list prefix A`: false,
	} {
		f, err := Parse(t.Context(), []byte(form))
		if err != nil {
			t.Fatal(err)
		}
		holds, err := Compile(f)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := holds(t.Context(), s); err != nil || got != want {
			t.Errorf("%s: %v, %v, want %v", form, got, err, want)
		}
	}
	holds, err := Compile(nil)
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := holds(t.Context(), s); err != nil || !ok {
		t.Errorf("nil: %v, %v", ok, err)
	}
}

// TestTimesOfMetadata verifies that a metadata value is compared with a time as the instant that
// it means, however both are written, and that what is no time has no order to it.
func TestTimesOfMetadata(t *testing.T) {
	noon := time.Date(2026, 2, 1, 12, 0, 0, 0, time.UTC)
	const less, equal, more, none = -1, 0, 1, 2
	for _, c := range []struct {
		have any
		want int // than noon
	}{
		{"2026-02-01", less},
		{"2026-02-01T11:59:59.999Z", less},
		{"2026-02-01 11:59:59", less}, // as a string it is less than all with a T
		{"2026-02-01 12:00:01", more},
		{"2026-02-01T13:30:00+02:00", less}, // as a string it is greater
		{"2026-01-31T23:00:00-14:00", more}, // as a string it is less
		{"2026-02-01T12:00:00Z", equal},
		{"2026-02-01 12:00:00", equal},
		{"2026-02-01T14:00:00.000+0200", equal},
		{"Sun, 1 Feb 2026 07:00:00 EST", equal},
		{"2026-02-01T12:00:00.000001Z", more},
		{json.Number(fmt.Sprint(noon.Unix() - 1)), less},
		{json.Number(fmt.Sprint(noon.UnixMilli() + 1)), more},
		{json.Number(fmt.Sprint(noon.UnixNano())), equal},
		{json.Number(fmt.Sprint(noon.Unix()) + ".5"), more},
		{float64(noon.Unix() + 1), more},
		{json.Number("7"), none},
		{"yesterday", none},
		{fmt.Sprint(noon.Unix()), none}, // a string of digits
		{true, none},
		{nil, none},
		{[]any{"2026-02-01T12:00:00Z"}, none},
	} {
		for _, value := range []any{"2026-02-01T12:00:00Z", "2026-02-01T10:00:00-02:00", "2026-02-01 12:00", "1 Feb 2026 12:00:00 GMT", noon} {
			for _, try := range []struct {
				f    Filter
				want bool
			}{
				{Lt("due", value), c.want == less},
				{Gt("due", value), c.want == more},
				{Lte("due", value), c.want == less || c.want == equal},
				{Gte("due", value), c.want == more || c.want == equal},
				{Eq("due", value), c.want == equal},
				{Ne("due", value), c.want != equal},
				{In("due", "x", value), c.want == equal},
				{Nin("due", value, 1), c.want != equal},
			} {
				test, err := Compile(try.f)
				if err != nil {
					t.Fatal(err)
				}
				if got, err := test(t.Context(), &subject{map[string]any{"due": c.have}}); got != try.want || err != nil {
					t.Errorf("%v of %v: %v, error %v", try.f, c.have, got, err)
				}
			}
		}
	}
	// An integer asks for numbers: 7 is less than any time in milliseconds.
	test, err := Compile(Lt("due", noon.UnixMilli()))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := test(t.Context(), &subject{map[string]any{"due": 7}}); !got || err != nil {
		t.Errorf("%v, error %v", got, err)
	}
}
