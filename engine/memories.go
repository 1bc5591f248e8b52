package engine

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/records"
	"github.com/seed-7aedc3ff/memdb/internal/selection"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// Memories are the memories of a database, seen through a transaction
// ([Tx.Memories]), or each call as a transaction of its own ([DB.Memories]).
type Memories struct {
	db *DB
	tx *Tx // nil: one for each call
	// lack leaves out what calls by an ID do not mean.
	lack memory.Lack
}

// Lacking are the memories of owners without a user, or without an agent, for the calls that take
// an ID: Get, Update, Delete and History. An empty field of a scope means any owner, and these mean
// none. Lists and recalls have filters for it, as agent = "".
func (m Memories) Lacking(l memory.Lack) Memories {
	m.lack = l
	return m
}

// Memories are the memories of the database: each call is its own transaction.
func (db *DB) Memories() Memories { return Memories{db: db} }

func (m Memories) view(ctx context.Context, doing string, fn func(*Tx) error) error {
	if m.tx == nil {
		return m.db.view(ctx, nil, fn)
	}
	return m.tx.reading(doing, func() error { return fn(m.tx) })
}

// locked reports whether the call is made with the writer lock: nothing is asked of embedders and
// extractors meanwhile.
func (m Memories) locked(ctx context.Context) bool { return m.tx != nil || attemptOf(ctx).opened() }

func (m Memories) update(ctx context.Context, doing string, fn func(*Tx) error) error {
	if m.tx == nil {
		return m.db.Update(ctx, fn)
	}
	if err := m.tx.check(doing, true); err != nil {
		return err
	}
	return fn(m.tx)
}

// Store adds a memory, unless it comes without an ID and its scope already has the
// same, whatever the role and times (see [memory.Kind] and [Dedup]): then the result names the
// earlier one, which takes the later expiry, the pin and the higher importance of the
// two; its metadata stays. A memory that is stored under an ID that its owner has
// already is left as it is where nothing differs, and is otherwise ErrExists, or
// an update under Upsert.
//
// Outside a transaction the text is embedded and analysed before the writer lock
// is taken. Inside one no embedder is called: a memory without a vector is marked
// and embedded by a later pass ([DB.EmbedPending]).
func (m Memories) Store(ctx context.Context, mem memory.Memory, o *memory.StoreOptions) (memory.Stored, error) {
	all, err := m.StoreBatch(ctx, []memory.Memory{mem}, o)
	if err != nil {
		return memory.Stored{}, err
	}
	return all[0], all[0].Err
}

// StoreBatch stores several memories in one commit, all or none; under
// SkipInvalid all that are valid. The results are in the order of the memories.
// In a transaction, a batch that fails half-way leaves one that cannot commit.
func (m Memories) StoreBatch(ctx context.Context, mems []memory.Memory, o *memory.StoreOptions) ([]memory.Stored, error) {
	if o == nil {
		o = &memory.StoreOptions{}
	}
	now, err := m.beginStore()
	if err != nil {
		return nil, err
	}
	ps, results, err := m.prepareEach(ctx, len(mems), o.SkipInvalid, func(i int) (*records.Prepared, error) {
		return m.prepareNew(ctx, &mems[i], now)
	})
	if err != nil {
		return nil, err
	}
	if m.tx != nil {
		err = m.update(ctx, records.DoingStore, func(tx *Tx) error { return tx.storeAll(ps, o, results) })
	} else if slices.ContainsFunc(ps, func(p *records.Prepared) bool { return p != nil }) {
		err = m.db.storeCommitted(ctx, &storeCall{memories: ps, options: o, results: results})
	}
	if err != nil {
		return nil, err
	}
	return results, nil
}

