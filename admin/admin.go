// Package admin lets memdbctl in beside a program that holds a database.
//
// A folder is open in one process at a time. Serve has that process listen on a socket in the
// folder, where it answers the requests of memdbd's own interface, and runs the commands of memdbctl
// that are none of them. Whoever may connect may do all that memdbctl can, in every scope: the socket's
// mode is 0600, and a client of another user than this one and root is sent away.
package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/internal/beside"
	"github.com/seed-7aedc3ff/memdb/internal/cli"
	"github.com/seed-7aedc3ff/memdb/internal/panics"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/services/server"
	"github.com/seed-7aedc3ff/memdb/services/server/native"
)

const (
	// MaxVerbs is how many commands and requests run at once; others wait, up to longest.
	MaxVerbs = 64
	// maxAsking is how many clients may be connected that have not yet said what they want. One
	// more has the oldest of them sent away, so that idle connections are in nobody's way.
	maxAsking = 64
	// askWait is how long a client may take to say what it wants.
	askWait = 10 * time.Second
	// longest is how long a request may take, and a client to take each part of an answer.
	longest = time.Hour
	// maxBody bounds the body of a request, in bytes, and maxTarget its path and query. Systems bound the
	// arguments of a process at about as much.
	maxBody   = 64 << 20
	maxTarget = 4 << 20
)

// A Server answers memdbctl until it is closed.
type Server struct {
	db       *engine.DB
	dir      string // of the database
	path     string // of the socket
	temp     string // the folder made for it, empty for none
	listener net.Listener
	http     *http.Server
	ctx      context.Context
	cancel   context.CancelFunc
	serving  sync.WaitGroup
	slots    chan struct{} // of commands
	mu       struct {
		sync.Mutex
		asking  []net.Conn // in the order of their coming
		closed  bool
		running sync.WaitGroup // none is added once it is closed
	}
	once sync.Once
}

// Serve listens for memdbctl on the socket of a path; the empty path is one in the folder of the
// database or beside its one file, or, where that has too long a name for a socket, one in a new temporary folder. Close
// the server before the database.
//
// It returns ErrInvalid for a database in memory, and for a path that is too long (103 bytes on
// some systems), and ErrLocked where a living program listens there already.
func Serve(db *engine.DB, path string) (*Server, error) {
	const doing = "serve the database"
	place := cmp.Or(db.Dir(), db.File())
	if place == "" {
		return nil, &memory.Error{Kind: memory.ErrInvalid, What: doing, Why: "it is in memory, where nobody finds it", Do: "open one in a folder"}
	}
	dir, err := filepath.Abs(place)
	if err != nil {
		return nil, &memory.Error{Kind: memory.ErrFailed, What: doing, Cause: err}
	}
	s := &Server{db: db, dir: dir, path: path, slots: make(chan struct{}, MaxVerbs)}
	if err := s.listen(); err != nil {
		s.remove()
		if own, ok := errors.AsType[*memory.Error](err); ok {
			return nil, own
		}
		return nil, &memory.Error{Kind: memory.ErrFailed, What: doing, Cause: err, Do: "see who may write in " + filepath.Dir(s.path) + ", or give another path"}
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.http = s.server()
	s.serving.Go(func() { _ = s.http.Serve(beside.Trusting(s.listener)) }) // until Close
	return s, nil
}

// connKey is the key of the connection in the context of a request.
type connKey struct{}

// server has the native dialect for an administrator, and commands.
func (s *Server) server() *http.Server {
	of := server.New(s.db, server.Options{
		MaxConcurrent: 2 * MaxVerbs, MaxStreams: 2 * (MaxVerbs + maxAsking), // one client may have half
		Wait: longest, Timeout: longest, MaxBody: maxBody, MaxWork: math.MaxInt64, Clock: s.db.Now,
	})
	of.Mount(native.New())
	of.Mount(&server.Dialect{
		Name: "memdbctl", Prefixes: []string{beside.Path},
		Routes: []server.Route{{Pattern: "POST " + beside.Path, Stream: true, Handle: s.command}},
	})
	return &http.Server{
		Handler: s.counted(of.Handler()), ReadHeaderTimeout: askWait, IdleTimeout: askWait, MaxHeaderBytes: maxTarget,
		ErrorLog:    slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
		ConnState: func(c net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew, http.StateIdle:
				s.begin(c)
			case http.StateClosed, http.StateHijacked:
				s.asked(c)
			}
		},
	}
}

// counted has Close wait for the requests that run, and end them.
func (s *Server) counted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.asked(connOf(r))
		if !s.enter() {
			return
		}
		defer s.mu.running.Done()
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(s.ctx, cancel)()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

