package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/seed-7aedc3ff/memdb/apikeys"
	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/services/facts"
)

// Defaults of Options.
const (
	DefaultMaxBody       = 16 << 20
	DefaultTimeout       = time.Minute
	DefaultMaxConcurrent = 256
	DefaultMaxStreams    = 1024
	DefaultIdleTimeout   = 5 * time.Minute
	DefaultGrace         = 20 * time.Second
	DefaultSilence       = time.Hour
	DefaultMoveWait      = 8 * time.Second
	DefaultMaxWork       = 1 << 29
	DefaultWait          = time.Second
)

// Options of a Server. The zero value works: no keys, loopback only.
type Options struct {
	// Keys are those who may ask. nil: there are none.
	Keys *apikeys.Keys
	// Facts is the memory of facts, nil for none.
	Facts *facts.Facts
	// Shards are the databases of a cluster, of which the server has no one of its own. nil: none.
	Shards Shards
	// MoveWait is how long a call waits for a shard that no node serves, as while it moves or the lease of
	// a node that was killed runs out. 0: DefaultMoveWait.
	MoveWait time.Duration
	// Hosts are names, beside those of loopback, under which it is reached over a loopback address.
	Hosts []string
	// Origins are those of pages in browsers that may ask, as https://app.example.
	Origins []string
	// MaxBody bounds the body of a request, in bytes. 0: DefaultMaxBody.
	MaxBody int64
	// Timeout bounds the time of a request, and of each write and read of a stream. 0: DefaultTimeout.
	Timeout time.Duration
	// Silence bounds for how long nothing of a stream is read or written, as while a database is compacted. 0:
	// DefaultSilence. Streams that wait for what comes are not bounded.
	Silence time.Duration
	// MaxConcurrent bounds how many requests run at once, and MaxStreams how many streams. One key, or
	// without keys one address, gets at most half of them, and less while others have some. Others wait for
	// Wait, and are told to come again. 0: the defaults.
	MaxConcurrent, MaxStreams int
	// Wait is how long a request waits for others to end. 0: DefaultWait.
	Wait time.Duration
	// MaxWork bounds what the filters of a request cost, as filter.WithWork counts. 0: DefaultMaxWork, at worst
	// 3 to 6 s of a processor.
	MaxWork int64
	// Rate is how many requests a second a key may make, or without keys an address, and Burst how
	// many at once. 0: any number; a burst of twice the rate.
	Rate, Burst float64
	// IdleTimeout ends a connection without a request. 0: DefaultIdleTimeout.
	IdleTimeout time.Duration
	// Grace is how long requests may take to end when the server ends. 0: DefaultGrace.
	Grace time.Duration
	// TLS has connections encrypted. nil: they are not.
	TLS *tls.Config
	// Logger hears of each request and of what fails. nil: nothing is logged.
	Logger *slog.Logger
	// Clock tells the time. nil: the system's.
	Clock func() time.Time
}

// A Server answers requests for a database.
type Server struct {
	db       *engine.DB
	o        Options
	mux      *http.ServeMux
	dialects []*Dialect
	routes   []Route
	rates    rates
	running  *shares
	streams  *shares
	bodies   *shares // bytes
	// exposed: others than this machine may reach it, so that it is never without keys.
	exposed  atomic.Bool
	draining atomic.Bool
	drained  context.Context // over when streams are to end
	drain    context.CancelFunc
	counts   counts
	seals    *seals
}

