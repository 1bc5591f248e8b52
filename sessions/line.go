package sessions

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/messages"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// The types of the lines of an export: a session, and behind it, in their order, its
// messages and markers.
const (
	TypeSession = "session"
	TypeMessage = "message"
	TypeMarker  = "marker"
)

// SessionLine is a session as one flat JSON object. When read, the number of messages is ignored.
type SessionLine struct {
	Type        string          `json:"type"`
	Session     string          `json:"session"`
	User        string          `json:"user"`
	Agent       string          `json:"agent"`
	Channel     string          `json:"channel"`
	Metadata    json.RawMessage `json:"metadata,omitempty"`
	Messages    int             `json:"messages"`
	Compactions int             `json:"compactions"`
	CreatedAt   clock.Instant   `json:"created_at"`
	UpdatedAt   clock.Instant   `json:"updated_at"`
	Closed      bool            `json:"closed"`
	Archived    bool            `json:"archived,omitempty"`
}

// NewSessionLine is the line of a session.
func NewSessionLine(s Session) SessionLine {
	return SessionLine{
		Type: TypeSession, Session: s.Session, User: s.User, Agent: s.Agent, Channel: s.Channel, Metadata: s.Metadata,
		Messages: s.Messages, Compactions: s.Compactions, CreatedAt: clock.Instant{Time: s.CreatedAt},
		UpdatedAt: clock.Instant{Time: s.UpdatedAt}, Closed: s.Closed, Archived: s.Archived,
	}
}

// MessageLine is a message as one flat JSON object. Session, User and Agent are in an
// export only, and so is Position: the how-manieth it is of its session, from 0 on.
//
// It is read from a message of any form that internal/messages knows, and from others: keys that it
// has no field for are in Extra. They are written beside its own keys, in front of "memory_id". Those
// with the name of a key of its own, such as a "type", are written in an object under "foreign".
type MessageLine struct {
	Type       string          `json:"type"`
	Session    string          `json:"session,omitempty"`
	User       string          `json:"user,omitempty"`
	Agent      string          `json:"agent,omitempty"`
	Position   *int            `json:"position,omitempty"`
	ID         string          `json:"id"`
	Role       string          `json:"role"`
	Name       string          `json:"name,omitempty"`
	Text       string          `json:"text"`
	Parts      json.RawMessage `json:"parts,omitempty"`
	ToolCalls  json.RawMessage `json:"tool_calls,omitempty"`
	ToolCallID string          `json:"tool_call_id,omitempty"`
	Extra      json.RawMessage `json:"-"`
	MemoryID   string          `json:"memory_id"`
	MemoryIDs  []string        `json:"memory_ids,omitempty"` // where there are several
	At         clock.Instant   `json:"at"`
	Orphan     bool            `json:"orphan"`
}

// NewMessageLine is the line of a message.
func NewMessageLine(m *Message) MessageLine {
	l := MessageLine{
		Type: TypeMessage, ID: m.ID, Role: m.Role, Name: m.Name, Text: m.Text, Parts: m.Parts, ToolCalls: m.ToolCalls,
		ToolCallID: m.ToolCallID, Extra: m.Extra, MemoryID: m.MemoryID(), At: clock.Instant{Time: m.At}, Orphan: m.Orphan,
	}
	if len(m.MemoryIDs) > 1 {
		l.MemoryIDs = m.MemoryIDs
	}
	return l
}

// Message is the message of the line, as it is taken by Save.
func (l *MessageLine) Message() Message {
	m := Message{
		ID: l.ID, Role: l.Role, Name: l.Name, Text: l.Text, Parts: l.Parts, ToolCalls: l.ToolCalls,
		ToolCallID: l.ToolCallID, Extra: l.Extra, MemoryIDs: l.MemoryIDs, At: l.At.Time,
	}
	if len(m.MemoryIDs) == 0 && l.MemoryID != "" {
		m.MemoryIDs = []string{l.MemoryID}
	}
	return m
}

