package products

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/seed-7aedc3ff/memdb/memory"
)

const (
	// MaxSegments bounds the names between the slashes of a path.
	MaxSegments = 20
	// Memories is the store of the memory tool: its files are the notes below MemoriesRoot.
	Memories = "memstore_memories"
	// MemoriesRoot is the folder that a model sees with the memory tool.
	MemoriesRoot = "/memories"

	storesRoot = "/memory_stores/"
)

// FileRoot is what the names of the notes that are the files of a store begin with.
func FileRoot(store string) string {
	if store == Memories {
		return MemoriesRoot
	}
	return storesRoot + store
}

// What a note has in its metadata as a file.
const (
	fileField = "file"
	fileID    = "id"
	fileBy    = "by"
	fileEmpty = "empty"

	// EmptyText is the text of a note whose content as a file is empty: a note needs a text.
	EmptyText = "\n"
)

// FieldFileID is the field of a filter for the ID of a file.
const FieldFileID = "metadata." + fileField + "." + fileID

// A File is what a note is as a file of Anthropic's memory tool or of one of its memory stores.
type File struct {
	// Store is [Memories], or the ID of another store.
	Store string
	// Path begins with a slash, below the root of the store.
	Path string
	// Content may be empty.
	Content string
	// ID identifies the file. Empty: the file has the ID of its note, as the first version of a
	// file does.
	ID string
	// By is who stored this version, empty where that is not known.
	By string
}

// Keep makes a note what keeps the file. What else the note has stays.
func (f *File) Keep(m *memory.Memory) {
	m.Kind, m.Name, m.Text = memory.KindNote, FileRoot(f.Store)+f.Path, f.Content
	of := map[string]any{}
	for key, text := range map[string]string{fileID: f.ID, fileBy: f.By} {
		if text != "" {
			of[key] = text
		}
	}
	if f.Content == "" {
		m.Text, of[fileEmpty] = EmptyText, true
	}
	m.Metadata = maps.Clone(m.Metadata)
	if m.Metadata == nil {
		m.Metadata = map[string]any{}
	}
	m.Metadata[fileField] = of
}

// FileOf reads a note as a file of a store.
func FileOf(store string, m *memory.Memory) File {
	f := File{Store: store, Path: strings.TrimPrefix(m.Name, FileRoot(store)), Content: m.Text}
	of, _ := m.Metadata[fileField].(map[string]any)
	f.ID, _ = of[fileID].(string)
	f.By, _ = of[fileBy].(string)
	if empty, _ := of[fileEmpty].(bool); empty && m.Text == EmptyText {
		f.Content = ""
	}
	return f
}

// What the IDs of a file and of a version begin with in the API of memory stores.
const (
	FileMark    = "mem_"
	VersionMark = "memver_"
)

// StoresKey is what the keys of the entries for memory stores begin with: the ID of the store
// follows, and the value is a MemoryStore.
const StoresKey = "memory_stores/"

// TypeMemoryStore is the type of a MemoryStore.
const TypeMemoryStore = "memory_store"

// A MemoryStore is one of Anthropic's memory stores, as its API shows it.
type MemoryStore struct {
	// ID begins with "memstore_", and Type is TypeMemoryStore.
	ID   string `json:"id"`
	Type string `json:"type"`
	// Name and Description are for people, Metadata for programs.
	Name        string            `json:"name"`
	Description string            `json:"description"`
	Metadata    map[string]string `json:"metadata"`
	// ArchivedAt is nil for a store that is in use.
	CreatedAt  time.Time  `json:"created_at"`
	UpdatedAt  time.Time  `json:"updated_at"`
	ArchivedAt *time.Time `json:"archived_at"`
}

// MaxPath bounds the paths of a store, in bytes: the name of a note has the root, too.
func MaxPath(store string) int { return memory.MaxID - len(FileRoot(store)) }

// CheckPath returns ErrInvalid for what is no path of a file of a store: it begins with a slash and
// has 1 to [MaxSegments] segments, none of them empty, "." or "..", of printable characters in
// Unicode's normal form C, and at most [MaxPath] bytes.
func CheckPath(store, path string) error {
	why := PathFault(store, path)
	if why == nil {
		return nil
	}
	return &memory.Error{Kind: memory.ErrInvalid, What: fmt.Sprintf("use the path %.80q", path), Why: why.Error(), Do: "give one such as /plans/tea.md"}
}

// PathFault returns why a path is not one of a file of a store, nil where it is one.
func PathFault(store, path string) error {
	rest, rooted := strings.CutPrefix(path, "/")
	segments := strings.Split(rest, "/")
	switch {
	case !rooted:
		return errors.New("it does not begin with a slash")
	case len(path) > MaxPath(store):
		return fmt.Errorf("it has %d bytes, the limit is %d", len(path), MaxPath(store))
	case !utf8.ValidString(path):
		return errors.New("it is no UTF-8")
	case strings.ContainsFunc(path, hidden):
		return errors.New("it has a control or format character")
	case !norm.NFC.IsNormalString(path):
		return errors.New("it is not in Unicode's normal form C")
	case len(segments) > MaxSegments:
		return fmt.Errorf("it has %d segments, the limit is %d", len(segments), MaxSegments)
	}
	for _, s := range segments {
		switch s {
		case "":
			return errors.New("it has an empty segment")
		case ".", "..":
			return fmt.Errorf("it has the segment %q", s)
		}
	}
	return nil
}

// hidden reports whether a character is a control or format character, or ends a line.
func hidden(r rune) bool { return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) }
