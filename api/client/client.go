// Package client sends operations of package api to a memdbd, or to the program that holds a database.
//
// A [Client] is for one address. [Do], [List] and [Stream] send a request of an operation, and return what its Run
// would have returned. An error of the server is a [Refusal], whose *memory.Error has the kind and the text of the
// error there.
package client

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/seed-7aedc3ff/memdb/api"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// Options of a Client. The zero value is for a server without keys.
type Options struct {
	// Key is the key of the server. It is sent to the address of the client alone. Empty: none.
	Key string
	// TLS has the root certificates. nil: the root certificates of the system.
	TLS *tls.Config
	// Name is what errors call the server. Empty: the server at its address.
	Name string
	// Dial connects to the server, as to a Unix socket. nil: the network of the address.
	Dial func(ctx context.Context) (net.Conn, error)
}

// MaxReply bounds a reply and a line of a list, in bytes. A Stream has no bound.
const MaxReply = 64 << 20

// A Client sends requests to one server. Several goroutines may use it at once.
type Client struct {
	address string
	name    string
	key     string
	http    *http.Client
}

// New returns a client of the server at an address: http://HOST:PORT or https://HOST:PORT, with the path below which it
// is reached, if there is one. It connects with the first request. ErrInvalid for anything else.
func New(address string, o *Options) (*Client, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, &memory.Error{
			Kind: memory.ErrInvalid, What: "reach the server at " + address, Why: "this is not the address of a server",
			Do: "give http://HOST:PORT or https://HOST:PORT",
		}
	}
	if o == nil {
		o = &Options{}
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.TLSClientConfig = o.TLS
	if o.Dial != nil {
		t.Proxy = nil
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return o.Dial(ctx) }
	}
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse } // the key is for this server
	return &Client{
		address: strings.TrimSuffix(address, "/"), name: cmp.Or(o.Name, "the server at "+address), key: o.Key,
		http: &http.Client{Transport: t, CheckRedirect: stay},
	}, nil
}

// Close closes the connections that no request uses.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Details are what a request says beside the fields of its operation, and a reply beside its value. nil stands for none.
type Details struct {
	// RequestID is the ID of a request that changes something. The same request with the same ID changes nothing
	// within 24 hours, and gets the reply of the first time. Empty: none.
	RequestID string

	// Repeated reports whether the reply is one of the first time.
	Repeated bool
	// Unreadable is how many damages the server knows of the data that was read, so the reply may be incomplete. 0: none.
	Unreadable int
	// Stale bounds how old the data of the reply is, where the server cannot tell whether it is the newest. 0: it is.
	Stale time.Duration
}

// Do sends a request of an operation, and returns its reply.
func Do[Q, R any](ctx context.Context, c *Client, op *api.Op[Q, R], q *Q, d *Details) (R, error) {
	call := op.Call(q)
	var r R
	err := c.send(ctx, &call, "application/json", d, func(reply *http.Response) error {
		b, err := bounded(reply.Body)
		if err != nil {
			return err
		}
		return json.Unmarshal(b, &r)
	})
	return r, err
}

// List sends a request of a list, gives yield each item as it arrives, and returns how the list ended. An error of yield
// ends it.
func List[Q, L any](ctx context.Context, c *Client, op *api.List[Q, L], q *Q, d *Details, yield func(L) error) (api.End, error) {
	call := op.Call(q)
	var end api.ListEnd
	err := c.send(ctx, &call, "application/x-ndjson", d, func(reply *http.Response) (err error) {
		end, err = c.lines(reply.Body, func(line []byte) error {
			var l L
			if err := json.Unmarshal(line, &l); err != nil {
				return err
			}
			if err := yield(l); err != nil {
				return stopped{err}
			}
			return nil
		})
		if d != nil {
			d.Unreadable = max(d.Unreadable, end.Unreadable)
		}
		return err
	})
	if of, ok := errors.AsType[stopped](err); ok {
		err = of.error
	}
	return api.NewEnd(&end), err
}

// stopped is an error of the function that gets the items of a list.
type stopped struct{ error }

