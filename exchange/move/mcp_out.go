package move

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"maps"
	"slices"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/exchange/products"
	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// ExportMCP writes the graph of an owner as the memory.jsonl of the Model Context Protocol's
// memory server: entities by their names, with their observations, and relations between them.
// Other properties, and aliases, are keys of their own, which that server passes by and an import
// reads. The server itself reads such a file whole, so that ExportMCP holds the nodes and the
// relations until it knows their order.
func ExportMCP(ctx context.Context, db *engine.DB, w io.Writer, o *exchange.ExportOptions) (Moved, error) {
	if o == nil || o.Scope.User == "" || o.Scope.Agent == "" {
		if _, err := export(ctx, db, o, &oneOwner{}); err != nil { // before anything is written
			return Moved{}, err
		}
	}
	m := &mcpWriter{out: bufio.NewWriter(w), names: map[string]string{}, taken: map[string]bool{}}
	return export(ctx, db, o, m)
}

type mcpWriter struct {
	out       *bufio.Writer
	names     map[string]string // of entities, by their IDs
	taken     map[string]bool
	nodes     []mcpLine
	relations []mcpLine
}

// mcpLine is a line, and its place among the others.
type mcpLine struct {
	text  []byte
	order int64
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
		return m.entity(&l)
	case graph.TypeRelation:
		var l graph.RelationLine
		if err := json.Unmarshal(raw, &l); err != nil {
			return false, err
		}
		if !l.SupersededAt.IsZero() {
			return false, nil
		}
		return true, m.relation(&l)
	case exchange.TypeMemory, graph.TypeLink:
		var l struct{ ID, Memory string }
		err := json.Unmarshal(raw, &l)
		if err == nil && graph.IsObservation(cmp.Or(l.Memory, l.ID)) {
			err = errDerived
		}
		return false, err
	}
	return false, nil
}

// entity holds the line of an entity. An entity that exists only as the end of a relation has no line.
func (m *mcpWriter) entity(l *graph.EntityLine) (bool, error) {
	e, _ := l.Entity()
	n, order, shown := products.NodeOf(&e)
	if n.Name == l.ID {
		n.Name = cmp.Or(l.Name, l.ID)
	}
	if m.taken[n.Name] { // the server knows an entity by its name alone
		n.Name = l.ID
	}
	m.taken[n.Name], m.names[l.ID] = true, n.Name
	if !shown && len(n.More)+len(n.Observations)+len(l.Aliases) == 0 {
		return true, nil
	}
	more := maps.Clone(n.More)
	if _, has := more["aliases"]; !has && len(l.Aliases) > 0 {
		text, err := json.Marshal(l.Aliases)
		if err != nil {
			return false, err
		}
		if more == nil {
			more = map[string]json.RawMessage{}
		}
		more["aliases"] = text
	}
	text, err := mcpObject([]mcpKey{
		{"type", graph.TypeEntity}, {"name", n.Name}, {"entityType", n.Type}, {graph.Observations, n.Observations},
	}, more)
	m.nodes = append(m.nodes, mcpLine{text, order})
	return true, err
}

func (m *mcpWriter) relation(l *graph.RelationLine) error {
	a, order := products.ArcOf(&graph.Relation{From: l.From, Type: l.Relation, To: l.To, Properties: l.Properties, CreatedAt: l.CreatedAt.Time})
	for _, end := range []struct {
		name *string
		id   string
	}{{&a.From, l.From}, {&a.To, l.To}} {
		if name, ok := m.names[end.id]; ok && *end.name == end.id {
			*end.name = name
		}
	}
	more := maps.Clone(a.More)
	for key, at := range map[string]clock.Instant{"validFrom": l.ValidFrom, "validTo": l.ValidTo} {
		if _, has := more[key]; has || at.IsZero() {
			continue
		}
		text, err := json.Marshal(at)
		if err != nil {
			return err
		}
		if more == nil {
			more = map[string]json.RawMessage{}
		}
		more[key] = text
	}
	text, err := mcpObject([]mcpKey{{"type", graph.TypeRelation}, {"from", a.From}, {"to", a.To}, {"relationType", a.Type}}, more)
	m.relations = append(m.relations, mcpLine{text, order})
	return err
}

type mcpKey struct {
	name  string
	value any
}

// mcpObject is an object of some keys, in their order, and of others behind them.
func mcpObject(keys []mcpKey, more map[string]json.RawMessage) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	for _, k := range keys {
		delete(more, k.name)
	}
	for _, name := range slices.Sorted(maps.Keys(more)) {
		keys = append(keys, mcpKey{name, more[name]})
	}
	for i, k := range keys {
		out.WriteByte("{,"[min(i, 1)])
		for j, part := range []any{k.name, k.value} {
			if err := enc.Encode(part); err != nil {
				return nil, err
			}
			out.Truncate(out.Len() - 1) // the end of the line
			if j == 0 {
				out.WriteByte(':')
			}
		}
	}
	out.WriteString("}\n")
	return out.Bytes(), nil
}

// end writes the entities and then the relations, each in the order in which they came.
func (m *mcpWriter) end() error {
	for _, lines := range [][]mcpLine{m.nodes, m.relations} {
		slices.SortStableFunc(lines, func(a, b mcpLine) int { return cmp.Compare(a.order, b.order) })
		for _, l := range lines {
			if _, err := m.out.Write(l.text); err != nil {
				return err
			}
		}
	}
	return m.out.Flush()
}
