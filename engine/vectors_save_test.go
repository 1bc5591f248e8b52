package engine

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/doctable"
	"github.com/seed-7aedc3ff/memdb/internal/fsys/crashfs"
	"github.com/seed-7aedc3ff/memdb/internal/race"
	"github.com/seed-7aedc3ff/memdb/internal/spaces"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// snapshots lists the files of vectors in the folder.
func snapshots(t testing.TB, fs vfs.FS) (names []string) {
	t.Helper()
	all, err := fs.List("db")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range all {
		if strings.HasPrefix(name, spaces.SnapshotPrefix) {
			names = append(names, name)
		}
	}
	return names
}

// savedWorld is a closed database with one snapshot.
func savedWorld(t *testing.T) (*vectorWorld, string) {
	t.Helper()
	w := newVectorWorld(t, MetricCosine, Options{})
	for i := 0; i < 200 || len(w.mems) < 60; i++ { // with fewer vectors nothing is linked
		w.change(w.db.Memories(), w.mems)
	}
	waitIndexed(t, w.db)
	closeTest(t, w.db)
	names := snapshots(t, w.fs)
	if len(names) != 1 {
		t.Fatalf("files of vectors: %v", names)
	}
	return w, names[0]
}

// openOn opens the world's database on another file system, and returns what it
// logs.
func (w *vectorWorld) openOn(fs vfs.FS) (log func() string) {
	w.t.Helper()
	o := w.opts
	o.Logger, log = logged()
	w.fs, w.db = fs, openTest(w.t, fs, o)
	return log
}

// TestSnapshotIsUsed: what Close has written is what Open reads, with what came
// after it from the store, and old files go.
func TestSnapshotIsUsed(t *testing.T) {
	w, name := savedWorld(t)
	for round := range 4 {
		log := w.openOn(w.fs)
		s := w.db.spaces.Named(memory.DefaultSpace)
		if s.Saved.Name != name || s.Index.Linked() == 0 || log() != "" {
			t.Fatalf("round %d: opened with %+v, %d linked, not with %s: %s", round, s.Saved, s.Index.Linked(), name, log())
		}
		w.check(w.db.Memories(), w.mems)
		for range 30 {
			w.change(w.db.Memories(), w.mems)
		}
		w.check(w.db.Memories(), w.mems)
		// A process that is killed here leaves the older snapshot.
		killed := *w
		killed.opts.vectors = &spaces.Limits{Exhaustive: 20, Crossover: 30, UnlinkedSoft: 1, UnlinkedIdle: 1, UnlinkedMost: 1 << 20, SaveTail: 1 << 30, CloseTail: 1 << 30}
		killed.openOn(w.fs.(*crashfs.Disk).Lose(100, w.rng))
		killed.check(killed.db.Memories(), w.mems)
		mustCheck(t, killed.db, len(w.mems))
		closeTest(t, w.db)
		names := snapshots(t, w.fs)
		if len(names) != 1 || names[0] == name {
			t.Fatalf("round %d: files of vectors: %v, before %s", round, names, name)
		}
		name = names[0]
	}
}