// prepareEach prepares the memories of a batch, with their vectors. Under skip, those
// that are invalid are nil, and their results say why.
func (m Memories) prepareEach(ctx context.Context, n int, skip bool, prepare func(i int) (*records.Prepared, error)) ([]*records.Prepared, []memory.Stored, error) {
	ps, results := make([]*records.Prepared, n), make([]memory.Stored, n)
	for i := range ps {
		p, err := prepare(i)
		if err != nil && (!skip || ctx.Err() != nil) {
			return nil, nil, inBatch(err, i, n)
		}
		ps[i], results[i].Err = p, err
	}
	if !m.locked(ctx) {
		m.db.embedMissing(ctx, ps)
	} else {
		m.db.markPending(ps)
	}
	return ps, results, nil
}

// beginStore tells the time of a store, and refuses one before anything is embedded if
// there is no room for it.
func (m Memories) beginStore() (now int64, _ error) {
	if err := m.db.takesWrites(records.DoingStore); err != nil {
		return 0, err
	}
	if m.tx != nil {
		return m.tx.state.Now, nil
	}
	return m.db.now(), nil
}

// storeAll writes prepared memories, all or, under SkipInvalid, those that are
// valid.
func (tx *Tx) storeAll(ps []*records.Prepared, o *memory.StoreOptions, results []memory.Stored) error {
	return tx.storeEach(results, o.SkipInvalid, func(i int) (memory.Stored, error) {
		if ps[i] == nil {
			return results[i], nil
		}
		return tx.rec.Store(ps[i], o)
	})
}

// storeEach calls store for each place of a batch and keeps its result.
func (tx *Tx) storeEach(results []memory.Stored, skipInvalid bool, store func(i int) (memory.Stored, error)) error {
	before := tx.changes
	for i := range results {
		var err error
		results[i], err = store(i)
		if err == nil {
			continue
		}
		if !skipInvalid || tx.broken != nil || !refused(err) {
			err = inBatch(err, i, len(results))
			if tx.changes > before {
				return tx.breaks(err) // half a batch is in the transaction
			}
			return err
		}
		results[i].Err = err
	}
	return nil
}

// refused tells an error that concerns one memory and left the transaction whole.
func refused(err error) bool {
	return errors.Is(err, fault.ErrInvalid) || errors.Is(err, fault.ErrExists) || errors.Is(err, fault.ErrScope) || errors.Is(err, fault.ErrUnknownAgent)
}

// inBatch says which memory of a batch an error is about.
func inBatch(err error, i, n int) error {
	if n == 1 {
		return err
	}
	return fault.Within(fmt.Sprintf("memory %d of %d", i+1, n), err)
}

// Get returns the memory with this ID. An empty scope finds it in any owner, so a
// program that serves several users must give one; it
// is ErrAmbiguous where there are several. ErrNotFound where there is none, or
// it has expired. It is without its vectors, as in a list: see GetWithVectors.
func (m Memories) Get(ctx context.Context, s memory.Scope, id string) (memory.Memory, error) {
	return m.get(ctx, s, id, false)
}

// GetWithVectors is Get, and also reads the vectors.
func (m Memories) GetWithVectors(ctx context.Context, s memory.Scope, id string) (memory.Memory, error) {
	return m.get(ctx, s, id, true)
}

func (m Memories) get(ctx context.Context, s memory.Scope, id string, withVectors bool) (mem memory.Memory, err error) {
	doing := fmt.Sprintf("get memory %q", valid.Short(id))
	err = m.view(ctx, doing, func(tx *Tx) error {
		l, rec, err := tx.reader().Find(doing, s, m.lack, id)
		if err != nil {
			return err
		}
		mem, err = tx.present(rec, l.Version, withVectors)
		return err
	})
	return mem, err
}

