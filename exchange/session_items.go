package exchange

import (
	"errors"
	"fmt"
	"io"

	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/sessions"
)

// ReadSession reads the messages and markers of a session, a JSON object a line. doing is for the
// error, ErrInvalid, which names the line.
func ReadSession(r io.Reader, doing string) (items []sessions.Item, err error) {
	lines := NewLineReader(r)
	for {
		line, err := lines.Next()
		if errors.Is(err, io.EOF) {
			return items, nil
		}
		var item sessions.Item
		if err == nil {
			item, err = readSessionItem(line)
		}
		if err != nil {
			return nil, &memory.Error{
				Kind: memory.ErrInvalid, What: doing, Why: fmt.Sprintf("line %d: %v", lines.Line(), err), Do: "mend the line; nothing was saved",
			}
		}
		items = append(items, item)
	}
}

// readSessionItem reads a message, or, where the type says so, a marker. What a line has beside the
// keys of these would be lost: it is an error that names the key.
func readSessionItem(line []byte) (sessions.Item, error) {
	var of struct {
		Type string `json:"type"`
	}
	if err := Decode(line, &of); err != nil {
		return sessions.Item{}, err
	}
	switch of.Type {
	case "", sessions.TypeMessage:
		var l sessions.MessageLine
		if err := DecodeStrict(line, &l); err != nil {
			return sessions.Item{}, err
		}
		m, err := l.Message()
		return sessions.Item{Message: &m}, err
	case sessions.TypeMarker:
		var l sessions.MarkerLine
		if err := DecodeStrict(line, &l); err != nil {
			return sessions.Item{}, err
		}
		m := l.Marker()
		return sessions.Item{Marker: &m}, nil
	}
	return sessions.Item{}, fmt.Errorf("its type is %.40q, and neither message nor marker", of.Type)
}
