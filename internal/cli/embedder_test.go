package cli

import (
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/internal/wiretest"
	"github.com/seed-7aedc3ff/memdb/services/config"
)

// TestEmbeddersOfVerbs: recall and store use the embedder of --config, of MEMDB_CONFIG, or the one
// that has made the vectors; where none answers, recall goes on by text and both say so.
func TestEmbeddersOfVerbs(t *testing.T) {
	c := newCLI(t)
	texts, other, refuse, none := 0, 0, "", ""
	file, another := embedderFile(t, 3, &texts, &refuse), embedderFile(t, 5, &other, &none)
	c.ok("store", "tea in Ghent", "--user", "ada", "--config", file)
	if texts != 1 || c.spaces()["default openai/m-3"] != 1 {
		t.Fatalf("%d texts, %v", texts, c.spaces())
	}
	find := func(args ...string) []map[string]any {
		return c.objects(append([]string{"recall", "tea", "--user", "ada", "--profile", "vector"}, args...)...)
	}
	if hits := find("--config", file); len(hits) != 1 || texts != 2 || hits[0]["unembedded"] != nil {
		t.Errorf("by --config: %v after %d texts", hits, texts)
	}
	if total := one(t, c.objects("usage", "total")); total["records"] != 2.0 {
		t.Errorf("%v", total)
	}
	env := map[string]string{}
	c.getenv = func(name string) string { return env[name] }
	env[config.FileVariable] = file
	if hits := find(); len(hits) != 1 || texts != 3 {
		t.Errorf("by the environment: %v after %d texts", hits, texts)
	}

	// By the database alone: the server that it names is asked only where the environment has it, too.
	delete(env, config.FileVariable)
	hits := find()
	if len(hits) != 2 || !strings.Contains(hits[1]["unembedded"].(string), "a server that only the database names") || texts != 3 {
		t.Errorf("of a server that nobody vouches for: %v after %d texts", hits, texts)
	}
	db, err := engine.Open(c.dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	env["OPENAI_BASE_URL"] = db.VectorModel().Base
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if hits := find(); len(hits) != 1 || texts != 4 {
		t.Errorf("by what the database knows: %v after %d texts", hits, texts)
	}
	c.ok("store", "coffee", "--user", "ada")
	if texts != 5 || c.spaces()["default openai/m-3"] != 2 {
		t.Errorf("stored after %d texts: %v", texts, c.spaces())
	}

	hits = find("--config", another)
	if len(hits) != 2 || !strings.Contains(hits[1]["unembedded"].(string), "openai/m-3 with 3 dimensions, and the configuration has openai/m-5 with 5") || other != 0 {
		t.Errorf("by another: %v after %d texts", hits, other)
	}
	refuse = "milk"
	s := one(t, c.objects("store", "milk", "--user", "ada"))
	if why, _ := s["pending_why"].(string); s["pending"] != true || !strings.Contains(why, "openai") {
		t.Errorf("%v", s)
	}
	hits = c.objects("recall", "milk", "--user", "ada", "--explain")
	if plan, _ := hits[len(hits)-1]["plan"].(map[string]any); len(hits) != 2 || plan["unembedded"] == nil {
		t.Errorf("a query that is refused: %v", hits)
	}
	r := c.run("recall", "milk", "--user", "ada", "--profile", "vector")
	if r.code != exitDone || !strings.Contains(r.out, "milk") || !strings.Contains(r.err, "its text alone was searched") {
		t.Errorf("for a person: %+v", r)
	}
	if r := c.run("store", "no milk", "--user", "ada"); r.code != exitDone || !strings.HasSuffix(r.out, ", vector pending\n") || !strings.Contains(r.err, "memdbctl embed makes it") {
		t.Errorf("for a person: %+v", r)
	}
	refuse = ""
	if e := one(t, c.objects("embed")); e["embedded"] != 2.0 || e["left"] != 0.0 {
		t.Errorf("%v", e)
	}
	c.fails(exitUsage, "the file cannot be read", "recall", "tea", "--user", "ada", "--config", file+"x")
}

// TestEmbeddersInAShell: the lines of a shell use the embedder, too.
func TestEmbeddersInAShell(t *testing.T) {
	c := newCLI(t)
	texts, none := 0, ""
	file := embedderFile(t, 3, &texts, &none)
	c.getenv = func(name string) string { return map[string]string{config.FileVariable: file}[name] }
	c.in, c.inTerminal = strings.NewReader("store tea --user ada\nlist --user ada\nrecall tea --user ada\n"), false
	if r := c.run("shell"); r.code != exitDone || texts != 2 || strings.Count(r.out, "tea") != 2 {
		t.Errorf("%+v after %d texts", r, texts)
	}
}

// TestKeysStay: a program that serves the database gets no key for a recall, which it embeds by
// itself, and only the keys by their names for a verb with models.
func TestKeysStay(t *testing.T) {
	c := newCLI(t)
	a := &app{console: c.console}
	a.getenv = func(string) string { return wiretest.Key }
	for verb, may := range map[string]map[string]bool{
		"recall": {"OPENAI_API_KEY": false, config.FileVariable: false},
		"store":  {"OPENAI_API_KEY": false, config.FileVariable: false},
		"embed":  {"OPENAI_API_KEY": true, config.FileVariable: true, "HOME": false},
		"list":   {"OPENAI_API_KEY": false, config.FileVariable: false},
	} {
		cmd, _, err := a.root().Find([]string{verb})
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range may {
			if _, got := a.share(cmd)(name); got != want {
				t.Errorf("%s may have %s: %v", verb, name, got)
			}
		}
	}
}
