// Package metadata turns the metadata of a memory into canonical JSON and back.
package metadata

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
)

// The limits of metadata.
const (
	MaxBytes = 256 << 10 // of JSON
	MaxDepth = 32        // of objects and lists in each other
)

// Encode makes canonical JSON of an object: keys sorted, no spaces. An
// empty object is stored as nothing.
func Encode(m map[string]any) ([]byte, error) {
	if len(m) == 0 {
		return nil, nil
	}
	if err := checkDepth(m, 0); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(m); err != nil {
		return nil, fault.Invalid("store a memory", "its metadata is no JSON: "+err.Error(), "use strings, numbers, booleans, lists and objects")
	}
	out := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	if len(out) > MaxBytes {
		return nil, fault.Invalid("store a memory",
			fmt.Sprintf("its metadata is %d bytes of JSON, the limit is %d", len(out), MaxBytes), "move the bulk of it to the text or elsewhere")
	}
	return out, nil
}

// checkDepth bounds the nesting before anything walks it by recursion without a
// bound of its own.
func checkDepth(v any, depth int) error {
	if depth > MaxDepth {
		return fault.Invalid("store a memory",
			fmt.Sprintf("its metadata nests deeper than %d", MaxDepth), "flatten it")
	}
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			if err := checkDepth(k, depth); err != nil {
				return err
			}
			if err := checkDepth(e, depth+1); err != nil {
				return err
			}
		}
	case string:
		if !utf8.ValidString(v) {
			return fault.Invalid("store a memory", fmt.Sprintf("its metadata holds %q, which is no UTF-8", valid.Short(v)), "convert it to UTF-8")
		}
	case []any:
		for _, e := range v {
			if err := checkDepth(e, depth+1); err != nil {
				return err
			}
		}
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fault.Invalid("store a memory", "its metadata holds a number that JSON has not: "+strconv.FormatFloat(v, 'g', -1, 64), "leave it out or use null")
		}
	}
	return nil
}

// Merge applies a JSON merge patch (RFC 7386) to stored metadata.
func Merge(stored []byte, patch map[string]any) ([]byte, error) {
	b, err := Encode(patch) // also bounds its depth, and makes maps of what are none
	if err != nil {
		return nil, err
	}
	change, err := Decode(b)
	if err != nil {
		return nil, err
	}
	m, err := Decode(stored)
	if err != nil {
		return nil, err
	}
	return Encode(mergeObject(m, change))
}

// mergeObject is an object with the changes of a merge patch, which may change it.
func mergeObject(m, patch map[string]any) map[string]any {
	if m == nil {
		m = map[string]any{}
	}
	for name, v := range patch {
		switch v := v.(type) {
		case nil:
			delete(m, name)
		case map[string]any:
			old, _ := m[name].(map[string]any) // what is no object is replaced by one
			m[name] = mergeObject(old, v)
		default:
			m[name] = v
		}
	}
	return m
}

// Decode reads it. Numbers are json.Number, so that none loses a digit.
func Decode(b []byte) (map[string]any, error) {
	if len(b) == 0 {
		return nil, nil
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	var m map[string]any
	if err := dec.Decode(&m); err != nil {
		return nil, &fault.Error{Kind: fault.ErrCorrupt, What: "read metadata", Cause: err}
	}
	return m, nil
}
