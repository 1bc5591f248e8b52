package fuzz

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// A child process writes, and prints each step that was acknowledged; the test
// kills it at a random moment after its start, or after the first such step,
// opens the folder, and finds every step that was printed, and of each writer at
// most one more. What a writer does at a step follows from its number alone, so
// that both know what must be there.

const (
	killWriters = 4
	// childVar tells the test binary that it is the child: the folder, and the
	// step that each writer begins at.
	childVar = "MEMDB_FUZZ_CHILD"
	// killFor is how long processes are killed in a sample.
	killFor = 8 * time.Second
)

func TestMain(m *testing.M) {
	if plan := os.Getenv(childVar); plan != "" {
		if err := child(plan, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if plan := os.Getenv(followerVar); plan != "" {
		if err := follower(plan, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if flags := os.Getenv(serverVar); flags != "" {
		os.Exit(serverMain(flags))
	}
	os.Exit(m.Run())
}

func child(plan string, out io.Writer) error {
	fields := strings.Split(plan, ",")
	db, err := engine.Open(fields[0], &engine.Options{MemoryBudget: budget})
	if err != nil {
		return err
	}
	var mu sync.Mutex
	errs := make(chan error)
	for writer := range killWriters {
		step, err := strconv.Atoi(fields[1+writer])
		if err != nil {
			return err
		}
		go func() {
			for ; ; step++ {
				if err := doStep(context.Background(), db, writer, step); err != nil {
					errs <- fmt.Errorf("writer %d, step %d: %w", writer, step, err)
					return
				}
				mu.Lock()
				_, err := fmt.Fprintf(out, "%d %d\n", writer, step)
				mu.Unlock()
				if err != nil {
					errs <- err
					return
				}
			}
		}()
	}
	return <-errs
}

func killScope(writer int) memory.Scope {
	return memory.Scope{User: fmt.Sprintf("writer %d", writer), Run: "run"}
}

func killMemory(writer, step int) memory.Memory {
	return memory.Memory{
		ID: fmt.Sprintf("step %d", step), Scope: killScope(writer), Text: killText(writer, step),
		Embedding: vector(rand.New(rand.NewPCG(uint64(writer), uint64(step)))),
	}
}

func killText(writer, step int) string {
	return fmt.Sprintf("writer %d wrote at step %d", writer, step)
}

// doStep is one commit of one writer.
func doStep(ctx context.Context, db *engine.DB, writer, step int) error {
	m, scope := db.Memories(), killScope(writer)
	var err error
	switch {
	case step%60 == 59:
		_, err = m.DeleteScope(ctx, scope)
	case step%10 == 7:
		text := killText(writer, step)
		_, err = m.Update(ctx, scope, fmt.Sprintf("step %d", step-2), memory.Patch{Text: &text})
	case step%10 == 8:
		err = m.Delete(ctx, scope, fmt.Sprintf("step %d", step-4))
	case step%10 == 9:
		err = db.Update(ctx, func(tx *engine.Tx) error {
			if err := tx.Memories().Delete(ctx, scope, fmt.Sprintf("step %d", step-4)); err != nil {
				return err
			}
			_, err := tx.Memories().Store(ctx, killMemory(writer, step), nil)
			return err
		})
	default:
		_, err = m.Store(ctx, killMemory(writer, step), nil)
	}
	return err
}

// afterSteps is what a writer's memories are, by ID, when its first steps are
// done.
func afterSteps(writer, steps int) map[string]string {
	state := map[string]string{}
	for step := range steps {
		id := fmt.Sprintf("step %d", step)
		switch {
		case step%60 == 59:
			clear(state)
		case step%10 == 7:
			state[fmt.Sprintf("step %d", step-2)] = killText(writer, step)
		case step%10 == 8:
			delete(state, fmt.Sprintf("step %d", step-4))
		case step%10 == 9:
			delete(state, fmt.Sprintf("step %d", step-4))
			state[id] = killText(writer, step)
		default:
			state[id] = killText(writer, step)
		}
	}
	return state
}

func TestKill(t *testing.T) {
	rng := rand.New(rand.NewPCG(newSeed(t), 0))
	dir := filepath.Join(t.TempDir(), "db")
	limit := killFor
	if d := soak(t); d > 0 {
		limit = d
	}
	var steps [killWriters]int // done, and found on disk
	kills := 0
	for end := time.Now().Add(limit); kills < 2 || time.Now().Before(end); kills++ {
		// Every other child lives to write, however long it takes to open.
		acked := runAndKill(t, rng, dir, steps, kills%2 == 1)
		steps = verifyKilled(t, dir, acked)
	}
	done := 0
	for _, n := range steps {
		done += n
	}
	t.Logf("%d kills, %d commits", kills, done)
	if done == 0 {
		t.Error("no child ever committed anything")
	}
}

// runAndKill runs a child for a moment, counted from its start or, if it shall
// write, from its first acknowledged step, and returns how many steps of each
// writer were acknowledged.
func runAndKill(
	t *testing.T, rng *rand.Rand, dir string, steps [killWriters]int, writes bool,
) [killWriters]int {
	t.Helper()
	plan := []string{dir}
	for _, n := range steps {
		plan = append(plan, strconv.Itoa(n))
	}
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), childVar+"="+strings.Join(plan, ","))
	var complaint strings.Builder
	c.Stderr = &complaint
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	moment := time.Duration(rng.IntN(400)) * time.Millisecond
	kill := func() { time.AfterFunc(moment, func() { _ = c.Process.Kill() }) }
	if !writes {
		kill()
	}
	acked := steps
	lines := bufio.NewScanner(out)
	for first := true; lines.Scan(); first = false {
		if first && writes {
			kill()
		}
		var writer, step int
		if n, _ := fmt.Sscanf(lines.Text(), "%d %d", &writer, &step); n == 2 {
			acked[writer] = step + 1
		}
	}
	if err := c.Wait(); complaint.Len() > 0 {
		t.Fatalf("the child ended by itself: %v: %s", err, complaint.String())
	}
	return acked
}

// verifyKilled finds out how far each writer came.
func verifyKilled(t *testing.T, dir string, acked [killWriters]int) (steps [killWriters]int) {
	t.Helper()
	db, err := engine.Open(dir, &engine.Options{MemoryBudget: budget})
	if err != nil {
		t.Fatalf("after a kill: %v", err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Errorf("close after a kill: %v", err)
		}
	}()
	total := 0
	for writer := range steps {
		found := map[string]string{}
		for mem, err := range db.Memories().All(t.Context(), memory.ListQuery{Scope: killScope(writer)}) {
			if err != nil {
				t.Fatal(err)
			}
			found[mem.ID] = mem.Text
		}
		total += len(found)
		switch n := acked[writer]; {
		case maps.Equal(found, afterSteps(writer, n+1)):
			steps[writer] = n + 1
		case maps.Equal(found, afterSteps(writer, n)):
			steps[writer] = n
		default:
			t.Fatalf("writer %d: %d steps were acknowledged, which leave %v; found %v", writer, n,
				slices.Sorted(maps.Keys(afterSteps(writer, n))), slices.Sorted(maps.Keys(found)))
		}
	}
	report, err := db.Check(t.Context())
	if err != nil || !report.OK || report.Memories != total {
		t.Fatalf("check of %d memories after a kill: %+v, %v", total, report, err)
	}
	return steps
}

// TestKilledHolder: the lock of a killed process is gone, that of a living one
// names it.
func TestKilledHolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), childVar+"="+dir+strings.Repeat(",0", killWriters))
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	if _, err := lines.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	_, err = engine.Open(dir, nil)
	if !errors.Is(err, memory.ErrLocked) || !strings.Contains(err.Error(), strconv.Itoa(c.Process.Pid)) {
		t.Errorf("open beside process %d: %v", c.Process.Pid, err)
	}
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, lines)
	_ = c.Wait()
	db, err := engine.Open(dir, nil)
	if err != nil {
		t.Fatalf("after the kill: %v", err)
	}
	closes(t, db)
}
