// Package graphs says what a memory of facts asks of a store of entities and relations, so
// that the graph of a conversation may lie in memdb's own graph or in another database. Stores
// are packages below it.
//
// # Model
//
// An entity is what a conversation speaks of: a name, a type, a description. Within the owner
// and the run of the conversation a name is one entity, however it is capitalised. Relations go
// from entity to entity. An entity is linked to the facts that tell of it, and goes with the last
// of them. A store touches what it has made itself, and nothing else of its database.
package graphs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"unicode"

	"github.com/seed-7aedc3ff/memdb/scope"
)

// The kinds of errors of a store in another database.
var (
	// ErrGraph: the database cannot be reached, or failed. The same call may succeed later.
	ErrGraph = errors.New("the graph store failed")
	// ErrRefused: the database does not take the call, and will not take it later.
	ErrRefused = errors.New("the graph store refused the call")
)

const (
	// MaxReached bounds the entities that Around goes to, their facts, and the relations of
	// each of them.
	MaxReached = 200
	// maxQueryWords bounds the words of a text that names are looked for by.
	maxQueryWords = 64
)

// Entity is what a conversation speaks of.
type Entity struct {
	// Name is what the entity is known by, Type the kind of thing, Description what was said of it.
	Name        string `json:"name"`
	Type        string `json:"type"`
	Description string `json:"description,omitempty"`
}

// Relation is a relation between two entities, by their names.
type Relation struct {
	// Source and Target are names of entities, Relation is the kind of relation.
	Source   string `json:"source"`
	Relation string `json:"relation"`
	Target   string `json:"target"`
}

// Fact is a fact that entities may be linked to.
type Fact struct {
	// ID is the fact's.
	ID    string      `json:"id"`
	Scope scope.Scope `json:"scope"` // that it was stored with
	Text  string      `json:"text,omitempty"`
	// Before is the text that it had before it was changed.
	Before string `json:"before,omitempty"`
}

// Change is what a call of a memory of facts does to the graph. It may be applied twice.
type Change struct {
	// Scope is that of the conversation: its entities are of this owner and run. Told are the
	// facts of this owner that the conversation has added, changed or confirmed. An entity is
	// linked to those that have its name, or to all where none has it.
	Scope     scope.Scope `json:"scope"`
	Entities  []Entity    `json:"entities,omitempty"`
	Relations []Relation  `json:"relations,omitempty"`
	Told      []Fact      `json:"told,omitempty"`
	// Retold are facts whose text has changed: links to entities that the text no longer has
	// are removed.
	Retold []Fact `json:"retold,omitempty"`
	// Gone are facts that were deleted.
	Gone []Fact `json:"gone,omitempty"`
}

// Empty reports whether a change changes nothing. Entities without a fact are not stored.
func (c *Change) Empty() bool {
	return (len(c.Entities) == 0 || len(c.Told) == 0) && len(c.Retold) == 0 && len(c.Gone) == 0
}

// Applied is what became of the relations of a change.
type Applied struct {
	// Taken are the relations that went.
	Taken []Relation
	Lost  []Relation // those with an end that is no entity
}

// Selection is a part of the graph: what was made in a scope. Parts that the scope leaves empty
// may be anything; with Exact they must be empty.
type Selection struct {
	// Scope says whose; Exact: nobody else's that it matches.
	Scope scope.Scope `json:"scope"`
	Exact bool        `json:"exact,omitempty"`
	All   bool        `json:"all,omitempty"` // everything that the store has made; Scope is empty
}

// Holds reports whether what was made in a scope is in the selection.
func (s *Selection) Holds(of scope.Scope) bool {
	if s.All || s.Scope == of {
		return true
	}
	within := func(asked, is string) bool { return asked == "" || asked == is }
	return !s.Exact && within(s.Scope.User, of.User) && within(s.Scope.Agent, of.Agent) && within(s.Scope.Run, of.Run)
}

// Near is what lies around the names of a text.
type Near struct {
	Names     []string   // of the entities
	Facts     []string   // IDs of facts that they are linked to, at most MaxReached
	Relations []Relation // between the entities
}

// Store keeps a graph. It is safe for use by several goroutines, unless it is bound to a
// transaction. Errors are those of the context, of memdb, or of the kinds of this package.
type Store interface {
	// Apply makes a change: all of it, or nothing that a second call would not complete.
	Apply(ctx context.Context, c Change) (Applied, error)
	// Around finds the entities of a selection whose names stand in a text, and those that one
	// relation leads to or comes from.
	Around(ctx context.Context, s Selection, text string) (Near, error)
	// Delete deletes the entities of a selection, with their relations and links.
	Delete(ctx context.Context, s Selection) error
}

// OneLine is a name or a text in one line.
func OneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// Fold is a name as it is compared.
func Fold(name string) string { return strings.ToLower(OneLine(name)) }

// Key is what a name is told apart by within an owner and a run: 32 hexadecimal digits.
func Key(run, name string) string {
	sum := sha256.Sum256([]byte(run + "\x00" + Fold(name)))
	return hex.EncodeToString(sum[:16])
}

// Words are the words of a text in lower case.
func Words(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) })
}

// Spaced is the words of a text in lower case, each between spaces.
func Spaced(text string) string { return " " + strings.Join(Words(text), " ") + " " }

// SpeaksOf reports whether a text has a name, as whole words.
func SpeaksOf(text, name string) bool { return strings.Contains(Spaced(text), Spaced(name)) }

// QueryWords are the words of a text that names are looked for by, each once.
func QueryWords(text string) []string {
	words := Words(text)
	slices.Sort(words)
	words = slices.Compact(words)
	return words[:min(len(words), maxQueryWords)]
}

// About are the facts that an entity is linked to: those that have its name, or all.
func About(name string, told []Fact) []Fact {
	about := slices.DeleteFunc(slices.Clone(told), func(f Fact) bool { return !SpeaksOf(f.Text, name) })
	if len(about) == 0 {
		return told
	}
	return about
}

// LeftBehind reports whether the text of a fact had a name and no longer has it.
func LeftBehind(f *Fact, name string) bool {
	return SpeaksOf(f.Before, name) && !SpeaksOf(f.Text, name)
}
