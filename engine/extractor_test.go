package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/mention"
)

// odd is an extractor that does what a test wants.
type odd func(ctx context.Context, text string) (mention.Found, error)

func (odd) Name() string { return "odd-1" }

func (o odd) Extract(ctx context.Context, text string) (mention.Found, error) { return o(ctx, text) }

func manyEntities(n int) (f mention.Found) {
	for i := range n {
		f.Entities = append(f.Entities, mention.Entity{Name: fmt.Sprint("n", i), Type: "person"})
	}
	return f
}

// TestExtractorRefusesWhatCannotBeStored names the extractor and the reason.
func TestExtractorRefusesWhatCannotBeStored(t *testing.T) {
	boom := errors.New("boom")
	for want, x := range map[string]odd{
		"a panic":         func(context.Context, string) (mention.Found, error) { panic("no fingers") },
		"boom":            func(context.Context, string) (mention.Found, error) { return mention.Found{}, boom },
		"100000 entities": func(context.Context, string) (mention.Found, error) { return manyEntities(100_000), nil },
		"control characters": func(context.Context, string) (mention.Found, error) {
			return mention.Found{Entities: []mention.Entity{{Name: "a\x00b", Type: "person"}}}, nil
		},
		"none of the seven": func(context.Context, string) (mention.Found, error) {
			return mention.Found{Entities: []mention.Entity{{Name: "a", Type: "cat"}}}, nil
		},
		"a description": func(context.Context, string) (mention.Found, error) {
			return mention.Found{Entities: []mention.Entity{{Name: "a", Type: "person", Description: strings.Repeat("d", 2000)}}}, nil
		},
		"an end that is no": func(context.Context, string) (mention.Found, error) {
			return mention.Found{Relations: []mention.Relation{{Source: "a", Relation: "b", Target: "c"}}}, nil
		},
		"relations of one te": func(context.Context, string) (mention.Found, error) {
			return mention.Found{Relations: make([]mention.Relation, 2000)}, nil
		},
	} {
		_, err := newExtractor(x).extract(t.Context(), "text")
		if !errors.Is(err, fault.ErrExtractor) || !strings.Contains(err.Error(), "odd-1") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	if f, err := newExtractor(odd(func(context.Context, string) (mention.Found, error) { return manyEntities(mention.MaxEntities), nil })).extract(t.Context(), "x"); err != nil || len(f.Entities) != mention.MaxEntities {
		t.Error(len(f.Entities), err)
	}
}

// TestExtractorLeavesWhatHangs waits for an extractor as long as it has extractorPatience, and calls it no
// more while four calls hang.
func TestExtractorLeavesWhatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		r := newExtractor(odd(func(context.Context, string) (mention.Found, error) {
			<-release
			return manyEntities(1), nil
		}))
		for range mostHung {
			began := time.Now()
			if _, err := r.extract(t.Context(), "x"); !errors.Is(err, fault.ErrExtractor) || !strings.Contains(err.Error(), "within 30s") || time.Since(began) != extractorPatience {
				t.Fatal(err, time.Since(began))
			}
		}
		began := time.Now()
		if _, err := r.extract(t.Context(), "x"); !errors.Is(err, fault.ErrExtractor) || !strings.Contains(err.Error(), "have not returned") || time.Since(began) != 0 {
			t.Fatal(err)
		}
		close(release)
		synctest.Wait()
		if f, err := r.extract(t.Context(), "x"); err != nil || len(f.Entities) != 1 {
			t.Error(f, err)
		}
	})
}

// TestExtractorEndsWithItsContext returns the error of the caller's context.
func TestExtractorEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := newExtractor(odd(func(ctx context.Context, _ string) (mention.Found, error) {
			<-ctx.Done()
			return mention.Found{}, ctx.Err()
		})).extract(ctx, "x")
		synctest.Wait()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}
