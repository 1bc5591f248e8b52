package move

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

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

// marshal is a value as JSON, nil for an empty object.
func marshal(m map[string]any) (json.RawMessage, error) {
	if len(m) == 0 {
		return nil, nil
	}
	return json.Marshal(m)
}
