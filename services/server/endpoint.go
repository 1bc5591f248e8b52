package server

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-7aedc3ff/memdb/apikeys"
	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/internal/panics"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// slotWait is how long a request waits for others to end.
const slotWait = time.Second

// endpoint is a route as http.ServeMux has it.
type endpoint struct {
	s     *Server
	d     *Dialect
	route Route
}

// ServeHTTP answers a request that serve has begun.
func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	out := w.(*answer) // serve made it
	out.taken, out.entry.dialect = true, e.d.Name
	if err := e.answer(out, r); err != nil {
		e.fail(out, r, err)
	}
}

// serve answers a request, logs and counts it.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	out := &answer{ResponseWriter: w, limit: s.o.Timeout, entry: entry{id: rand.Text(), begun: s.o.Clock()}}
	// Each request sets both deadlines of its connection, and leaves them: what is read and written
	// of it when the handler has returned is bounded, too. A recorder of tests has none.
	// They come after the limit of the request, so that the client is told of that.
	control, until := http.NewResponseController(w), time.Now().Add(s.o.Timeout+slotWait)
	_ = control.SetReadDeadline(until)
	_ = control.SetWriteDeadline(until)
	h := w.Header()
	h.Set("X-Request-Id", out.entry.id)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	s.mux.ServeHTTP(out, r)
	if !out.taken { // the mux has refused it
		out.taken = true
		e := &endpoint{s: s, d: s.dialectOf(r.URL.Path)}
		out.entry.dialect = e.d.Name
		e.fail(out, r, s.stray(r, h.Get("Allow")))
	}
	s.finish(r, out)
	if out.cut && r.Context().Value(http.ServerContextKey) != nil {
		panic(http.ErrAbortHandler) // the server closes the connection, and says nothing
	}
}

// stray is the error of a request that no route takes.
func (s *Server) stray(r *http.Request, allow string) error {
	if err := s.admit(r); err != nil {
		return err
	}
	if allow != "" {
		return Fail(http.StatusMethodNotAllowed, "method_not_allowed", "%s is not one of the methods of this path: %s", r.Method, allow)
	}
	return Fail(http.StatusNotFound, "not_found", "there is nothing at this path")
}

// answer checks who asks, and has the route answer within its bounds.
func (e *endpoint) answer(out *answer, r *http.Request) error {
	s := e.s
	of, err := s.opened(r)
	if errors.Is(err, errAnew) {
		out.Header().Set(innerHeader, s.seals.said(s.o.Shards.Secret(), r.Header.Get(innerHeader)))
	}
	if err != nil {
		return err
	}
	if of != nil { // its node has asked who it is, and bounds how many there are at once
		if of.Key != nil {
			out.entry.key = of.Key.ID
		}
		if of.Key != nil && e.allow(of.Key) != nil {
			return errForeign
		}
		return e.handle(out, r, of.Key, of)
	}
	if err := s.admit(r); err != nil {
		return err
	}
	key, err := e.authorize(r)
	if key != nil {
		out.entry.key = key.ID
	}
	if err != nil {
		return err
	}
	whom := out.entry.key
	if whom == "" {
		whom, _, _ = net.SplitHostPort(r.RemoteAddr)
	}
	if wait := s.rates.take(whom, s.o.Clock()); wait > 0 && !e.route.Public {
		return &Failure{Status: http.StatusTooManyRequests, Code: "rate_limited", Message: "too many requests of this key; wait, and try again", RetryAfter: wait}
	}
	room := s.running
	if e.route.Stream {
		room = s.streams
	}
	if err := room.enter(r, slotWait); err != nil {
		return err
	}
	defer room.leave()
	s.counts.running.Add(1)
	defer s.counts.running.Add(-1)
	return e.handle(out, r, key, nil)
}

// handle calls the route. of is what another node says of the request, nil for one of a client.
func (e *endpoint) handle(out *answer, r *http.Request, key *apikeys.Key, of *inner) (err error) {
	s := e.s
	ctx := r.Context()
	if key != nil && key.ReadOnly {
		ctx = engine.ReadOnly(ctx)
	}
	control := http.NewResponseController(out.ResponseWriter)
	if e.route.Stream {
		out.stream = true
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		if !e.route.Ends {
			defer context.AfterFunc(s.drained, cancel)()
		}
		if of == nil { // the node that the client has asked watches
			watched, end := s.watched(ctx, key, control)
			defer end()
			ctx = watched
		}
		// A deadline for reading that passes while the handler runs would end the request.
		_ = control.SetReadDeadline(time.Time{})
		defer func() { _ = control.SetReadDeadline(time.Now().Add(slotWait)) }()
	} else {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.o.Timeout)
		defer cancel()
	}
	most := e.route.MaxBody
	if most == 0 || s.o.Shards != nil { // which keeps a body, to send it on
		most = s.o.MaxBody
	}
	if r.ContentLength > most {
		return &http.MaxBytesError{Limit: most}
	}
	body := r.Body
	if e.route.Stream {
		body = &patient{ReadCloser: body, control: control, limit: s.o.Timeout}
	}
	r = r.WithContext(ctx)
	r.Body = http.MaxBytesReader(out, body, most)
	c := &Call{W: out, R: r, Key: key, DB: s.db, Facts: s.o.Facts, Now: s.o.Clock, inner: of}
	err = e.guarded(func() error {
		if s.o.Shards == nil {
			return e.run(c)
		}
		return e.sharded(c, of)
	})
	if cause, ok := errors.AsType[*Failure](context.Cause(ctx)); ok {
		return cause // the key has ended within the stream
	}
	if key != nil && key.ReadOnly && errors.Is(err, memory.ErrReadOnly) {
		return Denied("the key " + key.ID + " is read-only")
	}
	if err != nil && errors.Is(err, context.Canceled) && s.drained.Err() != nil && r.Context().Err() != nil {
		return &Failure{Status: http.StatusServiceUnavailable, Code: "closing", Message: "the server is ending", Err: err, RetryAfter: retryAfter}
	}
	return err
}