// Stream sends a request of an operation that writes its reply, and writes what arrives to w. It returns what the
// operation says of it. After an error, w may have got a part.
func Stream[Q, R any](ctx context.Context, c *Client, op *api.Stream[Q, R], q *Q, d *Details, w io.Writer) (R, error) {
	call := op.Call(q)
	var r R
	err := c.send(ctx, &call, strings.Join(op.Media, ", "), d, func(reply *http.Response) error {
		to := &sink{w: w}
		_, err := io.Copy(to, reply.Body)
		switch said := reply.Trailer.Get(api.ReplyTrailer); {
		case to.failed != nil:
			return stopped{to.failed}
		case err != nil || said == "":
			return err
		default:
			return json.Unmarshal([]byte(said), &r)
		}
	})
	if of, ok := errors.AsType[stopped](err); ok {
		err = of.error
	}
	return r, err
}

// sink keeps the error of its writer, to tell it from a read error.
type sink struct {
	w      io.Writer
	failed error
}

func (s *sink) Write(b []byte) (n int, err error) {
	n, s.failed = s.w.Write(b)
	return n, s.failed
}

// A messenger writes its request as HTTP has it.
type messenger interface {
	Message() (*api.Message, error)
	Describe() *api.Operation
}

// send sends a request, and has read take a reply that is no error.
func (c *Client) send(ctx context.Context, call messenger, accept string, d *Details, read func(*http.Response) error) (err error) {
	m, err := call.Message()
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, m.Method, c.address+api.BasePath+m.Target, bytes.NewReader(m.Body))
	if err != nil {
		return c.unread(err)
	}
	r.Header.Set("Accept", accept)
	if m.Body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.key != "" {
		r.Header.Set("Authorization", "Bearer "+c.key)
	}
	if d == nil {
		d = &Details{}
	}
	if d.RequestID != "" {
		r.Header.Set(api.IdempotencyHeader, d.RequestID)
	}
	reply, err := c.http.Do(r)
	if err != nil {
		return c.unreached(ctx, err)
	}
	defer func() { _ = reply.Body.Close() }() // it was read as far as it is wanted
	if reply.StatusCode >= http.StatusMultipleChoices {
		return c.refusal(reply)
	}
	d.Repeated = reply.Header.Get(api.RepeatedHeader) != ""
	if ms, err := strconv.ParseInt(reply.Header.Get(api.StaleHeader), 10, 64); err == nil {
		d.Stale = time.Duration(ms) * time.Millisecond
	}
	err = read(reply)
	for _, h := range []http.Header{reply.Header, reply.Trailer} {
		if n, err := strconv.Atoi(h.Get(api.UnreadableHeader)); err == nil {
			d.Unreadable = max(d.Unreadable, n)
		}
	}
	_, ofServer := errors.AsType[*Refusal](err)
	_, ofCaller := errors.AsType[stopped](err)
	switch {
	case err == nil, ofServer, ofCaller:
		return err
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return c.unread(err)
}

// unreached is the error of a request without an answer.
func (c *Client) unreached(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if of, ok := errors.AsType[*url.Error](err); ok { // it has the whole address of the request
		err = of.Err
	}
	for _, ended := range []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(err, ended) {
			return &memory.Error{Kind: memory.ErrFailed, What: "ask " + c.name, Why: "there is no answer", Cause: &NoAnswerError{}, Do: "look whether it was done, and try again"}
		}
	}
	return &memory.Error{Kind: memory.ErrFailed, What: "reach " + c.name, Why: "it is not reached", Cause: err, Do: "see that memdbd listens there"}
}

// A NoAnswerError is that the server has ended the connection without an answer. Whether it did what was asked is not
// known.
type NoAnswerError struct{}

// Error returns the text of the error.
func (*NoAnswerError) Error() string { return "it ended the connection without an answer" }

func (c *Client) unread(err error) error {
	return &memory.Error{Kind: memory.ErrFailed, What: "read the answer of " + c.name, Why: "it cannot be used", Cause: err, Do: "look whether it was done, and try again"}
}

