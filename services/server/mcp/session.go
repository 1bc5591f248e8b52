package mcp

import (
	"context"
	"time"

	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/sessions"
)

type sessionIn struct {
	Action  string `json:"action"`
	Session string `json:"session,omitempty" jsonschema:"of append and read: the name of the conversation, where the configuration does not fix it"`
	Role    string `json:"role,omitempty" jsonschema:"of append: user, assistant, system or tool; default user"`
	Text    string `json:"text,omitempty" jsonschema:"of append: what was said"`
	Limit   int    `json:"limit,omitempty" jsonschema:"of read and list: at most so many; default 20, up to 100"`
	After   string `json:"after,omitempty" jsonschema:"of list: next of the answer before"`
}

type messageLine struct {
	ID   string    `json:"id"`
	Role string    `json:"role"`
	Text string    `json:"text"`
	At   time.Time `json:"at"`
}

type sessionLine struct {
	Session   string    `json:"session"`
	Messages  int       `json:"messages"`
	UpdatedAt time.Time `json:"updated_at"`
	Closed    bool      `json:"closed,omitempty"`
}

type sessionOut struct {
	Summary  string        `json:"summary,omitempty" jsonschema:"of what came before the messages"`
	Messages []messageLine `json:"messages,omitempty" jsonschema:"the oldest first"`
	Sessions []sessionLine `json:"sessions,omitempty" jsonschema:"those changed last first"`
	Next     string        `json:"next,omitempty"`
}

func (o *sessionOut) session(s sessions.Session) {
	o.Sessions = append(o.Sessions, sessionLine{s.Session, s.Messages, s.UpdatedAt, s.Closed})
}

func (h *host) session(ctx context.Context, in sessionIn) (out sessionOut, err error) {
	limit, err := limited(in.Limit, 20)
	if err != nil {
		return out, err
	}
	owner, name := h.Scope.Owner(), in.Session
	if h.Scope.Run != "" {
		if name != "" && name != h.Scope.Run {
			return out, &memory.Error{Kind: memory.ErrNotFound, What: "session " + in.Action, Why: "there is no such conversation", Do: "leave the name out"}
		}
		name = h.Scope.Run
	}
	if in.Action == "list" {
		return h.listSessions(ctx, limit, in.After)
	}
	if name == "" {
		return out, lacks("session", in.Action, "session")
	}
	if in.Action == "append" {
		if in.Role == "" {
			in.Role = "user"
		}
		done, err := h.db.Sessions().Append(ctx, owner, name, []sessions.Message{{Role: in.Role, Text: in.Text}}, nil)
		for _, a := range done {
			out.Messages = append(out.Messages, messageLine{ID: a.MessageID, Role: in.Role, Text: in.Text, At: h.Now().UTC().Truncate(time.Millisecond)})
			out.Sessions = append(out.Sessions, sessionLine{Session: a.Session, Messages: a.Messages, UpdatedAt: h.Now().UTC().Truncate(time.Millisecond)})
		}
		return out, err
	}
	loaded, err := h.db.Sessions().Load(ctx, owner, name, &sessions.Window{Last: limit})
	if err != nil {
		return out, err
	}
	out.Summary = loaded.Summary
	for i := range loaded.Messages {
		m := &loaded.Messages[i]
		out.Messages = append(out.Messages, messageLine{m.ID, m.Role, m.Content(), m.At})
	}
	out.session(loaded.Session)
	return out, nil
}

func (h *host) listSessions(ctx context.Context, limit int, after string) (out sessionOut, err error) {
	if h.Scope.Run != "" { // there is one
		s, err := h.db.Sessions().Get(ctx, h.Scope.Owner(), h.Scope.Run)
		if err == nil {
			out.session(s)
		}
		return out, err
	}
	page, err := h.db.Sessions().List(ctx, sessions.Query{Owner: h.Scope.Owner(), Limit: limit, After: after})
	for i := range page.Sessions {
		out.session(page.Sessions[i])
	}
	out.Next = page.Next
	return out, err
}
