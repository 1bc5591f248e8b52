package server

import (
	"bufio"
	"bytes"
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
	"sync/atomic"
	"time"

	"github.com/seed-7aedc3ff/memdb/api"
	"github.com/seed-7aedc3ff/memdb/apikeys"
	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/internal/panics"
	"github.com/seed-7aedc3ff/memdb/memory"
)

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
	if s.o.Shards != nil {
		r = ofShard(r)
	}
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
	s.share(w, r)
	if isPreflight(r) {
		e := &endpoint{s: s, d: s.dialectOf(r.URL.Path)}
		out.taken, out.entry.dialect = true, e.d.Name
		if err := s.preflight(out, r); err != nil {
			e.fail(out, r, err)
		}
	} else {
		s.mux.ServeHTTP(out, r)
	}
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
	if !e.route.Stream {
		ctx, cancel := context.WithTimeout(r.Context(), s.o.Timeout)
		defer cancel()
		r = r.WithContext(ctx)
	}
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
	if e.route.Probe {
		return e.handle(out, r, key, nil)
	}
	return e.shared(out, r, key)
}

// shared answers a request within the share of whom it comes from.
func (e *endpoint) shared(out *answer, r *http.Request, key *apikeys.Key) error {
	s := e.s
	whom := out.entry.key
	if whom == "" {
		whom, _, _ = net.SplitHostPort(r.RemoteAddr)
	}
	if wait := s.rates.take(whom, s.o.Clock()); wait > 0 && !e.route.Public {
		return &Failure{Status: http.StatusTooManyRequests, Code: "rate_limited", Message: "too many requests of this key; wait, and try again", RetryAfter: wait}
	}
	if most := e.maxBody(); most <= s.o.MaxBody && r.ContentLength != 0 {
		if r.ContentLength > most {
			return &http.MaxBytesError{Limit: most}
		}
		body, done, err := s.hold(r.Context(), whom, http.MaxBytesReader(out, r.Body, most), r.ContentLength)
		if err != nil {
			return bodyError(r.Context(), err)
		}
		defer done()
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	room := s.running
	if e.route.Stream {
		room = s.streams
	}
	if err := room.take(r.Context(), whom, 1); err != nil {
		return err
	}
	defer room.give(whom, 1)
	taken := int64(0)
	defer func() { s.bodies.give(whom, taken) }()
	out.room = func(bytes int64) error {
		err := s.bodies.take(r.Context(), whom, bytes)
		if err == nil {
			taken += bytes
		}
		return err
	}
	s.counts.running.Add(1)
	defer s.counts.running.Add(-1)
	return e.handle(out, r, key, nil)
}

// maxBody bounds the body of a request, in bytes. A cluster keeps a body, to send it on.
func (e *endpoint) maxBody() int64 {
	if e.route.MaxBody == 0 || e.s.o.Shards != nil {
		return e.s.o.MaxBody
	}
	return e.route.MaxBody
}

// handle calls the route. of is what another node says of the request, nil for one of a client.
func (e *endpoint) handle(out *answer, r *http.Request, key *apikeys.Key, of *inner) (err error) {
	if err := checkQuery(r.URL); err != nil {
		return err
	}
	if coding := r.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return Fail(http.StatusUnsupportedMediaType, "unsupported_media_type", "the body is encoded as %.40q; send it as it is", coding)
	}
	s := e.s
	ctx := r.Context()
	if key != nil && key.ReadOnly {
		ctx = engine.ReadOnly(ctx)
	}
	control := http.NewResponseController(out.ResponseWriter)
	if e.route.Stream {
		out.stream = true
		var cancel context.CancelCauseFunc
		ctx, cancel = context.WithCancelCause(ctx)
		defer cancel(nil)
		if !e.route.Ends {
			defer context.AfterFunc(s.drained, func() { cancel(nil) })()
		}
		if of == nil { // the node that the client has asked watches
			watched, end := s.watched(ctx, key, control)
			defer end()
			ctx = watched
		}
		out.silence = time.AfterFunc(s.o.Silence, func() { cancel(context.DeadlineExceeded) })
		out.mayBeSilent = s.o.Silence
		defer out.silence.Stop()
		// A deadline for reading that passes while the handler runs would end the request.
		_ = control.SetReadDeadline(time.Time{})
		defer func() { _ = control.SetReadDeadline(time.Now().Add(slotWait)) }()
	}
	most := e.maxBody()
	if r.ContentLength > most {
		return &http.MaxBytesError{Limit: most}
	}
	body := r.Body
	if e.route.Stream {
		body = &patient{ReadCloser: body, control: control, out: out}
	}
	ctx = filter.WithWork(ctx, s.o.MaxWork)
	r = r.WithContext(ctx)
	r.Body = &sentBody{http.MaxBytesReader(out, body, most), ctx}
	c := &Call{W: out, R: r, Key: key, DB: s.db, Facts: s.o.Facts, Now: s.o.Clock, inner: of, room: out.room}
	out.call = c
	defer out.endMarked()
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
	if errors.Is(err, context.Canceled) && errors.Is(context.Cause(r.Context()), context.DeadlineExceeded) {
		return context.DeadlineExceeded
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
	large := f.Status == http.StatusRequestEntityTooLarge && out.status == 0
	if !large {
		discard(r)
	}
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
	if large {
		out.Header().Set("Connection", "close")
		// Else the first byte of the answer would end the reading of the body.
		_ = http.NewResponseController(out).EnableFullDuplex() // HTTP/1 alone needs it
	}
	if e.d.Fail != nil {
		e.d.Fail(out, r, f)
	} else {
		failNative(out, f)
	}
	if large {
		linger(out, r)
	}
}

const (
	// lingerTime and lingerBytes bound what is read of a body behind an answer that refuses it.
	lingerTime  = 10 * time.Second
	lingerBytes = 1 << 30
)

// linger sends the answer and reads the rest of the body. A client that sends all of a body before it
// reads an answer would else see a broken connection in the place of the answer.
func linger(out *answer, r *http.Request) {
	if r.Header.Get("Expect") != "" { // it waits for the answer
		return
	}
	control := http.NewResponseController(out)
	if control.Flush() != nil || control.SetReadDeadline(time.Now().Add(lingerTime)) != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, r.Body, lingerBytes) // until the client has sent it, or is gone
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
	call *Call // what is answered, nil until it is known
	// damages are those of the shards whose parts the answer is made of.
	damages atomic.Int64
	marked  bool // the header reports all known damages
	limit   time.Duration
	room    func(bytes int64) error // that of the Call
	// silence ends a stream of which nothing is read or written for mayBeSilent; nil: nothing does.
	silence     *time.Timer
	mayBeSilent time.Duration

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
		a.begin(status)
	}
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(b []byte) (int, error) {
	if !a.taken {
		return len(b), nil
	}
	if a.status == 0 {
		a.begin(http.StatusOK)
	}
	if a.stream {
		_ = http.NewResponseController(a.ResponseWriter).SetWriteDeadline(time.Now().Add(a.limit))
		a.passed()
	}
	n, err := a.ResponseWriter.Write(b)
	a.bytes += int64(n)
	return n, err
}

