package entries_test

import (
	"strings"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/entries"
	"github.com/seed-7aedc3ff/memdb/internal/testdb"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// TestKVLines: what is exported and imported is the same; an import again changes nothing, and
// another value is refused, or takes the place of that which is there.
func TestKVLines(t *testing.T) {
	w, copied := newKVWorld(t), newKVWorld(t)
	w.put(researcher, "last", "2026-03-06", nil)
	w.put(researcher, "short", 5, &entries.PutOptions{TTL: time.Hour})
	w.put(researcher, "over", 5, &entries.PutOptions{TTL: time.Second})
	w.put(memory.Owner{User: "ada"}, "last", []int{1}, nil)
	w.clk.Advance(time.Minute)
	lines := testdb.Lines(t, w.db, memory.Scope{})
	testdb.Equal(t, "lines", lines, []string{
		`{"type":"kv","user":"","agent":"researcher","key":"last","value":"2026-03-06","updated_at":"2026-03-01T12:00:00.000Z"}`,
		`{"type":"kv","user":"","agent":"researcher","key":"short","value":5,"updated_at":"2026-03-01T12:00:00.000Z","expires_at":"2026-03-01T13:00:00.000Z"}`,
		`{"type":"kv","user":"ada","agent":"","key":"last","value":[1],"updated_at":"2026-03-01T12:00:00.000Z"}`,
	})
	testdb.Equal(t, "lines of a user", testdb.Lines(t, w.db, memory.Scope{User: "ada"}), lines[2:])

	expect := func(what string, stored, updated, wantStored, wantUpdated int, err error) {
		t.Helper()
		if err != nil || stored != wantStored || updated != wantUpdated {
			t.Errorf("%s: %d stored, %d updated, %v", what, stored, updated, err)
		}
	}
	stored, updated, err := testdb.Import(t, copied.db, lines, false, nil)
	expect("import", stored, updated, 3, 0, err)
	testdb.Equal(t, "copied", testdb.Lines(t, copied.db, memory.Scope{}), lines)
	stored, updated, err = testdb.Import(t, copied.db, lines, false, nil)
	expect("again", stored, updated, 0, 0, err)
	other := []string{strings.Replace(lines[0], "2026-03-06", "2026-03-07", 1)}
	_, _, err = testdb.Import(t, copied.db, other, false, nil)
	testdb.WantError(t, "another value", err, memory.ErrExists)
	stored, updated, err = testdb.Import(t, copied.db, other, true, nil)
	expect("another value, with upsert", stored, updated, 0, 1, err)
	bob := memory.Owner{User: "bob"}
	stored, updated, err = testdb.Import(t, copied.db, lines[:1], false, func(l engine.Line) { l.SetOwner(bob) })
	expect("to another owner", stored, updated, 1, 0, err)
	if got := copied.value(bob, "last"); got != `"2026-03-06"` {
		t.Errorf("another owner has %s", got)
	}
	for _, bad := range []string{`{"type":"kv","user":"ada","agent":"","key":"k"}`, `{"type":"kv","user":"","agent":"","key":"k","value":1}`, `{"type":"kv","user":"ada","agent":"","key":"k","value":1,"expires_at":"1960-01-01T00:00:00Z","updated_at":"x"}`} {
		if _, _, err := testdb.Import(t, copied.db, []string{bad}, false, nil); err == nil {
			t.Errorf("%s was stored", bad)
		}
	}
	testdb.Check(t, copied.db, 0)
}

// TestKVOwners: all that an owner has goes at once, and its keys by expiry when the part works.
func TestKVOwners(t *testing.T) {
	w := newKVWorld(t)
	ada := memory.Owner{User: "ada"}
	for _, o := range []memory.Owner{researcher, ada} {
		for _, key := range []string{"a", "b", "c"} {
			w.put(o, key, 1, &entries.PutOptions{TTL: time.Hour})
		}
	}
	owners, err := w.db.KV().Owners(t.Context())
	testdb.NoError(t, err)
	testdb.Equal(t, "owners", owners, []memory.Owner{researcher, ada})
	deleted, err := w.db.DeleteOwner(t.Context(), ada)
	if err != nil || deleted["entries"] != 3 {
		t.Errorf("%v, %v", deleted, err)
	}
	w.put(ada, "b", 2, &entries.PutOptions{TTL: time.Hour}) // anew, before the clean-up
	testdb.Check(t, w.db, 0)
	testdb.NoError(t, entries.Work(t.Context(), w.db.KV()))
	testdb.Check(t, w.db, 0)
	expiries, gone, err := entries.Left(t.Context(), w.db.KV())
	if err != nil || expiries != 4 || gone != 0 {
		t.Errorf("%d keys by expiry and %d deleted owners are left, %v", expiries, gone, err)
	}
	if e, err := w.db.KV().Get(t.Context(), ada, "b"); err != nil || string(e.Value) != "2" {
		t.Errorf("%+v, %v", e, err)
	}
	_, err = w.db.KV().Get(t.Context(), ada, "a")
	testdb.WantError(t, "a deleted entry", err, memory.ErrNotFound)
	if deleted, err = w.db.DeleteOwner(t.Context(), memory.Owner{User: "nobody"}); err != nil || deleted["entries"] != 0 {
		t.Errorf("%v, %v", deleted, err)
	}
}

// TestKVCheck: each kind of damage is found.
func TestKVCheck(t *testing.T) {
	for _, damage := range entries.Damages {
		w := newKVWorld(t)
		w.put(researcher, "k", 1, &entries.PutOptions{TTL: time.Hour})
		testdb.NoError(t, damage.Do(t.Context(), w.db.KV(), researcher, "k"))
		r, err := w.db.Check(t.Context())
		if err != nil || r.OK || !strings.Contains(r.Problems[0].What, damage.Says) {
			t.Errorf("%s: %+v, %v", damage.Says, r.Problems, err)
		}
	}
}
