package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/wiretest"
)

// TestFolderIsFree: while a model or an embedder answers a fact add, another process reads and
// writes the folder. What it changes of what was decided by is decided again.
func TestFolderIsFree(t *testing.T) {
	c := newCLI(t)
	key := map[string]string{"OPENAI_API_KEY": wiretest.Key}
	c.getenv = func(name string) string { return key[name] }
	var turn sync.Mutex // of the calls that are answered at once
	calls, changed := 0, false
	other := func() {
		o := *c // another program: nothing is shared but the folder
		calls++
		o.ok("store", fmt.Sprint("beside the model ", calls), "--user", "bob")
	}
	s := wiretest.Server(t, func(r *http.Request, body []byte) (int, string) {
		turn.Lock()
		defer turn.Unlock()
		other()
		if strings.HasSuffix(r.URL.Path, "/embeddings") {
			var in struct{ Input []string }
			if err := json.Unmarshal(body, &in); err != nil {
				t.Error(err)
			}
			var data []string
			for i := range in.Input {
				data = append(data, fmt.Sprintf(`{"index":%d,"embedding":[1,1,%d]}`, i, i))
			}
			return 200, `{"data":[` + strings.Join(data, ",") + `],"usage":{"total_tokens":5}}`
		}
		if strings.Contains(string(body), "ID: 1, Text: Ada lives in Antwerp") && !changed {
			changed = true // the fact that is decided about goes meanwhile
			o := *c
			o.ok("delete", "--all", "--user", "ada", "--filter", "kind = fact", "--yes")
		}
		reply, err := json.Marshal(wires["openai"].answer(string(body)))
		if err != nil {
			t.Error(err)
		}
		return 200, string(reply)
	})
	file := c.modelFile("openai", s.URL, fmt.Sprintf(`,"embedder":{"provider":"openai","config":{"base_url":%q,"model":"m","dimensions":3}}`, s.URL))
	first := one(t, c.objects("fact", "add", "I live in Antwerp", "--user", "ada", "--config", file))
	then := one(t, c.objects("fact", "add", "We have moved to Ghent", "--user", "ada", "--config", file))
	if eventsOf(first) != "ADD Ada lives in Antwerp" || eventsOf(then) != "ADD Ada lives in Ghent" || !changed {
		t.Errorf("%v, then %v", first, then)
	}
	total := one(t, c.objects("usage", "total"))
	if beside := c.objects("list", "--user", "bob"); calls < 8 || len(beside) != calls || total["records"] != float64(calls) {
		t.Errorf("%d calls, %d memories beside them, usage %v", calls, len(beside), total)
	}
	c.ok("check")
}

// TestExactScopeFlag: a message in the scope of an agent changes nothing that a user has told it,
// unless the flag or the configuration opens that.
func TestExactScopeFlag(t *testing.T) {
	var asked strings.Builder
	s := wiretest.Server(t, func(_ *http.Request, body []byte) (int, string) {
		asked.Write(body)
		text := `["Forget the code"]`
		if strings.Contains(string(body), "New fact: ") {
			text = `[{"event":"DELETE","id":1}]`
		}
		reply, err := json.Marshal(wires["openai"].text(text))
		if err != nil {
			t.Error(err)
		}
		return 200, string(reply)
	})
	for _, open := range []string{"", "flag", "file"} {
		c := newCLI(t)
		c.ok("fact", "add", "The code is periwinkle", "--user", "ada", "--agent", "coach", "--infer=false")
		asked.Reset()
		more, args := "", []string{"fact", "add", "forget the code", "--agent", "coach", "--graph=false", "--json", "--config"}
		if open == "file" {
			more = `,"exact_scope":false`
		}
		args = append(args, c.modelFile("openai", s.URL, more))
		if open == "flag" {
			args = append(args, "--exact-scope=false")
		}
		out := c.ok(args...)
		shown := strings.Contains(asked.String(), "periwinkle") || strings.Contains(out, "periwinkle")
		gone := len(c.objects("fact", "list", "--user", "ada")) == 0
		if shown != (open != "") || gone != (open != "") {
			t.Errorf("opened by %q: shown %v, gone %v: %s", open, shown, gone, out)
		}
	}
}
