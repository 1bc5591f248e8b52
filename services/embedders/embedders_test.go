package embedders

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-7aedc3ff/memdb/embed"
	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/retry"
	"github.com/seed-7aedc3ff/memdb/scope"
	"github.com/seed-7aedc3ff/memdb/services/httpjson"
	"github.com/seed-7aedc3ff/memdb/services/meter"
	"github.com/seed-7aedc3ff/memdb/usage"
)

// told is a Source of vectors that hold the length of the text; call may answer otherwise.
type told struct {
	limits Limits
	call   func(ctx context.Context, n int, texts []string) (*Batch, error)

	mu    sync.Mutex
	sizes []int // of the calls
}

func (s *told) Model() string  { return "told-1" }
func (s *told) Dim() int       { return 2 }
func (s *told) Limits() Limits { return s.limits }

func (s *told) Call(ctx context.Context, texts []string) (Batch, error) {
	s.mu.Lock()
	s.sizes = append(s.sizes, len(texts))
	n := len(s.sizes)
	s.mu.Unlock()
	if s.call != nil {
		if b, err := s.call(ctx, n, texts); b != nil || err != nil {
			return deref(b), err
		}
	}
	b := Batch{Tokens: int64(len(texts))}
	for _, text := range texts {
		b.Vectors = append(b.Vectors, []float32{float32(len(text)), 1})
	}
	return b, nil
}

func deref(b *Batch) Batch {
	if b == nil {
		return Batch{}
	}
	return *b
}

func texts(n int) (all []string) {
	for i := range n {
		all = append(all, strings.Repeat("x", i+1))
	}
	return all
}

func embedder(t *testing.T, s Source, o Options) embed.Embedder {
	t.Helper()
	e, err := New(s, o)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// inOrder holds vectors against the texts that they are of.
func inOrder(t *testing.T, vectors [][]float32, n int) {
	t.Helper()
	if len(vectors) != n {
		t.Fatalf("%d vectors, want %d", len(vectors), n)
	}
	for i, v := range vectors {
		if v[0] != float32(i+1) {
			t.Fatalf("vector %d is of the text of %v bytes", i, v[0])
		}
	}
}

func TestBatches(t *testing.T) {
	for _, c := range []struct {
		name   string
		limits Limits
		batch  int
		n      int
		want   []int
	}{
		{"by texts", Limits{Texts: 10}, 0, 25, []int{10, 10, 5}},
		{"configured", Limits{Texts: 10}, 5, 12, []int{5, 5, 2}},
		{"by tokens", Limits{Texts: 10, Tokens: 12}, 0, 8, []int{5, 2, 1}}, // tokens 1 2 2 3 3 | 4 4 | 5
		{"one too long", Limits{Texts: 10, Tokens: 1}, 0, 2, []int{1, 1}},
		{"none", Limits{Texts: 10}, 0, 0, nil},
	} {
		s := &told{limits: c.limits}
		vectors, err := embedder(t, s, Options{Batch: c.batch, Concurrency: 1, CacheEntries: -1}).Embed(t.Context(), texts(c.n))
		if err != nil || !slices.Equal(s.sizes, c.want) {
			t.Errorf("%s: batches %v, want %v, error %v", c.name, s.sizes, c.want, err)
		}
		inOrder(t, vectors, c.n)
	}
}

// TestHalves has a server that takes three texts and says only that more are too many.
func TestHalves(t *testing.T) {
	s := &told{limits: Limits{Texts: 32}, call: func(_ context.Context, _ int, texts []string) (*Batch, error) {
		if len(texts) > 3 {
			return nil, &fault.Error{Kind: fault.ErrEmbedder, What: "call", Cause: &httpjson.Refusal{Status: 422, Message: "batch size"}}
		}
		return nil, nil
	}}
	vectors, err := embedder(t, s, Options{CacheEntries: -1}).Embed(t.Context(), texts(10))
	if err != nil || !slices.Equal(s.sizes, []int{10, 5, 2, 3, 5, 2, 3}) {
		t.Errorf("calls %v, error %v", s.sizes, err)
	}
	inOrder(t, vectors, 10)
}

func TestRetryTiming(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &told{limits: Limits{Texts: 32}, call: func(_ context.Context, n int, _ []string) (*Batch, error) {
			return nil, []error{&retry.Transient{Err: errors.New("busy")}, &retry.Transient{Err: errors.New("busy"), After: 9 * time.Second}, nil}[n-1]
		}}
		begun := time.Now()
		vectors, err := embedder(t, s, Options{}).Embed(t.Context(), texts(2))
		if took := time.Since(begun); err != nil || took != 10*time.Second {
			t.Errorf("%s, error %v", took, err)
		}
		inOrder(t, vectors, 2)
	})
}

func TestHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &told{limits: Limits{Texts: 1}, call: func(ctx context.Context, _ int, _ []string) (*Batch, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}
		begun := time.Now()
		e := embedder(t, s, Options{Retry: retry.Policy{Times: 1}})
		_, err := e.Embed(t.Context(), texts(9))
		if took := time.Since(begun); !errors.Is(err, fault.ErrEmbedder) || !strings.Contains(err.Error(), "told-1: the embedder failed: no reply within 1m0s") || took != 121*time.Second {
			t.Errorf("%v after %s", err, took)
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		if _, err := e.Embed(ctx, texts(9)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the caller's time is over: %v", err)
		}
	})
}

