package policy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/internal/testdb"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/policy"
)

// TestPolicyIsStored: each change is the next version, a past state has the policy of then, and all
// is there when the database is opened again.
func TestPolicyIsStored(t *testing.T) {
	files, clk := vfs.NewMem(), testdb.NewClock()
	db, ctx := testdb.Open(t, files, engine.Options{Clock: clk.Now, Retain: time.Hour}), t.Context()
	p, err := db.Policies().Show(ctx)
	if err != nil || p.Version != 0 || !p.Same(new(policy.Default())) {
		t.Errorf("at first %+v, %v", p, err)
	}
	var lsns []uint64
	for _, rate := range []float64{.1, .2, .2} { // the last changes nothing
		testdb.SetPolicy(t, db, func(p *policy.Policy) { p.Rate = rate })
		lsns = append(lsns, db.LSN())
	}
	if p, err = db.Policies().Show(ctx); err != nil || p.Version != 2 || p.Rate != .2 || lsns[2] != lsns[1] {
		t.Errorf("%+v, LSNs %d, %v", p, lsns, err)
	}
	testdb.NoError(t, db.ViewAt(ctx, lsns[0], func(tx *engine.Tx) error {
		p, err := tx.Policies().Show(ctx)
		if p.Version != 1 || p.Rate != .1 {
			t.Errorf("as of %d: %+v", lsns[0], p)
		}
		return err
	}))
	p.Rate = 2
	_, err = db.Policies().Set(ctx, p)
	testdb.WantError(t, "a rate of 2", err, memory.ErrInvalid)

	testdb.Store(t, db.Memories(), memory.Memory{Scope: memory.Scope{Agent: "a1"}, Text: "tea"})
	clk.Advance(10 * day)
	if r, err := db.Consolidate(ctx, nil); err != nil || r.Decayed != 1 || r.Policy != 2 {
		t.Errorf("%+v, %v", r, err)
	}
	testdb.Check(t, db, 1)
	testdb.Close(t, db)
	db = testdb.Open(t, files, engine.Options{Clock: clk.Now})
	if p, err = db.Policies().Show(ctx); err != nil || p.Version != 2 || p.Rate != .2 {
		t.Errorf("opened again: %+v, %v", p, err)
	}
	if s := testdb.Stats(t, db); s.Parts["consolidations"] != 1 || s.Parts["policy"] != 2 {
		t.Errorf("figures %v", s.Parts)
	}
	m := testdb.List(t, db.Memories(), memory.Scope{Agent: "a1"})
	if len(m) != 1 || *m[0].Confidence != .8 {
		t.Errorf("opened again: %+v", m)
	}
	_, err = db.Reset(ctx)
	testdb.NoError(t, err)
	if p, err = db.Policies().Show(ctx); err != nil || p.Version != 0 {
		t.Errorf("after a reset: %+v, %v", p, err)
	}
}

// TestPolicyLine: an export of everything has the policy, and one of a scope has not.
func TestPolicyLine(t *testing.T) {
	db, copied := testdb.New(t, engine.Options{}), testdb.New(t, engine.Options{})
	if lines := testdb.Lines(t, db, memory.Scope{}); lines != nil {
		t.Errorf("without a policy: %q", lines)
	}
	testdb.SetPolicy(t, db, func(p *policy.Policy) { p.Rate = .25 })
	lines := testdb.Lines(t, db, memory.Scope{})
	if len(lines) != 1 || !strings.Contains(lines[0], `"rate":0.25`) || testdb.Lines(t, db, memory.Scope{User: "ada"}) != nil {
		t.Fatalf("lines %q", lines)
	}
	other := []string{strings.Replace(lines[0], "0.25", "0.5", 1)}
	for _, c := range []struct {
		lines           []string
		upsert          bool
		stored, updated int
		kind            error
	}{
		{lines, false, 1, 0, nil},
		{lines, false, 0, 0, nil},
		{other, false, 0, 0, memory.ErrExists},
		{other, true, 0, 1, nil},
		{[]string{strings.Replace(lines[0], "0.25", "25", 1)}, true, 0, 0, memory.ErrInvalid},
	} {
		stored, updated, err := testdb.Import(t, copied, c.lines, c.upsert, nil)
		if stored != c.stored || updated != c.updated {
			t.Errorf("%.60s: %d stored, %d updated", c.lines[0], stored, updated)
		}
		testdb.WantError(t, "import", err, c.kind)
	}
	testdb.Equal(t, "copied", testdb.Lines(t, copied, memory.Scope{}), other)
}

// TestTrash: what was evicted comes back while the trash keeps it, and the trash is emptied when
// its time is over.
func TestTrash(t *testing.T) {
	clk := testdb.NewClock()
	db, ctx := testdb.New(t, engine.Options{Clock: clk.Now}), t.Context()
	testdb.SetPolicy(t, db, func(p *policy.Policy) { p.Trash = policy.Span(day) })
	for _, id := range []string{"a", "b"} {
		testdb.Store(t, db.Memories(), memory.Memory{ID: id, Scope: memory.Scope{Agent: "a1"}, Text: "about " + id, Confidence: new(.01)})
	}
	evicted, err := db.Evict(ctx, nil)
	if err != nil || evicted.Evicted != 2 {
		t.Fatalf("%+v, %v", evicted, err)
	}
	kept, err := policy.Trashes(ctx, db.Policies())
	if err != nil || len(kept) != 1 || kept[0].LSN != evicted.LSN || len(kept[0].Things) != 2 || kept[0].Undone {
		t.Errorf("%+v, %v", kept, err)
	}
	if r, err := db.Undo(ctx, evicted.LSN); err != nil || r.Restored != 2 {
		t.Errorf("%+v, %v", r, err)
	}
	_, err = db.Undo(ctx, evicted.LSN)
	testdb.WantError(t, "undone once more", err, memory.ErrNotRetained)
	testdb.Check(t, db, 2)
}

// TestPolicyCheck: each kind of damage is found.
func TestPolicyCheck(t *testing.T) {
	for _, damage := range policy.Damages {
		db, ctx := testdb.New(t, engine.Options{}), t.Context()
		testdb.SetPolicy(t, db, func(p *policy.Policy) { p.Rate = .25 })
		testdb.NoError(t, damage.Do(ctx, db.Policies()))
		r, err := db.Check(ctx)
		var said strings.Builder
		for _, p := range r.Problems {
			said.WriteString(p.What + "\n")
		}
		if err != nil || !strings.Contains(said.String(), damage.Says) {
			t.Errorf("%s: %s, %v", damage.Says, said.String(), err)
		}
	}
}
