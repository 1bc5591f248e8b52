package cli

import (
	"encoding/json"
	"fmt"

	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/graph"
)

// The lines of a memory.jsonl, which the reference server of the Model Context Protocol for
// memories writes: its entities have names and no IDs, and what was observed of each.

// memoryServerKeys are in lines of that form alone.
type memoryServerKeys struct {
	EntityType   *json.RawMessage `json:"entityType"`
	Observations *json.RawMessage `json:"observations"`
	RelationType *json.RawMessage `json:"relationType"`
}

func (k *memoryServerKeys) any() bool {
	return k.EntityType != nil || k.Observations != nil || k.RelationType != nil
}

type memoryServerEntity struct {
	Type         string   `json:"type"`
	Name         string   `json:"name"`
	EntityType   string   `json:"entityType"`
	Observations []string `json:"observations"`
}

type memoryServerRelation struct {
	Type         string `json:"type"`
	From         string `json:"from"`
	To           string `json:"to"`
	RelationType string `json:"relationType"`
}

// entity is the entity of a line: its name is its ID, by which relations name it, and its
// observations are a property.
func (l *memoryServerEntity) entity() (graph.Entity, error) {
	e := graph.Entity{ID: l.Name, Name: l.Name, Type: l.EntityType}
	if len(l.Observations) == 0 {
		return e, nil
	}
	var err error
	e.Properties, err = json.Marshal(map[string][]string{"observations": l.Observations})
	return e, err
}

// addMemoryServerEntity adds a line of an entity.
func (im *graphImport) addMemoryServerEntity(line []byte) error {
	var l memoryServerEntity
	if err := exchange.DecodeStrict(line, &l); err != nil {
		return err
	}
	e, err := l.entity()
	if err != nil {
		return err
	}
	return im.addEntity(e, nil)
}

// addMemoryServerRelation adds a line of a relation.
func (im *graphImport) addMemoryServerRelation(line []byte) error {
	var l memoryServerRelation
	if err := exchange.DecodeStrict(line, &l); err != nil {
		return err
	}
	if im.order == 0 {
		im.order = im.now().UnixMicro()
	}
	im.order++
	// That server keeps a relation whose ends are not there, and the place of each in its file.
	im.ends = true
	return im.addRelation(graph.Relation{
		From: l.From, Type: l.RelationType, To: l.To, Properties: fmt.Appendf(nil, `{"order":%d}`, im.order),
	})
}
