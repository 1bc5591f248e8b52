package providertest

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

// Dim is the length of the vectors of all providers under test.
const Dim = 3

// Vectors is a provider of embeddings under test. Its vectors have Dim numbers.
type Vectors struct {
	Endpoint
	// Model is what the source calls itself, without the provider.
	Model string
	// Texts are those of a request.
	Texts func(body map[string]any) []any
	// Reply writes the reply of vectors, each of which is JSON.
	Reply func(vectors []string) string
	// Tokens are what Reply says it took; 0 if it does not say.
	Tokens int64
	// Limits are those of the provider.
	Limits embedders.Limits
	// Sends lists parts that each request must hold.
	Sends []string
}

// Run tests the provider.
func (a *Vectors) Run(t *testing.T) {
	t.Helper()
	a.Config.Dimensions = Dim
	a.described(t, a.request)
	t.Run("batches", a.batches)
	t.Run("unusable replies", a.unusable)
	wiretest.Faults(t, wiretest.Target{
		Provider: a.Provider.Name, Kind: fault.ErrEmbedder, Variable: a.Provider.Variable, Reply: a.Reply([]string{"[1,2,3]"}), Refuse: a.Refuse,
		Call: func(ctx context.Context, base string) error {
			s, err := a.Provider.NewSource(a.config(base))
			if err != nil {
				return err
			}
			_, err = s.Call(ctx, []string{"one"})
			return err
		},
	})
}

func (a *Vectors) source(t *testing.T, base string) embedders.Source {
	t.Helper()
	s, err := a.Provider.NewSource(a.config(base))
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

func (in *standIn) answer(t *testing.T, a *Vectors, body []byte) string {
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

// inOrder holds vectors against the texts that they are of. Some providers give them the
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

func (a *Vectors) request(t *testing.T, schema *wiretest.Schema) {
	in := &standIn{}
	s := wiretest.Server(t, func(r *http.Request, body []byte) (int, string) {
		a.check(t, r, body, schema, a.Sends)
		return 200, in.answer(t, a, body)
	})
	source := a.source(t, s.URL)
	if source.Dim() != Dim || source.Model() != a.Provider.Name+"/"+a.Model || source.Limits() != a.Limits {
		t.Errorf("%s, %d dimensions, %+v", source.Model(), source.Dim(), source.Limits())
	}
	texts := []string{"a", "Hello \u00e9 \"you\"\n", "<b>"}
	b, err := source.Call(t.Context(), texts)
	if err != nil || b.Tokens != a.Tokens || !slices.Equal(in.sizes, []int{3}) {
		t.Fatalf("%+v after calls %v, error %v", b, in.sizes, err)
	}
	inOrder(t, b.Vectors, texts)
}

// batches sends as many texts and tokens as fit a call, and one more.
func (a *Vectors) batches(t *testing.T) {
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
func (a *Vectors) unusable(t *testing.T) {
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
		if !errors.Is(err, fault.ErrEmbedder) || !strings.Contains(err.Error(), a.Provider.Name) || made != nil {
			t.Errorf("%s: %v, error %v", name, made, err)
		}
		if f, ok := errors.AsType[*fault.Error](err); ok && f.Do == "" {
			t.Errorf("%s: %v: no next step", name, err)
		}
	}
}