func connOf(r *http.Request) net.Conn {
	c, _ := r.Context().Value(connKey{}).(net.Conn)
	return c
}

// enter counts a request, unless the server is closed.
func (s *Server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.mu.closed {
		s.mu.running.Add(1)
	}
	return !s.mu.closed
}

// listen makes the socket.
func (s *Server) listen() (err error) {
	own, fits := beside.Place(s.dir)
	elsewhere := s.path != "" && s.path != own
	switch {
	case s.path == "" && fits:
		s.path = own
	case s.path == "":
		if s.temp, err = os.MkdirTemp("", "memdb-"); err != nil {
			return err
		}
		s.path, elsewhere = filepath.Join(s.temp, filepath.Base(own)), true
	default:
		if s.path, err = filepath.Abs(s.path); err != nil {
			return err
		}
	}
	if err := s.clear(); err != nil {
		return err
	}
	if s.listener, err = listenPrivately(s.path); err != nil {
		return err
	}
	if elsewhere {
		return beside.Note(s.dir, s.path)
	}
	return beside.Forget(s.dir)
}

// clear removes a socket that a process has left behind.
func (s *Server) clear() error {
	info, err := os.Lstat(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if c, err := net.Dial("unix", s.path); err == nil {
		return errors.Join(c.Close(), &memory.Error{
			Kind: memory.ErrLocked, What: "serve the database", Why: "a program listens at " + s.path + " already", Do: "close its server, or give another path",
		})
	}
	if info.Mode()&fs.ModeSocket == 0 {
		return &memory.Error{Kind: memory.ErrExists, What: "serve the database", Why: s.path + " is there, and no socket", Do: "give another path"}
	}
	return os.Remove(s.path)
}

// listenPrivately makes a socket that nobody else can connect to.
func listenPrivately(path string) (net.Listener, error) {
	l, err := (&net.ListenConfig{Control: private}).Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// Path is where the socket lies.
func (s *Server) Path() string { return s.path }

// command runs a command of memdbctl. An error means that the client is gone or is not memdbctl: nobody is left
// to be told.
func (s *Server) command(c *server.Call) error {
	if why := beside.Refuses(c.R); why != "" {
		c.W.Header().Set("Upgrade", beside.Protocol)
		return server.Fail(http.StatusUpgradeRequired, "upgrade_required", "%s", why)
	}
	conn, err := beside.Accept(c.W)
	if err != nil {
		return err
	}
	defer context.AfterFunc(s.ctx, func() { _ = conn.Close() })()
	s.begin(conn)
	r, err := conn.Ask()
	s.asked(conn)
	if err != nil {
		_ = conn.Close()
		return nil
	}
	_ = conn.Serve(c.Context(), r, s.run)
	return nil
}

// begin notes a client that has not yet asked, and sends the oldest of too many away.
func (s *Server) begin(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.mu.asking) == maxAsking {
		_ = s.mu.asking[0].Close() // which whoever reads of it notices
		s.mu.asking = slices.Delete(s.mu.asking, 0, 1)
	}
	s.mu.asking = append(s.mu.asking, c)
}

// asked is the end of what begin began.
func (s *Server) asked(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.asking = slices.DeleteFunc(s.mu.asking, func(other net.Conn) bool { return other == c })
}

// run runs a verb when its turn has come. One that panics harms nobody else.
func (s *Server) run(ctx context.Context, client *beside.Session) (code int) {
	const failed = 1
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-ctx.Done():
		return failed
	}
	if err := panics.Catch("runs a verb", func() { code = cli.RunOn(ctx, s.db, s.dir, client) }); err != nil {
		_, _ = fmt.Fprintf(client.Err, "memdbctl: %v\n", err)
		return failed
	}
	return code
}

// Close ends the requests that run, removes the socket, and waits for both. It may be called again.
func (s *Server) Close() (err error) {
	s.once.Do(func() {
		s.cancel()
		s.mu.Lock()
		s.mu.closed = true
		s.mu.Unlock()
		if err = s.http.Close(); errors.Is(err, net.ErrClosed) {
			err = nil
		}
		s.serving.Wait()
		s.mu.running.Wait()
		s.remove()
	})
	return err
}

// remove removes what leads to the socket.
func (s *Server) remove() {
	if s.listener != nil {
		_ = s.listener.Close() // removes the socket
	}
	if s.temp != "" {
		_ = os.RemoveAll(s.temp)
	}
	_ = beside.Forget(s.dir)
}
