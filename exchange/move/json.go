package move

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/seed-7aedc3ff/memdb/exchange"
)

// errLong is a value over the limit, which was passed by.
var errLong = exchange.ErrLongLine

const splitBuffer = 256 << 10

// A walk visits the values of a document.
type walk struct {
	*exchange.Splitter
	// enter says of a list or an object at a path that its values are visited one by one. The
	// path of a value in the list under a key is "key[]".
	enter func(path string) bool
	// visit takes a value, which is valid until it returns, or errLong in its place. n counts
	// the values of its path, from 1.
	visit func(path string, n int, value []byte, err error) error
	seen  map[string]int
}

// run walks through the document, or several one after another.
func (w *walk) run() error {
	w.seen = map[string]int{}
	for {
		_, err := w.Peek()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = w.value("")
		}
		if err != nil {
			return err
		}
	}
}

func (w *walk) value(path string) error {
	c, err := w.Inside()
	if err != nil {
		return err
	}
	if (c == '{' || c == '[') && w.enter(path) {
		if err := w.Take(c); err != nil {
			return err
		}
		if c == '{' {
			return w.object(path)
		}
		return w.list(path)
	}
	value, err := w.Value()
	if err != nil && !errors.Is(err, errLong) {
		return err
	}
	w.seen[path]++
	return w.visit(path, w.seen[path], value, err)
}

func (w *walk) list(path string) error {
	for first := true; ; first = false {
		more, err := w.More(']', first)
		if err != nil || !more {
			return err
		}
		if err := w.value(path + "[]"); err != nil {
			return err
		}
	}
}

func (w *walk) object(path string) error {
	for first := true; ; first = false {
		more, err := w.More('}', first)
		if err != nil || !more {
			return err
		}
		name, err := w.Value()
		var key string
		if err == nil {
			if err = exchange.Decode(name, &key); err != nil {
				err = w.Malformed(fmt.Errorf("%.40q is no key: %w", name, err))
			}
		}
		if err == nil {
			err = w.Take(':')
		}
		if err != nil {
			return err
		}
		at := key
		if path != "" {
			at = path + "." + key
		}
		if err := w.value(at); err != nil {
			return err
		}
	}
}

// eachUnder visits the records of a document: the values of a list, objects one after another, or the
// lists under some keys of an object. What an object has beside them is left out.
func eachUnder(in *Input, w *writer, of string, keys []string, visit func(at exchange.LineError, raw []byte) error) error {
	return eachOf(in, w, of, keys, w.leave, func(at exchange.LineError, _ string, raw []byte, err error) error {
		if err != nil {
			return w.skip(at, err)
		}
		return visit(at, raw)
	})
}

// eachOf is eachUnder for a reader that wants to know under which key a record is, and what to do
// with a record that is too long and with what an object has beside its lists.
func eachOf(in *Input, w *writer, of string, keys []string, leave func(string, int), visit func(at exchange.LineError, under string, raw []byte, err error) error) error {
	l := in.layout()
	s, err := exchange.NewSplitter(in.Reader)
	if err != nil {
		return err
	}
	under := l.among(keys)
	further := false
	n := 0
	walk := &walk{Splitter: s}
	walk.enter = func(path string) bool {
		if path == "" {
			c, err := s.Peek()
			return err == nil && (c == '[' || len(under) > 0)
		}
		leads := func(list string) bool { return path == list || strings.HasPrefix(list, path+".") }
		return !strings.HasSuffix(path, "[]") && len(under) > 0 && (slices.Contains(keys, path) || slices.ContainsFunc(under, leads))
	}
	walk.visit = func(path string, _ int, raw []byte, err error) error {
		w.read = s.Bytes()
		if strings.HasSuffix(path, offsetKey) || path == nextKey {
			further = further || string(raw) != "null"
			return nil
		}
		key, inList := strings.CutSuffix(path, "[]")
		if !inList && path != "" {
			if text := string(raw); text != "null" && text != "[]" && text != "{}" {
				leave("beside the records: "+key, 1)
			}
			return nil
		}
		n++
		return visit(exchange.LineError{Line: n, Of: of}, key, raw, err)
	}
	err = walk.run()
	if further {
		leave("pages behind the last one", 1)
	}
	return err
}

// offsetKey and nextKey say that there are records which the answer lacks.
const (
	offsetKey = "next_page_offset"
	nextKey   = "next"
)

// isNothing reports whether a value says nothing.
func isNothing(raw []byte) bool {
	switch string(raw) {
	case "", "null", "[]", "{}", `""`:
		return true
	}
	return false
}

// marshal is a value as JSON, nil for an empty object.
func marshal(m map[string]any) (json.RawMessage, error) {
	if len(m) == 0 {
		return nil, nil
	}
	return json.Marshal(m)
}
