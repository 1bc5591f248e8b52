package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/wiretest"
	"github.com/seed-7aedc3ff/memdb/services/graphs/graphtest"
	"github.com/seed-7aedc3ff/memdb/services/graphs/neo4j"
)

// wire is the form in which a provider of language models speaks.
type wire struct {
	schema   func(testing.TB) *wiretest.Schema
	complete func(body map[string]any)   // adds what the description wants and the provider does not
	text     func(text string) any       // a reply
	call     func(name, args string) any // of a tool
	refuse   string
}

func chatReply(message map[string]any) any {
	return map[string]any{"choices": []any{map[string]any{"finish_reason": "stop", "message": message}}, "usage": map[string]any{"prompt_tokens": 9, "completion_tokens": 3}}
}

func chatWire(file, route string, complete func(map[string]any)) wire {
	return wire{
		func(t testing.TB) *wiretest.Schema { return wiretest.Request(t, file, route) }, complete,
		func(text string) any { return chatReply(map[string]any{"content": text}) },
		func(name, args string) any {
			return chatReply(map[string]any{"tool_calls": []any{map[string]any{"id": "c", "type": "function", "function": map[string]any{"name": name, "arguments": args}}}})
		},
		`{"error":{"message":"no luck with %s","type":"x"}}`,
	}
}

// wires are those of all providers.
var wires = map[string]wire{
	"openai":       chatWire("openai/openapi.json", "/chat/completions", nil),
	"azure_openai": chatWire("azure-openai/openapi-deployments-2025-03-01-preview.json", "/deployments/{deployment-id}/chat/completions", func(b map[string]any) { delete(b, "model") }),
	"anthropic": {
		func(t testing.TB) *wiretest.Schema {
			return wiretest.Definition(t, "anthropic/messages.schema.json", "MessageCreateParamsNonStreaming")
		}, nil,
		func(text string) any {
			return map[string]any{"content": []any{map[string]any{"type": "text", "text": text}}, "stop_reason": "end_turn", "usage": map[string]any{"input_tokens": 9, "output_tokens": 3}}
		},
		func(name, args string) any {
			return map[string]any{"content": []any{map[string]any{"type": "tool_use", "id": "t", "name": name, "input": json.RawMessage(args)}}, "stop_reason": "tool_use"}
		},
		`{"type":"error","error":{"type":"x","message":"no luck with %s"}}`,
	},
	"google": {
		func(t testing.TB) *wiretest.Schema {
			return wiretest.Request(t, "gemini/openapi.json", "/v1beta/{model}:generateContent")
		}, func(b map[string]any) { b["model"] = "models/m" },
		func(text string) any { return candidate(map[string]any{"text": text}) },
		func(name, args string) any {
			return candidate(map[string]any{"functionCall": map[string]any{"name": name, "args": json.RawMessage(args)}})
		},
		`{"error":{"code":400,"message":"no luck with %s","status":"X"}}`,
	},
	"ollama": {
		func(t testing.TB) *wiretest.Schema { return wiretest.Request(t, "ollama/openapi.json", "/api/chat") }, nil,
		func(text string) any {
			return map[string]any{"message": map[string]any{"role": "assistant", "content": text}, "done": true, "done_reason": "stop"}
		},
		func(name, args string) any {
			return map[string]any{"message": map[string]any{"role": "assistant", "content": "", "tool_calls": []any{map[string]any{"function": map[string]any{"name": name, "arguments": json.RawMessage(args)}}}}, "done": true, "done_reason": "stop"}
		},
		`{"error":"no luck with %s"}`,
	},
}

func candidate(part map[string]any) any {
	return map[string]any{"candidates": []any{map[string]any{"content": map[string]any{"parts": []any{part}}, "finishReason": "STOP"}}}
}

// answer is what a model says that knows Ada's moves, by what it is asked.
func (w wire) answer(body string) any {
	switch {
	case strings.Contains(body, "extract_entities"):
		return w.call("extract_entities", `{"entities":[{"name":"Ada","type":"person"},{"name":"Ghent","type":"location"}]}`)
	case strings.Contains(body, "extract_relations"):
		return w.call("extract_relations", `{"relations":[{"source":"Ada","relation":"lives in","target":"Ghent"}]}`)
	case strings.Contains(body, "New fact: Ada lives in Ghent") && strings.Contains(body, "ID: 1, Text: Ada lives in Antwerp"):
		return w.text(`[{"event":"UPDATE","id":"1","data":"Ada lives in Ghent"}]`)
	case strings.Contains(body, "New fact: "):
		return w.text(`[{"event":"ADD"}]`)
	case strings.Contains(body, "Ghent"):
		return w.text(`["Ada lives in Ghent"]`)
	}
	return w.text(`["Ada lives in Antwerp"]`)
}

// modelFile writes a configuration of one model at a server, whose calls are not repeated.
func (c *cli) modelFile(provider, base, more string) string {
	return c.file("memdb.json", fmt.Sprintf(`{"llm":{"provider":%q,"config":{"model":"m","api_key":%q,"base_url":%q,"retries":0,"timeout":"2s"}}%s}`, provider, wiretest.Key, base, more))
}

