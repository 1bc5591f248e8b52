package move

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"maps"
	"slices"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// ExportMCP writes the graph of an owner as the memory.jsonl of the Model Context Protocol's
// memory server: entities by their names, with what was observed of each, and relations between
// them. Aliases, and properties that are no observations, become observations. The server itself
// reads such a file whole, so that the relations, which stand behind all entities, are held.
func ExportMCP(ctx context.Context, db *engine.DB, w io.Writer, o *exchange.ExportOptions) (Moved, error) {
	if o == nil || o.Scope.User == "" || o.Scope.Agent == "" {
		if _, err := export(ctx, db, o, &oneOwner{}); err != nil { // before anything is written
			return Moved{}, err
		}
	}
	m := &mcpWriter{out: bufio.NewWriter(w), names: map[string]string{}, taken: map[string]bool{}}
	m.enc = json.NewEncoder(m.out)
	m.enc.SetEscapeHTML(false)
	return export(ctx, db, o, m)
}

type mcpWriter struct {
	out       *bufio.Writer
	enc       *json.Encoder
	names     map[string]string // of entities, by their IDs
	taken     map[string]bool
	relations []mcpRelation
}

type mcpRelation struct {
	mcpLine
	order float64
}

// errOwners is returned where names of several owners would meet in one file.
var errOwners = &memory.Error{
	Kind: memory.ErrInvalid, What: "export to mcp", Why: "there are graphs of several owners, and the form has no owners",
	Do: "name one with --user or --agent, or both",
}

// oneOwner refuses entities of several owners, and writes nothing.
type oneOwner struct {
	of    memory.Owner
	begun bool
}

func (*oneOwner) end() error { return nil }

func (w *oneOwner) line(typ string, raw []byte) (bool, error) {
	if typ != graph.TypeEntity {
		return false, nil
	}
	var l graph.EntityLine
	if err := json.Unmarshal(raw, &l); err != nil {
		return false, err
	}
	of := memory.Owner{User: l.User, Agent: l.Agent}
	if w.begun && of != w.of {
		return false, errOwners
	}
	w.begun, w.of = true, of
	return true, nil
}

func (m *mcpWriter) line(typ string, raw []byte) (bool, error) {
	switch typ {
	case graph.TypeEntity:
		var l graph.EntityLine
		if err := json.Unmarshal(raw, &l); err != nil {
			return false, err
		}
		return true, m.entity(&l)
	case graph.TypeRelation:
		var l graph.RelationLine
		if err := json.Unmarshal(raw, &l); err != nil {
			return false, err
		}
		if !l.SupersededAt.IsZero() {
			return false, nil
		}
		var place struct {
			Order float64 `json:"order"`
		}
		_ = json.Unmarshal(l.Properties, &place) // a relation that has none comes first
		m.relations = append(m.relations, mcpRelation{mcpLine{
			Type: graph.TypeRelation, From: m.names[l.From], To: m.names[l.To], RelationType: l.Relation,
		}, place.Order})
		return true, nil
	}
	return false, nil
}

func (m *mcpWriter) entity(l *graph.EntityLine) error {
	name := cmp.Or(l.Name, l.ID)
	if m.taken[name] { // the server knows an entity by its name alone
		name = l.ID
	}
	m.taken[name], m.names[l.ID] = true, name
	out := mcpLine{Type: graph.TypeEntity, Name: name, EntityType: l.EntityType, Observations: []string{}}
	var properties map[string]json.RawMessage
	if err := json.Unmarshal(l.Properties, &properties); err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(properties)) {
		var texts []string
		if raw := properties[key]; key == observed && json.Unmarshal(raw, &texts) == nil {
			out.Observations = append(out.Observations, texts...)
		} else {
			text := string(raw)
			_ = json.Unmarshal(raw, &text) // what is no text stays JSON
			out.Observations = append(out.Observations, key+": "+text)
		}
	}
	for _, alias := range l.Aliases {
		out.Observations = append(out.Observations, "also called "+alias)
	}
	return m.enc.Encode(out)
}

// end writes the relations in the order in which they came.
func (m *mcpWriter) end() error {
	slices.SortStableFunc(m.relations, func(a, b mcpRelation) int { return cmp.Compare(a.order, b.order) })
	for _, r := range m.relations {
		if err := m.enc.Encode(r.mcpLine); err != nil {
			return err
		}
	}
	return m.out.Flush()
}
