package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/memory"
)

func openDB(t testing.TB) *engine.DB {
	t.Helper()
	db, err := engine.OpenMemory(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// connect is a client of a server, at a revision of the protocol or the newest.
func connect(t testing.TB, db *engine.DB, o Options, revision string, co *sdk.ClientOptions) *sdk.ClientSession {
	t.Helper()
	h, err := newHost(db, o, false)
	if err != nil {
		t.Fatal(err)
	}
	there, here := sdk.NewInMemoryTransports()
	s, err := h.sdk.Connect(t.Context(), there, nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "0"}, co).Connect(t.Context(), here, &sdk.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Close()
		_ = s.Wait()
	})
	return c
}

// call calls a tool and returns its text and whether it is an error.
func call(t testing.TB, c *sdk.ClientSession, tool string, args any) (text string, structured any, isError bool) {
	t.Helper()
	r, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		t.Fatalf("%s %v: %v", tool, args, err)
	}
	for _, part := range r.Content {
		if s, ok := part.(*sdk.TextContent); ok {
			text += s.Text
		}
	}
	return text, r.StructuredContent, r.IsError
}

var ada = Options{Scope: memory.Scope{User: "ada"}}

type recordedCall struct {
	Name      string         `json:"name"`
	Arguments map[string]any `json:"arguments"`
	Result    struct {
		Content []struct {
			Text string `json:"text"`
		} `json:"content"`
		StructuredContent any  `json:"structuredContent"`
		IsError           bool `json:"isError"`
	} `json:"result"`
}

// TestReferenceRecording makes the recorded calls of the reference memory server.
func TestReferenceRecording(t *testing.T) {
	dir := os.Getenv("MEMDB_DATA")
	if dir == "" {
		t.Skip("MEMDB_DATA names no folder with specs/mcp/server-memory-2026.8.31-recording.json")
	}
	b, err := os.ReadFile(filepath.Join(dir, "specs", "mcp", "server-memory-2026.8.31-recording.json"))
	if errors.Is(err, os.ErrNotExist) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	var recorded struct {
		Calls []recordedCall `json:"calls"`
		Tools []struct {
			Name         string         `json:"name"`
			Title        string         `json:"title"`
			InputSchema  map[string]any `json:"inputSchema"`
			OutputSchema map[string]any `json:"outputSchema"`
			Annotations  any            `json:"annotations"`
		} `json:"tools"`
		Read struct {
			Contents []struct{ Text string } `json:"contents"`
		} `json:"resource_read"`
	}
	if err := json.Unmarshal(b, &recorded); err != nil {
		t.Fatal(err)
	}
	for _, revision := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(revision, func(t *testing.T) {
			c := connect(t, openDB(t), Options{Scope: memory.Scope{User: "ada"}, Tools: Reference}, revision, nil)
			for i, r := range recorded.Calls {
				text, structured, isError := call(t, c, r.Name, r.Arguments)
				if text != r.Result.Content[0].Text || isError != r.Result.IsError || !reflect.DeepEqual(structured, r.Result.StructuredContent) {
					t.Errorf("call %d, %s %v:\n%s %v %v\nwant\n%s %v %v", i, r.Name, r.Arguments, text, structured, isError, r.Result.Content[0].Text, r.Result.StructuredContent, r.Result.IsError)
				}
			}
			read, err := c.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: graphURI})
			if err != nil || read.Contents[0].Text != recorded.Read.Contents[0].Text {
				t.Errorf("the resource: %+v, %v", read, err)
			}
			listed, err := c.ListTools(t.Context(), nil)
			if err != nil || len(listed.Tools) != len(recorded.Tools) {
				t.Fatalf("%d tools, %v", len(listed.Tools), err)
			}
			for _, want := range recorded.Tools {
				for _, got := range listed.Tools {
					if got.Name == want.Name && (got.Title != want.Title || !reflect.DeepEqual(plain(got.Annotations), want.Annotations) ||
						!reflect.DeepEqual(bare(got.InputSchema), bare(want.InputSchema)) || !reflect.DeepEqual(bare(got.OutputSchema), bare(want.OutputSchema))) {
						t.Errorf("%s: %v\n%v %v\nwant %v\n%v %v", want.Name, plain(got.Annotations), bare(got.InputSchema), bare(got.OutputSchema), want.Annotations, bare(want.InputSchema), bare(want.OutputSchema))
					}
				}
			}
		})
	}
}

// plain is a value as its JSON says.
func plain(v any) (out any) {
	b, _ := json.Marshal(v)
	_ = json.Unmarshal(b, &out)
	return out
}

// bare is a schema without words for people and without its dialect.
func bare(v any) any {
	switch v := plain(v).(type) {
	case map[string]any:
		out := map[string]any{}
		for key, value := range v {
			if _, word := value.(string); word && (key == "description" || key == "$schema") {
				continue
			}
			out[key] = bare(value)
		}
		return out
	case []any:
		for i := range v {
			v[i] = bare(v[i])
		}
		return v
	default:
		return v
	}
}

