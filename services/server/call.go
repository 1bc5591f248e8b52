package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/seed-7aedc3ff/memdb/apikeys"
	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/services/facts"
)

// A Call is one request, and what a handler needs for it.
type Call struct {
	W http.ResponseWriter
	R *http.Request
	// Key is whose request it is; nil where the server has no keys, and all is allowed.
	Key *apikeys.Key
	DB  *engine.DB
	// Facts is the memory of facts, nil where none is configured.
	Facts *facts.Facts
	// Now tells the time.
	Now func() time.Time
	// reach is which shard it is about, nil where there is no cluster.
	reach *reach
	// inner is what another node says of it, nil for a call of a client.
	inner *inner
	// room takes bytes of the share of whom the call comes from, for what is held until the call ends; nil: nothing is
	// counted.
	room func(bytes int64) error
	// attempt is the one at a request with an ID, nil for a call without one.
	attempt *engine.Attempt
}

// Context ends with the client, the time limit of the route, and the server.
func (c *Call) Context() context.Context { return c.R.Context() }

// Idles has a stream last however long nothing of it is read or written, as one that waits for what comes.
func (c *Call) Idles() {
	if out, ok := c.W.(*answer); ok {
		out.idles()
	}
}

// Body reads the body as bytes: bounded, and valid UTF-8.
func (c *Call) Body() ([]byte, error) {
	b, err := io.ReadAll(c.R.Body)
	switch {
	case err != nil:
		return nil, err
	case !utf8.Valid(b):
		return nil, Fail(http.StatusBadRequest, "invalid", "the body is no UTF-8")
	}
	return b, nil
}

// bodyError is the error of a body that could not be read.
func bodyError(ctx context.Context, err error) error {
	var large *http.MaxBytesError
	var full *Failure
	switch {
	case errors.As(err, &large), errors.As(err, &full):
		return err
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return context.DeadlineExceeded
	}
	return &Failure{Status: http.StatusBadRequest, Code: "invalid", Message: "the body could not be read whole: " + fault.Outward(err), Err: err}
}

// JSON reads the body as one JSON value: it says that it is JSON in UTF-8, or says nothing of what
// it is, and is as CheckJSON has it.
func (c *Call) JSON() ([]byte, error) {
	if of := c.R.Header.Get("Content-Type"); of != "" {
		kind, params, err := mime.ParseMediaType(of)
		if err != nil || kind != "application/json" && !strings.HasSuffix(kind, "+json") {
			return nil, Fail(http.StatusUnsupportedMediaType, "unsupported_media_type", "the body is %q; send application/json", of)
		}
		if set := params["charset"]; set != "" && !strings.EqualFold(set, "utf-8") {
			return nil, Fail(http.StatusUnsupportedMediaType, "unsupported_media_type", "the charset is %q; send utf-8", set)
		}
	}
	b, err := c.Body()
	if err != nil {
		return nil, err
	}
	if len(bytes.TrimSpace(b)) == 0 {
		return nil, Fail(http.StatusBadRequest, "invalid", "the body is empty; send a JSON object")
	}
	return b, CheckJSON(b)
}

// Values reads the body as JSON values, one after the other, within the bounds of JSON.
func (c *Call) Values() ([]byte, error) {
	b, err := c.Body()
	if err != nil {
		return nil, err
	}
	return b, CheckJSON(b)
}

// Decode reads the body into a struct. A key that the struct does not have is refused, and so is
// one that is given twice.
func (c *Call) Decode(v any) error { return c.decode(v, exchange.DecodeStrict) }

// DecodeLoose is Decode, but leaves out keys that the struct does not have, and reads other values
// than objects, too.
func (c *Call) DecodeLoose(v any) error { return c.decode(v, exchange.Decode) }

func (c *Call) decode(v any, with func([]byte, any) error) error {
	b, err := c.JSON()
	if err != nil {
		return err
	}
	if err := with(b, v); err != nil {
		if own, ok := errors.AsType[*memory.Error](err); ok {
			return own
		}
		return &Failure{Status: http.StatusBadRequest, Code: "invalid", Message: "the body: " + err.Error(), Err: err}
	}
	return nil
}

// Reply writes a value as JSON. No value: the status alone.
func (c *Call) Reply(status int, v any) error {
	if v == nil {
		c.W.WriteHeader(status)
		return nil
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err
	}
	c.W.Header().Set("Content-Type", "application/json")
	c.W.WriteHeader(status)
	_, err := c.W.Write(b.Bytes())
	return err
}
