package filter

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
)

// token is a word, a quoted string or a sign of the short text.
type token struct {
	text   string
	quoted bool
}

// value is what the token stands for.
func (t token) value() any {
	if t.quoted {
		return t.text
	}
	switch t.text {
	case "true":
		return true
	case "false":
		return false
	case "null":
		return nil
	}
	var n json.Number
	if json.Unmarshal([]byte(t.text), &n) == nil && n != "" {
		return n
	}
	return t.text
}

// tokens splits the short text.
func tokens(s string) ([]token, error) {
	const (
		space     = " \t\r\n"
		operators = "=!<>"
	)
	var out []token
	for s != "" {
		switch c := s[0]; {
		case strings.IndexByte(space, c) >= 0:
			s = s[1:]
		case c == '"' || c == '\'':
			word, rest, err := unquote(s)
			if err != nil {
				return nil, err
			}
			out, s = append(out, token{word, true}), rest
		case strings.IndexByte("(),", c) >= 0:
			out, s = append(out, token{text: s[:1]}), s[1:]
		default:
			n := strings.IndexAny(s, space+"\"'(),"+operators)
			if n == 0 {
				n = len(s) - len(strings.TrimLeft(s, operators))
			}
			if n < 0 {
				n = len(s)
			}
			out, s = append(out, token{text: s[:n]}), s[n:]
		}
		if len(out) > 4*MaxNodes {
			return nil, fault.Invalid(doing, "it is too long", "split the query")
		}
	}
	return out, nil
}

// escapes are what stands for a character behind a backslash, but for \u.
var escapes = map[byte]byte{'"': '"', '\'': '\'', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// unquote reads the quoted string that a text begins with.
func unquote(s string) (word, rest string, err error) {
	var b strings.Builder
	for i := 1; i < len(s); {
		switch c := s[i]; {
		case c == s[0]:
			return b.String(), s[i+1:], nil
		case c != '\\':
			b.WriteByte(c)
			i++
		case i+1 < len(s) && s[i+1] == 'u':
			r, size, err := escapedRune(s[i:])
			if err != nil {
				return "", "", err
			}
			b.WriteRune(r)
			i += size
		case i+1 < len(s):
			plain, ok := escapes[s[i+1]]
			if !ok {
				_, n := utf8.DecodeRuneInString(s[i+1:])
				return "", "", badEscape("unknown escape", s[i:i+1+n])
			}
			b.WriteByte(plain)
			i += 2
		default:
			i++ // the text ends behind a backslash
		}
	}
	return "", "", fault.Invalid(doing, "a quoted string does not end: "+valid.Short(s), "close the quotes")
}

func badEscape(why, escape string) error {
	return fault.Invalid(doing, fmt.Sprintf("%s %s in a quoted string", why, escape), `write a backslash as \\`)
}

// escapedRune reads \u0041, or two of these that are a surrogate pair.
func escapedRune(s string) (r rune, size int, err error) {
	const one = len(`\u0041`)
	r, ok := hexRune(s)
	switch {
	case !ok:
		return 0, 0, badEscape("incomplete escape", s[:min(one, len(s))])
	case !utf16.IsSurrogate(r):
		return r, one, nil
	}
	low, _ := hexRune(s[one:])
	if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
		return pair, 2 * one, nil
	}
	return 0, 0, badEscape("half a surrogate pair", s[:one])
}

// hexRune reads the number of \u0041.
func hexRune(s string) (rune, bool) {
	digits, ok := strings.CutPrefix(s, `\u`)
	if !ok || len(digits) < 4 {
		return 0, false
	}
	n, err := strconv.ParseUint(digits[:4], 16, 16)
	return rune(n), err == nil
}
