package graph

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// Observations is the property of an entity that lists texts about it, as knowledge graphs of the
// Model Context Protocol have it. Each text of the list is also a memory of the owner, so that a
// recall finds it: "name: text", of the kind fragment, pinned, and linked to the entity. The
// property is the source. The commit that changes the property, or deletes the entity, stores and
// deletes the memories.
const Observations = "observations"

// Order is the property of an entity or a relation that says where it is among the others of its
// graph. A graph sorts by types and ends.
const Order = "order"

// ObservationID returns the ID of the memory for an observation of an entity.
func ObservationID(entity, text string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d:%s%s", len(entity), entity, text))
	return observationMark + hex.EncodeToString(sum[:16])
}

const observationMark = "observation-"

// IsObservation reports whether an ID of a memory is one of ObservationID.
func IsObservation(id string) bool {
	_, err := hex.DecodeString(strings.TrimPrefix(id, observationMark))
	return err == nil && len(id) == len(observationMark)+32
}

// observed returns the texts of the memories for the observations of an entity, by their IDs.
func (n *node) observed() map[string]string {
	if n.real() == nil || !bytes.Contains(n.properties, []byte(`"`+Observations+`"`)) {
		return nil
	}
	var p struct {
		Observations []any `json:"observations"`
	}
	if json.Unmarshal(n.properties, &p) != nil {
		return nil // the property is not a list
	}
	all := map[string]string{}
	for _, o := range p.Observations {
		if text, ok := o.(string); ok && strings.TrimSpace(text) != "" {
			all[ObservationID(n.id, text)] = cmp.Or(n.name, n.id) + ": " + text
		}
	}
	return all
}

// An observing is what a change of an entity does to the memories for its observations.
type observing struct {
	entity uint32
	gone   []string          // IDs
	fresh  map[string]string // texts, by IDs
}

// observe returns the difference between two versions of an entity; nil is none.
func observe(entity uint32, old, now *node) observing {
	o := observing{entity: entity, fresh: now.observed()}
	for id, text := range old.observed() {
		if o.fresh[id] == text {
			delete(o.fresh, id)
		} else {
			o.gone = append(o.gone, id)
		}
	}
	slices.Sort(o.gone)
	return o
}

// size is about how many bytes apply writes.
func (o *observing) size() int {
	const record = 2000
	n := (len(o.gone) + len(o.fresh)) * record
	for _, text := range o.fresh {
		n += 8 * len(text)
	}
	return n
}

// apply deletes and stores the memories. A memory that exists already is left as it is: an import
// restores memories before entities, and their links after them.
func (o *observing) apply(t part.Tx, doing string, owner scope.Owner, number uint32) error {
	for _, id := range o.gone {
		m, found, err := t.Memory(owner, id)
		if err == nil && found {
			_, err = t.DeleteMemory(m.Seq)
		}
		if err != nil {
			return err
		}
	}
	for _, id := range slices.Sorted(maps.Keys(o.fresh)) {
		if _, found, err := t.Memory(owner, id); err != nil || found {
			if err != nil {
				return err
			}
			continue
		}
		m, err := t.StoreNew(part.NewMemory{Scope: owner.Scope(), ID: id, Kind: "fragment", Text: o.fresh[id], Pinned: true})
		if err != nil {
			return err
		}
		if err := setLink(t, doing, number, o.entity, m.Seq, linkGiven, t.Now()); err != nil {
			return err
		}
	}
	return nil
}
