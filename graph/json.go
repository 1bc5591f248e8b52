package graph

import (
	"encoding/json"

	"github.com/seed-7aedc3ff/memdb/scope"
)

// The JSON of entities and relations is that of an export's lines: what one program marshals,
// another one imports.

// MarshalJSON writes the [EntityLine] of the entity, without relations.
func (e Entity) MarshalJSON() ([]byte, error) { return json.Marshal(NewEntityLine(e)) }

// UnmarshalJSON reads an [EntityLine]. Its relations, and keys that it does not have, are ignored.
func (e *Entity) UnmarshalJSON(b []byte) error {
	var l EntityLine
	err := json.Unmarshal(b, &l)
	if err == nil {
		*e = l.alone()
	}
	return err
}

// alone is the entity of the line as the database returns it.
func (l *EntityLine) alone() Entity {
	e, _ := l.Entity()
	e.Properties = some(e.Properties)
	if len(e.Aliases) == 0 {
		e.Aliases = nil
	}
	return e
}

// some are properties, nil for none.
func some(properties json.RawMessage) json.RawMessage {
	if string(properties) == "{}" {
		return nil
	}
	return properties
}

// namedLine is an entity that was looked up as one flat JSON object.
type namedLine struct {
	EntityLine
	Matched string  `json:"matched"`
	Score   float64 `json:"score"`
}

// MarshalJSON writes the [EntityLine] of the entity, with the name that matched and the score.
func (n Named) MarshalJSON() ([]byte, error) {
	return json.Marshal(namedLine{NewEntityLine(n.Entity), n.Matched, n.Score})
}

// UnmarshalJSON reads such a line. Keys that it does not have are ignored.
func (n *Named) UnmarshalJSON(b []byte) error {
	var l namedLine
	err := json.Unmarshal(b, &l)
	if err == nil {
		*n = Named{l.alone(), l.Matched, l.Score}
	}
	return err
}

// AsRelation is the relation of the line.
func (l *RelationLine) AsRelation() Relation {
	return Relation{
		Owner: scope.Owner{User: l.User, Agent: l.Agent}, ID: l.ID, From: l.From, Type: l.Relation, To: l.To, Properties: l.Properties,
		ValidFrom: l.ValidFrom.Time, ValidTo: l.ValidTo.Time, CreatedAt: l.CreatedAt.Time, SupersededAt: l.SupersededAt.Time, Extracted: l.Extracted,
	}
}

// MarshalJSON writes the [RelationLine] of the relation.
func (r Relation) MarshalJSON() ([]byte, error) { return json.Marshal(NewRelationLine(r)) }

// UnmarshalJSON reads a [RelationLine]. Keys that it does not have are ignored.
func (r *Relation) UnmarshalJSON(b []byte) error {
	var l RelationLine
	err := json.Unmarshal(b, &l)
	if err == nil {
		*r = l.AsRelation()
		r.Properties = some(r.Properties)
	}
	return err
}

// MarshalJSON writes the [EdgeLine] of the relation.
func (e Edge) MarshalJSON() ([]byte, error) { return json.Marshal(NewEdgeLine(e)) }

// UnmarshalJSON reads an [EdgeLine]. Keys that it does not have are ignored.
func (e *Edge) UnmarshalJSON(b []byte) error {
	var l EdgeLine
	err := json.Unmarshal(b, &l)
	if err == nil {
		*e = l.Edge()
	}
	return err
}
