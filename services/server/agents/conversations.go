package agents

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/messages"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/scope"
	"github.com/seed-7aedc3ff/memdb/services/server"
	"github.com/seed-7aedc3ff/memdb/sessions"
)

// defaultChannel is that of a session which is opened without a channel.
const defaultChannel = "default"

const (
	// maxMessages bounds the messages of a body and of an answer.
	maxMessages = 50_000
	// maxSaved bounds the messages of a session that is saved, also those before a summary: all of
	// them are held in memory.
	maxSaved = 500_000
)

// A Message is one message of a session, of any form of chat messages. In an answer it has its content,
// as a text or as parts, and the other keys that it came with.
type Message struct{ sessions.Message }

// said is what a message says, in the keys of chat messages.
type said struct {
	ID         string          `json:"id"`
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	Text       string          `json:"text,omitempty"` // of a message that has parts beside it
	Name       string          `json:"name,omitempty"`
	ToolCalls  json.RawMessage `json:"tool_calls,omitempty"`
	ToolCallID string          `json:"tool_call_id,omitempty"`
}

// kept is what a message has here beside what it says.
type kept struct {
	MemoryIDs []string `json:"memory_ids,omitempty"`
	Timestamp Time     `json:"timestamp,omitzero"`
}

// UnmarshalJSON reads a message. A timestamp that is no time stays one of its other keys.
func (m *Message) UnmarshalJSON(b []byte) error {
	read, err := messages.Read(b, func(key string, value []byte) bool {
		switch key {
		case "memory_ids":
			return json.Unmarshal(value, &m.MemoryIDs) == nil
		case "timestamp":
			var t Time
			if json.Unmarshal(value, &t) != nil {
				return false
			}
			m.At = t.Time.Time
			return true
		}
		return false
	})
	if err != nil {
		return err
	}
	m.ID, m.Role, m.Name, m.Text, m.Parts = read.ID, read.Role, read.Name, read.Text, read.Parts
	m.ToolCalls, m.ToolCallID, m.Extra = read.ToolCalls, read.ToolCallID, read.Extra
	return nil
}

// MarshalJSON writes a message.
func (m Message) MarshalJSON() ([]byte, error) {
	s := said{ID: m.ID, Role: m.Role, Content: m.Parts, Name: m.Name, ToolCalls: m.ToolCalls, ToolCallID: m.ToolCallID}
	var err error
	if len(m.Parts) > 0 {
		s.Text = m.Text
	} else if s.Content, err = json.Marshal(m.Text); err != nil {
		return nil, err
	}
	b, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	beside, foreign := (&messages.Message{Extra: m.Extra}).Split()
	if b = append(b[:len(b)-1], beside...); len(foreign) > 0 {
		b = append(append(b, `,"`+messages.Foreign+`":`...), foreign...)
	}
	k := kept{m.MemoryIDs, timeOf(m.At)}
	if bytes.Contains(beside, []byte(`,"timestamp":`)) {
		k.Timestamp = Time{} // it came with another one
	}
	rest, err := json.Marshal(k)
	if err != nil || string(rest) == "{}" {
		return append(b, '}'), err
	}
	return append(append(b, ','), rest[1:]...), nil
}

// checked refuses a message without a role.
func (m *Message) checked() (sessions.Message, error) {
	if m.Role == "" {
		return m.Message, missing("role", "user, assistant, system or tool")
	}
	return m.Message, nil
}

// A Session is a conversation. Messages are those behind the newest summary, which is in Summary.
type Session struct {
	ID           string    `json:"id"`
	AgentID      string    `json:"agent_id"`
	Channel      string    `json:"channel"`
	Messages     []Message `json:"messages,omitempty"`
	MessageCount int       `json:"message_count"`
	Summary      string    `json:"summary,omitempty"`
	CreatedAt    time.Time `json:"created_at"`
	UpdatedAt    time.Time `json:"updated_at"`
}

func sessionOf(s *sessions.Session) Session {
	return Session{ID: s.Session, AgentID: s.Agent, Channel: s.Channel, MessageCount: s.Messages, CreatedAt: s.CreatedAt, UpdatedAt: s.UpdatedAt}
}

// Loaded is a session with its messages, of which there may be none.
type Loaded struct {
	Session
	Messages []Message `json:"messages"`
}

// place is the session in the path.
func place(c *server.Call) (scope.Owner, string, error) {
	s, err := c.Exact(memory.Scope{Agent: c.R.PathValue("id"), Run: c.R.PathValue("session")})
	return s.Owner(), s.Run, err
}

// load reads a session: all messages behind the newest summary, or the last ones.
func load(c *server.Call, o scope.Owner, run string, last int) (Loaded, error) {
	l, err := c.DB.Sessions().Load(c.Context(), o, run, &sessions.Window{Last: cmp.Or(last, maxMessages+1)})
	switch {
	case err != nil:
		return Loaded{}, err
	case last == 0 && len(l.Messages) > maxMessages: // a part would be taken for the whole, and saved
		return Loaded{}, server.Fail(http.StatusRequestEntityTooLarge, "too_large", "session %q has more than %d messages; ask for the last ones with last=N, or compact it", run, maxMessages)
	}
	out := Loaded{sessionOf(&l.Session), make([]Message, 0, len(l.Messages))}
	out.Summary = l.Summary
	for i := range l.Messages {
		out.Messages = append(out.Messages, Message{l.Messages[i]})
	}
	return out, nil
}

