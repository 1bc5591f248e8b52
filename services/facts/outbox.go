package facts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/entries"
	"github.com/seed-7aedc3ff/memdb/internal/panics"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/services/graphs"
	"github.com/seed-7aedc3ff/memdb/services/graphs/own"
)

// Another graph store is no part of a commit of the database. So what is to be done there is an
// errand: an entry beside the facts, put in their commit and removed once it is done. Errands
// are done one after the other, in the order of their commits, by whoever has put one. One that
// fails, or that a crash has cut off, is done before the next. To do one twice is to do it once.

// errand is a change or a delete in another graph store.
type errand struct {
	Change *graphs.Change    `json:"change,omitempty"`
	Delete *graphs.Selection `json:"delete,omitempty"`
}

// errandPrefix begins the keys of errands; the LSN of their commit follows.
const errandPrefix = "graph-"

// outbox orders those who do errands.
type outbox struct {
	turn chan struct{}             // holds one while errands are done
	done map[string]graphs.Applied // by key, of those whose callers wait for it; of whoever has the turn
}

func newOutbox() *outbox {
	return &outbox{turn: make(chan struct{}, 1), done: map[string]graphs.Applied{}}
}

// applyGraph makes a change: in the database's own graph with the transaction, and as an errand
// where there is another store. Facts that are gone are off the own graph already.
func (f *Facts) applyGraph(ctx context.Context, tx *engine.Tx, c graphs.Change) (done graphs.Applied, waiting string, err error) {
	mine := c
	mine.Gone = nil
	if f.GraphStore != nil {
		mine.Entities, mine.Told = nil, nil
	}
	if done, err = own.New(tx.Graph()).Apply(ctx, mine); err != nil || c.Empty() {
		return done, "", err
	}
	waiting, err = f.post(ctx, tx, errand{Change: &c})
	return done, waiting, err
}

// post puts an errand, where there is another store, and returns its key.
func (f *Facts) post(ctx context.Context, tx *engine.Tx, e errand) (key string, err error) {
	if f.GraphStore == nil {
		return "", nil
	}
	for lsn := tx.LSN(); ; lsn++ { // an import may have brought errands of other LSNs
		key = fmt.Sprintf("%s%020d", errandPrefix, lsn)
		_, taken, err := tx.KV().Lookup(ctx, factsOwner, key)
		if err != nil {
			return "", err
		}
		if !taken {
			_, err = tx.KV().Put(ctx, factsOwner, key, e, nil)
			return key, err
		}
	}
}

// flushGraph does all errands, and returns what became of the one with a key. An error says
// that it, or one before it, was not done. Within an attempt the errands are done once it has
// committed, and nothing is returned of them.
func (f *Facts) flushGraph(ctx context.Context, kv entries.KV, key string) (graphs.Applied, error) {
	after := engine.AfterCommit(ctx, func() {
		if _, err := f.flushGraph(engine.Apart(ctx), kv, key); err != nil {
			f.Logger.Warn("the graph follows later", "error", err)
		}
	})
	if after {
		return graphs.Applied{}, nil
	}
	select {
	case f.outbox.turn <- struct{}{}:
		defer func() { <-f.outbox.turn }()
	case <-ctx.Done():
		return graphs.Applied{}, later(ctx.Err())
	}
	var refused error
	for {
		page, err := kv.List(ctx, entries.Query{Owner: factsOwner, Prefix: errandPrefix})
		if err != nil {
			return graphs.Applied{}, later(err)
		}
		if len(page.Entries) == 0 {
			done := f.outbox.done[key]
			delete(f.outbox.done, key)
			return done, refused
		}
		for i := range page.Entries {
			e := &page.Entries[i]
			done, err := f.do(ctx, e.Value)
			if err != nil && !errors.Is(err, graphs.ErrRefused) {
				return graphs.Applied{}, later(err)
			}
			if err != nil {
				refused = errors.Join(refused, err)
				f.Logger.Warn("a change of the graph was refused and is left out", "error", err)
			}
			if err := kv.Delete(ctx, factsOwner, e.Key); err != nil {
				return graphs.Applied{}, later(err)
			}
			f.outbox.keep(e.Key, done)
		}
	}
}

// maxDone bounds the results that nobody has asked for yet.
const maxDone = 1_000

// keep keeps what became of an errand for whoever has put it. What an earlier program has left
// is not asked for, so there is a bound.
func (o *outbox) keep(key string, done graphs.Applied) {
	if len(o.done) >= maxDone {
		clear(o.done)
	}
	o.done[key] = done
}

// do does an errand. One that cannot be read is refused.
func (f *Facts) do(ctx context.Context, value []byte) (done graphs.Applied, err error) {
	var e errand
	if err := json.Unmarshal(value, &e); err != nil {
		return done, &memory.Error{Kind: graphs.ErrRefused, What: "read what is to be done in the graph store", Cause: err, Do: "add the messages again"}
	}
	panicked := panics.Catch("changes the graph", func() {
		if e.Change != nil {
			done, err = f.GraphStore.Apply(ctx, *e.Change)
		}
		if err == nil && e.Delete != nil {
			err = f.GraphStore.Delete(ctx, *e.Delete)
		}
	})
	if panicked != nil {
		err = panicked
	}
	return done, err
}

// later is the error of errands that are left for the next time.
func later(err error) error {
	return &memory.Error{
		Kind: graphs.ErrGraph, What: "change the graph in its store", Cause: err,
		Why: "the facts are as they are to be, and the graph follows with the next change once its store answers", Do: "check the store, and leave the facts as they are",
	}
}
