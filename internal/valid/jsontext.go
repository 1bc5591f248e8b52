package valid

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// JSON returns why JSON holds text that is none: bytes that are no UTF-8, or escapes
// of one half of a surrogate pair. encoding/json replaces both in silence.
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

// Depth is how deep JSON nests: 0 for a string, 1 for an empty list.
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