// unreadable is how many damages are known of the databases that the answer is from.
func (a *answer) unreadable() int64 {
	n := a.damages.Load()
	if a.call != nil && a.call.DB != nil {
		n += int64(a.call.DB.Damage().Unreadable)
	}
	return n
}

// begin notes the status, and marks an answer that may be incomplete.
func (a *answer) begin(status int) {
	a.status = status
	a.mark("")
}

// endMarked marks an answer that has met damage since it began.
func (a *answer) endMarked() {
	if a.status != 0 {
		a.mark(http.TrailerPrefix)
	}
}

// mark sets the header, of the name that follows the prefix, unless there is one.
func (a *answer) mark(prefix string) {
	if n := a.unreadable(); n > 0 && !a.marked {
		a.marked = true
		a.Header().Set(prefix+api.UnreadableHeader, strconv.FormatInt(n, 10))
	}
}

// Hijack gives the connection to a handler, as one that was upgraded.
func (a *answer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, buf, err := http.NewResponseController(a.ResponseWriter).Hijack()
	if err == nil {
		a.status = http.StatusSwitchingProtocols
		a.idles() // the connection ends it
	}
	return c, buf, err
}

// passed notes that something of a stream was read or written.
func (a *answer) passed() {
	if a.silence != nil {
		a.silence.Reset(a.mayBeSilent)
	}
}

// idles has a stream last however long nothing of it is read or written.
func (a *answer) idles() {
	if a.silence != nil {
		a.silence.Stop()
		a.silence = nil
	}
}

// Flush is for handlers that ask for an http.Flusher.
func (a *answer) Flush() { _ = http.NewResponseController(a.ResponseWriter).Flush() }

// sentBody is a body whose errors are those of the client that sends it.
type sentBody struct {
	io.ReadCloser
	ctx context.Context
}

func (b *sentBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == nil || errors.Is(err, io.EOF) {
		return n, err
	}
	return n, bodyError(b.ctx, err)
}

// patient is a body of which each part may take as long as a request may.
type patient struct {
	io.ReadCloser
	control *http.ResponseController
	out     *answer
}

func (p *patient) Read(b []byte) (int, error) {
	_ = p.control.SetReadDeadline(time.Now().Add(p.out.limit))
	n, err := p.ReadCloser.Read(b)
	p.out.passed()
	_ = p.control.SetReadDeadline(time.Time{})
	return n, err
}
