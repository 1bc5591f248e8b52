package native

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/seed-7aedc3ff/memdb/api"
	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/services/server"
)

// A route is a call: what it takes, what it answers, and who may make it.
type route struct {
	at      string // method and path below base
	summary string
	path    []param // about which there is more to say than their names do
	params  []param
	body    any // a zero value of its type, nil for none
	reply   any
	lines   bool     // the reply is a list
	media   []string // of a reply that is not JSON
	takes   string   // the media type of a body that is not JSON
	status  int      // of success, 0 for 200
	kept    bool     // the status is 200 where nothing new was stored
	admin   bool
	stream  bool // takes as long as it likes, though its reply is no list
	large   bool // the body may be of any size
	reads   bool // it changes nothing that a client sees
	whole   bool // it is about a whole database
	merge   func(c *server.Call, p *server.Parts) error
	handle  func(a *ask) error
}

// anySize is the bound of a body that is read as a stream.
const anySize = 1 << 50

// route is the route as the server has it, of a group.
func (r route) route(tag string) server.Route {
	method, path, _ := strings.Cut(r.at, " ")
	out := server.Route{
		Pattern: method + " " + base + path, Admin: r.admin, Stream: r.stream || r.lines || r.large, Reads: r.reads, Whole: r.whole, Merge: r.merge,
		Handle: func(c *server.Call) error {
			a, err := read(c, r.params)
			if err != nil {
				return err
			}
			return r.handle(a)
		},
		Doc: server.Doc{Tag: tag, Summary: r.summary, Body: r.body, Reply: r.reply, Lines: r.lines, Media: r.media, BodyMedia: r.takes, Status: r.status, Unchanged: r.kept},
	}
	if r.large {
		out.MaxBody = anySize
	}
	for _, p := range r.path {
		out.Doc.Path = append(out.Doc.Path, p.documented())
	}
	for _, p := range r.params {
		out.Doc.Query = append(out.Doc.Query, p.documented())
	}
	return out
}

// A param is a parameter of a query.
type param struct {
	name, summary      string
	kind               *api.Kind
	values             []string // all that it can have, nil: there are others
	example            string
	repeated, required bool
}

func (p *param) documented() server.Param {
	return server.Param{Name: p.name, Summary: p.summary, Type: p.kind.Schema, Enum: p.values, Example: p.example, Repeated: p.repeated, Required: p.required}
}

// The kinds of parameters.
var (
	text   = api.Text
	flag   = api.Flag
	count  = api.Count
	lsn    = api.Whole
	number = api.Number
	moment = api.Time
	span   = api.Span
	chosen = api.Filter
)

// An ask is a call whose parameters were read.
type ask struct {
	*server.Call
	params []param
	values map[string][]any
}

// read reads the parameters of a call. One that the call does not have is refused, and so is one
// that is given twice.
func read(c *server.Call, params []param) (*ask, error) {
	given, err := url.ParseQuery(c.R.URL.RawQuery)
	if err != nil {
		return nil, invalid("read the query", "it is malformed", "")
	}
	a := &ask{Call: c, params: params, values: map[string][]any{}}
	for name, all := range given {
		i := slices.IndexFunc(params, func(p param) bool { return p.name == name })
		if i < 0 {
			return nil, invalid("read the query", fmt.Sprintf("the parameter %.60q is not known", name), "there are: "+names(params))
		}
		p := params[i]
		if len(all) > 1 && !p.repeated {
			return nil, invalid("read the query", fmt.Sprintf("the parameter %s is given twice", name), "")
		}
		for _, s := range all {
			v, err := p.kind.Read(c.Context(), nil, s)
			if err != nil {
				return nil, &memory.Error{Kind: memory.ErrInvalid, What: "read the parameter " + name, Why: err.Error()}
			}
			a.values[name] = append(a.values[name], v)
		}
	}
	for _, p := range params {
		if p.required && len(a.values[p.name]) == 0 {
			return nil, invalid("read the query", "the parameter "+p.name+" is missing", p.summary)
		}
	}
	return a, nil
}

func names(params []param) string {
	if len(params) == 0 {
		return "none"
	}
	all := make([]string, len(params))
	for i, p := range params {
		all[i] = p.name
	}
	return strings.Join(all, ", ")
}

func invalid(what, why, do string) error {
	return &memory.Error{Kind: memory.ErrInvalid, What: what, Why: why, Do: do}
}

// given reports whether a parameter is given.
func (a *ask) given(name string) bool { return len(a.all(name)) > 0 }

// all are the values of a parameter. The route must have it, or its document would not: no request
// brings that about, only a handler that asks for what its table lacks, at its first call.
func (a *ask) all(name string) []any {
	if !slices.ContainsFunc(a.params, func(p param) bool { return p.name == name }) {
		panic("the route has no parameter " + name)
	}
	return a.values[name]
}

// value is that of a parameter, the zero value where it is not given.
func value[T any](a *ask, name string) T {
	var v T
	if all := a.all(name); len(all) > 0 {
		v, _ = all[0].(T)
	}
	return v
}

// optional is the value of a parameter, nil where it is not given.
func optional[T any](a *ask, name string) *T {
	if !a.given(name) {
		return nil
	}
	v := value[T](a, name)
	return &v
}

// id is a part of the path.
func (a *ask) id(name string) string { return a.R.PathValue(name) }

// ok answers a value.
func (a *ask) ok(v any, err error) error {
	if err != nil {
		return err
	}
	return a.Reply(http.StatusOK, v)
}

// deleted answers how many were deleted.
func (a *ask) deleted(n int, err error) error { return a.ok(exchange.Deleted{Deleted: n}, err) }

// limit is how many are listed: 1 to memory.MaxLimit.
func (a *ask) limit(usual int) (int, error) {
	if !a.given("limit") {
		return usual, nil
	}
	n := value[int](a, "limit")
	if n < 1 || n > memory.MaxLimit {
		return 0, invalid("read the parameter limit", fmt.Sprintf("%d is not within 1 and %d", n, memory.MaxLimit), "")
	}
	return n, nil
}

// decoded is a body as a value of a type.
func decoded[T any](a *ask) (T, error) {
	var v T
	err := a.Decode(&v)
	return v, err
}

// now is the time of the call.
func (a *ask) now() time.Time { return a.Now() }

// raw is JSON as it is. It copies: what it is read from is not kept.
type raw []byte

// UnmarshalJSON keeps the JSON.
func (r *raw) UnmarshalJSON(b []byte) error {
	*r = slices.Clone(b)
	return nil
}
