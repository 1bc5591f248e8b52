package recall_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/internal/recall"
	"github.com/seed-7aedc3ff/memdb/internal/selection"
	"github.com/seed-7aedc3ff/memdb/internal/spaces"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/internal/state/statetest"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/policy"
)

// host is a database of nothing but a state.
type host struct {
	st      *state.State
	spaces  *spaces.Set
	scopes  *selection.Cache
	touched []uint64
}

func newHost(t *testing.T, st *state.State) *host {
	t.Helper()
	h := &host{st: st, spaces: spaces.NewSet(spaces.Host{Limits: spaces.DefaultLimits()})}
	var err error
	if h.spaces.Lexical, err = spaces.NewLexical(); err != nil {
		t.Fatal(err)
	}
	h.scopes = &selection.Cache{Limit: 1 << 20, Spaces: h.spaces}
	return h
}

func (h *host) Spaces() *spaces.Set      { return h.spaces }
func (h *host) Scopes() *selection.Cache { return h.scopes }
func (h *host) Clock() time.Time         { return time.UnixMilli(h.st.Now) }
func (h *host) View() part.View          { return nil }
func (h *host) Graph() *graph.Part       { return nil }

func (h *host) Trust(s *spaces.Space) (policy.Trust, bool) { return s.Trust(), true }

func (h *host) Within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, d)
}

func (h *host) Load(v layout.Version, _ bool) (memory.Memory, error) {
	rec, err := h.st.Record(v)
	if err != nil {
		return memory.Memory{}, err
	}
	return memory.Memory{ID: rec.ID, Seq: v.Seq, Scope: rec.Scope, Text: rec.Text}, nil
}

func (h *host) Touch(seqs []uint64, _ int64) { h.touched = append(h.touched, seqs...) }

// TestAnswer: each profile ranks what the scope has, and nothing else; a turn beside a match is
// lent a part of its score; what was recalled is touched, unless the query says not to.
func TestAnswer(t *testing.T) {
	w := statetest.New(t)
	ada, bob := memory.Scope{User: "ada", Run: "r"}, memory.Scope{User: "bob", Run: "r"}
	for _, r := range []layout.Record{
		{ID: "before", Scope: ada, Text: "shall we go somewhere?"},
		{ID: "match", Scope: ada, Text: "the old lighthouse stands behind the harbour of Porto, across the river"},
		{ID: "both", Scope: ada, Text: "Porto, Porto and its lighthouse"},
		{ID: "other", Scope: ada, Text: "nothing of that"},
		{ID: "foreign", Scope: bob, Text: "Porto lighthouse Porto lighthouse"},
	} {
		w.Add(r)
	}
	h := newHost(t, w.State(1000))
	ask := func(q memory.Query) []string {
		t.Helper()
		q.Scope, q.Text = memory.Scope{User: "ada"}, "Porto lighthouse"
		if err := q.Complete("recall"); err != nil {
			t.Fatal(err)
		}
		result, _, err := recall.Answer(t.Context(), h, h.st, &q, "")
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for i, hit := range result.Hits {
			ids = append(ids, hit.ID)
			if i > 0 && hit.Score > result.Hits[i-1].Score {
				t.Errorf("%s: %v after %v", q.Profile, hit.Score, result.Hits[i-1].Score)
			}
		}
		return ids
	}
	if ids := ask(memory.Query{Profile: memory.ProfileText}); !slices.Equal(ids, []string{"both", "match"}) {
		t.Errorf("text: %q", ids)
	}
	if want := []uint64{3, 2}; !slices.Equal(h.touched, want) {
		t.Errorf("touched %d, want %d", h.touched, want)
	}
	h.touched = nil
	if ids := ask(memory.Query{NoTouch: true}); !slices.Equal(ids[:2], []string{"both", "match"}) || len(ids) != 4 {
		t.Errorf("best: %q", ids)
	}
	if ids := ask(memory.Query{Profile: memory.ProfileHybrid, NoTouch: true}); len(ids) != 4 || slices.Contains(ids, "foreign") {
		t.Errorf("hybrid: %q", ids)
	}
	if len(h.touched) != 0 {
		t.Errorf("touched %d", h.touched)
	}
}
