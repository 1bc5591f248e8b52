package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"strings"

	"github.com/seed-7aedc3ff/memdb/api"
	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/exchange"
)

// once reports whether the route takes IDs of requests: it changes something that clients see, and its
// body is read as a whole.
func (r *Route) once(most int64) bool {
	method, _, _ := strings.Cut(r.Pattern, " ")
	return method != http.MethodGet && !r.Reads && !r.Public && !r.Node && !r.Ends && r.MaxBody <= most
}

// asksOnce is the ID that the request has for the route, empty for none. Routes that only read pass
// over it.
func (e *endpoint) asksOnce(r *http.Request) (id string, err error) {
	given := r.Header.Values(api.IdempotencyHeader)
	if len(given) == 0 || r.Method == http.MethodGet || r.Method == http.MethodHead || e.route.Reads {
		return "", nil
	}
	if len(given) > 1 {
		return "", Fail(http.StatusBadRequest, "invalid", "%s is given twice", api.IdempotencyHeader)
	}
	if !e.route.once(e.s.o.MaxBody) {
		return "", Fail(http.StatusBadRequest, "invalid", "this route takes no %s; leave it out", api.IdempotencyHeader)
	}
	id = strings.TrimSpace(given[0])
	if strings.HasPrefix(id, `"`) { // a string as of RFC 8941
		if json.Unmarshal([]byte(id), &id) != nil {
			return "", Fail(http.StatusBadRequest, "invalid", "%s is malformed; give 1 to 512 bytes", api.IdempotencyHeader)
		}
	}
	if id == "" {
		return "", Fail(http.StatusBadRequest, "invalid", "%s is empty; give 1 to 512 bytes, or leave it out", api.IdempotencyHeader)
	}
	return id, nil
}

// repeatable reports whether a request may be sent again when it may have been done.
func repeatable(r *http.Request) bool { return r.Header.Get(api.IdempotencyHeader) != "" }

// reply is an answer as it is kept.
type reply struct {
	Status int         `json:"status"`
	Header http.Header `json:"header"`
	Body   []byte      `json:"body"`
}

// run has the route handle the call: once, where the request has an ID.
func (e *endpoint) run(c *Call) error {
	id, err := e.asksOnce(c.R)
	if err != nil {
		return err
	}
	if id == "" {
		return e.route.Handle(c)
	}
	body, err := c.Body()
	if err != nil {
		return err
	}
	client := "http"
	if c.Key != nil {
		client += " " + c.Key.ID
	}
	sum := sha256.Sum256(body)
	a, err := engine.NewAttempt(engine.Request{ID: id, Client: client, Asks: []string{c.R.Method, c.R.URL.RequestURI(), string(sum[:])}})
	if err != nil {
		return err
	}
	out, request := c.W, c.R
	defer func() { c.W, c.R, c.attempt = out, request, nil }()
	made := &recorder{header: http.Header{}}
	said, err := a.Do(c.Context(), c.DB, func(ctx context.Context) ([]byte, error) {
		w := &answer{ResponseWriter: made, taken: true, limit: e.s.o.Timeout}
		c.W, c.R, c.attempt = w, request.WithContext(ctx), a
		c.R.Body = io.NopCloser(bytes.NewReader(body))
		if err := e.guarded(func() error { return e.route.Handle(c) }); err != nil {
			return nil, err
		}
		if w.status == 0 {
			w.status = http.StatusOK
		}
		b, err := json.Marshal(reply{w.status, made.header, made.body.Bytes()})
		if err == nil {
			err = made.failed()
		}
		if err == nil && w.status >= http.StatusBadRequest {
			err = refused(b)
		}
		return b, err
	})
	if b, ok := errors.AsType[refused](err); ok {
		said, err = b, nil
	}
	if err != nil {
		return err
	}
	var r reply
	if err := json.Unmarshal(said, &r); err != nil {
		return err
	}
	if a.Repeated() {
		r.Header.Set(api.RepeatedHeader, "true")
		if !c.Part() { // what joins the parts knows their forms
			r.Body = exchange.Repeated(r.Body)
		}
	}
	h := out.Header()
	maps.Copy(h, r.Header)
	out.WriteHeader(r.Status)
	_, err = out.Write(r.Body)
	return err
}

// refused is the answer of a handler that refused a request: nothing is committed.
type refused []byte

func (refused) Error() string { return "the request was refused" }
