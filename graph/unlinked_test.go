package graph_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/internal/fsys/crashfs"
	"github.com/seed-7aedc3ff/memdb/internal/race"
	"github.com/seed-7aedc3ff/memdb/internal/testdb"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/mention"
	"github.com/seed-7aedc3ff/memdb/policy"
)

// entities are the IDs of the entities of the graph.
func (w *graphWorld) entities() (ids []string) {
	w.t.Helper()
	w.must(w.g.Each(w.t.Context(), w.o, func(e graph.Entity) error {
		ids = append(ids, e.ID)
		return nil
	}, nil))
	return ids
}

// TestExtractedEntitiesGoWithTheirLastLink: what only texts are the reason for goes with them,
// and what a caller has put, linked, related or merged stays.
func TestExtractedEntitiesGoWithTheirLastLink(t *testing.T) {
	w := newMentionWorld(t, mention.Rules{})
	ctx := t.Context()
	w.say("m", "we saw Oslo, yes, and Rome, and Paris, and Ghent, and Bern")
	expectGraph(t, "at first", fmt.Sprint(w.entities()), "[oslo rome paris ghent bern]")
	lsn := w.db.LSN()
	w.say("n", "we saw Oslo and Kiel")
	w.say("m", "we saw Rome, yes, and Paris, and Ghent, and Bern")
	expectGraph(t, "another text has it", fmt.Sprint(w.entities()), "[oslo rome paris ghent bern kiel]")
	w.say("n", "no names here")
	expectGraph(t, "in the commit of the text", fmt.Sprint(w.entities(), w.db.LSN()-lsn), "[rome paris ghent bern] 3")

	_, err := w.g.Put(ctx, w.o, graph.Entity{ID: "rome"}, nil, nil)
	w.must(err)
	_, err = w.g.Link(ctx, w.o, "paris", "n")
	w.must(err)
	_, err = w.g.Put(ctx, w.o, graph.Entity{ID: "here"}, []graph.Edge{{Type: "near", Target: "ghent"}}, nil)
	w.must(err)
	for _, id := range []string{"rome", "bern"} {
		e, err := w.g.Get(ctx, w.o, id, 0)
		if err != nil || e.Extracted != (id == "bern") {
			t.Errorf("%+v, %v", e, err)
		}
	}
	copied := w.copied(rand.New(rand.NewPCG(1, 1)))
	expectLines(t, "the copy", graphLines(t, copied.db), graphLines(t, w.db))
	for _, w := range []*graphWorld{w, copied} {
		w.must(w.db.Memories().Delete(ctx, w.o.Scope(), "m"))
		w.untilGone("bern")
		expectGraph(t, "once the memory is deleted", fmt.Sprint(w.entities()), "[rome paris ghent here]")
		if _, err := w.g.Unlink(ctx, w.o, "paris", "n"); err != nil {
			t.Error(err)
		}
		expectGraph(t, "once the link is removed", fmt.Sprint(w.entities()), "[rome ghent here]")
		expectGraph(t, "figures", w.figures(), "3 1 0")
		testdb.Check(t, w.db, 1)
	}
}

// untilGone waits until an entity is deleted by the work behind the calls.
func (w *graphWorld) untilGone(id string) {
	w.t.Helper()
	for deadline := time.Now().Add(testdb.Patience); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		w.clean()
		if _, err := w.g.Get(w.t.Context(), w.o, id, 0); errors.Is(err, memory.ErrNotFound) {
			return
		} else if err != nil {
			w.t.Fatal(err)
		}
	}
	w.t.Fatalf("the entity %q is still there", id)
}

// TestMentionsAfterCrashes crashes at changes of files while memories are stored, get other
// texts and are deleted, with an extractor: a memory, the entities of its text, their relation
// and its links are all there or none is, and what no text mentions any more goes.
func TestMentionsAfterCrashes(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	mem := vfs.NewCrashableMem()
	type state struct {
		fs    *vfs.MemFS
		steps int // that were acknowledged
	}
	var states []state
	steps, most := 0, race.Times(40)
	fs := crashfs.Wrap(mem, func(crashfs.Op) error {
		if rng.IntN(5) == 0 && len(states) < most {
			states = append(states, state{mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rng}), steps})
		}
		return nil
	})
	open := func(fs vfs.FS) *graphWorld {
		t.Helper()
		db := testdb.Open(t, fs, engine.Options{Extractor: mention.Rules{}})
		return &graphWorld{t, db, db.Graph(), memory.Owner{Agent: "a"}}
	}
	w := open(fs)
	for i := range 26 {
		w.say(fmt.Sprint("m", i), fmt.Sprintf("Perzon%[1]c works at Fyrm%[1]c. We saw Tuwn%[1]c.", 'a'+i))
		fs.Between(func() { steps++ })
		w.say(fmt.Sprint("m", i), fmt.Sprintf("Perzon%[1]c works at Fyrm%[1]c. We saw Cyty%[1]c.", 'a'+i))
		fs.Between(func() { steps++ })
		if i%3 == 2 {
			w.must(w.db.Memories().Delete(t.Context(), w.o.Scope(), fmt.Sprint("m", i)))
		}
		fs.Between(func() { steps++ })
	}
	testdb.Close(t, w.db)
	if len(states) < most/3 {
		t.Fatalf("%d crashes", len(states))
	}
	for i, at := range states {
		w := open(at.fs)
		for n := range 26 {
			verifyMentions(w, n, at.steps-3*n)
		}
		if r, err := w.db.Check(t.Context()); err != nil || !r.OK {
			t.Errorf("check: %v, %v", r.Problems, err)
		}
		testdb.Close(t, w.db)
		if t.Failed() {
			t.Fatalf("crash %d, after %d steps", i, at.steps)
		}
	}
}

