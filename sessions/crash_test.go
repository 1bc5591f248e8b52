package sessions_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/internal/fsys/crashfs"
	"github.com/seed-7aedc3ff/memdb/internal/race"
	"github.com/seed-7aedc3ff/memdb/internal/testdb"
	"github.com/seed-7aedc3ff/memdb/sessions"
)

// crashState is what a crash has left, and what had been acknowledged before it.
type crashState struct {
	fs              *crashfs.Disk
	appended, saved int // messages of "log"; the number of the last save of "whole"
	compacted       int // compactions of "log"
}

// TestSessionCrash crashes at changes of files while sessions are appended to, saved,
// compacted, repaired and deleted. What was acknowledged is there; a save is there whole or
// not at all; the check is clean.
func TestSessionCrash(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	mem := crashfs.NewDisk()
	var now crashState
	var states []crashState
	most := race.Times(40)
	fs := crashfs.Wrap(mem, func(crashfs.Op) error {
		if rng.IntN(8) == 0 && len(states) < most {
			at := now
			at.fs = mem.Lose(50, rng)
			states = append(states, at)
		}
		return nil
	})
	db := testdb.Open(t, fs, engine.Options{})
	s, ctx := db.Sessions(), t.Context()
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	for step := range 24 {
		for range 3 {
			_, err := s.Append(ctx, supportAgent, "log", []sessions.Message{{ID: fmt.Sprint("m", now.appended), Role: []string{"user", "assistant"}[now.appended%2], Text: fmt.Sprint("text ", now.appended)}}, nil)
			must(err)
			fs.Between(func() { now.appended++ })
		}
		switch step % 4 {
		case 0:
			must(saveTagged(ctx, s, now.saved+1))
			fs.Between(func() { now.saved++ })
		case 1:
			r, err := s.Compact(ctx, supportAgent, "log", nil)
			must(err)
			if r.Compacted {
				fs.Between(func() { now.compacted++ })
			}
		case 2:
			_, err := s.Repair(ctx, supportAgent, "whole", false)
			must(err)
		case 3:
			must(saveTagged(ctx, s, now.saved+1))
			fs.Between(func() { now.saved++ })
			if _, err := s.Delete(ctx, supportAgent, fmt.Sprint("short", step), nil); err == nil {
				t.Fatal("deleted what never was")
			}
		}
	}
	testdb.Close(t, db)
	if len(states) < most/3 {
		t.Fatalf("%d crashes", len(states))
	}
	for i, at := range states {
		db := testdb.Open(t, at.fs, engine.Options{})
		at.verify(t, db)
		testdb.Close(t, db)
		if t.Failed() {
			t.Fatalf("crash %d: %+v", i, at)
		}
	}
}

// saveTagged saves a session of more than one commit's messages, each of which says the
// number of the save. Some follow each other by the same role, to be repaired.
func saveTagged(ctx context.Context, s engine.Sessions, tag int) error {
	var items []sessions.Item
	for i := range 1200 {
		items = append(items, sessions.Item{Message: &sessions.Message{ID: fmt.Sprint(i), Role: "system", Text: fmt.Sprint("save ", tag)}})
	}
	items = append(items, sessions.Item{Message: &sessions.Message{ID: "last", Role: "user", Text: fmt.Sprint("save ", tag)}})
	items = append(items, sessions.Item{Message: &sessions.Message{ID: "last", Role: "user", Text: fmt.Sprint("save ", tag)}})
	_, err := s.Save(ctx, supportAgent, "whole", items, nil)
	return err
}

// verify compares a database that a crash has left with what was acknowledged.
func (at *crashState) verify(t *testing.T, db *engine.DB) {
	t.Helper()
	if r, err := db.Check(t.Context()); err != nil || !r.OK {
		t.Errorf("check: %v, %v", r.Problems, err)
	}
	if at.appended > 0 {
		n, marks := 0, 0
		for i, err := range db.Sessions().Items(t.Context(), supportAgent, "log") {
			switch {
			case err != nil:
				t.Error(err)
				return
			case i.Marker != nil:
				marks++
				if _, err := db.Memories().Get(t.Context(), supportAgent.Scope(), i.Marker.ArchiveID); err != nil {
					t.Errorf("a marker without its archive: %v", err)
				}
			case i.Message.Text != fmt.Sprint("text ", n) || i.Message.Orphan:
				t.Errorf("message %d: %+v", n, i.Message)
				n++
			default:
				n++
			}
		}
		if n < at.appended || n > at.appended+1 || marks < at.compacted || marks > at.compacted+1 {
			t.Errorf("%d messages and %d markers, %d and %d were acknowledged", n, marks, at.appended, at.compacted)
		}
	}
	if at.saved == 0 {
		return
	}
	lines := itemsOf(t, db.Sessions(), "whole")
	if len(lines) != 1202 && len(lines) != 1201 { // repaired
		t.Errorf("%d messages of a save", len(lines))
		return
	}
	tag := -1
	for _, l := range lines {
		var n int
		if _, err := fmt.Sscanf(l[strings.Index(l, ": ")+2:], "save %d", &n); err != nil || tag >= 0 && n != tag {
			t.Errorf("%q beside save %d", l, tag)
			return
		}
		tag = n
	}
	if tag < at.saved || tag > at.saved+1 {
		t.Errorf("save %d is there, %d was acknowledged", tag, at.saved)
	}
}
