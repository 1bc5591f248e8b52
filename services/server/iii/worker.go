package iii

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/url"
	"time"

	"github.com/coder/websocket"

	"github.com/seed-7aedc3ff/memdb/apikeys"
	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/internal/retry"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/scope"
	"github.com/seed-7aedc3ff/memdb/services/server"
	"github.com/seed-7aedc3ff/memdb/services/server/functions"
)

// Defaults of Options.
const (
	DefaultName          = "memdb"
	DefaultTimeout       = 30 * time.Second
	DefaultMaxConcurrent = 64
	DefaultFirstWait     = time.Second
	DefaultGrace         = 10 * time.Second
)

const (
	// maxFrame bounds a frame of the engine, in bytes: a text of 8 MiB, escaped.
	maxFrame = 16 << 20
	// longestWait bounds the wait before the worker connects again.
	longestWait = 30 * time.Second
	// dialTimeout bounds a connecting, writeTimeout the writing of a frame.
	dialTimeout  = 10 * time.Second
	writeTimeout = 10 * time.Second
	// pingEvery is how often the connection is looked at, and pongTimeout how long the engine may take
	// to answer that: longer than the worker may be busy with invocations.
	pingEvery   = 20 * time.Second
	pongTimeout = 60 * time.Second
)

// Options of a worker.
type Options struct {
	// URL is that of the engine: ws://127.0.0.1:49134, or wss://….
	URL string
	// DB is the database, which stays the caller's to close, after Run has returned.
	DB *engine.DB
	// Functions are what it serves. nil: the zero Functions.
	Functions *functions.Functions
	// Scope is what the engine sees of the database: whoever reaches the engine sees it, too. The empty
	// scope is everything.
	Scope memory.Scope
	// Name is that of the worker, Version its version. Empty: DefaultName, and none.
	Name, Version string
	// PID is the ID of the process, 0 for none told.
	PID int
	// Namespace is where the engine has the functions. Empty: the engine's default.
	Namespace string
	// Cron has the engine consolidate every six hours, and evict daily at three, as cron expressions
	// "0 */6 * * *" and "0 3 * * *". Leave it off where the database does so by its own schedule:
	// confidence would decay twice.
	Cron bool
	// Timeout bounds an invocation. 0: DefaultTimeout.
	Timeout time.Duration
	// MaxConcurrent bounds how many invocations run at once; others wait in the connection.
	// 0: DefaultMaxConcurrent.
	MaxConcurrent int
	// FirstWait is the first wait before it connects again. 0: DefaultFirstWait.
	FirstWait time.Duration
	// Grace is how long invocations that run may take when the worker ends. 0: DefaultGrace.
	Grace time.Duration
	// Logger hears of connections and failures. nil: nothing is logged.
	Logger *slog.Logger
	// Clock tells the time. nil: the system's.
	Clock func() time.Time
}

// ErrConflict: another worker of the engine has the name, in the same namespace.
var ErrConflict = errors.New("another worker of the engine has this name")

// Run serves until the context ends, which is no error; it returns when no function runs any more. An
// engine that is not there, or goes away, is waited for. ErrInvalid, of package memory, for Options that
// cannot be; ErrConflict where the engine has a live worker of the name, which waiting does not mend.
func Run(ctx context.Context, o Options) error {
	w, err := newWorker(ctx, o)
	if err != nil {
		return err
	}
	defer w.end()
	wait := w.o.FirstWait
	for {
		known, err := w.connect(ctx)
		switch {
		case errors.Is(err, ErrConflict):
			return err
		case ctx.Err() != nil:
			return nil
		case known:
			wait = w.o.FirstWait
		}
		w.o.Logger.Warn("the connection to the engine is gone; it is made again", "engine", w.shown, "error", err, "wait", wait)
		if retry.Sleep(ctx, wait) != nil {
			return nil
		}
		wait = min(2*wait, longestWait)
	}
}

