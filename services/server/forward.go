package server

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-7aedc3ff/memdb/api"
	"github.com/seed-7aedc3ff/memdb/apikeys"
	"github.com/seed-7aedc3ff/memdb/internal/panics"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// innerHeader has what a node says to another one of a request that it passes on.
const innerHeader = "Memdb-Inner"

// inner is a request as a node passes it on: whose it is was found out there.
type inner struct {
	Method string `json:"method"`
	URI    string `json:"uri"`
	// Body is the SHA-256 of the body, in hexadecimal.
	Body  string `json:"body"`
	Shard int    `json:"shard"`
	// Part: what the shard has of the call is asked for.
	Part bool `json:"part,omitempty"`
	// Key is whose request it is, null where the server has no keys.
	Key *apikeys.Key `json:"key"`
	// To is the run of the node that it is for, From that of the one that has sealed it, Number is given once by
	// that: see seals.
	To     string `json:"to"`
	From   string `json:"from"`
	Number uint64 `json:"number"`
}

// sealed is the header of a request that is passed on: what it says, and a MAC of that.
func (i *inner) sealed(secret []byte) (string, error) {
	b, err := json.Marshal(i)
	if err != nil {
		return "", err
	}
	text := base64.RawURLEncoding
	return text.EncodeToString(b) + "." + text.EncodeToString(macOf(secret, b)), nil
}

func macOf(secret, b []byte) []byte {
	h := hmac.New(sha256.New, secret)
	_, _ = h.Write(b) // it never fails
	return h.Sum(nil)
}

// errForeign is that a request claims to come from a node and does not.
var errForeign = Fail(http.StatusUnauthorized, "unauthorized", "the request does not come from a node of this cluster")

// errAnew is that a node has sealed a request for an earlier run of this one. It was not done.
var errAnew = Fail(http.StatusConflict, "sealed_for_another_run", "this node has begun anew since the request was sealed for it")

// opened is what a node says of a request; nil where none does.
func (s *Server) opened(r *http.Request) (*inner, error) {
	header := r.Header.Get(innerHeader)
	if header == "" {
		return nil, nil
	}
	if s.o.Shards == nil {
		return nil, errForeign
	}
	said, mac, _ := strings.Cut(header, ".")
	b, err := base64.RawURLEncoding.DecodeString(said)
	if err != nil {
		return nil, errForeign
	}
	seal, err := base64.RawURLEncoding.DecodeString(mac)
	if err != nil || !hmac.Equal(seal, macOf(s.o.Shards.Secret(), b)) {
		return nil, errForeign
	}
	var i inner
	if err := json.Unmarshal(b, &i); err != nil || i.Method != r.Method || i.URI != r.URL.RequestURI() || i.Shard < 0 || i.Shard >= s.o.Shards.Count() {
		return nil, errForeign
	}
	switch s.seals.take(&i) {
	case again:
		return nil, errForeign
	case unknown:
		return nil, errAnew
	}
	return &i, nil
}

// held is the body of a call, read whole: it may be sent on, and again.
func held(c *Call, of *inner) ([]byte, error) {
	body, err := io.ReadAll(c.R.Body)
	if err != nil {
		return nil, bodyError(c.Context(), err)
	}
	if of != nil && of.Body != hashOf(body) {
		return nil, errForeign
	}
	return body, nil
}

func hashOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// sharded has the route answer from the shard that the call is about, wherever it is.
func (e *endpoint) sharded(c *Call, of *inner) error {
	s := e.s
	if e.route.Public || e.route.Node {
		return e.route.Handle(c)
	}
	body, err := held(c, of)
	if err != nil {
		return err
	}
	c.reach = &reach{shards: s.o.Shards, bound: -1, reads: e.route.Reads || c.R.Method == http.MethodGet}
	defer c.release()
	if of != nil {
		c.reach.fixed, c.reach.part = true, of.Part
		return e.within(c, of.Shard, body)
	}
	named, err := shardOf(c.R, s.o.Shards.Count())
	switch {
	case err != nil:
		return err
	case named >= 0 && !c.Admin():
		return Denied("a shard is named by administrators")
	case named < 0 && e.route.Whole:
		return unmerged(e.route.Pattern)
	}
	return s.moving(c.Context(), func() error {
		c.release()
		c.reach.away = nil
		return e.once(c, named, body)
	})
}

// movePause is the pause before a shard that no node serves is looked for again.
const movePause = 50 * time.Millisecond

// errMoving is that no node serves a shard now, and nothing was done.
type errMoving struct{ error }

func (e errMoving) Unwrap() error { return e.error }

