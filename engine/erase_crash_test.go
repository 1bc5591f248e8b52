package engine

import (
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/fsys/crashfs"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/policy"
)

// TestEraseCrash: an erasure that was killed before any sync, rename, removal or creation goes on
// when the database is opened, until no file has anything of what is erased, and all that others
// have is there.
func TestEraseCrash(t *testing.T) {
	const seed, oneIn, most = 5, 4, 24
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	clk, disk := newTestClock(), crashfs.NewDisk()
	fs := crashfs.Wrap(disk, nil)
	db := openTraces(t, fs, clk, Options{})
	setPolicy(t, db, func(p *policy.Policy) { p.Trash = policy.Span(48 * time.Hour) })
	gone := append(fillTraces(t, db, clk, memory.Owner{User: "ulrike-user"}, "q0z"), "ulrike-user")
	kept := append(fillTraces(t, db, clk, memory.Owner{User: "viktor-user"}, "q1z"), "viktor-user")
	before := userContent(t, db, "viktor-user")
	var mu sync.Mutex
	var states []*crashfs.Disk
	fs.SetHook(func(op crashfs.Op) error {
		mu.Lock()
		defer mu.Unlock()
		e := db.erasing.Load()
		if e == nil || db.syncer.Durable() < e.LSN {
			return nil // a crash may lose that it has begun
		}
		if op.Kind != crashfs.Write && op.Kind != crashfs.Close && len(states) < most && rng.IntN(oneIn) == 0 {
			states = append(states, disk.Lose(rng.IntN(101), rng))
		}
		return nil
	})
	_, err := db.Erase(t.Context(), EraseQuery{User: "ulrike-user"})
	noError(t, err)
	fs.SetHook(nil)
	if len(states) < most/3 {
		t.Errorf("only %d crashes", len(states))
	}
	for i, left := range states {
		again := openTraces(t, left, clk, Options{})
		if i%2 == 0 { // as a short command does
			noError(t, again.Close())
			if again = openTraces(t, left, clk, Options{}); again.erasing.Load() != nil {
				t.Errorf("crash %d: Close has not ended the erasure", i)
			}
			if r, err := again.Erase(t.Context(), EraseQuery{User: "ulrike-user"}); err != nil || r.Erased.Memories == 0 || r.LSN == 0 {
				t.Errorf("crash %d: the report is %+v, %v", i, r, err)
			}
		}
		for deadline := time.Now().Add(time.Minute); again.erasing.Load() != nil; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("it does not go on")
			}
		}
		if found := traces(t, left, gone...); len(found) > 0 {
			t.Errorf("crash %d: left: %s", i, strings.Join(found, "\n"))
		}
		if missing := lacks(t, left, kept); len(missing) > 0 {
			t.Errorf("crash %d: lost of others: %v", i, missing)
		}
		if got := userContent(t, again, "viktor-user"); got != before {
			t.Errorf("crash %d: others have changed: %s", i, difference(got, before))
		}
		if r, err := again.Check(t.Context()); err != nil || !r.OK {
			t.Errorf("crash %d: %v, %v", i, r.Problems, err)
		}
		noError(t, again.Close())
	}
}
