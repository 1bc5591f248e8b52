// Package embedtest is what all adapters of providers of embeddings must pass.
package embedtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/wiretest"
	"github.com/seed-7aedc3ff/memdb/services/embedders"
)

// Dim is the length of the vectors of all adapters under test.
const Dim = 3

// Adapter is one under test.
type Adapter struct {
	Provider, Variable string
	// New makes the adapter with wiretest.Key for vectors of Dim numbers.
	New func(base string) (embedders.Source, error)
	// Model is what the adapter calls itself.
	Model string
	// URI is what it calls, and Header holds the key.
	URI, Header, Value string
	// Schema is the official description of its requests, nil where none may be kept.
	Schema func(testing.TB) *wiretest.Schema
	// Complete adds to a request what the description wants in its body and the provider's
	// clients send elsewhere.
	Complete func(body map[string]any)
	// Texts are those of a request.
	Texts func(body map[string]any) []any
	// Reply writes the reply of vectors, each of which is JSON.
	Reply func(vectors []string) string
	// Tokens are what Reply says it took; 0 if it does not say.
	Tokens int64
	// Limits are those of the provider.
	Limits embedders.Limits
	// Refuse writes an error in the provider's form.
	Refuse func(message string) string
	// Sends lists parts that each request must hold.
	Sends []string
}

// Run tests an adapter.
func Run(t *testing.T, a Adapter) {
	t.Helper()
	t.Run("request", func(t *testing.T) { a.request(t, nil) })
	t.Run("request by the description", func(t *testing.T) {
		if a.Schema == nil {
			t.Skip("the provider's description may not be kept; its recorded calls are compared by hand")
		}
		a.request(t, a.Schema(t))
	})
	t.Run("batches", func(t *testing.T) { a.batches(t) })
	t.Run("unusable replies", func(t *testing.T) { a.unusable(t) })
	wiretest.Faults(t, wiretest.Target{
		Provider: a.Provider, Kind: fault.ErrEmbedder, Variable: a.Variable, Reply: a.Reply([]string{"[1,2,3]"}), Refuse: a.Refuse,
		Call: func(ctx context.Context, base string) error {
			s, err := a.New(base)
			if err != nil {
				return err
			}
			_, err = s.Call(ctx, []string{"one"})
			return err
		},
	})
}