// TestReference has the calls whose answers follow from the order of what is there.
func TestReference(t *testing.T) {
	db := openDB(t)
	o := Options{Scope: memory.Scope{User: "ada"}, Tools: Reference}
	c := connect(t, db, o, "", nil)
	step := func(tool, args, want string) {
		t.Helper()
		text, _, isError := call(t, c, tool, json.RawMessage(args))
		text = strings.Join(strings.Fields(text), " ")
		if isError || text != want {
			t.Errorf("%s %s:\n%s\nwant\n%s", tool, args, text, want)
		}
	}
	step("create_relations", `{"relations":[{"from":"Z","to":"Later","relationType":"b"},{"from":"A","to":"Later","relationType":"a"},{"from":"Z","to":"Later","relationType":"a"}]}`,
		`[ { "from": "Z", "to": "Later", "relationType": "b" }, { "from": "A", "to": "Later", "relationType": "a" }, { "from": "Z", "to": "Later", "relationType": "a" } ]`)
	step("create_entities", `{"entities":[{"name":"New","entityType":"","observations":["x","x"]},{"name":"Later","entityType":"t","observations":[]}]}`,
		`[ { "name": "New", "entityType": "", "observations": [ "x", "x" ] }, { "name": "Later", "entityType": "t", "observations": [] } ]`)
	all := `{ "entities": [ { "name": "New", "entityType": "", "observations": [ "x", "x" ] }, { "name": "Later", "entityType": "t", "observations": [] } ], ` +
		`"relations": [ { "from": "Z", "to": "Later", "relationType": "b" }, { "from": "A", "to": "Later", "relationType": "a" }, { "from": "Z", "to": "Later", "relationType": "a" } ] }`
	step("read_graph", `{}`, all)
	step("search_nodes", `{"query":""}`, all)
	step("open_nodes", `{"names":["Z"]}`, `{ "entities": [], "relations": [] }`)
	step("delete_observations", `{"deletions":[{"entityName":"New","observations":["x"]}]}`, "Observations deleted successfully")
	step("open_nodes", `{"names":["New"]}`, `{ "entities": [ { "name": "New", "entityType": "", "observations": [] } ], "relations": [] }`)
	step("delete_entities", `{"entityNames":["Z","Z",""]}`, "Entities deleted successfully")
	step("read_graph", `{}`, `{ "entities": [ { "name": "New", "entityType": "", "observations": [] }, { "name": "Later", "entityType": "t", "observations": [] } ], `+
		`"relations": [ { "from": "A", "to": "Later", "relationType": "a" } ] }`)
	step("delete_relations", `{"relations":[{"from":"A","to":"Later","relationType":"a"},{"from":"","to":"","relationType":""}]}`, "Relations deleted successfully")
	page, err := db.Graph().List(t.Context(), graph.ListQuery{Owner: memory.Owner{User: "ada"}})
	if err != nil || len(page.Entities) != 2 {
		t.Errorf("ends of no relation stay: %+v, %v", page.Entities, err)
	}
	// Another owner has another graph.
	other := connect(t, db, Options{Scope: memory.Scope{User: "bob"}, Tools: Reference}, "", nil)
	if text, _, _ := call(t, other, "read_graph", nil); strings.Contains(text, "New") {
		t.Errorf("bob sees the graph of ada: %s", text)
	}
	for args, want := range map[string]string{
		`{"entities":[{"name":"big","entityType":"t","observations":["` + strings.Repeat("x", 2<<20) + `"]}]}`: "",
		`{"entities":[1,null,{"name":2,"entityType":"t","observations":[null]}]}`:                              "received number at entities[0]",
		`{}`: "expected array, received undefined at entities",
	} {
		if text, _, isError := call(t, c, "create_entities", json.RawMessage(args)); !isError || !strings.Contains(text, want) {
			t.Errorf("create_entities %.60s: %.200s", args, text)
		}
	}
}

func TestReferenceSubscribers(t *testing.T) {
	told := make(chan string, 10)
	c := connect(t, openDB(t), Options{Scope: memory.Scope{User: "ada"}, Tools: Reference}, "2025-11-25", &sdk.ClientOptions{
		ResourceUpdatedHandler: func(_ context.Context, r *sdk.ResourceUpdatedNotificationRequest) { told <- r.Params.URI },
	})
	if err := c.Subscribe(t.Context(), &sdk.SubscribeParams{URI: graphURI}); err != nil {
		t.Fatal(err)
	}
	call(t, c, "create_entities", json.RawMessage(`{"entities":[{"name":"A","entityType":"t","observations":[]}]}`))
	if uri := <-told; uri != graphURI {
		t.Errorf("told of %s", uri)
	}
}
