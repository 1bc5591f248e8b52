package rawjson

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/valid"
)

func TestMembers(t *testing.T) {
	show := func(in string) string {
		var out []string
		err := Members([]byte(in), func(key string, value []byte) error {
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

// TestElements verifies the elements of lists, and that anything else is refused.
func TestElements(t *testing.T) {
	for in, want := range map[string]string{
		`[]`: "", ` [ ] `: "", `[1,"a,]", [2] ,{"b":[3]}]`: `1|"a,]"|[2]|{"b":[3]}|`,
		`{}`: "malformed JSON", `[1 2]`: "1|malformed JSON", `[1,]`: "1|malformed JSON", `[,1]`: "malformed JSON", `[1`: "1|malformed JSON", ``: "malformed JSON",
	} {
		got := ""
		if err := Elements([]byte(in), func(v []byte) error { got += string(v) + "|"; return nil }); err != nil {
			got += err.Error()
		}
		if got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

// FuzzMembers verifies that Members sees the keys and values that encoding/json reads.
func FuzzMembers(f *testing.F) {
	for _, s := range []string{`{}`, `{"a":[1,"]"],"b":{"c":"\\\""}}`, `{"a":1e5 ,"b" : null}`, `{"\ud83d\ude00":"\ud800"}`, "{\"\xff\":1}", `{"a"`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		checked := valid.JSON(b)
		got := map[string]json.RawMessage{}
		err := Members(b, func(key string, value []byte) error {
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
	})
}
