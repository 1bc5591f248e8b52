package engine

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/ageing"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/race"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/policy"
)

// TestScheduleWalksAYear: consolidations come every six hours and evictions daily at 3, each
// once, over a year of a clock that the test moves, with reopenings and a month away.
func TestScheduleWalksAYear(t *testing.T) {
	race.Sequential(t)
	fs, clk := vfs.NewMem(), newTestClock()
	start := clk.now()
	open := func() *DB {
		db, err := openOn(fs, "db", setup{Options: Options{Clock: clk.now, MemoryBudget: testBudget}})
		if err != nil {
			t.Fatal(err)
		}
		return db
	}
	db := open()
	look := func() {
		t.Helper()
		if err := db.ageing.KeepSchedule(t.Context(), policy.Schedule{}); err != nil {
			t.Fatal(err)
		}
	}
	look()
	evicted := 0
	for hour := 0; clk.now().Sub(start) < 365*24*time.Hour; hour++ {
		clk.advance(time.Hour)
		if hour == 2000 {
			clk.advance(30 * 24 * time.Hour) // away: what was missed comes once
		}
		// What is stored now is evicted at the next 3 o'clock.
		if clk.now().Hour() == 1 {
			mustStore(t, db.Memories(), memory.Memory{ID: fmt.Sprint("m", hour), Text: fmt.Sprint("text ", hour), Scope: memory.Scope{Agent: "a"}, Confidence: new(.05)})
		}
		before := db.tables.Docs.Live.Load()
		look()
		look()
		gone := before - db.tables.Docs.Live.Load()
		evicted += int(gone)
		if due := clk.now().Hour() == 3 || hour == 2000; gone > 0 && !due {
			t.Fatalf("%d were evicted at %v", gone, clk.now())
		}
		if hour%1000 == 999 {
			closeTest(t, db)
			db = open()
			look()
		}
	}
	want := (365-30)*4 + 1
	if got := db.tables.Ageing.Runs().Count(); got < want-2 || got > want+2 {
		t.Errorf("%d consolidations in a year with a month away, want about %d", got, want)
	}
	if days := 365 - 30; evicted < days-2 || evicted > days+2 {
		t.Errorf("%d memories of %d days were evicted", evicted, days)
	}
	// A clock that was a year ahead, and is set right, does not stop the jobs.
	runs := db.tables.Ageing.Runs().Count()
	clk.advance(365 * 24 * time.Hour)
	look()
	clk.advance(-365 * 24 * time.Hour)
	look()
	clk.advance(7 * time.Hour)
	look()
	if got := db.tables.Ageing.Runs().Count(); got != runs+2 {
		t.Errorf("%d consolidations after the clock was set right, want 2", got-runs)
	}
	mustCheck(t, db, int(db.tables.Docs.Live.Load()))
	closeTest(t, db)
}

func TestScheduleOptions(t *testing.T) {
	_, err := OpenMemory(&Options{Schedule: &policy.Schedule{Evict: "at night"}})
	if !errors.Is(err, fault.ErrInvalid) {
		t.Errorf("a malformed expression: %v", err)
	}
	clk := newTestClock()
	db := openTest(t, vfs.NewMem(), Options{Clock: clk.now})
	s := policy.Schedule{Consolidate: policy.Never, Evict: "* * * * *"}
	mustStore(t, db.Memories(), memory.Memory{Text: "m", Scope: memory.Scope{Agent: "a"}, Confidence: new(.0)})
	for range 3 {
		clk.advance(12 * time.Hour)
		if err := db.ageing.KeepSchedule(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	if db.tables.Ageing.Runs().Count() != 0 || db.tables.Docs.Live.Load() != 0 {
		t.Errorf("%d consolidations, %d memories left", db.tables.Ageing.Runs().Count(), db.tables.Docs.Live.Load())
	}
}

// TestShortPrograms: a program that is open for a moment, long before its schedule or its trash is
// looked at again, ages its memories and empties its trash: what was missed is done at the opening.
func TestShortPrograms(t *testing.T) {
	clk, fs := newTestClock(), vfs.NewMem()
	ctx := t.Context()
	// open waits for what is to be done, and closes.
	open := func(what string, done func(db *DB) bool) {
		t.Helper()
		began := time.Now()
		db, err := openOn(fs, "db", setup{Options: Options{Clock: clk.now, MemoryBudget: testBudget, Schedule: &policy.Schedule{}}})
		noError(t, err)
		defer closeTest(t, db)
		waitFor(t, func() bool { return done(db) })
		if took := time.Since(began); took >= ageing.ScheduleEvery {
			t.Errorf("%s after %v: a program that is open for a moment would not have seen it", what, took)
		}
	}
	came := func(db *DB, j policy.Job) (at int64) {
		noError(t, db.View(ctx, func(tx *Tx) (err error) {
			at, _, err = policy.Came((*partTx)(tx), j)
			return err
		}))
		return at
	}
	both := func(db *DB) bool {
		now := clk.now().UnixMilli()
		return came(db, policy.JobConsolidate) == now && came(db, policy.JobEvict) == now
	}
	open("the first look", both)
	db := openTest(t, fs, Options{Clock: clk.now})
	setPolicy(t, db, func(p *policy.Policy) { p.Trash = policy.Span(time.Hour) })
	mustStore(t, db.Memories(), memory.Memory{Text: "m", Scope: memory.Scope{Agent: "a"}, Confidence: new(.05)})
	mustStore(t, db.Memories(), memory.Memory{Text: "n", Scope: memory.Scope{Agent: "a"}})
	closeTest(t, db)

	clk.advance(10 * 24 * time.Hour)
	trash := func(db *DB) (n int) {
		noError(t, db.View(ctx, func(tx *Tx) error {
			return policy.EachTrash((*partTx)(tx), func(policy.Trash) error { n++; return nil })
		}))
		return n
	}
	open("what was missed", func(db *DB) bool {
		return both(db) && db.tables.Ageing.Runs().Count() == 1 && db.tables.Docs.Live.Load() == 1 && trash(db) == 1
	})
	clk.advance(2 * time.Hour)
	open("the trash", func(db *DB) bool { return trash(db) == 0 })
}
