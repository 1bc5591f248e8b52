package exchange

import (
	"encoding/json"
	"errors"
	"io"
	"iter"
	"strconv"
)

// The items of memdb's own forms, for a dry run: what a line says is looked at, and not what the
// database makes of it.

// Lines are the lines of ImportJSONL, or with document the records of ImportJSON.
func Lines(r io.Reader, document bool) iter.Seq2[Item, error] {
	var records source = NewLineReader(r)
	of := ""
	if document {
		records, of = NewDocumentReader(r), "record"
	}
	return func(yield func(Item, error) bool) {
		for {
			raw, err := records.Next()
			if errors.Is(err, io.EOF) {
				return
			}
			i := Item{At: LineError{Line: records.Line(), Of: of}, Read: records.Bytes()}
			if err != nil && !errors.Is(err, ErrLongLine) {
				yield(i, err)
				return
			}
			if err == nil {
				err = i.look(raw)
			}
			i.At.Err = err
			if i.Kind() != TypeEnd && !yield(i, nil) {
				return
			}
		}
	}
}

// look reads a line as far as a dry run tells of it.
func (i *Item) look(raw []byte) error {
	kind, err := typeOf(raw)
	if err != nil {
		return err
	}
	if kind == "" || kind == TypeMemory {
		m, err := decodeMemory(raw, DecodeKnown)
		i.Memory = &m
		return err
	}
	line := json.RawMessage(append([]byte{}, raw...))
	if err := Decode(line, new(any)); err != nil {
		return err
	}
	i.Type, i.Line = kind, line
	return nil
}

// LocomoItems are the memories of ImportLocomo.
func LocomoItems(r io.Reader) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		for c, err := range ReadLocomo(r) {
			if err != nil {
				yield(Item{}, err)
				return
			}
			for _, t := range c.Turns {
				m := c.Memory(t)
				if !yield(Item{At: LineError{Of: "turn", ID: t.ID}, Memory: &m}, nil) {
					return
				}
			}
		}
	}
}

// VectorItems are the memories of ImportVectors.
func VectorItems(r io.Reader, rows Rows) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		v, err := NewVectorReader(r, rows)
		for err == nil {
			var row []float32
			var at int
			if row, at, err = v.Next(); errors.Is(err, io.EOF) {
				return
			}
			id := strconv.Itoa(at)
			m := rowMemory(id, row)
			if err == nil && !yield(Item{At: LineError{Of: "row", ID: id}, Memory: &m}, nil) {
				return
			}
		}
		yield(Item{}, err)
	}
}
