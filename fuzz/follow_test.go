package fuzz

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/wal"
	"github.com/seed-7aedc3ff/memdb/wal/folder"
)

// followerVar tells the test binary that it is a replica: its folder, and the archive that it follows.
const followerVar = "MEMDB_FUZZ_FOLLOWER"

// follower follows until it is killed.
func follower(plan string, out io.Writer) error {
	dir, archive, _ := strings.Cut(plan, ",")
	c, err := folder.Follow(archive, wal.Timeline{}, true)
	if err != nil {
		return err
	}
	r, err := engine.OpenReplica(dir, c.Next, nil)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(out, "follows"); err != nil {
		return err
	}
	return r.Wait(context.Background())
}

// TestKillFollower: a replica that is killed again and again while its database is written comes up to it,
// with the same content.
func TestKillFollower(t *testing.T) {
	rng := rand.New(rand.NewPCG(newSeed(t), 0))
	place := t.TempDir()
	archive, dir := filepath.Join(place, "archive"), filepath.Join(place, "replica")
	db, err := engine.Open(filepath.Join(place, "db"), &engine.Options{MemoryBudget: budget, Archive: folder.New(archive), ArchiveDelay: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	if err := doStep(t.Context(), db, 0, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := db.WaitArchived(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	written := make(chan int, 1)
	go func() {
		step := 1
		for ; ctx.Err() == nil && doStep(ctx, db, 0, step) == nil; step++ {
			continue
		}
		written <- step
	}()
	kills := 3
	if soak(t) > 0 {
		kills = 50
	}
	for range kills {
		killFollower(t, dir+","+archive, time.Duration(rng.IntN(300))*time.Millisecond)
	}
	cancel()
	steps := <-written
	if _, err := db.WaitArchived(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d kills, %d steps", kills, steps)
	sameAsReplica(t, db, dir, archive)
}

// killFollower runs a follower and kills it a moment after it has begun.
func killFollower(t *testing.T, plan string, moment time.Duration) {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), followerVar+"="+plan)
	var complaint strings.Builder
	c.Stderr = &complaint
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	begun := make([]byte, 1)
	if _, err := io.ReadFull(out, begun); err == nil {
		time.AfterFunc(moment, func() { _ = c.Process.Kill() })
	}
	_, _ = io.Copy(io.Discard, out)
	if err := c.Wait(); complaint.Len() > 0 {
		t.Fatalf("the follower ended by itself: %v: %s", err, complaint.String())
	}
}

// sameAsReplica brings a replica up and compares it with its database, which rests.
func sameAsReplica(t *testing.T, db *engine.DB, dir, archive string) {
	t.Helper()
	c, err := folder.Follow(archive, wal.Timeline{}, false)
	if err != nil {
		t.Fatal(err)
	}
	r, err := engine.OpenReplica(dir, c.Next, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}()
	if err := r.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	err = r.Use(t.Context(), func(got *engine.DB) error {
		// What the database does behind its calls may be of later commits.
		if got.LSN() > db.LSN() || saysOf(t, got) != saysOf(t, db) {
			t.Errorf("at LSN %d the replica says\n%s\nat LSN %d the database\n%s", got.LSN(), saysOf(t, got), db.LSN(), saysOf(t, db))
		}
		report, err := got.CheckDeep(t.Context())
		if !report.OK {
			t.Errorf("%+v", report)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// saysOf is what a database says of the first writer's memories.
func saysOf(t *testing.T, db *engine.DB) string {
	t.Helper()
	var b strings.Builder
	for m, err := range db.Memories().All(t.Context(), memory.ListQuery{Scope: killScope(0)}) {
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%d %s %q %v\n", m.Seq, m.ID, m.Text, m.UpdatedAt)
	}
	return b.String()
}
