package messages

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-7aedc3ff/memdb/internal/rawjson"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
)

// Message is a chat message of any form.
type Message struct {
	// ID, Role and Name are those that the message came with, empty where it has none. A role is
	// kept in the words of its form, such as "model": see Speaker. Of a LangChain message and of an
	// item without a role, the role follows from the type.
	ID, Role, Name string
	// Text is a content that is one text.
	Text string
	// Parts is a content of another kind: mostly a list of parts. An item of OpenAI's Responses that
	// is no message is the only part of its message.
	Parts json.RawMessage
	// ToolCalls are the calls of a message in OpenAI's, LangChain's or Ollama's form, and ToolCallID
	// the call that the message answers.
	ToolCalls  json.RawMessage
	ToolCallID string
	// Extra is a JSON object of all other keys, in compact form, nil where there are none. Keys that
	// Reserved reports stand behind the others.
	Extra json.RawMessage
}

// reserved are the keys that a line of a session uses for itself: a key of a message that has the
// same name and another meaning is written below Foreign.
var reserved = []string{
	"type", "session", "user", "agent", "position", "id", "role", "name", "text", "parts", "content", "tool_calls", "tool_call_id",
	"memory_id", "memory_ids", "at", "orphan", Foreign,
}

// Foreign is the key of an object that holds the keys of a message that Reserved reports, in a line
// of the type "message".
const Foreign = "foreign"

// Reserved reports whether the lines of sessions use a key for themselves.
func Reserved(key string) bool { return slices.Contains(reserved, key) }

// member is a key of an object with its value as it was written.
type member struct {
	key   string
	value json.RawMessage
}

// object is the members of a JSON object, in their order.
type object []member

// get returns the value of a key, nil where there is none or it is null.
func (o object) get(key string) json.RawMessage {
	for _, m := range o {
		if m.key == key && string(m.value) != "null" {
			return m.value
		}
	}
	return nil
}

func (o object) text(key string) string {
	s, _ := rawjson.String(o.get(key))
	return s
}

// membersOf returns the members of an object, and false for what is no object.
func membersOf(b []byte) (o object, ok bool) {
	err := rawjson.Members(b, func(key string, value []byte) error {
		o = append(o, member{key, value})
		return nil
	})
	return o, err == nil
}

// Read reads a message, which is a JSON object, or a string that a user said. take, if it is not
// nil, is shown each key of the message first, and returns true for those that it uses. Read returns
// an error for malformed JSON, for a key that is given twice, and for a value that is neither an
// object nor a string.
func Read(b []byte, take func(key string, value []byte) bool) (*Message, error) {
	if err := valid.JSON(b); err != nil {
		return nil, err
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, b); err != nil {
		return nil, fmt.Errorf("malformed JSON: %w", err)
	}
	b = compact.Bytes()
	if said, ok := rawjson.String(b); ok {
		return &Message{Role: "user", Text: said}, nil
	}
	o, ok := membersOf(b)
	if !ok {
		return nil, fmt.Errorf("there is %.20s in the place of a message", b)
	}
	seen := make(map[string]bool, len(o))
	for _, f := range o {
		if seen[f.key] {
			return nil, fmt.Errorf("the key %q is given twice", f.key)
		}
		seen[f.key] = true
	}
	if take != nil {
		o = slices.DeleteFunc(o, func(f member) bool { return take(f.key, f.value) })
	}
	return read(o, b), nil
}

// wrappers are keys below which forms have the message itself: LangChain's data and kwargs, and the
// lines of transcripts.
var wrappers = []string{"message", "data", "kwargs", "payload"}

// messageKeys are the keys that make an object a message, and itemKeys those that make it an item:
// an object with one of them is not the wrapper of another.
var (
	messageKeys = []string{"role", "content", "parts", "text", "tool_calls"}
	itemKeys    = []string{"arguments", "output", "input"}
)

func (o object) hasAny(keys []string) bool {
	return slices.ContainsFunc(o, func(f member) bool { return slices.Contains(keys, f.key) })
}

// unwrap returns the message in an object that holds one and no other content, with the keys around
// it, and false where the object is the message itself.
func (o object) unwrap() (inner object, raw []byte, around object, ok bool) {
	if o.hasAny(messageKeys) || o.hasAny(itemKeys) {
		return nil, nil, nil, false
	}
	for _, w := range wrappers {
		raw = o.get(w)
		inner, ok = membersOf(raw)
		if ok && (inner.hasAny(messageKeys) || w == "payload" && inner.get("type") != nil) {
			around = slices.DeleteFunc(slices.Clone(o), func(f member) bool { return f.key == w })
			return inner, raw, around, true
		}
	}
	return nil, nil, nil, false
}

// read reads the members of a message, of which raw is the whole.
func read(o object, raw []byte) *Message {
	m := &Message{}
	var extra object
	if inner, inside, around, ok := o.unwrap(); ok {
		m.Role = roleOfType(typeOfWrapper(around))
		o, raw, extra = inner, inside, around
		if id := around.text("uuid"); valid.Word("", "", id) == nil {
			m.ID = id // lines of a transcript that are parts of one answer have its ID in common
		}
	}
	typ := o.text("type")
	if o.get("role") == nil && typ != "" && typ != "message" {
		switch by := roleOfType(typ); {
		case by != "":
			m.Role = by
		case m.Role == "":
			return item(m, o, raw, extra)
		}
	}
	for _, f := range o {
		if !m.set(f, o) {
			extra = append(extra, f)
		}
	}
	if m.Role == "" {
		m.Role = roleOfSender(extra)
	}
	m.Extra = extraOf(extra)
	return m
}