// MarshalJSON writes the line.
func (l MessageLine) MarshalJSON() ([]byte, error) {
	type plain MessageLine // without this method
	b, err := marshal((*plain)(&l))
	if err != nil || len(l.Extra) == 0 {
		return b, err
	}
	at := bytes.LastIndex(b, []byte(`,"memory_id":`)) // the last one: no string of JSON has such a text
	beside, foreign := (&messages.Message{Extra: l.Extra}).Split()
	if len(foreign) > 0 {
		beside = append(append(beside, `,"`+messages.Foreign+`":`...), foreign...)
	}
	return slices.Concat(b[:at], beside, b[at:]), nil
}

// marshal is json.Marshal without escapes for HTML: what was kept stays as it is.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte{'\n'}), err
}

// UnmarshalJSON reads the line, or a message of another form.
func (l *MessageLine) UnmarshalJSON(b []byte) error {
	var of struct {
		Type string `json:"type"`
	}
	_ = json.Unmarshal(b, &of) // a type that is no text belongs to another form
	*l = MessageLine{Type: TypeMessage}
	var wrong error
	m, err := messages.Read(b, func(key string, value []byte) bool {
		took, err := l.take(key, value, of.Type == TypeMessage)
		wrong = cmp.Or(wrong, err)
		return took
	})
	if err = cmp.Or(err, wrong); err != nil {
		return err
	}
	l.ID, l.Role, l.Name, l.Text, l.Parts = m.ID, m.Role, m.Name, m.Text, m.Parts
	l.ToolCalls, l.ToolCallID, l.Extra = m.ToolCalls, m.ToolCallID, m.Extra
	return nil
}

// take reads a key that only lines of memdb have. In a line that does not say its type another form
// may have the same name for something else: what does not fit is left to it.
func (l *MessageLine) take(key string, value []byte, own bool) (took bool, err error) {
	var field any
	switch key {
	case "memory_id":
		field = &l.MemoryID
	case "memory_ids":
		field = &l.MemoryIDs
	case "at":
		field = &l.At
	case "orphan":
		field = &l.Orphan
	case "session", "user", "agent", "position":
		if !own {
			return false, nil
		}
		field = map[string]any{"session": &l.Session, "user": &l.User, "agent": &l.Agent, "position": &l.Position}[key]
	default:
		return false, nil
	}
	if err := json.Unmarshal(value, field); err != nil {
		if own {
			return true, fmt.Errorf("%q: %w", key, err)
		}
		return false, nil
	}
	return true, nil
}

// MarkerLine is a marker as one flat JSON object. Session, User and Agent are in an export
// only, and so is Position: that of the message that it stands before.
type MarkerLine struct {
	Type        string        `json:"type"`
	Session     string        `json:"session,omitempty"`
	User        string        `json:"user,omitempty"`
	Agent       string        `json:"agent,omitempty"`
	Position    *int          `json:"position,omitempty"`
	ArchiveID   string        `json:"archive_id"`
	ArchiveName string        `json:"archive_name"`
	ArchivedAt  clock.Instant `json:"archived_at"`
	Summarized  int           `json:"summarized"`
}

// NewMarkerLine is the line of a marker.
func NewMarkerLine(m *Marker) MarkerLine {
	return MarkerLine{
		Type: TypeMarker, ArchiveID: m.ArchiveID, ArchiveName: m.ArchiveName,
		ArchivedAt: clock.Instant{Time: m.ArchivedAt}, Summarized: m.Summarized,
	}
}

// Marker is the marker of the line.
func (l *MarkerLine) Marker() Marker {
	return Marker{ArchiveID: l.ArchiveID, ArchiveName: l.ArchiveName, ArchivedAt: l.ArchivedAt.Time, Summarized: l.Summarized}
}

// The lines on their way in or out of a database.
type (
	sessionLine struct{ SessionLine }
	messageLine struct{ MessageLine }
	markerLine  struct{ MarkerLine }
)

// NewLine is an empty line of a type, nil for one that is of no session.
func (*Part) NewLine(typ string) part.Line {
	switch typ {
	case TypeSession:
		return &sessionLine{}
	case TypeMessage:
		return &messageLine{}
	case TypeMarker:
		return &markerLine{}
	}
	return nil
}

