package move

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
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
	m := &mcpWriter{out: bufio.NewWriter(w), names: map[string]string{}, taken: map[string]bool{}}
	m.enc = json.NewEncoder(m.out)
	m.enc.SetEscapeHTML(false)
	return export(ctx, db, o, m)
}

type mcpWriter struct {
	out       *bufio.Writer
	enc       *json.Encoder
	owner     memory.Owner
	begun     bool
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

// own refuses what belongs to another owner than what came before.
func (m *mcpWriter) own(user, agent string) error {
	of := memory.Owner{User: user, Agent: agent}
	if m.begun && of != m.owner {
		return errOwners
	}
	m.begun, m.owner = true, of
	return nil
}

func (m *mcpWriter) line(typ string, raw []byte) (bool, error) {
	switch typ {
	case graph.TypeEntity:
		var l graph.EntityLine
		if err := json.Unmarshal(raw, &l); err != nil {
			return false, err
		}
		return true, errors.Join(m.own(l.User, l.Agent), m.entity(&l))
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
