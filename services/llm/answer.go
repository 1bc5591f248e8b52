package llm

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// What models write before they answer is no part of the answer. Most providers take it out;
// servers of open models often send it as text, between marks.

const (
	// maxAnswer bounds the text in which JSON is looked for, in bytes.
	maxAnswer = 4 << 20
	// maxValues bounds the JSON values of a text: an answer is one, or a few in a row.
	maxValues = 10_000
	// maxVain bounds what is read of brackets that turn out to begin no JSON, in bytes: each
	// could be read to the end of the text.
	maxVain = 8 << 20
)

// thoughts are the marks around what a model thinks, in small letters, by the families of models
// that write them.
var thoughts = []struct{ open, end string }{
	{"<think>", "</think>"}, // DeepSeek, Qwen and many more
	{"<thinking>", "</thinking>"},
	{"<thought>", "</thought>"},
	{"<reasoning>", "</reasoning>"},
	{"<reflection>", "</reflection>"},
	{"<scratchpad>", "</scratchpad>"},
	{"<seed:think>", "</seed:think>"},                                   // Seed
	{"[think]", "[/think]"},                                             // Mistral
	{"◁think▷", "◁/think▷"},                                             // Kimi
	{"<|begin_of_thought|>", "<|end_of_thought|>"},                      // Sky, OpenThinker
	{"<|start_thinking|>", "<|end_thinking|>"},                          // Command
	{"<|channel|>analysis<|message|>", "<|channel|>final<|message|>"},   // gpt-oss
	{"<|channel|>commentary<|message|>", "<|channel|>final<|message|>"}, // gpt-oss
}

// mark looks for a mark at a place of a text in small letters. Where a thought begins, next is
// behind its end, or the end of the text where it has none; where one ends that began nowhere,
// ended is set: all before was thought. next is at where there is no mark.
func mark(low string, at int) (next int, ended bool) {
	if c := low[at]; c != '<' && c != '[' && c != "◁"[0] {
		return at, false
	}
	for _, t := range thoughts {
		if strings.HasPrefix(low[at:], t.open) {
			inside := at + len(t.open)
			n := strings.Index(low[inside:], t.end)
			if n < 0 {
				return len(low), false
			}
			return inside + n + len(t.end), false
		}
		if strings.HasPrefix(low[at:], t.end) {
			return at + len(t.end), true
		}
	}
	return at, false
}

// small has the letters of ASCII small, so that each byte stays at its place.
func small(s string) string {
	b := []byte(s)
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

// Answer is a reply without what the model thought before: what lies between marks such as
// <think> and </think>, and all before an end that has no beginning, which some servers put
// into the prompt. What is thought without an end is no answer.
func Answer(text string) string {
	low := small(text)
	var b strings.Builder
	from := 0
	for at := 0; at < len(text); {
		next, ended := mark(low, at)
		if next == at {
			at++
			continue
		}
		b.WriteString(text[from:at])
		if ended {
			b.Reset()
		}
		from, at = next, next
	}
	b.WriteString(text[from:])
	return strings.TrimSpace(b.String())
}

// Value is an object or a list of JSON in a text.
type Value struct {
	// JSON is the value as the model wrote it.
	JSON json.RawMessage
	// Follows is set where nothing but blanks and a comma lies between the value before and it.
	Follows bool
}

// Values are the objects and lists of JSON that an answer holds, in their order, whatever is
// around them: prose, fences, and thoughts, in which none is looked for. Marks within a value are
// its text. Those within another value are not listed. An error where the text is too long, or
// has more brackets than are looked at.
func Values(text string) ([]Value, error) {
	if len(text) > maxAnswer {
		return nil, fmt.Errorf("it has %d bytes, and the limit is %d", len(text), maxAnswer)
	}
	low := small(text)
	var values []Value
	vain, last := 0, -1 // last is the end of the value before, -1 for none
	for at := 0; at < len(text); {
		if next, ended := mark(low, at); next != at {
			if ended {
				values = nil
			}
			at, last = next, -1
			continue
		}
		if text[at] != '[' && text[at] != '{' {
			at++
			continue
		}
		value, read := first(text[at:])
		if value == nil {
			at++
			if vain += read; vain > maxVain {
				return nil, errors.New("it has too many brackets that are no JSON")
			}
			continue
		}
		if len(values) == maxValues {
			return nil, fmt.Errorf("it has more than %d values of JSON", maxValues)
		}
		follows := last >= 0 && strings.Trim(text[last:at], " \t\r\n,") == ""
		values = append(values, Value{value, follows})
		at += read
		last = at
	}
	return values, nil
}

// first is the value of JSON that a text begins with, nil where it begins with none; read is how
// far the text was read.
func first(text string) (value json.RawMessage, read int) {
	d := json.NewDecoder(strings.NewReader(text))
	err := d.Decode(&value)
	if err == nil {
		return value, int(d.InputOffset())
	}
	if bad, ok := errors.AsType[*json.SyntaxError](err); ok {
		return nil, int(bad.Offset)
	}
	return nil, len(text) // it has no end
}

// Elements are the elements of the list that the arguments of a tool have in a field: of all its
// calls in a reply, or of the last object with this field in the answer of a model that called
// nothing. They are nil where the arguments have no such field, and an error where there are no
// arguments.
func Elements(r *Reply, tool, field string) (all []json.RawMessage, err error) {
	if len(r.Calls) == 0 {
		return elements(nil, r.Text, tool, field)
	}
	called := false
	for _, c := range r.Calls {
		if c.Name != tool {
			continue
		}
		called = true
		if all, err = elements(all, c.Arguments, tool, field); err != nil {
			return nil, err
		}
	}
	if !called {
		return nil, fmt.Errorf("the model called %.80q, and not %s", r.Calls[0].Name, tool)
	}
	return all, nil
}

// elements adds those of the list that the last object of a text with a field has in it.
func elements(all []json.RawMessage, text, tool, field string) ([]json.RawMessage, error) {
	values, err := Values(text)
	if err != nil {
		return nil, err
	}
	var list json.RawMessage
	objects := 0
	for _, v := range values {
		var fields map[string]json.RawMessage
		if json.Unmarshal(v.JSON, &fields) != nil {
			continue
		}
		objects++
		if fields[field] != nil {
			list = fields[field]
		}
	}
	switch {
	case objects == 0:
		return nil, fmt.Errorf("the model gave no arguments to the tool %s", tool)
	case list == nil:
		return all, nil
	}
	var some []json.RawMessage
	if err := json.Unmarshal(list, &some); err != nil {
		return nil, fmt.Errorf("%s is no list: %w", field, err)
	}
	if all == nil {
		all = []json.RawMessage{} // there is a list, though it may be empty
	}
	return append(all, some...), nil
}
