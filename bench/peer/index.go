package peer

import "context"

// Mode says how the words of an [Ask] are joined.
type Mode string

// What an Ask may look for.
const (
	Any    Mode = "any"    // a document with any of the words, the best first
	All    Mode = "all"    // a document with every word
	Phrase Mode = "phrase" // a document with the words one after the other
)

// Ask is a question to an Index.
type Ask struct {
	Mode  Mode
	Scope string // empty is every document
	Text  string // plain words
	K     int
}

// Index is an engine that finds documents by their words and need not keep their
// texts. IDs are decimal numbers.
type Index interface {
	// Add stores a batch; when it returns, the batch survives a crash.
	Add(ctx context.Context, docs []Document) error
	// Settle does what the engine does in the background or at leisure to make
	// queries fast. It is called once, after the last Add.
	Settle(ctx context.Context) error
	// Find returns the IDs of the best documents, best first.
	Find(ctx context.Context, ask Ask) ([]string, error)
	// Bytes is the size of the index on disk.
	Bytes() (int64, error)
	Close() error
}

// An IndexOpener makes an empty index in a folder.
type IndexOpener struct {
	Name string
	// Missing says why this build cannot open it, and is empty where it can.
	Missing string
	// Modes are what it can be asked.
	Modes []Mode
	Open  func(dir string) (Index, error)
}

// Indexes lists the engines that find documents by their words. Bleve comes twice:
// phrases need positions, which make the rest of it larger and slower.
func Indexes() []IndexOpener {
	all := []Mode{Any, All, Phrase}
	return []IndexOpener{
		{Name: "bleve", Modes: []Mode{Any, All}, Open: func(dir string) (Index, error) { return openBleveIndex(dir, false) }},
		{Name: "bleve-positions", Modes: []Mode{Phrase}, Open: func(dir string) (Index, error) { return openBleveIndex(dir, true) }},
		{Name: "fts5-modernc", Modes: all, Open: func(dir string) (Index, error) { return openFTS5("sqlite", dir) }},
		{Name: mattn.Name, Missing: mattn.Missing, Modes: all, Open: func(dir string) (Index, error) { return openFTS5("sqlite3", dir) }},
	}
}
