package valid

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// JSON returns an error for bytes that are not UTF-8, and for an escape of half of a
// surrogate pair. encoding/json accepts both and replaces them with U+FFFD, so the caller's
// text would change unnoticed. JSON checks nothing else: b may be malformed JSON. The error
// counts bytes from 1.
func JSON(b []byte) error {
	if !utf8.Valid(b) {
		return fmt.Errorf("invalid UTF-8 at byte %d", InvalidAt(string(b))+1)
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

// escapeSize is the length of an escape such as \u0041, in bytes.
const escapeSize = 6

// escaped returns the UTF-16 code unit of the escape that b begins with, and false where b
// begins with none.
func escaped(b []byte) (rune, bool) {
	if len(b) < escapeSize || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(b[2:escapeSize]), 16, 16)
	return rune(n), err == nil
}

// Depth returns how many lists and objects of a JSON text enclose each other at most: 0 for
// a string, 1 for an empty list. In malformed JSON the part before the mistake counts.
func Depth(b []byte) int {
	depth, deepest := 0, 0
	for d := json.NewDecoder(bytes.NewReader(b)); ; {
		switch t, err := d.Token(); t {
		case json.Delim('['), json.Delim('{'):
			depth++
			deepest = max(deepest, depth)
		case json.Delim(']'), json.Delim('}'):
			depth--
		default:
			if err != nil {
				return deepest
			}
		}
	}
}
