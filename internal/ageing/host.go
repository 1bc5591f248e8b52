package ageing

import (
	"context"
	"iter"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/internal/records"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// Host is the database whose memories age.
type Host interface {
	// View calls fn with the newest state that callers see.
	View(ctx context.Context, fn func(*State) error) error
	// Update calls fn with a transaction of a caller, and returns when what it wrote is durable. Behind is Update for work
	// in the background, while no document that was moved gets its new number.
	Update(ctx context.Context, fn func(*Tx) error) error
	Behind(ctx context.Context, fn func(*Tx) error) error
	// Locked calls fn under the writer lock, and returns the LSN of the newest commit then.
	Locked(ctx context.Context, fn func()) (applied uint64, err error)
	// Durable waits until the commit of an LSN is durable.
	Durable(lsn uint64) error
	// Turn keeps other work that takes memories away waiting until release is called.
	Turn(ctx context.Context) (release func(), err error)
	// Apart returns the context of a call that is no part of a request.
	Apart(ctx context.Context, doing string) (context.Context, error)
	// Writable returns ErrReadOnly if the database is only read.
	Writable(doing string) error
	// LSN is that of the newest commit that callers see.
	LSN() uint64
	Tables() *state.Tables
}

// State is one state of the database as ageing reads it.
type State struct {
	records.View
	// Part is the state as parts read it.
	Part part.View
	// Memory reads a memory as Get returns it, without its vectors.
	Memory func(v layout.Version) (memory.Memory, error)
	of     *Ageing
}

// Tx is a transaction in which memories age.
type Tx struct {
	*State
	Writer *records.Writer
	TxHost
}

// TxHost is what else a transaction does when memories die in it.
type TxHost interface {
	// Materialise shows what the transaction has written in the tables.
	Materialise() error
	// Kill ends the version in a document, until the transaction is taken back.
	Kill(doc uint32)
	// Ended notes a death range of n memories, which is written, to be cleaned up.
	Ended(d *layout.DeathRange, n int)
	// Applied calls fn once the transaction is applied, with its LSN.
	Applied(fn func(lsn uint64) error)
	// ForgetInGraphs takes out of the graphs what memories were the reason for.
	ForgetInGraphs(how graph.Forgotten, all iter.Seq[Dying]) error
	// FlushTouches writes the accesses that are gathered.
	FlushTouches() error
}

// Dying is a memory that dies.
type Dying struct {
	Owner uint32
	Seq   uint64
	Into  uint64 // the Seq of what it is merged into, 0 for none
}

// Config is what a database says of itself.
type Config struct {
	Logger *slog.Logger
	Clock  func() time.Time
	// Jumped reports whether the clock has jumped ahead, and is not to be believed.
	Jumped func() bool
	// Trashed is told of each list of the trash, once it is applied, and of when it is to be emptied.
	Trashed func(lsn uint64, until int64)
}

// Ageing ages the memories of one database.
type Ageing struct {
	Config
	host      Host
	hooks     Hooks
	verdicts  callout
	observers callout
	observing observing
	mattering mattering // what evictions have read
	// capsLooked is the mark of the tables when agents were held to their caps last.
	capsLooked atomic.Uint32
	// expiring and sweeping are the signals of flushes and compactions. While the store rewrites data is the time to look
	// for what is to go.
	expiring, sweeping chan struct{}
}

// New ages the memories of a database, which need not be open yet.
func New(h Host, c Config) *Ageing {
	return &Ageing{Config: c, host: h, expiring: make(chan struct{}, 1), sweeping: make(chan struct{}, 1), observing: observing{signal: make(chan struct{}, 1)}}
}

// Rewritten is called by the store after each flush and compaction. It does not wait.
func (a *Ageing) Rewritten() {
	for _, to := range []chan struct{}{a.expiring, a.sweeping} {
		select {
		case to <- struct{}{}:
		default:
		}
	}
}

// State is a state of the database of these memories.
func (a *Ageing) State(st State) *State {
	st.of = a
	return &st
}

func (a *Ageing) view(ctx context.Context, fn func(*State) error) error { return a.host.View(ctx, fn) }

// jumped says why nothing is done while the clock has jumped ahead.
const jumped = "the clock has jumped ahead; it is believed once it has stood for ten minutes"
