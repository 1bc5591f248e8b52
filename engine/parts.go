package engine

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/seed-7aedc3ff/memdb/apikeys"
	"github.com/seed-7aedc3ff/memdb/entries"
	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/internal/records"
	"github.com/seed-7aedc3ff/memdb/internal/requests"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/internal/store"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/notes"
	"github.com/seed-7aedc3ff/memdb/policy"
	"github.com/seed-7aedc3ff/memdb/scope"
	"github.com/seed-7aedc3ff/memdb/sessions"
	"github.com/seed-7aedc3ff/memdb/usage"
)

// newParts are the structures of a database beside its memories, in the order in which
// their lines are exported. To add one is a package of its own, its line here, and a
// handle for its users such as [DB.KV].
func newParts(ageing *policy.Part) []part.Part {
	return []part.Part{entries.Part{}, ageing, &sessions.Part{}, &graph.Part{}, usage.Part{}, notes.Part{}, requests.Part{}, new(apikeys.Part)}
}

// KV is the key-value store: each call is its own transaction.
func (db *DB) KV() entries.KV { return entries.New(runner{db: db}) }

// KV is the key-value store as this transaction sees it.
func (tx *Tx) KV() entries.KV { return entries.New(runner{db: tx.db, tx: tx}) }

// Graph is the graph of entities and relations: each call is its own transaction.
func (db *DB) Graph() graph.Graph { return graph.New(runner{db: db}, partOf[*graph.Part](db)) }

// Graph is the graph as this transaction sees it.
func (tx *Tx) Graph() graph.Graph {
	return graph.New(runner{db: tx.db, tx: tx}, partOf[*graph.Part](tx.db))
}

// partOf is the part of a type: each database has one.
func partOf[P part.Part](db *DB) (p P) {
	for _, any := range db.parts {
		if of, ok := any.(P); ok {
			return of
		}
	}
	return p
}

// Usage is what calls of models have taken, with budgets and agents: each call is its own
// transaction.
func (db *DB) Usage() usage.Usage { return usage.New(runner{db: db}) }

// Usage is the usage as this transaction sees it.
func (tx *Tx) Usage() usage.Usage { return usage.New(runner{db: tx.db, tx: tx}) }

// partShare is what each part may take of the memory budget in RAM.
func (db *DB) partShare() int64 { return db.budget / 16 }

// partBytes is what the parts hold in RAM.
func (db *DB) partBytes() (n int64) {
	for _, p := range db.parts {
		if l, ok := p.(part.Loader); ok {
			n += l.Bytes()
		}
	}
	return n
}

// loadParts has the parts make what they hold in RAM.
func (db *DB) loadParts() error {
	tx := &Tx{db: db, state: db.stateOf(db.store, state.MaxLSN)}
	for _, p := range db.parts {
		tx.state.Lose = func(err error) { db.opening.losses.Lost("something of the "+p.Name(), err) }
		if l, ok := p.(part.Loader); ok {
			if err := tx.state.Without(l.Load((*partTx)(tx), part.Opening{Budget: db.partShare(), ReadOnly: db.readOnly})); err != nil {
				return err
			}
		}
	}
	return nil
}

// startParts begins the work that parts do now and then.
func (db *DB) startParts() {
	for _, p := range db.parts {
		if w, ok := p.(part.Worker); ok {
			var signal <-chan struct{}
			if _, ok := p.(part.Mourner); ok {
				signal = db.janitor.mourner()
			}
			db.life.Every("works on "+p.Name(), w.Every(), signal, func(ctx context.Context) error { return w.Work(ctx, runner{db: db}) })
		}
	}
}

// releaseParts tells the parts which states nobody reads any more.
func (db *DB) releaseParts(oldest uint64) {
	for _, p := range db.parts {
		if r, ok := p.(part.Releaser); ok {
			r.Release(oldest)
		}
	}
}

// resetParts tells the parts that a commit has deleted all of their keys.
func (db *DB) resetParts(lsn uint64) {
	for _, p := range db.parts {
		if r, ok := p.(part.Resetter); ok {
			r.Reset(lsn)
		}
	}
}