// New returns a server of a database, which stays the caller's to close; nil with Options.Shards. It has /healthz, /readyz
// and /metrics; dialects are mounted on it.
func New(db *engine.DB, o Options) *Server {
	o.MaxBody = cmp.Or(o.MaxBody, DefaultMaxBody)
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	o.MaxConcurrent = cmp.Or(o.MaxConcurrent, DefaultMaxConcurrent)
	o.MaxStreams = cmp.Or(o.MaxStreams, DefaultMaxStreams)
	o.IdleTimeout = cmp.Or(o.IdleTimeout, DefaultIdleTimeout)
	o.Grace = cmp.Or(o.Grace, DefaultGrace)
	o.Silence = cmp.Or(o.Silence, DefaultSilence)
	o.MoveWait = cmp.Or(o.MoveWait, DefaultMoveWait)
	o.MaxWork = cmp.Or(o.MaxWork, DefaultMaxWork)
	o.Wait = cmp.Or(o.Wait, DefaultWait)
	o.Burst = max(cmp.Or(o.Burst, 2*o.Rate), 1)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	s := &Server{
		db: db, o: o, mux: http.NewServeMux(), seals: newSeals(),
		rates:   rates{perSecond: rate.Limit(o.Rate), burst: int(min(o.Burst, math.MaxInt32)), buckets: map[string]*rate.Limiter{}},
		running: newShares(int64(o.MaxConcurrent), o.Wait), streams: newShares(int64(o.MaxStreams), o.Wait), bodies: newShares(bodiesHeld*max(o.MaxBody, bodyStep), o.Wait),
	}
	s.drained, s.drain = context.WithCancel(context.Background())
	s.Mount(s.own())
	return s
}

// Mount adds the routes of a dialect. It panics where a pattern is malformed or contradicts
// another one, as http.ServeMux does. Mount before the server serves.
func (s *Server) Mount(d *Dialect) {
	s.dialects = append(s.dialects, d)
	for _, route := range d.Routes {
		s.routes = append(s.routes, route)
		s.mux.Handle(route.Pattern, &endpoint{s: s, d: d, route: route})
	}
}

// Routes returns all routes that were mounted.
func (s *Server) Routes() []Route { return slices.Clone(s.routes) }

// Handler answers requests; see Serve for what keeps connections in bounds.
func (s *Server) Handler() http.Handler { return http.HandlerFunc(s.serve) }

// dialectOf is the dialect that answers for a path without a route.
func (s *Server) dialectOf(path string) *Dialect {
	best, length := s.dialects[0], -1
	for _, d := range s.dialects {
		for _, p := range d.Prefixes {
			if len(p) > length && (path == strings.TrimSuffix(p, "/") || strings.HasPrefix(path, p)) {
				best, length = d, len(p)
			}
		}
	}
	return best
}

// Loopback reports whether only this machine reaches the address of a listener.
func Loopback(a net.Addr) bool {
	switch a := a.(type) {
	case *net.TCPAddr:
		return a.IP.IsLoopback()
	case *net.UnixAddr:
		return true
	}
	return false
}

// Serve answers the connections of a listener until the context ends; then it takes no more, waits
// for the requests that run, as long as Options.Grace, and closes the rest. Where others than this machine
// may reach it, by the address of the listener or under a name of Options.Hosts, it returns ErrInvalid if there are
// no keys, and the error of the keys if they cannot be read.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	if err := s.guard(l.Addr()); err != nil {
		return errors.Join(err, l.Close())
	}
	var noting sync.WaitGroup
	defer noting.Wait()
	noted, end := context.WithCancel(ctx)
	defer end()
	noting.Go(func() { s.noteUse(noted) })
	h := &http.Server{
		Handler: s.Handler(), TLSConfig: s.o.TLS,
		ReadHeaderTimeout: 10 * time.Second, IdleTimeout: s.o.IdleTimeout, MaxHeaderBytes: s.maxHeader(),
		ErrorLog:  slog.NewLogLogger(s.o.Logger.Handler(), slog.LevelDebug),
		ConnState: s.counts.connection,
	}
	ended := make(chan error, 1)
	go func() {
		if s.o.TLS != nil {
			ended <- h.ServeTLS(l, "", "")
		} else {
			ended <- h.Serve(l)
		}
	}()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	s.draining.Store(true)
	s.drain()
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.o.Grace)
	defer cancel()
	err := h.Shutdown(grace)
	if errors.Is(err, context.DeadlineExceeded) {
		s.o.Logger.Warn("requests that still ran were cut off", "grace", s.o.Grace)
		err = h.Close()
	}
	if ended := <-ended; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	return err
}

