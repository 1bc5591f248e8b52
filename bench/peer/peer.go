// Package peer makes other engines do what memdb does, so that both can be
// measured in one run.
//
// Each peer is set up as its own documentation recommends for the work: durable
// batches, its best analyzer for English, the text kept so that a hit can be
// shown, and nothing indexed that the work does not need.
package peer

import "context"

// Document is a text that an engine keeps and finds again.
type Document struct {
	ID    string
	Scope string // who it belongs to: a query names one scope
	Text  string
}

// Text is an engine that ranks texts by their words.
type Text interface {
	// Add stores a batch; when it returns, the batch survives a crash.
	Add(ctx context.Context, docs []Document) error
	// Search returns the IDs of the k best documents of a scope, best first. The
	// query is any text, of which each word may match.
	Search(ctx context.Context, scope, query string, k int) ([]string, error)
	Close() error
}

// An Opener makes an empty engine in a folder.
type Opener struct {
	Name string
	// Missing says why this build cannot open it, and is empty where it can.
	Missing string
	Open    func(dir string) (Text, error)
}

// Texts lists the engines that rank texts.
func Texts() []Opener {
	return []Opener{
		{Name: "bleve", Open: OpenBleve},
		{Name: "fts5-modernc", Open: func(dir string) (Text, error) { return openSQLite("sqlite", dir) }},
		mattn,
	}
}