// Update changes a memory and returns it as it is then, without its vectors. An empty scope finds the
// ID in any owner, as in Get. It keeps its ID, Seq,
// CreatedAt and access statistics; its hash follows the text, and so do a
// computed importance and a vector that an embedder made.
func (m Memories) Update(ctx context.Context, s memory.Scope, id string, patch memory.Patch) (mem memory.Memory, err error) {
	doing := fmt.Sprintf("update memory %q", valid.Short(id))
	embedded := m.embedPatch(ctx, &patch)
	found, err := m.mentionsOfPatch(ctx, s, &patch)
	if err != nil {
		return memory.Memory{}, err
	}
	err = m.update(ctx, doing, func(tx *Tx) error {
		l, rec, err := tx.reader().Find(doing, s, m.lack, id)
		if err != nil {
			return err
		}
		if l, err = tx.rec.Patch(ctx, doing, l, rec, &patch, records.Made{Embedded: embedded, Found: found}); err != nil {
			return err
		}
		if found != nil {
			if _, err = tx.linkMentions(rec.Scope, l.Seq, found); err != nil {
				return err
			}
		}
		mem, err = tx.load(l.Version, false)
		return err
	})
	if err != nil {
		return memory.Memory{}, err
	}
	return mem, nil
}

// Delete removes a memory. An empty scope finds the ID in any owner, as in Get.
// ErrNotFound where there is none with this ID in the
// scope. Its history stays.
func (m Memories) Delete(ctx context.Context, s memory.Scope, id string) error {
	doing := fmt.Sprintf("delete memory %q", valid.Short(id))
	return m.update(ctx, doing, func(tx *Tx) error {
		l, rec, err := tx.reader().Find(doing, s, m.lack, id)
		if err != nil {
			return err
		}
		return tx.rec.Remove(l, rec)
	})
}

// List returns a page of memories, in the order of their Seq if the query does not
// say another.
func (m Memories) List(ctx context.Context, q memory.ListQuery) (page memory.Page, err error) {
	limit, err := valid.Limit(doingList, q.Limit, defaultPage)
	if err != nil {
		return memory.Page{}, err
	}
	if err := memory.CheckScope(doingList, q.Scope, q.AllScopes); err != nil {
		return memory.Page{}, err
	}
	if err := filter.Check(q.Filter); err != nil {
		return memory.Page{}, err
	}
	order, err := newOrdering(m.db, &q)
	if err != nil {
		return memory.Page{}, err
	}
	err = m.view(ctx, doingList, func(tx *Tx) error {
		page, err = tx.list(ctx, &q, order, limit)
		return err
	})
	return page, err
}

// Count counts the memories of a query, whatever its order, limit and cursor.
func (m Memories) Count(ctx context.Context, q memory.ListQuery) (n int, err error) {
	const doing = "count memories"
	if err := memory.CheckScope(doing, q.Scope, q.AllScopes); err != nil {
		return 0, err
	}
	if err := filter.Check(q.Filter); err != nil {
		return 0, err
	}
	err = m.view(ctx, doing, func(tx *Tx) error {
		if tx.writes != nil {
			if err := tx.materialise(); err != nil {
				return tx.breaks(err)
			}
		}
		set, err := selection.Selected(ctx, &tx.state, q.Scope, q.AllScopes, q.Filter)
		if err == nil {
			n = int(set.GetCardinality())
		}
		return err
	})
	return n, err
}

// All iterates over all memories of a query, reading them a page at a time. Outside a transaction the pages are of different states.
func (m Memories) All(ctx context.Context, q memory.ListQuery) iter.Seq2[memory.Memory, error] {
	return func(yield func(memory.Memory, error) bool) {
		for {
			page, err := m.List(ctx, q)
			if err != nil {
				yield(memory.Memory{}, err)
				return
			}
			for _, mem := range page.Memories {
				if !yield(mem, nil) {
					return
				}
			}
			if page.Next == "" {
				return
			}
			q.Cursor = page.Next
		}
	}
}

// MetadataFields returns the fields of metadata that the filter index knows, as filters name them, in
// alphabetical order: those that memories of any owner have, at most [memory.MaxIndexedPaths].
func (db *DB) MetadataFields() []string {
	return slices.Sorted(maps.Keys(db.tables.Fields.All()))
}
