package fuzz

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/internal/fsys"
	"github.com/seed-7aedc3ff/memdb/internal/fsys/crashfs"
	"github.com/seed-7aedc3ff/memdb/memory"
)

const (
	dbDir = "db"
	// budget is small, so that tables are flushed and logs rotated within a run.
	budget = 1 << 20
	// dim makes a vector of 16 KB, so that few memories fill a memtable.
	dim = 4096
	// closeLimit is what Close of a failed database may take at most.
	closeLimit = 2 * time.Minute
)

// soak returns how long to run where a sample is not enough, 0 for a sample.
func soak(t *testing.T) time.Duration {
	t.Helper()
	s := os.Getenv("MEMDB_SOAK")
	if s == "" {
		return 0
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatalf("MEMDB_SOAK: %v", err)
	}
	return d
}

// newSeed draws a seed and logs it.
func newSeed(t *testing.T) uint64 {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return seed
}

// world is a database over a disk that can crash and fail, and its journal.
type world struct {
	mem     *crashfs.Disk
	disk    *crashfs.FS
	db      *engine.DB
	journal *journal
	// touched counts the recalls of one memory whose touches are durable.
	touched atomic.Uint64
	words   atomic.Uint64
}

// target is the memory that workloads recall; see world.touched.
var target = key{"touched", "target"}

func newWorld() *world {
	mem := crashfs.NewDisk()
	return &world{mem: mem, disk: crashfs.Wrap(mem, nil), journal: newJournal()}
}

func options() *engine.Options { return &engine.Options{MemoryBudget: budget} }

func (w *world) open() (err error) {
	w.db, err = engine.Open(fsys.On(w.disk, dbDir), options())
	return err
}

func (w *world) reopen() error {
	if err := w.db.Close(); err != nil {
		return err
	}
	return w.open()
}

// text makes one that no other has, by a word of its own at the start.
func (w *world) text(rng *rand.Rand) string {
	return fmt.Sprintf("%s remembers that %s likes %s", unique(w.words.Add(1)), pick(rng, names), pick(rng, things))
}

// unique is a word that the analyzer leaves alone.
func unique(n uint64) string { return fmt.Sprintf("zq%dx", n) }

var (
	names  = []string{"Ada", "Grace", "Edsger", "Barbara", "Donald"}
	things = []string{"tea", "coffee", "long walks", "short proofs", "old maps", "the sea"}
)

func pick[T any](rng *rand.Rand, of []T) T { return of[rng.IntN(len(of))] }

// vector is random, so that nothing compresses it.
func vector(rng *rand.Rand) []float32 {
	v := make([]float32, dim)
	for i := range v {
		v[i] = rng.Float32() - 0.5
	}
	return v
}

// update runs one transaction and journals what it did. fn may run calls on tx
// through the recorder alone.
func (w *world) update(ctx context.Context, fn func(r *recorder) error) error {
	var c commit
	err := w.db.Update(ctx, func(tx *engine.Tx) error {
		r := &recorder{ctx: ctx, tx: tx, commit: commit{lsn: tx.LSN()}}
		if err := fn(r); err != nil {
			return err
		}
		c = r.commit
		w.journal.note(c)
		return nil
	})
	if err == nil {
		w.journal.acknowledged(c)
	}
	return err
}

// recorder writes through a transaction and records what it did.
type recorder struct {
	ctx context.Context
	tx  *engine.Tx
	commit
}

func (r *recorder) store(mem memory.Memory, o *memory.StoreOptions) (memory.Stored, error) {
	st, err := r.tx.Memories().Store(r.ctx, mem, o)
	if err == nil {
		r.stored(mem, st)
	}
	return st, err
}

func (r *recorder) storeBatch(mems []memory.Memory) error {
	all, err := r.tx.Memories().StoreBatch(r.ctx, mems, nil)
	if err != nil {
		return err
	}
	for i, st := range all {
		r.stored(mems[i], st)
	}
	return nil
}

func (r *recorder) stored(mem memory.Memory, st memory.Stored) {
	k := key{mem.User, st.ID}
	switch {
	case st.Deduplicated:
		r.hits = append(r.hits, hit{k, mem.Text})
	case st.Updated:
		r.changes = append(r.changes, change{event: memory.EventUpdate, key: k, text: mem.Text})
	case st.Stored:
		r.changes = append(r.changes, change{event: memory.EventAdd, key: k, run: mem.Run, seq: st.Seq, text: mem.Text})
	}
}

func (r *recorder) edit(k key, text string) error {
	_, err := r.tx.Memories().Update(r.ctx, memory.Scope{User: k.user}, k.id, memory.Patch{Text: &text})
	if err == nil {
		r.changes = append(r.changes, change{event: memory.EventUpdate, key: k, text: text})
	}
	return err
}

func (r *recorder) remove(k key) error {
	err := r.tx.Memories().Delete(r.ctx, memory.Scope{User: k.user}, k.id)
	if err == nil {
		r.changes = append(r.changes, change{event: memory.EventDelete, key: k})
	}
	return err
}

func (r *recorder) removeScope(s memory.Scope) error {
	n, err := r.tx.Memories().DeleteScope(r.ctx, s)
	if err == nil && n > 0 {
		r.changes = append(r.changes, change{event: memory.EventDelete, scope: s})
	}
	return err
}

// recall touches the target n times and makes that durable.
func (w *world) recall(ctx context.Context, n uint64) error {
	for range n {
		res, err := w.db.Memories().Recall(ctx, memory.Query{
			Scope: memory.Scope{User: target.user}, Text: "target", Profile: memory.ProfileText,
		})
		if err != nil {
			return err
		}
		if len(res.Hits) != 1 {
			return fmt.Errorf("the recall found %d memories", len(res.Hits))
		}
	}
	if err := w.db.FlushTouches(ctx); err != nil {
		return err
	}
	w.touched.Add(n)
	return nil
}