// bounded reads a reply.
func bounded(r io.Reader) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, MaxReply+1))
	if err == nil && len(b) > MaxReply {
		err = fmt.Errorf("it has more than %d bytes", MaxReply)
	}
	return b, err
}

// A Refusal is the error that a server has answered with.
type Refusal struct {
	// Status is the status of HTTP, and Code a word for programs, empty where what answered is no server of memdb.
	Status int
	Code   string
	// RequestID is the ID by which the log of the server has the request.
	RequestID string
	// Err is what went wrong.
	Err *memory.Error
}

// Error returns what went wrong.
func (r *Refusal) Error() string { return r.Err.Error() }

// Unwrap returns the error of the database.
func (r *Refusal) Unwrap() error { return r.Err }

// errorReply is an error as a server answers it.
type errorReply struct {
	Error struct {
		Code      string `json:"code"`
		Message   string `json:"message"`
		RequestID string `json:"request_id"`
	} `json:"error"`
}

// refusal is the error of an answer.
func (c *Client) refusal(reply *http.Response) error {
	b, err := bounded(reply.Body)
	var told errorReply
	if err != nil || json.Unmarshal(b, &told) != nil || told.Error.Code == "" {
		why := "what answers is no server of memdb: " + reply.Status
		if to := reply.Header.Get("Location"); to != "" {
			why = "it sends its clients to " + to
		}
		return &Refusal{Status: reply.StatusCode, Err: &memory.Error{Kind: memory.ErrFailed, What: "ask " + c.name, Why: why}}
	}
	return c.refused(reply.StatusCode, &told)
}

// refused makes an error of what a server says. The text of an error of the database stays as it is.
func (c *Client) refused(status int, told *errorReply) *Refusal {
	e := &memory.Error{What: "ask " + c.name, Why: told.Error.Message}
	for _, f := range api.Faults {
		if f.Code != told.Error.Code {
			continue
		}
		what, why, ok := strings.Cut(told.Error.Message, ": ")
		if e.Kind = f.Kind; !ok && status == http.StatusNotFound {
			e.Kind, e.Do = nil, "see that memdbd listens there" // it is no error of a database
		}
		if ok {
			e.What, e.Why = what, why
			if i := strings.LastIndex(why, "; "); i >= 0 {
				e.Why, e.Do = why[:i], why[i+2:]
			}
		}
		break
	}
	if e.Kind == nil {
		e.Kind = memory.ErrFailed
		if status == http.StatusBadRequest {
			e.Kind = memory.ErrInvalid
		}
	}
	return &Refusal{Status: status, Code: told.Error.Code, RequestID: told.Error.RequestID, Err: e}
}

// The beginnings of the last line of a list.
const (
	endOfList   = `{"end":true,`
	errorOfList = `{"error":{`
)

// lines reads the lines of a list up to the last one. A list without it was cut off.
func (c *Client) lines(r io.Reader, yield func(line []byte) error) (end api.ListEnd, err error) {
	in := bufio.NewScanner(r)
	in.Buffer(nil, MaxReply)
	for in.Scan() {
		line := in.Bytes()
		switch {
		case bytes.HasPrefix(line, []byte(endOfList)):
			if err := json.Unmarshal(line, &end); err != nil || in.Scan() { // which reads the trailers
				return end, cmp.Or(err, errCut)
			}
			return end, in.Err()
		case bytes.HasPrefix(line, []byte(errorOfList)):
			var told errorReply
			if err := json.Unmarshal(line, &told); err != nil {
				return end, err
			}
			return end, c.refused(statusOf(told.Error.Code), &told)
		}
		if err := yield(line); err != nil {
			return end, err
		}
	}
	return end, cmp.Or(in.Err(), errCut)
}

// errCut is that a list does not end with its last line.
var errCut = errors.New("the list was cut off")

// statusOf is the status of an error within a list, which has none of its own.
func statusOf(code string) int {
	for _, f := range api.Faults {
		if f.Code == code {
			return f.Status
		}
	}
	return http.StatusInternalServerError
}
