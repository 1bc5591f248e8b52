package exchange

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"unicode/utf8"
)

// Decode reads one JSON value into v, as json.Unmarshal does, but refuses
// invalid UTF-8, which that would replace in silence, and says what is wrong in
// terms of the JSON, not of Go.
func Decode(data []byte, v any) error {
	if !utf8.Valid(data) {
		return fmt.Errorf("invalid UTF-8 at byte %d", invalidAt(data)+1)
	}
	err := json.Unmarshal(data, v)
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		what := strings.Replace(syntax.Error(), "unexpected end of JSON input", "it ends too early", 1)
		return fmt.Errorf("malformed JSON at byte %d: %s", syntax.Offset, what)
	}
	if mismatch, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return explainMismatch(mismatch)
	}
	return err
}

// DecodeStrict is Decode for an object of a struct's keys: another key is an error
// that names it and lists those that there are. What lies under a key that reads
// any JSON, as metadata, has its own.
func DecodeStrict(data []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	err := d.Decode(v)
	if err == nil && d.InputOffset() == int64(len(data)) {
		return nil
	}
	// What is wrong is said as Decode says it, but for what that takes.
	if plain := Decode(data, v); plain != nil {
		return plain
	}
	if err == nil {
		return nil // blanks behind it
	}
	key, found := strings.CutPrefix(err.Error(), "json: unknown field ")
	if !found {
		return err
	}
	return fmt.Errorf("the key %s is not known; there are %s", key, strings.Join(keysOf(reflect.TypeOf(v).Elem()), ", "))
}

// keysOf lists the keys that a struct is read from.
func keysOf(t reflect.Type) []string {
	var keys []string
	for f := range t.Fields() {
		if f.Anonymous {
			keys = append(keys, keysOf(f.Type)...)
			continue
		}
		if key, _, _ := strings.Cut(f.Tag.Get("json"), ","); key != "" && key != "-" {
			keys = append(keys, key)
		}
	}
	return keys
}

// invalidAt is where the first byte that is no UTF-8 stands.
func invalidAt(b []byte) int {
	at := 0
	for {
		r, n := utf8.DecodeRune(b[at:])
		if r == utf8.RuneError && n <= 1 {
			return at
		}
		at += n
	}
}

// nullComponent is what a list has that has null for a number.
const nullComponent = "null in it"

func explainMismatch(e *json.UnmarshalTypeError) error {
	what := "it"
	if e.Field != "" {
		// Only the last part is a key of the JSON for certain: embedded structs
		// may stand before it.
		what = fmt.Sprintf("%q", e.Field[strings.LastIndexByte(e.Field, '.')+1:])
	}
	if e.Value == nullComponent {
		return fmt.Errorf("%s has %s, not a number", what, nullComponent)
	}
	if number, ok := strings.CutPrefix(e.Value, "number "); ok {
		return fmt.Errorf("%s has the number %s, which is out of range or no integer", what, number)
	}
	article := "a "
	if strings.HasPrefix(e.Value, "a") || strings.HasPrefix(e.Value, "o") {
		article = "an "
	}
	return fmt.Errorf("%s is %s%s, not %s", what, article, e.Value, goKind(e.Type))
}

// goKind names the JSON value that a Go type is read from.
func goKind(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Map, reflect.Struct:
		return "an object"
	case reflect.Pointer:
		return goKind(t.Elem())
	default:
		return "a number"
	}
}

// jsonKind names the JSON value that begins with a byte.
func jsonKind(first byte) string {
	switch first {
	case '"':
		return "a string"
	case '[':
		return "a list"
	case '{':
		return "an object"
	case 't', 'f':
		return "true or false"
	case 'n':
		return "null"
	default:
		return "a number"
	}
}