// openSession returns the session of a channel that was updated last, or makes one. A key of a run has
// that run.
func openSession(c *server.Call) error {
	in := struct {
		Channel string `json:"channel"`
	}{defaultChannel}
	if c.R.ContentLength != 0 {
		if err := c.Decode(&in); err != nil {
			return err
		}
	}
	o, run, err := place(c)
	if err != nil {
		return err
	}
	var s sessions.Session
	if run != "" {
		s, err = c.DB.Sessions().Open(c.Context(), o, run, nil)
	} else {
		s, err = c.DB.Sessions().OpenChannel(c.Context(), o, in.Channel)
	}
	if err != nil {
		return err
	}
	out, err := load(c, o, s.Session, 0)
	if err != nil {
		return err
	}
	return c.Reply(http.StatusOK, out)
}

// Sessions is a page of sessions without their messages, the newest first. Next is the cursor of the next one.
type Sessions struct {
	Sessions []Session `json:"sessions"`
	Next     string    `json:"next,omitempty"`
}

func listSessions(c *server.Call) error {
	limit, after, err := page(c)
	if err != nil {
		return err
	}
	o, err := owner(c)
	if err != nil {
		return err
	}
	found, err := c.DB.Sessions().List(c.Context(), sessions.Query{Owner: o, Channel: c.R.URL.Query().Get("channel"), After: after, Limit: limit})
	if err != nil {
		return err
	}
	out := Sessions{[]Session{}, found.Next}
	for i := range found.Sessions {
		out.Sessions = append(out.Sessions, sessionOf(&found.Sessions[i]))
	}
	return c.Reply(http.StatusOK, out)
}

func getSession(c *server.Call) error {
	last, err := number(c, "last", 0, 1, memory.MaxLimit)
	if err != nil {
		return err
	}
	o, run, err := place(c)
	if err != nil {
		return err
	}
	out, err := load(c, o, run, last)
	if err != nil {
		return err
	}
	return c.Reply(http.StatusOK, out)
}

// given reads the messages of a body.
func given(c *server.Call) ([]sessions.Message, string, error) {
	var in struct {
		Channel  string    `json:"channel"`
		Messages []Message `json:"messages"`
	}
	if err := c.Decode(&in); err != nil {
		return nil, "", err
	}
	if in.Messages == nil {
		return nil, "", missing("messages", "a list of messages")
	}
	if len(in.Messages) > maxMessages {
		return nil, "", server.Fail(http.StatusRequestEntityTooLarge, "too_large", "there are %d messages; send %d at once, at most", len(in.Messages), maxMessages)
	}
	out := make([]sessions.Message, len(in.Messages))
	for i := range in.Messages {
		var err error
		if out[i], err = in.Messages[i].checked(); err != nil {
			return nil, "", err
		}
	}
	return out, in.Channel, nil
}

// saveSession replaces the messages of a session, but for those that were summarised. keep has the session
// keep so many, the newest; without it, all stay.
func saveSession(c *server.Call) error {
	keep, err := number(c, "keep", 0, 1, memory.MaxLimit)
	if err != nil {
		return err
	}
	messages, channel, err := given(c)
	if err != nil {
		return err
	}
	o, run, err := place(c)
	if err != nil {
		return err
	}
	if keep > 0 && len(messages) > keep {
		messages = messages[len(messages)-keep:]
	}
	all := c.DB.Sessions()
	version := uint64(0)
	switch s, err := all.Get(c.Context(), o, run); {
	case errors.Is(err, memory.ErrNotFound):
	case err != nil:
		return err
	case s.Messages > maxSaved:
		return server.Fail(http.StatusRequestEntityTooLarge, "too_large", "session %q has %d messages, too many to be saved as a whole; append to it", run, s.Messages)
	default:
		version = s.Version
	}
	var items, since []sessions.Item // up to the newest summary, and behind it
	if version != 0 {
		for item, err := range all.Items(c.Context(), o, run) {
			if err != nil {
				return err
			}
			if since = append(since, item); item.Marker != nil {
				items, since = append(items, since...), nil
			}
		}
	}
	for i := range messages {
		items = append(items, sessions.Item{Message: &messages[i]})
	}
	if _, err := all.Save(c.Context(), o, run, items, &sessions.SaveOptions{Channel: channel, IfVersion: &version}); err != nil {
		return err
	}
	out, err := load(c, o, run, 0)
	if err != nil {
		return err
	}
	return c.Reply(http.StatusOK, out)
}

// appendMessages adds messages at the end of a session, which is made if there is none; they are
// remembered, too. keep is as of saveSession.
func appendMessages(c *server.Call) error {
	keep, err := number(c, "keep", 0, 1, memory.MaxLimit)
	if err != nil {
		return err
	}
	messages, channel, err := given(c)
	if err != nil {
		return err
	}
	o, run, err := place(c)
	if err != nil {
		return err
	}
	done, err := c.DB.Sessions().Append(c.Context(), o, run, messages, &sessions.AppendOptions{Channel: channel, TrimRemoves: keep})
	if err != nil {
		return err
	}
	if done == nil {
		done = []sessions.Appended{}
	}
	return c.Reply(http.StatusCreated, done)
}

func deleteSession(c *server.Call) error {
	o, run, err := place(c)
	if err != nil {
		return err
	}
	if _, err := c.DB.Sessions().Delete(c.Context(), o, run, nil); err != nil {
		return err
	}
	return c.Reply(http.StatusNoContent, nil)
}
