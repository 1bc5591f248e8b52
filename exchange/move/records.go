package move

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/seed-7aedc3ff/memdb/exchange"
)

// readJSON reads a list of texts or objects, also under a key, or such values one after another.
func readJSON(in *Input, w *writer) error {
	return eachUnder(in, w, "record", listKeys, w.record)
}

// readLines reads texts or objects, one a line. A line that is malformed is skipped.
func readLines(in *Input, w *writer) error {
	lines := exchange.NewLineReader(in.Reader)
	for {
		raw, err := lines.Next()
		w.read = lines.Bytes()
		at := exchange.LineError{Line: lines.Line()}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, exchange.ErrLongLine):
			err = w.skip(at, err)
		case err != nil:
			return fmt.Errorf("read line %d: %w", at.Line+1, err)
		default:
			err = w.record(at, raw)
		}
		if err != nil {
			return err
		}
	}
}

// listKeys are those that a document may have its list of records under.
var listKeys = []string{"results", "memories", "items", "data", "records", "documents", "result", "result.points", "points"}

// record gives a record of JSON, whatever it stands in: a line of memdb's own, or a text or an object,
// which is a memory by the names of its keys.
func (w *writer) record(at exchange.LineError, raw []byte) error {
	var f fields
	switch raw[0] {
	case '{':
		typ, own := exchange.OwnType(raw)
		w.own = w.own || own && typ == exchange.TypeDatabase
		if own || w.own && typ != "" { // a type of a newer version is no word of a stranger
			return w.item(exchange.Item{At: at, Own: raw, Size: len(raw)})
		}
		var err error
		if f, err = readFields(raw); err != nil {
			return w.skip(at, err)
		}
	case '"':
		if err := exchange.Decode(raw, new(string)); err != nil {
			return w.skip(at, err)
		}
		f = fields{textKeys[0]: raw}
	default:
		_, err := readFields(raw)
		return w.skip(at, err)
	}
	m, err := w.mapping(f, raw[0] == '{')
	if err != nil {
		if raw[0] == '"' {
			err = errors.New("it is an empty text")
		}
		return w.skip(at, err)
	}
	return w.memory(at, m)
}

// eachUnder visits the records of a document: of a list, or of the lists under some keys of an
// object. What an object has beside them is left out. An object without such a list is a record.
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
	s, err := exchange.NewSplitter(in.Reader)
	if err != nil {
		return err
	}
	first, wraps, further := true, false, false
	n := 0
	walk := &walk{Splitter: s}
	walk.enter = func(path string) bool {
		if path == "" {
			c, err := s.Peek()
			if first {
				first, wraps = false, err == nil && c == '{' && wrapsRecords(s.Head(), keys)
			}
			return err == nil && (c == '[' || wraps)
		}
		return wraps && slices.Contains(keys, path)
	}
	walk.visit = func(path string, _ int, raw []byte, err error) error {
		w.read = s.Bytes()
		if strings.HasSuffix(path, offsetKey) || path == nextKey {
			further = further || string(raw) != "null"
			return nil
		}
		key, inList := strings.CutSuffix(path, "[]")
		if !inList && path != "" {
			if string(raw) != "null" && string(raw) != "[]" && string(raw) != "{}" {
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

// wrapsRecords reports whether the object that comes next has a list under one of the keys, as far as
// its begin tells.
func wrapsRecords(head []byte, keys []string) bool {
	return slices.ContainsFunc(topKeys(head), func(k headKey) bool {
		return slices.Contains(keys, k.path) && (k.first == '[' || k.first == '{' && slices.ContainsFunc(keys, func(of string) bool {
			return strings.HasPrefix(of, k.path+".")
		}))
	})
}
