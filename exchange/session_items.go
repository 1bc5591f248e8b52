package exchange

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/seed-7aedc3ff/memdb/internal/rawjson"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/sessions"
)

// ReadSession reads the messages and markers of a session: a JSON object a line, or a JSON list of
// them. A message may have any form; what no form has is kept. doing is for the error, ErrInvalid,
// which names the line, or the number in the list.
func ReadSession(r io.Reader, doing string) (items []sessions.Item, err error) {
	in := bufio.NewReader(r)
	records, of, err := sessionRecords(in)
	for err == nil {
		var record []byte
		record, err = records.Next()
		if errors.Is(err, io.EOF) {
			return items, nil
		}
		var item sessions.Item
		if err == nil {
			item, err = readSessionItem(record)
		}
		items = append(items, item)
	}
	why := err.Error()
	if records != nil {
		why = fmt.Sprintf("%s %d: %v", of, records.Line(), err)
	}
	return nil, &memory.Error{Kind: memory.ErrInvalid, What: doing, Why: why, Do: "correct it; nothing was saved"}
}

// sessionRecords reads a list where the text begins with one, else lines.
func sessionRecords(in *bufio.Reader) (s source, of string, err error) {
	head, err := in.Peek(peekList)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, "", err
	}
	head = bytes.TrimPrefix(head, []byte("\xef\xbb\xbf"))
	if at := rawjson.SkipSpace(head, 0); at < len(head) && head[at] == '[' {
		return NewDocumentReader(in), "record", nil
	}
	return NewLineReader(in), "line", nil
}

// peekList is how far the begin of a list is looked for, behind blanks.
const peekList = 512

// otherLine reports whether a line of an export has a type that is not part of a conversation.
func otherLine(kind string) bool {
	_, own := ownTypes[kind]
	return own && kind != sessions.TypeMessage && kind != sessions.TypeMarker
}

// readSessionItem reads a message of any form, or, where the type says so, a marker.
func readSessionItem(line []byte) (sessions.Item, error) {
	var of struct {
		Type      any             `json:"type"`
		Role      json.RawMessage `json:"role"`
		ArchiveID json.RawMessage `json:"archive_id"`
	}
	if err := Decode(line, &of); err != nil {
		return sessions.Item{}, err
	}
	kind, _ := of.Type.(string)
	switch {
	case kind == sessions.TypeMarker && of.ArchiveID != nil:
		var l sessions.MarkerLine
		if err := DecodeStrict(line, &l); err != nil {
			return sessions.Item{}, err
		}
		m := l.Marker()
		return sessions.Item{Marker: &m}, nil
	case otherLine(kind) && of.Role == nil:
		return sessions.Item{}, fmt.Errorf("its type is %.40q, and neither message nor marker", kind)
	}
	var m sessions.Message
	err := Decode(line, &m)
	return sessions.Item{Message: &m}, err
}
