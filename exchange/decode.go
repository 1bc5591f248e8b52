package exchange

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/seed-7aedc3ff/memdb/internal/rawjson"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
)

// Decode reads one JSON value into v, as json.Unmarshal does, but refuses invalid
// UTF-8 and halves of surrogate pairs, which that would replace in silence, and says
// what is wrong in terms of the JSON, not of Go.
func Decode(data []byte, v any) error {
	if err := valid.JSON(data); err != nil {
		return err
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

// DecodeStrict is Decode for an object of a struct's keys: another key, also one that
// differs in case, is an error that names it and lists those that there are, and so is
// a key that is given twice. What lies under a key that reads any JSON, as metadata,
// has its own. A type that reads its JSON itself decides about its keys.
func DecodeStrict(data []byte, v any) error {
	err := Decode(data, v)
	if _, itself := v.(json.Unmarshaler); err != nil || itself {
		return err
	}
	known := keysOf(reflect.TypeOf(v).Elem())
	err = eachKey(data, known, func(key string, _ []byte, isKnown bool) error {
		if !isKnown {
			return fmt.Errorf("the key %q is not known; there are %s", key, strings.Join(known, ", "))
		}
		return nil
	})
	if errors.Is(err, rawjson.ErrMalformed) {
		return nil // it is null
	}
	return err
}

// Strict is a list of objects whose keys are all known.
type Strict[T any] []T

// UnmarshalJSON refuses keys that are not known.
func (l *Strict[T]) UnmarshalJSON(b []byte) error {
	var all []json.RawMessage
	if err := Decode(b, &all); err != nil {
		return err
	}
	*l = make(Strict[T], len(all))
	for i := range all {
		if err := DecodeStrict(all[i], &(*l)[i]); err != nil {
			return fmt.Errorf("number %d of the list: %w", i, err)
		}
	}
	return nil
}

// A Member is a key of an object with its value, as it is written.
type Member struct {
	Key   string // without its quotes and escapes
	Value []byte // the JSON of the value
}

// DecodeKnown is DecodeStrict without the keys that are not known, which it returns. They are valid as
// long as data is.
func DecodeKnown(data []byte, v any) (unknown []Member, err error) {
	if _, itself := v.(json.Unmarshaler); itself {
		return nil, Decode(data, v)
	}
	var object []byte
	known := keysOf(reflect.TypeOf(v).Elem())
	err = eachKey(data, known, func(key string, value []byte, isKnown bool) error {
		if !isKnown {
			unknown = append(unknown, Member{key, value})
		}
		return nil
	})
	if err == nil && len(unknown) == 0 || errors.Is(err, rawjson.ErrMalformed) {
		return nil, Decode(data, v) // malformed, or null
	}
	if wrong := Decode(data, new(json.RawMessage)); wrong != nil || err != nil {
		return nil, cmp.Or(wrong, err)
	}
	_ = eachKey(data, known, func(key string, value []byte, isKnown bool) error { // as above
		if isKnown {
			object = append(strconv.AppendQuote(append(object, ','), key), ':')
			object = append(object, value...)
		}
		return nil
	})
	if len(object) == 0 {
		return unknown, nil
	}
	object[0] = '{'
	return unknown, Decode(append(object, '}'), v)
}

// Members are the keys of an object and their values. A key that is given twice is an error, and so is
// what is no text; the values are valid as long as data is.
func Members(data []byte) ([]Member, error) {
	if !json.Valid(data) || valid.JSON(data) != nil {
		return nil, Decode(data, new(json.RawMessage)) // which says what is wrong
	}
	all := make([]Member, 0, 16)
	err := rawjson.Members(data, func(key string, value []byte) error {
		if slices.ContainsFunc(all, func(m Member) bool { return m.Key == key }) {
			return fmt.Errorf("the key %q is given twice", key)
		}
		all = append(all, Member{key, value})
		return nil
	})
	if errors.Is(err, rawjson.ErrMalformed) {
		err = fmt.Errorf("it is %s, not an object", jsonKind(bytes.TrimSpace(data)[0]))
	}
	return all, err
}

// eachKey visits the keys of an object, of which no known one may be given twice.
func eachKey(data []byte, known []string, visit func(key string, value []byte, isKnown bool) error) error {
	seen := make([]bool, len(known))
	return rawjson.Members(data, func(key string, value []byte) error {
		i := slices.Index(known, key)
		if i >= 0 {
			if seen[i] {
				return fmt.Errorf("the key %q is given twice", key)
			}
			seen[i] = true
		}
		return visit(key, value, i >= 0)
	})
}

// keysByType are the keys of structs: they are asked for with every line.
var keysByType sync.Map

// keysOf lists the keys that a struct is read from.
func keysOf(t reflect.Type) []string {
	if keys, ok := keysByType.Load(t); ok {
		return keys.([]string)
	}
	keys := listKeys(t)
	keysByType.Store(t, keys)
	return keys
}

func listKeys(t reflect.Type) []string {
	var keys []string
	for f := range t.Fields() {
		if f.Anonymous {
			keys = append(keys, listKeys(f.Type)...)
			continue
		}
		if key, _, _ := strings.Cut(f.Tag.Get("json"), ","); key != "" && key != "-" {
			keys = append(keys, key)
		}
	}
	return keys
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
