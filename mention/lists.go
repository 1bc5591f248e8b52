package mention

import (
	"compress/gzip"
	_ "embed"
	"io"
	"strings"
	"sync"
)

// lists holds three lists of small letters, a word or a name a line, with an empty line after
// each: the common words of English, given names, and places. lists/README.md says where they
// come from.
//
//go:embed lists/lists.txt.gz
var lists string

// A listed says in which lists a name is.
type listed uint8

const (
	commonWord listed = 1 << iota
	givenName
	placeName
)

// listing is the lists by their names; it takes about 2 MB and 5 ms, once a process.
var listing = sync.OnceValue(unpacked)

// unpacked are the lists as they are embedded.
func unpacked() map[string]listed {
	names := make(map[string]listed, 1<<15)
	r, err := gzip.NewReader(strings.NewReader(lists))
	if err != nil {
		return names // never: a test reads it
	}
	text, err := io.ReadAll(r)
	if err != nil {
		return names
	}
	list := commonWord
	for name := range strings.SplitSeq(strings.TrimSuffix(string(text), "\n"), "\n") {
		if name == "" {
			list <<= 1
			continue
		}
		names[name] |= list
	}
	return names
}

// is reports whether a folded name is in a list.
func (l listed) is(list listed) bool { return l&list != 0 }
