package llm

import (
	"strings"
	"testing"
)

// TestAnswer drops what models think, by the marks of several families.
func TestAnswer(t *testing.T) {
	for text, want := range map[string]string{
		"Yes.":                                   "Yes.",
		"<think>no, no</think>\nYes.":            "Yes.",
		"<Think>no</THINK>Yes.":                  "Yes.",
		"Well. <thinking>no</thinking> Yes.":     "Well.  Yes.",
		"it began in the prompt</think> Yes.":    "Yes.",
		"<think>a <think>b</think> c</think>Yes": "Yes",
		"<think>it has no end":                   "",
		"[THINK]no[/THINK]Yes.":                  "Yes.",
		"◁think▷né◁/think▷Yes é.":                "Yes é.",
		"<|channel|>analysis<|message|>no<|end|><|start|>assistant<|channel|>final<|message|>Yes.": "Yes.",
		"a < b, c <thin> d, [1] ◁": "a < b, c <thin> d, [1] ◁",
		"":                         "",
	} {
		if got := Answer(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestValues finds the JSON of answers.
func TestValues(t *testing.T) {
	for text, want := range map[string]string{
		`[1]`:                                `[1]`,
		`<think>["a"]</think>["b"]`:          `["b"]`,
		`["a"]</think>["b"]`:                 `["b"]`,
		`<think>["a"] without an end`:        ``,
		`["tags: <think> and </think>"]`:     `["tags: <think> and </think>"]`,
		"```json\n{\"a\":[1]}\n```":          `{"a":[1]}`,
		`{"a":1}, {"b":2} and {"c":3}`:       `{"a":1} +{"b":2} {"c":3}`,
		`[not] [{"a":1}`:                     `{"a":1}`,
		`[THINK][1][/THINK][2]`:              `[2]`,
		`none`:                               ``,
		`{"a":1}<think>{"b":2}</think>[3,4]`: `{"a":1} [3,4]`,
	} {
		values, err := Values(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
		}
		var got []string
		for _, v := range values {
			s := string(v.JSON)
			if v.Follows {
				s = "+" + s
			}
			got = append(got, s)
		}
		if got := strings.Join(got, " "); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
	for _, text := range []string{strings.Repeat("x", maxAnswer+1), strings.Repeat("[]", maxValues+1), strings.Repeat("[", 100_000), strings.Repeat("[[],", 20_000)} {
		if values, err := Values(text); err == nil {
			t.Errorf("%.10q: %d values of %d bytes", text, len(values), len(text))
		}
	}
}

// TestElements reads the arguments of a tool, from calls and from text.
func TestElements(t *testing.T) {
	call := func(arguments ...string) (r Reply) {
		for _, a := range arguments {
			r.Calls = append(r.Calls, ToolCall{"list", a})
		}
		return r
	}
	for _, c := range []struct {
		reply Reply
		want  string // nil: "-"
	}{
		{call(`{"all":[1,"junk"]}`), `1 "junk"`},
		{call(`{"all":[1]}`, `{"all":[2]}`), `1 2`},
		{call(`{"all":[]}`), ``},
		{call(`{"all":null}`), ``},
		{call(`{}`), `-`},
		{Reply{Text: `<think>{"all":[1]}</think>So: {"all":[2]}, see {"page":3}.`}, `2`},
		{Reply{Text: `{"other":[2]}`}, `-`},
		{Reply{Text: "Nothing."}, `error`},
		{call(`{"all":`), `error`},
		{call(`{"all":5}`), `error`},
		{Reply{Calls: []ToolCall{{"rm", `{"all":[1]}`}}, Text: `{"all":[1]}`}, `error`},
	} {
		all, err := Elements(&c.reply, "list", "all")
		var parts []string
		for _, e := range all {
			parts = append(parts, string(e))
		}
		got := strings.Join(parts, " ")
		switch {
		case err != nil:
			got = "error"
		case all == nil:
			got = "-"
		}
		if got != c.want {
			t.Errorf("%+v: %s, want %s, error %v", c.reply, got, c.want, err)
		}
	}
}
