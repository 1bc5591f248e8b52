package engine

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"unicode/utf8"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
)

// encodeMetadata makes canonical JSON of an object: keys sorted, no spaces. An
// empty object is stored as nothing.
func encodeMetadata(m map[string]any) ([]byte, error) {
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
	if len(out) > MaxMetadata {
		return nil, fault.Invalid("store a memory",
			fmt.Sprintf("its metadata is %d bytes of JSON, the limit is %d", len(out), MaxMetadata), "move the bulk of it to the text or elsewhere")
	}
	return out, nil
}

// checkDepth bounds the nesting before anything walks it by recursion without a
// bound of its own.
func checkDepth(v any, depth int) error {
	if depth > MaxMetadataDepth {
		return fault.Invalid("store a memory",
			fmt.Sprintf("its metadata nests deeper than %d", MaxMetadataDepth), "flatten it")
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

// mergedMetadata applies a JSON merge patch (RFC 7386) to stored metadata.
func mergedMetadata(stored []byte, patch map[string]any) ([]byte, error) {
	b, err := encodeMetadata(patch) // also bounds its depth, and makes maps of what are none
	if err != nil {
		return nil, err
	}
	change, err := decodeMetadata(b)
	if err != nil {
		return nil, err
	}
	m, err := decodeMetadata(stored)
	if err != nil {
		return nil, err
	}
	return encodeMetadata(mergeObject(m, change))
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

func decodeMetadata(b []byte) (map[string]any, error) {
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

// exactKey encodes a scalar so that two values are equal exactly where their keys
// are: the type first, numbers in one form. false for lists, objects and what is
// no JSON.
func exactKey(v any) (string, bool) {
	switch v := v.(type) {
	case nil:
		return "0", true
	case string:
		return textKey(v), true
	case bool:
		return boolKey(v), true
	case json.Number:
		return numberKey(string(v)), true
	case float64:
		return floatKey(v, 64), true
	case float32:
		return floatKey(float64(v), 32), true
	case int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64:
		return numberKey(fmt.Sprint(v)), true
	}
	switch v.(type) {
	case json.Marshaler, interface{ MarshalText() ([]byte, error) }:
		return "", false
	}
	switch r := reflect.ValueOf(v); r.Kind() { // of a type with a name, such as Role
	case reflect.String:
		return textKey(r.String()), true
	case reflect.Bool:
		return boolKey(r.Bool()), true
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return numberKey(strconv.FormatInt(r.Int(), 10)), true
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return numberKey(strconv.FormatUint(r.Uint(), 10)), true
	case reflect.Float32:
		return exactKey(float32(r.Float()))
	case reflect.Float64:
		return exactKey(r.Float())
	}
	return "", false
}

// isPlain tells whether a value is of a type without a name.
func isPlain(v any) bool {
	switch v.(type) {
	case nil, json.Number:
		return true
	}
	return reflect.TypeOf(v).PkgPath() == ""
}

func textKey(s string) string { return "s" + s }

func boolKey(b bool) string {
	if b {
		return "t"
	}
	return "f"
}

// floatKey is the key of a float as JSON writes it: integers beyond 2⁵³ with zeros at the
// end, which is what is stored of them, and not all their digits.
func floatKey(f float64, bits int) string {
	const plainBelow = 1e21
	form := byte('g')
	if math.Abs(f) < plainBelow {
		form = 'f'
	}
	return numberKey(strconv.FormatFloat(f, form, -1, bits))
}

// numberKey: integers of 64 bits exactly, everything else as the nearest float64,
// so that 1, 1.0 and 1e0 are one number.
func numberKey(s string) string {
	if i, err := strconv.ParseInt(s, 10, 64); err == nil {
		return "n" + strconv.FormatInt(i, 10)
	}
	if u, err := strconv.ParseUint(s, 10, 64); err == nil {
		return "n" + strconv.FormatUint(u, 10)
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return "n" + s
	}
	switch {
	case f != math.Trunc(f):
	case -1<<63 <= f && f < 1<<63:
		return "n" + strconv.FormatInt(int64(f), 10)
	case 0 < f && f < 1<<64:
		return "n" + strconv.FormatUint(uint64(f), 10)
	}
	return "n" + strconv.FormatFloat(f, 'g', -1, 64)
}
