package native

import (
	"bufio"
	"cmp"
	"errors"
	"strings"

	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/exchange/move"
	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/services/server"
)

func transfers() []route {
	return []route{
		{at: "GET /export", summary: "Export everything, or everything of a scope, as lines that an import reads; the last line is the report", media: []string{linesOfJSON}, stream: true, handle: export, params: inAll(filtered)},
		{at: "POST /import", summary: "Import the lines of an export, or JSON records with the usual names of keys, of any owner", takes: linesOfJSON, reply: exchange.Imported{}, admin: true, whole: true, large: true, handle: load, params: []param{
			{name: "user", kind: text, summary: "the user of records that name none"},
			{name: "agent", kind: text, summary: "the agent of records that name none"},
			{name: "run", kind: text, summary: "the run of records that name none"},
			{name: "force_scope", kind: flag, summary: "store everything for user, agent and run, whatever a record names"},
			{name: "into_user", kind: text, summary: "the user that everything is stored for, whatever user a record names"},
			{name: "into_agent", kind: text, summary: "the agent that everything is stored for, whatever agent a record names"},
			upsert,
			{name: "map", kind: text, summary: "FIELD=KEY pairs separated by commas: the keys that hold the fields of a memory"},
			{name: "strict", kind: flag, summary: "stop at the first record that cannot be stored or has unknown keys"},
			{name: "ignore_unknown", kind: flag, summary: "count unknown keys instead of refusing them, with strict"},
			{name: "format", kind: text, values: []string{string(move.JSONL), string(move.JSON)}, summary: "jsonl for lines, json for one document; the default is jsonl"},
			{name: "origin", kind: text, summary: "a part of the IDs of records without one; by default the IDs follow from the content alone"},
		}},
	}
}

// exportEnd is the last line of an export, which an import leaves out.
type exportEnd struct {
	Type string `json:"type"`
	End  bool   `json:"end"`
	exchange.Exported
}

func export(a *ask) error {
	c, err := a.chooseAll("export")
	if err != nil {
		return err
	}
	if len(c.scopes) > 1 || c.lack != (memory.Lack{}) {
		return invalid("export", "it takes one scope of users and agents that are there", "name the user, the agent or the run that is meant")
	}
	return a.list(func(s *stream) error {
		out := &rawLines{s}
		r, err := exchange.Export(a.Context(), a.DB, out, &exchange.ExportOptions{Scope: c.scopes[0], Filter: value[filter.Filter](a, "filter")})
		if err != nil {
			return err
		}
		if s.lines == nil {
			s.lines = a.Lines()
		}
		end := exportEnd{exchange.TypeEnd, true, exchange.NewExported(r)}
		end.Unreadable = max(end.Unreadable, a.DB.Damage().Unreadable)
		s.last = end
		return nil
	})
}

// rawLines writes lines that are JSON already.
type rawLines struct{ s *stream }

func (w *rawLines) Write(b []byte) (int, error) {
	if w.s.lines == nil {
		w.s.lines = w.s.a.Lines()
	}
	return len(b), w.s.lines.Raw(b)
}

func load(a *ask) error {
	o := &exchange.Options{
		Strict: value[bool](a, "strict"), Upsert: value[bool](a, "upsert"), IgnoreUnknown: value[bool](a, "ignore_unknown"), Origin: value[string](a, "origin"),
		Scope:      memory.Scope{User: value[string](a, "user"), Agent: value[string](a, "agent"), Run: value[string](a, "run")},
		ForceScope: value[bool](a, "force_scope"), IntoUser: value[string](a, "into_user"), IntoAgent: value[string](a, "into_agent"),
	}
	switch {
	case a.given("into_agent") && (o.IntoAgent == "" || o.Scope.Agent != ""):
		return invalid("import", "into_agent names one agent, instead of agent", "")
	case a.given("into_user") && (o.IntoUser == "" || o.Scope.User != ""):
		return invalid("import", "into_user names one user, instead of user", "")
	case o.ForceScope && o.Scope == (memory.Scope{}):
		return invalid("import", "force_scope needs a user, an agent or a run", "name where everything is to be stored")
	}
	format := move.Format(cmp.Or(value[string](a, "format"), string(move.JSONL)))
	if format != move.JSONL && format != move.JSON {
		return invalid("import", "there is no such format", "there are jsonl and json")
	}
	var fields move.Map
	if pairs := value[string](a, "map"); pairs != "" {
		var err error
		if fields, err = move.ParseMap(strings.Split(pairs, ",")); err != nil {
			return invalid("import", "map: "+err.Error(), "")
		}
	}
	began := a.now()
	items := move.Read(format, &move.Input{Reader: bufio.NewReader(a.R.Body)}, &move.Options{Into: *o, Map: fields})
	r, err := exchange.ImportItems(a.Context(), a.DB, items.All(a.Context()), o)
	items.Tell(&r)
	if at, ok := errors.AsType[exchange.LineError](err); ok {
		return invalid("import", at.Error(), "mend the line, and import again; what stood before it is stored")
	}
	if err != nil {
		return server.OfBody("import", err)
	}
	out := exchange.NewImported(r, error.Error)
	out.Seconds = a.now().Sub(began).Seconds()
	return a.ok(out, nil)
}
