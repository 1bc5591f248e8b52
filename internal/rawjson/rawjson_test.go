package rawjson

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
	for _, good := range []string{
		``, `{}`, `"é"`, `"\u00e9"`, `"\ud83d\ude00"`, `"\\ud800"`, `"\\\\ud800"`, `"\uFFFD"`, `"\"\\"`, `"\u12"`, `\`,
	} {
		if err := Check([]byte(good)); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for bad, says := range map[string]string{
		"\"\xff\"":            "byte 2",
		`"\ud800"`:            "byte 2",
		`"a\udc00"`:           `\udc00`,
		`"\ud800\u0041"`:      "surrogate",
		`"\ud83d\ude00\uD83D`: "byte 14",
		`"\\\ud800"`:          "byte 4",
	} {
		if err := Check([]byte(bad)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", bad, err, says)
		}
	}
}

func TestDepth(t *testing.T) {
	for in, want := range map[string]int{
		`1`: 0, `"[[["`: 0, `[]`: 1, `{"a":[1,{"b":"]]"}],"c":{}}`: 3, `"\"["`: 0, strings.Repeat("[", 500): 500,
	} {
		if got := Depth([]byte(in)); got != want {
			t.Errorf("%.20s nests %d deep, want %d", in, got, want)
		}
	}
}

func TestObject(t *testing.T) {
	show := func(in string) string {
		var out []string
		err := Object([]byte(in), func(key string, value []byte) error {
			out = append(out, fmt.Sprintf("%s=%s", key, value))
			return nil
		})
		if err != nil {
			out = append(out, err.Error())
		}
		return strings.Join(out, " ")
	}
	for in, want := range map[string]string{
		`{}`:                                   "",
		` { } `:                                "",
		`{"a":1,"b":"x,}\"]","a":[1,{"c":2}]}`: `a=1 b="x,}\"]" a=[1,{"c":2}]`,
		`{"\u0061" : true , "b":null}`:         "a=true b=null",
		"{\"a\":\n{\"b\":\"\\\\\"}\t}":         `a={"b":"\\"}`,
		`[]`:                                   "malformed JSON",
		``:                                     "malformed JSON",
		`{"a"`:                                 "malformed JSON",
		`{"a":`:                                "malformed JSON",
		`{"a":1`:                               "a=1 malformed JSON",
		`{"a":1 "b":2}`:                        "a=1 malformed JSON",
		`{"a":,}`:                              "malformed JSON",
		`{a:1}`:                                "malformed JSON",
		`{"a":1,}`:                             "a=1 malformed JSON",
	} {
		if got := show(in); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

// FuzzObject: of what encoding/json reads, the same keys and values are seen.
func FuzzObject(f *testing.F) {
	for _, s := range []string{`{}`, `{"a":[1,"]"],"b":{"c":"\\\""}}`, `{"a":1e5 ,"b" : null}`, `{"\ud83d\ude00":"\ud800"}`, "{\"\xff\":1}", `{"a"`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		checked, depth := Check(b), Depth(b)
		got := map[string]json.RawMessage{}
		err := Object(b, func(key string, value []byte) error {
			got[key] = value
			return nil
		})
		if err != nil && !errors.Is(err, ErrMalformed) {
			t.Fatal(err)
		}
		var want map[string]json.RawMessage
		if json.Unmarshal(b, &want) != nil || want == nil {
			return
		}
		if err != nil {
			t.Fatalf("%q: %v", b, err)
		}
		if checked != nil {
			return // the keys of the two may differ by what replaces that
		}
		if !maps.EqualFunc(got, want, func(a, b json.RawMessage) bool { return string(a) == string(b) }) {
			t.Fatalf("%q\n got %q\nwant %q", b, got, want)
		}
		if depth < 1 {
			t.Fatalf("%q nests %d deep", b, depth)
		}
	})
}
