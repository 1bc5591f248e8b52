package exchange

import (
	"bytes"
	"encoding/json"
	"errors"
)

// errMalformed is returned where JSON does not go on as it should.
var errMalformed = errors.New("malformed JSON")

// eachMember calls visit with the keys of an object and their values, as they are written,
// until it returns an error. errMalformed tells that it is no object, or that it ends
// too early or is wrong between its values; what is wrong within a value is not told.
func eachMember(b []byte, visit func(key string, value []byte) error) error {
	at := skipSpace(b, 0)
	if at >= len(b) || b[at] != '{' {
		return errMalformed
	}
	at = skipSpace(b, at+1)
	if at < len(b) && b[at] == '}' {
		return nil
	}
	for {
		if at >= len(b) || b[at] != '"' {
			return errMalformed
		}
		end := endOfString(b, at)
		key, err := unquote(b[at:end])
		if err != nil {
			return errMalformed
		}
		if at = skipSpace(b, end); at >= len(b) || b[at] != ':' {
			return errMalformed
		}
		at = skipSpace(b, at+1)
		if end = endOfValue(b, at); end == at {
			return errMalformed
		}
		if err := visit(key, b[at:end]); err != nil {
			return err
		}
		at = skipSpace(b, end)
		switch {
		case at < len(b) && b[at] == '}':
			return nil
		case at >= len(b) || b[at] != ',':
			return errMalformed
		}
		at = skipSpace(b, at+1)
	}
}

// eachItem calls visit with the items of a list, as they are written.
func eachItem(b []byte, visit func(item []byte) error) error {
	at := skipSpace(b, 0)
	if at >= len(b) || b[at] != '[' {
		return errMalformed
	}
	for at = skipSpace(b, at+1); at < len(b) && b[at] != ']'; at = skipSpace(b, at) {
		end := endOfValue(b, at)
		if end == at {
			return errMalformed
		}
		if err := visit(b[at:end]); err != nil {
			return err
		}
		if at = skipSpace(b, end); at < len(b) && b[at] == ',' {
			at++
		}
	}
	return nil
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
