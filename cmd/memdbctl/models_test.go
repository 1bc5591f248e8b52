package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
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
	status, calls := 200, 0
	s := wiretest.Server(t, func(r *http.Request, body []byte) (int, string) {
		calls++
		if r.Header.Get("Authorization") != "Bearer "+wiretest.Key || !strings.Contains(string(body), "thing 1") {
			t.Errorf("%v %s", r.Header, body)
		}
		if status != 200 {
			return status, `{"error":{"message":"bad key ` + wiretest.Key + `"}}`
		}
		return 200, fmt.Sprintf(`{"choices":[{"finish_reason":"stop","message":{"content":"Summary %d."}}],"usage":{"prompt_tokens":100,"completion_tokens":10}}`, calls)
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
	status = 401
	c.fails(exitFailed, "check the key in MY_KEY", byFile...)
	if calls != 1 {
		t.Errorf("%d calls with a wrong key", calls)
	}
	status = 200
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
	if calls != 2 {
		t.Errorf("%d calls beyond the budget", calls)
	}
	c.ok("usage", "budget", "set", "10", "--agent", "a")
	if r := one(t, c.objects(append(compact, "--llm")...)); r["compacted"] != true || calls != 3 {
		t.Errorf("%v after %d calls", r, calls)
	}
	if export := c.ok("export", "-"); strings.Contains(export, wiretest.Key) {
		t.Error("the key is in an export")
	}
}
