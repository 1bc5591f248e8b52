package changefeed_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/entries"
	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/testdb"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/policy"
	"github.com/seed-7aedc3ff/memdb/scope"
	"github.com/seed-7aedc3ff/memdb/sessions"
	"github.com/seed-7aedc3ff/memdb/usage"
	"github.com/seed-7aedc3ff/memdb/wal"
)

// mirror is what a consumer makes of changes.
type mirror struct {
	memories map[uint64]memory.Memory
	entries  map[string]string // by owner and key
}

func newMirror() *mirror {
	return &mirror{map[uint64]memory.Memory{}, map[string]string{}}
}

// apply is all that a consumer has to know.
func (m *mirror) apply(c *wal.Change) {
	owner := c.User + "/" + c.Agent + "/"
	switch c.Op {
	case wal.OpAdd, wal.OpUpdate, wal.OpRestore:
		m.memories[c.Seq] = *c.After.(*memory.Memory)
	case wal.OpDelete, wal.OpEvict, wal.OpExpire, wal.OpMerge:
		delete(m.memories, c.Seq)
	case wal.OpReset:
		clear(m.memories)
		clear(m.entries)
	case wal.OpEntryPut:
		m.entries[owner+c.ID] = string(c.After.(entries.Line).Value)
	case wal.OpEntryDelete:
		delete(m.entries, owner+c.ID)
	case wal.OpEntryDeleteAll:
		for k := range m.entries {
			if strings.HasPrefix(k, owner) {
				delete(m.entries, k)
			}
		}
	}
}

// lineOf is what of a memory a version says, as a line.
func lineOf(m *memory.Memory) string {
	b, _ := json.Marshal([]any{m.ID, m.Seq, m.Scope, m.Role, m.Kind, m.Text, m.Name, m.Metadata, m.Pinned, m.Importance, m.ExpiresAt, m.UpdatedAt, m.CreatedAt})
	return string(b)
}

// shown is what a mirror shows at a time, in lines.
func (m *mirror) shown(now time.Time) []string {
	lines := []string{}
	for _, mem := range m.memories {
		if mem.ExpiresAt.IsZero() || mem.ExpiresAt.After(now) {
			lines = append(lines, lineOf(&mem))
		}
	}
	for k, v := range m.entries {
		lines = append(lines, k+"="+v)
	}
	slices.Sort(lines)
	return lines
}

// stand is what a database showed as of an LSN.
type stand struct {
	lsn   uint64
	at    time.Time
	lines []string
}

