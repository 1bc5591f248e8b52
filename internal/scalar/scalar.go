// Package scalar compares JSON scalars: it has the exact key of each, the order of
// numbers, and the forms in which a time is written.
package scalar

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
)

// Key encodes a scalar so that two values are equal exactly where their keys are: the
// type first, numbers in one form. false for lists, objects and what is no JSON. Keys
// are stored in the filter index.
func Key(v any) (string, bool) {
	switch v := v.(type) {
	case nil:
		return "0", true
	case string:
		return TextKey(v), true
	case bool:
		return BoolKey(v), true
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
		return TextKey(r.String()), true
	case reflect.Bool:
		return BoolKey(r.Bool()), true
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return numberKey(strconv.FormatInt(r.Int(), 10)), true
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return numberKey(strconv.FormatUint(r.Uint(), 10)), true
	case reflect.Float32:
		return Key(float32(r.Float()))
	case reflect.Float64:
		return Key(r.Float())
	}
	return "", false
}

// TextKey is the key of a string.
func TextKey(s string) string { return textMark + s }

// textMark is what the key of a string begins with.
const textMark = "s"

// TextOf is the string of a key, false where the key is not that of a string.
func TextOf(key string) (string, bool) {
	if key == "" || key[:1] != textMark {
		return "", false
	}
	return key[1:], true
}

// TextOrNumber is the string or the json.Number of a key, nil where the key is of neither.
func TextOrNumber(key string) any {
	if text, ok := TextOf(key); ok {
		return text
	}
	if digits, ok := strings.CutPrefix(key, numberMark); ok {
		return json.Number(digits)
	}
	return nil
}

// BoolKey is the key of a boolean.
func BoolKey(b bool) string {
	if b {
		return "t"
	}
	return "f"
}

// numberMark is what the key of a number begins with.
const numberMark = "n"

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
		return numberMark + strconv.FormatInt(i, 10)
	}
	if u, err := strconv.ParseUint(s, 10, 64); err == nil {
		return numberMark + strconv.FormatUint(u, 10)
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return numberMark + s
	}
	switch {
	case f != math.Trunc(f):
	case -1<<63 <= f && f < 1<<63:
		return numberMark + strconv.FormatInt(int64(f), 10)
	case 0 < f && f < 1<<64:
		return numberMark + strconv.FormatUint(uint64(f), 10)
	}
	return numberMark + strconv.FormatFloat(f, 'g', -1, 64)
}
