package native

import (
	"bytes"
	"net/http"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/mention"
	"github.com/seed-7aedc3ff/memdb/services/server"
)

func graphData() []route {
	return []route{
		{at: "GET /graph/export", summary: "Write the graph as jsonl, dot or graphml", media: []string{linesOfJSON, "text/vnd.graphviz", "application/xml"}, stream: true, handle: exportGraph, params: ofOwner(
			param{name: "format", kind: text, values: []string{"jsonl", "dot", "graphml"}, summary: "the format; the default is jsonl"},
		)},
		{at: "GET /graph/entities/{id}/picture", summary: "Draw the neighbourhood of an entity", media: []string{"image/svg+xml"}, handle: drawEntity, params: inState(
			param{name: "depth", kind: count, summary: "the largest number of relations from the start; the default is 1"},
			param{name: "limit", kind: count, summary: "the largest number of entities, up to 500; the default is 40"},
		)},
		{at: "POST /graph/extract", summary: "Link memories to the people, places, dates and handles that their texts mention", reply: engine.Extracted{}, stream: true, handle: extractEntities, params: inAll(
			param{name: "again", kind: flag, summary: "also read memories that are already linked"},
		)},
	}
}

// mediaOf are the media types of graphs.
var mediaOf = map[string]string{"jsonl": linesOfJSON, "dot": "text/vnd.graphviz; charset=utf-8", "graphml": "application/xml"}

func exportGraph(a *ask) error {
	owner, err := a.owner("export a graph")
	if err != nil {
		return err
	}
	format := "jsonl"
	if a.given("format") {
		format = value[string](a, "format")
	}
	f, known := graph.FormatOf(format)
	if !known {
		return invalid("export a graph", "there is no such format", "there are jsonl, dot and graphml")
	}
	out := &late{a: a, media: mediaOf[format]}
	if err := a.DB.Graph().Export(a.Context(), owner, f, out); err != nil {
		return err
	}
	_, err = out.Write(nil) // of an empty graph there is nothing before
	return err
}

// late writes the header of an answer with the first of its bytes: what fails before them is an
// answer of its own.
type late struct {
	a     *ask
	media string
	begun bool
}

func (l *late) Write(b []byte) (int, error) {
	if err := l.a.Context().Err(); err != nil {
		return 0, err
	}
	if !l.begun {
		l.begun = true
		l.a.W.Header().Set("Content-Type", l.media)
		l.a.W.WriteHeader(http.StatusOK)
	}
	return l.a.W.Write(b)
}

func drawEntity(a *ask) error {
	owner, err := a.owner("draw an entity")
	if err != nil {
		return err
	}
	o := graph.PictureOptions{State: a.state()}
	if o.Depth, err = a.atLeastOne("depth", 1); err != nil {
		return err
	}
	if o.Entities, err = a.atLeastOne("limit", 40); err != nil {
		return err
	}
	if o.Entities > graph.MaxPicture {
		return invalid("draw an entity", "limit is above 500", "")
	}
	var b bytes.Buffer
	if _, err := a.DB.Graph().Picture(a.Context(), owner, a.id("id"), &b, o); err != nil {
		return err
	}
	_, err = (&late{a: a, media: "image/svg+xml"}).Write(b.Bytes())
	return err
}

func extractEntities(a *ask) error {
	c, err := a.chooseAll("extract entities")
	if err != nil {
		return err
	}
	if len(c.scopes) > 1 || c.lack.User || c.lack.Agent {
		return invalid("extract entities", "it takes one scope of users and agents that are there", "name the user, the agent or the run that is meant")
	}
	if a.sealed(c.scopes[0]) {
		return server.Denied("the key is one of a run, and the graph belongs to a user and an agent")
	}
	done, err := a.DB.ExtractEntities(a.Context(), engine.ExtractOptions{
		Scope: c.scopes[0], AllScopes: c.everyone(), Again: value[bool](a, "again"), Extractor: mention.Rules{},
	})
	return a.ok(done, err)
}
