package daemon

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/services/config"
	"github.com/seed-7aedc3ff/memdb/services/server"
)

// reservedNames are built-in types of languages that clients are generated in, in lower case: a schema of such a name
// hides the built-in one.
var reservedNames = strings.Fields(`
	any array arraybuffer async await bigint blob bool boolean buffer bytes char class console const date decimal default delete dict document
	double element enum error event exception exclude extract file float formdata function guid headers history image import
	infinity int int32 int64 integer interface intl iterator json list location long map math module nan never node
	nonnullable none null number object omit option optional package parameters partial pick promise proxy range readonly
	record reflect regexp request required response result returntype self set short storage string struct symbol text
	this tuple type undefined union unknown uri url urlsearchparams uuid void weakmap weakset window worker`)

// unshaped are the properties that are JSON of any shape.
var unshaped = []string{"KeyValue.value", "LogChange.before", "LogChange.after", "FactsAdded.relations[]", "SessionMessage.parts", "SessionMessage.tool_calls"}

// allOptional are the schemas without a key that is always there.
var allOptional = []string{"Scope", "ScopeName", "ChatMessage", "MemoryChange", "RecallRequest", "NewMemory", "Conversation", "NewMessage", "AgentManifest", "NewEntity", "NewEntityRelation"}

type (
	apiSchema struct {
		Ref         string `json:"$ref"`
		Type        any
		Description string
		Properties  map[string]*apiSchema
		Additional  any `json:"additionalProperties"`
		Required    []string
		Items       *apiSchema
		OneOf       []*apiSchema
		AnyOf       []*apiSchema
	}
	apiOperation struct {
		Summary, Description, OperationID string
		Tags                              []string
		Parameters                        []struct {
			Name, In, Description string
			Required              bool
			Schema                *apiSchema
		}
		RequestBody *struct {
			Content map[string]struct{ Schema *apiSchema }
		}
		Responses map[string]struct {
			Description string
			Content     map[string]struct{ Schema *apiSchema }
		}
	}
	apiDocument struct {
		Tags       []struct{ Name, Description string }
		Paths      map[string]map[string]apiOperation
		Components struct{ Schemas map[string]*apiSchema }
	}
)

// TestOpenAPIComplete verifies that the document describes each route of every dialect with a Doc so that clients can be
// generated: operations with unique IDs, tags and descriptions, parameters and properties with descriptions, schemas
// that are not named as a built-in type and say which keys are always there.
func TestOpenAPIComplete(t *testing.T) {
	s := server.New(nil, server.Options{})
	for _, d := range append(dialects(&config.Server{}, nil), (&clusterRoutes{}).dialect()) {
		s.Mount(d)
	}
	b, err := s.OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	var doc apiDocument
	if err := json.Unmarshal(b, &doc); err != nil {
		t.Fatal(err)
	}
	tags := map[string]bool{}
	for _, tag := range doc.Tags {
		tags[tag.Name] = tag.Description != ""
	}
	ids := map[string]string{}
	for _, path := range slices.Sorted(maps.Keys(doc.Paths)) {
		for method, op := range doc.Paths[path] {
			at := method + " " + path
			if op.Summary == "" || strings.HasSuffix(op.Summary, ".") || !strings.HasPrefix(op.Description, op.Summary+". ") {
				t.Errorf("%s: its summary or its description lacks: %q, %q", at, op.Summary, op.Description)
			}
			if len(op.Tags) != 1 || !tags[op.Tags[0]] {
				t.Errorf("%s: the tags are %q; give it one that the glossary describes", at, op.Tags)
			}
			switch other, taken := ids[op.OperationID]; {
			case taken:
				t.Errorf("%s: the operationId %s is that of %s, too", at, op.OperationID, other)
			case !regexp.MustCompile(`^[a-z][a-z0-9_]*$`).MatchString(op.OperationID), strings.Count(path, "/v1/") != strings.Count(op.OperationID, "_v1_"):
				t.Errorf("%s: the operationId is %q", at, op.OperationID)
			}
			ids[op.OperationID] = at
			doc.checkOperation(t, at, &op)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(doc.Components.Schemas)) {
		if slices.Contains(reservedNames, strings.ToLower(name)) || !regexp.MustCompile(`^[A-Z][A-Za-z]*$`).MatchString(name) {
			t.Errorf("the schema %s is named as a built-in type, or by a number", name)
		}
		of := doc.Components.Schemas[name]
		if of.Properties != nil && len(of.Required) == 0 && !slices.Contains(allOptional, name) {
			t.Errorf("the schema %s says of no key that it is always there", name)
		}
		doc.checkSchema(t, name, of)
	}
	doc.checkGlossary(t)
	for _, name := range allOptional {
		if of := doc.Components.Schemas[name]; of == nil || len(of.Required) > 0 {
			t.Errorf("%s is no schema without required keys", name)
		}
	}
}

// checkGlossary verifies that the glossary describes no key that no schema has.
func (d *apiDocument) checkGlossary(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "..", "services", "server", "glossary_keys.go"))
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for name, of := range d.Components.Schemas {
		for key := range of.Properties {
			used[key], used[name+"."+key] = true, true
		}
	}
	for _, m := range regexp.MustCompile(`"([A-Za-z_.]+)": +"`).FindAllSubmatch(b, -1) {
		if !used[string(m[1])] {
			t.Errorf("the glossary describes %s, which no schema has", m[1])
		}
	}
}