// mourn has the parts delete what they have of a memory that is gone.
func (db *DB) mourn(batch *pebble.Batch, r kv.Reader, v layout.Version) error {
	db.janitor.mourned.Store(true)
	for _, p := range db.parts {
		m, ok := p.(part.Mourner)
		if !ok {
			continue
		}
		tx := &Tx{db: db, state: db.stateOf(r, state.MaxLSN)}
		del := func(key []byte) error { return batch.Delete(key, nil) }
		set := func(key, value []byte) error { return batch.Set(key, layout.Seal(key, value), nil) }
		if err := m.MemoryGone((*partTx)(tx), v.Owner, v.Seq, del, set); err != nil {
			return err
		}
	}
	return nil
}

// bequeath gives what is left of memories that have aged, by owner and Seq, to the parts that
// refer to them for their texts.
func (db *DB) bequeath(ctx context.Context, texts map[uint32]map[uint64]string) error {
	for _, p := range db.parts {
		heir, ok := p.(part.Heir)
		if !ok {
			continue
		}
		for owner, of := range texts {
			if err := heir.Inherit(ctx, runner{db: db}, owner, of); err != nil {
				return err
			}
		}
	}
	return nil
}

// DeleteOwner deletes what belongs to exactly this pair of user and agent, in one commit:
// the memories, and what the structures beside them hold. It returns how much that was, by
// the JSON keys of [Stats]. The history of the memories stays. The space comes back bit by
// bit, in the background.
func (db *DB) DeleteOwner(ctx context.Context, o scope.Owner) (deleted map[string]int64, err error) {
	err = db.Update(ctx, func(tx *Tx) error {
		deleted, err = tx.DeleteOwner(ctx, o)
		return err
	})
	if err != nil {
		return nil, err
	}
	return deleted, nil
}

const doingDeleteOwner = "delete an owner"

// DeleteOwner is [DB.DeleteOwner] within this transaction.
func (tx *Tx) DeleteOwner(ctx context.Context, o scope.Owner) (map[string]int64, error) {
	if err := tx.check(doingDeleteOwner, true); err != nil {
		return nil, err
	}
	if err := scope.Check(doingDeleteOwner, o.Scope()); err != nil {
		return nil, err
	}
	deleted := map[string]int64{"memories": 0}
	owner, known, err := (*partTx)(tx).Owner(o)
	if err != nil || !known {
		return deleted, err
	}
	n, err := tx.deleteMatching(ctx, &memory.DeleteQuery{Scope: o.Scope(), Filter: exactly(o)})
	if err != nil {
		return nil, err
	}
	deleted["memories"] = int64(n)
	for _, p := range tx.db.parts {
		var of map[string]int64
		err := tx.changePart(doingDeleteOwner, func(t part.Tx) (err error) {
			of, err = p.DeleteOwner(t, owner)
			return err
		})
		if err != nil {
			return nil, tx.breaks(err) // the others have deleted theirs
		}
		maps.Copy(deleted, of)
	}
	return deleted, nil
}

// exactly is the filter that keeps a scope of an owner from meaning other owners, too: nil
// where the scope names both fields.
func exactly(o scope.Owner) filter.Filter {
	switch {
	case o.User == "":
		return filter.Eq("user", "")
	case o.Agent == "":
		return filter.Eq("agent", "")
	}
	return nil
}

// partKinds are the kinds of the parts' keys.
func (db *DB) partKinds() (kinds []byte) {
	for _, p := range db.parts {
		for _, k := range p.Kinds() {
			kinds = append(kinds, byte(k))
		}
	}
	return kinds
}

// lasts reports whether a kind of keys is one that a reset leaves as it is.
func (db *DB) lasts(kind byte) bool {
	for _, p := range db.parts {
		if _, ok := p.(part.Lasting); ok && slices.Contains(p.Kinds(), part.Kind(kind)) {
			return true
		}
	}
	return false
}

