package move

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A Map says of fields of a memory under which keys of a record they are. Dots lead into the objects
// within a record.
type Map map[string]string

// mapFields are the fields that a Map may name, with the usual names of their keys.
var mapFields = map[string][]string{
	"text": textKeys, "id": idKeys, "user": userKeys, "agent": agentKeys, "run": runKeys, "role": {"role"}, "kind": {"kind"},
	"created_at": createdKeys, "updated_at": updatedKeys, "event_time": eventKeys, "expires_at": expiryKeys,
	"importance": {"importance"}, "confidence": {"confidence"}, "embedding": vectorKeys, "name": {"name"},
}

// ParseMap reads pairs of FIELD=KEY.
func ParseMap(pairs []string) (Map, error) {
	m := Map{}
	for _, pair := range pairs {
		field, key, ok := strings.Cut(pair, "=")
		if !ok || key == "" {
			return nil, fmt.Errorf("%q is not FIELD=KEY, as text=body", pair)
		}
		if mapFields[field] == nil {
			return nil, fmt.Errorf("there is no field %q; there are %s", field, strings.Join(slices.Sorted(maps.Keys(mapFields)), ", "))
		}
		if m[field] != "" {
			return nil, fmt.Errorf("the field %s is given twice, as %s and as %s", field, m[field], key)
		}
		for of, other := range m {
			if other == key {
				return nil, fmt.Errorf("the key %q is given twice, for %s and for %s", key, of, field)
			}
		}
		m[field] = key
	}
	return m, nil
}

// pull takes the values of the keys that a Map names out of the fields, by the names of the fields of a
// memory.
func (w *writer) pull(f fields) fields {
	given := fields{}
	for field, key := range w.opts.Map {
		if raw, ok := f.take(key); ok {
			given[field] = raw
			delete(w.unused, field)
		}
	}
	return given
}

// take takes the value of a key, or of a path of keys with dots between.
func (f fields) take(path string) ([]byte, bool) {
	if raw, ok := f[path]; ok {
		delete(f, path)
		return raw, string(raw) != "null"
	}
	key, rest, ok := strings.Cut(path, ".")
	if !ok || f[key] == nil || f[key][0] != '{' {
		return nil, false
	}
	inner, err := readFields(f[key])
	if err != nil {
		return nil, false
	}
	raw, ok := inner.take(rest)
	if !ok {
		return nil, false
	}
	delete(f, key)
	if text := inner.encode(); len(inner) > 0 {
		f[key] = text
	}
	return raw, true
}

// encode is the object that the fields are.
func (f fields) encode() []byte {
	out := []byte{'{'}
	for i, key := range slices.Sorted(maps.Keys(f)) {
		if i > 0 {
			out = append(out, ',')
		}
		name, _ := json.Marshal(key) // a text
		out = append(append(append(out, name...), ':'), f[key]...)
	}
	return append(out, '}')
}
