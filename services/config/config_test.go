package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/wiretest"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/scope"
	"github.com/seed-7aedc3ff/memdb/services/graphs/neo4j"
	"github.com/seed-7aedc3ff/memdb/services/llm"
	"github.com/seed-7aedc3ff/memdb/usage"
)

// env is an environment.
func env(pairs ...string) Lookup {
	return func(name string) (string, bool) {
		for i := 0; i+1 < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1], true
			}
		}
		return "", false
	}
}

const wholeTOML = `
version = "v1.0"
[llm]
provider = "anthropic"
[llm.config]
model = "claude-haiku-4-5"
api_key_env = "MY_KEY"
temperature = 0.5
max_tokens = 700
timeout = "30s"
retries = 0
concurrency = 2
cache = 0
price = { prompt = 0.8, completion = 4 }

[embedder]
provider = "openai"
[embedder.config]
model = "text-embedding-3-small"
api_key = "sk-secret-0123456789"
base_url = "https://example.com/v1"
dimensions = 512
batch = 100

[vector_store]
provider = "memory"
collection_name = "memories"

[graph_store]
provider = "memdb"

[history]
db_path = "~/.memory/history.db"

[custom_prompts]
fact_extraction = "List what is said of tea."
update_decision = "Decide."

[usage]
agent = "house"
`

const wholeJSON = `{
	"vector_store": {"provider": "memory", "collection_name": "memories"}, "graph_store": {"provider": "memdb"}, "history": {"db_path": "~/.memory/history.db"},
	"custom_prompts": {"fact_extraction": "List what is said of tea.", "update_decision": "Decide."}, "version": "v1.0",
	"llm": {"provider": "anthropic", "config": {"model": "claude-haiku-4-5", "api_key_env": "MY_KEY", "temperature": 0.5, "max_tokens": 700,
		"timeout": "30s", "retries": 0, "concurrency": 2, "cache": 0, "price": {"prompt": 0.8, "completion": 4}}},
	"embedder": {"provider": "openai", "config": {"model": "text-embedding-3-small", "api_key": "sk-secret-0123456789", "base_url": "https://example.com/v1", "dimensions": 512, "batch": 100}},
	"usage": {"agent": "house"}
}`

