package agents

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/seed-7aedc3ff/memdb/exchange"
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

// A Message is one message of a session.
type Message struct {
	ID   string `json:"id"`
	Role string `json:"role"`
	// Content is a text, or a list of parts as OpenAI and Anthropic write them.
	Content json.RawMessage `json:"content"`
	// Text is that of a message which has parts beside it.
	Text       string          `json:"text,omitempty"`
	Name       string          `json:"name,omitempty"`
	ToolCalls  json.RawMessage `json:"tool_calls,omitempty"`
	ToolCallID string          `json:"tool_call_id,omitempty"`
	sessions.ExtraKeys
	MemoryIDs []string      `json:"memory_ids,omitempty"`
	Timestamp exchange.Time `json:"timestamp,omitzero"`
}

// message is what is stored of it.
func (m *Message) message() (sessions.Message, error) {
	out := sessions.Message{ID: m.ID, Role: m.Role, Name: m.Name, ToolCalls: m.ToolCalls, ToolCallID: m.ToolCallID, MemoryIDs: m.MemoryIDs, At: m.Timestamp.Time, Text: m.Text}
	switch {
	case len(m.Content) == 0 || string(m.Content) == "null":
	case m.Content[0] == '"' && m.Text == "":
		if err := json.Unmarshal(m.Content, &out.Text); err != nil {
			return out, invalid("a content: %v", err)
		}
	case m.Content[0] == '[' || m.Content[0] == '{':
		out.Parts = m.Content
	default:
		return out, invalid("a content is %.40s; give a text or a list of parts", m.Content)
	}
	if m.Role == "" {
		return out, missing("role", "user, assistant, system or tool")
	}
	extra, err := json.Marshal(m.ExtraKeys)
	if err == nil && string(extra) != "{}" {
		out.Extra = extra
	}
	return out, err
}

func messageOf(m *sessions.Message) (Message, error) {
	out := Message{ID: m.ID, Role: m.Role, Name: m.Name, ToolCalls: m.ToolCalls, ToolCallID: m.ToolCallID, MemoryIDs: m.MemoryIDs, Timestamp: exchange.Time{Time: m.At}}
	var err error
	if out.Content = m.Parts; len(m.Parts) > 0 {
		out.Text = m.Text
	} else {
		out.Content, err = json.Marshal(m.Text)
	}
	if err == nil && len(m.Extra) > 0 {
		err = json.Unmarshal(m.Extra, &out.ExtraKeys)
	}
	return out, err
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
		m, err := messageOf(&l.Messages[i])
		if err != nil {
			return Loaded{}, err
		}
		out.Messages = append(out.Messages, m)
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
		if out[i], err = in.Messages[i].message(); err != nil {
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
