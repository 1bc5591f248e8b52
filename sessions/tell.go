package sessions

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/seed-7aedc3ff/memdb/internal/codec"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/part"
)

// LoggedSession is a session as a change of the log leaves it, as one flat JSON object: it shows the
// positions from First up to, but not including, Next of a content, which is a list of messages
// under a number. After a Save, a Repair or a Compact it may show another content than before.
type LoggedSession struct {
	SessionLine
	ContentID uint32 `json:"content_id"`
	First     uint32 `json:"first"`
	Next      uint32 `json:"next"`
}

// LoggedMessage is a message that a change has written at a position of a content.
type LoggedMessage struct {
	MessageLine
	// ContentID is the number of the content. The position is one of the content, too.
	ContentID uint32 `json:"content_id"`
}

// MarshalJSON writes the line, and the number behind it.
func (l LoggedMessage) MarshalJSON() ([]byte, error) {
	b, err := l.MessageLine.MarshalJSON()
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(b[:len(b)-1], `,"content_id":%d}`, l.ContentID), nil
}

// LoggedMarker is a marker that a change has written before a position of a content.
type LoggedMarker struct {
	MarkerLine
	// ContentID is the number of the content. The position is one of the content, too.
	ContentID uint32 `json:"content_id"`
}

// maxLogged is more messages than a commit can write.
const maxLogged = 1 << 20

var _ part.Teller = (*Part)(nil)

// Tell reads a change of sessions out of the log. Messages are where the change has put them, as
// long as a session can show them.
func (p *Part) Tell(op part.Op, body *codec.Reader) part.Telling {
	if op == opOwner {
		told := part.Told{Op: "session_delete_all", Owner: body.Uint32()}
		return func(part.View, part.Commit) ([]part.Told, error) { return []part.Told{told}, nil }
	}
	at := place{body.Uint32(), body.Uint32()}
	switch op {
	case opSession:
		return tellSession(at, body)
	case opAppend, opWrite:
		content, first, n := body.Uint32(), body.Uint32(), body.Uint32()
		return func(v part.View, of part.Commit) ([]part.Told, error) {
			return tellMessages(v, of.LSN, op, loggedRange{at, content, first, n})
		}
	case opMarker:
		content, position := body.Uint32(), body.Uint32()
		return func(v part.View, of part.Commit) ([]part.Told, error) {
			return tellMarker(v, of.LSN, loggedRange{at, content, position, 1})
		}
	}
	// A commit that removes what no session shows does nothing else, and its bodies have no end of
	// their own.
	body.Take(body.Len())
	return nil
}

// tellSession reads the session as it was stored. Metadata are the only JSON in a body, and an
// object: no operation begins as an object does.
func tellSession(at place, body *codec.Reader) part.Telling {
	h, version := readHead(body)
	if rest := body.Rest(); body.Err() == nil && len(rest) > 0 && rest[0] == '{' {
		d := json.NewDecoder(bytes.NewReader(rest))
		var object json.RawMessage
		if d.Decode(&object) != nil {
			body.Take(body.Len() + 1) // it has no end: the reader fails
			return nil
		}
		h.metadata = object
		body.Take(int(d.InputOffset()))
	}
	return func(part.View, part.Commit) ([]part.Told, error) {
		if version != recordVersion {
			return nil, &fault.Error{Kind: fault.ErrCorrupt, What: "read a session of the log", Why: "its version is unknown"}
		}
		told := part.Told{Op: "session_put", Owner: at.owner, Run: h.name, ID: h.name}
		if !h.live() {
			told.Op = "session_delete"
			return []part.Told{told}, nil
		}
		told.After = LoggedSession{NewSessionLine(h.session(h.metadata)), h.content, h.first, h.next}
		return []part.Told{told}, nil
	}
}

// loggedRange are positions of a content, as the log names them.
type loggedRange struct {
	at             place
	content, first uint32
	n              uint32
}

func tellMessages(v part.View, lsn uint64, op part.Op, r loggedRange) ([]part.Told, error) {
	if r.n > maxLogged {
		return nil, &fault.Error{Kind: fault.ErrCorrupt, What: "read messages of the log", Why: fmt.Sprintf("there would be %d", r.n)}
	}
	word := "session_append"
	if op == opWrite {
		word = "session_write"
	}
	h, err := stored(v, r.at)
	if err != nil {
		return nil, err
	}
	all := make([]part.Told, r.n)
	for i := range all {
		position := r.first + uint32(i)
		told := &all[i]
		*told = part.Told{Op: word, Owner: r.at.owner, Unresolved: true}
		if h == nil {
			continue
		}
		told.Run = h.name
		b, found, err := v.Get(r.at.item(v, kindMessage, r.content, position, lsn))
		if err != nil {
			return nil, err
		}
		if !found {
			continue
		}
		m, err := decodeMessage(b)
		if err == nil {
			err = resolve(v, h.of, r.at, m)
		}
		if err != nil {
			return nil, err
		}
		l := LoggedMessage{NewMessageLine(m), r.content}
		l.Session, l.User, l.Agent, l.Position = h.name, h.of.User, h.of.Agent, new(int(position))
		told.ID, told.After, told.Unresolved = m.ID, l, false
	}
	return all, nil
}

func tellMarker(v part.View, lsn uint64, r loggedRange) ([]part.Told, error) {
	told := part.Told{Op: "session_marker", Owner: r.at.owner, Unresolved: true}
	h, err := stored(v, r.at)
	if err != nil || h == nil {
		return []part.Told{told}, err
	}
	told.Run = h.name
	lower, upper := span(r.at.item(v, kindMarker, r.content, r.first, lsn))
	err = v.Scan(lower, upper, func(_, value []byte) error {
		m, err := decodeMarker(value)
		if err != nil {
			return err
		}
		l := LoggedMarker{NewMarkerLine(m), r.content}
		l.Session, l.User, l.Agent, l.Position = h.name, h.of.User, h.of.Agent, new(int(r.first))
		told.ID, told.After, told.Unresolved = m.ArchiveID, l, false
		return kv.ErrStop
	})
	return []part.Told{told}, err
}
