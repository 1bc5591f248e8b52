package neo4j

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/retry"
	"github.com/seed-7aedc3ff/memdb/services/graphs"
	"github.com/seed-7aedc3ff/memdb/services/httpjson"
)

// call is a statement with its parameters.
type call struct {
	statement
	parameters map[string]any
}

// wireCall is a call as it is sent.
type wireCall struct {
	Statement  string         `json:"statement"`
	Parameters map[string]any `json:"parameters,omitempty"`
	Bookmarks  []string       `json:"bookmarks,omitempty"`
}

// serverError is one of the list of errors of a reply.
type serverError struct{ Code, Message string }

// transactions is the reply of the transactional endpoint.
type transactions struct {
	Results []struct {
		Data []struct {
			Row []string `json:"row"`
		} `json:"data"`
	} `json:"results"`
	Errors []serverError `json:"errors"`
}

// answer is the reply of the Query API.
type answer struct {
	Data struct {
		Values [][]string `json:"values"`
	} `json:"data"`
	Bookmarks []string      `json:"bookmarks"`
	Errors    []serverError `json:"errors"`
}

// run makes calls, and returns the rows of each. All of them can be made again.
func (s *Store) run(ctx context.Context, calls ...call) (rows [][][]string, err error) {
	err = s.Retry.Do(ctx, func(ctx context.Context) error {
		return retry.Within(ctx, s.Timeout, func(ctx context.Context) (err error) {
			if s.API == QueryV2 {
				rows, err = s.query(ctx, calls)
			} else {
				rows, err = s.transact(ctx, calls)
			}
			return err
		})
	})
	if _, late := errors.AsType[*retry.Overtime](err); late {
		err = s.service.Fail("it is slow", "try again later, or configure a longer timeout", err)
	}
	if err != nil {
		return nil, err
	}
	return rows, s.check(calls, rows)
}

// check refuses replies that are not about the calls.
func (s *Store) check(calls []call, rows [][][]string) error {
	bad := len(rows) != len(calls)
	for i := 0; i < len(rows) && !bad; i++ {
		bad = slices.ContainsFunc(rows[i], func(row []string) bool { return len(row) != calls[i].columns })
	}
	if bad {
		return s.service.Fail("the reply does not fit the statements", "check url and the version of the server", nil)
	}
	return nil
}

// transact makes calls as one transaction.
func (s *Store) transact(ctx context.Context, calls []call) ([][][]string, error) {
	var in struct {
		Statements []wireCall `json:"statements"`
	}
	for _, c := range calls {
		in.Statements = append(in.Statements, wireCall{Statement: c.text, Parameters: c.parameters})
	}
	var out transactions
	err := s.service.Post(ctx, httpjson.Call{Path: "/db/" + s.Database + "/tx/commit", In: in, Out: &out})
	if err = s.classify(err, out.Errors); err != nil {
		return nil, err
	}
	rows := make([][][]string, len(out.Results))
	for i, r := range out.Results {
		for _, d := range r.Data {
			rows[i] = append(rows[i], d.Row)
		}
	}
	return rows, nil
}

// query makes calls one after the other, each as a transaction that has seen those before.
func (s *Store) query(ctx context.Context, calls []call) (rows [][][]string, err error) {
	for _, c := range calls {
		s.bookmarks.Lock()
		in := wireCall{c.text, c.parameters, s.bookmarks.last}
		s.bookmarks.Unlock()
		var out answer
		err := s.service.Post(ctx, httpjson.Call{Path: "/db/" + s.Database + "/query/v2", In: in, Out: &out})
		if err = s.classify(err, out.Errors); err != nil {
			return nil, err
		}
		if len(out.Bookmarks) > 0 {
			s.bookmarks.Lock()
			s.bookmarks.last = out.Bookmarks
			s.bookmarks.Unlock()
		}
		rows = append(rows, out.Data.Values)
	}
	return rows, nil
}

// The beginnings of codes that say what becomes of a call that is made again.
const (
	transient  = "Neo.TransientError."
	security   = "Neo.ClientError.Security."
	noDatabase = "Neo.ClientError.Database.DatabaseNotFound"
	client     = "Neo.ClientError."
)

// classify is the error of a call: of HTTP, or the first of the list in the reply.
func (s *Store) classify(err error, list []serverError) error {
	if err == nil && len(list) > 0 {
		err = s.service.Refuse(list[0].Code, list[0].Message)
	}
	refusal, ok := errors.AsType[*httpjson.Refusal](err)
	if !ok {
		return err
	}
	why := fmt.Sprintf("it answered %.120s", refusal.Code)
	switch code := refusal.Code; {
	case strings.HasPrefix(code, transient):
		if _, already := errors.AsType[*retry.Transient](err); already {
			return err
		}
		return &retry.Transient{Err: s.service.Fail(why, "try again later", refusal)}
	case strings.HasPrefix(code, security) && refusal.Status == 0:
		return s.service.Fail(why, "check the user and "+s.KeyHint+", and what the user may do", refusal)
	case code == noDatabase:
		return s.service.Fail(why, "check database: there is no "+s.Database, refusal)
	case strings.HasPrefix(code, client) && !strings.HasPrefix(code, security):
		return &fault.Error{Kind: graphs.ErrRefused, What: "call neo4j", Why: why, Cause: refusal, Do: "check the version of the server and the constraints of its database"}
	}
	return err
}

// prepare makes the schema, once. A server that does not let the user do so works without.
func (s *Store) prepare(ctx context.Context) error {
	s.prepared.Lock()
	defer s.prepared.Unlock()
	if s.prepared.done {
		return nil
	}
	for _, statement := range schema {
		_, err := s.run(ctx, call{statement: statement})
		refusal, answered := errors.AsType[*httpjson.Refusal](err)
		forbidden := errors.Is(err, graphs.ErrRefused) || answered && refusal.Code == security+"Forbidden"
		if err != nil && !forbidden {
			return err
		}
	}
	s.prepared.done = true
	return nil
}
