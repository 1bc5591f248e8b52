package native

import (
	"encoding/json"
	"errors"

	"github.com/seed-7aedc3ff/memdb/api"
	"github.com/seed-7aedc3ff/memdb/services/server"
)

// A stream is a list that is written as it is read.
type stream struct {
	end   api.ListEnd
	last  any // stands in the place of end, of a list that is JSON lines for everybody
	a     *ask
	lines *server.Lines // nil until there is something to say
}

// list answers the lines that fill writes. What fails before the first line is an answer of its own.
func (a *ask) list(fill func(s *stream) error) error {
	s := &stream{a: a}
	err := fill(s)
	if err == nil {
		return s.finish()
	}
	if s.lines == nil || !s.lines.Begun() {
		return err
	}
	f := server.Fault(err)
	f.RequestID = a.W.Header().Get("X-Request-Id")
	line, failed := json.Marshal(f.Reply()) // the last line of a list that could not be written to its end
	if failed == nil {
		failed = s.lines.Flush()
	}
	if failed == nil {
		_, failed = a.W.Write(append(line, '\n'))
	}
	return errors.Join(err, failed)
}

// finish writes the last line.
func (s *stream) finish() error {
	if s.a.DB != nil { // nil where the parts of all shards are merged, which say it themselves
		s.end.Unreadable = max(s.end.Unreadable, s.a.DB.Damage().Unreadable)
	}
	if s.last != nil {
		if err := s.lines.Write(s.last); err != nil {
			return err
		}
		return s.lines.Flush()
	}
	if s.lines == nil {
		s.lines = s.a.List()
	}
	return s.lines.End(s.end)
}

// write adds a line, and fails when the client has left.
func (s *stream) write(v any) error {
	if s.lines == nil {
		s.lines = s.a.List()
	}
	s.end.Count++
	return s.lines.Write(v)
}

// lost counts what is damaged.
func (s *stream) lost(error) { s.end.Unreadable++ }

// writeAll adds a line for each of a list.
func writeAll[T any](s *stream, all []T) error {
	for i := range all {
		if err := s.write(&all[i]); err != nil {
			return err
		}
	}
	return nil
}

// upTo is the parameter of a list that has pages.
var upTo = param{name: "limit", kind: count, summary: "the size of the page, 1 to 10,000; the default is 100"}

// streamPage is how many are read at a time where all are listed.
const streamPage = 500

// pages writes a page, or all of them: read returns what stands behind a mark, and the mark behind it.
func (s *stream) pages(read func(after string, limit int) (next string, err error)) error {
	limit, err := s.a.limit(defaultPage)
	if err != nil {
		return err
	}
	all := value[bool](s.a, "all")
	switch {
	case all && s.a.given("limit"):
		return invalid("list", "all and limit exclude each other", "")
	case all:
		limit = streamPage
	}
	for at := value[string](s.a, "after"); ; {
		next, err := read(at, limit)
		if err != nil {
			return err
		}
		if next == "" || !all {
			s.end.Next = next
			return nil
		}
		at = next
	}
}

// begin sends the header before there is a line.
func (s *stream) begin() error {
	s.lines = s.a.List()
	return s.lines.Flush()
}