// moving calls fn, and again for some time where a shard moves.
func (s *Server) moving(ctx context.Context, fn func() error) error {
	end := time.NewTimer(s.o.MoveWait)
	defer end.Stop()
	for {
		err := fn()
		if _, again := errors.AsType[errMoving](err); !again {
			return err
		}
		pause := time.NewTimer(movePause)
		select {
		case <-pause.C:
			continue
		case <-end.C:
		case <-ctx.Done():
		}
		pause.Stop()
		return err
	}
}

// once has the shard of a call answer, here or by the node that serves it.
func (e *endpoint) once(c *Call, named int, body []byte) error {
	err := e.local(c, named, body)
	away := c.reach.away
	if c.W.(*answer).status != 0 {
		return err
	}
	switch {
	case away != nil && away.all && e.route.Merge == nil:
		return unmerged(e.route.Pattern)
	case away != nil && away.all:
		c.R.Body = io.NopCloser(bytes.NewReader(body))
		return e.route.Merge(c, &Parts{e: e, c: c, body: body})
	case away != nil:
		return e.forward(c, away.shard, named >= 0, body)
	case errors.Is(err, memory.ErrNotOwner) && c.reach.bound >= 0 && (c.reach.reads || repeatable(c.R)):
		// It went to another node meanwhile. A write without an ID may have been kept, so its client has to look.
		return e.forward(c, c.reach.bound, named >= 0, body)
	}
	return err
}

// local calls the handler here, for a shard that was named or the one that it is about.
func (e *endpoint) local(c *Call, named int, body []byte) error {
	if named < 0 {
		c.R.Body = io.NopCloser(bytes.NewReader(body))
		return e.run(c)
	}
	c.reach.part = true
	return e.within(c, named, body)
}

// within calls the handler for a shard of this node.
func (e *endpoint) within(c *Call, shard int, body []byte) error {
	if err := c.bind(shard); err != nil {
		if c.reach.fixed && errors.Is(err, memory.ErrNotOwner) {
			c.W.Header().Set(innerHeader, notOwner) // nothing was done
		}
		return err
	}
	c.R.Body = io.NopCloser(bytes.NewReader(body))
	return e.run(c)
}

// What a node answers that does not serve the shard, and how often others are asked.
const (
	notOwner = "not_owner"
	// moves is how often the node of a shard is looked up while it moves.
	moves = 2
)

// asking is an http.RoundTripper that asks in its own way.
type asking func() (*http.Response, error)

// RoundTrip asks.
func (a asking) RoundTrip(*http.Request) (*http.Response, error) { return a() }

// forward has the node of a shard answer the call.
func (e *endpoint) forward(c *Call, shard int, part bool, body []byte) (err error) {
	proxy := httputil.ReverseProxy{
		Rewrite:   func(*httputil.ProxyRequest) {}, // send makes the request
		Transport: asking(func() (*http.Response, error) { return e.s.send(c, shard, part, body) }),
		ModifyResponse: func(reply *http.Response) error {
			reply.Header.Del("X-Request-Id")
			for name := range reply.Header {
				if hop[name] {
					reply.Header.Del(name)
				} else { // which the proxy adds to those of this node
					c.W.Header().Del(name)
				}
			}
			return nil
		},
		ErrorHandler: func(_ http.ResponseWriter, _ *http.Request, failed error) { err = failed },
		ErrorLog:     slog.NewLogLogger(e.s.o.Logger.Handler(), slog.LevelWarn),
	}
	if caught := panics.Catch("passes an answer on", func() { proxy.ServeHTTP(c.W, c.R) }); errors.Is(caught, http.ErrAbortHandler) {
		return io.ErrUnexpectedEOF // the answer broke in the middle
	} else if caught != nil {
		return caught
	}
	return err
}

// hop are the headers that belong to one connection, and those that name somebody.
var hop = map[string]bool{
	"Connection": true, "Keep-Alive": true, "Proxy-Authenticate": true, "Proxy-Authorization": true, "Te": true, "Trailer": true,
	"Transfer-Encoding": true, "Upgrade": true, "Content-Length": true, "Authorization": true, "X-Api-Key": true, "Cookie": true,
	"Origin": true, innerHeader: true, ShardHeader: true,
}