// TestSnapshotIsRefused: a file that is damaged, cut short, of another database, of
// another past, newer than the store or under another name is logged, and the
// index is built anew; then the file is gone.
func TestSnapshotIsRefused(t *testing.T) {
	race.Sequential(t)
	w, name := savedWorld(t)
	path := "db/" + name
	whole := readAll(t, w.fs, path)
	other, otherName := savedWorld(t)
	foreign := readAll(t, other.fs, "db/"+otherName)
	flip := func(at int) []byte {
		b := append([]byte(nil), whole...)
		b[at] ^= 1 << (at % 8)
		return b
	}
	type spoilt struct {
		name string
		data []byte
	}
	cases := map[string]spoilt{
		"of another database":  {name, foreign},
		"newer than the store": {spaces.SnapshotName(1, 1<<40), whole},
		"under another LSN":    {spaces.SnapshotName(1, 1), whole},
		"of no space":          {spaces.SnapshotName(9, 1), whole},
		"followed by more":     {name, append(append([]byte(nil), whole...), 0)},
		"a part of one":        {name + spaces.SnapshotTemp, whole[:100]},
	}
	for _, at := range []int{0, 9, 13, 28, 31, 40, 47, 51, 60, 200, 1500, len(whole) / 2, len(whole) - 1} {
		cases[fmt.Sprintf("damaged in byte %d", at)] = spoilt{name, flip(at)}
		cases[fmt.Sprintf("cut after %d bytes", at)] = spoilt{name, whole[:at]}
	}
	for what, c := range cases {
		fs := copyFS(t, w.fs)
		remove(t, fs, path)
		writeAll(t, fs, "db/"+c.name, c.data)
		got := *w
		got.opts.vectors = &spaces.Limits{Exhaustive: 20, Crossover: 30, UnlinkedSoft: 1, UnlinkedIdle: 1, UnlinkedMost: 1 << 20, SaveTail: 1 << 30, CloseTail: 1 << 30}
		log := got.openOn(fs)
		if s := got.db.spaces.Named(memory.DefaultSpace); s.Saved.Name != "" {
			t.Errorf("%s: it was used", what)
		}
		if said := strings.Contains(log(), "cannot be used"); said != (what != "of no space" && what != "a part of one") {
			t.Errorf("%s: the log says %q", what, log())
		}
		got.check(got.db.Memories(), w.mems)
		mustCheck(t, got.db, len(w.mems))
		waitIndexed(t, got.db)
		closeTest(t, got.db)
		if names := snapshots(t, fs); len(names) > 0 {
			t.Errorf("%s: left behind: %v", what, names)
		}
	}
}

// TestSnapshotOfAnotherPast: two copies of a database give the same numbers to
// different vectors. The snapshot of one is not used by the other.
func TestSnapshotOfAnotherPast(t *testing.T) {
	w, _ := savedWorld(t)
	fork := *w
	fork.mems = maps.Clone(w.mems)
	fork.rng = rand.New(rand.NewPCG(w.rng.Uint64(), 3))
	fork.openOn(copyFS(t, w.fs))
	w.openOn(w.fs)
	for range 100 { // as many commits on both sides
		w.change(w.db.Memories(), w.mems)
		fork.change(fork.db.Memories(), fork.mems)
	}
	closeTest(t, w.db)
	closeTest(t, fork.db)
	ours, theirs := snapshots(t, w.fs)[0], snapshots(t, fork.fs)[0]
	data := readAll(t, fork.fs, "db/"+theirs)
	remove(t, w.fs, "db/"+ours)
	writeAll(t, w.fs, "db/"+theirs, data)
	log := w.openOn(w.fs)
	if !strings.Contains(log(), "cannot be used") {
		t.Errorf("the log says %q", log())
	}
	w.check(w.db.Memories(), w.mems)
	mustCheck(t, w.db, len(w.mems))
}

// TestSnapshotOfNothing: a space whose graph is gone has no file.
func TestSnapshotOfNothing(t *testing.T) {
	w, _ := savedWorld(t)
	w.openOn(w.fs)
	if _, err := w.db.Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	waitVectors(t, w.db, 0)
	w.reopen()
	for deadline := time.Now().Add(patience); w.db.spaces.Named(memory.DefaultSpace).Index.Linked() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the graph is not repaired")
		}
	}
	closeTest(t, w.db)
	if names := snapshots(t, w.fs); len(names) > 0 {
		t.Errorf("left behind: %v", names)
	}
}