// Line is one line of an export about something that is no memory. See [Tx.Lines].
type Line = part.Line

// Lines calls yield with a line for each thing beside the memories that an export of a
// scope has: everything for the empty scope, nothing for one with a run.
//
// lost is called with each error of what cannot be read, which is left out; nil: the first one
// ends the export.
func (tx *Tx) Lines(s memory.Scope, lost func(error), yield func(Line) error) error {
	return tx.lines(s, lost, func(p part.Part, v part.View) error { return p.Lines(v, s, yield) })
}

// lines has the parts write their lines.
func (tx *Tx) lines(s memory.Scope, lost func(error), write func(part.Part, part.View) error) error {
	return tx.reading("export", func() error {
		if s.Run != "" {
			return nil
		}
		of := *tx
		of.state.Lose = lost
		for _, p := range tx.db.parts {
			if err := of.state.Without(store.Error("export the "+p.Name(), write(p, (*partTx)(&of)))); err != nil {
				return err
			}
		}
		return nil
	})
}

// LinesAhead is [Tx.Lines] for what must be there before memories are stored: the manifests
// of agents, which Lines leaves out.
func (tx *Tx) LinesAhead(s memory.Scope, lost func(error), yield func(Line) error) error {
	return tx.lines(s, lost, func(p part.Part, v part.View) error {
		if l, ok := p.(part.Leader); ok {
			return l.Leads(v, s, yield)
		}
		return nil
	})
}

// NewLine is an empty line of a type, to be read from JSON and given to [Tx.StoreLine];
// nil where no part of the database has such lines.
func (db *DB) NewLine(typ string) Line {
	for _, p := range db.parts {
		if l := p.NewLine(typ); l != nil {
			return l
		}
	}
	return nil
}

// StoreLine puts what a line says in the database. What is there and the same is left
// alone; what is there and differs is ErrExists, or an update under upsert.
func (tx *Tx) StoreLine(l Line, upsert bool) (memory.Stored, error) {
	if err := tx.check("import", true); err != nil {
		return memory.Stored{}, err
	}
	outcome, err := l.Store((*partTx)(tx), upsert)
	return memory.Stored{Stored: outcome == part.Stored, Updated: outcome == part.Updated}, err
}

// figures are what statistics tell of the parts, by JSON key, and how often something could not
// be read for them.
func (db *DB) figures(ctx context.Context) (all map[string]int64, lost int64, err error) {
	all = map[string]int64{}
	err = db.view(ctx, nil, func(tx *Tx) error {
		of := *tx
		of.state.Lose = func(error) { lost++ }
		for _, p := range db.parts {
			f, err := p.Figures((*partTx)(&of))
			if err = of.state.Without(store.Error("count the "+p.Name(), err)); err != nil {
				return err
			}
			maps.Copy(all, f)
		}
		return nil
	})
	return all, lost, err
}

// runner runs the calls of a part's users.
type runner struct {
	db *DB
	tx *Tx // nil: one for each call
}

func (r runner) View(ctx context.Context, doing string, fn func(part.View) error) error {
	return Memories{db: r.db, tx: r.tx}.view(ctx, doing, func(tx *Tx) error {
		return store.Error(doing, fn((*partTx)(tx)))
	})
}

func (r runner) Update(ctx context.Context, doing string, fn func(part.Tx) error) error {
	return Memories{db: r.db, tx: r.tx}.update(ctx, doing, func(tx *Tx) error {
		return tx.changePart(doing, fn)
	})
}

func (r runner) Append(ctx context.Context, doing string, bytes int, fn func(part.Tx) error) error {
	if r.tx != nil {
		return r.Update(ctx, doing, fn)
	}
	if err := r.db.usable(doing); err != nil {
		return err
	}
	return r.db.commitInGroup(ctx, &partCall{doing: doing, bytes: bytes, fn: fn})
}

