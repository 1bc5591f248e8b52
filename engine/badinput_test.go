package engine

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/race"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// TestBadInput: everything that can be wrong with a call is an error of its kind
// that says what, why and what to do, and changes nothing.
func TestBadInput(t *testing.T) {
	race.Sequential(t)
	db, err := openOn(vfs.NewMem(), "db", Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	ada := memory.Scope{User: "ada"}
	good := memory.Memory{ID: "one", Scope: ada, Text: "prefers tea", Embedding: []float32{1, 2, 3}}
	if _, err := db.Memories().Store(t.Context(), good, nil); err != nil {
		t.Fatal(err)
	}
	before := snapshotOf(t, db)

	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	deep := map[string]any{}
	for range 1000 {
		deep = map[string]any{"in": deep}
	}
	store := func(m memory.Memory) func(context.Context) error {
		return func(ctx context.Context) error {
			if m.Scope == (memory.Scope{}) {
				m.Scope = ada
			}
			_, err := db.Memories().Store(ctx, m, nil)
			return err
		}
	}
	recall := func(q memory.Query) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := db.Memories().Recall(ctx, q)
			return err
		}
	}
	list := func(q memory.ListQuery) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := db.Memories().List(ctx, q)
			return err
		}
	}
	patch := func(p memory.Patch) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := db.Memories().Update(ctx, ada, "one", p)
			return err
		}
	}
	share := 1.5
	for _, c := range []struct {
		name string
		call func(context.Context) error
		kind error
		says []string // parts of the message
	}{
		{"empty text, no vector", store(memory.Memory{}), fault.ErrInvalid, []string{"neither a text nor a vector"}},
		{"text over the limit", store(memory.Memory{Text: strings.Repeat("x", memory.MaxText+1)}), fault.ErrInvalid, []string{"8388609", "8388608"}},
		{"invalid UTF-8", store(memory.Memory{Text: "ab\xff"}), fault.ErrInvalid, []string{"UTF-8", "byte 2"}},
		{"NaN", store(memory.Memory{Text: "x", Embedding: []float32{1, nan, 3}}), fault.ErrInvalid, []string{"default"}},
		{"infinite", store(memory.Memory{Text: "x", Embedding: []float32{1, inf, 3}}), fault.ErrInvalid, []string{"default"}},
		{"zero vector", store(memory.Memory{Text: "x", Embedding: []float32{0, 0, 0}}), fault.ErrInvalid, []string{"default"}},
		{"wrong dimension", store(memory.Memory{Text: "x", Embedding: []float32{1, 2}}), fault.ErrInvalid, []string{"2 dimensions", "have 3"}},
		{"empty vector", store(memory.Memory{Text: "x", Embedding: []float32{}}), fault.ErrInvalid, nil},
		{"dimension over the limit", store(memory.Memory{Text: "x", Vectors: map[string][]float32{"big": make([]float32, memory.MaxDim+1)}}), fault.ErrInvalid, []string{"4096"}},
		{"vector twice", store(memory.Memory{Text: "x", Embedding: []float32{1, 2, 3}, Vectors: map[string][]float32{"default": {1, 2, 3}}}), fault.ErrInvalid, []string{"default"}},
		{"reserved space", store(memory.Memory{Text: "x", Vectors: map[string][]float32{"lexical": {1}}}), fault.ErrInvalid, []string{"lexical"}},
		{"no scope", func(ctx context.Context) error {
			_, err := db.Memories().Store(ctx, memory.Memory{Text: "x"}, nil)
			return err
		}, fault.ErrScope, []string{"At least one of user_id, agent_id, or run_id must be provided"}},
		{"control characters in an ID", store(memory.Memory{ID: "a\nb", Text: "x"}), fault.ErrInvalid, []string{"control character"}},
		{"ID over the limit", store(memory.Memory{ID: strings.Repeat("x", valid.MaxID+1), Text: "x"}), fault.ErrInvalid, []string{"513", "512"}},
		{"scope over the limit", store(memory.Memory{Scope: memory.Scope{Run: strings.Repeat("x", valid.MaxID+1)}, Text: "x"}), fault.ErrInvalid, []string{"run"}},
		{"scope that is no UTF-8", store(memory.Memory{Scope: memory.Scope{Agent: "\xff"}, Text: "x"}), fault.ErrInvalid, []string{"agent"}},
		{"unknown role", store(memory.Memory{Text: "x", Role: "robot"}), fault.ErrInvalid, []string{"robot", "assistant"}},
		{"unknown kind", store(memory.Memory{Text: "x", Kind: "idea"}), fault.ErrInvalid, []string{"idea", "fragment"}},
		{"importance above 1", store(memory.Memory{Text: "x", Importance: &share}), fault.ErrInvalid, []string{"importance", "1.5"}},
		{"metadata 1,000 deep", store(memory.Memory{Text: "x", Metadata: deep}), fault.ErrInvalid, []string{"32"}},
		{"metadata over the limit", store(memory.Memory{Text: "x", Metadata: map[string]any{"k": strings.Repeat("x", memory.MaxMetadata)}}), fault.ErrInvalid, []string{"262144"}},
		{"metadata that is no JSON", store(memory.Memory{Text: "x", Metadata: map[string]any{"k": func() {}}}), fault.ErrInvalid, []string{"JSON"}},
		{"metadata with NaN", store(memory.Memory{Text: "x", Metadata: map[string]any{"k": math.NaN()}}), fault.ErrInvalid, []string{"NaN"}},
		{"metadata that is no UTF-8", store(memory.Memory{Text: "x", Metadata: map[string]any{"k": "\xff"}}), fault.ErrInvalid, []string{"UTF-8"}},
		{"too many aliases", store(memory.Memory{Text: "x", Aliases: make([]string, memory.MaxAliases+1)}), fault.ErrInvalid, []string{"64"}},
		{"ID taken", store(memory.Memory{ID: "one", Text: "another"}), fault.ErrExists, []string{"one", "Upsert"}},
		{"get what is not there", func(ctx context.Context) error {
			_, err := db.Memories().Get(ctx, ada, "two")
			return err
		}, fault.ErrNotFound, []string{"two"}},
		{"get from another scope", func(ctx context.Context) error {
			_, err := db.Memories().Get(ctx, memory.Scope{User: "bob"}, "one")
			return err
		}, fault.ErrNotFound, nil},
		{"delete what is not there", func(ctx context.Context) error {
			return db.Memories().Delete(ctx, ada, "two")
		}, fault.ErrNotFound, []string{"two"}},
		{"delete without a scope", func(ctx context.Context) error {
			_, err := db.Memories().DeleteScope(ctx, memory.Scope{})
			return err
		}, fault.ErrScope, nil},
		{"update to nothing", patch(memory.Patch{Text: new("")}), fault.ErrInvalid, []string{"neither a text nor a vector"}},
		{"update with a wrong dimension", patch(memory.Patch{Embedding: []float32{1}}), fault.ErrInvalid, []string{"1 dimensions", "have 3"}},
		{"update with an unknown role", patch(memory.Patch{Role: new(memory.Role("robot"))}), fault.ErrInvalid, nil},
		{"limit -1", recall(memory.Query{Scope: ada, Text: "tea", Limit: -1}), fault.ErrInvalid, []string{"-1", "10000"}},
		{"limit 10^9", recall(memory.Query{Scope: ada, Text: "tea", Limit: 1e9}), fault.ErrInvalid, []string{"1000000000"}},
		{"list limit -1", list(memory.ListQuery{Scope: ada, Limit: -1}), fault.ErrInvalid, []string{"-1"}},
		{"list without a scope", list(memory.ListQuery{}), fault.ErrScope, nil},
		{"recall without a scope", recall(memory.Query{Text: "tea"}), fault.ErrScope, nil},
		{"recall without a query", recall(memory.Query{Scope: ada}), fault.ErrInvalid, []string{"neither"}},
		{"recall with a wrong dimension", recall(memory.Query{Scope: ada, Embedding: []float32{1}}), fault.ErrInvalid, []string{"1 dimensions", "have 3"}},
		{"recall with NaN", recall(memory.Query{Scope: ada, Embedding: []float32{1, nan, 1}}), fault.ErrInvalid, nil},
		{"unknown profile", recall(memory.Query{Scope: ada, Text: "tea", Profile: "magic"}), fault.ErrInvalid, []string{"magic", "hybrid"}},
		{"unknown space without a vector", recall(memory.Query{Scope: ada, Text: "tea", Space: "big"}), fault.ErrInvalid, []string{"big"}},
		{"filter without a field", list(memory.ListQuery{Scope: ada, Filter: filter.Condition{}}), fault.ErrInvalid, nil},
		{"filter by a list", list(memory.ListQuery{Scope: ada, Filter: filter.Eq("tag", []any{"a"})}), fault.ErrInvalid, []string{"tag"}},
		{"filter by pointer", list(memory.ListQuery{Scope: ada, Filter: &filter.Condition{Field: "tag", Values: []any{"a"}}}), fault.ErrInvalid, []string{"by value"}},
		{"nil pointer as a filter", list(memory.ListQuery{Scope: ada, Filter: filter.Or((*filter.Negation)(nil))}), fault.ErrInvalid, []string{"by value"}},
		{"filter with a nil part", list(memory.ListQuery{Scope: ada, Filter: filter.And(nil)}), fault.ErrInvalid, nil},
		{"filter of 20,000 values", list(memory.ListQuery{Scope: ada, Filter: filter.In("tag", make([]any, 20_000)...)}), fault.ErrInvalid, []string{"10000"}},
		{"write in a View", func(ctx context.Context) error {
			return db.View(ctx, func(tx *Tx) error {
				_, err := tx.Memories().Store(ctx, memory.Memory{Scope: ada, Text: "x"}, nil)
				return err
			})
		}, fault.ErrReadOnly, []string{"Update"}},
		{"a Tx over its changes", func(ctx context.Context) error {
			return db.Update(ctx, func(tx *Tx) error {
				batch := make([]memory.Memory, 10_000)
				for i := range batch {
					batch[i] = memory.Memory{Scope: ada, Text: "x"}
				}
				for range MaxTxChanges/len(batch) + 1 {
					if _, err := tx.Memories().StoreBatch(ctx, batch, &memory.StoreOptions{NoDedup: true}); err != nil {
						return err
					}
				}
				return nil
			})
		}, fault.ErrTxTooLarge, []string{"100000"}},
		{"a Tx over its bytes", func(ctx context.Context) error {
			return db.Update(ctx, func(tx *Tx) error {
				for i := range 10 {
					text := strings.Repeat(string(rune('a'+i)), memory.MaxText)
					if _, err := tx.Memories().Store(ctx, memory.Memory{Scope: ada, Text: text}, nil); err != nil {
						return err
					}
				}
				return nil
			})
		}, fault.ErrTxTooLarge, []string{"67108864"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := c.call(t.Context())
			if !errors.Is(err, c.kind) {
				t.Fatalf("error %v, want the kind %v", err, c.kind)
			}
			typed, ok := errors.AsType[*fault.Error](err)
			if !ok || typed.What == "" {
				t.Errorf("%v does not say what was being done", err)
			}
			for _, part := range c.says {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not say %q", err, part)
				}
			}
		})
	}
	if after := snapshotOf(t, db); after != before {
		t.Errorf("the database changed: %s, was %s", after, before)
	}
}

// snapshotOf is the whole content of a small database.
func snapshotOf(t *testing.T, db *DB) string {
	t.Helper()
	var b strings.Builder
	for m, err := range db.Memories().All(t.Context(), memory.ListQuery{AllScopes: true, WithVectors: true}) {
		if err != nil {
			t.Fatal(err)
		}
		b.WriteString(m.ID + " " + m.Text + " " + m.UpdatedAt.String() + "\n")
	}
	r, err := db.Check(t.Context())
	if err != nil || !r.OK {
		t.Fatal(r, err)
	}
	return b.String()
}

// TestErrorForm: what: why; what to do.
func TestErrorForm(t *testing.T) {
	err := &fault.Error{Kind: fault.ErrInvalid, What: "store a memory", Why: "its text is too long", Do: "split it"}
	if got, want := err.Error(), "store a memory: its text is too long; split it"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	cause := errors.New("no space left")
	err = &fault.Error{Kind: fault.ErrFailed, What: "use the database", Why: "it has failed", Cause: cause, Do: "close it"}
	if got, want := err.Error(), "use the database: it has failed: no space left; close it"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if !errors.Is(err, fault.ErrFailed) || !errors.Is(err, cause) {
		t.Error("kind or cause is not wrapped")
	}
}
