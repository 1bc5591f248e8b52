package records

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/uuid"

	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/hnsw"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/internal/spaces"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/internal/state/statetest"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/mention"
)

// ledger is a database of nothing but tables and a store in RAM: the Batch and the Host of one Writer at a time. A write
// is in the store at once, and in the tables with commit.
type ledger struct {
	t       *testing.T
	world   *statetest.World
	values  statetest.Values
	keys    *layout.Keys
	spaces  *spaces.Set
	seen    Seen
	touches *Touches
	given   layout.Counters
	names   map[layout.Name]uint32
	now     int64
	lsn     uint64
	changes uint32
	log     []byte
	dedup   Dedup
	refused string // an agent without a manifest
	noRoom  bool
	broken  error
	made    map[string]*spaces.Space // by the transaction
	linked  []uint64                 // Seqs that were linked to what they mention
	forgot  []uint64                 // Seqs that the graph forgot
}

func newLedger(t *testing.T) *ledger {
	t.Helper()
	l := &ledger{t: t, world: statetest.New(t), values: statetest.Values{}, names: map[layout.Name]uint32{}, now: 1_000_000}
	l.keys = l.world.Tables.NewestKeys.Load()
	l.spaces = spaces.NewSet(spaces.Host{Limits: spaces.DefaultLimits()})
	l.touches = NewTouches(&l.world.Tables, func() int64 { return l.now })
	return l
}

// view reads the newest state.
func (l *ledger) view() View {
	s := &state.State{Tables: &l.world.Tables, LSN: l.lsn, Now: l.now, Reader: l.values, Keys: l.keys, Index: l.world.Tables.NewestIndex.Load()}
	return View{State: s, Spaces: l.spaces, Seen: &l.seen, Database: uuid.UUID{1}}
}

// begin begins a transaction.
func (l *ledger) begin() *Writer {
	v := l.view()
	v.LSN++
	v.Own = &state.Own{Names: l.names, Given: &l.given, Committed: l.values}
	v.Changes = &Changes{BySeq: map[uint64]*Pending{}, Spaces: map[string]*spaces.Space{}}
	l.changes, l.log, l.broken = 0, nil, nil
	l.made = v.Changes.Spaces
	return &Writer{View: v, Batch: l, Host: l, Settings: Settings{Dedup: l.dedup}, Touches: l.touches, Applied: l.lsn}
}

// commit shows what a transaction has written.
func (l *ledger) commit(w *Writer) {
	l.lsn = w.LSN
	for _, d := range w.Changes.Killed {
		l.world.Tables.Docs.Kill(d.Doc, d.LSN)
	}
	for _, s := range w.Changes.Spaces {
		l.spaces.Add(s)
	}
	for _, p := range w.Changes.Added {
		if !p.Gone {
			if err := w.Tables.NewestIndex.Load().Add(p.Doc, &p.Index); err != nil {
				l.t.Fatal(err)
			}
			l.touches.Publish(p)
		}
	}
	w.ForgiveDebts()
}

// store stores a memory in a transaction of its own.
func (l *ledger) store(m memory.Memory, o memory.StoreOptions) (memory.Stored, error) {
	l.t.Helper()
	w := l.begin()
	p, err := Prepare(l.t.Context(), w.Tables, &m, l.now, w.Space)
	if err != nil {
		return memory.Stored{}, err
	}
	s, err := w.Store(p, &o)
	if err == nil {
		l.commit(w)
	}
	return s, err
}

func (l *ledger) mustStore(m memory.Memory) memory.Stored {
	l.t.Helper()
	s, err := l.store(m, memory.StoreOptions{})
	if err != nil {
		l.t.Fatal(err)
	}
	return s
}

// remove removes a memory in a transaction of its own.
func (l *ledger) remove(seq uint64) {
	l.t.Helper()
	w := l.begin()
	old, _ := w.At(seq)
	if err := w.Remove(old, nil); err != nil {
		l.t.Fatal(err)
	}
	l.commit(w)
}

func (l *ledger) Set(key, value []byte) error {
	l.values[string(key)] = slices.Clone(value)
	return nil
}

func (l *ledger) Encoded(key []byte, encode func(dst []byte) []byte) error {
	return l.Set(key, encode(nil))
}

func (l *ledger) Delete(key []byte) error {
	delete(l.values, string(key))
	return nil
}

// Merge knows one kind of operands: access statistics.
func (l *ledger) Merge(key, value []byte) error {
	a, err := DecodeAccess(key, value)
	if err != nil {
		return err
	}
	if stored, ok := l.values[string(key)]; ok {
		before, err := DecodeAccess(key, stored)
		if err != nil {
			return err
		}
		a = before.Fold(a)
	}
	return l.Set(key, layout.Seal(key, a.Encode()))
}

func (l *ledger) Change() uint32 { l.changes++; return l.changes - 1 }
func (l *ledger) Log() *[]byte   { return &l.log }

func (l *ledger) Break(err error) error {
	l.broken = err
	return err
}

var errNoRoom = errors.New("no room")

func (l *ledger) Room(string, int, int) error {
	if l.noRoom {
		return errNoRoom
	}
	return nil
}

func (l *ledger) RoomToFree(string, int) error { return nil }

func (l *ledger) Admit(k layout.Name, _ uint32) error {
	if k.Class == layout.NameOwner && l.refused != "" && k.Text == l.refused {
		return fault.ErrBusy
	}
	return nil
}

func (l *ledger) Concerns(uint32) {}

func (l *ledger) Registered(_ string, o memory.Owner) error {
	if o.Agent == "stranger" {
		return fault.ErrUnknownAgent
	}
	return nil
}

func (l *ledger) Doc() (uint32, error) {
	l.given.Doc++
	return l.given.Doc - 1, nil
}

func (l *ledger) MaySpaces(_ string, more uint32) error {
	if more > 1 {
		return fault.ErrInvalid
	}
	return nil
}

func (l *ledger) MakeSpace(name string, dim int) (*spaces.Space, error) {
	l.given.Names[layout.NameSpace]++
	s, err := l.spaces.New(uint16(l.given.Names[layout.NameSpace]), name, dim, hnsw.Cosine, "")
	if err == nil {
		l.made[name] = s
	}
	return s, err
}

func (l *ledger) Part() part.Tx { return ledgerPart{l: l} }

func (l *ledger) Link(_ memory.Scope, seq uint64, f *mention.Found) error {
	if f != nil {
		l.linked = append(l.linked, seq)
	}
	return nil
}

func (l *ledger) Forget(_ graph.Forgotten, _ uint32, seq uint64) error {
	l.forgot = append(l.forgot, seq)
	return nil
}

// ledgerPart is what the numbers of notes need of a transaction.
type ledgerPart struct {
	part.Tx
	l *ledger
}

func (p ledgerPart) Key(kind byte, _ int) []byte { return []byte{kind} }

func (p ledgerPart) Get(key []byte) ([]byte, bool, error) {
	b, ok := p.l.values[string(key)]
	return b, ok, nil
}

func (p ledgerPart) Set(key, value []byte) error { return p.l.Set(key, value) }