// verifyMentions compares memory n, of whose three steps so many were acknowledged, with what
// its text mentions.
func verifyMentions(w *graphWorld, n, steps int) {
	w.t.Helper()
	m, err := w.db.Memories().Get(w.t.Context(), w.o.Scope(), fmt.Sprint("m", n))
	if errors.Is(err, memory.ErrNotFound) {
		if mayBeDeleted := n%3 == 2 && steps != 1; steps > 0 && !mayBeDeleted {
			w.t.Errorf("memory %d is not there", n)
		}
		return
	}
	w.must(err)
	f, err := mention.Rules{}.Extract(w.t.Context(), m.Text)
	w.must(err)
	if len(f.Entities) == 0 || len(f.Relations) == 0 {
		w.t.Fatalf("%q mentions nothing", m.Text)
	}
	for _, e := range f.Entities {
		ids, err := w.g.Memories(w.t.Context(), w.o, mention.Fold(e.Name))
		w.must(err)
		if fmt.Sprint(ids) != fmt.Sprintf("[m%d]", n) {
			w.t.Errorf("memory %d mentions %s, which is linked to %v", n, e.Name, ids)
		}
	}
	linked, err := w.g.Linked(w.t.Context(), w.o, m.ID)
	w.must(err)
	if len(linked) != len(f.Entities) {
		w.t.Errorf("memory %d is linked to %v", n, linked)
	}
	for _, r := range f.Relations {
		held, err := w.g.Relations(w.t.Context(), w.o, mention.Fold(r.Source), r.Relation, mention.Fold(r.Target), graph.State{})
		if err != nil || len(held) != 1 {
			w.t.Errorf("memory %d: the relation %+v is there %d times (%v)", n, r, len(held), err)
		}
	}
}

// TestEvictedMentions: what an evicted memory alone has mentioned goes with it, and neither is
// found by the graph any more; with the eviction undone both are there again as they were.
func TestEvictedMentions(t *testing.T) {
	w := newMentionWorld(t, mention.Rules{})
	ctx := t.Context()
	testdb.SetPolicy(t, w.db, func(p *policy.Policy) { p.Trash = policy.Span(time.Hour) })
	old := memory.Memory{ID: "m", Scope: w.o.Scope(), Text: "we saw Oslo, yes, and Rome", Importance: new(0.0), Confidence: new(0.0)}
	if _, err := w.db.Memories().Store(ctx, old, nil); err != nil {
		t.Fatal(err)
	}
	w.say("n", "we saw Oslo and Kiel")
	_, err := w.g.Put(ctx, w.o, graph.Entity{ID: "hand"}, nil, nil)
	w.must(err)
	_, err = w.g.Link(ctx, w.o, "hand", "m")
	w.must(err)
	expectGraph(t, "at first", fmt.Sprint(w.entities()), "[oslo rome kiel hand]")
	before := graphLines(t, w.db)
	r, err := w.db.Evict(ctx, nil)
	if err != nil || r.Evicted != 1 {
		t.Fatal(r, err)
	}
	linked := func() string {
		t.Helper()
		of, err := w.g.Memories(ctx, w.o, "oslo")
		w.must(err)
		return fmt.Sprint(of)
	}
	expectGraph(t, "evicted", linked()+fmt.Sprint(w.entities()), "[n][oslo kiel hand]")
	testdb.Check(t, w.db, 1)
	if _, err := w.db.Undo(ctx, r.LSN); err != nil {
		t.Fatal(err)
	}
	expectLines(t, "undone, the graph", graphLines(t, w.db), before)
	testdb.Check(t, w.db, 2)
}
