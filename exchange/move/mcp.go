package move

import (
	"errors"
	"fmt"
	"hash/maphash"
	"io"

	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/graph"
)

// mcpLine is a line of a memory.jsonl: an entity with what was observed of it, or a relation.
type mcpLine struct {
	Type         string   `json:"type"`
	Name         string   `json:"name,omitempty"`
	EntityType   string   `json:"entityType,omitempty"`
	Observations []string `json:"observations,omitzero"`
	From         string   `json:"from,omitempty"`
	To           string   `json:"to,omitempty"`
	RelationType string   `json:"relationType,omitempty"`
}

// observed is the property of an entity that holds what was observed of it, and order that of a
// relation which keeps its place in the file.
const (
	observed = "observations"
	order    = "order"
)

// mcpReader reads a memory.jsonl. Names are IDs.
type mcpReader struct {
	*writer
	seed  maphash.Seed
	known map[uint64]struct{} // hashes of the names that there are
	order int
}

func readMCP(in *Input, w *writer) error {
	r := &mcpReader{writer: w, seed: maphash.MakeSeed(), known: map[uint64]struct{}{}}
	if in.File == nil { // it can be read once, and relations may name what comes later
		return r.lines(in.Reader, true, true)
	}
	if err := r.lines(in.Reader, true, false); err != nil {
		return err
	}
	return r.lines(io.NewSectionReader(in.File, 0, in.Size), false, true)
}

// lines reads all lines and gives the entities, the relations or both. What cannot be read is
// told of with the relations, once.
func (r *mcpReader) lines(in io.Reader, entities, relations bool) error {
	lines := exchange.NewLineReader(in)
	for {
		raw, err := lines.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		at := exchange.LineError{Line: lines.Line()}
		if err != nil && !errors.Is(err, exchange.ErrLongLine) {
			return fmt.Errorf("read line %d: %w", at.Line+1, err)
		}
		r.read = lines.Bytes()
		var l mcpLine
		if err == nil {
			err = exchange.Decode(raw, &l)
		}
		if err == nil {
			err = l.check()
		}
		switch {
		case err != nil && relations:
			err = r.skip(at, err)
		case err != nil:
			err = nil
		case l.Type == graph.TypeEntity && entities:
			err = r.entity(at, &l, len(raw))
		case l.Type == graph.TypeRelation && relations:
			err = r.relation(at, &l, len(raw))
		}
		if err != nil {
			return err
		}
	}
}

func (l *mcpLine) check() error {
	switch {
	case l.Type != graph.TypeEntity && l.Type != graph.TypeRelation:
		return fmt.Errorf("its type is %.40q, not entity or relation", l.Type)
	case l.Type == graph.TypeEntity && l.Name == "":
		return errors.New("an entity has no name")
	case l.Type == graph.TypeRelation && (l.From == "" || l.To == "" || l.RelationType == ""):
		return errors.New(`a relation lacks "from", "to" or "relationType"`)
	}
	return nil
}

func (r *mcpReader) entity(at exchange.LineError, l *mcpLine, size int) error {
	r.known[maphash.String(r.seed, l.Name)] = struct{}{}
	properties := map[string]any{}
	if len(l.Observations) > 0 {
		properties[observed] = l.Observations
	}
	text, err := marshal(properties)
	if err != nil {
		return r.skip(at, err)
	}
	owner := r.scope("", "", "").Owner()
	return r.line(at, graph.TypeEntity, graph.EntityLine{
		Type: graph.TypeEntity, ID: l.Name, User: owner.User, Agent: owner.Agent, EntityType: l.EntityType, Name: l.Name, Properties: text,
	}, size)
}

// relation gives a relation, and its ends where the file lacks them: the reference server keeps
// such a relation.
func (r *mcpReader) relation(at exchange.LineError, l *mcpLine, size int) error {
	for _, end := range []string{l.From, l.To} {
		if _, ok := r.known[maphash.String(r.seed, end)]; !ok {
			if err := r.entity(at, &mcpLine{Name: end}, 0); err != nil {
				return err
			}
		}
	}
	owner := r.scope("", "", "").Owner()
	r.order++
	return r.line(at, graph.TypeRelation, graph.RelationLine{
		Type: graph.TypeRelation, User: owner.User, Agent: owner.Agent, From: l.From, Relation: l.RelationType, To: l.To,
		Properties: fmt.Appendf(nil, `{%q:%d}`, order, r.order),
	}, size)
}
