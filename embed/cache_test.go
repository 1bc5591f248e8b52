package embed

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
)

// lengths embeds a text as its length, and notes what it was asked for.
type lengths struct {
	mu    sync.Mutex
	asked [][]string
	err   error
	short bool
}

func (l *lengths) Dim() int      { return 2 }
func (l *lengths) Model() string { return "lengths" }

func (l *lengths) Embed(_ context.Context, texts []string) ([][]float32, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked = append(l.asked, slices.Clone(texts))
	var vecs [][]float32
	for _, t := range texts {
		vecs = append(vecs, []float32{float32(len(t)), 1})
	}
	if l.short {
		vecs = vecs[1:]
	}
	return vecs, l.err
}

func TestCache(t *testing.T) {
	inner := &lengths{}
	c := NewCache(inner, 2, 0)
	embed := func(want []string, texts ...string) {
		t.Helper()
		inner.asked = nil
		vecs, err := c.Embed(t.Context(), texts)
		if err != nil || len(vecs) != len(texts) {
			t.Fatalf("%q: %v, %v", texts, vecs, err)
		}
		for i, v := range vecs {
			if v[0] != float32(len(texts[i])) {
				t.Errorf("%q: %v", texts[i], v)
			}
			v[0] = -1 // the caller's own
		}
		var asked []string
		for _, a := range inner.asked {
			asked = append(asked, a...)
		}
		if !slices.Equal(asked, want) {
			t.Errorf("%q: asked for %q, want %q", texts, asked, want)
		}
	}
	embed([]string{"a", "bb"}, "a", "bb", "a") // each once
	embed(nil, "bb", "a")
	embed([]string{"ccc"}, "ccc") // in the place of bb
	embed(nil, "a")
	embed([]string{"bb"}, "bb")
	if b := c.Bytes(); b != c.Limit() || b == 0 {
		t.Errorf("%d bytes of %d", b, c.Limit())
	}

	inner.err = errors.New("no network")
	if _, err := c.Embed(t.Context(), []string{"a", "new"}); !errors.Is(err, inner.err) {
		t.Errorf("a failure: %v", err)
	}
	inner.err, inner.short = nil, true
	if _, err := c.Embed(t.Context(), []string{"new", "newer"}); err == nil {
		t.Error("too few vectors passed")
	}
	if c := NewCache(inner, 0, 1); c.entries != 1 {
		t.Errorf("%d entries in one byte", c.entries)
	}
}

func TestCacheConcurrently(t *testing.T) {
	c := NewCache(&lengths{}, 3, 0)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 500 {
				text := string(make([]byte, (g+i)%7+1))
				vecs, err := c.Embed(t.Context(), []string{text})
				if err != nil || vecs[0][0] != float32(len(text)) {
					t.Errorf("%d: %v, %v", len(text), vecs, err)
					return
				}
			}
		})
	}
	wg.Wait()
}
