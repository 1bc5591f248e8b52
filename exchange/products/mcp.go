package products

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// The reference memory server takes any text for a name or a type. The graph of memdb wants
// printable ones of limited length, and for relations not empty ones. A name that the graph does
// not take gets an ID that follows from it, and the name itself is a property of [mcpWords]; so
// are such types, and the names of the ends of a relation.

// A Node is an entity of the reference memory server.
type Node struct {
	// Name is what relations call it, Type the kind of thing; either may be any text.
	Name, Type string
	// Observations are texts about it.
	Observations []string
	// More has the keys of other programs. They are properties of the entity.
	More map[string]json.RawMessage
}

// An Arc is a relation of the reference memory server, between entities by their names.
type Arc struct {
	// From and To are names, Type the kind of relation; each may be any text.
	From, To, Type string
	// More is as of a Node.
	More map[string]json.RawMessage
}

// mcpField is the property for the words that the graph does not take.
const mcpField = "mcp"

type mcpWords struct {
	Name *string `json:"name,omitempty"`
	Type *string `json:"type,omitempty"`
	From *string `json:"from,omitempty"`
	To   *string `json:"to,omitempty"`
}

// mcpOwn are the properties that are translated.
type mcpOwn struct {
	Observations []string  `json:"observations,omitempty"`
	Order        int64     `json:"order,omitempty"`
	Words        *mcpWords `json:"mcp,omitempty"`
}

// Reserved reports whether a key of another program cannot be a property, because the translation
// uses it.
func Reserved(key string) bool {
	return key == graph.Observations || key == graph.Order || key == mcpField
}

const (
	nameMark = "mcp-name-" // begins IDs that follow from names
	typeMark = "mcp-type-" // and types that follow from types
)

func hashed(mark, word string) string {
	sum := sha256.Sum256([]byte(word))
	return mark + hex.EncodeToString(sum[:16])
}

// storable reports whether the graph takes a word as it is.
func storable(word string) bool {
	return word != "" && len(word) <= memory.MaxID && utf8.ValidString(word) && !strings.ContainsFunc(word, unicode.IsControl)
}

// NodeID returns the ID of the entity with a name.
func NodeID(name string) string {
	if storable(name) && !strings.HasPrefix(name, nameMark) {
		return name
	}
	return hashed(nameMark, name)
}

func relationType(typ string) string {
	if storable(typ) && !strings.HasPrefix(typ, typeMark) && !strings.HasPrefix(typ, graph.InversePrefix) {
		return typ
	}
	return hashed(typeMark, typ)
}

// kept returns the word where what is kept differs from it.
func kept(word, as string) *string {
	if word == as {
		return nil
	}
	return &word
}

// Entity returns the entity that keeps the node. order is its place among the others.
func (n *Node) Entity(order int64) (graph.Entity, error) {
	e := graph.Entity{ID: NodeID(n.Name), Name: n.Name, Type: n.Type}
	if e.ID != n.Name {
		e.Name = ""
	}
	if n.Type != "" && !storable(n.Type) {
		e.Type = ""
	}
	own := mcpOwn{Observations: n.Observations, Order: order}
	if w := (mcpWords{Name: kept(n.Name, e.ID), Type: kept(n.Type, e.Type)}); w != (mcpWords{}) {
		own.Words = &w
	}
	var err error
	e.Properties, err = withMore(own, n.More)
	return e, err
}

// Relation returns the relation that keeps the arc. order is its place among the others.
func (a *Arc) Relation(order int64) (graph.Relation, error) {
	r := graph.Relation{From: NodeID(a.From), Type: relationType(a.Type), To: NodeID(a.To)}
	own := mcpOwn{Order: order}
	if w := (mcpWords{From: kept(a.From, r.From), To: kept(a.To, r.To), Type: kept(a.Type, r.Type)}); w != (mcpWords{}) {
		own.Words = &w
	}
	var err error
	r.Properties, err = withMore(own, a.More)
	return r, err
}

// withMore returns properties with the keys of other programs.
func withMore(own mcpOwn, more map[string]json.RawMessage) (json.RawMessage, error) {
	b, err := json.Marshal(own)
	if err != nil || len(more) == 0 {
		return b, err
	}
	all := map[string]json.RawMessage{}
	if err := json.Unmarshal(b, &all); err != nil {
		return nil, err
	}
	for key, value := range more {
		if Reserved(key) {
			return nil, fmt.Errorf("the key %q cannot be a property", key)
		}
		all[key] = value
	}
	return json.Marshal(all)
}

// read reads properties; others than these functions may have written something else.
func read(properties json.RawMessage) (own mcpOwn, words mcpWords, more map[string]json.RawMessage) {
	_ = json.Unmarshal(properties, &more) // nothing where there are none
	for key, to := range map[string]any{graph.Observations: &own.Observations, graph.Order: &own.Order, mcpField: &words} {
		if raw, ok := more[key]; ok && json.Unmarshal(raw, to) == nil {
			delete(more, key)
		}
	}
	return own, words, more
}

func word(kept *string, as string) string {
	if kept != nil {
		return *kept
	}
	return as
}

// NodeOf reads an entity as a node. ok is false for an entity that exists only as the end of a relation.
// order is its place among the others, and the time of its creation where it has none.
func NodeOf(e *graph.Entity) (n Node, order int64, ok bool) {
	own, words, more := read(e.Properties)
	n = Node{Name: word(words.Name, e.ID), Type: word(words.Type, e.Type), Observations: own.Observations, More: more}
	if n.Observations == nil {
		n.Observations = []string{}
	}
	return n, cmp.Or(own.Order, e.CreatedAt.UnixMicro()), e.Name != "" || e.Type != "" || words != (mcpWords{})
}

// ArcOf reads a relation as an arc. order is as of NodeOf.
func ArcOf(r *graph.Relation) (a Arc, order int64) {
	own, words, more := read(r.Properties)
	return Arc{From: word(words.From, r.From), To: word(words.To, r.To), Type: word(words.Type, r.Type), More: more}, cmp.Or(own.Order, r.CreatedAt.UnixMicro())
}

// Observed returns properties whose observations take the place of those of an entity.
func Observed(observations []string) (json.RawMessage, error) {
	return json.Marshal(map[string][]string{graph.Observations: observations})
}
