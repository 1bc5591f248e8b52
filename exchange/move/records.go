package move

import (
	"errors"
	"fmt"
	"io"

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

// record reads a JSON record of any container: a line of memdb's own, or a text or an object,
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
