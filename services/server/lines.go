package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/seed-7aedc3ff/memdb/api"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// The two forms of a list.
const (
	mediaJSON  = "application/json"
	mediaLines = "application/x-ndjson"
)

const (
	// maxArray and maxArrayItems bound a list that is one JSON object: the server holds the object until the list
	// has ended, so that an error has a status of its own. All of them together are bounded with the bodies.
	maxArray      = 8 << 20
	maxArrayItems = memory.MaxLimit
	// lineBuffer is how much of an answer is gathered before it is sent.
	lineBuffer = 32 << 10
)

// WantsArray reports whether the client asks for a list as one JSON object: it accepts application/json and prefers
// it to application/x-ndjson. Lists are JSON lines for
// everybody else.
func (c *Call) WantsArray() bool {
	return quality(c.R.Header, mediaJSON) > max(quality(c.R.Header, mediaLines), 0)
}

// quality is the weight that the Accept headers give to a media type by its full name, and -1 where they do not name it.
func quality(h http.Header, media string) float64 {
	best := -1.0
	for _, header := range h.Values("Accept") {
		for one := range strings.SplitSeq(header, ",") {
			kind, params, err := mime.ParseMediaType(one)
			if err != nil || kind != media {
				continue
			}
			q := 1.0
			if text, given := params["q"]; given {
				if q, err = strconv.ParseFloat(text, 64); err != nil || q != q {
					q = 0
				}
			}
			best = max(best, q)
		}
	}
	return best
}

// Lines begins an answer of JSON lines, whatever the client accepts. The route is one of Stream.
func (c *Call) Lines() *Lines {
	c.W.Header().Set("Content-Type", mediaLines)
	c.W.WriteHeader(http.StatusOK)
	return &Lines{c: c}
}

// List begins a list in the form that the client asks for: JSON lines, or one JSON object with the items as an array.
// The route is one of Stream.
func (c *Call) List() *Lines {
	if c.WantsArray() {
		l := &Lines{c: c, array: true}
		l.wait.WriteString(`{"items":[`)
		return l
	}
	return c.Lines()
}

// Lines are an answer of JSON lines, or of one JSON object.
type Lines struct {
	c     *Call
	wait  bytes.Buffer
	array bool
	items int
	held  int // bytes of an array that room was taken for
}

// Begun reports whether something was sent, so that an error cannot have a status any more.
func (l *Lines) Begun() bool { return !l.array }

// Write adds an item. It fails if the client has left, or if an array grows beyond its bounds.
func (l *Lines) Write(v any) error {
	if err := l.c.Context().Err(); err != nil {
		return err
	}
	if l.array && l.items > 0 {
		l.wait.WriteByte(',')
	}
	e := json.NewEncoder(&l.wait)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err
	}
	l.items++
	switch {
	case l.array && l.items > maxArrayItems:
		return tooLong(fmt.Sprintf("more than %d items", maxArrayItems))
	case l.array && l.wait.Len() > maxArray:
		return tooLong(fmt.Sprintf("more than %d bytes", maxArray))
	case l.array:
		return l.hold()
	case l.wait.Len() < lineBuffer:
		return nil
	}
	return l.send()
}

// hold counts an array as a part of the bytes that all requests hold, and waits for room, as a body does.
func (l *Lines) hold() error {
	for l.c.room != nil && l.held < l.wait.Len() {
		more := max(l.held, bodyStep)
		if err := l.c.room(int64(more)); err != nil {
			return err
		}
		l.held += more
	}
	return nil
}

func tooLong(than string) error {
	return Fail(http.StatusRequestEntityTooLarge, "too_large", "the list has %s, and is asked for as one JSON object; give a smaller limit, or accept %s", than, mediaLines)
}

// Raw adds lines that are JSON already, with their line ends.
func (l *Lines) Raw(b []byte) error {
	if err := l.c.Context().Err(); err != nil {
		return err
	}
	if l.wait.Write(b); l.wait.Len() < lineBuffer {
		return nil
	}
	return l.send()
}

// End ends a list.
func (l *Lines) End(end api.ListEnd) error {
	end.End = !l.array
	if !l.array {
		if err := l.Write(end); err != nil {
			return err
		}
		return l.Flush()
	}
	b, err := json.Marshal(end)
	if err != nil {
		return err
	}
	l.wait.WriteString(`],`)
	l.wait.Write(b[1:]) // behind its brace
	l.wait.WriteByte('\n')
	l.c.W.Header().Set("Content-Type", mediaJSON)
	l.c.W.WriteHeader(http.StatusOK)
	return l.send()
}

// Flush sends what was written so far, unless it is a part of one object.
func (l *Lines) Flush() error {
	if l.array {
		return nil
	}
	if err := l.send(); err != nil {
		return err
	}
	return http.NewResponseController(l.c.W).Flush()
}

func (l *Lines) send() error {
	_, err := l.c.W.Write(l.wait.Bytes())
	l.wait.Reset()
	return err
}
