package fuzz

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// workloads are the scripts that are crashed. Each opens the database and
// leaves it open. A sample takes one change in that many.
var workloads = []struct {
	name   string
	run    func(ctx context.Context, w *world, rng *rand.Rand) error
	sample int
}{
	{"singles", singles, 6},
	{"batches", batches, 80},
	{"mixed", mixed, 6},
}

// singles stores, repeats, changes and deletes one memory at a time, and reopens
// the database and rebuilds its text index once on the way.
func singles(ctx context.Context, w *world, rng *rand.Rand) error {
	if err := w.open(); err != nil {
		return err
	}
	a := &actor{w: w, rng: rng, user: "single"}
	for i := range 80 {
		switch i {
		case 30:
			if err := w.db.Rebuild(ctx, engine.IndexText, nil); err != nil {
				return err
			}
		case 50:
			if err := w.reopen(); err != nil {
				return err
			}
		}
		if err := a.step(ctx); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
	}
	return nil
}

// batches stores many memories in one commit, deletes whole runs, and lets the
// clean-up go on beside the next commits. It writes several memtables: logs
// rotate and tables are flushed.
func batches(ctx context.Context, w *world, rng *rand.Rand) error {
	if err := w.open(); err != nil {
		return err
	}
	for i := range 18 {
		if i == 15 {
			if err := w.reopen(); err != nil {
				return err
			}
		}
		run := fmt.Sprintf("run %d", i%4)
		err := w.update(ctx, func(r *recorder) error {
			mems := make([]memory.Memory, 20)
			for j := range mems {
				mems[j] = memory.Memory{
					Scope: memory.Scope{User: "batch", Run: run}, Text: w.text(rng), Embedding: vector(rng),
				}
			}
			return r.storeBatch(mems)
		})
		if err != nil {
			return fmt.Errorf("batch %d: %w", i, err)
		}
		if i%3 != 2 {
			continue
		}
		// The death of one run and the birth of its successor are one commit.
		err = w.update(ctx, func(r *recorder) error {
			doomed := fmt.Sprintf("run %d", rng.IntN(4))
			if err := r.removeScope(memory.Scope{User: "batch", Run: doomed}); err != nil {
				return err
			}
			_, err := r.store(memory.Memory{Scope: memory.Scope{User: "batch", Run: doomed}, Text: w.text(rng)}, nil)
			return err
		})
		if err != nil {
			return fmt.Errorf("delete after batch %d: %w", i, err)
		}
	}
	return nil
}

// mixed has several writers, who share texts, beside one that recalls and a rebuild
// of the text index.
func mixed(ctx context.Context, w *world, rng *rand.Rand) error {
	const writers, steps = 5, 20
	if err := w.open(); err != nil {
		return err
	}
	if err := w.storeTarget(ctx); err != nil {
		return err
	}
	shared := make([]string, 30)
	for i := range shared {
		shared[i] = w.text(rng)
	}
	errs := make([]error, writers+2)
	var wg sync.WaitGroup
	for i := range writers {
		a := &actor{w: w, rng: rand.New(rand.NewPCG(rng.Uint64(), 0)), user: fmt.Sprintf("user %d", i)}
		wg.Go(func() {
			for range steps {
				if errs[i] = a.step(ctx); errs[i] != nil {
					return
				}
				if errs[i] = a.share(ctx, pick(a.rng, shared)); errs[i] != nil {
					return
				}
			}
		})
	}
	wg.Go(func() {
		for range steps {
			if errs[writers] = w.recall(ctx, 2); errs[writers] != nil {
				return
			}
		}
	})
	wg.Go(func() { errs[writers+1] = w.db.Rebuild(ctx, engine.IndexText, nil) })
	wg.Wait()
	return errors.Join(errs...)
}

// actor takes random steps on the memories of one user, which nobody else
// changes.
type actor struct {
	w     *world
	rng   *rand.Rand
	user  string
	mine  []key
	texts []string
	n     int
}

func (a *actor) step(ctx context.Context) error {
	return a.w.update(ctx, func(r *recorder) error {
		switch n := a.rng.IntN(10); {
		case n < 4 || len(a.mine) == 0:
			return a.add(r)
		case n < 5:
			return a.again(r)
		case n < 7:
			return a.change(r)
		case n < 8:
			return a.upsert(r)
		default:
			return a.drop(r)
		}
	})
}

func (a *actor) scope() memory.Scope { return memory.Scope{User: a.user} }

func (a *actor) add(r *recorder) error {
	mem := memory.Memory{Scope: a.scope(), Text: a.w.text(a.rng), Embedding: vector(a.rng)}
	if a.rng.IntN(2) == 0 {
		a.n++
		mem.ID = fmt.Sprintf("given %d", a.n)
	}
	st, err := r.store(mem, nil)
	if err != nil {
		return err
	}
	if !st.Stored {
		return fmt.Errorf("a new text was not stored: %+v", st)
	}
	a.mine, a.texts = append(a.mine, key{a.user, st.ID}), append(a.texts, mem.Text)
	return nil
}

// again stores a text that is there: it must be recognised.
func (a *actor) again(r *recorder) error {
	i := a.rng.IntN(len(a.mine))
	st, err := r.store(memory.Memory{Scope: a.scope(), Text: a.texts[i]}, nil)
	if err != nil {
		return err
	}
	if !st.Deduplicated || st.ID != a.mine[i].id {
		return fmt.Errorf("the text of %v, stored again, gave %+v", a.mine[i], st)
	}
	return nil
}

func (a *actor) change(r *recorder) error {
	i := a.rng.IntN(len(a.mine))
	a.texts[i] = a.w.text(a.rng)
	return r.edit(a.mine[i], a.texts[i])
}

func (a *actor) upsert(r *recorder) error {
	i := a.rng.IntN(len(a.mine))
	a.texts[i] = a.w.text(a.rng)
	st, err := r.store(memory.Memory{ID: a.mine[i].id, Scope: a.scope(), Text: a.texts[i]}, &memory.StoreOptions{Upsert: true})
	if err == nil && !st.Updated {
		return fmt.Errorf("an upsert of %v gave %+v", a.mine[i], st)
	}
	return err
}

func (a *actor) drop(r *recorder) error {
	i := a.rng.IntN(len(a.mine))
	k := a.mine[i]
	last := len(a.mine) - 1
	a.mine[i], a.texts[i] = a.mine[last], a.texts[last]
	a.mine, a.texts = a.mine[:last], a.texts[:last]
	return r.remove(k)
}

// share stores a text that every actor stores, for one user: whoever comes
// first adds it, to the others it is a duplicate that they were told of.
func (a *actor) share(ctx context.Context, text string) error {
	return a.w.update(ctx, func(r *recorder) error {
		_, err := r.store(memory.Memory{Scope: memory.Scope{User: "shared"}, Text: text}, nil)
		return err
	})
}
