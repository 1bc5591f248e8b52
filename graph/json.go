package graph

import (
	"encoding/json"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// The types of lines of an export that hold entities and relations.
const (
	TypeEntity   = "entity"
	TypeRelation = "relation"
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

// EntityLine is an entity as one flat JSON object.
type EntityLine struct {
	Type       string          `json:"type"`
	ID         string          `json:"id"`
	User       string          `json:"user"`
	Agent      string          `json:"agent"`
	EntityType string          `json:"entity_type"`
	Name       string          `json:"name"`
	Aliases    []string        `json:"aliases"`
	Properties json.RawMessage `json:"properties"`
	CreatedAt  clock.Instant   `json:"created_at,omitzero"`
	UpdatedAt  clock.Instant   `json:"updated_at,omitzero"`
	Extracted  bool            `json:"extracted,omitzero"` // as of Entity
	// Relations are those that the entity has, its inverses too. An export leaves them to
	// lines of their own.
	Relations []EdgeLine `json:"relations,omitzero"`
}

// Edge is the relation as Put takes it.
func (l *EdgeLine) Edge() Edge {
	return Edge{
		Target: l.Target, Type: l.Type, ID: l.ID, Properties: l.Properties, ValidFrom: l.ValidFrom.Time, ValidTo: l.ValidTo.Time,
	}
}

// NewEdgeLine is the line of a relation as Put takes it.
func NewEdgeLine(e Edge) EdgeLine {
	return EdgeLine{
		Target: e.Target, Type: e.Type, ID: e.ID, Properties: e.Properties,
		ValidFrom: clock.Instant{Time: e.ValidFrom}, ValidTo: clock.Instant{Time: e.ValidTo},
	}
}

// Entity is the entity of the line, and its relations.
func (l *EntityLine) Entity() (Entity, []Edge) {
	edges := make([]Edge, len(l.Relations))
	for i := range l.Relations {
		edges[i] = l.Relations[i].Edge()
	}
	return Entity{
		Owner: scope.Owner{User: l.User, Agent: l.Agent}, ID: l.ID, Type: l.EntityType, Name: l.Name, Aliases: l.Aliases,
		Properties: l.Properties, CreatedAt: l.CreatedAt.Time, UpdatedAt: l.UpdatedAt.Time,
		Extracted: l.Extracted,
	}, edges
}

// NewEntityLine is the line of an entity.
func NewEntityLine(e Entity) EntityLine {
	l := EntityLine{
		Type: TypeEntity, ID: e.ID, User: e.User, Agent: e.Agent, EntityType: e.Type, Name: e.Name, Aliases: e.Aliases,
		Properties: e.Properties, CreatedAt: clock.Instant{Time: e.CreatedAt}, UpdatedAt: clock.Instant{Time: e.UpdatedAt},
		Extracted: e.Extracted,
	}
	if l.Aliases == nil {
		l.Aliases = []string{}
	}
	if len(l.Properties) == 0 {
		l.Properties = json.RawMessage("{}")
	}
	return l
}

// RelationLine is a relation as one flat JSON object.
type RelationLine struct {
	Type         string          `json:"type"`
	ID           string          `json:"id"`
	User         string          `json:"user"`
	Agent        string          `json:"agent"`
	From         string          `json:"from"`
	Relation     string          `json:"relation"`
	To           string          `json:"to"`
	Properties   json.RawMessage `json:"properties"`
	ValidFrom    clock.Instant   `json:"valid_from,omitzero"`
	ValidTo      clock.Instant   `json:"valid_to,omitzero"`
	CreatedAt    clock.Instant   `json:"created_at,omitzero"`
	SupersededAt clock.Instant   `json:"superseded_at,omitzero"`
	Extracted    bool            `json:"extracted,omitzero"` // as of Relation
}

// NewRelationLine is the line of a relation.
func NewRelationLine(r Relation) RelationLine {
	l := RelationLine{
		Type: TypeRelation, ID: r.ID, User: r.User, Agent: r.Agent, From: r.From, Relation: r.Type, To: r.To, Properties: r.Properties,
		ValidFrom: clock.Instant{Time: r.ValidFrom}, ValidTo: clock.Instant{Time: r.ValidTo},
		CreatedAt: clock.Instant{Time: r.CreatedAt}, SupersededAt: clock.Instant{Time: r.SupersededAt},
		Extracted: r.Extracted,
	}
	if len(l.Properties) == 0 {
		l.Properties = json.RawMessage("{}")
	}
	return l
}

// EdgeLine is a relation as an entity has it, an Edge, as one flat JSON object.
type EdgeLine struct {
	Target     string          `json:"target"`
	Type       string          `json:"type"`
	ID         string          `json:"id,omitzero"`
	Properties json.RawMessage `json:"properties,omitzero"`
	ValidFrom  clock.Instant   `json:"valid_from,omitzero"`
	ValidTo    clock.Instant   `json:"valid_to,omitzero"`
}
