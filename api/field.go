package api

import (
	"cmp"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-7aedc3ff/memdb/memory"
)

// A Place is where a field of a request is in HTTP.
type Place uint8

const (
	// InQuery is the query of the URL.
	InQuery Place = iota
	// InPath is a part of its path.
	InPath
	// InBody is a key of the body, which is a JSON object.
	InBody
	// AsBody is the whole body, as JSON.
	AsBody
)

// A Field is a field of a request, as its tags describe it.
type Field struct {
	// Name is the name in the query, the path or the body.
	Name string
	// Place is where it is in HTTP.
	Place Place
	// Flag is the name of the flag of the command, and Arg the name of the argument; both are empty for a field that the
	// command does not have.
	Flag, Arg string
	// Unit is what the value of the flag is called.
	Unit string
	// Help is a sentence without its first capital and its full stop.
	Help string
	// Enum are all values that it can have. nil: there are others.
	Enum []string
	// Default is its value where it is left out, as it is written.
	Default string
	// Required: it cannot be left out.
	Required bool
	// Stdin bounds, in bytes, a value that is read from the input where the argument is -. 0: it is not read there.
	Stdin int
	// Words: the arguments from this one on are its value, with a space between, or its values if it is Repeated.
	Words bool
	// Repeated: it can have several values.
	Repeated bool
	// Kind is how its values are written.
	Kind *Kind

	min, max string
	index    []int
}

// FieldsOf are the fields of a request, in their order.
func FieldsOf(request reflect.Type) []Field { return fieldsOf(request, nil, false) }

func fieldsOf(t reflect.Type, index []int, inBody bool) (all []Field) {
	for i := range t.NumField() {
		of := t.Field(i)
		at := append(slices.Clone(index), i)
		if of.Anonymous {
			all = append(all, fieldsOf(of.Type, at, inBody || of.Tag.Get("body") != "")...)
			continue
		}
		f := Field{
			Place: InQuery, Name: of.Tag.Get("query"), Unit: of.Tag.Get("unit"), Help: of.Tag.Get("help"),
			Default: of.Tag.Get("default"), min: of.Tag.Get("min"), max: of.Tag.Get("max"), Required: of.Tag.Get("required") == "true", index: at,
		}
		f.Arg, f.Words = strings.CutSuffix(of.Tag.Get("arg"), "...")
		f.Stdin, _ = strconv.Atoi(of.Tag.Get("stdin"))
		switch {
		case inBody:
			f.Place = InBody
			f.Name, _, _ = strings.Cut(of.Tag.Get("json"), ",")
		case of.Tag.Get("path") != "":
			f.Place, f.Name = InPath, of.Tag.Get("path")
		case of.Tag.Get("body") != "":
			f.Place, f.Name = AsBody, of.Tag.Get("body")
		}
		if f.Name == "" || inBody && f.Help == "" { // its caller sets it, or the command has no such flag
			continue
		}
		if enum := of.Tag.Get("enum"); enum != "" {
			f.Enum = strings.Split(enum, ",")
		}
		if f.Arg == "" {
			f.Flag = cmp.Or(of.Tag.Get("flag"), strings.ReplaceAll(f.Name, "_", "-"))
		}
		if f.Flag == "-" {
			f.Flag = ""
		}
		f.Kind = kindOf(of.Type, of.Tag.Get("bound"))
		f.Repeated = repeats(of.Type)
		all = append(all, f)
	}
	return all
}

// repeats reports whether a type is a list of texts or objects, or points at one.
func repeats(t reflect.Type) bool {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.Kind() == reflect.Slice && (t.Elem().Kind() == reflect.String || t.Elem().Kind() == reflect.Struct)
}

// BodyOf returns the part of a request that is the body of its route: nil where there is none.
func BodyOf(request any) any {
	v := reflect.ValueOf(request).Elem()
	for i := range v.NumField() {
		if v.Type().Field(i).Tag.Get("body") != "" {
			return v.Field(i).Addr().Interface()
		}
	}
	return nil
}

// Set sets the field of a request, a pointer to a struct, to a value that Kind has read.
func (f *Field) Set(request, value any) error {
	to := reflect.ValueOf(request).Elem().FieldByIndex(f.index)
	v := reflect.ValueOf(value)
	if err := f.check(v); err != nil {
		return err
	}
	if to.Kind() == reflect.Pointer {
		if to.IsNil() {
			to.Set(reflect.New(to.Type().Elem()))
		}
		to = to.Elem()
	}
	if to.Kind() == reflect.Slice && v.Kind() != reflect.Slice {
		v = reflect.Append(to, v.Convert(to.Type().Elem()))
	}
	to.Set(v.Convert(to.Type()))
	return nil
}

// ReadLines sets the field of a request, of the kind File, to what a file has. doing is for errors.
func (f *Field) ReadLines(request any, r io.Reader, doing string) error {
	of, _ := reflect.TypeAssert[Lines](reflect.ValueOf(request).Elem().FieldByIndex(f.index).Addr())
	return of.ReadLines(r, doing)
}

// Choice are the values that a field can have, as people read them: a, b or c.
func (f *Field) Choice() string {
	last := len(f.Enum) - 1
	if last < 1 {
		return strings.Join(f.Enum, "")
	}
	return strings.Join(f.Enum[:last], ", ") + " or " + f.Enum[last]
}

// check refuses a value that is out of range.
func (f *Field) check(v reflect.Value) error {
	if f.min == "" || !v.CanInt() {
		return nil
	}
	var least, most int64
	if _, err := fmt.Sscan(f.min+" "+cmp.Or(f.max, "9223372036854775807"), &least, &most); err != nil {
		return err
	}
	switch n := v.Int(); {
	case n < least && f.max == "":
		return fmt.Errorf("%d is below %d", n, least)
	case n < least, n > most:
		return fmt.Errorf("%d is not within %d and %d", n, least, most)
	}
	return nil
}

func invalid(what, why, do string) error {
	return &memory.Error{Kind: memory.ErrInvalid, What: what, Why: why, Do: do}
}

// each calls fn with each of a list.
func each[T any](all []T, fn func(T) error) error {
	for _, v := range all {
		if err := fn(v); err != nil {
			return err
		}
	}
	return nil
}
