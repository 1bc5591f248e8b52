// Package rawjson walks the members of JSON objects and the elements of JSON lists without
// decoding their values, so that a value is kept byte for byte as it was written.
package rawjson

import (
	"bytes"
	"encoding/json"
	"errors"
)

// ErrMalformed is returned for JSON that is not what the function reads, or that breaks off.
var ErrMalformed = errors.New("malformed JSON")

// Members calls visit with each key of an object and its value, as it is written, until visit
// returns an error. It returns ErrMalformed if b is no object, ends too early, or is wrong
// between its values. It does not check the values.
func Members(b []byte, visit func(key string, value []byte) error) error {
	at := SkipSpace(b, 0)
	if at >= len(b) || b[at] != '{' {
		return ErrMalformed
	}
	at = SkipSpace(b, at+1)
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
		if at = SkipSpace(b, end); at >= len(b) || b[at] != ':' {
			return ErrMalformed
		}
		at = SkipSpace(b, at+1)
		if end = endOfValue(b, at); end == at {
			return ErrMalformed
		}
		if err := visit(key, b[at:end]); err != nil {
			return err
		}
		at = SkipSpace(b, end)
		switch {
		case at < len(b) && b[at] == '}':
			return nil
		case at >= len(b) || b[at] != ',':
			return ErrMalformed
		}
		at = SkipSpace(b, at+1)
	}
}

// Elements calls visit with each element of a list, as it is written, until visit returns an
// error. It returns ErrMalformed if b is no list, ends too early, or is wrong between its
// elements. It does not check the elements.
func Elements(b []byte, visit func(value []byte) error) error {
	at := SkipSpace(b, 0)
	if at >= len(b) || b[at] != '[' {
		return ErrMalformed
	}
	at = SkipSpace(b, at+1)
	if at < len(b) && b[at] == ']' {
		return nil
	}
	for {
		end := endOfValue(b, at)
		if end == at {
			return ErrMalformed
		}
		if err := visit(b[at:end]); err != nil {
			return err
		}
		at = SkipSpace(b, end)
		switch {
		case at < len(b) && b[at] == ']':
			return nil
		case at >= len(b) || b[at] != ',':
			return ErrMalformed
		}
		at = SkipSpace(b, at+1)
	}
}

// String returns the string that a JSON value is, and false if it is no string.
func String(value []byte) (s string, ok bool) {
	if len(value) < 2 || value[0] != '"' {
		return "", false
	}
	s, err := unquote(value)
	return s, err == nil
}

func unquote(b []byte) (string, error) {
	if len(b) >= 2 && bytes.IndexByte(b, '\\') < 0 {
		return string(b[1 : len(b)-1]), nil
	}
	var s string
	err := json.Unmarshal(b, &s)
	return s, err
}

// SkipSpace returns the offset of the first byte at or after at that is no JSON white space.
func SkipSpace(b []byte, at int) int {
	for at < len(b) && (b[at] == ' ' || b[at] == '\t' || b[at] == '\n' || b[at] == '\r') {
		at++
	}
	return at
}

// endOfString returns the offset after the string that begins at at, len(b) if it has no end.
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

// endOfValue returns the offset after the value that begins at at, len(b) if it has no end.
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
