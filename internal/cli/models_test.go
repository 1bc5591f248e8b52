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

// TestCompactByModel has a language model write a summary: that of a file, and that of the
// environment, with what it took in the owner's usage, and without the key anywhere.
func TestCompactByModel(t *testing.T) {
	c := newCLI(t)
	for i := range 12 {
		c.ok("session", "append", "monday", fmt.Sprintf("thing %d", i), "--agent", "a")
	}
	var status, calls atomic.Int32
	status.Store(200)
	s := wiretest.Server(t, func(r *http.Request, body []byte) (int, string) {
		calls.Add(1)
		if r.Header.Get("Authorization") != "Bearer "+wiretest.Key || !strings.Contains(string(body), "thing 1") {
			t.Errorf("%v %s", r.Header, body)
		}
		if code := int(status.Load()); code != 200 {
			return code, `{"error":{"message":"bad key ` + wiretest.Key + `"}}`
		}
		return 200, fmt.Sprintf(`{"choices":[{"finish_reason":"stop","message":{"content":"Summary %d."}}],"usage":{"prompt_tokens":100,"completion_tokens":10}}`, calls.Load())
	})
	file := filepath.Join(t.TempDir(), "memdb.toml")
	text := "[llm]\nprovider = \"openai\"\n[llm.config]\nmodel = \"m\"\napi_key_env = \"MY_KEY\"\nbase_url = \"" + s.URL + "\"\nprice = { prompt = 1000, completion = 10000 }\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	compact := []string{"session", "compact", "monday", "--agent", "a", "--threshold", "10", "--keep-recent", "2"}
	byFile := append(compact, "--config", file)

	c.fails(exitUsage, "MY_KEY", byFile...)
	c.fails(exitUsage, "set one of OPENAI_API_KEY (openai), ANTHROPIC_API_KEY (anthropic), GOOGLE_API_KEY (google)", append(compact, "--llm")...)
	c.fails(exitUsage, "the file cannot be read", append(compact, "--config", file+".toml")...)
	c.getenv = func(name string) string {
		return map[string]string{"MY_KEY": wiretest.Key, "OPENAI_API_KEY": wiretest.Key, "OPENAI_BASE_URL": s.URL}[name]
	}
	status.Store(401)
	c.fails(exitFailed, "check the key in MY_KEY", byFile...)
	if calls.Load() != 1 {
		t.Errorf("%d calls with a wrong key", calls.Load())
	}
	status.Store(200)
	r := one(t, c.objects(byFile...))
	if r["compacted"] != true || r["summarized"] != 10.0 {
		t.Errorf("%v", r)
	}
	got := one(t, c.objects("get", r["summary_id"].(string), "--agent", "a"))
	if got["text"] != "Summary 2." {
		t.Errorf("%v", got)
	}
	total := one(t, c.objects("usage", "total", "--agent", "a"))
	if total["records"] != 1.0 || total["prompt_tokens"] != 100.0 || total["cost_usd"] != .2 {
		t.Errorf("%v", total)
	}
	for i := range 12 {
		c.ok("session", "append", "monday", fmt.Sprintf("thing 1%d", i), "--agent", "a")
	}
	c.ok("usage", "budget", "set", "0.2", "--agent", "a")
	c.fails(exitFailed, "budget", byFile...)
	if calls.Load() != 2 {
		t.Errorf("%d calls beyond the budget", calls.Load())
	}
	c.ok("usage", "budget", "set", "10", "--agent", "a")
	if r := one(t, c.objects(append(compact, "--llm")...)); r["compacted"] != true || calls.Load() != 3 {
		t.Errorf("%v after %d calls", r, calls.Load())
	}
	if export := c.ok("export", "-"); strings.Contains(export, wiretest.Key) {
		t.Error("the key is in an export")
	}
}

// TestFactsByModelOfAFile has a language model take facts out of messages, and decide: that of the
// environment, and that of a file, whose embedder makes the vectors.
func TestFactsByModelOfAFile(t *testing.T) {
	c := newCLI(t)
	reply := func(text string) string {
		b, _ := json.Marshal(text)
		return fmt.Sprintf(`{"choices":[{"finish_reason":"stop","message":{"content":%s}}],"usage":{"prompt_tokens":20,"completion_tokens":5}}`, b)
	}
	embedded := 0
	s := wiretest.Server(t, func(r *http.Request, body []byte) (int, string) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/embeddings"):
			embedded++
			return 200, `{"data":[{"index":0,"embedding":[0.6,0.8,0]}],"usage":{"total_tokens":3}}`
		case strings.Contains(string(body), "New fact: Lives in Ghent"):
			return 200, reply(`[{"id":"1","event":"UPDATE","data":"Lives in Ghent"}]`)
		case strings.Contains(string(body), "New fact: "):
			return 200, reply(`[{"event":"ADD"}]`)
		case strings.Contains(string(body), "Ghent"):
			return 200, reply(`["Lives in Ghent"]`)
		}
		return 200, reply(`{"facts": ["Lives in Bruges"]}`)
	})
	c.getenv = func(name string) string {
		return map[string]string{"OPENAI_API_KEY": wiretest.Key, "OPENAI_BASE_URL": s.URL}[name]
	}
	added := one(t, c.objects("fact", "add", "hello, my home is in Bruges", "--user", "ada"))
	if got := fmt.Sprint(added["results"]); !strings.Contains(got, "event:ADD") || !strings.Contains(got, "memory:Lives in Bruges") || fmt.Sprint(added["degraded"]) != "[]" {
		t.Errorf("added %v", added)
	}
	added = one(t, c.objects("fact", "add", "I moved to Ghent", "--user", "ada"))
	if got := fmt.Sprint(added["results"]); !strings.Contains(got, "event:UPDATE") || !strings.Contains(got, "old_memory:Lives in Bruges") {
		t.Errorf("corrected %v", added)
	}
	if total := one(t, c.objects("usage", "total")); total["prompt_tokens"].(float64) < 60 {
		t.Errorf("usage %v", total)
	}
	file := filepath.Join(t.TempDir(), "memdb.json")
	text := fmt.Sprintf(`{"llm":{"provider":"openai","config":{"base_url":%q}},"embedder":{"provider":"openai","config":{"model":"e","dimensions":3,"base_url":%q}}}`, s.URL, s.URL)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c = newCLI(t)
	c.getenv = func(name string) string { return map[string]string{"OPENAI_API_KEY": wiretest.Key}[name] }
	c.ok("fact", "add", "my home is in Bruges", "--user", "ada", "--config", file)
	if hits := c.objects("fact", "search", "where", "--user", "ada", "--config", file); len(hits) != 1 || hits[0]["memory"] != "Lives in Bruges" || embedded < 2 {
		t.Errorf("found %v after %d vectors", hits, embedded)
	}
	if out := c.ok("export", "-"); strings.Contains(out, wiretest.Key) {
		t.Error("an export has the key")
	}
	c.fails(exitUsage, "the file cannot be read", "fact", "list", "--user", "ada", "--config", file+"x")
	c.ok("check")
}
