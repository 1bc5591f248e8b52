package server

import (
	"cmp"
	"encoding"
	"encoding/json"
	"net/http"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// OpenAPIPath is where the server's OpenAPI document is.
const OpenAPIPath = "/memdb/v1/openapi.json"

// An object is one of JSON.
type object = map[string]any

// OpenAPI is the document of all routes that say what they do, in OpenAPI 3.1: JSON that follows
// from their Doc by reflection.
func (s *Server) OpenAPI() ([]byte, error) {
	b := &apiBuilder{schemas: object{}, types: map[string]reflect.Type{}}
	paths := object{}
	for i := range s.routes {
		r := &s.routes[i]
		if r.Doc.Summary == "" {
			continue
		}
		method, path, _ := strings.Cut(r.Pattern, " ")
		path = strings.ReplaceAll(path, "{$}", "")
		item, _ := paths[path].(object)
		if item == nil {
			item = object{}
			paths[path] = item
		}
		item[strings.ToLower(method)] = b.operation(r, path, r.once(s.o.MaxBody))
	}
	b.schemas["Error"] = object{
		"type": "object", "required": []string{"error"},
		"properties": object{"error": object{
			"type": "object", "required": []string{"code", "message", "request_id"},
			"properties": object{"code": object{"type": "string"}, "message": object{"type": "string"}, "request_id": object{"type": "string"}},
		}},
	}
	return json.Marshal(object{
		"openapi":           "3.1.0",
		"info":              object{"title": "memdb", "version": "1", "summary": "A database for the memory of agents."},
		"jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
		"paths":             paths,
		"components": object{
			"schemas":         b.schemas,
			"securitySchemes": object{"key": object{"type": "http", "scheme": "bearer"}},
		},
		"security": []object{{"key": []string{}}, {}},
	})
}

// openapi answers the document.
func (s *Server) openapi(c *Call) error {
	b, err := s.OpenAPI()
	if err != nil {
		return err
	}
	c.W.Header().Set("Content-Type", "application/json")
	c.W.WriteHeader(http.StatusOK)
	_, err = c.W.Write(b)
	return err
}

// apiBuilder gathers the schemas of types that have a name.
type apiBuilder struct {
	schemas object
	types   map[string]reflect.Type
}

var pathParam = regexp.MustCompile(`\{([a-z_]+)(?:\.\.\.)?\}`)

func (b *apiBuilder) operation(r *Route, path string, once bool) object {
	op := object{"summary": r.Doc.Summary, "operationId": operationID(r.Pattern)}
	var params []object
	for _, m := range pathParam.FindAllStringSubmatch(path, -1) {
		params = append(params, object{"name": m[1], "in": "path", "required": true, "schema": object{"type": "string"}})
	}
	for _, p := range r.Doc.Query {
		schema := object{"type": p.Type}
		if p.Repeated {
			schema = object{"type": "array", "items": schema}
		}
		params = append(params, object{"name": p.Name, "in": "query", "description": p.Summary, "required": p.Required, "schema": schema})
	}
	if once {
		params = append(params, object{
			"name": IdempotencyHeader, "in": "header", "required": false, "schema": object{"type": "string", "maxLength": 512},
			"description": "An ID of the request: sent again within 24 hours, it changes nothing and gets the first answer.",
		})
	}
	if len(params) > 0 {
		op["parameters"] = params
	}
	switch {
	case r.Doc.BodyMedia != "":
		op["requestBody"] = object{"required": true, "content": object{r.Doc.BodyMedia: object{"schema": object{"type": "string"}}}}
	case r.Doc.Body != nil:
		op["requestBody"] = object{"required": true, "content": object{"application/json": object{"schema": b.schema(reflect.TypeOf(r.Doc.Body))}}}
	}
	op["responses"] = object{
		strconv.Itoa(status(&r.Doc)): b.reply(&r.Doc),
		"default":                    object{"description": "It failed.", "content": object{"application/json": object{"schema": object{"$ref": "#/components/schemas/Error"}}}},
	}
	if r.Public {
		op["security"] = []object{}
	}
	if r.Admin {
		op["description"] = "For a key of an administrator."
	}
	return op
}

// status is that of success.
func status(d *Doc) int {
	if d.Status == 0 && d.Reply == nil && d.Media == "" {
		return http.StatusNoContent
	}
	return cmp.Or(d.Status, http.StatusOK)
}

func (b *apiBuilder) reply(d *Doc) object {
	switch {
	case d.Media != "":
		return object{"description": "It is done.", "content": object{d.Media: object{"schema": object{"type": "string"}}}}
	case d.Reply == nil:
		return object{"description": "It is done."}
	case d.Lines:
		return object{
			"description": `A line of JSON for each, and behind them {"end":true,"count":N}, or {"error":…} where the list broke.`,
			"content":     object{"application/x-ndjson": object{"schema": b.schema(reflect.TypeOf(d.Reply))}},
		}
	}
	return object{"description": "It is done.", "content": object{"application/json": object{"schema": b.schema(reflect.TypeOf(d.Reply))}}}
}

// operationID is a name of a route for clients that are generated.
func operationID(pattern string) string {
	words := strings.FieldsFunc(strings.ToLower(pattern), func(r rune) bool { return r < 'a' || r > 'z' })
	return strings.Join(words, "_")
}

var (
	marshaler     = reflect.TypeFor[json.Marshaler]()
	unmarshaler   = reflect.TypeFor[json.Unmarshaler]()
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
	timeType      = reflect.TypeFor[time.Time]()
)

// writesItself reports whether a type has a JSON of its own, of which reflection knows nothing.
func writesItself(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(marshaler) || p.Implements(unmarshaler)
}

// isTime reports whether a type is a time, or nothing but one.
func isTime(t reflect.Type) bool {
	for t.Kind() == reflect.Struct && t != timeType && t.NumField() == 1 {
		t = t.Field(0).Type
	}
	return t == timeType
}

// schema is the JSON schema of a type. A struct that has a name is one of the components.
func (b *apiBuilder) schema(t reflect.Type) object {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case isTime(t):
		return object{"type": "string", "format": "date-time"}
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		return object{} // JSON as it is
	case t.Kind() == reflect.Slice, t.Kind() == reflect.Array:
		return object{"type": "array", "items": b.schema(t.Elem())}
	case t.Kind() == reflect.Map:
		return object{"type": "object", "additionalProperties": b.schema(t.Elem())}
	case writesItself(t):
		return object{}
	case reflect.PointerTo(t).Implements(textMarshaler):
		return object{"type": "string"}
	}
	switch t.Kind() {
	case reflect.String:
		return object{"type": "string"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Float32, reflect.Float64:
		return object{"type": "number"}
	case reflect.Struct:
		return b.structure(t)
	case reflect.Interface:
		return object{}
	}
	return object{"type": "integer"}
}

func (b *apiBuilder) structure(t reflect.Type) object {
	if t.Name() == "" {
		return b.properties(t)
	}
	name := t.Name()
	for n := 2; b.types[name] != nil && b.types[name] != t; n++ { // of another package
		name = t.Name() + strconv.Itoa(n)
	}
	if b.types[name] == nil {
		b.types[name] = t // before its fields, which may be of it
		b.schemas[name] = b.properties(t)
	}
	return object{"$ref": "#/components/schemas/" + name}
}

func (b *apiBuilder) properties(t reflect.Type) object {
	props := object{}
	b.fields(t, props)
	return object{"type": "object", "properties": props}
}

// fields adds the fields of a struct, those of embedded ones first: the outer one wins.
func (b *apiBuilder) fields(t reflect.Type, props object) {
	var own []reflect.StructField
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "" && f.Type.Kind() == reflect.Struct:
			b.fields(f.Type, props)
		case f.IsExported() && name != "-":
			own = append(own, f)
		}
	}
	for _, f := range own {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		props[cmp.Or(name, f.Name)] = b.schema(f.Type)
	}
}
