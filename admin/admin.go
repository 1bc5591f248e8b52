// Package admin lets memdbctl in beside a program that holds a database.
//
// A folder is open in one process at a time. Serve has that process listen on a socket in the
// folder; memdbctl finds it and has its verbs run there, on the database that is open. What a
// verb reads and writes, its files and its exit code are as if it ran by itself. Whoever may
// connect may do all that memdbctl can, in every scope: the socket's mode is 0600, and a client of
// another user than this one and root is sent away.
package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
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
)

// acceptWait is how long the server waits after a failure to accept a connection.
const acceptWait = 50 * time.Millisecond

const (
	// MaxVerbs is how many verbs run at once; others wait.
	MaxVerbs = 64
	// maxAsking is how many clients may be connected that have not yet said what they want. One
	// more has the oldest of them sent away, so that idle connections are in nobody's way.
	maxAsking = 64
)

// A Server runs verbs for memdbctl until it is closed.
type Server struct {
	db       *engine.DB
	dir      string // of the database
	path     string // of the socket
	temp     string // the folder made for it, empty for none
	listener net.Listener
	ctx      context.Context
	cancel   context.CancelFunc
	verbs    sync.WaitGroup
	slots    chan struct{}
	asking   struct {
		mu    sync.Mutex
		conns []*beside.Conn // in the order of their coming
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
	s.verbs.Go(s.accept)
	return s, nil
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

// accept answers those who connect.
func (s *Server) accept() {
	for {
		c, err := s.listener.Accept()
		if err != nil {
			if s.ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			select { // as when the process has no file descriptor left
			case <-s.ctx.Done():
			case <-time.After(acceptWait):
			}
			continue
		}
		s.verbs.Go(func() {
			defer context.AfterFunc(s.ctx, func() { _ = c.Close() })()
			s.serve(&beside.Conn{Conn: c})
		})
	}
}

// serve answers one client. What fails is a client that is gone, or none of ours: nobody is left
// to be told.
func (s *Server) serve(c *beside.Conn) {
	if c.Trust() != nil {
		_ = c.Close()
		return
	}
	s.begin(c)
	r, err := c.Ask()
	s.asked(c)
	if err != nil {
		_ = c.Close()
		return
	}
	_ = c.Serve(s.ctx, r, s.run)
}

// begin notes a client that has not yet asked, and sends the oldest of too many away.
func (s *Server) begin(c *beside.Conn) {
	s.asking.mu.Lock()
	defer s.asking.mu.Unlock()
	if len(s.asking.conns) == maxAsking {
		_ = s.asking.conns[0].Close() // which its Ask notices
		s.asking.conns = slices.Delete(s.asking.conns, 0, 1)
	}
	s.asking.conns = append(s.asking.conns, c)
}

// asked is the end of what begin began.
func (s *Server) asked(c *beside.Conn) {
	s.asking.mu.Lock()
	defer s.asking.mu.Unlock()
	s.asking.conns = slices.DeleteFunc(s.asking.conns, func(other *beside.Conn) bool { return other == c })
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

// Close ends the verbs that run, removes the socket, and waits for both. It may be called again.
func (s *Server) Close() (err error) {
	s.once.Do(func() {
		s.cancel()
		if err = s.listener.Close(); errors.Is(err, net.ErrClosed) {
			err = nil
		}
		s.verbs.Wait()
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
