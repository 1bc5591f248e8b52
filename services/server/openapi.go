package server

import (
	"cmp"
	"encoding"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// OpenAPIPath is where the server's OpenAPI document is.
const OpenAPIPath = "/memdb/v1/openapi.json"

// An object is one of JSON.
type object = map[string]any

// OpenAPI returns the OpenAPI 3.1 document of all routes that have a Doc. Reflection makes the schemas from the types of
// the bodies and replies; glossary.go has the names of the schemas and what the keys mean.
func (s *Server) OpenAPI() ([]byte, error) {
	b := &apiBuilder{schemas: filterSchemas(), types: map[string]shape{}}
	b.schemas[errorSchema] = b.properties(errorSchema, shape{of: reflect.TypeFor[ErrorReply]()})
	paths := object{}
	used := map[string]bool{}
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
		used[r.Doc.Tag] = true
	}
	if b.err != nil {
		return nil, b.err
	}
	var tagged []object
	for _, name := range slices.Sorted(maps.Keys(used)) {
		tagged = append(tagged, object{"name": name, "description": tags[name]})
	}
	return json.Marshal(object{
		"openapi":           "3.1.0",
		"info":              object{"title": "memdb", "version": "1", "summary": "A database for the memory of AI agents.", "description": apiDescription},
		"jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
		"tags":              tagged,
		"paths":             paths,
		"components": object{
			"schemas": b.schemas,
			"securitySchemes": object{
				"bearer": object{"type": "http", "scheme": "bearer", "description": "A key that memdbd key add has made, in the header Authorization."},
				"header": object{"type": "apiKey", "in": "header", "name": "X-Api-Key", "description": "The same key in a header of its own."},
			},
		},
		"security": []object{{"bearer": []string{}}, {"header": []string{}}, {}},
	})
}

// openapi answers the document.
func (s *Server) openapi(c *Call) error {
	b, err := s.OpenAPI()
	if err != nil {
		return err
	}
	c.W.Header().Set("Content-Type", mediaJSON)
	c.W.WriteHeader(http.StatusOK)
	_, err = c.W.Write(b)
	return err
}

// OneOf is a reply, or an item of a list, that has one of several types.
type OneOf interface {
	// OneOf returns a value of each type.
	OneOf() []any
}

// A shape is a type as it is sent by a client or by the server, which write different keys.
type shape struct {
	of   reflect.Type
	sent bool // by a client
}

// apiBuilder gathers the schemas of types that have a name.
type apiBuilder struct {
	schemas object
	types   map[string]shape
	err     error
}

// ref refers to a schema of the document.
func ref(name string) object { return object{"$ref": "#/components/schemas/" + name} }

func content(media string, schema object) object { return object{media: object{"schema": schema}} }

var pathParam = regexp.MustCompile(`\{([a-z_]+)(?:\.\.\.)?\}`)

func (b *apiBuilder) operation(r *Route, path string, once bool) object {
	op := object{
		"summary": r.Doc.Summary, "description": describe(r), "operationId": operationID(r.Pattern), "tags": []string{r.Doc.Tag},
		"responses": b.responses(&r.Doc),
	}
	var params []object
	for _, m := range pathParam.FindAllStringSubmatch(path, -1) {
		p := Param{Name: m[1], Summary: pathWords[m[1]], Type: "string", Required: true}
		if i := slices.IndexFunc(r.Doc.Path, func(p Param) bool { return p.Name == m[1] }); i >= 0 {
			p.Summary, p.Enum = r.Doc.Path[i].Summary, r.Doc.Path[i].Enum
		}
		params = append(params, p.object("path"))
	}
	for _, p := range r.Doc.Query {
		params = append(params, p.object("query"))
	}
	if once {
		p := Param{
			Name: IdempotencyHeader, Type: "string", MaxLength: 512,
			Summary: "an ID of the request: the same request sent again within 24 hours changes nothing and gets the first answer",
		}
		params = append(params, p.object("header"))
	}
	if len(params) > 0 {
		op["parameters"] = params
	}
	body := object{}
	if r.Doc.Body != nil {
		body[mediaJSON] = object{"schema": b.of(r.Doc.Body, true)}
	}
	if r.Doc.BodyMedia != "" {
		body[r.Doc.BodyMedia] = object{"schema": object{"type": "string"}}
	}
	if len(body) > 0 {
		op["requestBody"] = object{"required": true, "content": body}
	}
	if r.Public {
		op["security"] = []object{}
	}
	return op
}

