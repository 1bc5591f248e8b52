package native

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"github.com/seed-7aedc3ff/memdb/api"
	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/scope"
	"github.com/seed-7aedc3ff/memdb/services/server"
)

// opRoute is the route of an operation.
func opRoute[Q, R any](op *api.Op[Q, R]) route {
	fields := op.Fields()
	var reply R
	r := describe[Q](&op.Operation, fields)
	r.reply = reply
	_, r.kept = any(reply).(api.Kept)
	r.handle = func(a *ask) error {
		q, err := requestOf[Q](a, op.Doing, fields)
		if err != nil {
			return err
		}
		reply, err := op.Run(a.Context(), a.DB, q)
		if err != nil {
			return err
		}
		status := cmp.Or(op.Status, http.StatusOK)
		if of, ok := any(reply).(api.Kept); ok && !of.New() {
			status = http.StatusOK
		}
		return a.Reply(status, reply)
	}
	return r
}

// listRoute is the route of an operation that answers a list. hide, where it is not nil, takes from an item what the
// caller may not see.
func listRoute[Q, L any](op *api.List[Q, L], hide func(a *ask, item *L)) route {
	fields := op.Fields()
	var item L
	r := describe[Q](&op.Operation, fields)
	r.reply, r.lines = item, true
	r.handle = func(a *ask) error {
		q, err := requestOf[Q](a, op.Doing, fields)
		if err != nil {
			return err
		}
		return a.list(func(s *stream) error {
			if of, ok := any(q).(api.Tolerant); ok {
				of.LossyOf().Lost = s.lost
			}
			page := func() (api.End, error) {
				return op.Run(a.Context(), a.DB, q, func(item L) error {
					if hide != nil {
						hide(a, &item)
					}
					return s.write(item)
				})
			}
			of, paged := any(q).(api.Paged)
			if !paged {
				end, err := page()
				if err != nil {
					return err
				}
				return s.limited(end.Plan)
			}
			return s.pages(func(after string, limit int) (string, error) {
				of.PageOf().After, of.PageOf().Limit = after, limit
				if list, of := any(q).(*api.MemoryListRequest); of {
					if err := a.goOn(list); err != nil {
						return "", err
					}
				}
				end, err := page()
				return end.Next, err
			})
		})
	}
	return r
}

// streamRoute is the route of an operation that writes its reply.
func streamRoute[Q, R any](op *api.Stream[Q, R]) route {
	fields := op.Fields()
	r := describe[Q](&op.Operation, fields)
	r.media = op.Media
	r.handle = func(a *ask) error {
		q, err := requestOf[Q](a, op.Doing, fields)
		if err != nil {
			return err
		}
		out := &late{a: a, media: op.Media[0]}
		if op.MediaOf != nil {
			out.media = op.MediaOf(q)
		}
		if _, err := op.Run(a.Context(), a.DB, q, out); err != nil {
			return err
		}
		_, err = out.Write(nil) // of an empty reply there is nothing before
		return err
	}
	return r
}

// late writes the header of an answer with the first of its bytes: what fails before them is an
// answer of its own.
type late struct {
	a     *ask
	media string
	begun bool
}

func (l *late) Write(b []byte) (int, error) {
	if err := l.a.Context().Err(); err != nil {
		return 0, err
	}
	if !l.begun {
		l.begun = true
		l.a.W.Header().Set("Content-Type", l.media)
		l.a.W.WriteHeader(http.StatusOK)
	}
	return l.a.W.Write(b)
}

// limited says what ended a query of a graph before it was through. It is an error where nothing was
// found by then.
func (s *stream) limited(p graph.Plan) error {
	if p.Limit != "" && p.Limit != "results" && s.end.Count == 0 {
		return &memory.Error{
			Kind: memory.ErrInvalid, What: "query the graph", Why: fmt.Sprintf("it ended at its limit of %s, before it found anything", p.Limit),
			Do: "raise max_nodes or max_edges, or ask for less",
		}
	}
	s.end.Limit = p.Limit
	return nil
}

// mergedBy is a route that is answered from the parts of all shards where it names none.
func mergedBy(merge func(c *server.Call, p *server.Parts) error, r route) route {
	r.merge = merge
	return r
}

// describe is the route of an operation without what answers it.
func describe[Q any](op *api.Operation, fields []api.Field) route {
	r := route{at: op.Route, summary: op.Summary, status: op.Status, admin: op.Admin, stream: op.Long, reads: op.Access == api.Reads}
	for _, f := range fields {
		p := param{name: f.Name, summary: f.Help, kind: f.Kind, values: f.Enum, required: f.Required, repeated: f.Repeated}
		if f.Default != "" {
			p.summary += "; the default is " + f.Default
		}
		switch f.Place {
		case api.InPath:
			r.path = append(r.path, p)
		case api.InQuery:
			if i := slices.IndexFunc(ofScope, func(s param) bool { return s.name == f.Name }); i >= 0 {
				p = ofScope[i]
			}
			r.params = append(r.params, p)
		}
	}
	r.body = api.BodyOf(new(Q))
	if _, ok := r.body.(api.Lines); ok {
		r.takes = linesOfJSON
	}
	return r
}

// ofScope are the parameters of a scope, which mean more here than to a command: what is left out is taken from the key.
var ofScope = []param{ofUser, ofAgent, ofRun, ofAll, filtered}