func (d *apiDocument) checkOperation(t *testing.T, at string, op *apiOperation) {
	for _, p := range op.Parameters {
		if p.Schema == nil || p.Schema.Type == nil || !described(p.Description) || p.In == "path" && !p.Required {
			t.Errorf("%s: the parameter %s has no type or description", at, p.Name)
		}
	}
	if op.Responses["default"].Content["application/json"].Schema.Ref != "#/components/schemas/ErrorReply" {
		t.Errorf("%s: its errors have no schema", at)
	}
	for status, r := range op.Responses {
		if r.Description == "" || status != "default" && status != "204" && len(r.Content) == 0 {
			t.Errorf("%s: the response %s has no description or no content", at, status)
		}
		for media, c := range r.Content {
			d.checkSchema(t, at+" "+media, c.Schema)
		}
	}
	if op.RequestBody != nil {
		for media, c := range op.RequestBody.Content {
			if !strings.HasSuffix(at, "/kv/{key}") { // whose value is any JSON
				d.checkSchema(t, at+" "+media, c.Schema)
			}
		}
	}
}

func described(text string) bool {
	return strings.HasSuffix(text, ".") && strings.ToUpper(text[:1]) == text[:1] || strings.HasPrefix(text, "memory, ") || strings.HasPrefix(text, "note ")
}

// checkSchema verifies that a schema has a shape, that what it refers to exists, and that its properties are described.
func (d *apiDocument) checkSchema(t *testing.T, at string, s *apiSchema) {
	t.Helper()
	if s.Ref != "" {
		if name := strings.TrimPrefix(s.Ref, "#/components/schemas/"); d.Components.Schemas[name] == nil {
			t.Errorf("%s: there is no schema %s", at, s.Ref)
		}
		return
	}
	if s.Type == nil && s.OneOf == nil && s.AnyOf == nil && !slices.Contains(unshaped, at) {
		t.Errorf("%s: the schema has no shape", at)
	}
	for _, part := range slices.Concat(s.OneOf, s.AnyOf) {
		d.checkSchema(t, at, part)
	}
	if s.Items != nil {
		d.checkSchema(t, at+"[]", s.Items)
	}
	for name, p := range s.Properties {
		if !described(p.Description) {
			t.Errorf("%s.%s has no description: %q", at, name, p.Description)
		}
		d.checkSchema(t, fmt.Sprintf("%s.%s", at, name), p)
	}
}