// describe says what a route does, who may call it, and the form of its list.
func describe(r *Route) string {
	text := r.Doc.Summary + "."
	switch {
	case r.Public:
		text += " No key is needed."
	case r.Metrics:
		text += " A key of an administrator or a key for metrics is needed."
	case r.Admin:
		text += " A key of an administrator is needed."
	default:
		text += " A key reaches its own scopes only."
	}
	if r.Doc.Lines {
		text += " The list is JSON lines unless the header Accept prefers application/json; an error after the first line is the last line."
	}
	return text
}

// object is the parameter in the document.
func (p *Param) object(in string) object {
	schema := object{"type": p.Type}
	if len(p.Enum) > 0 {
		schema["enum"] = p.Enum
	}
	if p.MaxLength > 0 {
		schema["maxLength"] = p.MaxLength
	}
	if p.Repeated {
		schema = object{"type": "array", "items": schema}
	}
	o := object{"name": p.Name, "in": in, "description": sentence(p.Summary), "required": p.Required, "schema": schema}
	if p.Example != "" {
		o["example"] = p.Example
	}
	return o
}

// sentence is a text with a capital letter and a full stop.
func sentence(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

// status is that of success.
func status(d *Doc) int {
	if d.Status == 0 && d.Reply == nil && len(d.Media) == 0 {
		return http.StatusNoContent
	}
	return cmp.Or(d.Status, http.StatusOK)
}

func (b *apiBuilder) responses(d *Doc) object {
	done := object{"description": "The call has succeeded."}
	switch {
	case len(d.Media) > 0:
		media := object{}
		for _, m := range d.Media {
			media[m] = object{"schema": object{"type": "string"}}
		}
		done["content"] = media
	case d.Lines:
		list := b.list(d.Reply)
		done["description"] = `The list. As application/x-ndjson, each item is a line, and the last line has the other keys of the list beside "end":true.`
		done["content"] = object{mediaJSON: object{"schema": list}, mediaLines: object{"schema": list}}
	case d.Reply != nil:
		done["content"] = content(mediaJSON, b.of(d.Reply, false))
	}
	all := object{
		strconv.Itoa(status(d)): done,
		"default":               object{"description": "The call has failed: error says why.", "content": content(mediaJSON, ref(errorSchema))},
	}
	if d.Unchanged {
		all[strconv.Itoa(http.StatusOK)] = object{"description": "Nothing new was stored: stored and updated say what has changed.", "content": done["content"]}
	}
	return all
}

// list is the schema of a list of items.
func (b *apiBuilder) list(item any) object {
	items := b.of(item, false)
	of, _ := items["$ref"].(string)
	name := of[strings.LastIndex(of, "/")+1:] + "List"
	if b.schemas[name] == nil {
		list := b.properties(name, shape{of: reflect.TypeFor[ListEnd]()})
		props := list["properties"].(object)
		delete(props, "end")
		props["limit"].(object)["description"] = "The limit that ended a query of the graph early."
		props["items"] = object{"type": "array", "maxItems": maxArrayItems, "items": items, "description": glossary["items"]}
		list["required"] = []string{"items", "count"}
		b.schemas[name] = list
	}
	return ref(name)
}

// of is the schema of a value of a Doc.
func (b *apiBuilder) of(v any, sent bool) object {
	one, is := v.(OneOf)
	if !is {
		return b.schema(shape{reflect.TypeOf(v), sent})
	}
	var parts []object
	for _, part := range one.OneOf() {
		parts = append(parts, b.of(part, sent))
	}
	name := schemaName(shape{reflect.TypeOf(v), sent})
	b.schemas[name] = object{"oneOf": parts}
	return ref(name)
}

// operationID names a route for generated clients.
func operationID(pattern string) string {
	words := strings.FieldsFunc(strings.ToLower(pattern), func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') })
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

// isTime reports whether a type is a time, or embeds one first.
func isTime(t reflect.Type) bool {
	for t.Kind() == reflect.Struct && t != timeType && t.NumField() > 0 && t.Field(0).Anonymous {
		t = t.Field(0).Type
	}
	return t == timeType
}

// schema is the JSON schema of a type. A struct that has a name is one of the components.
func (b *apiBuilder) schema(s shape) object {
	t := s.of
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if known, ok := special[t.String()]; ok {
		return maps.Clone(known)
	}
	elem := func() object { return b.schema(shape{t.Elem(), s.sent}) }
	switch {
	case isTime(t):
		return object{"type": "string", "format": "date-time"}
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		return object{} // JSON as it is
	case t.Kind() == reflect.Slice, t.Kind() == reflect.Array:
		return object{"type": "array", "items": elem()}
	case t.Kind() == reflect.Map:
		return object{"type": "object", "additionalProperties": elem()}
	case writesItself(t):
		return object{}
	case reflect.PointerTo(t).Implements(textMarshaler):
		return object{"type": "string"}
	}
	switch t.Kind() {
	case reflect.String:
		if all := enums[t.String()]; len(all) > 0 {
			return object{"type": "string", "enum": all}
		}
		return object{"type": "string"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Float32, reflect.Float64:
		return object{"type": "number"}
	case reflect.Struct:
		return b.structure(shape{t, s.sent})
	case reflect.Interface:
		return object{}
	}
	return object{"type": "integer"}
}

func (b *apiBuilder) structure(s shape) object {
	name := schemaName(s)
	if name == "" {
		return b.properties("", s)
	}
	switch was, known := b.types[name]; {
	case !known:
		b.types[name] = s // before its fields, which may be of it
		b.schemas[name] = b.properties(name, s)
	case was != s && b.err == nil:
		b.err = fmt.Errorf("the schemas of %v and %v are both called %s; give one of them another name in the glossary", was.of, s.of, name)
	}
	return ref(name)
}

// schemaName is the name in the glossary, else the name of the Go type; what a client sends is named without the ending
// Body.
func schemaName(s shape) string {
	if s.sent {
		if name := schemaNames["sent "+s.of.String()]; name != "" {
			return name
		}
	} else if name := schemaNames[s.of.String()]; name != "" {
		return name
	}
	name := s.of.Name()
	if name == "" {
		return ""
	}
	if s.sent {
		name = strings.TrimSuffix(name, "Body")
	}
	return strings.ToUpper(name[:1]) + name[1:]
}

func (b *apiBuilder) properties(name string, s shape) object {
	f := &fieldsOf{props: object{}}
	b.fields(name, s, f)
	o := object{"type": "object", "properties": f.props}
	if len(f.required) > 0 {
		slices.Sort(f.required)
		o["required"] = slices.Compact(f.required)
	}
	if openSchemas[name] {
		o["additionalProperties"] = true
	}
	return o
}

// fieldsOf are the properties of a struct, and which of them are always there.
type fieldsOf struct {
	props    object
	required []string
}

// tagName is that of the struct tag which says of a field of a body: required, or - for one that clients never see.
const tagName = "openapi"

// fields adds the fields of a struct, those of embedded ones first: the outer one wins.
func (b *apiBuilder) fields(schema string, s shape, into *fieldsOf) {
	var own []reflect.StructField
	for f := range s.of.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "" && f.Type.Kind() == reflect.Struct:
			b.fields(schema, shape{f.Type, s.sent}, into)
		case f.IsExported() && name != "-" && f.Tag.Get(tagName) != "-":
			own = append(own, f)
		}
	}
	for _, f := range own {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		name = cmp.Or(name, f.Name)
		optional := strings.Contains(options, "omit")
		p := b.property(schema, name, shape{f.Type, s.sent}, optional, f.Tag.Get("help"))
		if s.sent && f.Tag.Get(tagName) == "required" || !s.sent && !optional {
			into.required = append(into.required, name)
		}
		into.props[name] = p
	}
}

// property is the schema of a field. help is what the field says of itself, empty where the glossary has it.
func (b *apiBuilder) property(schema, name string, s shape, optional bool, help string) object {
	var p object
	switch fixed, is := constants[schema]; {
	case is && name == "type" && !s.sent:
		p = object{"type": "string", "enum": []string{fixed}}
	case objectKeys[name] && len(b.schema(s)) == 0:
		p = object{"type": "object", "additionalProperties": true}
	default:
		p = b.schema(s)
	}
	// The zero time is null, where it is not left out.
	if null := s.of.Kind() == reflect.Pointer || isTime(s.of) && s.of != timeType; null && !optional && !s.sent {
		p = nullable(p)
	}
	if help != "" {
		p["description"] = strings.ToUpper(help[:1]) + help[1:] + "."
	} else if text := cmp.Or(glossary[schema+"."+name], glossary[name]); text != "" {
		p["description"] = text
	}
	return p
}

// nullable is a schema that null fits, too.
func nullable(p object) object {
	if t, plain := p["type"].(string); plain {
		p["type"] = []string{t, "null"}
		return p
	}
	if len(p) == 0 {
		return p
	}
	return object{"anyOf": []object{p, {"type": "null"}}}
}
