package analysis

import (
	"strings"
	"sync"

	"golang.org/x/text/cases"
)

// folders holds casers, which must not be shared.
var folders = sync.Pool{New: func() any { return new(cases.Fold()) }}

// FoldCase makes strings equal that differ only in upper and lower case, as Unicode's full case folding does.
func FoldCase(s string) string {
	for i := range len(s) {
		if s[i] >= 0x80 {
			c := folders.Get().(*cases.Caser)
			defer folders.Put(c)
			return c.String(s)
		}
	}
	return strings.ToLower(s)
}
