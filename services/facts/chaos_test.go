package facts_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/scope"
	"github.com/seed-7aedc3ff/memdb/services/facts"
	"github.com/seed-7aedc3ff/memdb/services/llm"
)

// chaotic is a model that decides at random, names what it was not offered, and at times
// fails. Every text that it makes begins with that of the fact, and so with its owner.
type chaotic struct {
	mu  sync.Mutex
	rng *rand.Rand
	ids []string // of facts of everyone
}

func (c *chaotic) Model() string { return "chaotic" }

func (c *chaotic) Generate(_ context.Context, r llm.Request) (llm.Reply, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	user := r.Messages[1].Text
	switch {
	case c.rng.IntN(20) == 0:
		return llm.Reply{}, errors.New("not now")
	case len(r.Tools) > 0:
		return llm.Reply{Text: fmt.Sprintf(`{"entities":[{"name":"%s","type":"person"}],"relations":[]}`, strings.Fields(user)[0])}, nil
	case !isDecision(r):
		var list []string
		for i := range 1 + c.rng.IntN(4) {
			list = append(list, fmt.Sprintf("%s %d", user, i))
		}
		return llm.Reply{Text: jsonList(list...)}, nil
	}
	fact, _ := readDecision(user)
	var operations []string
	for range c.rng.IntN(3) {
		id := fmt.Sprint(c.rng.IntN(7) - 1)
		if len(c.ids) > 0 && c.rng.IntN(3) == 0 {
			id = c.ids[c.rng.IntN(len(c.ids))]
		}
		event := []string{"ADD", "ADD", "UPDATE", "UPDATE", "DELETE", "NONE", "DROP"}[c.rng.IntN(7)]
		operations = append(operations, fmt.Sprintf(`{"event":%q,"id":%q,"data":"%s, %d"}`, event, id, fact, c.rng.IntN(9)))
	}
	return llm.Reply{Text: "[" + strings.Join(operations, ",") + "]"}, nil
}

// known is an ID of a fact of anyone.
func (c *chaotic) known(rng *rand.Rand) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.ids) == 0 {
		return "none"
	}
	return c.ids[rng.IntN(len(c.ids))]
}

func (c *chaotic) learn(results []facts.Result) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range results {
		c.ids = append(c.ids, r.ID)
	}
}

// TestChaos: whatever a model decides, and whoever else writes, no text of one user is ever
// with another, every history leads to its fact, and the database is sound.
func TestChaos(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	steps := 40
	if testing.Short() {
		steps = 12
	}
	m := &chaotic{rng: rand.New(rand.NewPCG(seed, 0))}
	f := open(t, facts.Config{DB: memoryDB(t, nil), LLM: m, Graph: true})
	users := []string{"alice", "bob", "carol"}
	var group sync.WaitGroup
	for worker := range 6 {
		rng := rand.New(rand.NewPCG(seed, uint64(worker+1)))
		group.Go(func() {
			for step := range steps {
				s := scope.Scope{User: users[rng.IntN(len(users))], Run: []string{"", "", "r"}[rng.IntN(3)]}
				if err := chaosStep(t.Context(), f, m, rng, s, fmt.Sprintf("%s w%d s%d", s.User, worker, step)); err != nil {
					t.Errorf("worker %d, step %d: %v", worker, step, err)
				}
			}
		})
	}
	group.Wait()
	n := 0
	for _, user := range users {
		n += checkOwned(t, f, user)
		checkLinked(t, f, scope.Owner{User: user})
	}
	sound(t, f.DB)
	t.Logf("%d facts are left", n)
	for _, user := range users {
		if _, err := f.DeleteAll(t.Context(), scope.Scope{User: user}); err != nil {
			t.Fatal(err)
		}
		s, err := f.DB.Graph().Stats(t.Context(), scope.Owner{User: user})
		if err != nil || s.Entities != 0 {
			t.Errorf("after delete_all %s has %+v, %v", user, s, err)
		}
	}
	sound(t, f.DB)
}

// chaosStep makes one call. What another user has is not found.
func chaosStep(ctx context.Context, f *facts.Facts, m *chaotic, rng *rand.Rand, s scope.Scope, text string) error {
	notFound := func(err error) error {
		if facts.ClassOf(err) == facts.NotFoundError {
			return nil
		}
		return err
	}
	switch rng.IntN(8) {
	case 0:
		_, err := f.Update(ctx, s, m.known(rng), text+" updated")
		return notFound(err)
	case 1:
		return notFound(f.Delete(ctx, s, m.known(rng)))
	case 2:
		_, err := f.DeleteAll(ctx, scope.Scope{User: s.User, Run: "r"})
		return err
	case 3:
		found, err := f.Search(ctx, s, "alice bob carol", nil)
		for _, item := range found.Results {
			if item.Scope.User != s.User || !strings.HasPrefix(item.Memory, s.User) {
				err = fmt.Errorf("%+v finds %+v", s, item)
			}
		}
		return err
	}
	added, err := f.Add(ctx, s, facts.Text(text), nil)
	m.learn(added.Results)
	return err
}

// checkOwned checks the facts of a user and their histories, and returns how many there are.
func checkOwned(t *testing.T, f *facts.Facts, user string) int {
	t.Helper()
	all, err := f.GetAll(t.Context(), scope.Scope{User: user}, &facts.SearchOptions{Limit: memory.MaxLimit})
	if err != nil {
		t.Fatal(err)
	}
	for _, item := range all.Results {
		if !strings.HasPrefix(item.Memory, user+" ") {
			t.Errorf("%s has %q", user, item.Memory)
		}
		h, err := f.History(t.Context(), item.Scope, item.ID)
		if err != nil || len(h) == 0 {
			t.Fatalf("history of %+v: %v, %v", item, h, err)
		}
		for i, r := range h {
			switch {
			case i == 0 && (r.Event != facts.Add || r.OldValue != nil),
				i > 0 && (r.Event != facts.Update || *r.OldValue != *h[i-1].NewValue),
				i == len(h)-1 && *r.NewValue != item.Memory,
				r.User != user || r.Run != item.Scope.Run:
				t.Errorf("record %d of %+v: %+v", i, item, r)
			}
		}
	}
	return len(all.Results)
}

// checkLinked checks that no entity has outlived its facts.
func checkLinked(t *testing.T, f *facts.Facts, o scope.Owner) {
	t.Helper()
	page, err := f.DB.Graph().List(t.Context(), graph.ListQuery{Owner: o})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range page.Entities {
		if ids, err := f.DB.Graph().Memories(t.Context(), o, e.ID); err != nil || len(ids) == 0 {
			t.Errorf("entity %q of %+v is linked to %q, %v", e.Name, o, ids, err)
		}
	}
}
