package filter

import (
	"fmt"
	"slices"
	"strings"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
)

// Field is what a name in a filter stands for.
type Field struct {
	// Name is that of a built-in field, empty for metadata.
	Name string
	// Path is where in the metadata the value is, empty for a built-in field: names of
	// objects and of the field, with dots between.
	Path string

	*kind
}

// IsTime reports whether the values of the field are times.
func (f Field) IsTime() bool { return f.kind == times }

// kind is what values the fields of a kind can have.
type kind struct {
	is      string // as in: role is …
	ops     []Op   // nil: all
	choices []string
	// orNone: a field that a memory does not have equals "".
	orNone bool
}

var (
	ordered = []Op{OpEq, OpNe, OpGt, OpGte, OpLt, OpLte, OpIn, OpNin, OpExists}

	anything = &kind{}
	texts    = &kind{is: "a string", orNone: true}
	roles    = &kind{is: "a word", choices: []string{"user", "assistant", "system", "tool"}}
	kinds    = &kind{is: "a word", choices: []string{"message", "fragment", "fact", "note", "archive", "summary"}}
	numbers  = &kind{is: "a number", ops: ordered}
	times    = &kind{is: "a time", ops: ordered}
	flags    = &kind{is: "true or false", ops: []Op{OpEq, OpNe, OpIn, OpNin, OpExists}}
	lists    = &kind{is: "a list of strings", ops: []Op{OpContains, OpIContains, OpExists}}
)

// builtin are the names that are not metadata.
var builtin = map[string]*kind{
	"id": texts, "user": texts, "agent": texts, "run": texts, "source": texts, "name": texts, "text": texts,
	"role": roles, "kind": kinds, "aliases": lists, "pinned": flags,
	"importance": numbers, "confidence": numbers, "access_count": numbers,
	"created_at": times, "updated_at": times, "event_time": times, "expires_at": times, "last_accessed": times,
}

// otherNames are further names of built-in fields.
var otherNames = map[string]string{
	"user_id": "user", "agent_id": "agent", "run_id": "run", "memory": "text", "content": "text",
}

// reserved are the names that memdb shows of a memory and that are no fields, and what
// serves in their place. Taken for metadata they would find nothing, in silence.
var reserved = map[string]string{
	"seq":             "use created_at, or order a list by seq",
	"scope":           "use user, agent and run",
	"hash":            "use text",
	"metadata":        "name a field of it, as metadata.tag",
	"embedding":       "use a recall by vector",
	"vectors":         "use a recall by vector",
	"auto_importance": "use importance",
}

const metadataPrefix = "metadata."

// Lookup is the field that a name stands for. A name that is neither that of a built-in
// field nor reserved is metadata.
func Lookup(name string) (Field, error) {
	if other, ok := otherNames[name]; ok {
		name = other
	}
	if k, ok := builtin[name]; ok {
		return Field{Name: name, kind: k}, nil
	}
	path, forced := strings.CutPrefix(name, metadataPrefix)
	if path == "" {
		return Field{}, fault.Invalid(doing, "a condition has no field", "name one")
	}
	head, _, _ := strings.Cut(name, ".")
	if instead, ok := reserved[head]; ok && !forced {
		return Field{}, fault.Invalid(doing, fmt.Sprintf("%s is no field of a filter", valid.Short(name)),
			fmt.Sprintf("%s; metadata.%s is that of the metadata", instead, valid.Short(name)))
	}
	return Field{Path: path, kind: anything}, nil
}

// BuiltIn are the names of the built-in fields, in alphabetical order.
func BuiltIn() []string {
	names := make([]string, 0, len(builtin))
	for name := range builtin {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
