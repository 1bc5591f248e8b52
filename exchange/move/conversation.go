package move

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/internal/messages"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/sessions"
)

// One rule holds for the conversations of all programs. A session has every message that says
// something, with its role and its parts. A memory is what a user or an assistant said to the other
// in words. What a model thinks, tools, notes of the program, instructions and the talk of an agent
// with its helpers stay messages of the session: they are no memories.

// conversation is a session.
type conversation struct {
	id       string
	at       exchange.LineError
	metadata map[string]any
	created  time.Time
}

// message is one of a session.
type message struct {
	messages.Message
	at       time.Time
	metadata map[string]any // of the memory
	// aside: it is none of what user and assistant said to each other.
	aside bool
}

// words are the texts of a message, and parts what it says otherwise. A message of words alone has
// a text, and another one all of its parts, in their order.
func (m *message) say(parts []json.RawMessage, words []string) {
	if len(words) == len(parts) {
		m.Text = strings.Join(words, "\n")
		return
	}
	m.Parts = list(parts)
}

// list is the list of values that are JSON.
func list(values []json.RawMessage) json.RawMessage {
	var out bytes.Buffer
	out.WriteByte('[')
	for i, v := range values {
		if i > 0 {
			out.WriteByte(',')
		}
		_ = json.Compact(&out, v) // it is valid
	}
	out.WriteByte(']')
	return out.Bytes()
}

// canonical is a value of JSON without blanks and with its keys in order.
func canonical(raw []byte) string {
	text, _ := json.Marshal(valueOf(raw)) // it was read from JSON
	return string(text)
}

// textPart is a part with a text, and partOf a part of a type.
func textPart(text string) json.RawMessage { return partOf("text", "text", text) }

func partOf(typ, key, text string) json.RawMessage {
	raw, _ := json.Marshal(map[string]string{"type": typ, key: text}) // texts
	return raw
}

// session begins a session: its messages follow.
func (w *writer) session(c *conversation) error {
	metadata, err := marshal(c.metadata)
	if err != nil {
		return w.skip(c.at, err)
	}
	scope := w.scope("", "", c.id)
	return w.line(c.at, sessions.TypeSession, sessions.SessionLine{
		Type: sessions.TypeSession, Session: c.id, User: scope.User, Agent: scope.Agent,
		Channel: string(w.format), Metadata: metadata, CreatedAt: instant(c.created),
	}, 0)
}

// silent reports whether a message says nothing, and counts it.
func (w *writer) silent(m *message) bool {
	empty, thinks := m.Empty()
	if empty && !thinks {
		w.leave("messages without a text", 1)
		return true
	}
	return false
}

// message gives a message of a session, and its memory before it. One that says nothing is counted.
func (w *writer) message(c *conversation, m *message) error {
	if w.silent(m) {
		return nil
	}
	scope := w.scope("", "", c.id)
	role := roleOf(m.Role)
	words := m.Words()
	said := ""
	if !m.aside && (role == memory.RoleUser || role == memory.RoleAssistant) && strings.TrimSpace(words) != "" && len(words) <= memory.MaxText {
		if said = c.id + "/" + m.ID; !isID(said) {
			said = idOf(w.format, c.id, m.ID)
		}
		err := w.memory(c.at, memory.Memory{
			ID: said, Scope: scope, Role: role, Kind: memory.KindMessage, Source: sourceOf[role],
			Text: words, Metadata: m.metadata, CreatedAt: m.at,
		})
		if err != nil {
			return err
		}
	}
	return w.line(c.at, sessions.TypeMessage, sessions.MessageLine{
		Type: sessions.TypeMessage, Session: c.id, User: scope.User, Agent: scope.Agent, ID: m.ID,
		Role: cmp.Or(m.Role, string(role)), Name: m.Name, Text: m.Text, Parts: m.Parts, ToolCalls: m.ToolCalls, ToolCallID: m.ToolCallID, Extra: m.Extra,
		MemoryID: said, At: instant(m.at),
	}, len(m.Text)+len(m.Parts)+len(m.ToolCalls)+len(m.Extra))
}

// conversation gives a session and its messages.
func (w *writer) conversation(c *conversation, all []*message) error {
	all = slices.DeleteFunc(all, func(m *message) bool { return w.silent(m) })
	if len(all) == 0 {
		w.leave("conversations without a message", 1)
		return nil
	}
	err := w.session(c)
	for _, m := range all {
		if err != nil {
			return err
		}
		err = w.message(c, m)
	}
	return err
}

// maxFacts bounds the facts that are held, so that one that is repeated is read once.
const maxFacts = 1 << 16

// fact gives a fact that a program has kept of its user, in no run. Its ID follows from the parts.
func (w *writer) fact(at exchange.LineError, text string, created time.Time, metadata map[string]any, id ...string) error {
	if strings.TrimSpace(text) == "" {
		return nil
	}
	scope := w.scope("", "", "")
	name := idOf(w.format, append([]string{"fact"}, id...)...)
	if w.facts[name] {
		return nil // each conversation repeats what holds for all
	}
	if len(w.facts) < maxFacts {
		w.facts[name] = true
	}
	return w.memory(at, memory.Memory{
		ID: name, Scope: scope, Kind: memory.KindFact, Text: text, Metadata: metadata, CreatedAt: created,
	})
}

// unplaced counts the keys of an object that have no place, if they say something.
func (w *writer) unplaced(of string, f fields, known ...string) {
	for _, key := range slices.Sorted(maps.Keys(f)) {
		raw := f[key]
		if !slices.Contains(known, key) && !isNothing(raw) {
			w.leave(of+": "+cut(key), 1)
		}
	}
}

// cut bounds a name that a stranger has given.
func cut(name string) string {
	const most = 60
	if len(name) > most {
		name = strings.ToValidUTF8(name[:most], "") + "…"
	}
	return name
}

// contentID is an ID for a conversation that has none, of what it was from its first message on.
func (w *writer) contentID(parts ...string) string {
	return idOf(w.format, append([]string{"conversation"}, parts...)...)
}

// sourceOf is where a message of a role comes from.
var sourceOf = map[memory.Role]memory.Source{
	memory.RoleUser: memory.SourceUserMessage, memory.RoleAssistant: memory.SourceAgentResponse,
	memory.RoleTool: memory.SourceToolResult, memory.RoleSystem: memory.SourceSystemNote,
}

// roleOf is the role of a memory for a role by any of its usual names.
func roleOf(s string) memory.Role {
	speaker, _ := messages.Speaker(s)
	return memory.Role(speaker)
}