// Lines has a line for each session, by owner and by run in the order of their first
// storing, and behind it those of its messages and markers.
func (*Part) Lines(v part.View, in scope.Scope, yield func(part.Line) error) error {
	return eachOwner(v, func(owner uint32) error {
		lower, upper := place{owner: owner}.head(v), place{owner: owner + 1}.head(v)
		return v.Scan(lower, upper, func(key, _ []byte) error {
			p, _ := parsePlace(key)
			h, err := seen(v, p)
			if err != nil && v.Without(err) == nil {
				h, err = past(v, p) // an older one says as well whose it is
			}
			if err != nil || h == nil || !h.live() || !scope.Contains(in, h.of.Scope()) {
				return err
			}
			return linesOf(v, p, h, yield)
		})
	})
}

func linesOf(v part.View, p place, h *head, yield func(part.Line) error) error {
	metadata, err := metadataOf(v, p, h)
	if err != nil {
		return err
	}
	if err := yield(&sessionLine{NewSessionLine(h.session(metadata))}); err != nil {
		return err
	}
	position := 0
	return eachItem(v, p, h, func(i Item) error {
		at := position
		if i.Marker != nil {
			l := &markerLine{NewMarkerLine(i.Marker)}
			l.Session, l.User, l.Agent, l.Position = h.name, h.of.User, h.of.Agent, &at
			return yield(l)
		}
		if err := resolve(v, h.of, p, i.Message); err != nil {
			if err = v.Without(err); err != nil {
				return err
			}
			i.Message.Orphan = true // of its memory nothing can be read, of itself everything
		}
		position++
		l := &messageLine{NewMessageLine(i.Message)}
		l.Session, l.User, l.Agent, l.Position = h.name, h.of.User, h.of.Agent, &at
		return yield(l)
	})
}

// Type is TypeSession.
func (*sessionLine) Type() string { return TypeSession }

// Check returns why the line cannot be stored.
func (l *sessionLine) Check() error { return checkLine(l.Session) }

// Owner is whose the session is.
func (l *sessionLine) Owner() scope.Owner { return scope.Owner{User: l.User, Agent: l.Agent} }

// SetOwner gives the session to another owner.
func (l *sessionLine) SetOwner(o scope.Owner) { l.User, l.Agent = o.User, o.Agent }

// Type is TypeMessage.
func (*messageLine) Type() string { return TypeMessage }

// Check returns why the line cannot be stored.
func (l *messageLine) Check() error {
	if l.Position != nil && *l.Position < 0 {
		return errors.New("its position is negative")
	}
	return checkLine(l.Session)
}

// Owner is whose the message is.
func (l *messageLine) Owner() scope.Owner { return scope.Owner{User: l.User, Agent: l.Agent} }

// SetOwner gives the message to another owner.
func (l *messageLine) SetOwner(o scope.Owner) { l.User, l.Agent = o.User, o.Agent }

// Type is TypeMarker.
func (*markerLine) Type() string { return TypeMarker }

// Check returns why the line cannot be stored.
func (l *markerLine) Check() error {
	if l.Summarized < 0 || l.Position != nil && *l.Position < 0 {
		return errors.New("a number of it is negative")
	}
	return checkLine(l.Session)
}

// Owner is whose the marker is.
func (l *markerLine) Owner() scope.Owner { return scope.Owner{User: l.User, Agent: l.Agent} }

// SetOwner gives the marker to another owner.
func (l *markerLine) SetOwner(o scope.Owner) { l.User, l.Agent = o.User, o.Agent }

func checkLine(session string) error {
	if session == "" {
		return errors.New("it names no session")
	}
	return nil
}

