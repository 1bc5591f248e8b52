package facts

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

const (
	// maxReply bounds the text of a model's reply that is looked at, in bytes.
	maxReply = 4 << 20
	// maxSalvage bounds the places in prose at which JSON is looked for.
	maxSalvage = 64
)

var errNoJSON = errors.New("the reply has no JSON array")

// list is the JSON array that a reply is or holds: the whole reply, the one array of an
// object, or the first of either in prose. ok says whether a list is of the right kind,
// so that a remark in brackets is not taken for the answer. An object that one accepts
// alone is a list of one.
func list(reply string, ok, one func(json.RawMessage) bool) ([]json.RawMessage, error) {
	if len(reply) > maxReply {
		return nil, fmt.Errorf("the reply has %d bytes, and the limit is %d", len(reply), maxReply)
	}
	if found, fits := listOf([]byte(strings.TrimSpace(reply)), ok, one); fits {
		return found, nil
	}
	for at, tries := 0, 0; tries < maxSalvage; tries++ {
		next := strings.IndexAny(reply[at:], "[{")
		if next < 0 {
			break
		}
		at += next
		var value json.RawMessage
		d := json.NewDecoder(strings.NewReader(reply[at:]))
		if err := d.Decode(&value); err != nil {
			at++
			continue
		}
		if found, fits := listOf(value, ok, one); fits {
			return found, nil
		}
		at += int(d.InputOffset())
	}
	return nil, errNoJSON
}

// listOf is list of a whole JSON value.
func listOf(value []byte, ok, one func(json.RawMessage) bool) ([]json.RawMessage, bool) {
	if len(value) == 0 || !json.Valid(value) {
		return nil, false
	}
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

// parseDecisions are the operations of a reply.
func parseDecisions(reply string) ([]decision, error) {
	isOne := func(v json.RawMessage) bool {
		var o struct{ Event *string }
		return json.Unmarshal(v, &o) == nil && o.Event != nil
	}
	found, err := list(reply, isOne, isOne)
	if err != nil {
		return nil, err
	}
	all := make([]decision, 0, len(found))
	for _, v := range found {
		var o struct {
			Event     string
			ID        json.RawMessage
			Data      string
			Text      string
			NewMemory string `json:"new_memory"`
		}
		if err := json.Unmarshal(v, &o); err != nil {
			return nil, fmt.Errorf("an operation cannot be read: %w", err)
		}
		d := decision{event: Event(strings.ToUpper(strings.TrimSpace(o.Event)))}
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
		all = append(all, d)
	}
	return all, nil
}
