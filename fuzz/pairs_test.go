package fuzz

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/entries"
	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/mention"
	"github.com/seed-7aedc3ff/memdb/policy"
	"github.com/seed-7aedc3ff/memdb/scope"
	"github.com/seed-7aedc3ff/memdb/sessions"
	"github.com/seed-7aedc3ff/memdb/usage"
	"github.com/seed-7aedc3ff/memdb/wal"
	"github.com/seed-7aedc3ff/memdb/wal/folder"
)

// pairOp is a public operation on what an owner has.
type pairOp struct {
	name string
	do   func(ctx context.Context, db *engine.DB, r *rand.Rand, o scope.Owner) error
}

// errOf is the error of a call with a result that nobody asks for.
func errOf[T any](_ T, err error) error { return err }

// pairOps are the operations that change something, and those that read for long.
func pairOps() []pairOp {
	memoryID := func(r *rand.Rand) string { return fmt.Sprint("m", r.IntN(9)) }
	entityID := func(r *rand.Rand) string { return fmt.Sprint("e", r.IntN(6)) }
	session := func(r *rand.Rand) string { return fmt.Sprint("s", r.IntN(3)) }
	people := []string{"Ada", "Bob", "Cyd", "Dora"}
	text := func(r *rand.Rand) string {
		return fmt.Sprintf("%s met %s in Ghent, for the %dth time", people[r.IntN(4)], people[r.IntN(4)], r.IntN(30))
	}
	return []pairOp{
		{"store", func(ctx context.Context, db *engine.DB, r *rand.Rand, o scope.Owner) error {
			m := memory.Memory{ID: memoryID(r), Scope: o.Scope(), Text: text(r), Embedding: []float32{r.Float32(), 1, 0, 0}}
			return errOf(db.Memories().Store(ctx, m, &memory.StoreOptions{Upsert: true}))
		}},
		{"update", func(ctx context.Context, db *engine.DB, r *rand.Rand, o scope.Owner) error {
			changed := text(r)
			return errOf(db.Memories().Update(ctx, o.Scope(), memoryID(r), memory.Patch{Text: &changed}))
		}},
		{"delete", func(ctx context.Context, db *engine.DB, r *rand.Rand, o scope.Owner) error {
			return db.Memories().Delete(ctx, o.Scope(), memoryID(r))
		}},
		{"delete a scope", func(ctx context.Context, db *engine.DB, _ *rand.Rand, o scope.Owner) error {
			return errOf(db.Memories().DeleteScope(ctx, o.Scope()))
		}},
		{"delete an owner", func(ctx context.Context, db *engine.DB, _ *rand.Rand, o scope.Owner) error {
			return errOf(db.DeleteOwner(ctx, o))
		}},
		{"delete a user", func(ctx context.Context, db *engine.DB, _ *rand.Rand, o scope.Owner) error {
			return errOf(db.DeleteUser(ctx, o.User))
		}},
		{"erase a user", func(ctx context.Context, db *engine.DB, _ *rand.Rand, o scope.Owner) error {
			return errOf(db.Erase(ctx, engine.EraseQuery{User: o.User}))
		}},
		{"erase a memory", func(ctx context.Context, db *engine.DB, r *rand.Rand, o scope.Owner) error {
			return errOf(db.Erase(ctx, engine.EraseQuery{User: o.User, ID: memoryID(r)}))
		}},
		{"evict, undo", func(ctx context.Context, db *engine.DB, _ *rand.Rand, o scope.Owner) error {
			e, err := db.Evict(ctx, &engine.EvictOptions{Scope: o.Scope(), Cap: new(int64(5))})
			if err == nil && e.Evicted > 0 {
				err = errOf(db.Undo(ctx, e.LSN))
			}
			return err
		}},
		{"consolidate", func(ctx context.Context, db *engine.DB, _ *rand.Rand, o scope.Owner) error {
			return errOf(db.Consolidate(ctx, &engine.ConsolidateOptions{Scope: o.Scope()}))
		}},
		{"compact", func(ctx context.Context, db *engine.DB, _ *rand.Rand, _ scope.Owner) error {
			return errOf(db.Compact(ctx))
		}},
		{"rebuild", func(ctx context.Context, db *engine.DB, r *rand.Rand, _ scope.Owner) error {
			return db.Rebuild(ctx, []string{engine.IndexText, engine.IndexVectors, engine.IndexGraph}[r.IntN(3)], nil)
		}},
		{"put an entity", func(ctx context.Context, db *engine.DB, r *rand.Rand, o scope.Owner) error {
			e := graph.Entity{ID: entityID(r), Type: fmt.Sprint("t", r.IntN(3)), Name: people[r.IntN(4)]}
			return errOf(db.Graph().Put(ctx, o, e, []graph.Edge{{Type: fmt.Sprint("knows", r.IntN(3)), Target: entityID(r)}}, nil))
		}},
		{"delete an entity", func(ctx context.Context, db *engine.DB, r *rand.Rand, o scope.Owner) error {
			return errOf(db.Graph().Delete(ctx, o, entityID(r)))
		}},
		{"merge entities", func(ctx context.Context, db *engine.DB, r *rand.Rand, o scope.Owner) error {
			err := errOf(db.Graph().Merge(ctx, o, entityID(r), entityID(r)))
			if errors.Is(err, memory.ErrInvalid) {
				return nil // an entity with itself
			}
			return err
		}},
		{"append to a session", func(ctx context.Context, db *engine.DB, r *rand.Rand, o scope.Owner) error {
			return errOf(db.Sessions().Append(ctx, o, session(r), []sessions.Message{{Role: "user", Text: text(r)}, {Role: "assistant", Text: "Yes."}}, nil))
		}},
		{"delete a session", func(ctx context.Context, db *engine.DB, r *rand.Rand, o scope.Owner) error {
			return errOf(db.Sessions().Delete(ctx, o, session(r), nil))
		}},
		{"put an entry", func(ctx context.Context, db *engine.DB, r *rand.Rand, o scope.Owner) error {
			return errOf(db.KV().Put(ctx, o, fmt.Sprint("k", r.IntN(5)), r.IntN(9), &entries.PutOptions{}))
		}},
		{"add a note", func(ctx context.Context, db *engine.DB, r *rand.Rand, o scope.Owner) error {
			return errOf(db.Notes().Add(ctx, o, fmt.Sprint("n", r.IntN(5)), text(r), ""))
		}},
		{"add usage", func(ctx context.Context, db *engine.DB, _ *rand.Rand, o scope.Owner) error {
			return errOf(db.Usage().Add(ctx, usage.Record{Owner: o, Model: "m", PromptTokens: 1}, nil))
		}},
		{"read changes", func(ctx context.Context, db *engine.DB, _ *rand.Rand, _ scope.Owner) error {
			for _, err := range db.Changes(ctx, 0, nil) {
				if err != nil {
					return err
				}
			}
			return nil
		}},
		{"read in a View", func(ctx context.Context, db *engine.DB, r *rand.Rand, o scope.Owner) error {
			return db.View(ctx, func(tx *engine.Tx) error {
				n, err := tx.Memories().Count(ctx, memory.ListQuery{Scope: o.Scope()})
				if err != nil {
					return err
				}
				found, err := tx.Memories().Recall(ctx, memory.Query{Scope: o.Scope(), Text: text(r), Embedding: []float32{1, 0, 0, 0}, Limit: 20})
				if err == nil && len(found.Hits) > n {
					err = fmt.Errorf("%d memories are found, of %d", len(found.Hits), n)
				}
				return err
			})
		}},
	}
}

