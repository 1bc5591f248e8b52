package api

import (
	"encoding/json"
	"io"
	"reflect"
)

// Lines is a part of a request that the body of its route has as JSON lines, and a file of the command.
type Lines interface {
	// ReadLines reads the part. doing is for errors.
	ReadLines(r io.Reader, doing string) error
}

// Form is the body of a request that is a JSON object with more keys than its fields.
type Form interface {
	// ReadForm reads the object.
	ReadForm(object []byte) error
}

// A reply, or an item of a list, that has one of several forms is a struct of pointers, of which one is set. The tag
// has:"key" of a field names a key that only its form has; the last field has none. Its method OneOf returns a value of each
// form, as documents describe it.

// writeOne is the JSON of the form that is set.
func writeOne(one any) ([]byte, error) {
	for _, form := range reflect.ValueOf(one).Fields() {
		if form.IsNil() {
			continue
		}
		return compact(form.Interface())
	}
	return []byte("null"), nil
}

// readOne reads the form that has its key.
func readOne(b []byte, to any) error {
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(b, &keys); err != nil {
		return err
	}
	v := reflect.ValueOf(to).Elem()
	v.SetZero()
	for i := range v.NumField() {
		key := v.Type().Field(i).Tag.Get("has")
		if _, has := keys[key]; has || key == "" {
			v.Field(i).Set(reflect.New(v.Type().Field(i).Type.Elem()))
			return json.Unmarshal(b, v.Field(i).Interface())
		}
	}
	return nil
}
