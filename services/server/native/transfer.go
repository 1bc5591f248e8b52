package native

import (
	"errors"

	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/memory"
)

func transfers() []route {
	return []route{
		{at: "GET /export", summary: "Write everything, or what a scope has, as the lines that an import reads; the report stands in the end", media: linesOfJSON, stream: true, handle: export, params: inAll(filtered)},
		{at: "POST /import", summary: "Store the lines of an export, whoever they belong to", takes: linesOfJSON, reply: exchange.Imported{}, admin: true, whole: true, large: true, handle: load, params: []param{
			{name: "user", kind: text, summary: "the user of records that name no user, agent or run"},
			{name: "agent", kind: text, summary: "likewise the agent"},
			{name: "run", kind: text, summary: "likewise the run"},
			{name: "into_agent", kind: text, summary: "the agent that everything is stored for, whatever agent a record names"},
			upsert,
			{name: "strict", kind: flag, summary: "stop at the first record that cannot be stored, instead of skipping it"},
			{name: "ignore_unknown", kind: flag, summary: "leave out keys that are not known, instead of skipping the record"},
			{name: "format", kind: text, summary: "jsonl, or json for one document; jsonl where it is left out"},
			{name: "origin", kind: text, summary: "a name of the content: an import that is repeated with it stores no line twice"},
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
		s.last = exportEnd{exchange.TypeEnd, true, exchange.NewExported(r)}
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
		Scope:     memory.Scope{User: value[string](a, "user"), Agent: value[string](a, "agent"), Run: value[string](a, "run")},
		IntoAgent: value[string](a, "into_agent"),
	}
	if a.given("into_agent") && (o.IntoAgent == "" || o.Scope.Agent != "") {
		return invalid("import", "into_agent names one agent, instead of agent", "")
	}
	do := exchange.ImportJSONL
	switch value[string](a, "format") {
	case "", "jsonl":
	case "json":
		do = exchange.ImportJSON
	default:
		return invalid("import", "there is no such format", "there are jsonl and json")
	}
	began := a.now()
	r, err := do(a.Context(), a.DB, a.R.Body, o)
	if at, ok := errors.AsType[exchange.LineError](err); ok {
		return invalid("import", at.Error(), "mend the line, and import again; what stood before it is stored")
	}
	if err != nil {
		return err
	}
	out := exchange.NewImported(r, error.Error)
	out.Seconds = a.now().Sub(began).Seconds()
	return a.ok(out, nil)
}