func standOf(t *testing.T, db *engine.DB, now time.Time) (s stand) {
	t.Helper()
	ctx := t.Context()
	err := db.View(ctx, func(tx *engine.Tx) error {
		s = stand{lsn: tx.LSN(), at: now, lines: []string{}}
		for m, err := range tx.Memories().All(ctx, memory.ListQuery{AllScopes: true}) {
			if err != nil {
				return err
			}
			s.lines = append(s.lines, lineOf(&m))
		}
		owners, err := tx.KV().Owners(ctx)
		for _, o := range owners {
			for e, err := range tx.KV().All(ctx, entries.Query{Owner: o}) {
				if err != nil {
					return err
				}
				s.lines = append(s.lines, o.User+"/"+o.Agent+"/"+e.Key+"="+string(e.Value))
			}
		}
		slices.Sort(s.lines)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// readChanges reads all changes from an LSN on.
func readChanges(t *testing.T, db *engine.DB, from uint64, o *engine.ChangesOptions) (all []wal.Change) {
	t.Helper()
	for c, err := range db.Changes(t.Context(), from, o) {
		if err != nil {
			t.Fatalf("changes from %d: %v", from, err)
		}
		all = append(all, c)
	}
	return all
}

// mustMirror applies changes and compares with what the database showed.
func mustMirror(t *testing.T, what string, all []wal.Change, stands []stand) {
	t.Helper()
	m, next := newMirror(), 0
	for _, s := range stands {
		for ; next < len(all) && all[next].LSN <= s.lsn; next++ {
			m.apply(&all[next])
		}
		got := m.shown(s.at)
		if !slices.Equal(got, s.lines) {
			t.Fatalf("%s: as of LSN %d\n%s\nwant\n%s", what, s.lsn, strings.Join(got, "\n"), strings.Join(s.lines, "\n"))
		}
	}
}

// writer of random changes of every public kind.
type changer struct {
	t      *testing.T
	db     *engine.DB
	clock  *testdb.Clock
	r      *rand.Rand
	known  []memory.Memory
	undone []uint64
	n      int
}

func (c *changer) scope() memory.Scope {
	return []memory.Scope{{User: "ada"}, {User: "ada", Agent: "coach"}, {Agent: "coach", Run: "r1"}, {User: "ben", Run: "r2"}}[c.r.IntN(4)]
}

func (c *changer) memory() memory.Memory {
	c.n++
	m := memory.Memory{ID: fmt.Sprintf("m%d", c.r.IntN(60)), Scope: c.scope(), Text: fmt.Sprintf("a text of words number %d", c.r.IntN(40)), Kind: memory.KindFact, Metadata: map[string]any{"n": c.n}}
	if c.r.IntN(8) == 0 {
		m.ID = ""
	}
	if c.r.IntN(10) == 0 {
		m.ExpiresAt = c.clock.Now().Add(time.Duration(c.r.IntN(5)+1) * time.Hour)
	}
	return m
}

func (c *changer) any() (memory.Scope, string) {
	m := c.known[c.r.IntN(len(c.known))]
	return m.Scope, m.ID
}

// may fails on errors that are no answer.
func (c *changer) may(err error) {
	c.t.Helper()
	for _, kind := range []error{nil, fault.ErrNotFound, fault.ErrExists, fault.ErrAmbiguous, fault.ErrNotRetained, fault.ErrInvalid, fault.ErrEmbedder} {
		if err == nil || errors.Is(err, kind) {
			return
		}
	}
	c.t.Fatal(err)
}

func (c *changer) step() {
	ctx, m, db := c.t.Context(), c.db.Memories(), c.db
	c.clock.Advance(time.Duration(c.r.IntN(60)) * time.Minute)
	add := func(m memory.Memory, st memory.Stored, err error) {
		c.may(err)
		if err == nil {
			m.ID = st.ID
			c.known = append(c.known, m)
		}
	}
	if len(c.known) == 0 {
		mem := c.memory()
		st, err := m.Store(ctx, mem, nil)
		add(mem, st, err)
		return
	}
	s, id := c.any()
	text := fmt.Sprintf("another text number %d", c.r.IntN(1000))
	switch c.r.IntN(20) {
	case 0, 1, 2, 3, 4, 5:
		mem := c.memory()
		st, err := m.Store(ctx, mem, &memory.StoreOptions{Upsert: c.r.IntN(2) == 0})
		add(mem, st, err)
	case 6, 7:
		c.may(second(m.Update(ctx, s, id, memory.Patch{Text: &text})))
	case 8:
		c.may(second(m.Update(ctx, s, id, memory.Patch{Pinned: new(c.r.IntN(2) == 0)})))
	case 9, 10:
		c.may(m.Delete(ctx, s, id))
	case 11:
		if c.r.IntN(3) == 0 {
			c.may(second(m.DeleteScope(ctx, c.scope())))
		}
	case 12:
		c.may(second(m.DeleteMatching(ctx, memory.DeleteQuery{Scope: c.scope(), Filter: filter.Lt("metadata.n", c.n/2)})))
	case 13: // several in one commit: what one has made, the next one changes
		c.may(db.Update(ctx, func(tx *engine.Tx) error {
			st, err := tx.Memories().Store(ctx, memory.Memory{Scope: s, Text: text}, nil)
			if err != nil {
				return err
			}
			if _, err := tx.Memories().Update(ctx, s, st.ID, memory.Patch{MergeMetadata: map[string]any{"twice": true}}); err != nil {
				return err
			}
			if c.r.IntN(2) == 0 {
				return tx.Memories().Delete(ctx, s, st.ID)
			}
			if c.r.IntN(3) == 0 {
				_, err = tx.Memories().DeleteScope(ctx, s)
			}
			return err
		}))
	case 14:
		e, err := db.Evict(ctx, &engine.EvictOptions{Scope: memory.Scope{User: "ada"}, Cap: new(int64(c.r.IntN(12)))})
		c.may(err)
		c.undone = append(c.undone, e.LSN)
	case 15:
		r, err := db.Consolidate(ctx, nil)
		c.may(err)
		c.undone = append(c.undone, r.LSN)
	case 16:
		if len(c.undone) > 0 {
			c.may(second(db.Undo(ctx, c.undone[c.r.IntN(len(c.undone))])))
		}
	case 17:
		c.may(second(db.KV().Put(ctx, s.Owner(), fmt.Sprintf("k%d", c.r.IntN(6)), c.n, nil)))
		c.may(db.KV().Delete(ctx, s.Owner(), fmt.Sprintf("k%d", c.r.IntN(6))))
	case 18:
		switch c.r.IntN(6) {
		case 0:
			c.may(second(db.DeleteOwner(ctx, s.Owner())))
		case 1:
			c.may(second(db.Evict(ctx, nil))) // what has expired
		case 2:
			c.may(second(m.Restore(ctx, []memory.Life{{History: []memory.HistoryEntry{
				{MemoryID: id, Scope: s, Event: memory.EventAdd, NewText: &text, Time: c.clock.Now().Add(-time.Hour)},
				{MemoryID: id, Scope: s, Event: memory.EventDelete, Time: c.clock.Now()},
			}}}, nil)))
		case 3:
			testdb.Compact(c.t, db)
		case 4:
			c.may(second(db.EmbedPending(ctx, 0)))
		}
	case 19:
		c.others(ctx, s)
	}
}

// others changes what a mirror does not keep.
func (c *changer) others(ctx context.Context, s memory.Scope) {
	o, db := s.Owner(), c.db
	a, b := fmt.Sprintf("e%d", c.r.IntN(5)), fmt.Sprintf("e%d", c.r.IntN(5))
	_, err := db.Graph().Put(ctx, o, graph.Entity{ID: a, Type: "person", Name: a}, []graph.Edge{{Target: b, Type: "knows"}}, nil)
	c.may(err)
	switch c.r.IntN(5) {
	case 0:
		c.may(second(db.Graph().Delete(ctx, o, b)))
	case 1:
		c.may(second(db.Graph().Merge(ctx, o, a, b)))
	case 2:
		c.may(db.Graph().End(ctx, o, a, "knows", b, ""))
	}
	c.may(second(db.Sessions().Append(ctx, o, "run", []sessions.Message{{Role: "user", Text: "said " + a}}, &sessions.AppendOptions{NoMemory: c.r.IntN(2) == 0})))
	c.may(second(db.Usage().Add(ctx, usage.Record{Owner: o, Model: "m", PromptTokens: 1, Time: c.clock.Now()}, nil)))
}

// TestMirror: who applies the changes has what the database showed as of each LSN; read at
// once, after the clean-up, from other places on, and after a reopening.
func TestMirror(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			fs, clock := vfs.NewMem(), testdb.NewClock()
			embedder := &fakeEmbedder{}
			o := engine.Options{Clock: clock.Now, Embedder: embedder}
			db := testdb.Open(t, fs, o)
			c := &changer{t: t, db: db, clock: clock, r: rand.New(rand.NewPCG(seed, 1))}
			var stands []stand
			for n := range 150 {
				embedder.away.Store(false)
				if n%3 == 0 { // what is stored waits for its vector
					embedder.away.Store(true)
				}
				c.step()
				stands = append(stands, standOf(t, db, clock.Now()))
				if n == 60 {
					mustMirror(t, "amid", readChanges(t, db, 0, nil), stands)
				}
			}
			first := readChanges(t, db, 1, nil)
			mustMirror(t, "at once", first, stands)
			testdb.Compact(t, db)
			mustMirror(t, "cleaned up", readChanges(t, db, 0, nil), stands)
			resumed(t, db, first, c.r)
			testdb.Close(t, db)
			db = testdb.Open(t, fs, o)
			again := readChanges(t, db, 1, nil)
			mustMirror(t, "reopened", again, stands)
			places := func(all []wal.Change) (out []string) {
				for i := range all {
					out = append(out, fmt.Sprintf("%d.%d %s %d", all[i].LSN, all[i].Number, all[i].Op, all[i].Seq))
				}
				return out
			}
			testdb.Equal(t, "after a reopening", places(again[:len(first)]), places(first))
		})
	}
}

