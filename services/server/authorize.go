package server

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/seed-7aedc3ff/memdb/apikeys"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// authorize finds the key of a request, and whether the route is for it. A server that cannot read its keys lets
// nobody in.
func (e *endpoint) authorize(r *http.Request) (*apikeys.Key, error) {
	if e.route.Public {
		return nil, nil
	}
	key, needed, err := e.s.o.Keys.Find(e.secret(r))
	switch {
	case err != nil:
		return nil, unauthorized(err)
	case !needed && e.s.exposed.Load(): // the keys were removed while it serves others than this machine
		return nil, unauthorized(apikeys.ErrNoKey)
	case !needed:
		return nil, nil
	}
	return key, e.allow(key)
}

// allow refuses a key that the route is not for.
func (e *endpoint) allow(key *apikeys.Key) error {
	switch {
	case key.Metrics && !e.route.Metrics:
		return Denied("the key " + key.ID + " is for the metrics of the server, and for nothing else")
	case e.route.Admin && !key.Admin && !key.Metrics:
		return Denied("this needs a key of an administrator")
	case e.route.Admin && key.ReadOnly && !e.route.reads():
		return Denied("the key " + key.ID + " is read-only")
	}
	return nil
}

// reads reports whether requests of the route change nothing.
func (r *Route) reads() bool {
	method, _, _ := strings.Cut(r.Pattern, " ")
	return r.Reads || method == http.MethodGet
}

// unauthorized is the answer to a request that no key lets in. Err, which the log has, says why.
func unauthorized(err error) error {
	if errors.Is(err, memory.ErrUnavailable) {
		return err
	}
	return &Failure{Status: http.StatusUnauthorized, Code: "unauthorized", Message: "the request needs a key that is known, as Authorization: Bearer KEY", Err: err}
}

// watchEvery is how often the key of a stream is looked at: a revoked key receives nothing after a second.
const watchEvery = 250 * time.Millisecond

// watched returns a context that ends when the key of a stream does. Its cause is then a *Failure; reads and writes of
// the connection end with it. end ends the watch.
func (s *Server) watched(ctx context.Context, key *apikeys.Key, control *http.ResponseController) (watched context.Context, end func()) {
	watched, cancel := context.WithCancelCause(ctx)
	if s.o.Keys == nil {
		return watched, func() { cancel(nil) }
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(watchEvery)
		defer tick.Stop()
		for {
			select {
			case <-watched.Done():
				return
			case <-tick.C:
			}
			if err := s.o.Keys.Holds(key); err != nil {
				cancel(&Failure{Status: http.StatusUnauthorized, Code: "unauthorized", Message: "the key of the stream was revoked or has expired", Err: err})
				_ = control.SetReadDeadline(time.Now())
				_ = control.SetWriteDeadline(time.Now())
				return
			}
		}
	}()
	return watched, func() {
		cancel(nil)
		<-done
	}
}