// changePart runs a change of a part. One that fails after it has written something leaves a
// transaction that cannot commit; so does one that logs nothing of what it has written.
func (tx *Tx) changePart(doing string, fn func(part.Tx) error) error {
	before, changes := tx.batch.Count(), tx.changes
	err := store.Error(doing, fn((*partTx)(tx)))
	switch wrote := tx.batch.Count() > before; {
	case wrote && err != nil:
		return tx.breaks(err)
	case wrote && tx.changes == changes:
		return tx.breaks(&fault.Error{Kind: fault.ErrInvalid, What: doing, Why: "keys were changed, and no change was logged", Do: "have the part call Log"})
	}
	return err
}

// partTx is a transaction as parts see it.
type partTx Tx

var _ part.Tx = (*partTx)(nil)

func (p *partTx) tx() *Tx { return (*Tx)(p) }

func (p *partTx) Key(kind byte, bytes int) []byte {
	return p.state.Keys.Header(kind, bytes)
}

func (p *partTx) Get(key []byte) ([]byte, bool, error) {
	b, closer, err := p.state.Reader.Get(key)
	switch {
	case errors.Is(err, kv.ErrNotFound):
		return nil, false, nil
	case err != nil:
		return nil, false, err
	}
	value, err := layout.Unseal(key, slices.Clone(b))
	return value, err == nil, errors.Join(err, closer.Close())
}

func (p *partTx) Scan(lower, upper []byte, visit func(key, value []byte) error) error {
	err := p.tx().state.Scan(lower, upper, func(key, stored []byte) error {
		value, err := layout.Unseal(key, stored)
		if err != nil {
			return err
		}
		return visit(key, value)
	})
	if errors.Is(err, kv.ErrStop) {
		return nil
	}
	return err
}

func (p *partTx) Hop(lower, upper []byte, visit func(key, value []byte) ([]byte, error)) (err error) {
	if p.state.Lose != nil {
		return p.hopAround(lower, upper, visit)
	}
	it, err := p.Iter(lower, upper)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for ok := it.First(); ok; {
		value, err := it.ValueAndErr()
		if err != nil {
			return err
		}
		next, err := visit(it.Key(), value)
		if err != nil {
			return err
		}
		ok = next != nil && it.SeekGE(next)
	}
	return it.Error()
}

