package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/wiretest"
)

// chatRequest is what a client asks of a model, in the form of OpenAI.
type chatRequest struct {
	Messages []struct{ Role, Content string }
	Tools    []struct{ Function struct{ Name string } }
	Format   struct{ Type string } `json:"response_format"`
	Temp     float64               `json:"temperature"`
}

// answerChat knows about Ada's tea and her moving, and about nothing else.
func answerChat(r chatRequest) any {
	asked := r.Messages[len(r.Messages)-1].Content
	text := func(s string) any { return map[string]any{"content": s} }
	call := func(name, arguments string) any {
		return map[string]any{"tool_calls": []any{map[string]any{"id": "c", "type": "function", "function": map[string]any{"name": name, "arguments": arguments}}}}
	}
	switch {
	case len(r.Tools) > 0 && r.Tools[0].Function.Name == "extract_entities":
		return call("extract_entities", `{"entities":[{"name":"Ada","type":"person"},{"name":"Ghent","type":"location"}]}`)
	case len(r.Tools) > 0:
		return call("extract_relations", `{"relations":[{"source":"Ada","relation":"lives in","target":"Ghent"}]}`)
	case strings.HasPrefix(asked, "New fact: Ada lives in Ghent") && strings.Contains(asked, "- ID: 1, Text: Ada lives in Antwerp"):
		return text(`{"memory":[{"event":"UPDATE","id":"1","old_memory":"Ada lives in Antwerp","data":"Ada lives in Ghent"}]}`)
	case strings.HasPrefix(asked, "New fact: "):
		return text(`{"memory":[{"event":"ADD"}]}`)
	case strings.Contains(asked, "Ghent"):
		return text(`{"facts":["Ada lives in Ghent"]}`)
	case strings.Contains(asked, "Antwerp"):
		return text(`{"facts":["Ada lives in Antwerp","Ada prefers tea"]}`)
	}
	return text(`{"facts":[]}`)
}

// TestFactsByModel takes facts out of conversations by a model over HTTP: that of a file and
// that of the environment. What it took is in the owner's usage, a budget holds, and the key is
// shown nowhere.
func TestFactsByModel(t *testing.T) {
	c := newCLI(t)
	var status, calls atomic.Int32
	status.Store(200)
	server := wiretest.Server(t, func(r *http.Request, body []byte) (int, string) {
		calls.Add(1)
		if r.Header.Get("Authorization") != "Bearer "+wiretest.Key {
			t.Errorf("%v", r.Header)
		}
		var asked chatRequest
		if err := json.Unmarshal(body, &asked); err != nil || asked.Temp != 0 || len(asked.Tools) == 0 && asked.Format.Type != "json_object" {
			t.Errorf("%v: %s", err, body)
		}
		if code := int(status.Load()); code != 200 {
			return code, `{"error":{"message":"bad key ` + wiretest.Key + `"}}`
		}
		answer, _ := json.Marshal(map[string]any{
			"choices": []any{map[string]any{"finish_reason": "stop", "message": answerChat(asked)}},
			"usage":   map[string]any{"prompt_tokens": 100, "completion_tokens": 10},
		})
		return 200, string(answer)
	})
	file := filepath.Join(t.TempDir(), "memdb.toml")
	text := "[llm]\nprovider = \"openai\"\n[llm.config]\nmodel = \"m\"\napi_key_env = \"MY_KEY\"\nbase_url = \"" + server.URL + "\"\nprice = { prompt = 1000, completion = 10000 }\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	add := func(text string, more ...string) []string {
		return append([]string{"fact", "add", text, "--user", "ada"}, more...)
	}
	c.fails(exitUsage, "MY_KEY", add("I live in Antwerp and drink tea", "--config", file)...)
	if _, err := os.Stat(c.dir); err == nil {
		t.Error("a configuration without its key made a database")
	}
	c.getenv = func(name string) string {
		return map[string]string{"MY_KEY": wiretest.Key, "OPENAI_API_KEY": wiretest.Key, "OPENAI_BASE_URL": server.URL}[name]
	}
	status.Store(401)
	r := c.run(add("I live in Antwerp and drink tea", "--config", file, "--quiet")...)
	if r.code != exitDone || r.out != "" || !strings.Contains(r.err, "check the key in MY_KEY") || calls.Load() != 1 {
		t.Errorf("a wrong key, %d calls: %+v", calls.Load(), r)
	}
	status.Store(200)
	first := one(t, c.objects(add("I live in Antwerp and drink tea", "--config", file)...))
	if got := eventsOf(first); got != "ADD Ada lives in Antwerp|ADD Ada prefers tea" {
		t.Errorf("first: %s", got)
	}
	moved := one(t, c.objects(add("We have moved to Ghent")...)) // by the environment
	if got := eventsOf(moved); got != "UPDATE Ada lives in Ghent" {
		t.Errorf("then: %s", got)
	}
	if got := fmt.Sprint(moved["relations"]); got != "[map[relation:lives_in source:Ada target:Ghent]]" {
		t.Errorf("relations %s", got)
	}
	if d := moved["degraded"].([]any); len(d) > 0 {
		t.Errorf("degraded %v", d)
	}
	before := calls.Load()
	if found := c.objects("fact", "search", "who is Ada?", "--user", "ada"); len(found) != 2 || calls.Load() != before {
		t.Errorf("found %v by %d calls", found, calls.Load()-before)
	}
	total := one(t, c.objects("usage", "total", "--user", "ada"))
	if n := float64(calls.Load() - 1); total["records"] != n || total["prompt_tokens"] != 100*n { // without the refused one
		t.Errorf("%d calls, and the usage is %v", calls.Load(), total)
	}
	c.ok("usage", "budget", "set", "0.1", "--user", "ada")
	before = calls.Load()
	if r := c.run(add("I was born in Antwerp", "--config", file)...); !strings.Contains(r.err, "budget") || calls.Load() != before {
		t.Errorf("beyond the budget, %d calls: %+v", calls.Load()-before, r)
	}
	for _, out := range []string{c.ok("export", "-"), r.err} {
		if strings.Contains(out, wiretest.Key) {
			t.Error("the key is shown")
		}
	}
	c.ok("check")
}

// eventsOf are the results of an add.
func eventsOf(added map[string]any) string {
	var list []string
	for _, r := range added["results"].([]any) {
		result := r.(map[string]any)
		list = append(list, fmt.Sprint(result["event"], " ", result["memory"]))
	}
	return strings.Join(list, "|")
}