// guard refuses to serve others than this machine without keys, and warns of secrets that go over a network.
func (s *Server) guard(at net.Addr) error {
	s.exposed.Store(!Loopback(at) || len(s.o.Hosts) > 0)
	some, err := s.o.Keys.Some()
	switch exposed := s.exposed.Load(); {
	case err != nil && exposed:
		return err
	case err != nil:
		s.o.Logger.Error("every request is refused: the keys cannot be read", "error", err)
	case !some && exposed:
		why := "others than this machine reach it, and there are no keys"
		if Loopback(at) {
			why = "the server has names for clients behind a proxy, and there are no keys"
		}
		return &memory.Error{
			Kind: memory.ErrInvalid, What: "listen on " + at.String(), Why: why,
			Do: "make one with memdbd key add --admin, or listen on 127.0.0.1 without --host",
		}
	case some && !Loopback(at) && s.o.TLS == nil:
		s.o.Logger.Warn("keys and memories go over the network without encryption: give --tls-cert and --tls-key, or put a proxy with TLS in front", "address", at.String())
	}
	return nil
}

// noteEvery is how often the server looks for keys whose last use is to be stored.
const noteEvery = time.Minute

// noteUse stores when keys were last used, until ctx ends.
func (s *Server) noteUse(ctx context.Context) {
	if s.o.Keys == nil {
		return
	}
	tick := time.NewTicker(noteEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := s.o.Keys.NoteUse(ctx); err != nil {
				s.o.Logger.Debug("when keys were last used is not stored", "error", err)
			}
		}
	}
}

// maxHeader bounds the headers of a request, in bytes. Nodes tell each other all scopes of a key.
func (s *Server) maxHeader() int {
	if s.o.Shards != nil {
		return 256 << 10
	}
	return 64 << 10
}

// writable says why no writes are taken now, nil where they are. Probes and metrics tell what writers are told.
func (s *Server) writable() error {
	if s.o.Shards != nil {
		return s.o.Shards.Writable()
	}
	return s.db.Writable()
}

// health is the reply of a probe.
type health struct {
	Status string `json:"status"`
}

// own are the routes that belong to no dialect.
func (s *Server) own() *Dialect {
	return &Dialect{
		Name: "memdb", Prefixes: []string{"/"},
		Routes: []Route{
			{Pattern: "GET " + OpenAPIPath, Public: true, Handle: s.openapi, Doc: Doc{Tag: "server", Summary: "Get this document", Reply: object{}}},
			{Pattern: "GET /healthz", Public: true, Probe: true, Doc: Doc{Tag: "server", Summary: "Report that the process is alive", Reply: health{}}, Handle: func(c *Call) error {
				return c.Reply(http.StatusOK, health{"ok"})
			}},
			{Pattern: "GET /readyz", Public: true, Probe: true, Handle: s.ready, Doc: Doc{Tag: "server", Summary: "Report whether the server takes requests and the database takes writes", Reply: health{}}},
			{Pattern: "GET /metrics", Admin: true, Metrics: true, Probe: true, Node: true, Handle: s.metrics, Doc: Doc{Tag: "server", Summary: "Get metrics in the text format of Prometheus", Media: []string{"text/plain"}}},
		},
	}
}

// ready says whether the server takes requests and the database takes writes. It does not say why
// not to whom that is no business of.
func (s *Server) ready(c *Call) error {
	if s.draining.Load() {
		return Fail(http.StatusServiceUnavailable, "closing", "the server is ending")
	}
	if err := s.writable(); err != nil {
		return Fail(http.StatusServiceUnavailable, Fault(err).Code, "the database takes no writes now; the log of the server says why")
	}
	return c.Reply(http.StatusOK, health{"ready"})
}

// ErrorReply is an error in the native dialect.
type ErrorReply struct {
	Error errorBody `json:"error"`
}

type errorBody struct {
	Code      string `json:"code"`
	Message   string `json:"message"`
	RequestID string `json:"request_id"`
}

// Reply is the failure in the native dialect.
func (f *Failure) Reply() ErrorReply { return ErrorReply{errorBody{f.Code, f.Message, f.RequestID}} }

// failNative writes an error as the native dialect does.
func failNative(w http.ResponseWriter, f *Failure) {
	writeJSON(w, f.Status, f.Reply())
}

// discard reads what is left of a body, within reason, so that the connection can be used again.
func discard(r *http.Request) { _, _ = io.CopyN(io.Discard, r.Body, 256<<10) }
