package api

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"slices"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/internal/rawjson"
	"github.com/seed-7aedc3ff/memdb/sessions"
)

// A SessionItem is a message of a session, or a marker.
type SessionItem struct {
	// Marker and Message are the two forms, of which one is nil.
	Marker  *sessions.MarkerLine `has:"archive_id"`
	Message *sessions.MessageLine
}

// newSessionItem is an item as it is shown.
func newSessionItem(i sessions.Item) SessionItem {
	if i.Marker != nil {
		return SessionItem{Marker: new(sessions.NewMarkerLine(i.Marker))}
	}
	return SessionItem{Message: new(sessions.NewMessageLine(i.Message))}
}

// OneOf returns an empty value of each form. A message may have further keys.
func (SessionItem) OneOf() []any {
	type MessageLine sessions.MessageLine
	return []any{MessageLine{}, sessions.MarkerLine{}}
}

// MarshalJSON writes the message or the marker.
func (i SessionItem) MarshalJSON() ([]byte, error) { return writeOne(i) }

// UnmarshalJSON reads a message or a marker.
func (i *SessionItem) UnmarshalJSON(b []byte) error { return readOne(b, i) }

// SessionShowRequest shows a session.
type SessionShowRequest struct {
	Session
	Last   int  `query:"last" min:"1" help:"the largest number of messages; the default is 20 without tokens"`
	Tokens int  `query:"tokens" min:"1" help:"the largest number of tokens of the messages, at four bytes each"`
	All    bool `query:"all" help:"return all messages, including those before a marker"`
}

// Check implements Checked.
func (q *SessionShowRequest) Check() error {
	if q.All && (q.Last > 0 || q.Tokens > 0) {
		return invalid("show a session", "all excludes last and tokens", "")
	}
	return nil
}

// SessionShow lists the newest messages of a session.
var SessionShow = &List[SessionShowRequest, SessionItem]{
	Operation: Operation{Name: "session show", Route: "GET /sessions/{run}", Summary: "List the newest messages of a session, starting with its newest marker", Doing: "show a session"},
	Run: func(ctx context.Context, db *engine.DB, q *SessionShowRequest, yield func(SessionItem) error) (End, error) {
		if err := q.Check(); err != nil {
			return End{}, err
		}
		if q.All {
			for i, err := range db.Sessions().Items(ctx, q.owner(), q.Run) {
				if err == nil {
					err = yield(newSessionItem(i))
				}
				if err != nil {
					return End{}, err
				}
			}
			return End{}, nil
		}
		loaded, err := db.Sessions().Load(ctx, q.owner(), q.Run, &sessions.Window{Last: q.Last, Tokens: q.Tokens})
		if err == nil && loaded.Marker != nil {
			err = yield(newSessionItem(sessions.Item{Marker: loaded.Marker}))
		}
		if err != nil {
			return End{}, err
		}
		return End{}, each(loaded.Messages, func(m sessions.Message) error { return yield(newSessionItem(sessions.Item{Message: &m})) })
	},
}

// SessionItems are the messages and markers of a session, of any form.
type SessionItems []sessions.Item

// ReadLines implements Lines.
func (s *SessionItems) ReadLines(r io.Reader, doing string) (err error) {
	*s, err = exchange.ReadSession(r, doing)
	return err
}

// byID says why a key of one run may not send the items, empty where it may.
func (s SessionItems) byID() string {
	if slices.ContainsFunc(s, func(i sessions.Item) bool { return i.Marker != nil || len(i.Message.MemoryIDs) > 0 }) {
		return "its messages refer to no memories by ID, and have no markers"
	}
	return ""
}

// SessionSaveRequest replaces the content of a session.
type SessionSaveRequest struct {
	Session
	Items     SessionItems `body:"items" arg:"FILE" help:"the messages, a JSON object a line or a list; - is the input"`
	Channel   string       `query:"channel" help:"the channel in which the session takes place"`
	IfVersion *uint64      `query:"if_version" unit:"version" help:"fail unless the session has this version; 0: unless it does not exist"`
	Strict    bool         `query:"strict" help:"refuse parts and keys that no form of messages has"`
}

// Refers implements Confined.
func (q *SessionSaveRequest) Refers() string { return q.Items.byID() }

