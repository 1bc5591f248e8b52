package recovery

import (
	"slices"
	"strings"

	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/part"
)

// Kept says what the keys of a kind are, and whether they are more than what can be made again
// from others.
func Kept(parts []part.Part, kind byte) (what string, counts bool) {
	for _, p := range parts {
		for _, k := range p.Kinds() {
			if byte(k) == kind {
				return p.Name(), true
			}
		}
	}
	switch kind {
	case layout.KindRecord:
		return "memories", true
	case layout.KindVector:
		return "vectors", true
	case layout.KindHistory:
		return "deaths of memories", true
	case layout.KindStats:
		return "access statistics", true
	case layout.KindName:
		return "names", true
	case layout.KindLog:
		return "the log of changes", true
	case layout.KindRange, layout.KindTombstone:
		return "deletes", true
	case layout.KindForward, layout.KindRows, layout.KindText, layout.KindDedup, layout.KindID, layout.KindPending, layout.KindCounter:
		return "indexes", false
	case layout.IdentityKey[0]:
		return "settings of the store", true
	}
	return "", false // no key has this kind
}

// Between says what lay between two keys.
func Between(parts []part.Part, from, to []byte) (what string, counts bool) {
	if len(from) == 0 && len(to) == 0 {
		return "everything in a file of the store", true
	}
	first, last := 0, 0xff // a bound that is not known is that of all keys
	if len(from) > 0 {
		first = int(from[0])
	}
	if len(to) > 0 {
		last = int(to[0])
	}
	var names []string
	for kind := first; kind <= last; kind++ {
		if name, is := Kept(parts, byte(kind)); is {
			counts = true
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return strings.Join(names, ", "), counts
}