// TestConcurrency embeds many batches at once, within the bound, and in order.
func TestConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &told{limits: Limits{Texts: 1}, call: func(context.Context, int, []string) (*Batch, error) {
			time.Sleep(time.Second)
			return nil, nil
		}}
		begun := time.Now()
		vectors, err := embedder(t, s, Options{Concurrency: 5, CacheEntries: -1}).Embed(t.Context(), texts(20))
		if took := time.Since(begun); err != nil || took != 4*time.Second {
			t.Errorf("%s, error %v", took, err)
		}
		inOrder(t, vectors, 20)
	})
}

func TestUnusableVectors(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, c := range []struct {
		name    string
		vectors [][]float32
		want    string
	}{
		{"too few", [][]float32{{1, 2}}, "1 vectors for 2 texts"},
		{"too many", [][]float32{{1, 2}, {1, 2}, {1, 2}}, "3 vectors for 2 texts"},
		{"too short", [][]float32{{1, 2}, {1}}, "vector 2 has 1 dimensions, not 2"},
		{"NaN", [][]float32{{1, 2}, {1, nan}}, "vector 2 holds a number"},
		{"infinite", [][]float32{{inf, 2}, {1, 2}}, "vector 1 holds a number"},
		{"zero", [][]float32{{0, 0}, {1, 2}}, "vector 1 is zero"},
	} {
		s := &told{limits: Limits{Texts: 9}, call: func(context.Context, int, []string) (*Batch, error) { return &Batch{Vectors: c.vectors}, nil }}
		vectors, err := embedder(t, s, Options{}).Embed(t.Context(), texts(2))
		if !errors.Is(err, fault.ErrEmbedder) || !strings.Contains(err.Error(), c.want) || vectors != nil || len(s.sizes) != 1 {
			t.Errorf("%s: %v after %d calls", c.name, err, len(s.sizes))
		}
	}
}

// TestCache counts the calls for texts that come again.
func TestCache(t *testing.T) {
	for _, c := range []struct{ entries, want int }{{0, 2}, {-1, 5}} {
		s := &told{limits: Limits{Texts: 100}}
		e := embedder(t, s, Options{CacheEntries: c.entries})
		for _, n := range []int{4, 4, 4, 6, 2} {
			vectors, err := e.Embed(t.Context(), texts(n))
			if err != nil {
				t.Fatal(err)
			}
			inOrder(t, vectors, n)
		}
		if len(s.sizes) != c.want {
			t.Errorf("%d entries: calls %v, want %d", c.entries, s.sizes, c.want)
		}
	}
}

func TestMeter(t *testing.T) {
	db, err := engine.OpenMemory(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	owner := scope.Owner{Agent: "house"}
	price, err := usage.ParseUSD("1000")
	if err != nil {
		t.Fatal(err)
	}
	limit, _ := usage.ParseUSD("0.0100")
	if err := db.Usage().SetBudget(t.Context(), usage.Budget{Owner: owner, Limit: limit}); err != nil {
		t.Fatal(err)
	}
	s := &told{limits: Limits{Texts: 100}}
	e := embedder(t, s, Options{Meter: &meter.Meter{Usage: db.Usage(), Owner: owner, Price: meter.Price{Prompt: price}}})
	for range 2 {
		if _, err := e.Embed(t.Context(), texts(3)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := e.Embed(t.Context(), []string{strings.Repeat("y", 100)}); !errors.Is(err, usage.ErrBudget) {
		t.Errorf("over the budget: %v", err)
	}
	got, err := db.Usage().Total(t.Context(), usage.Query{Owner: owner})
	if err != nil || got.Records != 1 || got.PromptTokens != 3 || got.Cost.String() != "0.003" || len(s.sizes) != 1 {
		t.Errorf("%+v after %d calls, error %v", got, len(s.sizes), err)
	}
}

func TestPanic(t *testing.T) {
	s := &told{limits: Limits{Texts: 1}, call: func(context.Context, int, []string) (*Batch, error) { panic("oh") }}
	if _, err := embedder(t, s, Options{}).Embed(t.Context(), texts(3)); !errors.Is(err, fault.ErrEmbedder) {
		t.Error(err)
	}
}

func TestBadInput(t *testing.T) {
	s := &told{limits: Limits{Texts: 9}}
	for name, o := range map[string]Options{
		"timeout": {Timeout: -1}, "concurrency": {Concurrency: 65}, "batch": {Batch: 10}, "retries": {Retry: retry.Policy{Times: 99}},
	} {
		if _, err := New(s, o); !errors.Is(err, fault.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	e := embedder(t, s, Options{})
	for _, text := range []string{"", strings.Repeat("x", MaxText+1)} {
		_, err := e.Embed(t.Context(), []string{"one", text})
		if want := fmt.Sprintf("text %d of %d", 2, 2); !errors.Is(err, fault.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%d bytes: %v", len(text), err)
		}
	}
	if len(s.sizes) != 0 {
		t.Error("a bad text was sent")
	}
}