// SessionSaved is the reply of SessionSave.
type SessionSaved struct {
	// Messages is how many there are, and Unknown how many of their parts and keys no form has. They are kept.
	Messages int `json:"messages"`
	Unknown  int `json:"unknown"`
}

// SessionSave replaces the content of a session. It stores no memories.
var SessionSave = &Op[SessionSaveRequest, SessionSaved]{
	Operation: Operation{
		Name: "session save", Route: "PUT /sessions/{run}", Doing: "save a session", Access: Creates,
		Summary: "Replace the content of a session by messages of any form and markers, as JSON lines or a JSON array",
	},
	Run: func(ctx context.Context, db *engine.DB, q *SessionSaveRequest) (SessionSaved, error) {
		o := &sessions.SaveOptions{Channel: q.Channel, IfVersion: q.IfVersion, Strict: q.Strict}
		n, err := db.Sessions().Save(ctx, q.owner(), q.Run, q.Items, o)
		return SessionSaved{n, sessions.Unknown(q.Items)}, err
	},
}

// Appending is how messages are appended.
type Appending struct {
	Channel  string `json:"channel,omitempty" help:"the channel in which the session takes place"`
	NoMemory bool   `json:"no_memory,omitempty" help:"keep the text in the message, and store no memory"`
	Trim     int    `json:"trim,omitempty" help:"remove the oldest messages beyond so many; 0, the default, removes none"`
	Strict   bool   `json:"strict,omitempty" help:"refuse parts and keys that no form of messages has"`
}

func (a *Appending) options() *sessions.AppendOptions {
	return &sessions.AppendOptions{Channel: a.Channel, NoMemory: a.NoMemory, TrimRemoves: a.Trim, Strict: a.Strict}
}

// NewMessage is a message, and how it is appended. As a body it may have any form.
type NewMessage struct {
	MessageID string `json:"message_id,omitempty" unit:"ID" help:"ID of the message; the default is a new UUID"`
	Appending
	Text     string        `json:"text,omitempty" arg:"[TEXT]..." stdin:"8388608" help:"the text"`
	Role     string        `json:"role,omitempty" enum:"user,assistant,system,tool" help:"who wrote the message: user, assistant, system or tool; the default is user"`
	MemoryID string        `json:"memory_id,omitempty" unit:"ID" help:"ID of a memory that exists, or of the memory that is stored"`
	At       exchange.Time `json:"at,omitzero" help:"when it was said; the default is now"`
	said     *sessions.Message
}

// ReadForm implements Form: the keys that are not about the append are the message.
func (m *NewMessage) ReadForm(object []byte) error {
	var of struct {
		MessageID string `json:"message_id"`
		Appending
	}
	if _, err := exchange.DecodeKnown(object, &of); err != nil {
		return err
	}
	said := []byte{'{'}
	err := rawjson.Members(object, func(key string, v []byte) error {
		switch key {
		case "message_id", "channel", "no_memory", "trim", "strict":
			return nil
		}
		name, err := json.Marshal(key)
		if len(said) > 1 {
			said = append(said, ',')
		}
		said = append(append(append(said, name...), ':'), v...)
		return err
	})
	m.MessageID, m.Appending, m.said = of.MessageID, of.Appending, &sessions.Message{}
	if err == nil {
		err = m.said.UnmarshalJSON(append(said, '}'))
	}
	return err
}

// message is the message that is appended.
func (m *NewMessage) message() sessions.Message {
	if m.said != nil {
		said := *m.said
		said.ID = cmp.Or(m.MessageID, said.ID)
		return said
	}
	said := sessions.Message{ID: m.MessageID, Role: cmp.Or(m.Role, "user"), Text: m.Text, At: m.At.Time}
	if m.MemoryID != "" {
		said.MemoryIDs = []string{m.MemoryID}
	}
	return said
}

// SessionAppendOneRequest appends a message.
type SessionAppendOneRequest struct {
	Session
	NewMessage `body:"object"`
}

// Refers implements Confined.
func (q *SessionAppendOneRequest) Refers() string {
	said := q.message()
	return SessionItems{{Message: &said}}.byID()
}

