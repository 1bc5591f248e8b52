package sessions

import (
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/messages"
)

// form is the message as the table of forms reads it.
func (m *Message) form() *messages.Message {
	return &messages.Message{
		ID: m.ID, Role: m.Role, Name: m.Name, Text: m.Text, Parts: m.Parts, ToolCalls: m.ToolCalls, ToolCallID: m.ToolCallID, Extra: m.Extra,
	}
}

// Content returns all that the message says, as text: its text, its parts, the tools that it calls
// with their arguments, and the results of tools. An image or a file is there by its type. Parts
// and keys of no known form are there as they are.
func (m *Message) Content() string { return m.form().Content() }

// Unknown returns a name for each part and each key of the message that no known form has. They are
// kept as they came.
func (m *Message) Unknown() []string { return m.form().Unknown() }

// Unknown counts the parts and keys of messages that no known form has.
func Unknown(items []Item) (n int) {
	for _, i := range items {
		if i.Message != nil {
			n += len(i.Message.Unknown())
		}
	}
	return n
}

// unknown counts what Unknown names. strict: there may be none.
func (m *Message) unknown(doing string, strict bool) (int, error) {
	names := m.Unknown()
	if strict && len(names) > 0 {
		return 0, fault.Invalid(doing, "no known form of messages has the "+names[0], "correct the message, or leave strict out to keep it as it is")
	}
	return len(names), nil
}

// bare reports whether the message has nothing at all: neither text, parts nor a memory, and no tool.
func (m *Message) bare() bool {
	return m.Text == "" && len(m.Parts) == 0 && len(m.MemoryIDs) == 0 &&
		len(m.ToolCalls) == 0 && m.ToolCallID == "" && len(m.Extra) == 0
}

// size is about how many bytes the content of the message takes.
func (m *Message) size() int {
	return len(m.Text) + len(m.Parts) + len(m.ToolCalls) + len(m.Extra) + len(m.Name) + len(m.ToolCallID)
}