// storeTarget stores the memory that recall touches.
func (w *world) storeTarget(ctx context.Context) error {
	return w.update(ctx, func(r *recorder) error {
		_, err := r.store(memory.Memory{ID: target.id, Scope: memory.Scope{User: target.user}, Text: "target of every recall"}, nil)
		return err
	})
}

// floor is what a crash may not fall behind.
type floor struct{ lsn, touches uint64 }

func (w *world) floor() floor { return floor{w.journal.watermark(), w.touched.Load()} }

// verify opens what a crash left, and holds it against the journal.
func (w *world) verify(ctx context.Context, fs vfs.FS, f floor) error {
	return w.verifyAs(ctx, fs, options(), f)
}

func (w *world) verifyAs(ctx context.Context, fs vfs.FS, o *engine.Options, f floor) (err error) {
	db, err := engine.Open(fsys.On(fs, dbDir), o)
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	lsn := db.LSN()
	if lsn < f.lsn {
		return fmt.Errorf("LSN %d was acknowledged, %d is there", f.lsn, lsn)
	}
	want, err := w.journal.at(lsn)
	if err != nil {
		return err
	}
	if err := sameMemories(ctx, db, want); err != nil {
		return fmt.Errorf("at LSN %d: %w", lsn, err)
	}
	if err := sameHistory(ctx, db, want); err != nil {
		return fmt.Errorf("at LSN %d: %w", lsn, err)
	}
	if err := w.sameTouches(ctx, db, want, f); err != nil {
		return fmt.Errorf("at LSN %d: %w", lsn, err)
	}
	report, err := db.Check(ctx)
	if err != nil {
		return err
	}
	if !report.OK || report.Memories != len(want.live) {
		return fmt.Errorf("at LSN %d: check of %d memories: %+v", lsn, len(want.live), report)
	}
	if o.ReadOnly {
		return nil
	}
	return goesOn(ctx, db, want)
}

// sameMemories compares a list of everything, and of some memories what is under
// their ID and what a search for their own word finds.
func sameMemories(ctx context.Context, db *engine.DB, want *state) error {
	live := want.inOrder()
	i := 0
	for mem, err := range db.Memories().All(ctx, memory.ListQuery{AllScopes: true}) {
		if err != nil {
			return err
		}
		got := remembered{key{mem.User, mem.ID}, mem.Run, mem.Seq, mem.Text}
		if i >= len(live) {
			return fmt.Errorf("%v is there, beside the %d that should be", got, len(live))
		}
		if got != live[i] {
			return fmt.Errorf("memory %d of %d is %v, want %v", i, len(live), got, live[i])
		}
		i++
	}
	if i != len(live) {
		return fmt.Errorf("%d memories of %d: %v is missing", i, len(live), live[i])
	}
	const looked = 20
	for i := 0; i < len(live); i += 1 + len(live)/looked {
		m := live[i]
		got, err := db.Memories().Get(ctx, memory.Scope{User: m.key.user}, m.key.id)
		if err != nil {
			return err
		}
		if got.Text != m.text || got.Seq != m.seq {
			return fmt.Errorf("get %v: number %d, text %q; want %v", m.key, got.Seq, got.Text, m)
		}
		word, _, _ := strings.Cut(m.text, " ")
		res, err := db.Memories().Recall(ctx, memory.Query{
			Scope: memory.Scope{User: m.key.user}, Text: word, Profile: memory.ProfileText, NoTouch: true,
		})
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(res.Hits, func(h memory.Hit) bool { return h.ID == m.key.id && h.Text == m.text }) {
			return fmt.Errorf("a search for %q does not find %v", word, m.key)
		}
	}
	return nil
}

func sameHistory(ctx context.Context, db *engine.DB, want *state) error {
	for k, entries := range want.history {
		got, err := db.Memories().History(ctx, memory.Scope{User: k.user}, k.id)
		if err != nil {
			return err
		}
		have := make([]entry, len(got))
		for i, e := range got {
			have[i] = entry{e.LSN, e.Event, deref(e.OldText), deref(e.NewText)}
		}
		if !slices.Equal(have, entries) {
			return fmt.Errorf("the history of %v is %v, want %v", k, have, entries)
		}
	}
	return nil
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// sameTouches: acknowledged touches are there. More may be, from a commit under
// way.
func (w *world) sameTouches(ctx context.Context, db *engine.DB, want *state, f floor) error {
	if _, ok := want.live[target]; !ok {
		return nil
	}
	mem, err := db.Memories().Get(ctx, memory.Scope{User: target.user}, target.id)
	if err != nil {
		return err
	}
	if mem.AccessCount < f.touches {
		return fmt.Errorf("%d touches were acknowledged, %d are there", f.touches, mem.AccessCount)
	}
	return nil
}

// goesOn stores one more: what was recovered must not give a number twice.
func goesOn(ctx context.Context, db *engine.DB, want *state) error {
	before := db.LSN()
	st, err := db.Memories().Store(ctx, memory.Memory{Scope: memory.Scope{User: "later"}, Text: "one more"}, nil)
	if err != nil {
		return fmt.Errorf("store after recovery: %w", err)
	}
	for _, m := range want.live {
		if st.Seq <= m.seq {
			return fmt.Errorf("the number %d of %v was given again, as %d", m.seq, m.key, st.Seq)
		}
	}
	if db.LSN() <= before {
		return fmt.Errorf("LSN %d was given again", before)
	}
	return nil
}
