package tree

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/seed-7aedc3ff/memdb/memory"
)

const (
	// MaxSegments bounds the names between the slashes of a path.
	MaxSegments = 20
	// Memories is the store of the memory tool: its files are the notes below /memories.
	Memories = "memstore_memories"

	memoriesRoot = "/memories"
	storesRoot   = "/memory_stores/"
)

// rootOf is what the names of the files of a store begin with.
func rootOf(store string) string {
	if store == Memories {
		return memoriesRoot
	}
	return storesRoot + store
}

// MaxPath bounds the paths of a store, in bytes: the name of a note has the root, too.
func MaxPath(store string) int { return memory.MaxID - len(rootOf(store)) }

// CheckPath returns ErrInvalid for what is no path of a file of a store: it begins with a slash and
// has 1 to [MaxSegments] segments, none of them empty, "." or "..", of printable characters in
// Unicode's normal form C, and at most [MaxPath] bytes.
func CheckPath(store, path string) error {
	why := pathFault(store, path)
	if why == nil {
		return nil
	}
	return &memory.Error{Kind: memory.ErrInvalid, What: fmt.Sprintf("use the path %.80q", path), Why: why.Error(), Do: "give one such as /plans/tea.md"}
}

func pathFault(store, path string) error {
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