func parse(t *testing.T, name, text string) *Config {
	t.Helper()
	c, err := Parse(name, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestForms reads the same from TOML, from JSON and from a file.
func TestForms(t *testing.T) {
	c := parse(t, "memdb.toml", wholeTOML)
	if other := parse(t, "memdb.json", wholeJSON); !reflect.DeepEqual(c, other) {
		t.Errorf("TOML and JSON differ: %+v, %+v", c, other)
	}
	l, e := c.LLM.Config, c.Embedder.Config
	if c.LLM.Provider != "anthropic" || l.APIKeyEnv != "MY_KEY" || l.Temperature != .5 || l.MaxTokens != 700 || l.Timeout != Duration(30*time.Second) || *l.Retries != 0 || *l.Cache != 0 || l.Price.Prompt.String() != "0.8" {
		t.Errorf("%+v", l)
	}
	if e.APIKey.value() != wiretest.Key || e.Dimensions != 512 || e.Batch != 100 || e.BaseURL != "https://example.com/v1" || c.Usage.Agent != "house" {
		t.Errorf("%+v", e)
	}
	path := filepath.Join(t.TempDir(), "memdb.toml")
	if err := os.WriteFile(path, []byte(wholeTOML), 0o600); err != nil {
		t.Fatal(err)
	}
	if loaded, err := Load(path); err != nil || !reflect.DeepEqual(c, loaded) {
		t.Errorf("%+v, error %v", loaded, err)
	}
}

// TestBadFiles wants errors that name the file and the key, and show no value.
func TestBadFiles(t *testing.T) {
	for _, c := range []struct{ name, file, text, want string }{
		{"unknown keys, all of them", "c.json", `{"llm":{"provider":"openai","config":{"modle":"m","api_key":"` + wiretest.Key + `"}},"embeder":{},"Usage":{}}`, "not known: Usage (near usage), embeder (near embedder), llm.config.modle (near model);"},
		{"unknown key in TOML", "c.toml", "[llm]\nprovider = \"openai\"\nmodel = \"m\"\n", "not known: llm.model;"},
		{"a key of the other", "c.json", `{"llm":{"config":{"dimensions":3}}}`, "llm.config.dimensions"},
		{"an embedder's in llm.price", "c.json", `{"llm":{"config":{"price":{"input":3}}}}`, "llm.config.price.input"},
		{
			"unknown keys of stores", "c.json", `{"vector_stor":{},"graph_store":{"url":"x"},"history":{"path":"x"},"custom_prompts":{"extraction":"x"}}`,
			"not known: custom_prompts.extraction, graph_store.url, history.path, vector_stor (near vector_store);",
		},
		{"a text for a store", "c.json", `{"vector_store":"qdrant"}`, "vector_store is of the type string; give a group"},
		{"a number for a provider", "c.toml", "[vector_store]\nprovider = 3\n", "vector_store.provider is of the type number; give a text"},
		{"a list for a collection", "c.json", `{"vector_store":{"collection_name":["a"]}}`, "vector_store.collection_name is of the type array; give a text"},
		{"a text for a store's settings", "c.json", `{"vector_store":{"config":"here"}}`, "vector_store.config is of the type string; give a group"},
		{"a number for a password", "c.json", `{"graph_store":{"config":{"password":1234567890}}}`, "graph_store.config.password is of the type number; give a text"},
		{"a list for a URL", "c.json", `{"graph_store":{"config":{"url":["a"]}}}`, "graph_store.config.url is of the type array; give a text"},
		{"an unknown key of a graph", "c.json", `{"graph_store":{"config":{"user":"a","uri":"b"}}}`, "graph_store.config.uri (near url), graph_store.config.user;"},
		{"a truth for a graph", "c.json", `{"graph_store":true}`, "graph_store is of the type bool; give a group"},
		{"a number for a path", "c.json", `{"history":{"db_path":5}}`, "history.db_path is of the type number; give a text"},
		{"a list for a prompt", "c.json", `{"custom_prompts":{"fact_extraction":["a"]}}`, "custom_prompts.fact_extraction is of the type array; give a text"},
		{"a number for a version", "c.json", `{"version":1.1}`, "version is of the type number; give a text"},
		{"a number for a text", "c.json", `{"llm":{"provider":5}}`, "llm.provider is of the type number; give a text"},
		{"a number for a key", "c.json", `{"llm":{"config":{"api_key":1234567890}}}`, "llm.config.api_key is of the type number; give a text"},
		{"a text for a number", "c.json", `{"llm":{"config":{"max_tokens":"` + wiretest.Key + `"}}}`, "llm.config.max_tokens is of the type string; give a whole number"},
		{"a fraction for a number", "c.json", `{"llm":{"config":{"max_tokens":1.5}}}`, "llm.config.max_tokens is of the type number; give a whole number"},
		{"a list for a group", "c.json", `{"llm":[]}`, "llm is of the type array; give a group"},
		{"a number for a duration", "c.json", `{"llm":{"config":{"timeout":30}}}`, `give a duration as "30s"`},
		{"no duration", "c.json", `{"llm":{"config":{"timeout":"soon"}}}`, `"soon" is none`},
		{"a negative duration", "c.toml", "[llm.config]\ntimeout = \"-3s\"\n", `"-3s" is none`},
		{"a bad price", "c.json", `{"llm":{"config":{"price":{"prompt":-1}}}}`, "read c.json"},
		{"broken JSON", "c.json", "{\n\"llm\": {\"config\": {\"api_key\": \"" + wiretest.Key + "\n\"}}}", "no JSON from line 3 on"},
		{"cut JSON", "c.json", `{"llm":{"config":{"api_key":"` + wiretest.Key, "no JSON from line 1 on"},
		{"JSON twice", "c.json", `{}{}`, "no JSON"},
		{"a list", "c.json", `[]`, "no JSON object"},
		{"null", "c.json", `null`, "no JSON object"},
		{"nothing", "c.json", ``, "no JSON"},
		{"broken TOML", "c.toml", "[llm.config]\napi_key = " + wiretest.Key + "\n", "no TOML at line 2"},
		{"TOML key twice", "c.toml", "[llm]\nprovider = \"a\"\nprovider = \"b\"\n", "no TOML at line 3"},
		{"infinite in TOML", "c.toml", "[llm.config]\ntemperature = inf\n", "infinite"},
		{"another form", "c.yaml", "llm: {}", "neither JSON nor TOML"},
		{"no name", "", "{}", "neither JSON nor TOML"},
	} {
		got, err := Parse(c.file, []byte(c.text))
		if !errors.Is(err, fault.ErrInvalid) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "read "+c.file) || strings.Contains(err.Error(), wiretest.Key) || strings.Contains(err.Error(), "1234567890") {
			t.Errorf("%s: %+v, error %v", c.name, got, err)
		}
	}
	if _, err := Load(filepath.Join(t.TempDir(), "none.toml")); !errors.Is(err, fault.ErrInvalid) || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	big := filepath.Join(t.TempDir(), "big.toml")
	if err := os.WriteFile(big, bytes.Repeat([]byte("#\n"), maxFile), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(big); !errors.Is(err, fault.ErrInvalid) || !strings.Contains(err.Error(), "more than") {
		t.Errorf("a big file: %v", err)
	}
}

// TestBadConfigs are refused before anything is called.
func TestBadConfigs(t *testing.T) {
	neg := -1
	for _, bad := range []struct {
		want string
		c    Config
	}{
		{`one of anthropic, azure_openai, google, ollama, openai`, Config{LLM: &LLM{Provider: "gpt"}}},
		{`embedder: there is no provider ""`, Config{Embedder: &Embedder{}}},
		{"cohere, google, huggingface, lexical, ollama", Config{Embedder: &Embedder{Provider: "x"}}},
		{"openai: there is no key; set OPENAI_API_KEY", Config{LLM: &LLM{Provider: "openai"}}},
		{"anthropic: there is no key; set ANTHROPIC_API_KEY", Config{LLM: &LLM{Provider: "anthropic"}}},
		{"google: there is no key; set GOOGLE_API_KEY", Config{LLM: &LLM{Provider: "google"}}},
		{"azure_openai: there is no key; set AZURE_OPENAI", Config{LLM: &LLM{Provider: "azure_openai"}}},
		{"voyage: there is no key; set VOYAGE_API_KEY", Config{Embedder: &Embedder{Provider: "voyage"}}},
		{"cohere: there is no key; set COHERE_API_KEY", Config{Embedder: &Embedder{Provider: "cohere"}}},
		{"huggingface: there is no key; set HF_TOKEN", Config{Embedder: &Embedder{Provider: "huggingface"}}},
		{"openai: there is no key: the variable MY_KEY", Config{Embedder: &Embedder{"openai", EmbedderCalls{Calls: Calls{APIKeyEnv: "MY_KEY"}}}}},
		{"both api_key and api_key_env", Config{LLM: &LLM{"openai", LLMCalls{Calls: Calls{APIKey: NewSecret("k"), APIKeyEnv: "MY_KEY"}}}}},
		{"stands for a key", Config{LLM: &LLM{"openai", LLMCalls{Calls: Calls{APIKey: NewSecret("[key]")}}}}},
		{"copy the key again to api_key of llm", Config{LLM: &LLM{"openai", LLMCalls{Calls: Calls{APIKey: NewSecret("a b")}}}}},
		{"lexical: it has one model", Config{Embedder: &Embedder{Provider: "lexical", Config: EmbedderCalls{Dimensions: 3}}}},
		{"the temperature", Config{LLM: &LLM{"ollama", LLMCalls{Temperature: 3}}}},
		{"the concurrency is -1", Config{LLM: &LLM{"ollama", LLMCalls{Calls: Calls{Concurrency: neg}}}}},
		{"the batch is 10000", Config{Embedder: &Embedder{"ollama", EmbedderCalls{Batch: 10_000}}}},
		{"dimensions is -1", Config{Embedder: &Embedder{"ollama", EmbedderCalls{Dimensions: neg}}}},
		{`vector_store: there is no provider "qdrant"; give provider as one of memdb, memory`, Config{VectorStore: &VectorStore{Provider: "qdrant"}}},
		{`vector_store: the provider memdb has no settings, and config has host, port`, Config{VectorStore: &VectorStore{Config: map[string]any{"port": 1, "host": "h"}}}},
		{`vector_store: the provider memory has no settings`, Config{VectorStore: &VectorStore{Provider: Memory, Config: map[string]any{"x": 1}}}},
		{`graph_store: there is no provider "neptune"; give provider as one of memdb, neo4j`, Config{GraphStore: &GraphStore{Provider: "neptune"}}},
		{`graph_store: the provider memdb has no settings`, Config{GraphStore: &GraphStore{Config: GraphCalls{URL: "http://h"}}}},
		{`neo4j: there is no URL; set NEO4J_URL`, Config{GraphStore: &GraphStore{Neo4j, GraphCalls{Password: NewSecret(wiretest.Key)}}}},
		{`neo4j: there is no password; set NEO4J_PASSWORD`, Config{GraphStore: &GraphStore{Neo4j, GraphCalls{URL: "http://h"}}}},
		{`neo4j: the variable MY_PASS, which password_env names`, Config{GraphStore: &GraphStore{Neo4j, GraphCalls{URL: "http://h", PasswordEnv: "MY_PASS"}}}},
		{`neo4j: both token and token_env are given`, Config{GraphStore: &GraphStore{Neo4j, GraphCalls{URL: "http://h", Token: NewSecret("t"), TokenEnv: "MY_TOKEN"}}}},
		{`neo4j: password is [key], which stands for a secret`, Config{GraphStore: &GraphStore{Neo4j, GraphCalls{URL: "http://h", Password: NewSecret(hidden)}}}},
		{`neo4j: the interface is "bolt"; give api as tx or query`, Config{GraphStore: &GraphStore{Neo4j, GraphCalls{URL: "http://h", Password: NewSecret("p"), API: "bolt"}}}},
		{`neo4j: its URL is one of Bolt with a port of its own`, Config{GraphStore: &GraphStore{Neo4j, GraphCalls{URL: "bolt://h:99", Password: NewSecret("p")}}}},
		{`the version is "v2"; give version as one of v1.0, v1.1`, Config{Version: "v2"}},
		{"local: this program is built without it; use the memdbctl and the memdbd", Config{Embedder: &Embedder{Provider: Local}}},
		{"set up usage", Config{Usage: &Usage{Agent: strings.Repeat("x", 600)}}},
		{"it would repeat a call 11 times", Config{LLM: &LLM{"ollama", LLMCalls{Calls: Calls{Retries: new(11)}}}}},
		{"give base_url as https://host/path, and the key as ap", Config{LLM: &LLM{"ollama", LLMCalls{Calls: Calls{BaseURL: "http://u:" + wiretest.Key + "@h"}}}}},
	} {
		s, err := bad.c.Open(env(), false)
		if !errors.Is(err, fault.ErrInvalid) || !strings.Contains(err.Error(), bad.want) || strings.Contains(err.Error(), wiretest.Key) {
			t.Errorf("%+v: error %v, want %q", s, err, bad.want)
		}
	}
}

// TestStores has what a configuration says of a memory of facts in its services, and keeps
// memories in RAM alone where it says so.
func TestStores(t *testing.T) {
	c := parse(t, "memdb.toml", wholeTOML)
	c.LLM, c.Embedder = nil, nil
	s, err := c.Open(nil, false)
	if want := (Prompts{FactExtraction: "List what is said of tea.", UpdateDecision: "Decide."}); err != nil || !s.InMemory || !s.Graph || s.Prompts != want || s.Version != "v1.0" {
		t.Errorf("%+v, error %v", s, err)
	}
	for _, own := range []*Config{{}, {VectorStore: &VectorStore{}}, {VectorStore: &VectorStore{Provider: Own, CollectionName: "c"}}, {History: &History{DBPath: "h"}}} {
		if s, err := own.Open(nil, false); err != nil || s.InMemory || s.Graph || s.NeedFolder("open x") != nil {
			t.Errorf("%+v: %+v, error %v", own, s, err)
		}
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "memdb.json")
	if err := os.WriteFile(path, []byte(`{"vector_store":{"provider":"memory"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if db, _, err := OpenDB(t.Context(), filepath.Join(dir, "db"), nil, path, nil); !errors.Is(err, fault.ErrInvalid) || !strings.Contains(err.Error(), "RAM alone") {
		t.Errorf("a folder: %v, error %v", db, err)
	}
	db, _, err := OpenDB(t.Context(), "", nil, path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Memories().Store(t.Context(), memory.Memory{Scope: scope.Scope{User: "ada"}, Text: "likes tea"}, nil); err != nil {
		t.Error(err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

// TestNeo4j makes a store of a configuration, and of the environment where that leaves it out;
// its secrets are shown by nothing.
func TestNeo4j(t *testing.T) {
	whole := env("NEO4J_URL", "bolt://h:7687", "NEO4J_USER", "ada", "NEO4J_PASSWORD", wiretest.Key, "MY_TOKEN", "token")
	for name, c := range map[string]struct {
		text, url, user, password, token string
	}{
		"environment":   {`{}`, "bolt://h:7687", "ada", wiretest.Key, ""},
		"configuration": {`{"url":"http://x","username":"bob","password":"` + wiretest.Key + `","database":"d","space":"s","api":"query","timeout":"5s","retries":0}`, "http://x", "bob", wiretest.Key, ""},
		"token":         {`{"token_env":"MY_TOKEN"}`, "bolt://h:7687", "ada", "", "token"},
	} {
		parsed := parse(t, "c.json", `{"graph_store":{"provider":"neo4j","config":`+c.text+`}}`)
		s, err := parsed.Open(whole, false)
		if err != nil {
			t.Fatal(err)
		}
		got := s.GraphStore.(*neo4j.Store)
		if !s.Graph || got.URL != c.url || got.Username != c.user || got.Password != c.password || got.Token != c.token {
			t.Errorf("%s: %s %s", name, got.URL, got.Username)
		}
		if name == "configuration" && (got.Database != "d" || got.Space != "s" || got.API != neo4j.QueryV2 || got.Timeout != 5*time.Second || got.Retry.Times != -1) {
			t.Errorf("%s: %s %s %s", name, got.Database, got.Space, got.API)
		}
		b, err := json.Marshal(parsed)
		if out := fmt.Sprintf("%v %+v %#v %s", parsed, s, s.GraphStore, b); err != nil || strings.Contains(out, wiretest.Key) {
			t.Errorf("%s: the password is shown: %s, error %v", name, out, err)
		}
	}
	if s := FromEnv(whole); s.GraphStore != nil {
		t.Error("variables alone make no graph in Neo4j")
	}
}

// TestAllProviders opens each with a key of the environment.
func TestAllProviders(t *testing.T) {
	anyKey := func(name string) (string, bool) {
		if strings.HasSuffix(name, "_URL") || strings.HasSuffix(name, "_ENDPOINT") {
			return "https://example.com", true
		}
		return wiretest.Key, true
	}
	for _, provider := range Models() {
		s, err := (&Config{LLM: &LLM{provider, LLMCalls{Calls: Calls{Model: "m"}}}}).Open(anyKey, false)
		if err != nil || s.LLM == nil || s.LLM.Model() != "m" {
			t.Errorf("%s: %v", provider, err)
		}
	}
	for _, provider := range Embedders() {
		c := EmbedderCalls{Calls: Calls{Model: "m"}, Dimensions: 3}
		if provider == Lexical {
			c = EmbedderCalls{}
		}
		s, err := (&Config{Embedder: &Embedder{provider, c}}).Open(anyKey, false)
		if err != nil || s.Embedder == nil || (s.Engine == nil) != (provider == Lexical) {
			t.Errorf("%s: %v", provider, err)
			continue
		}
		if provider != Lexical && (s.Embedder.Dim() != 3 || s.Engine.Model() != provider+"/m") {
			t.Errorf("%s: %s, %d dimensions", provider, s.Engine.Model(), s.Embedder.Dim())
		}
	}
}

// TestEnvironment picks the model by the keys that are set, in their order.
func TestEnvironment(t *testing.T) {
	for _, c := range []struct {
		env   Lookup
		first []string
		want  string
	}{
		{env("OPENAI_API_KEY", "k", "ANTHROPIC_API_KEY", "k", "GOOGLE_API_KEY", "k"), nil, "openai"},
		{env("ANTHROPIC_API_KEY", "k", "GOOGLE_API_KEY", "k"), nil, "anthropic"},
		{env("GOOGLE_API_KEY", "k"), nil, "google"},
		{env("OPENAI_API_KEY", "k", "ANTHROPIC_API_KEY", "k"), []string{"anthropic"}, "anthropic"},
		{env("OPENAI_API_KEY", "k"), []string{"anthropic"}, "openai"},
		{env("OPENAI_API_KEY", "", "GOOGLE_API_KEY", "k"), nil, "google"},
		{env(), nil, ""},
		{nil, nil, ""},
	} {
		got := FromEnv(c.env, c.first...)
		if c.want == "" && got.LLM != nil || c.want != "" && (got.LLM == nil || got.LLM.Provider != c.want) || got.Embedder != nil {
			t.Errorf("%+v, want %q", got, c.want)
		}
		s, err := OpenFile("", c.env, false)
		if err != nil || (s.LLM == nil) != (c.want == "") || s.Engine != nil || !strings.HasPrefix(s.Embedder.Model(), "lexical") {
			t.Errorf("%q: %+v, error %v", c.want, s, err)
			continue
		}
		if _, err := s.NeedLLM(); (err == nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), "OPENAI_API_KEY (openai), ANTHROPIC_API_KEY (anthropic), GOOGLE_API_KEY (google)") {
			t.Errorf("%q: %v", c.want, err)
		}
	}
}

// provider stands in for OpenAI: chat and embeddings of three numbers.
func provider(t *testing.T, calls *[]string) string {
	return wiretest.Server(t, func(r *http.Request, body []byte) (int, string) {
		*calls = append(*calls, r.URL.Path)
		if r.Header.Get("Authorization") != "Bearer "+wiretest.Key {
			t.Errorf("%v", r.Header)
		}
		if strings.HasSuffix(r.URL.Path, "/chat/completions") {
			return 200, `{"model":"m","choices":[{"finish_reason":"stop","message":{"content":"Yes."}}],"usage":{"prompt_tokens":1000,"completion_tokens":100}}`
		}
		var in struct{ Input []string }
		if err := json.Unmarshal(body, &in); err != nil {
			t.Error(err)
		}
		var data []string
		for i := range in.Input {
			data = append(data, fmt.Sprintf(`{"index":%d,"embedding":[1,%d,2]}`, i, len(in.Input[i])))
		}
		return 200, `{"data":[` + strings.Join(data, ",") + `],"usage":{"total_tokens":7}}`
	}).URL
}

func question(text string) llm.Request {
	return llm.Request{Messages: []llm.Message{{Role: llm.User, Text: text}}}
}

// TestOpenDB stores with a provider's vectors, recalls by them, counts every call in the
// database's usage, and refuses what a budget has no room for before it is sent.
func TestOpenDB(t *testing.T) {
	var calls []string
	base := provider(t, &calls)
	dir := t.TempDir()
	path := filepath.Join(dir, "memdb.toml")
	text := fmt.Sprintf(`
[llm]
provider = "openai"
[llm.config]
base_url = %q
price = { prompt = 1000, completion = 1000 }
[embedder]
provider = "openai"
[embedder.config]
base_url = %q
model = "text-embedding-3-small"
dimensions = 3
[usage]
agent = "house"
`, base, base)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, where := t.Context(), filepath.Join(dir, "db")
	db, s, err := OpenDB(ctx, where, nil, path, env("OPENAI_API_KEY", wiretest.Key))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	stored, err := db.Memories().Store(ctx, memory.Memory{Scope: scope.Scope{User: "ada"}, Text: "likes tea"}, nil)
	if err != nil || stored.Pending {
		t.Fatalf("%+v, error %v", stored, err)
	}
	if reply, err := s.LLM.Generate(ctx, question("?")); err != nil || reply.Text != "Yes." {
		t.Errorf("%+v, error %v", reply, err)
	}
	if _, err := s.LLM.Generate(ctx, question("?")); err != nil { // from the cache
		t.Error(err)
	}
	if want := []string{"/embeddings", "/chat/completions"}; !slices.Equal(calls, want) {
		t.Errorf("calls %v, want %v", calls, want)
	}
	owner := scope.Owner{Agent: "house"}
	total, err := db.Usage().Total(ctx, usage.Query{Owner: owner})
	if err != nil || total.Records != 2 || total.PromptTokens != 1007 || total.CompletionTokens != 100 || total.Cost.String() != "1.1" {
		t.Errorf("%+v, error %v", total, err)
	}
	limit, _ := usage.ParseUSD("1.2")
	if err := db.Usage().SetBudget(ctx, usage.Budget{Owner: owner, Limit: limit}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.LLM.Generate(ctx, question("more?")); !errors.Is(err, usage.ErrBudget) || len(calls) != 2 {
		t.Errorf("over the budget: %v after calls %v", err, calls)
	}
	export := &bytes.Buffer{}
	if _, err := exchange.Export(ctx, db, export, nil); err != nil || !strings.Contains(export.String(), "likes tea") || strings.Contains(export.String(), wiretest.Key) {
		t.Errorf("the export: %s, error %v", export, err)
	}
}

// TestOtherModel refuses a database whose vectors another model made, and names both.
func TestOtherModel(t *testing.T) {
	var calls []string
	base, where := provider(t, &calls), filepath.Join(t.TempDir(), "db")
	for _, model := range []string{"text-embedding-3-small", "text-embedding-3-large"} {
		c := Config{Embedder: &Embedder{"openai", EmbedderCalls{Calls: Calls{Model: model, BaseURL: base, APIKey: NewSecret(wiretest.Key)}, Dimensions: 3}}}
		s, err := c.Open(nil, false)
		if err != nil {
			t.Fatal(err)
		}
		db, err := engine.Open(where, &engine.Options{Embedder: s.Engine})
		if model == "text-embedding-3-large" {
			if !errors.Is(err, memory.ErrMismatch) || !strings.Contains(err.Error(), "openai/text-embedding-3-small, not by openai/text-embedding-3-large") {
				t.Errorf("another model: %v", err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.Memories().Store(t.Context(), memory.Memory{Scope: scope.Scope{User: "ada"}, Text: "likes tea"}, nil); err != nil {
			t.Error(err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestSecret prints, logs and encodes a configuration and its services in all ways, and looks
// for the key.
func TestSecret(t *testing.T) {
	c := parse(t, "memdb.toml", wholeTOML)
	s, err := c.Open(env("MY_KEY", wiretest.Key), true)
	if err != nil {
		t.Fatal(err)
	}
	out := &bytes.Buffer{}
	for _, value := range []any{c, *c, *c.Embedder, c.Embedder.Config, c.Embedder.Config.APIKey, s, *s, s.LLM, s.Embedder, s.Engine} {
		fmt.Fprintf(out, "%v %+v %#v %s %q %x %d\n", value, value, value, value, value, value, value)
		for _, h := range []slog.Handler{slog.NewJSONHandler(out, nil), slog.NewTextHandler(out, nil)} {
			slog.New(h).Info("it is", "value", value)
		}
	}
	b, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	out.Write(b)
	hex := fmt.Sprintf("%x", wiretest.Key)
	for _, form := range []string{wiretest.Key, hex, strings.ToUpper(hex), strings.Trim(fmt.Sprintf("%d", []byte(wiretest.Key)), "[]")} {
		if strings.Contains(out.String(), form) {
			t.Errorf("%q in %s", form, out)
		}
	}
	if !strings.Contains(string(b), `"api_key":"[key]"`) || !strings.Contains(string(b), `"timeout":"30s"`) {
		t.Errorf("%s", b)
	}
}

// TestPastedSecrets: a secret in the place of a variable's name, and a variable that holds none,
// are refused where they are read and where they are used, and shown by nothing.
func TestPastedSecrets(t *testing.T) {
	all := func(string) (string, bool) { return "the value of a variable", true }
	for _, value := range []string{wiretest.Key, "sk-ant-KEY", "AKIA0123456789ABCDEF", "HOME", "PATH", "AWS_REGION", "my_key", "KEYBOARD", "_KEY", "MY KEY", "MY_KEY\n", strings.Repeat("A", 61) + "_KEY"} {
		quoted, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		for at, text := range map[string]string{
			"llm.config.api_key_env":          `{"llm":{"provider":"openai","config":{"api_key_env":%s}}}`,
			"embedder.config.api_key_env":     `{"embedder":{"provider":"cohere","config":{"api_key_env":%s}}}`,
			"graph_store.config.password_env": `{"graph_store":{"provider":"neo4j","config":{"url":"http://h","password_env":%s}}}`,
			"graph_store.config.token_env":    `{"graph_store":{"provider":"neo4j","config":{"url":"http://h","token_env":%s}}}`,
		} {
			_, read := Parse("c.json", fmt.Appendf(nil, text, quoted))
			c := &Config{}
			if err := json.Unmarshal(fmt.Appendf(nil, text, quoted), c); err != nil {
				t.Fatal(err)
			}
			_, used := c.Open(all, false)
			for _, err := range []error{read, used} {
				if !errors.Is(err, fault.ErrInvalid) || !strings.Contains(err.Error(), at) || len(value) > 4 && strings.Contains(err.Error(), value) {
					t.Errorf("%s of %q: %v", at, value, err)
				}
			}
		}
	}
	for _, name := range []string{"MY_KEY", "OPENAI_API_KEY", "APIKEY", "KEY", "HF_TOKEN", "TEAM_KEY_2", "KEY2", "AWS_SECRET_ACCESS_KEY_ID", "NEO4J_PASSWORD", "MY_PASS"} {
		if !holdsSecret(name) {
			t.Errorf("%s is refused", name)
		}
	}
}

// TestExactScope is handed on, and on where nothing is said.
func TestExactScope(t *testing.T) {
	for text, want := range map[string]*bool{`{}`: nil, `{"exact_scope":true}`: new(true), `{"exact_scope":false}`: new(false)} {
		s, err := parse(t, "c.json", text).Open(nil, false)
		if err != nil || !reflect.DeepEqual(s.ExactScope, want) {
			t.Errorf("%s: %v, error %v", text, s.ExactScope, err)
		}
	}
}