// Store makes the session, or gives one that is there what the line says of it.
func (l *sessionLine) Store(t part.Tx, upsert bool) (part.Outcome, error) {
	doing := named("store", l.Session)
	c, metadata, err := l.begin(t, doing)
	if err != nil {
		return part.Unchanged, err
	}
	have, err := c.metadata()
	if err != nil {
		return part.Unchanged, err
	}
	before := *c.head
	c.channel = l.Channel
	if c.fresh() { // its markers, as far as they are there, follow
		c.markers = uint32(min(max(l.Compactions, 0), MaxMessages))
	}
	c.flags = flagLive
	if l.Closed || l.Archived {
		c.flags |= flagClosed
	}
	if l.Archived {
		c.flags |= flagArchived
	}
	if !l.CreatedAt.IsZero() {
		c.created = clock.ToMillis(l.CreatedAt.Time)
	}
	if !l.UpdatedAt.IsZero() {
		c.updated = clock.ToMillis(l.UpdatedAt.Time)
	}
	switch {
	case c.fresh():
	case before.flags == c.flags && before.channel == c.channel && before.created == c.created && bytes.Equal(have, metadata) &&
		before.updated >= c.updated: // messages may have come since
		return part.Unchanged, nil
	case !upsert:
		return part.Unchanged, &fault.Error{
			Kind: fault.ErrExists, What: doing, Why: "there is one that differs", Do: "import with Upsert, or delete it first",
		}
	}
	c.updated = max(c.updated, before.updated)
	if c.fresh() {
		c.updated = max(c.created, clock.ToMillis(l.UpdatedAt.Time))
	}
	if err := c.settle(); err != nil {
		return part.Unchanged, err
	}
	outcome := part.Updated
	if c.fresh() {
		outcome = part.Stored
	}
	return outcome, c.saveState(metadata)
}

// begin checks the line and begins the change.
func (l *sessionLine) begin(t part.Tx, doing string) (*change, []byte, error) {
	if err := checkName(doing, l.Owner(), l.Session); err != nil {
		return nil, nil, err
	}
	if err := valid.Word(doing, "channel", l.Channel); err != nil {
		return nil, nil, err
	}
	for what, at := range map[string]clock.Instant{"created_at": l.CreatedAt, "updated_at": l.UpdatedAt} {
		if err := valid.Time(doing, what, at.Time); err != nil {
			return nil, nil, err
		}
	}
	metadata, err := checkObject(doing, l.Metadata)
	if err != nil {
		return nil, nil, err
	}
	if err := t.Need(doing, 2*stateBytes+len(metadata)); err != nil {
		return nil, nil, err
	}
	c, err := begin(t, l.Owner(), l.Session)
	return c, metadata, err
}

// Store appends the message, damaged or not. A line with a position, or with the ID of a
// message, that is there is compared with that message.
func (l *messageLine) Store(t part.Tx, upsert bool) (part.Outcome, error) {
	doing := fmt.Sprintf("store message %q", valid.Short(l.ID))
	m := l.Message()
	if err := checkName(doing, l.Owner(), l.Session); err != nil {
		return part.Unchanged, err
	}
	if err := checkWords(doing, &m); err != nil {
		return part.Unchanged, err
	}
	m.At = stamped(m.At)
	if err := t.Need(doing, messageBytes+2*stateBytes+m.size()); err != nil {
		return part.Unchanged, err
	}
	c, err := begin(t, l.Owner(), l.Session)
	if err != nil {
		return part.Unchanged, err
	}
	if uint64(c.next)+1 > MaxMessages {
		return part.Unchanged, c.appendable(doing, "", 1)
	}
	position, have, err := l.find(c)
	if err != nil {
		return part.Unchanged, err
	}
	if have != nil {
		if err := resolve(c, c.of, c.at, have); err != nil {
			return part.Unchanged, err
		}
		if have.says(&m) {
			return part.Unchanged, nil
		}
		if !upsert {
			return part.Unchanged, &fault.Error{
				Kind: fault.ErrExists, What: doing, Why: fmt.Sprintf("message %d of session %q says something else", position-c.first, valid.Short(l.Session)),
				Do: "import with Upsert, or delete the session first",
			}
		}
	}
	return l.put(c, position, &m, have)
}

