// Package embed turns texts into vectors: the interface that every embedder has, and a built-in one that needs no
// model and no download.
//
// The built-in Lexical embedder is lexical, and no more than that: two texts are close when they share words or pieces
// of words. It sees through inflection, compounds and some typing errors; it knows no synonyms and no meaning. A
// learned model behind Embedder finds paraphrases, which this one cannot.
package embed

import "context"

// Embedder turns texts into vectors. It is safe for concurrent use.
type Embedder interface {
	// Embed returns one vector of Dim numbers for each text, in the same order, or an error and no vectors. It may
	// call a network service, and stops when ctx ends.
	Embed(ctx context.Context, texts []string) ([][]float32, error)
	// Dim is the length of the vectors.
	Dim() int
	// Model names what makes the vectors. Vectors of different models are not comparable.
	Model() string
}

// Base returns the address of the server that an Embedder asks, where it has a method Base that
// tells it: a database keeps it beside the model. Empty is the provider's own, or none at all.
func Base(e Embedder) string {
	if at, ok := e.(interface{ Base() string }); ok {
		return at.Base()
	}
	return ""
}
