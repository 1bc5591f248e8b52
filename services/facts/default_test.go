package facts_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/wiretest"
	"github.com/seed-7aedc3ff/memdb/scope"
	"github.com/seed-7aedc3ff/memdb/services/facts"
	"github.com/seed-7aedc3ff/memdb/usage"
)

// TestDefaultOfEnvironment: without a configuration, a key of OpenAI in the environment brings
// OpenAI's small models, whose calls count in the usage of the owner.
func TestDefaultOfEnvironment(t *testing.T) {
	asked := map[string]int{}
	s := wiretest.Server(t, func(r *http.Request, body []byte) (int, string) {
		var in struct {
			Model string
			Input []string
		}
		if err := json.Unmarshal(body, &in); err != nil || r.Header.Get("Authorization") != "Bearer "+wiretest.Key {
			t.Errorf("%v: %s", err, body)
		}
		asked[r.URL.Path+" "+in.Model]++
		switch {
		case len(in.Input) > 0:
			var data []string
			for i := range in.Input {
				data = append(data, fmt.Sprintf(`{"index":%d,"embedding":[1%s]}`, i, strings.Repeat(",0", 1535)))
			}
			return 200, `{"data":[` + strings.Join(data, ",") + `],"usage":{"total_tokens":5}}`
		case strings.Contains(string(body), "New fact: "):
			return 200, `{"choices":[{"finish_reason":"stop","message":{"content":"[{\"event\":\"ADD\"}]"}}],"usage":{"prompt_tokens":7,"completion_tokens":1}}`
		}
		return 200, `{"choices":[{"finish_reason":"stop","message":{"content":"[\"User likes tea\"]"}}],"usage":{"prompt_tokens":7,"completion_tokens":1}}`
	})
	t.Setenv("OPENAI_API_KEY", wiretest.Key)
	t.Setenv("OPENAI_BASE_URL", s.URL)
	f, err := facts.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	a := add(t, f, alice, "I like tea")
	wantEvents(t, a, "ADD User likes tea")
	if asked["/chat/completions gpt-4o-mini"] != 2 || asked["/embeddings text-embedding-3-small"] == 0 || len(a.Degraded) > 0 {
		t.Errorf("asked %v, degraded %+v", asked, a.Degraded)
	}
	stats, err := f.DB.Stats(t.Context())
	if err != nil || len(stats.Spaces) == 0 || stats.Spaces[0].Model != "openai/text-embedding-3-small" || stats.Spaces[0].Dim != 1536 {
		t.Errorf("%+v, error %v", stats.Spaces, err)
	}
	if total, err := f.DB.Usage().Total(t.Context(), usage.Query{Owner: scope.Owner{User: "alice"}}); err != nil || total.Records != 2 || total.PromptTokens != 14 {
		t.Errorf("%+v, error %v", total, err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := f.DB.Stats(t.Context()); err == nil {
		t.Error("Close leaves the database open")
	}
}