// refused reports whether an error is an answer that an operation may give beside others.
func refused(err error) bool {
	for _, of := range []error{memory.ErrNotFound, memory.ErrBusy, memory.ErrExists, memory.ErrConflict, memory.ErrNotRetained} {
		if errors.Is(err, of) {
			return true
		}
	}
	return false
}

// TestPairs runs pairs of operations side by side, on the same owner and on two. Nothing is lost, nobody else's
// data changes, and a replica ends as the database does. A sample of pairs takes its turn; a soak takes all.
func TestPairs(t *testing.T) {
	t.Parallel()
	ops, rounds, beside := pairOps(), 3, 2
	seed := newSeed(t)
	if soak(t) > 0 {
		rounds, beside = 100, len(ops)
	}
	r := rand.New(rand.NewPCG(seed, 0))
	for i, op := range ops {
		others := r.Perm(len(ops))[:beside]
		t.Run(op.name, func(t *testing.T) {
			t.Parallel()
			p := pairs{ops: ops, first: i, rounds: rounds, seed: seed}
			p.run(t, others)
		})
	}
}

// pairs runs one operation beside others.
type pairs struct {
	ops    []pairOp
	first  int
	rounds int
	seed   uint64
}

// witness is an owner that no operation is about.
var witness = scope.Owner{User: "eve"}

