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

// embedderFile writes a configuration of an embedder of a number of dimensions, whose
// provider is stood in for, and counts the texts that it gets.
func embedderFile(t *testing.T, dims int, texts *int, refuse *string) string {
	t.Helper()
	s := wiretest.Server(t, func(_ *http.Request, body []byte) (int, string) {
		var in struct{ Input []string }
		if err := json.Unmarshal(body, &in); err != nil {
			t.Error(err)
		}
		if *refuse != "" && strings.Contains(string(body), *refuse) {
			return 400, `{"error":{"message":"not this text"}}`
		}
		*texts += len(in.Input)
		var data []string
		for i, text := range in.Input {
			data = append(data, fmt.Sprintf(`{"index":%d,"embedding":[%d%s]}`, i, len(text), strings.Repeat(",1", dims-1)))
		}
		return 200, `{"data":[` + strings.Join(data, ",") + `],"usage":{"total_tokens":3}}`
	})
	file := filepath.Join(t.TempDir(), "memdb.toml")
	text := fmt.Sprintf("[embedder]\nprovider = \"openai\"\n[embedder.config]\nmodel = \"m-%d\"\ndimensions = %d\nbase_url = %q\n", dims, dims, s.URL)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// spaces are how many vectors each space has.
func (c *cli) spaces() map[string]float64 {
	c.t.Helper()
	of := map[string]float64{}
	for _, s := range one(c.t, c.objects("stats"))["spaces"].([]any) {
		s := s.(map[string]any)
		of[s["name"].(string)+" "+s["model"].(string)] = s["vectors"].(float64)
	}
	return of
}

// TestReembed embeds what has no vector, and then everything with another model.
func TestReembed(t *testing.T) {
	c := newCLI(t)
	small, large, none, refuse := 0, 0, "", ""
	first, second := embedderFile(t, 3, &small, &none), embedderFile(t, 5, &large, &refuse)
	c.fails(exitFailed, "no database", "embed", "--config", first)
	for i := range 20 {
		c.ok("store", fmt.Sprintf("text number %d", i), "--agent", "a", "--id", fmt.Sprint("m", i))
	}
	if r := one(t, c.objects("embed", "--config", first, "--limit", "7")); r["embedded"] != 7.0 || r["left"] != 13.0 {
		t.Errorf("%v", r)
	}
	if r := one(t, c.objects("embed", "--config", first)); r["embedded"] != 13.0 || r["left"] != 0.0 || small != 20 {
		t.Errorf("%v after %d texts", r, small)
	}
	if total := one(t, c.objects("usage", "total")); total["prompt_tokens"] != 6.0 {
		t.Errorf("%v", total)
	}
	c.fails(exitFailed, "those of openai/m-5 have 5", "embed", "--config", second)
	c.fails(exitUsage, "of the model openai/m-3 already", "reembed", "--config", first)
	c.fails(exitUsage, "--config", "reembed")
	c.fails(exitUsage, "it is negative", "reembed", "--config", second, "--limit", "-1")
	lexical := filepath.Join(t.TempDir(), "lexical.json")
	if err := os.WriteFile(lexical, []byte(`{"embedder":{"provider":"lexical","config":{}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	c.fails(exitUsage, "names no embedder", "reembed", "--config", lexical)

	r := one(t, c.objects("reembed", "--config", second, "--limit", "8"))
	if m := lacks(r, "model", "space", "before", "embedded", "left", "refused", "kept", "switched", "dropped"); m != nil || r["embedded"] != 8.0 || r["left"] != 12.0 || r["switched"] != false {
		t.Errorf("%v, lacks %v", r, m)
	}
	refuse = "number 19"
	if r := one(t, c.objects("reembed", "--config", second)); r["embedded"] != 11.0 || r["refused"] != 1.0 || r["switched"] != false {
		t.Errorf("%v", r)
	}
	if out := c.ok("reembed", "--config", second); !strings.Contains(out, "--partial") {
		t.Errorf("%q", out)
	}
	refuse = ""
	if r := one(t, c.objects("reembed", "--config", second)); r["embedded"] != 1.0 || r["switched"] != true || r["dropped"] != 20.0 || r["model"] != "openai/m-5" {
		t.Errorf("%v", r)
	}
	if got := c.spaces(); got["default openai/m-5"] != 20 || got["reembed:openai/m-3 openai/m-3"] != 0 || len(got) != 2 {
		t.Errorf("%v", got)
	}
	if check := one(t, c.objects("check")); check["ok"] != true {
		t.Errorf("%v", check)
	}
	if r := one(t, c.objects("reembed", "--config", first, "--keep")); r["embedded"] != 20.0 || r["switched"] != true || r["dropped"] != 0.0 {
		t.Errorf("%v", r)
	}
	texts := large
	if r := one(t, c.objects("reembed", "--config", second)); r["embedded"] != 0.0 || r["switched"] != true || large != texts {
		t.Errorf("back: %v after %d more texts", r, large-texts)
	}
	if r := one(t, c.objects("reembed", "--config", first, "--keep")); r["switched"] != true {
		t.Errorf("%v", r)
	}
	if r := one(t, c.objects("reembed", "--config", first)); r["dropped"] != 20.0 || r["switched"] != false {
		t.Errorf("what an earlier call kept: %v", r)
	}
	c.fails(exitUsage, "of the model openai/m-3 already", "reembed", "--config", first)
}