// put writes the message over one that is there, or at the end.
func (l *messageLine) put(c *change, position uint32, m, have *Message) (part.Outcome, error) {
	if err := c.settle(); err != nil {
		return part.Unchanged, err
	}
	if err := c.refer(m); err != nil {
		return part.Unchanged, err
	}
	if have != nil && have.ID != "" && have.ID != m.ID {
		if err := c.Delete(c.at.id(c, c.content, have.ID)); err != nil {
			return part.Unchanged, err
		}
	}
	if err := c.put(position, m); err != nil {
		return part.Unchanged, err
	}
	outcome := part.Stored
	if have != nil {
		outcome = part.Updated
	}
	c.Log(opAppend, logged(c.at, numbers(c.content, position, 1)))
	if !c.fresh() {
		return outcome, c.save()
	}
	return outcome, c.saveState(nil)
}

// find is the message that is there in the place of the line's, and where that is.
func (l *messageLine) find(c *change) (position uint32, have *Message, err error) {
	position = c.next
	switch {
	case c.fresh():
		return position, nil, nil
	case l.Position != nil && *l.Position < c.count():
		position = c.first + uint32(*l.Position)
		err = eachMessage(c, c.at, c.content, position, position+1, func(_ uint32, m *Message) error {
			have = m
			return nil
		})
	case l.Position == nil && l.ID != "":
		var at uint32
		if have, at, err = byID(c, c.at, c.head, l.ID); have != nil {
			position = at
		}
	}
	return position, have, err
}

// says reports whether two messages, of which the texts are known, are the same.
func (m *Message) says(other *Message) bool {
	if len(m.MemoryIDs) != len(other.MemoryIDs) {
		return false
	}
	for i, id := range m.MemoryIDs {
		if other.MemoryIDs[i] != id {
			return false
		}
	}
	return m.ID == other.ID && m.Role == other.Role && m.Text == other.Text && m.alike(other) && m.At.Equal(other.At)
}

// alike reports whether two messages have the same beside their texts.
func (m *Message) alike(other *Message) bool {
	return m.Name == other.Name && m.ToolCallID == other.ToolCallID && bytes.Equal(m.Parts, other.Parts) &&
		bytes.Equal(m.ToolCalls, other.ToolCalls) && bytes.Equal(m.Extra, other.Extra)
}

// Store puts the marker at the end of the session, or before the position that the line
// says. One that is there and the same is left alone.
func (l *markerLine) Store(t part.Tx, _ bool) (part.Outcome, error) {
	doing := named("store a marker of", l.Session)
	if err := checkName(doing, l.Owner(), l.Session); err != nil {
		return part.Unchanged, err
	}
	m := l.Marker()
	if err := checkMarker(doing, &m); err != nil {
		return part.Unchanged, err
	}
	if err := t.Need(doing, messageBytes+2*stateBytes); err != nil {
		return part.Unchanged, err
	}
	c, err := begin(t, l.Owner(), l.Session)
	if err != nil {
		return part.Unchanged, err
	}
	position := c.next
	if l.Position != nil {
		position = uint32(min(int64(position), int64(c.first)+int64(*l.Position)))
	}
	number := uint32(1)
	if !c.fresh() {
		all, err := markers(c, c.at, c.head)
		if err != nil {
			return part.Unchanged, err
		}
		number += uint32(len(all))
		for _, have := range all {
			if have.Marker.same(&m) && (l.Position == nil || have.position == position) {
				return part.Unchanged, nil
			}
		}
	}
	metadata, err := c.metadata()
	if err != nil {
		return part.Unchanged, err
	}
	if err := c.settle(); err != nil {
		return part.Unchanged, err
	}
	if err := c.mark(position, &m, number); err != nil {
		return part.Unchanged, err
	}
	return part.Stored, c.saveState(metadata)
}

func (m *Marker) same(other *Marker) bool {
	return m.ArchiveID == other.ArchiveID && m.ArchiveName == other.ArchiveName && m.ArchivedAt.Equal(other.ArchivedAt) && m.Summarized == other.Summarized
}
