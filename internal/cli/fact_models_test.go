package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/wiretest"
)

// TestFactsByModels has the models of the environment, and of a file, take facts out of what
// was said, and counts what they took.
func TestFactsByModels(t *testing.T) {
	chats, embedded := 0, 0
	s := wiretest.Server(t, func(r *http.Request, body []byte) (int, string) {
		if strings.HasSuffix(r.URL.Path, "/chat/completions") {
			chats++
			fact := "Lives in Ghent"
			if strings.Contains(string(body), "oolong") {
				fact = "Prefers oolong tea"
			}
			content := fmt.Sprintf(`{"facts":[%q]}`, fact)
			if strings.Contains(string(body), "NONE") { // it is to decide
				content = fmt.Sprintf(`[{"event":"ADD","text":%q}]`, fact)
			}
			return 200, fmt.Sprintf(`{"choices":[{"finish_reason":"stop","message":{"content":%q}}],"usage":{"prompt_tokens":100,"completion_tokens":10}}`, content)
		}
		var in struct{ Input []string }
		if err := json.Unmarshal(body, &in); err != nil {
			t.Error(err)
		}
		embedded += len(in.Input)
		var data []string
		for i, text := range in.Input {
			data = append(data, fmt.Sprintf(`{"index":%d,"embedding":[%d,1,2]}`, i, len(text)))
		}
		return 200, `{"data":[` + strings.Join(data, ",") + `],"usage":{"total_tokens":5}}`
	})
	key := map[string]string{"OPENAI_API_KEY": wiretest.Key, "OPENAI_BASE_URL": s.URL}
	added := func(c *cli, args ...string) {
		t.Helper()
		r := one(t, c.objects(append([]string{"fact", "add"}, args...)...))
		if results := r["results"].([]any); len(results) != 1 || results[0].(map[string]any)["event"] != "ADD" {
			t.Errorf("%v", r)
		}
	}

	c := newCLI(t)
	c.getenv = func(name string) string { return key[name] }
	added(c, "I moved to Ghent last week", "--user", "ada")
	if chats == 0 || embedded != 0 {
		t.Errorf("%d chats, %d texts embedded by the environment", chats, embedded)
	}
	facts := one(t, c.objects("fact", "list", "--user", "ada"))
	total := one(t, c.objects("usage", "total"))
	if facts["memory"] != "Lives in Ghent" || total["records"] != float64(chats) || total["prompt_tokens"] != float64(100*chats) {
		t.Errorf("%v, %v", facts, total)
	}

	file := filepath.Join(t.TempDir(), "memdb.json")
	text := fmt.Sprintf(`{"llm":{"provider":"openai","config":{"base_url":%q}},"embedder":{"provider":"openai","config":{"base_url":%[1]q,"model":"m","dimensions":3}},"usage":{"agent":"house"}}`, s.URL)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c = newCLI(t)
	added(c, "I drink oolong", "--user", "ada", "--config", file)
	before := embedded
	found := c.objects("fact", "search", "which tea?", "--user", "ada", "--config", file)
	if len(found) != 1 || found[0]["memory"] != "Prefers oolong tea" || embedded != before+1 {
		t.Errorf("%v after %d more texts", found, embedded-before)
	}
	item := one(t, c.objects("fact", "update", found[0]["id"].(string), "Prefers green tea", "--user", "ada", "--config", file))
	if item["memory"] != "Prefers green tea" || embedded != before+2 {
		t.Errorf("%v after %d more texts", item, embedded-before)
	}
	if total := one(t, c.objects("usage", "total", "--agent", "house")); total["records"] == 0.0 {
		t.Errorf("%v", total)
	}
	if spaces := c.spaces(); spaces["default openai/m"] != 1 {
		t.Errorf("%v", spaces)
	}

	// Prompts of one's own, and the reply of v1.0, which is the list alone; a configuration in RAM
	// alone has no use for a folder.
	text = fmt.Sprintf(`{"version":"v1.0","history":{"db_path":"h.db"},"custom_prompts":{"fact_extraction":"Only oolong counts."},"llm":{"provider":"openai","config":{"base_url":%q}}}`, s.URL)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c = newCLI(t)
	var list []map[string]any
	if out := c.ok("fact", "add", "I moved to Ghent", "--user", "ada", "--config", file, "--json"); json.Unmarshal([]byte(out), &list) != nil || len(list) != 1 || list[0]["memory"] != "Prefers oolong tea" {
		t.Errorf("%s", out)
	}

	// A graph in Neo4j: the password of the environment is missing, and is named.
	text = `{"graph_store":{"provider":"neo4j","config":{"url":"http://localhost:1"}}}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c.fails(exitUsage, "set NEO4J_PASSWORD", "fact", "list", "--user", "ada", "--config", file)
	if err := os.WriteFile(file, []byte(`{"vector_store":{"provider":"memory"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	c.fails(exitUsage, "in RAM alone", "fact", "list", "--user", "ada", "--config", file)
	c.fails(exitUsage, "the file cannot be read", "fact", "add", "x", "--user", "ada", "--config", file+".toml")
	c.ok("fact", "list", "--user", "ada") // needs no model
}