// send asks the node of a shard, and once more where it has moved. The body of the reply is the
// caller's to close.
func (s *Server) send(c *Call, shard int, part bool, body []byte) (*http.Response, error) {
	var failed error
	for try := range moves {
		address, err := s.o.Shards.Where(c.Context(), shard, try > 0)
		switch {
		case errors.Is(err, memory.ErrInvalid): // it stays so
			return nil, err
		case err != nil:
			return nil, errMoving{errors.Join(err, failed)}
		}
		reply, err := s.sendTo(c, address, shard, part, body)
		if err == nil && reply.StatusCode == http.StatusServiceUnavailable && reply.Header.Get(innerHeader) == notOwner {
			_ = reply.Body.Close()
			failed = &memory.Error{Kind: memory.ErrNotOwner, What: "ask " + address, Why: "it does not serve the shard any more"}
			continue
		}
		if err == nil {
			return reply, nil
		}
		if c.Context().Err() != nil {
			return nil, c.Context().Err()
		}
		if dial, ok := errors.AsType[*net.OpError](err); (!ok || dial.Op != "dial") && !repeatable(c.R) {
			return nil, &memory.Error{
				Kind: memory.ErrUnavailable, What: "ask the node of the shard", Why: "the connection broke before its answer", Cause: err,
				Do: "see whether what was asked was done, and ask again",
			}
		}
		failed = err // nothing was sent, or it may be sent again
	}
	return nil, errMoving{&memory.Error{
		Kind: memory.ErrUnavailable, What: "ask the node of the shard", Why: "it does not answer, or the shard is moving", Cause: failed,
		Do: "try again in some seconds; memdbctl cluster status shows who serves it",
	}}
}

// Pass is the header with which the node at an address is asked, without a body and as whom the call is from, to
// answer a call at a path for a shard. It is good for one request. anew: an earlier one was refused.
func (s *Server) Pass(c *Call, address, method, path string, shard int, anew bool) (http.Header, error) {
	of := inner{Method: method, URI: path, Body: hashOf(nil), Shard: shard, Key: c.Key}
	s.seals.address(&of, address)
	if of.To == "" || anew { // the node is asked for its run by what is for none
		ping := inner{Method: http.MethodGet, URI: "/healthz", Body: hashOf(nil), Key: c.Key}
		reply, err := s.ask(c.Context(), address, ping, http.Header{}, nil)
		if err != nil {
			return nil, err
		}
		_ = reply.Body.Close() // it has said its run, if it had to
		s.seals.address(&of, address)
	}
	sealed, err := of.sealed(s.o.Shards.Secret())
	return http.Header{innerHeader: {sealed}}, err
}

// AskNode asks another node for what it answers at a path, as whom this call is from. It is for routes
// of nodes.
func (s *Server) AskNode(c *Call, address, path string) ([]byte, error) {
	sub := *c
	sub.R = c.R.Clone(c.Context())
	sub.R.Method, sub.R.URL = http.MethodGet, &url.URL{Path: path}
	reply, err := s.sendTo(&sub, address, 0, false, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = reply.Body.Close() }()
	b, err := io.ReadAll(io.LimitReader(reply.Body, maxPart))
	if err == nil && reply.StatusCode != http.StatusOK {
		err = failureOf(reply, b)
	}
	return b, err
}

// sendTo asks a node.
func (s *Server) sendTo(c *Call, address string, shard int, part bool, body []byte) (*http.Response, error) {
	of := inner{Method: c.R.Method, URI: c.R.URL.RequestURI(), Body: hashOf(body), Shard: shard, Part: part, Key: c.Key}
	header := c.R.Header.Clone()
	for name := range hop {
		header.Del(name)
	}
	return s.ask(c.Context(), address, of, header, body)
}

// Parts asks all shards for their parts of a call.
type Parts struct {
	e    *endpoint
	c    *Call
	body []byte
	// query takes the place of the call's, where it is set.
	query string
}

// A Part is what a shard is asked, and then what it answers: a status below 300.
type Part struct {
	Shard int
	Body  []byte
}

const (
	// maxAsked is how many shards are asked at once.
	maxAsked = 16
	// maxPart bounds the answer of a shard, in bytes.
	maxPart = 64 << 20
)

// Query has the shards asked with a query in the place of the call's.
func (p *Parts) Query(q url.Values) { p.query = q.Encode() }

// Body is that of the call.
func (p *Parts) Body() []byte { return p.body }

// Ask has each shard answer the call with a body in the place of its own, nil for its own. The
// parts stand in the order of the shards. One that fails fails all.
func (p *Parts) Ask(body []byte) ([]Part, error) {
	if body == nil {
		body = p.body
	}
	parts := make([]Part, p.c.reach.shards.Count())
	for shard := range parts {
		parts[shard] = Part{shard, body}
	}
	return parts, p.AskSome(parts)
}

// AskSome has the shards of some parts answer the call with their bodies, in the place of which their answers come. One
// that fails fails all.
func (p *Parts) AskSome(parts []Part) error {
	ctx, cancel := context.WithCancel(p.c.Context())
	defer cancel()
	errs := make(chan error, len(parts))
	room := make(chan struct{}, maxAsked)
	for i := range parts {
		go func() {
			room <- struct{}{}
			defer func() { <-room }()
			var err error
			parts[i].Body, err = p.ask(ctx, parts[i].Shard, parts[i].Body)
			errs <- err
		}()
	}
	var failed error
	for range parts {
		if err := <-errs; err != nil && failed == nil {
			failed = err
			cancel()
		}
	}
	return failed
}

