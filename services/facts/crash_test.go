package facts_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/internal/fsys"
	"github.com/seed-7aedc3ff/memdb/internal/fsys/crashfs"
	"github.com/seed-7aedc3ff/memdb/services/facts"
)

const crashDir = "/db"

// stepper is a model whose answers to "step 7" add three facts and an entity, change one
// fact and delete one with its entity.
func stepper() *model {
	m := &model{relations: `{"relations":[]}`}
	m.extract = func(conversation string) string {
		k, err := strconv.Atoi(strings.TrimPrefix(conversation, "step "))
		if err != nil {
			panic(err)
		}
		m.entities = fmt.Sprintf(`{"entities":[{"name":"item%dx0","type":"concept"}]}`, k)
		list := []string{fmt.Sprintf("counter stands at %d", k)}
		for i := range 3 {
			list = append(list, fmt.Sprintf("item%dx%d is kept", k, i))
		}
		if k > 1 {
			list = append(list, fmt.Sprintf("forget item%dx0", k-1))
		}
		return jsonList(list...)
	}
	m.decide = func(fact string, offered []string) string {
		gone, forget := strings.CutPrefix(fact, "forget ")
		switch {
		case forget:
			return operation("DELETE", offered, gone, "")
		case strings.HasPrefix(fact, "counter") && slices.ContainsFunc(offered, func(o string) bool { return strings.HasPrefix(o, "counter") }):
			return operation("UPDATE", offered, "counter", fact)
		}
		return `[{"event":"ADD"}]`
	}
	return m
}

// afterStep is what there is after a step, sorted.
func afterStep(k int) (list []string) {
	for j := 1; j <= k; j++ {
		list = append(list, fmt.Sprintf("item%dx1 is kept", j), fmt.Sprintf("item%dx2 is kept", j))
	}
	if k > 0 {
		list = append(list, fmt.Sprintf("counter stands at %d", k), fmt.Sprintf("item%dx0 is kept", k), fmt.Sprintf("entity item%dx0", k))
	}
	slices.Sort(list)
	return list
}

// TestCrash crashes at changes of files while facts are added. After each crash every add
// that was acknowledged is there, the one that ran is there whole or not at all, with its
// entity, and the check is clean.
func TestCrash(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	steps := 7
	if testing.Short() {
		steps = 5
	}
	type crash struct {
		left  *crashfs.Disk
		acked int
	}
	var crashes []crash
	acked, begun := 0, false
	mem := crashfs.NewDisk()
	disk := crashfs.Wrap(mem, func(crashfs.Op) error {
		for _, percent := range []int{0, 50, 100} { // of what was not synced, kept
			if begun {
				crashes = append(crashes, crash{mem.Lose(percent, rng), acked})
			}
		}
		return nil
	})
	db, err := engine.Open(fsys.On(disk, crashDir), &engine.Options{MemoryBudget: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	f := open(t, facts.Config{DB: db, LLM: stepper(), Graph: true})
	disk.Between(func() { begun = true })
	for k := 1; k <= steps; k++ {
		stepOn(t, f, k)
		disk.Between(func() { acked = k })
	}
	disk.Between(func() { begun = false })
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if len(crashes) < 3*steps {
		t.Fatalf("only %d crashes: not every step changed a file", len(crashes))
	}
	running := 0
	for i, c := range crashes {
		if recovered := recoverCrash(t, i, c.left, c.acked, steps); recovered > c.acked {
			running++
		}
	}
	t.Logf("%d crashes, in %d of them the add that ran is there", len(crashes), running)
}

// stepOn adds what a step tells.
func stepOn(t *testing.T, f *facts.Facts, k int) {
	t.Helper()
	a := add(t, f, alice, fmt.Sprintf("step %d", k))
	want := 5
	if k == 1 {
		want = 4 // there is nothing to forget
	}
	if len(a.Results) != want || len(a.Degraded) > 0 {
		t.Fatalf("step %d: %+v", k, a)
	}
}

// recoverCrash opens what a crash left, and returns the step that it has come to.
func recoverCrash(t *testing.T, i int, left *crashfs.Disk, acked, steps int) int {
	t.Helper()
	db, err := engine.Open(fsys.On(left, crashDir), &engine.Options{MemoryBudget: 64 << 20})
	if err != nil {
		t.Fatalf("crash %d: %v", i, err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Errorf("crash %d: %v", i, err)
		}
	}()
	f := open(t, facts.Config{DB: db, LLM: stepper(), Graph: true})
	got, k := stateOf(t, f), acked
	if !slices.Equal(got, afterStep(k)) && k < steps {
		k++
	}
	if !slices.Equal(got, afterStep(k)) {
		t.Fatalf("crash %d after step %d: there is %q", i, acked, got)
	}
	sound(t, db)
	stepOn(t, f, k+1) // and it goes on
	if got := stateOf(t, f); !slices.Equal(got, afterStep(k+1)) {
		t.Fatalf("crash %d, after one more step: %q", i, got)
	}
	return k
}

// stateOf is what there is, as afterStep has it, and checks the history of the counter.
func stateOf(t *testing.T, f *facts.Facts) (list []string) {
	t.Helper()
	all, err := f.GetAll(t.Context(), alice, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, item := range all.Results {
		list = append(list, item.Memory)
		value, isCounter := strings.CutPrefix(item.Memory, "counter stands at ")
		if !isCounter {
			continue
		}
		if h := events(t, f, item.ID); strconv.Itoa(len(h)) != value {
			t.Errorf("the counter stands at %s and its history is %q", value, h)
		}
	}
	page, err := f.DB.Graph().List(t.Context(), graph.ListQuery{Owner: alice.Owner()})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range page.Entities {
		list = append(list, "entity "+e.Name)
	}
	slices.Sort(list)
	return list
}