// typeOfWrapper is the type of a wrapper: its own, or of LangChain's constructors the name of the class.
func typeOfWrapper(o object) string {
	var class string
	_ = rawjson.Elements(o.get("id"), func(v []byte) error { // of any other ID there are no elements
		class, _ = rawjson.String(v)
		return nil
	})
	if class != "" {
		return class
	}
	return o.text("type")
}

// item is an item of a conversation that is no message: it is kept whole, as a part.
func item(m *Message, o object, raw []byte, extra object) *Message {
	p := parsePart(raw)
	switch p.kind {
	case result:
		m.Role = "tool"
	case words, media:
		m.Role = "user"
	default:
		m.Role = "assistant"
	}
	m.set(member{"id", o.get("id")}, o)
	m.Parts = slices.Concat([]byte{'['}, raw, []byte{']'})
	m.Extra = extraOf(extra)
	return m
}

// set takes a key that a message has a field for, and returns false for others.
func (m *Message) set(f member, all object) bool {
	if string(f.value) == "null" {
		switch f.key {
		case "content", "text", "parts", "tool_calls", "tool_call_id", "name", "id", "role":
			return true // it says that there is none
		}
		return false
	}
	word := func(field *string) bool {
		s, ok := rawjson.String(f.value)
		if !ok || valid.Word("", "", s) != nil {
			return false
		}
		*field = s
		return true
	}
	switch f.key {
	case "id":
		return m.ID == "" && word(&m.ID)
	case "role":
		return word(&m.Role)
	case "name":
		return word(&m.Name)
	case "tool_call_id":
		return word(&m.ToolCallID)
	case "tool_calls":
		m.ToolCalls = f.value
		return true
	case "type":
		return string(f.value) == `"message"`
	case "parts":
		m.Parts = f.value
		return true
	case "text":
		s, ok := rawjson.String(f.value)
		if ok {
			m.Text = s
		}
		return ok
	case "content":
		if s, ok := rawjson.String(f.value); ok {
			if all.get("text") != nil {
				return false
			}
			m.Text = s
			return true
		}
		if all.get("parts") != nil {
			return false
		}
		m.Parts = f.value
		return true
	}
	return false
}

// extraOf is the object of the keys that a message has no field for. The keys of Foreign are taken
// out of it, and reserved ones stand at the end, so that what was read from a line is written to it
// as it was.
func extraOf(o object) json.RawMessage {
	var free, taken object
	for _, f := range o {
		switch inner, ok := membersOf(f.value); {
		case f.key == Foreign && ok:
			taken = append(taken, inner...)
		case Reserved(f.key):
			taken = append(taken, f)
		default:
			free = append(free, f)
		}
	}
	return append(free, taken...).encode()
}

// encode is the object as JSON, nil for one that is empty. A key that is there twice is written once.
func (o object) encode() json.RawMessage {
	if len(o) == 0 {
		return nil
	}
	b := []byte{'{'}
	seen := make(map[string]bool, len(o))
	for _, f := range o {
		if seen[f.key] {
			continue
		}
		seen[f.key] = true
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(append(append(b, quote(f.key)...), ':'), f.value...)
	}
	return append(b, '}')
}

// quote is a string as JSON, without escapes for HTML.
func quote(s string) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string never fails
	return bytes.TrimSpace(b.Bytes())
}

// Split returns the members of Extra as a line of a session writes them: those that it writes
// beside its own keys, each with a comma before it, and the object of those under Foreign, nil where
// there are none.
func (m *Message) Split() (beside []byte, foreign json.RawMessage) {
	o, _ := membersOf(m.Extra)
	var taken object
	for _, f := range o {
		if Reserved(f.key) {
			taken = append(taken, f)
			continue
		}
		beside = append(append(append(append(beside, ','), quote(f.key)...), ':'), f.value...)
	}
	return beside, taken.encode()
}

// roles are the words for a role, of all forms.
var roles = map[string]string{
	"user": "user", "human": "user", "humanmessage": "user", "usermessage": "user",
	"assistant": "assistant", "ai": "assistant", "aimessage": "assistant", "model": "assistant", "bot": "assistant", "gpt": "assistant", "assistantmessage": "assistant",
	"system": "system", "systemmessage": "system", "developer": "system",
	"tool": "tool", "toolmessage": "tool", "function": "tool", "functionmessage": "tool",
}

// Speaker returns the role of a memory that corresponds to the role of a message: user, assistant, system
// or tool. An unknown role is taken for an agent, and so for an assistant. known is false then,
// and for an empty role, which is a user's.
func Speaker(role string) (speaker string, known bool) {
	if role == "" {
		return "user", false
	}
	if speaker, known = roles[strings.TrimSuffix(normal(role), "chunk")]; known {
		return speaker, true
	}
	return "assistant", false
}

// roleOfType returns the role that the type of a message names, empty if it names none.
func roleOfType(typ string) string {
	if typ == "" {
		return ""
	}
	speaker, known := Speaker(typ)
	if !known {
		return ""
	}
	return speaker
}

// roleOfSender is the role of a message that names who said it by another key.
func roleOfSender(o object) string {
	for _, key := range []string{"sender", "from", "author", "speaker"} {
		if speaker := roleOfType(o.text(key)); speaker != "" {
			return speaker
		}
	}
	return ""
}