// SessionAppendOne appends a message.
var SessionAppendOne = &Op[SessionAppendOneRequest, sessions.Appended]{
	Operation: Operation{
		Name: "session append one", Route: "POST /sessions/{run}/messages", Doing: "append a message", Access: Creates, Status: 201,
		Summary: "Append a message of any form to a session, and store it as a memory",
	},
	Run: func(ctx context.Context, db *engine.DB, q *SessionAppendOneRequest) (sessions.Appended, error) {
		all, err := db.Sessions().Append(ctx, q.owner(), q.Run, []sessions.Message{q.message()}, q.options())
		if err != nil {
			return sessions.Appended{}, err
		}
		return all[0], nil
	},
}

// SessionAppendAllRequest appends messages.
type SessionAppendAllRequest struct {
	Session
	Messages SessionItems `body:"messages" help:"the messages"`
	Channel  string       `query:"channel" help:"the channel in which the session takes place"`
	NoMemory bool         `query:"no_memory" help:"keep the texts in the messages, and store no memories"`
	Trim     int          `query:"trim" help:"remove the oldest messages beyond so many; 0, the default, removes none"`
	Strict   bool         `query:"strict" help:"refuse parts and keys that no form of messages has"`
}

// Refers implements Confined.
func (q *SessionAppendAllRequest) Refers() string { return q.Messages.byID() }

// SessionAppendAll appends messages in one commit.
var SessionAppendAll = &List[SessionAppendAllRequest, sessions.Appended]{
	Operation: Operation{
		Name: "session append all", Route: "POST /sessions/{run}/append", Doing: "append messages", Access: Creates,
		Summary: "Append messages of any form to a session in one commit, as JSON lines or a JSON array, and store them as memories",
	},
	Run: func(ctx context.Context, db *engine.DB, q *SessionAppendAllRequest, yield func(sessions.Appended) error) (End, error) {
		var messages []sessions.Message
		for _, i := range q.Messages {
			if i.Marker != nil {
				return End{}, invalid("append messages", "there is a marker among them", "leave it out, or replace the session with session save")
			}
			messages = append(messages, *i.Message)
		}
		o := &Appending{q.Channel, q.NoMemory, q.Trim, q.Strict}
		all, err := db.Sessions().Append(ctx, q.owner(), q.Run, messages, o.options())
		if err != nil {
			return End{}, err
		}
		return End{}, each(all, yield)
	},
}

// SessionAppendRequest appends a message, or the messages of a file.
type SessionAppendRequest struct {
	Owner
	Run        string `query:"run" arg:"RUN" help:"the session"`
	NewMessage `body:"object"`
	Messages   SessionItems `query:"messages" unit:"FILE" help:"append the messages of this file, a JSON object a line or a list; - is the input"`
}

// Check implements Checked.
func (q *SessionAppendRequest) Check() error {
	switch {
	case q.Messages == nil && q.Text == "" && q.MemoryID == "":
		return invalid("append a message", "there is no text", "give it as an argument, or - to type it")
	case q.Messages != nil && q.Text != "":
		return invalid("append messages", "--messages excludes a text", "")
	case q.Messages != nil && (q.Role != "" || q.MessageID != "" || q.MemoryID != "" || !q.At.IsZero()):
		return invalid("append messages", "--messages excludes --role, --message-id, --memory-id and --at", "each message has its own")
	}
	return nil
}

// SessionAppend appends messages. SessionAppendAll has its route.
var SessionAppend = &List[SessionAppendRequest, sessions.Appended]{
	Operation: Operation{Name: "session append", Summary: "Append a message, and store it as a memory", Doing: "append a message", Access: Creates, Once: true},
	Run: func(ctx context.Context, db *engine.DB, q *SessionAppendRequest, yield func(sessions.Appended) error) (End, error) {
		if err := q.Check(); err != nil {
			return End{}, err
		}
		all := &SessionAppendAllRequest{Session{q.Owner, q.Run}, q.Messages, q.Channel, q.NoMemory, q.Trim, q.Strict}
		if q.Messages == nil {
			said := q.message()
			all.Messages, all.Strict = SessionItems{{Message: &said}}, true // what flags say is known
		}
		return SessionAppendAll.Run(ctx, db, all, yield)
	},
}