// requestOf reads a call into the request of an operation.
func requestOf[Q any](a *ask, doing string, fields []api.Field) (*Q, error) {
	q := new(Q)
	for i := range fields {
		f := &fields[i]
		values := a.values[f.Name]
		switch {
		case f.Place == api.InPath:
			text := a.id(f.Name)
			if len(f.Enum) > 0 && !slices.Contains(f.Enum, text) {
				return nil, server.Fail(http.StatusNotFound, "not_found", "the path has %.40q for %s, which is %s", text, f.Name, f.Choice())
			}
			v, err := f.Kind.Read(a.Context(), nil, text)
			if err != nil {
				return nil, invalid(doing, err.Error(), "")
			}
			values = []any{v}
		case f.Place != api.InQuery:
			continue
		case values == nil && f.Default != "":
			v, err := f.Kind.Read(a.Context(), nil, f.Default)
			if err != nil {
				return nil, err
			}
			values = []any{v}
		}
		for _, v := range values {
			if err := f.Set(q, v); err != nil {
				return nil, invalid("read the parameter "+f.Name, err.Error(), "")
			}
		}
	}
	if err := a.own(q, doing); err != nil {
		return nil, err
	}
	if of, ok := any(q).(api.Timed); ok {
		of.MadeOf().At = a.now()
	}
	if err := a.body(q, doing); err != nil {
		return nil, err
	}
	if of, ok := any(q).(api.Asking); ok {
		if err := a.within(doing, of.QuestionOf()); err != nil {
			return nil, err
		}
	}
	if of, ok := any(q).(*api.MemoryStoreRequest); ok {
		if of.Session != nil {
			of.Run = cmp.Or(of.Run, *of.Session)
		}
		return q, a.place(&of.Record, of.Upsert)
	}
	return q, a.confine(q)
}

// confine refuses a request that a key of one run may not make.
func (a *ask) confine(q any) error {
	of, ok := q.(api.Confined)
	if !ok || of.Refers() == "" {
		return nil
	}
	var s memory.Scope
	switch q := q.(type) {
	case api.Scoped:
		s.User, s.Agent = q.ScopeOf().User, q.ScopeOf().Agent
	case api.OfSession:
		s.User, s.Agent = q.SessionOf().User, q.SessionOf().Agent
	}
	if a.sealed(s) {
		return server.Denied("the key is one of a run: " + of.Refers())
	}
	return nil
}

// own sets whose request it is, by what the key may see.
func (a *ask) own(q any, doing string) error {
	switch of := q.(type) {
	case *api.SessionListRequest: // a key of a session sees that one alone
		s, err := a.Exact(memory.Scope{User: value[string](a, "user"), Agent: value[string](a, "agent")})
		if err != nil {
			return err
		}
		o, err := a.session(doing, s.Run)
		of.Owner, of.Run = api.Owner{User: o.User, Agent: o.Agent}, s.Run
		return err
	case api.OwnedByMany:
		o, err := a.owners(doing)
		of.OwnersOf().Owner = api.Owner{User: o.User, Agent: o.Agent}
		return err
	case api.OfMemory:
		return a.find(doing, of.MemoryOf())
	case api.OfAll:
		c, err := a.chooseAll(doing)
		if err == nil {
			of.ScopeOf().Within, of.ScopeOf().Lack = c.scopes, c.lack
		}
		return err
	case api.Scoped:
		c, err := a.choose(doing, true)
		if err == nil {
			of.ScopeOf().Within, of.ScopeOf().Lack = c.scopes, c.lack
		}
		return err
	case api.OfSession:
		o, err := a.session(doing, of.SessionOf().Run)
		of.SessionOf().Owner = api.Owner{User: o.User, Agent: o.Agent}
		return err
	case api.Owned:
		o, err := a.owner(doing)
		*of.OwnerOf() = api.Owner{User: o.User, Agent: o.Agent}
		return err
	}
	return nil
}

// owners is one owner, or all of them for an administrator who names none.
func (a *ask) owners(doing string) (scope.Owner, error) {
	if a.given("user") && value[string](a, "user") == "" || a.given("agent") && value[string](a, "agent") == "" {
		return scope.Owner{}, invalid(doing, "the user or the agent is empty", "leave it out")
	}
	s, err := a.Scope(memory.Scope{User: value[string](a, "user"), Agent: value[string](a, "agent")})
	if err == nil && s.Run != "" {
		err = server.Denied("the key is one of a run, and this belongs to a user and an agent")
	}
	return s.Owner(), err
}

// body reads the body of a call into the request.
func (a *ask) body(q any, doing string) error {
	switch to := api.BodyOf(q).(type) {
	case nil:
		return nil
	case *json.RawMessage:
		b, err := a.JSON()
		if err != nil {
			return err
		}
		if !json.Valid(b) {
			return invalid(doing, "the body is no JSON", "a string needs quotes of its own")
		}
		*to = b
		return nil
	case api.Lines:
		b, err := a.Values()
		if err != nil {
			return err
		}
		return to.ReadLines(bytes.NewReader(b), doing)
	case api.Form:
		return a.Decode(&form{to})
	default:
		return a.Decode(to)
	}
}

// form is a body that reads itself.
type form struct{ api.Form }

// UnmarshalJSON implements json.Unmarshaler.
func (f *form) UnmarshalJSON(b []byte) error { return f.ReadForm(b) }