func (p *partTx) hopAround(lower, upper []byte, visit func(key, value []byte) ([]byte, error)) error {
	for lower != nil {
		from := lower
		lower = nil
		err := p.Scan(from, upper, func(key, value []byte) (err error) {
			if lower, err = visit(key, value); err != nil && lower == nil {
				lower = append(slices.Clone(key), 0)
			}
			return cmp.Or(p.Without(err), kv.ErrStop)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *partTx) Without(err error) error { return p.tx().state.Without(err) }

func (p *partTx) OwnerOf(number uint32) (o scope.Owner, known bool, err error) {
	prefix := append(p.state.Keys.Header(layout.KindName, 1), byte(layout.NameOwner))
	err = p.tx().state.Scan(prefix, layout.PrefixEnd(prefix), func(key, stored []byte) error { // a name has a checksum of its own
		num, text, _, err := layout.DecodeName(key, stored)
		if err != nil || num != number {
			return err
		}
		o, known = scope.ParseKey(text)
		return kv.ErrStop
	})
	if errors.Is(err, kv.ErrStop) {
		err = nil
	}
	return o, known, err
}

func (p *partTx) Iter(lower, upper []byte) (kv.Iterator, error) {
	it, err := p.state.Reader.Iter(lower, upper)
	if err != nil {
		return nil, err
	}
	return unsealing{it}, nil
}

// unsealing is an iterator over keys of parts, whose values the store keeps sealed.
type unsealing struct{ kv.Iterator }

func (it unsealing) ValueAndErr() ([]byte, error) {
	stored, err := it.Iterator.ValueAndErr()
	if err != nil {
		return nil, err
	}
	return layout.Unseal(it.Key(), stored)
}

// Replaces is [part.Tx.Replaces].
func (p *partTx) Replaces(bytes int) { p.db.shadowed(bytes) }

func (p *partTx) LSN() uint64 { return p.state.LSN }
func (p *partTx) Past() bool  { return p.state.Past }
func (p *partTx) Now() int64  { return p.state.Now }

func (p *partTx) Owner(o scope.Owner) (uint32, bool, error) {
	number, known, err := p.tx().state.Lookup(layout.Name{Class: layout.NameOwner, Text: scope.Key(o)})
	if known {
		p.tx().concerns(number)
	}
	return number, known, err
}

func (p *partTx) Run(name string) (uint32, bool, error) {
	return p.tx().state.Lookup(layout.Name{Class: layout.NameRun, Text: name})
}

func (p *partTx) Memory(o scope.Owner, id string) (part.Memory, bool, error) {
	owner, known, err := p.Owner(o)
	if err != nil || !known {
		return part.Memory{}, false, err
	}
	l, found, err := p.tx().reader().FindID(owner, id)
	if err != nil || !found {
		return part.Memory{}, false, err
	}
	return p.memory(l)
}

func (p *partTx) MemoryAt(seq uint64) (part.Memory, bool, error) {
	l, found := p.tx().reader().At(seq)
	if !found {
		return part.Memory{}, false, nil
	}
	return p.memory(l)
}

func (p *partTx) memory(l records.Live) (part.Memory, bool, error) {
	if l.Expired(p.state.Now) {
		return part.Memory{}, false, nil
	}
	rec, err := p.tx().state.Record(l.Version)
	if err != nil {
		return part.Memory{}, false, err
	}
	return part.Memory{ID: rec.ID, Seq: l.Seq, Owner: l.Owner, Scope: rec.Scope, Text: rec.Text}, true, nil
}

func (p *partTx) Writing() bool { return p.writes != nil }

func (p *partTx) Counter(kind byte, owner uint32) (int64, bool, error) {
	b, found, err := p.Get(p.state.Keys.Counter(kind, owner))
	if err != nil || !found {
		return 0, false, err
	}
	n, err := layout.DecodeCounter(b)
	return n, err == nil, err
}

func (p *partTx) Need(doing string, bytes int) error       { return p.tx().need(doing, bytes) }
func (p *partTx) NeedToFree(doing string, bytes int) error { return p.tx().needToFree(doing, bytes) }
func (p *partTx) Delete(key []byte) error                  { return p.tx().del(key) }

func (p *partTx) Set(key, value []byte) error { return p.tx().set(key, layout.Seal(key, value)) }
func (p *partTx) Merge(key, value []byte) error {
	return p.tx().merge(key, layout.Seal(key, value))
}

func (p *partTx) DeleteRange(lower, upper []byte) error {
	return p.tx().wrote(p.batch.DeleteRange(lower, upper, nil))
}

func (p *partTx) GiveOwner(o scope.Owner) (uint32, error) {
	if err := p.tx().registered("store something", o); err != nil {
		return 0, err
	}
	return p.tx().rec.Number(layout.Name{Class: layout.NameOwner, Text: scope.Key(o)})
}

func (p *partTx) GiveAgent(id string) (uint32, error) {
	return p.tx().rec.Number(layout.Name{Class: layout.NameOwner, Text: scope.Key(scope.Owner{Agent: id})})
}

func (p *partTx) GiveRun(name string) (uint32, error) {
	return p.tx().rec.Number(layout.Name{Class: layout.NameRun, Text: name})
}

func (p *partTx) Count(kind byte, owner uint32, by int64) error {
	n, _, err := p.Counter(kind, owner)
	if err != nil {
		return err
	}
	return p.Set(p.state.Keys.Counter(kind, owner), layout.EncodeCounter(n+by))
}

func (p *partTx) Log(op part.Op, body []byte) uint32 {
	p.log = append(append(p.log, byte(op)), body...)
	return p.tx().change()
}

func (p *partTx) Stage(fn func(lsn uint64)) {
	p.tx().onApplied(func(lsn uint64) error {
		fn(lsn)
		return nil
	})
}
