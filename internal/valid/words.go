// Package valid checks what callers pass in: words, pages, JSON.
package valid

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
)

const (
	// MaxID bounds an ID, a scope value, a name, an alias and a source, in bytes. Each is
	// stored in full in every version of a memory, and an index key is made of it.
	MaxID = 512
	// MaxLimit bounds how many results a caller asks for in a query or a page.
	MaxLimit = 10_000
)

// Short returns the first 40 bytes of a longer value and an ellipsis, for an error message.
// It may cut a character.
func Short(s string) string {
	const most = 40
	if len(s) <= most {
		return s
	}
	return s[:most] + "…"
}

// Word returns ErrInvalid for a value that is longer than MaxID or that Printable refuses.
// It checks IDs, scope values and names, which end up in logs and command lines. doing and
// what are for the error: the call, and what the value is to it ("user").
func Word(doing, what, s string) error {
	if len(s) > MaxID {
		return fault.Invalid(doing, fmt.Sprintf("its %s is %d bytes long, the limit is %d", what, len(s), MaxID), "shorten it")
	}
	return Printable(doing, what, s)
}

// Printable returns ErrInvalid for a value that is not UTF-8 or has a control character (C0,
// DEL or C1). doing and what are for the error, as in Word.
func Printable(doing, what, s string) error {
	switch {
	case !utf8.ValidString(s):
		return fault.Invalid(doing, fmt.Sprintf("its %s %q is no UTF-8", what, Short(s)), "convert it to UTF-8")
	case strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f || 0x80 <= r && r < 0xa0 }):
		return fault.Invalid(doing, fmt.Sprintf("its %s %q holds a control character", what, Short(s)), "remove it")
	}
	return nil
}

// InvalidAt returns the offset of the first byte that is not UTF-8, or len(s) if there is
// none. An encoded U+FFFD is valid.
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

// Limit returns how many results a caller gets: limit, or the default otherwise for a limit
// of 0. It returns ErrInvalid for a negative limit and for one above MaxLimit.
func Limit(doing string, limit, otherwise int) (int, error) {
	if limit < 0 || limit > MaxLimit {
		return 0, fault.Invalid(doing, fmt.Sprintf("limit is %d", limit), fmt.Sprintf("give a number from 1 to %d, or 0 for %d", MaxLimit, otherwise))
	}
	if limit == 0 {
		limit = otherwise
	}
	return limit, nil
}

// Time refuses an instant outside of the years that RFC 3339 can write, and the millisecond at
// which 1970 begins, which is how it is stored that there is no time.
func Time(doing, what string, t time.Time) error {
	// In Unix milliseconds: the first of year 1 and the last of 9999.
	const first, last = -62135596800000, 253402300799999
	switch ms := t.UnixMilli(); {
	case t.IsZero():
	case ms < first || ms > last:
		return fault.Invalid(doing, "its "+what+" is outside the years 1 to 9999", "check its unit")
	case ms == 0:
		return fault.Invalid(doing, "its "+what+" is the beginning of 1970, which stands for no time", "leave it out, or give a time that is a millisecond away from it")
	}
	return nil
}

// OneOf returns the values as a list for an error message: "a, b or c".
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