// A worker is one that runs.
type worker struct {
	o     Options
	shown string       // the engine's address, without a password
	call  *server.Call // what the engine sees
	slots chan struct{}

	life   context.Context // of the functions that run
	finish context.CancelFunc

	id, token string // what the engine called it last
}

func newWorker(ctx context.Context, o Options) (*worker, error) {
	const doing = "connect to the engine"
	at, err := url.Parse(o.URL)
	if err != nil || at.Host == "" || at.Scheme != "ws" && at.Scheme != "wss" {
		return nil, &memory.Error{Kind: memory.ErrInvalid, What: doing, Why: "its address is no URL of a WebSocket", Do: "give one as ws://127.0.0.1:49134"}
	}
	if o.DB == nil {
		return nil, &memory.Error{Kind: memory.ErrInvalid, What: doing, Why: "there is no database", Do: "give one"}
	}
	if o.MaxConcurrent < 0 || o.Timeout < 0 || o.FirstWait < 0 || o.Grace < 0 {
		return nil, &memory.Error{Kind: memory.ErrInvalid, What: doing, Why: "a limit is negative", Do: "give a positive one, or 0 for the default"}
	}
	o.Name = cmp.Or(o.Name, DefaultName)
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	o.MaxConcurrent = cmp.Or(o.MaxConcurrent, DefaultMaxConcurrent)
	o.FirstWait = cmp.Or(o.FirstWait, DefaultFirstWait)
	o.Grace = cmp.Or(o.Grace, DefaultGrace)
	if o.Functions == nil {
		o.Functions = &functions.Functions{}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	w := &worker{o: o, shown: at.Redacted(), slots: make(chan struct{}, o.MaxConcurrent), call: &server.Call{DB: o.DB, Now: o.Clock}}
	if o.Scope != (memory.Scope{}) {
		if err := scope.Check(doing, o.Scope); err != nil {
			return nil, err
		}
		w.call.Key = &apikeys.Key{ID: "of the engine", Rights: apikeys.Rights{Scopes: []memory.Scope{o.Scope}}}
	}
	w.life, w.finish = context.WithCancel(context.WithoutCancel(ctx))
	return w, nil
}

// end waits until no function runs.
func (w *worker) end() {
	w.settle()
	w.finish()
	for range cap(w.slots) {
		w.slots <- struct{}{}
	}
}

// settle waits until no function runs, but no longer than Options.Grace.
func (w *worker) settle() {
	grace, cancel := context.WithTimeout(w.life, w.o.Grace)
	defer cancel()
	taken := 0
	for range cap(w.slots) {
		select {
		case w.slots <- struct{}{}:
			taken++
		case <-grace.Done():
		}
	}
	for range taken {
		<-w.slots
	}
}

// connect serves over one connection until it or the context ends. known reports whether the engine has
// taken the worker.
func (w *worker) connect(ctx context.Context) (known bool, err error) {
	dial, cancel := context.WithTimeout(ctx, dialTimeout)
	conn, _, err := websocket.Dial(dial, w.o.URL, nil)
	cancel()
	if err != nil {
		return false, err
	}
	defer func() { _ = conn.CloseNow() }() // what is to be told was told before
	conn.SetReadLimit(maxFrame)
	// Ends with the connection, and not with ctx: what runs then is still answered.
	alive, stop := context.WithCancel(w.life)
	defer stop()
	s := &session{worker: w, conn: conn, ending: ctx}
	if err := s.register(alive); err != nil {
		return false, err
	}
	ended := make(chan error, 2)
	go func() { ended <- s.read(alive) }()
	go func() { ended <- s.look(alive) }()
	left := 2
	select {
	case err = <-ended:
		left--
	case <-ctx.Done():
		w.settle()
		err = conn.Close(websocket.StatusNormalClosure, "the worker ends")
	}
	stop()
	for range left {
		<-ended //nolint:errcheck // the first one has said why
	}
	return s.known.Load(), err
}
