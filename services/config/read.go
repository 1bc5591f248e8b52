package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/fsys"
	"github.com/seed-7aedc3ff/memdb/policy"
)

// maxFile bounds a file, in bytes: prompts are the longest that one holds.
const maxFile = 1 << 20

// Load reads a file: JSON where its name ends with .json, and TOML where it ends with .toml.
// ErrInvalid where it cannot be read, where it has a key that is not known, and where a value
// is not of its type; the error names the key, and no value.
func Load(path string) (*Config, error) {
	b, err := fsys.ReadFile(path, maxFile)
	if err != nil {
		return nil, &fault.Error{Kind: fault.ErrInvalid, What: "read " + path, Why: "the file cannot be read", Cause: err, Do: "check its name and who may read it"}
	}
	return Parse(path, b)
}

// Parse is Load of what a file holds. Errors name the file, and its ending says what it is.
func Parse(name string, b []byte) (*Config, error) {
	doing := "read " + name
	var tree map[string]any
	var err error
	switch strings.ToLower(filepath.Ext(name)) {
	case ".json":
		tree, err = parseJSON(doing, b)
	case ".toml":
		tree, err = parseTOML(doing, b)
	default:
		return nil, fault.Invalid(doing, "its name says neither JSON nor TOML", "name it with .json or .toml at the end")
	}
	if err != nil {
		return nil, err
	}
	if unknown := unknownKeys(tree, reflect.TypeFor[Config](), ""); len(unknown) > 0 {
		return nil, fault.Invalid(doing, "it has keys that are not known: "+strings.Join(unknown, ", "), "check their spelling, and where they stand: docs/providers.md lists all")
	}
	return decode(doing, tree)
}

// parseJSON reads one object. Where it fails the error has the place, not the text, which may
// be a key.
func parseJSON(doing string, b []byte) (tree map[string]any, err error) {
	err = json.Unmarshal(b, &tree)
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		line := 1 + bytes.Count(b[:min(int(syntax.Offset), len(b))], []byte("\n"))
		return nil, fault.Invalid(doing, fmt.Sprintf("it is no JSON from line %d on", line), "check commas, quotes and brackets there")
	}
	if err != nil || tree == nil {
		return nil, fault.Invalid(doing, "it is no JSON object", "put everything between { and }")
	}
	return tree, nil
}

func parseTOML(doing string, b []byte) (tree map[string]any, err error) {
	if err := toml.Unmarshal(b, &tree); err != nil {
		at := "it is no TOML"
		if bad, ok := errors.AsType[toml.ParseError](err); ok {
			at = fmt.Sprintf("it is no TOML at line %d", bad.Position.Line)
		}
		return nil, fault.Invalid(doing, at, "check brackets and quotes there, and that no key is given twice")
	}
	return tree, nil
}

// unknownKeys lists the keys of a tree that a type does not have, with their paths.
func unknownKeys(tree map[string]any, t reflect.Type, at string) (unknown []string) {
	known := map[string]reflect.Type{}
	addKeys(known, t)
	for _, key := range slices.Sorted(maps.Keys(tree)) {
		field, ok := known[key]
		if !ok {
			name := fmt.Sprintf("%.80s%.80s", at, key)
			if near := nearest(key, slices.Sorted(maps.Keys(known))); near != "" {
				name += " (near " + near + ")"
			}
			unknown = append(unknown, name)
			continue
		}
		if inner, isTree := tree[key].(map[string]any); isTree && field.Kind() == reflect.Struct {
			unknown = append(unknown, unknownKeys(inner, field, at+key+".")...)
		}
	}
	return unknown
}

// nearest is the known key that is as a key may have been meant, empty where none is like it.
func nearest(key string, known []string) (best string) {
	most := min(len(key), 40)/3 + 2 // one more than the letters that may differ
	for _, k := range known {
		if d, ok := policy.EditDistance([]rune(strings.ToLower(fmt.Sprintf("%.80s", key))), []rune(k), most-1); ok && d < most {
			best, most = k, d
		}
	}
	return best
}

// addKeys adds the keys of a struct with their types.
func addKeys(known map[string]reflect.Type, t reflect.Type) {
	for f := range t.Fields() {
		if f.Anonymous {
			addKeys(known, f.Type)
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		inner := f.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		known[name] = inner
	}
}

// decode gives the values of a tree to a Config.
func decode(doing string, tree map[string]any) (*Config, error) {
	b, err := json.Marshal(tree)
	if err != nil {
		return nil, fault.Invalid(doing, "it holds a number that is infinite or none", "give another")
	}
	c := &Config{}
	err = json.Unmarshal(b, c)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		is, _, _ := strings.Cut(wrong.Value, " ") // without the value
		return nil, fault.Invalid(doing, fmt.Sprintf("%s is of the type %s", strings.ReplaceAll(wrong.Field, "Calls.", ""), is), "give "+wanted(wrong.Type))
	}
	if err != nil {
		return nil, &fault.Error{Kind: fault.ErrInvalid, What: doing, Why: "it holds a value that is out of range", Cause: err, Do: "give another"}
	}
	if err := c.checkVariables(doing); err != nil {
		return nil, err
	}
	return c, nil
}

// wanted says what a value of a type is.
func wanted(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		if t == reflect.TypeFor[Secret]() {
			return "a text in quotes"
		}
		return "a group of keys"
	case reflect.Int, reflect.Int64:
		if t == reflect.TypeFor[Duration]() {
			return `a duration as "30s"`
		}
		return "a whole number"
	case reflect.Float64:
		return "a number"
	default:
		return "a text in quotes"
	}
}
