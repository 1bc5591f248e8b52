package ram_test

import (
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/services/cluster"
	"github.com/seed-7aedc3ff/memdb/services/cluster/ram"
)

// TestPast: a shard is made as it was behind each commit and at each time since its newest snapshot, while it goes on;
// what was before that, and what is not yet, is refused.
func TestPast(t *testing.T) {
	r := newRig(t, ram.Options{})
	var ahead atomic.Int64 // of the clock of the databases
	clock := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	o := r.options("a", r.store.Client())
	o.Engine.Clock = clock
	s, err := cluster.OpenShard(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	type state struct {
		lsn   uint64
		at    time.Time
		texts []string
	}
	var states []state
	note := func() {
		t.Helper()
		db, done, err := s.Use(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer done()
		states = append(states, state{db.LSN(), clock(), listed(t, db)})
		ahead.Add(int64(time.Minute))
	}
	was := func(at cluster.Past) (texts []string, lsn uint64, err error) {
		err = s.Past(t.Context(), at, func(db *engine.DB) error {
			texts, lsn = listed(t, db), db.LSN()
			return nil
		})
		return texts, lsn, err
	}
	same := func(from int) {
		t.Helper()
		for _, st := range states[from:] {
			for what, at := range map[string]cluster.Past{"LSN": {LSN: st.lsn}, "time": {Time: st.at.Add(30 * time.Second)}, "both": {LSN: st.lsn, Time: st.at.Add(time.Hour)}} {
				texts, lsn, err := was(at)
				if err != nil || lsn != st.lsn || !slices.Equal(texts, st.texts) {
					t.Errorf("by %s as of %d: LSN %d, %q, want %q: %v", what, st.lsn, lsn, texts, st.texts, err)
				}
			}
		}
	}
	for i := range 4 {
		mustStore(t, s, fmt.Sprint("tea ", i))
		note()
	}
	db, done, err := s.Use(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all, err := db.Memories().List(t.Context(), memory.ListQuery{Scope: owner, Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Memories().Delete(t.Context(), owner, all.Memories[0].ID); err != nil {
		t.Fatal(err)
	}
	done()
	note()
	same(0)
	if err := s.Snapshot(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		mustStore(t, s, fmt.Sprint("coffee ", i))
		note()
	}
	same(4)
	for _, at := range []cluster.Past{{LSN: states[1].lsn}, {Time: states[1].at}} {
		_, _, err := was(at)
		wantKind(t, "before the snapshot", err, memory.ErrNotRetained)
	}
	_, _, err = was(cluster.Past{LSN: states[7].lsn + 100})
	wantKind(t, "an LSN to come", err, memory.ErrInvalid)
	err = s.Past(t.Context(), cluster.Past{LSN: states[7].lsn}, func(*engine.DB) error {
		_, _, err := was(cluster.Past{LSN: states[7].lsn})
		wantKind(t, "two at once", err, memory.ErrBusy)
		_, err = s.Verify(t.Context())
		wantKind(t, "a verification beside it", err, memory.ErrBusy)
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(r.folder("a") + ".copy"); err == nil {
		t.Error("the folder is there still")
	}
	verified(t, s)
	closes(t, s)
}
