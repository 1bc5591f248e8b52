// Package valid checks what callers pass in: words, pages, JSON.
package valid

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
)

const (
	// MaxID bounds an ID, a scope value, a name, an alias and a source, in
	// bytes: they are stored in full, and hashed or ordered in keys.
	MaxID = 512
	// MaxLimit bounds the limit of a query or a page.
	MaxLimit = 10_000
)

// Short shortens a value for an error message.
func Short(s string) string {
	const most = 40
	if len(s) <= most {
		return s
	}
	return s[:most] + "…"
}

// Word checks an ID, a scope value, a name: what goes into keys, logs and
// command lines, so no control characters.
func Word(doing, what, s string) error {
	if len(s) > MaxID {
		return fault.Invalid(doing, fmt.Sprintf("its %s is %d bytes long, the limit is %d", what, len(s), MaxID), "shorten it")
	}
	return Printable(doing, what, s)
}

// Printable refuses control characters and what is no UTF-8.
func Printable(doing, what, s string) error {
	switch {
	case !utf8.ValidString(s):
		return fault.Invalid(doing, fmt.Sprintf("its %s %q is no UTF-8", what, Short(s)), "convert it to UTF-8")
	case strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f || 0x80 <= r && r < 0xa0 }):
		return fault.Invalid(doing, fmt.Sprintf("its %s %q holds a control character", what, Short(s)), "remove it")
	}
	return nil
}

// InvalidAt is the offset of the first byte that is no UTF-8.
func InvalidAt(s string) int {
	for i, r := range s {
		if r == utf8.RuneError {
			if _, n := utf8.DecodeRuneInString(s[i:]); n == 1 {
				return i
			}
		}
	}
	return len(s)
}

// Limit is the size of a page: 0 stands for a default.
func Limit(doing string, limit, otherwise int) (int, error) {
	if limit < 0 || limit > MaxLimit {
		return 0, fault.Invalid(doing, fmt.Sprintf("limit is %d", limit), fmt.Sprintf("give a number from 1 to %d, or 0 for %d", MaxLimit, otherwise))
	}
	if limit == 0 {
		limit = otherwise
	}
	return limit, nil
}

// OneOf writes a choice: a, b or c.
func OneOf[S ~string](of []S) string {
	var b strings.Builder
	for i, s := range of {
		switch i {
		case 0:
		case len(of) - 1:
			b.WriteString(" or ")
		default:
			b.WriteString(", ")
		}
		b.WriteString(string(s))
	}
	return b.String()
}