func (p *pairs) run(t *testing.T, others []int) {
	first := p.ops[p.first]
	ctx, dir := t.Context(), t.TempDir()
	o := &engine.Options{
		Durability: engine.Buffered, Extractor: mention.Rules{}, KeepCaps: true, MemoryBudget: 16 << 20,
		Archive: folder.New(filepath.Join(dir, "archive")), ArchiveDelay: 10 * time.Millisecond,
	}
	db, err := engine.Open(filepath.Join(dir, "db"), o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	capped := policy.Default()
	capped.Cap = 30 // more than the witness has
	if _, err := db.Policies().Set(ctx, capped); err != nil {
		t.Fatal(err)
	}
	owners := []scope.Owner{{User: "ada"}, {User: "bob", Agent: "coach"}}
	fill := rand.New(rand.NewPCG(p.seed, uint64(p.first)))
	for range 4 {
		for _, op := range p.ops {
			switch op.name {
			case "store", "put an entity", "append to a session", "put an entry", "add a note", "add usage":
				for _, o := range append(owners, witness) {
					if err := op.do(ctx, db, fill, o); err != nil && !refused(err) {
						t.Fatal(op.name, err)
					}
				}
			}
		}
	}
	before := exported(t, db, witness)
	for _, j := range others {
		for same := range 2 {
			p.pair(t, db, j, [2]scope.Owner{owners[0], owners[same]})
		}
		r, err := db.Check(ctx)
		if err != nil || !r.OK {
			t.Fatalf("%s beside %s: %v %v", first.name, p.ops[j].name, r.Problems, err)
		}
	}
	if after := exported(t, db, witness); after != before {
		t.Errorf("%s changes another user's data: %s", first.name, differences(before, after))
	}
	for _, o := range owners { // an erasure that waited goes on
		if err := errOf(db.Erase(ctx, engine.EraseQuery{User: o.User, ID: "none"})); err != nil && !refused(err) {
			t.Error(err)
		}
	}
	compareReplica(t, db, dir)
}

// pair runs the operation beside another, each for an owner.
func (p *pairs) pair(t *testing.T, db *engine.DB, other int, owners [2]scope.Owner) {
	var wg sync.WaitGroup
	for i, op := range [2]int{p.first, other} {
		r := rand.New(rand.NewPCG(p.seed, uint64(i)))
		wg.Go(func() {
			for range p.rounds {
				if err := p.ops[op].do(t.Context(), db, r, owners[i]); err != nil && !refused(err) {
					t.Errorf("%s beside %s: %v", p.ops[p.first].name, p.ops[other].name, err)
				}
			}
		})
	}
	wg.Wait()
}

// exported is what an owner has, or all for the zero Owner.
func exported(t *testing.T, db *engine.DB, o scope.Owner) string {
	t.Helper()
	var b bytes.Buffer
	if _, err := exchange.Export(t.Context(), db, &b, &exchange.ExportOptions{Scope: o.Scope()}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// differences lists the lines that only one of two exports has.
func differences(a, b string) string {
	var out strings.Builder
	for i, of := range [2][2]string{{a, b}, {b, a}} {
		others := map[string]bool{}
		for line := range strings.Lines(of[1]) {
			others[line] = true
		}
		for line := range strings.Lines(of[0]) {
			if !others[line] {
				fmt.Fprintf(&out, "\n%c %s", "-+"[i], line)
			}
		}
	}
	return out.String()
}

// compareReplica holds a replica that has read the whole archive against its source.
func compareReplica(t *testing.T, db *engine.DB, dir string) {
	if err := db.FlushTouches(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := db.WaitArchived(t.Context()); err != nil {
		t.Fatal(err)
	}
	cursor, err := folder.Follow(filepath.Join(dir, "archive"), wal.Timeline{}, false)
	if err != nil {
		t.Fatal(err)
	}
	replica, err := engine.OpenReplica(filepath.Join(dir, "replica"), cursor.Next, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := replica.Close(); err != nil {
			t.Error(err)
		}
	}()
	if err := replica.Wait(t.Context()); err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	source, copied := exported(t, db, scope.Owner{}), ""
	err = replica.Use(t.Context(), func(d *engine.DB) error {
		copied = exported(t, d, scope.Owner{})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if source != copied {
		t.Errorf("the replica differs from its source: %s", differences(source, copied))
	}
}
