// Package mention finds in a text which things it speaks of: people, places, dates, handles,
// and how they are related. It has the interface that every extractor of entities fits, and
// [Rules], an extractor that needs no model.
package mention

import (
	"context"
	"strings"
	"unicode/utf8"
)

// The limits of an extraction.
const (
	// MaxText bounds a text, in bytes: what a model reads at once.
	MaxText = 1 << 20
	// MaxEntities and MaxRelations bound what is taken of one text.
	MaxEntities  = 256
	MaxRelations = 1024
	// MaxName bounds a name and a kind of relation, MaxDescription a description, in bytes.
	MaxName        = 256
	MaxDescription = 1024
)

// Date is the type of a day, a month or a year, which [Rules] finds.
const Date = "date"

// Types are those that models are asked for. An entity may have one of them, or Date.
var Types = []string{"person", "organization", "concept", "location", "event", "technology", "product"}

// Entity is a thing that a text speaks of.
type Entity struct {
	// Name is what the text calls it.
	Name        string `json:"name"`
	Type        string `json:"type"` // one of Types, or Date
	Description string `json:"description,omitempty"`
}

// Relation holds from one entity to another; both are named as the entities are.
type Relation struct {
	// Source is the name of the entity that it goes from.
	Source   string `json:"source"`
	Relation string `json:"relation"` // in the form works_at
	Target   string `json:"target"`
}

// Found is what a text holds. Each entity is there once, by its name whatever its case, and
// each relation once.
type Found struct {
	// Entities and Relations are what the text speaks of.
	Entities  []Entity
	Relations []Relation
	// Skipped says what an extractor came upon and left out, and why.
	Skipped []string
}

// Extractor finds the entities of a text. It may be called by several goroutines at once.
// [Rules] is one; services/extract has one that asks a language model.
type Extractor interface {
	// Name names the extractor in errors and plans.
	Name() string
	// Extract returns what a text of at most MaxText bytes of UTF-8 holds.
	Extract(ctx context.Context, text string) (Found, error)
}

// Fold is the form by which names are compared.
func Fold(name string) string { return strings.ToLower(name) }

// Clean trims a name and joins its spaces: empty for one that cannot be used, since nothing is
// left of it or it has more bytes than most.
func Clean(name string, most int) string {
	name = strings.Join(strings.Fields(name), " ")
	if len(name) > most || !utf8.ValidString(name) {
		return ""
	}
	return name
}

// Head is the beginning of a text that extractors read.
func Head(text string) string {
	if len(text) <= MaxText {
		return text
	}
	end := MaxText
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}
