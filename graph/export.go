package graph

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"strings"

	"github.com/seed-7aedc3ff/memdb/scope"
)

// Format is a form in which a graph is written out.
type Format string

// The forms of an export: lines of JSON, as the whole database is exported; the language
// of Graphviz; GraphML 1.0.
const (
	JSONL   Format = "jsonl"
	DOT     Format = "dot"
	GraphML Format = "graphml"
)

// FormatOf is the form of a name, and whether there is one.
func FormatOf(name string) (Format, bool) {
	f := Format(name)
	return f, f == JSONL || f == DOT || f == GraphML
}

// Export writes the graph of an owner, entities first, in one state.
func (g Graph) Export(ctx context.Context, o scope.Owner, f Format, w io.Writer) error {
	out := &output{w: w}
	switch f {
	case DOT:
		out.printf("digraph memdb {\n")
		err := g.Each(ctx, o, out.dotEntity, out.dotRelation)
		out.printf("}\n")
		return out.end(err)
	case GraphML:
		out.printf("%s", graphMLHead)
		err := g.Each(ctx, o, out.xmlEntity, out.xmlRelation)
		out.printf("  </graph>\n</graphml>\n")
		return out.end(err)
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return g.Each(ctx, o,
		func(e Entity) error { return enc.Encode(NewEntityLine(e)) },
		func(r Relation) error { return enc.Encode(NewRelationLine(r)) })
}

// output remembers the first error of a writer.
type output struct {
	w   io.Writer
	err error
}

func (o *output) printf(format string, args ...any) {
	if o.err == nil {
		_, o.err = fmt.Fprintf(o.w, format, args...)
	}
}

func (o *output) end(err error) error {
	if err == nil {
		err = o.err
	}
	return err
}

// dotString quotes a string for Graphviz, where a backslash escapes a quote.
func dotString(s string) string {
	return `"` + strings.ReplaceAll(strings.ReplaceAll(s, `\`, `\\`), `"`, `\"`) + `"`
}

func (o *output) dotEntity(e Entity) error {
	label := e.Name
	if label == "" {
		label = e.ID
	}
	o.printf("  %s [label=%s type=%s];\n", dotString(e.ID), dotString(label), dotString(e.Type))
	return o.err
}

func (o *output) dotRelation(r Relation) error {
	o.printf("  %s -> %s [label=%s];\n", dotString(r.From), dotString(r.To), dotString(r.Type))
	return o.err
}

const graphMLHead = `<?xml version="1.0" encoding="UTF-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
  <key id="type" for="node" attr.name="type" attr.type="string"/>
  <key id="name" for="node" attr.name="name" attr.type="string"/>
  <key id="properties" for="all" attr.name="properties" attr.type="string"/>
  <key id="relation" for="edge" attr.name="relation" attr.type="string"/>
  <graph edgedefault="directed">
`

// xmlString escapes a string for XML.
func xmlString(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a Builder never fails
	return b.String()
}

func (o *output) xmlEntity(e Entity) error {
	o.printf("    <node id=\"%s\">", xmlString(e.ID))
	o.data("type", e.Type)
	o.data("name", e.Name)
	o.data("properties", string(e.Properties))
	o.printf("</node>\n")
	return o.err
}

func (o *output) xmlRelation(r Relation) error {
	o.printf("    <edge id=\"%s\" source=\"%s\" target=\"%s\">", xmlString(r.ID), xmlString(r.From), xmlString(r.To))
	o.data("relation", r.Type)
	o.data("properties", string(r.Properties))
	o.printf("</edge>\n")
	return o.err
}

func (o *output) data(key, value string) {
	if value != "" {
		o.printf("<data key=\"%s\">%s</data>", key, xmlString(value))
	}
}
