package facts

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-7aedc3ff/memdb/services/llm"
)

var errNoJSON = errors.New("the reply has no JSON array")

// list is the JSON array that a reply is or holds, the last one where it has several: the whole
// reply, the one array of an object, or either in prose; what the model thought before is no
// answer. ok says whether an element is of the right kind, so that a remark in brackets is not
// taken for the answer. An object that one accepts alone is a list of one, and those that follow
// each other are one list.
func list(reply string, ok, one func(json.RawMessage) bool) ([]json.RawMessage, error) {
	values, err := llm.Values(reply)
	if err != nil {
		return nil, err
	}
	var last []json.RawMessage
	found, row := false, false // row: the value before was an object that is a list of one
	for _, v := range values {
		single := one != nil && v.JSON[0] == '{' && one(v.JSON)
		if single && row && v.Follows {
			last = append(last, v.JSON)
			continue
		}
		row = single
		if these, fits := listOf(v.JSON, ok, one); fits {
			last, found = these, true
		}
	}
	if !found {
		return nil, errNoJSON
	}
	return last, nil
}

// listOf is list of an object or an array.
func listOf(value []byte, ok, one func(json.RawMessage) bool) ([]json.RawMessage, bool) {
	var found []json.RawMessage
	switch value[0] {
	case '[':
		if json.Unmarshal(value, &found) != nil {
			return nil, false
		}
		return found, len(found) == 0 || slices.ContainsFunc(found, ok)
	case '{':
		if one != nil && one(value) {
			return []json.RawMessage{value}, true
		}
		var fields map[string]json.RawMessage
		if json.Unmarshal(value, &fields) != nil {
			return nil, false
		}
		arrays := 0
		for _, v := range fields {
			if v = bytes.TrimSpace(v); len(v) > 0 && v[0] == '[' {
				arrays++
				if json.Unmarshal(v, &found) != nil {
					return nil, false
				}
			}
		}
		return found, arrays == 1 && (len(found) == 0 || slices.ContainsFunc(found, ok))
	}
	return nil, false
}

// parseFacts are the facts of a reply, and how many elements of it were none.
func parseFacts(reply string) (facts []string, bad int, err error) {
	found, err := list(reply, func(v json.RawMessage) bool { return factText(v) != "" }, nil)
	if err != nil {
		return nil, 0, err
	}
	seen := map[string]bool{}
	for _, v := range found {
		text := factText(v)
		switch {
		case text == "":
			bad++
		case !seen[text]:
			seen[text] = true
			facts = append(facts, text)
		}
	}
	return facts, bad, nil
}

// factText is the text of an element: a string, or an object that has it under a name
// that models use.
func factText(v json.RawMessage) string {
	var s string
	if json.Unmarshal(v, &s) == nil {
		return strings.TrimSpace(s)
	}
	var o struct{ Fact, Text, Memory, Data string }
	if json.Unmarshal(v, &o) != nil {
		return ""
	}
	for _, s := range []string{o.Fact, o.Text, o.Memory, o.Data} {
		if s = strings.TrimSpace(s); s != "" {
			return s
		}
	}
	return ""
}

// decision is an operation that a model asks for.
type decision struct {
	event   Event
	ordinal int // of the offered fact, from 1 on; 0: none was named
	named   string
	text    string
}

// parseDecisions are the operations of a reply, and why some of its elements are none: they spoil
// no others.
func parseDecisions(reply string) (all []decision, bad []error, err error) {
	isOne := func(v json.RawMessage) bool {
		var o struct{ Event *string }
		return json.Unmarshal(v, &o) == nil && o.Event != nil
	}
	found, err := list(reply, isOne, isOne)
	if err != nil {
		return nil, nil, err
	}
	for i, v := range found {
		d, err := parseDecision(v)
		if err != nil {
			bad = append(bad, fmt.Errorf("operation %d of the reply cannot be read: %w", i+1, err))
			continue
		}
		all = append(all, d)
	}
	return all, bad, nil
}

// parseDecision is one operation.
func parseDecision(v json.RawMessage) (d decision, err error) {
	var o struct {
		Event     *string
		ID        json.RawMessage
		Data      string
		Text      string
		NewMemory string `json:"new_memory"`
	}
	if err := json.Unmarshal(v, &o); err != nil {
		return d, err
	}
	if o.Event == nil {
		return d, errors.New("it names no event")
	}
	d.event = Event(strings.ToUpper(strings.TrimSpace(*o.Event)))
	d.named = strings.TrimSpace(strings.Trim(string(o.ID), `"`))
	if n, err := strconv.Atoi(d.named); err == nil {
		d.ordinal = n
	}
	if d.named == "null" {
		d.named = ""
	}
	for _, s := range []string{o.Data, o.Text, o.NewMemory} {
		if d.text == "" {
			d.text = strings.TrimSpace(s)
		}
	}
	return d, nil
}
