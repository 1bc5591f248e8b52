package engine

import (
	"context"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/internal/records"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/sessions"
)

// Sessions are the sessions of a database, seen through a transaction ([Tx.Sessions]), or
// each call as a transaction of its own ([DB.Sessions]).
type Sessions struct {
	sessions.Sessions
	run runner
}

// Sessions are the sessions of the database: each call is its own transaction.
func (db *DB) Sessions() Sessions { return newSessions(runner{db: db}) }

// Sessions are the sessions as this transaction sees them.
func (tx *Tx) Sessions() Sessions { return newSessions(runner{db: tx.db, tx: tx}) }

func newSessions(r runner) Sessions { return Sessions{sessions.New(r), r} }

// StoreMemory stores a memory as Memories.Store does, and appends a message that refers to
// it to the session that is the memory's run, in one commit. The message has the memory's
// text and role; of msg, the ID, the parts and the time count. A memory without a run, or
// without user and agent, is ErrInvalid.
func (s Sessions) StoreMemory(ctx context.Context, m memory.Memory, o *memory.StoreOptions, msg sessions.Message, a *sessions.AppendOptions) (memory.Stored, sessions.Appended, error) {
	const doing = "store a memory in a session"
	if m.Scope.Run == "" {
		return memory.Stored{}, sessions.Appended{}, fault.Invalid(doing, "it has no run", "give the session as its run")
	}
	if m.Text == "" {
		return memory.Stored{}, sessions.Appended{}, fault.Invalid(doing, "it has no text", "give one, or store it without a session")
	}
	if a != nil && a.NoMemory {
		return memory.Stored{}, sessions.Appended{}, fault.Invalid(doing, "NoMemory was given", "append the message by itself")
	}
	msg.Role, msg.Text, msg.MemoryIDs = string(m.Role), m.Text, nil
	var stored memory.Stored
	with := sessions.New(storing{s.run, &m, o, &stored})
	all, err := with.Append(ctx, m.Scope.Owner(), m.Scope.Run, []sessions.Message{msg}, a)
	if err != nil {
		return memory.Stored{}, sessions.Appended{}, err
	}
	return stored, all[0], nil
}

// storing is a runner of one append, whose memory is given whole.
type storing struct {
	runner
	memory  *memory.Memory
	options *memory.StoreOptions
	stored  *memory.Stored
}

func (r storing) Prepare(ctx context.Context, _ part.NewMemory) (part.Prepared, error) {
	p, err := r.prepare(ctx, r.memory, r.options)
	if err != nil {
		return nil, err
	}
	p.result = r.stored
	return p, nil
}

// preparedMemory is a memory that a part has stored.
type preparedMemory struct {
	*records.Prepared
	options memory.StoreOptions
	result  *memory.Stored // where its user wants it
}

// Bytes is about what storing it writes.
func (p *preparedMemory) Bytes() int { return p.Size() }

func (r runner) Prepare(ctx context.Context, m part.NewMemory) (part.Prepared, error) {
	p, err := r.prepare(ctx, newMemory(&m), nil)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// newMemory returns what a part has stored as a memory.
func newMemory(m *part.NewMemory) *memory.Memory {
	return &memory.Memory{
		ID: m.ID, Scope: m.Scope, Role: memory.Role(m.Role), Kind: memory.Kind(m.Kind), Name: m.Name, Text: m.Text,
		CreatedAt: clock.FromMillis(m.Created), Importance: m.Importance, Pinned: m.Pinned,
	}
}

func (r runner) prepare(ctx context.Context, m *memory.Memory, o *memory.StoreOptions) (*preparedMemory, error) {
	if o == nil {
		o = &memory.StoreOptions{}
	}
	of := Memories{db: r.db, tx: r.tx}
	now, err := of.beginStore()
	if err != nil {
		return nil, err
	}
	ps, _, err := of.prepareEach(ctx, 1, false, func(int) (*records.Prepared, error) { return of.prepareNew(ctx, m, now) })
	if err != nil {
		return nil, err
	}
	return &preparedMemory{Prepared: ps[0], options: *o}, nil
}

func (p *partTx) StoreMemory(m part.Prepared) (part.StoredMemory, error) {
	of, ok := m.(*preparedMemory)
	if !ok {
		return part.StoredMemory{}, fault.Invalid(records.DoingStore, "it was prepared by another database", "prepare it with this one")
	}
	again := *of.Prepared // a commit of a group may be tried again
	s, err := p.tx().rec.Store(&again, &of.options)
	if of.result != nil {
		*of.result = s
	}
	return part.StoredMemory{ID: s.ID, Seq: s.Seq, Stored: s.Stored, Deduplicated: s.Deduplicated}, err
}

func (p *partTx) StoreNew(m part.NewMemory) (part.StoredMemory, error) {
	of := Memories{db: p.db, tx: p.tx()}
	ready, err := of.prepare(context.Background(), newMemory(&m), p.state.Now) // it is short work under the writer lock
	if err != nil {
		return part.StoredMemory{}, err
	}
	p.db.markPending([]*records.Prepared{ready})
	s, err := p.tx().rec.Store(ready, &memory.StoreOptions{NoDedup: true})
	return part.StoredMemory{ID: s.ID, Seq: s.Seq, Stored: s.Stored}, err
}

func (p *partTx) DeleteMemory(seq uint64) (bool, error) {
	l, found := p.tx().reader().At(seq)
	if !found {
		return false, nil
	}
	return true, p.tx().rec.Remove(l, nil)
}

func (p *partTx) Survivor(owner uint32, seq uint64) (m part.Memory, found bool, err error) {
	into, _, lives, err := p.tx().reader().Survivor(owner, seq)
	if err != nil || !lives {
		return part.Memory{}, false, err
	}
	return p.MemoryAt(into)
}

func (p *partTx) MemoryWas(owner uint32, seq uint64) (m part.Memory, found bool, err error) {
	prefix := p.state.Keys.Records(owner, seq)
	err = kv.Scan(p.state.Reader, prefix, layout.PrefixEnd(prefix), func(key, value []byte) error {
		v, ok := layout.ParseRecordKey(key)
		if !ok {
			return layout.BadKey("record", key)
		}
		if v.Born > p.state.LSN {
			return nil
		}
		rec, err := layout.DecodeRecord(value)
		if err != nil {
			return err
		}
		m, found = part.Memory{ID: rec.ID, Seq: seq, Owner: owner, Scope: rec.Scope, Text: rec.Text}, true
		return nil
	})
	return m, found, err
}