func (a *Adapter) source(t *testing.T, base string) embedders.Source {
	t.Helper()
	s, err := a.New(base)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// standIn is a provider that makes the vector of a text of its length, 1 and 2.
type standIn struct {
	mu    sync.Mutex
	sizes []int // of the calls
}

func (in *standIn) answer(t *testing.T, a *Adapter, body []byte) string {
	var object map[string]any
	if err := json.Unmarshal(body, &object); err != nil {
		t.Errorf("%v in %.200s", err, body)
	}
	texts := a.Texts(object)
	vectors := make([]string, len(texts))
	for i, text := range texts {
		vectors[i] = fmt.Sprintf("[%d,1,2]", len(text.(string)))
	}
	in.mu.Lock()
	in.sizes = append(in.sizes, len(texts))
	in.mu.Unlock()
	return a.Reply(vectors)
}

// inOrder holds vectors against the texts that they are of. Some adapters give them the
// length 1.
func inOrder(t *testing.T, vectors [][]float32, texts []string) {
	t.Helper()
	if len(vectors) != len(texts) {
		t.Fatalf("%d vectors for %d texts", len(vectors), len(texts))
	}
	for i, v := range vectors {
		if got, want := v[0]/v[1], float32(len(texts[i])); len(v) != Dim || got < want*.999 || got > want*1.001 {
			t.Fatalf("vector %d is %v, of a text of %v bytes", i, v, want)
		}
	}
}

// request looks at what is sent, and holds it against the description where there is one.
func (a *Adapter) request(t *testing.T, schema *wiretest.Schema) {
	in := &standIn{}
	s := wiretest.Server(t, func(r *http.Request, body []byte) (int, string) {
		if r.Method != http.MethodPost || r.URL.RequestURI() != a.URI || r.Header.Get(a.Header) != a.Value || strings.Contains(r.URL.RequestURI(), wiretest.Key) {
			t.Errorf("%s %s %v", r.Method, r.URL.RequestURI(), r.Header)
		}
		for _, part := range a.Sends {
			if !strings.Contains(string(body), part) {
				t.Errorf("no %s in %s", part, body)
			}
		}
		if schema != nil {
			if err := schema.Check(a.complete(t, body)); err != nil {
				t.Error(err)
			}
		}
		return 200, in.answer(t, a, body)
	})
	source := a.source(t, s.URL)
	if source.Dim() != Dim || source.Model() != a.Model || source.Limits() != a.Limits {
		t.Errorf("%s, %d dimensions, %+v", source.Model(), source.Dim(), source.Limits())
	}
	texts := []string{"a", "Hello \u00e9 \"you\"\n", "<b>"}
	b, err := source.Call(t.Context(), texts)
	if err != nil || b.Tokens != a.Tokens || !slices.Equal(in.sizes, []int{3}) {
		t.Fatalf("%+v after calls %v, error %v", b, in.sizes, err)
	}
	inOrder(t, b.Vectors, texts)
}

func (a *Adapter) complete(t *testing.T, body []byte) []byte {
	t.Helper()
	if a.Complete == nil {
		return body
	}
	var object map[string]any
	if err := json.Unmarshal(body, &object); err != nil {
		t.Fatal(err)
	}
	a.Complete(object)
	b, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// batches sends as many texts and tokens as fit a call, and one more.
func (a *Adapter) batches(t *testing.T) {
	in := &standIn{}
	s := wiretest.Server(t, func(_ *http.Request, body []byte) (int, string) { return 200, in.answer(t, a, body) })
	e, err := embedders.New(a.source(t, s.URL), embedders.Options{CacheEntries: -1, Concurrency: 1})
	if err != nil {
		t.Fatal(err)
	}
	embed := func(texts []string, want ...int) {
		t.Helper()
		in.sizes = nil
		vectors, err := e.Embed(t.Context(), texts)
		if err != nil || !slices.Equal(in.sizes, want) {
			t.Fatalf("calls %v, want %v, error %v", in.sizes, want, err)
		}
		inOrder(t, vectors, texts)
	}
	var texts []string
	for i := range a.Limits.Texts + 1 {
		texts = append(texts, strings.Repeat("x", i%50+1))
	}
	embed(texts, a.Limits.Texts, 1)
	if a.Limits.Tokens > 0 {
		half := strings.Repeat("x", a.Limits.Tokens) // at two bytes a token
		embed([]string{half, half}, 1, 1)
		embed([]string{half, half[:a.Limits.Tokens-4]}, 2)
	}
}

// unusable has replies whose vectors cannot be used.
func (a *Adapter) unusable(t *testing.T) {
	for name, vectors := range map[string][]string{
		"none":               {},
		"too few":            {"[1,2,3]"},
		"too many":           {"[1,2,3]", "[1,2,3]", "[1,2,3]"},
		"too short":          {"[1,2,3]", "[1,2]"},
		"too long":           {"[1,2,3,4]", "[1,2,3]"},
		"NaN":                {"[1,NaN,3]", "[1,2,3]"},
		"null for a number":  {"[1,null,3]", "[1,2,3]"},
		"null for a vector":  {"null", "[1,2,3]"},
		"beyond a float32":   {"[1,2,1e39]", "[1,2,3]"},
		"zeros":              {"[1,2,3]", "[0,0,0]"},
		"text for a number":  {`["1",2,3]`, "[1,2,3]"},
		"no base64":          {`"!!!!"`, "[1,2,3]"},
		"base64 of a NaN":    {`"AADAfwAAgD8AAIA/"`, "[1,2,3]"},
		"base64 cut":         {`"AACAPwAAgD8AAIA="`, "[1,2,3]"},
		"one for each token": {"[[1,2,3],[1,2,3]]", "[[1,2,3]]"},
	} {
		s := wiretest.Server(t, func(*http.Request, []byte) (int, string) { return 200, a.Reply(vectors) })
		e, err := embedders.New(a.source(t, s.URL), embedders.Options{})
		if err != nil {
			t.Fatal(err)
		}
		made, err := e.Embed(t.Context(), []string{"one", "two"})
		if !errors.Is(err, fault.ErrEmbedder) || !strings.Contains(err.Error(), a.Provider) || made != nil {
			t.Errorf("%s: %v, error %v", name, made, err)
		}
		if f, ok := errors.AsType[*fault.Error](err); ok && f.Do == "" {
			t.Errorf("%s: %v: no next step", name, err)
		}
	}
}

// Refused wants an error of the configuration that says something, and no key.
func Refused(t *testing.T, s embedders.Source, err error, want string) {
	t.Helper()
	if s != nil && err == nil || !errors.Is(err, fault.ErrInvalid) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), wiretest.Key) {
		t.Errorf("%v, %v: want %q", s, err, want)
	}
}
