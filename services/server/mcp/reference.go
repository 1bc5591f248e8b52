package mcp

import (
	"context"
	"errors"
	"fmt"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// graphURI is the resource of the whole graph.
const graphURI = "memory://knowledge-graph"

// A nineTool is one of the nine.
type nineTool struct {
	name, title, about string
	input              *shape
	output             *shape
	reads, deletes     bool
	call               func(k *knowledge, ctx context.Context, args map[string]any) (content, structured any, err error)
}

var (
	anEntity   = object(field{"name", text("what the entity is called")}, field{"entityType", text("which kind of thing it is")}, field{"observations", list("what is known of it", text(""))})
	aRelation  = object(field{"from", text("the name of the entity that it comes from")}, field{"to", text("the name of the entity that it goes to")}, field{"relationType", text("what the one is to the other")})
	aGraph     = object(field{"entities", list("", anEntity)}, field{"relations", list("", aRelation)})
	aConfirmed = object(field{"success", &shape{kind: "boolean"}}, field{"message", text("")})
)

// nine are the tools of the reference memory server: its names, shapes and results.
var nine = []nineTool{
	{
		name: "create_entities", title: "Create Entities", about: "Add entities to the graph. One whose name is there already stays as it is, and is left out of the answer.",
		input: object(field{"entities", list("", anEntity)}), output: object(field{"entities", list("", anEntity)}), call: (*knowledge).createEntities,
	},
	{
		name: "create_relations", title: "Create Relations", about: "Connect entities. Name the relation in the active voice, such as works_at. One that is there already is left out of the answer.",
		input: object(field{"relations", list("", aRelation)}), output: object(field{"relations", list("", aRelation)}), call: (*knowledge).createRelations,
	},
	{
		name: "add_observations", title: "Add Observations", about: "Note more of what is known of entities that are there.",
		input: object(field{"observations", list("", object(
			field{"entityName", text("whose observations these are")}, field{"contents", list("what is to be noted, one fact each", text(""))},
		))}),
		output: object(field{"results", list("", object(field{"entityName", text("")}, field{"addedObservations", list("", text(""))}))}),
		call:   (*knowledge).addObservations,
	},
	{
		name: "delete_entities", title: "Delete Entities", about: "Delete entities together with all relations from and to them.",
		input: object(field{"entityNames", list("the names of the entities", text(""))}), output: aConfirmed, deletes: true, call: (*knowledge).deleteEntities,
	},
	{
		name: "delete_observations", title: "Delete Observations", about: "Take back observations of entities, by their exact texts.",
		input: object(field{"deletions", list("", object(
			field{"entityName", text("whose observations these are")}, field{"observations", list("the texts to take back", text(""))},
		))}),
		output: aConfirmed, deletes: true, call: (*knowledge).deleteObservations,
	},
	{
		name: "delete_relations", title: "Delete Relations", about: "Delete relations, and leave the entities at their ends.",
		input: object(field{"relations", list("the relations to delete", aRelation)}), output: aConfirmed, deletes: true, call: (*knowledge).deleteRelations,
	},
	{
		name: "read_graph", title: "Read Graph", about: "Read the whole graph.",
		input: object(), output: aGraph, reads: true, call: (*knowledge).readGraph,
	},
	{
		name: "search_nodes", title: "Search Nodes", about: "Find the entities whose name, type or one observation contains a text, whatever its case, with the relations at them.",
		input: object(field{"query", text("the text to look for; it is not split into words")}), output: aGraph, reads: true, call: (*knowledge).searchNodes,
	},
	{
		name: "open_nodes", title: "Open Nodes", about: "Read entities by their names, with the relations at them.",
		input: object(field{"names", list("the names of the entities", text(""))}), output: aGraph, reads: true, call: (*knowledge).openNodes,
	},
}

// addReference adds the nine tools and the resource.
func (h *host) addReference() {
	k := &knowledge{db: h.db, owner: h.Scope.Owner(), now: h.Now}
	no := false
	for i := range nine {
		t := &nine[i]
		h.sdk.AddTool(&sdk.Tool{
			Name: t.name, Title: t.title, Description: t.about,
			InputSchema: schemaOf(t.input.schema(true)), OutputSchema: schemaOf(t.output.schema(false)),
			Annotations: &sdk.ToolAnnotations{ReadOnlyHint: t.reads, DestructiveHint: &t.deletes, IdempotentHint: t.reads || t.deletes, OpenWorldHint: &no},
		}, func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return h.callNine(ctx, k, t, r)
		})
	}
	h.sdk.AddResource(&sdk.Resource{
		Name: "knowledge-graph", Title: "Knowledge Graph", URI: graphURI, MIMEType: "application/json",
		Description: "All entities and relations of the graph",
	}, func(ctx context.Context, _ *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		g, err := k.read(ctx)
		if err != nil {
			return nil, h.told(err)
		}
		all, err := indented(g)
		if err != nil {
			return nil, h.told(err)
		}
		return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: graphURI, MIMEType: "application/json", Text: all}}}, nil
	})
	h.sdk.AddReceivingMiddleware(unknownTools)
}

// unknownTools answers calls of tools that are not there as the reference memory server does.
func unknownTools(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, r sdk.Request) (sdk.Result, error) {
		if call, ok := r.(*sdk.CallToolRequest); ok && method == "tools/call" {
			for i := range nine {
				if nine[i].name == call.Params.Name {
					return next(ctx, method, r)
				}
			}
			return failed(fmt.Sprintf("MCP error -32602: Tool %s not found", call.Params.Name)), nil
		}
		return next(ctx, method, r)
	}
}

// callNine calls one of the nine tools.
func (h *host) callNine(ctx context.Context, k *knowledge, t *nineTool, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	args, wrong := t.input.arguments(r.Params.Arguments)
	if wrong != "" {
		return failed(fmt.Sprintf("MCP error -32602: Input validation error: Invalid arguments for tool %s: %s", t.name, wrong)), nil
	}
	content, structured, err := t.call(k, ctx, args)
	var unknown *unknownEntity
	switch {
	case errors.As(err, &unknown):
		return failed(unknown.Error()), nil
	case err != nil:
		return failed(h.told(err).Error()), nil
	}
	said, plain := content.(string)
	if !plain {
		if said, err = indented(content); err != nil {
			return failed(h.told(err).Error()), nil
		}
	}
	if !t.reads {
		if err := h.sdk.ResourceUpdated(ctx, &sdk.ResourceUpdatedNotificationParams{URI: graphURI}); err != nil {
			h.Logger.Warn("subscribers were not told of a change", "error", err) // what is stored stays
		}
	}
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: said}}, StructuredContent: structured}, nil
}
