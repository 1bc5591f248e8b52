// Package rawjson looks at JSON before encoding/json reads it, for what that takes in
// silence: halves of surrogate pairs, which it replaces, keys that are given twice, and
// values that are far larger than what becomes of them may be.
package rawjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// ErrMalformed is returned where JSON does not go on as it should.
var ErrMalformed = errors.New("malformed JSON")

// Check returns why JSON holds text that is none: bytes that are no UTF-8, or escapes of
// one half of a surrogate pair.
func Check(b []byte) error {
	if !utf8.Valid(b) {
		return fmt.Errorf("invalid UTF-8 at byte %d", invalidAt(b)+1)
	}
	for at := 0; ; {
		n := bytes.IndexByte(b[at:], '\\')
		if n < 0 {
			return nil
		}
		at += n
		r, ok := escaped(b[at:])
		switch low, paired := rune(0), false; {
		case !ok:
			at += min(2, len(b)-at)
		case !utf16.IsSurrogate(r):
			at += escapeSize
		default:
			if low, paired = escaped(b[at+escapeSize:]); !paired || utf16.DecodeRune(r, low) == utf8.RuneError {
				return fmt.Errorf("half of a surrogate pair at byte %d: %s", at+1, b[at:at+escapeSize])
			}
			at += 2 * escapeSize
		}
	}
}

// escapeSize is the length of \u0000.
const escapeSize = 6

// escaped reads an escape such as \u0041.
func escaped(b []byte) (rune, bool) {
	if len(b) < escapeSize || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(b[2:escapeSize]), 16, 16)
	return rune(n), err == nil
}

// invalidAt is where the first byte that is no UTF-8 stands.
func invalidAt(b []byte) int {
	at := 0
	for {
		r, n := utf8.DecodeRune(b[at:])
		if r == utf8.RuneError && n <= 1 {
			return at
		}
		at += n
	}
}

// Depth is how deep JSON nests: 0 for a string, 1 for an empty list.
func Depth(b []byte) int {
	depth, deepest := 0, 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			i = endOfString(b, i) - 1
		case '[', '{':
			depth++
			deepest = max(deepest, depth)
		case ']', '}':
			depth--
		}
	}
	return deepest
}

// Object calls visit with the keys of an object and their values, as they are written,
// until it returns an error. ErrMalformed tells that it is no object, or that it ends
// too early or is wrong between its values; what is wrong within a value is not told.
func Object(b []byte, visit func(key string, value []byte) error) error {
	at := skipSpace(b, 0)
	if at >= len(b) || b[at] != '{' {
		return ErrMalformed
	}
	at = skipSpace(b, at+1)
	if at < len(b) && b[at] == '}' {
		return nil
	}
	for {
		if at >= len(b) || b[at] != '"' {
			return ErrMalformed
		}
		end := endOfString(b, at)
		key, err := unquote(b[at:end])
		if err != nil {
			return ErrMalformed
		}
		if at = skipSpace(b, end); at >= len(b) || b[at] != ':' {
			return ErrMalformed
		}
		at = skipSpace(b, at+1)
		if end = endOfValue(b, at); end == at {
			return ErrMalformed
		}
		if err := visit(key, b[at:end]); err != nil {
			return err
		}
		at = skipSpace(b, end)
		switch {
		case at < len(b) && b[at] == '}':
			return nil
		case at >= len(b) || b[at] != ',':
			return ErrMalformed
		}
		at = skipSpace(b, at+1)
	}
}

func unquote(b []byte) (string, error) {
	if len(b) >= 2 && bytes.IndexByte(b, '\\') < 0 {
		return string(b[1 : len(b)-1]), nil
	}
	var s string
	err := json.Unmarshal(b, &s)
	return s, err
}

func skipSpace(b []byte, at int) int {
	for at < len(b) && (b[at] == ' ' || b[at] == '\t' || b[at] == '\n' || b[at] == '\r') {
		at++
	}
	return at
}

// endOfString is where a string ends that begins at a place, or the JSON does.
func endOfString(b []byte, at int) int {
	for at++; at < len(b); {
		n := bytes.IndexByte(b[at:], '"')
		if n < 0 {
			break
		}
		escapes := 0
		for i := at + n - 1; i >= at && b[i] == '\\'; i-- {
			escapes++
		}
		at += n + 1
		if escapes%2 == 0 {
			return at
		}
	}
	return len(b)
}

// endOfValue is where a value ends that begins at a place, or the JSON does.
func endOfValue(b []byte, at int) int {
	depth := 0
	for at < len(b) {
		switch b[at] {
		case '"':
			if at = endOfString(b, at); depth == 0 {
				return at
			}
			continue
		case '[', '{':
			depth++
		case ']', '}':
			if depth == 0 {
				return at
			}
			if depth--; depth == 0 {
				return at + 1
			}
		case ',', ' ', '\t', '\n', '\r':
			if depth == 0 {
				return at
			}
		}
		at++
	}
	return at
}