// guarded calls fn. A panic is an error.
func (e *endpoint) guarded(fn func() error) (err error) {
	if caught := panics.Catch("answers "+e.route.Pattern, func() { err = fn() }); caught != nil {
		return caught
	}
	return err
}

// admit refuses what a page of a browser sends without being meant to.
func (s *Server) admit(r *http.Request) error {
	host := hostOf(r.Host)
	if local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok && Loopback(local) && !loopbackName(host) && !slices.Contains(s.o.Hosts, host) {
		return Denied("the host of the request is not one of this server; name it in its configuration if it is")
	}
	origin := r.Header.Get("Origin")
	if origin == "" || slices.Contains(s.o.Origins, origin) {
		return nil
	}
	if u, err := url.Parse(origin); err == nil && u.Host != "" && strings.EqualFold(u.Host, r.Host) {
		return nil
	}
	return Denied("the origin of the request is not one of this server; name it in its configuration if it is")
}

// hostOf is the name in a Host header, without the port.
func hostOf(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(strings.Trim(host, "[]"))
}

func loopbackName(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// secret is the key that a request has.
func (e *endpoint) secret(r *http.Request) string {
	kind, key, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	switch {
	case strings.EqualFold(kind, "Bearer"), strings.EqualFold(kind, "Token"):
		return strings.TrimSpace(key)
	case r.Header.Get("X-Api-Key") != "":
		return r.Header.Get("X-Api-Key")
	case e.d.Key != nil:
		return e.d.Key(r)
	}
	return ""
}

// fail tells of an error, where nothing was written yet. What was begun is cut off, so that the
// client does not take a part for the whole.
func (e *endpoint) fail(out *answer, r *http.Request, err error) {
	f := Fault(err)
	f.RequestID = out.entry.id
	out.entry.failure = f
	discard(r)
	if out.status != 0 {
		out.cut = true
		return
	}
	if f.RetryAfter > 0 {
		out.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(f.RetryAfter.Seconds()))))
	}
	if f.Status == http.StatusUnauthorized {
		out.Header().Set("WWW-Authenticate", `Bearer realm="memdb"`)
	}
	if f.Status == http.StatusRequestEntityTooLarge {
		out.Header().Set("Connection", "close") // what is left of the body is not waited for
	}
	if e.d.Fail != nil {
		e.d.Fail(out, r, f)
	} else {
		failNative(out, f)
	}
}

// writeJSON writes a small value as JSON.
func writeJSON(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		b = []byte("{}")
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n')) // a client that has left is not told
}

// answer counts what is written, and bounds the time of each part of a stream. What the mux writes
// by itself, before an endpoint has taken the request, is dropped.
type answer struct {
	http.ResponseWriter
	limit  time.Duration
	taken  bool
	cut    bool // the answer has begun and failed
	stream bool
	status int
	bytes  int64
	entry  entry
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (a *answer) WriteHeader(status int) {
	if !a.taken {
		return
	}
	if a.status == 0 && (status >= http.StatusOK || status == http.StatusSwitchingProtocols) {
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(b []byte) (int, error) {
	if !a.taken {
		return len(b), nil
	}
	if a.status == 0 {
		a.status = http.StatusOK
	}
	if a.stream {
		_ = http.NewResponseController(a.ResponseWriter).SetWriteDeadline(time.Now().Add(a.limit))
	}
	n, err := a.ResponseWriter.Write(b)
	a.bytes += int64(n)
	return n, err
}

// Hijack gives the connection to a handler, as one that was upgraded.
func (a *answer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, buf, err := http.NewResponseController(a.ResponseWriter).Hijack()
	if err == nil {
		a.status = http.StatusSwitchingProtocols
	}
	return c, buf, err
}

// Flush is for handlers that ask for an http.Flusher.
func (a *answer) Flush() { _ = http.NewResponseController(a.ResponseWriter).Flush() }

// patient is a body of which each part may take as long as a request may.
type patient struct {
	io.ReadCloser
	control *http.ResponseController
	limit   time.Duration
}

func (p *patient) Read(b []byte) (int, error) {
	_ = p.control.SetReadDeadline(time.Now().Add(p.limit))
	n, err := p.ReadCloser.Read(b)
	_ = p.control.SetReadDeadline(time.Time{})
	return n, err
}