// TestFactsOverTheWire takes facts out of conversations by each provider, over HTTP. Every
// request is held against the official description, where that is there.
func TestFactsOverTheWire(t *testing.T) {
	for provider, w := range wires {
		for _, described := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s described %v", provider, described), func(t *testing.T) {
				var schema *wiretest.Schema
				if described {
					schema = w.schema(t)
				}
				s := wiretest.Server(t, func(_ *http.Request, body []byte) (int, string) {
					if described {
						w.hold(t, schema, body)
					}
					reply, _ := json.Marshal(w.answer(string(body)))
					return 200, string(reply)
				})
				c := newCLI(t)
				file := c.modelFile(provider, s.URL, "")
				first := one(t, c.objects("fact", "add", "I live in Antwerp", "--user", "ada", "--config", file))
				then := one(t, c.objects("fact", "add", "We have moved to Ghent", "--user", "ada", "--config", file))
				if eventsOf(first) != "ADD Ada lives in Antwerp" || eventsOf(then) != "UPDATE Ada lives in Ghent" {
					t.Errorf("%v, then %v", first, then)
				}
				if got := fmt.Sprint(then["relations"], then["degraded"]); got != "[map[relation:lives_in source:Ada target:Ghent]] []" {
					t.Errorf("%s", got)
				}
			})
		}
	}
}

// hold holds a request against its description.
func (w wire) hold(t *testing.T, schema *wiretest.Schema, body []byte) {
	if w.complete != nil {
		var fields map[string]any
		if err := json.Unmarshal(body, &fields); err != nil {
			t.Error(err)
		}
		w.complete(fields)
		body, _ = json.Marshal(fields)
	}
	if err := schema.Check(body); err != nil {
		t.Error(err)
	}
}

// TestFactsOverBadWires: whatever HTTP and a provider fail at, an add says so, leaves the database
// sound and what was there as it was, and shows no key.
func TestFactsOverBadWires(t *testing.T) {
	t.Parallel()
	var leaked atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { leaked.Add(1) }))
	t.Cleanup(func() {
		other.Close()
		if leaked.Load() > 0 {
			t.Error("a redirect to another host was followed")
		}
	})
	w := wires["openai"]
	whole, _ := json.Marshal(w.text(`["Ada lives in Ghent"]`))
	status := func(code int) http.HandlerFunc {
		return func(rw http.ResponseWriter, _ *http.Request) {
			rw.WriteHeader(code)
			_, _ = fmt.Fprintf(rw, w.refuse, wiretest.Key)
		}
	}
	send := func(text string) http.HandlerFunc {
		return func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, text) }
	}
	reply := func(text string) http.HandlerFunc {
		b, _ := json.Marshal(w.text(text))
		return send(string(b))
	}
	for name, serve := range map[string]http.HandlerFunc{
		"wrong key": status(401), "busy": status(429), "broken": status(500), "gone": status(404),
		"half a reply": send(string(whole[:len(whole)/2])), "HTML": send("<html>Sign in</html>"), "nothing": send(""), "no choice": send(`{"choices":[]}`),
		"hang": func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // or the server does not hear that the client has gone
			<-r.Context().Done()
		},
		"100 MB": func(rw http.ResponseWriter, _ *http.Request) { _, _ = rw.Write(make([]byte, 100<<20)) },
		"redirect": func(rw http.ResponseWriter, r *http.Request) {
			http.Redirect(rw, r, other.URL+r.URL.Path, http.StatusTemporaryRedirect)
		},
		"prose": reply("I am sorry."), "half a list": reply(`["Ada lives in`), "numbers": reply(`[1, null]`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // some wait
			s := httptest.NewServer(serve)
			defer s.Close()
			c := newCLI(t)
			c.ok("fact", "add", "I live in Antwerp", "--user", "ada")
			before := c.ok("fact", "list", "--user", "ada", "--json")
			r := c.run("fact", "add", "We have moved to Ghent", "--user", "ada", "--json", "--config", c.modelFile("openai", s.URL, ""))
			added := one(t, parseLines(t, r.out))
			degraded := added["degraded"].([]any)
			if r.code != exitDone || len(added["results"].([]any)) != 0 || len(degraded) == 0 || degraded[0].(map[string]any)["step"] != "extraction" {
				t.Errorf("%+v", r)
			}
			if after := c.ok("fact", "list", "--user", "ada", "--json"); after != before || strings.Contains(r.out+r.err, wiretest.Key) {
				t.Errorf("%s, and it was %s; %+v", after, before, r)
			}
			c.ok("check")
		})
	}
}

// TestFactsInNeo4j has the graph in Neo4j, by a file and the environment, and takes it out again.
func TestFactsInNeo4j(t *testing.T) {
	w := wires["openai"]
	model := wiretest.Server(t, func(_ *http.Request, body []byte) (int, string) {
		reply, _ := json.Marshal(w.answer(string(body)))
		return 200, string(reply)
	})
	server := graphtest.NewServer(t, "Bearer "+wiretest.Key, neo4j.Statements())
	c := newCLI(t)
	c.getenv = func(name string) string {
		return map[string]string{"NEO4J_URL": server.URL, "TOKEN": wiretest.Key}[name]
	}
	file := c.modelFile("openai", model.URL, `,"graph_store":{"provider":"neo4j","config":{"token_env":"TOKEN","retries":0}}`)
	added := one(t, c.objects("fact", "add", "We have moved to Ghent", "--user", "ada", "--config", file))
	if got := fmt.Sprint(added["relations"], added["degraded"], server.Entities()); got != "[map[relation:lives_in source:Ada target:Ghent]] [] [Ada Ghent]" {
		t.Errorf("%s", got)
	}
	if found := c.objects("fact", "search", "Ghent", "--user", "ada", "--config", file); len(found) != 1 {
		t.Errorf("%v", found)
	}
	if out := c.ok("export", "-"); strings.Contains(out, wiretest.Key) || strings.Contains(out, `"type":"entity"`) {
		t.Errorf("%s", out)
	}
	c.ok("fact", "delete-all", "--user", "ada", "--config", file)
	if names := server.Entities(); len(names) > 0 || server.Facts() > 0 {
		t.Errorf("%q are left", names)
	}
}