// ask has a shard answer, wherever it goes.
func (p *Parts) ask(ctx context.Context, shard int, body []byte) (b []byte, err error) {
	err = p.e.s.moving(ctx, func() error {
		b, err = p.once(ctx, shard, body)
		return err
	})
	return b, err
}

// damaged notes what the headers of a part say of its database.
func (p *Parts) damaged(h http.Header) {
	n, _ := strconv.ParseInt(cmp.Or(h.Get(api.UnreadableHeader), h.Get(http.TrailerPrefix+api.UnreadableHeader), "0"), 10, 64) // a node wrote it
	p.c.W.(*answer).damages.Add(n)
}

// once has a shard answer, here or by the node that serves it.
func (p *Parts) once(ctx context.Context, shard int, body []byte) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	sub := *p.c
	sub.R = p.c.R.Clone(ctx)
	sub.R.Header.Set("Accept", mediaLines) // which are merged
	if p.query != "" {
		at := *sub.R.URL
		at.RawQuery = p.query
		sub.R.URL = &at
	}
	here := &recorder{header: http.Header{}}
	of := &answer{ResponseWriter: here, call: &sub, taken: true, limit: p.e.s.o.Timeout}
	sub.W = of
	sub.reach = &reach{shards: p.c.reach.shards, bound: -1, reads: p.c.reach.reads, fixed: true, part: true}
	defer sub.release()
	err := p.e.guarded(func() error { return p.e.within(&sub, shard, body) })
	switch {
	case err == nil:
		of.endMarked()
		p.damaged(here.header)
		return here.body.Bytes(), here.failed()
	case !errors.Is(err, memory.ErrNotOwner):
		return nil, err
	}
	reply, err := p.e.s.send(&sub, shard, true, body)
	if err != nil {
		return nil, err
	}
	defer func() { _ = reply.Body.Close() }()
	b, err := io.ReadAll(io.LimitReader(reply.Body, maxPart+1))
	switch {
	case err != nil:
		return nil, err
	case len(b) > maxPart:
		return nil, tooMuch()
	case reply.StatusCode >= http.StatusMultipleChoices:
		return nil, failureOf(reply, b)
	}
	p.damaged(reply.Header)
	p.damaged(reply.Trailer)
	return b, nil
}

func tooMuch() error {
	return Fail(http.StatusRequestEntityTooLarge, "too_large", "the part of a shard has more than %d bytes; ask for less at once", maxPart)
}

// failureOf is what another node says of why it failed.
func failureOf(reply *http.Response, b []byte) error {
	var told struct {
		Error struct{ Code, Message string } `json:"error"`
	}
	f := &Failure{Status: reply.StatusCode, Code: "failed", Message: "a node failed; its log says why"}
	if json.Unmarshal(b, &told) == nil && told.Error.Message != "" {
		f.Code, f.Message = told.Error.Code, told.Error.Message
	}
	if f.Status == http.StatusServiceUnavailable {
		f.RetryAfter = retryAfter
	}
	return f
}

// recorder is the answer of a part that is made here.
type recorder struct {
	header http.Header
	body   bytes.Buffer
	over   bool
}

func (r *recorder) Header() http.Header              { return r.header }
func (r *recorder) WriteHeader(int)                  {}
func (r *recorder) FlushError() error                { return nil }
func (r *recorder) SetWriteDeadline(time.Time) error { return nil }

func (r *recorder) Write(b []byte) (int, error) {
	if r.over = r.over || r.body.Len()+len(b) > maxPart; r.over {
		return 0, tooMuch()
	}
	return r.body.Write(b)
}

func (r *recorder) failed() error {
	if r.over {
		return tooMuch()
	}
	return nil
}

// Sum answers {"count":N} and the like: the numbers of the parts added up.
func Sum(c *Call, p *Parts) error {
	parts, err := p.Ask(nil)
	if err != nil {
		return err
	}
	sums := map[string]int64{}
	for _, part := range parts {
		var of map[string]int64
		if err := json.Unmarshal(part.Body, &of); err != nil {
			return err
		}
		for name, n := range of {
			sums[name] += n
		}
	}
	return c.Reply(http.StatusOK, sums)
}

// LinesOf are the lines of a part that is a list, and its last line.
func (p Part) LinesOf() (lines [][]byte, last []byte) {
	all := slices.DeleteFunc(bytes.Split(p.Body, []byte("\n")), func(l []byte) bool { return len(l) == 0 })
	if len(all) == 0 {
		return nil, nil
	}
	return all[:len(all)-1], all[len(all)-1]
}