// TestSnapshotFails: where a snapshot cannot be written the database works on,
// says so, and the older file stays.
func TestSnapshotFails(t *testing.T) {
	race.Sequential(t)
	w, name := savedWorld(t)
	disk := crashfs.Wrap(w.fs, nil)
	for _, kind := range []crashfs.Kind{crashfs.Create, crashfs.Write, crashfs.Sync, crashfs.Rename} {
		disk.SetHook(func(op crashfs.Op) error {
			if op.Kind == kind && strings.Contains(op.Path, spaces.SnapshotPrefix) {
				return errors.New("injected")
			}
			return nil
		})
		o := w.opts
		var log func() string
		o.Logger, log = logged()
		w.db = openTest(t, disk, o)
		for range 100 {
			w.change(w.db.Memories(), w.mems)
		}
		waitIndexed(t, w.db)
		closeTest(t, w.db)
		if names := snapshots(t, w.fs); len(names) != 1 || names[0] != name || !strings.Contains(log(), "could not be written") {
			t.Errorf("%s fails: files %v, the log says %q", kind, names, log())
		}
	}
	disk.SetHook(nil)
	w.openOn(disk)
	w.check(w.db.Memories(), w.mems)
	mustCheck(t, w.db, len(w.mems))
}

// TestSnapshotCrash crashes a database that writes snapshots all the time before
// each change of a file, and holds what comes back against what was acknowledged
// and what was about to be.
func TestSnapshotCrash(t *testing.T) {
	race.Sequential(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	mem := crashfs.NewDisk()
	disk := crashfs.Wrap(mem, nil)
	limits := smallLimits()
	limits.SaveTail = 20
	w := &vectorWorld{t: t, rng: rand.New(rand.NewPCG(seed, 1)), fs: disk, metric: MetricCosine, dim: 4, mems: map[string]memory.Memory{}}
	w.opts = setup{Options: Options{MemoryBudget: testBudget}, tuning: tuning{vectors: limits}}
	w.db = openTest(t, disk, w.opts)

	// states are the memories after each commit, by LSN.
	var mu sync.Mutex
	states := map[uint64]map[string]memory.Memory{w.db.LSN(): {}}
	type crash struct {
		op    crashfs.Op
		left  *crashfs.Disk
		floor uint64
	}
	var crashes []crash
	var acked uint64
	rng := rand.New(rand.NewPCG(seed, 2))
	disk.SetHook(func(op crashfs.Op) error {
		mu.Lock()
		defer mu.Unlock()
		every := 12
		if strings.Contains(op.Path, spaces.SnapshotPrefix) {
			every = 1
		}
		if len(crashes) < 150 && rng.IntN(every) == 0 {
			left := mem.Lose([]int{0, 30, 70, 100}[rng.IntN(4)], rng)
			crashes = append(crashes, crash{op, left, acked})
		}
		return nil
	})
	step := func() {
		mems := maps.Clone(w.mems)
		var lsn uint64
		err := w.db.Update(t.Context(), func(tx *Tx) error {
			for range 1 + w.rng.IntN(8) {
				w.change(tx.Memories(), mems)
			}
			lsn = tx.LSN()
			mu.Lock()
			defer mu.Unlock()
			states[lsn] = mems
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		w.mems = mems
		mu.Lock()
		defer mu.Unlock()
		acked = lsn
	}
	for i := range 150 {
		step()
		if i%50 == 49 {
			waitIndexed(t, w.db)
			w.reopen()
		}
	}
	disk.SetHook(nil)
	ofSnapshot := 0
	for _, c := range crashes {
		if strings.Contains(c.op.Path, spaces.SnapshotPrefix) {
			ofSnapshot++
		}
		got := *w
		got.openOn(c.left)
		lsn := got.db.LSN()
		want, ok := states[lsn]
		if lsn < c.floor || !ok {
			t.Fatalf("%+v: LSN %d, acknowledged was %d", c.op, lsn, c.floor)
		}
		got.check(got.db.Memories(), want)
		mustCheck(t, got.db, len(want))
		closeTest(t, got.db)
		got.openOn(c.left) // with what it saved itself
		got.check(got.db.Memories(), want)
		closeTest(t, got.db)
	}
	t.Logf("%d crashes, %d of them while a snapshot was written", len(crashes), ofSnapshot)
	if ofSnapshot < 10 {
		t.Error("too few crashes while a snapshot was written")
	}
}

// TestSnapshotOfWaypoints: where the vectors of whole pages of slots have been
// replaced since the snapshot that was opened with, the next one can be written.
func TestSnapshotOfWaypoints(t *testing.T) {
	race.Sequential(t)
	fs := crashfs.NewDisk()
	never := &spaces.Limits{Exhaustive: 20, Crossover: 30, UnlinkedSoft: 1, UnlinkedIdle: 1, UnlinkedMost: 1 << 20, SaveTail: 1 << 40, CloseTail: 1 << 40}
	always := *never
	always.SaveTail, always.CloseTail = 1, 1
	rng := rand.New(rand.NewPCG(5, 6))
	mems := make([]memory.Memory, 3*doctable.PageSize)
	for i := range mems {
		mems[i] = memory.Memory{ID: fmt.Sprint(i), Text: fmt.Sprint("memory ", i), Scope: memory.Scope{Agent: "a"}}
	}
	store := func(db *DB) {
		t.Helper()
		for i := range mems {
			mems[i].Embedding = []float32{rng.Float32(), rng.Float32(), rng.Float32(), 1}
		}
		if _, err := db.Memories().StoreBatch(t.Context(), mems, &memory.StoreOptions{NoDedup: true, Upsert: true}); err != nil {
			t.Fatal(err)
		}
	}
	db := openTest(t, fs, setup{tuning: tuning{vectors: &always}})
	store(db)
	waitIndexed(t, db)
	closeTest(t, db)

	db = openTest(t, fs, setup{tuning: tuning{vectors: never}})
	store(db)
	killed := fs.Crash(crashfs.Crash{}) // a process killed here has written no other snapshot
	closeTest(t, db)

	for range 2 {
		db = openTest(t, killed, setup{tuning: tuning{vectors: &always}})
		mustCheck(t, db, len(mems))
		res, err := db.Memories().Recall(t.Context(), memory.Query{Embedding: mems[7].Embedding, Limit: 1, Profile: memory.ProfileVector, Exact: true, Scope: memory.Scope{Agent: "a"}})
		if err != nil || len(res.Hits) != 1 || res.Hits[0].ID != "7" {
			t.Fatalf("recall: %+v, %v", res, err)
		}
		closeTest(t, db)
	}
}

// TestRepairIsSaved: links that were led around removed vectors, whose removal a
// snapshot already told of, are not led around them again by each process to come.
func TestRepairIsSaved(t *testing.T) {
	w, _ := savedWorld(t)
	space := func() *spaces.Space { return w.db.spaces.Named(memory.DefaultSpace) }
	w.openOn(w.fs)
	for len(w.mems) < 300 {
		w.change(w.db.Memories(), w.mems)
	}
	waitIndexed(t, w.db)
	janitorDone(t, w.db)
	comes(t, "that nothing is to be linked or led around", func() bool { return !space().Index.Due() })
	space().Broken.Store(true)                                 // and nothing will be
	if err := space().Index.Link(t.Context(), 0); err != nil { // the last turn is over
		t.Fatal(err)
	}
	for id, m := range w.mems {
		if len(w.mems) <= 240 {
			break
		}
		if err := w.db.Memories().Delete(t.Context(), m.Scope, id); err != nil {
			t.Fatal(err)
		}
		delete(w.mems, id)
	}
	janitorDone(t, w.db) // else those removed after the repair might be too few for another
	closeTest(t, w.db)
	w.openOn(w.fs)
	if n := space().Index.Stats().Removed; n == 0 {
		t.Fatal("there is nothing to lead around")
	}
	within(t, "leading around removed vectors", func() {
		for space().Index.Stats().Removed > 0 {
			w.db.spaces.Linker.Wake()
			time.Sleep(time.Millisecond)
		}
	})
	closeTest(t, w.db)
	w.openOn(w.fs)
	if n := space().Index.Stats().Removed; n != 0 {
		t.Errorf("%d removed vectors are to be led around once more", n)
	}
	w.check(w.db.Memories(), w.mems)
}