// resumed reads the changes by two consumers that stop and go on anywhere.
func resumed(t *testing.T, db *engine.DB, all []wal.Change, r *rand.Rand) {
	t.Helper()
	for range 2 {
		o, lsn, at := &engine.ChangesOptions{}, uint64(1), 0
		for at < len(all) {
			left := r.IntN(40) + 1
			for c, err := range db.Changes(t.Context(), lsn, o) {
				if err != nil {
					t.Fatal(err)
				}
				if at == len(all) {
					break
				}
				if want := &all[at]; c.LSN != want.LSN || c.Number != want.Number || c.Op != want.Op || c.Seq != want.Seq {
					t.Fatalf("went on with %d.%d %s of %d, want %d.%d %s of %d", c.LSN, c.Number, c.Op, c.Seq, want.LSN, want.Number, want.Op, want.Seq)
				}
				at++
				lsn, o.Number = c.LSN, c.Number+1
				if left--; left == 0 {
					break
				}
			}
		}
	}
}

// TestFollow: a follower beside eight writers sees each memory once, in the order of LSNs,
// with what it says; and ends with its context.
func TestFollow(t *testing.T) {
	for _, d := range []engine.Durability{engine.Durable, engine.Buffered} {
		db := testdb.Open(t, vfs.NewMem(), engine.Options{Durability: d})
		const writers, each = 8, 25
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		seen := map[string]string{}
		wg.Go(func() {
			last, ended := uint64(0), error(nil)
			for c, err := range db.Changes(ctx, 1, &engine.ChangesOptions{Follow: true}) {
				if ended = err; err != nil {
					break
				}
				if c.LSN < last {
					t.Errorf("LSN %d after %d", c.LSN, last)
				}
				last = c.LSN
				m := c.After.(*memory.Memory)
				if _, twice := seen[m.ID]; twice || c.Op != wal.OpAdd || c.ID != m.ID {
					t.Errorf("%s of %q, which came before: %v", c.Op, c.ID, twice)
				}
				if seen[m.ID] = m.Text; len(seen) == writers*each {
					cancel()
				}
			}
			testdb.WantError(t, "the end", ended, context.Canceled)
		})
		for w := range writers {
			wg.Go(func() {
				for n := range each {
					id := fmt.Sprintf("%d-%d", w, n)
					_, err := db.Memories().Store(t.Context(), memory.Memory{ID: id, Scope: memory.Scope{User: "ada"}, Text: "text " + id}, nil)
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		for id, text := range seen {
			if text != "text "+id {
				t.Errorf("%q says %q", id, text)
			}
		}
		testdb.Close(t, db)
	}
}

// TestWaits: a reader at an LSN that is not there yet waits, or ends; one that waits learns of
// a close.
func TestWaits(t *testing.T) {
	db := testdb.Open(t, vfs.NewMem(), engine.Options{})
	testdb.Store(t, db.Memories(), memory.Memory{Scope: memory.Scope{User: "ada"}, Text: "one"})
	if got := readChanges(t, db, 100, nil); len(got) > 0 {
		t.Errorf("after the end: %v", got)
	}
	ended := make(chan error)
	go func() {
		for c, err := range db.Changes(context.Background(), 100, &engine.ChangesOptions{Follow: true}) {
			if err == nil {
				err = fmt.Errorf("got %+v", c)
			}
			ended <- err
		}
	}()
	testdb.Close(t, db)
	testdb.WantError(t, "a reader of a database that is closed", <-ended, fault.ErrClosed)
}

// TestScope: nothing of another owner comes through a scope, and numbers are those of all.
func TestScope(t *testing.T) {
	fs, clock := vfs.NewMem(), testdb.NewClock()
	db := testdb.Open(t, fs, engine.Options{Clock: clock.Now})
	c := &changer{t: t, db: db, clock: clock, r: rand.New(rand.NewPCG(7, 7))}
	for range 200 {
		c.step()
	}
	_, err := db.Policies().Set(t.Context(), policyWith(func(p *policy.Policy) { p.Cap = 3 }))
	if err != nil {
		t.Fatal(err)
	}
	upTo := uint64(0) // later commits come by themselves
	all := readChanges(t, db, 0, &engine.ChangesOptions{WithAccesses: true, Reached: func(lsn uint64) { upTo = lsn }})
	for _, s := range []memory.Scope{{User: "ada"}, {Agent: "coach"}, {User: "ben", Run: "r2"}, {User: "nobody"}} {
		var want []string
		for i := range all {
			if a := &all[i]; a.Scope != (scope.Scope{}) && scope.Contains(s, a.Scope) {
				want = append(want, fmt.Sprintf("%d.%d", a.LSN, a.Number))
			}
		}
		var got []string
		reached := uint64(0)
		for _, ch := range readChanges(t, db, 0, &engine.ChangesOptions{Scope: s, WithAccesses: true, Reached: func(lsn uint64) { reached = lsn }}) {
			b, err := json.Marshal(ch)
			if err != nil {
				t.Fatal(err)
			}
			if ch.LSN > upTo {
				break
			}
			for _, other := range []string{"ada", "ben", "coach"} {
				if s.User != other && strings.Contains(string(b), `"`+other+`"`) && (s.User == "ben" || other == "ben") {
					t.Errorf("%+v: %s", s, b)
				}
			}
			got = append(got, fmt.Sprintf("%d.%d", ch.LSN, ch.Number))
		}
		testdb.Equal(t, fmt.Sprintf("%+v", s), got, want)
		if reached < upTo {
			t.Errorf("%+v: reached %d of %d", s, reached, upTo)
		}
	}
	for _, err := range db.Changes(t.Context(), 0, &engine.ChangesOptions{Scope: memory.Scope{User: strings.Repeat("x", 1000)}}) {
		testdb.WantError(t, "a long user", err, fault.ErrInvalid)
	}
}

func policyWith(change func(*policy.Policy)) policy.Policy {
	p := policy.Default()
	change(&p)
	return p
}

// TestReset: a reset is the first that the log has; who was before it is behind.
func TestReset(t *testing.T) {
	db := testdb.Open(t, vfs.NewMem(), engine.Options{})
	s := memory.Scope{User: "ada"}
	testdb.Store(t, db.Memories(), memory.Memory{Scope: s, Text: "one"})
	if _, err := db.Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	testdb.Store(t, db.Memories(), memory.Memory{Scope: s, Text: "two"})
	got := readChanges(t, db, 0, &engine.ChangesOptions{Scope: s})
	if len(got) != 2 || got[0].Op != wal.OpReset || got[0].LSN != 2 || got[1].Op != wal.OpAdd {
		t.Errorf("got %+v", got)
	}
	for _, err := range db.Changes(t.Context(), 1, nil) {
		testdb.WantError(t, "before a reset", err, fault.ErrFellBehind)
	}
}

// TestParts: each operation of the structures beside memories is told, under a name of
// package wal, with the thing as an export has it.
func TestParts(t *testing.T) {
	clock := testdb.NewClock()
	db := testdb.Open(t, vfs.NewMem(), engine.Options{Clock: clock.Now})
	ctx, ada := t.Context(), scope.Owner{User: "ada"}
	g, s, u := db.Graph(), db.Sessions(), db.Usage()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	st := testdb.Store(t, db.Memories(), memory.Memory{Scope: ada.Scope(), Text: "Ada lives in Paris."})
	must(second(db.KV().Put(ctx, ada, "k", "v", nil)))
	must(db.KV().Delete(ctx, ada, "k"))
	must(second(g.Put(ctx, ada, graph.Entity{ID: "a", Type: "person", Name: "Ada"}, []graph.Edge{{Target: "b", Type: "knows"}}, nil)))
	must(second(g.Put(ctx, ada, graph.Entity{ID: "c"}, nil, nil)))
	must(second(g.Link(ctx, ada, "a", st.ID)))
	must(second(g.Unlink(ctx, ada, "a", st.ID)))
	must(g.End(ctx, ada, "a", "knows", "b", ""))
	must(second(g.Put(ctx, ada, graph.Entity{ID: "a2"}, nil, nil)))
	must(second(g.Merge(ctx, ada, "a", "a2")))
	must(second(g.Unmerge(ctx, ada, "a2")))
	must(second(g.Delete(ctx, ada, "c")))
	must(second(s.Append(ctx, ada, "talk", []sessions.Message{{ID: "m1", Role: "user", Text: "hello"}, {ID: "m2", Role: "assistant", Text: "hi"}}, &sessions.AppendOptions{NoMemory: true})))
	must(s.SetMetadata(ctx, ada, "talk", json.RawMessage(`{"mood":"good"}`)))
	must(second(u.Add(ctx, usage.Record{Owner: ada, Model: "m", PromptTokens: 3, Time: clock.Now()}, nil)))
	must(u.SetBudget(ctx, usage.Budget{Owner: ada, Per: usage.PerDay, Limit: usd(t, "5")}))
	r, err := u.Reserve(ctx, ada, usd(t, "1"), time.Minute)
	must(err)
	must(u.Release(ctx, r))
	must(u.RemoveBudget(ctx, ada, usage.PerDay))
	must(second(u.AddAgent(ctx, usage.Agent{ID: "coach", Name: "Coach"})))
	must(second(db.Policies().Set(ctx, policyWith(func(p *policy.Policy) { p.Cap = 7 }))))
	testdb.Store(t, db.Memories(), memory.Memory{Scope: ada.Scope(), Text: "Ada has a dog."})
	e, err := db.Evict(ctx, &engine.EvictOptions{Scope: ada.Scope(), Cap: new(int64(1))})
	must(err)
	must(second(db.Undo(ctx, e.LSN)))
	must(second(db.KV().Put(ctx, ada, "k2", "v", nil)))
	for _, c := range readChanges(t, db, 1, nil) {
		if b, _ := json.Marshal(c); c.Unresolved {
			t.Errorf("all is there, and %s", b)
		}
	}
	must(second(s.Delete(ctx, ada, "talk", nil)))
	must(second(s.Append(ctx, ada, "more", []sessions.Message{{ID: "m3", Role: "user", Text: "again"}}, &sessions.AppendOptions{NoMemory: true})))
	must(second(db.DeleteOwner(ctx, ada)))

	ops := map[wal.Op]int{}
	var lines []string
	for _, c := range readChanges(t, db, 1, nil) {
		ops[c.Op]++
		c.Time = time.Time{}
		b, err := json.Marshal(c)
		must(err)
		lines = append(lines, string(b))
		everyones := []wal.Op{wal.OpPolicyPut, wal.OpConsolidate, wal.OpTrashPut, wal.OpTrashEmpty}
		switch owner := c.Scope.Owner(); {
		case slices.Contains(everyones, c.Op) != (owner == scope.Owner{}):
			t.Errorf("whose is %s?", b)
		case c.Op == wal.OpAgentPut && owner.Agent != "coach":
			t.Errorf("of another agent: %s", b)
		}
		var back wal.Change
		must(json.Unmarshal(b, &back))
		again, err := json.Marshal(back)
		if must(err); string(again) != string(b) {
			t.Errorf("%s is read as %s", b, again)
		}
	}
	for _, op := range []wal.Op{
		wal.OpAdd, wal.OpEvict, wal.OpRestore, wal.OpDelete, wal.OpEntryPut, wal.OpEntryDelete, wal.OpEntryDeleteAll,
		wal.OpEntityPut, wal.OpEntityDelete, wal.OpEntityMerge, wal.OpEntityUnmerge, wal.OpRelationPut, wal.OpRelationEnd, wal.OpLink, wal.OpUnlink, wal.OpGraphDeleteAll,
		wal.OpSessionPut, wal.OpSessionAppend, wal.OpSessionDelete, wal.OpSessionDeleteAll,
		wal.OpUsageAdd, wal.OpUsageDeleteAll, wal.OpBudgetPut, wal.OpBudgetDelete, wal.OpBudgetReserve, wal.OpBudgetRelease, wal.OpAgentPut,
		wal.OpPolicyPut, wal.OpTrashPut,
	} {
		if ops[op] == 0 {
			t.Errorf("nothing was told of %s:\n%s", op, strings.Join(lines, "\n"))
		}
		delete(ops, op)
	}
	for op := range ops {
		if op != wal.OpUpdate && op != wal.OpTrashEmpty { // which come by themselves
			t.Errorf("%s was told, too", op)
		}
	}
}

// TestCrash: what a follower has seen is there after a crash at any moment, under the same
// LSN, and the log goes on behind it.
func TestCrash(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 3))
	for range 5 {
		fs := vfs.NewCrashableMem()
		db := testdb.Open(t, fs, engine.Options{})
		var mu sync.Mutex
		var seen, want []string
		var crashed vfs.FS
		after := r.IntN(60) + 1
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			for c, err := range db.Changes(ctx, 1, &engine.ChangesOptions{Follow: true}) {
				if err != nil {
					return
				}
				mu.Lock()
				seen = append(seen, fmt.Sprintf("%d.%d %s", c.LSN, c.Number, c.ID))
				if len(seen) == after {
					want = slices.Clone(seen)
					crashed = fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: r.IntN(101), RNG: r})
					cancel()
				}
				mu.Unlock()
			}
		})
		for w := range 4 {
			wg.Go(func() {
				for n := range 20 {
					_, err := db.Memories().Store(t.Context(), memory.Memory{Scope: memory.Scope{User: "ada"}, Text: fmt.Sprintf("text %d of %d", n, w)}, nil)
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		cancel()
		testdb.Close(t, db)
		db = testdb.Open(t, crashed, engine.Options{})
		var got []string
		for _, c := range readChanges(t, db, 1, nil) {
			got = append(got, fmt.Sprintf("%d.%d %s", c.LSN, c.Number, c.ID))
		}
		if len(got) < len(want) || !slices.Equal(got[:len(want)], want) {
			t.Fatalf("after the crash\n%v\nwas seen before it\n%v", got, want)
		}
		testdb.Store(t, db.Memories(), memory.Memory{Scope: memory.Scope{User: "ada"}, Text: "after"})
		if all := readChanges(t, db, db.LSN(), nil); len(all) != 1 || all[0].After.(*memory.Memory).Text != "after" {
			t.Errorf("behind the crash: %+v", all)
		}
		testdb.Close(t, db)
	}
}

// fakeEmbedder makes vectors of the lengths and first bytes of texts, unless it is away.
type fakeEmbedder struct{ away atomic.Bool }

func (f *fakeEmbedder) Dim() int      { return 4 }
func (f *fakeEmbedder) Model() string { return "fake" }

func (f *fakeEmbedder) Embed(_ context.Context, texts []string) ([][]float32, error) {
	if f.away.Load() {
		return nil, errors.New("away")
	}
	vecs := make([][]float32, len(texts))
	for i, text := range texts {
		vecs[i] = []float32{1, float32(len(text)), float32(text[0]), float32(text[len(text)-1])}
	}
	return vecs, nil
}

// second is the error of a call.
func second[T any](_ T, err error) error { return err }

func usd(t testing.TB, s string) usage.USD {
	t.Helper()
	u, err := usage.ParseUSD(s)
	testdb.NoError(t, err)
	return u
}
