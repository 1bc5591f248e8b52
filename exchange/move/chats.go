package move

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/internal/messages"
	"github.com/seed-7aedc3ff/memdb/internal/scalar"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// chatIDs are the keys of the ID of a conversation, and titles those of its name.
var chatIDs = []string{"id", "uuid", "conversation_id", "conversationId", "session_id", "sessionId", "thread_id", "threadId", "chat_id"}

// errLongChat is of a conversation that is held as a whole.
var errLongChat = fmt.Errorf("the messages of one conversation are %w", exchange.ErrLongLine)

// readChats reads conversations of messages in any provider's form: objects that have their messages
// under a key, lists of messages, or the messages of one conversation, one after another.
func readChats(in *Input, w *writer) error {
	l := in.layout()
	var bare []json.RawMessage
	size := 0
	var first exchange.LineError
	err := eachUnder(in, w, "conversation", chatKeys, func(at exchange.LineError, raw []byte) error {
		if !l.bare || raw[0] == '[' {
			return w.anyChat(at, raw)
		}
		if len(bare) == 0 {
			first = at
		}
		if size += len(raw) + overhead; size > exchange.MaxLine {
			return errLongChat
		}
		bare = append(bare, slices.Clone(raw))
		return nil
	})
	if err != nil || len(bare) == 0 {
		return err
	}
	return w.messagesOf(first, fields{}, bare, w.opts.Into.Scope.Run)
}

// anyChat gives a conversation that is one record.
func (w *writer) anyChat(at exchange.LineError, raw []byte) error {
	var list []json.RawMessage
	if raw[0] == '[' {
		if err := exchange.Decode(raw, &list); err != nil {
			return w.skip(at, err)
		}
		return w.messagesOf(at, fields{}, list, "")
	}
	f, err := readFields(raw)
	if err != nil {
		return w.skip(at, err)
	}
	for _, key := range chatKeys {
		if json.Unmarshal(f[key], &list) == nil && len(list) > 0 {
			delete(f, key)
			return w.messagesOf(at, f, list, "")
		}
	}
	return w.skip(at, fmt.Errorf("it has no list of messages under %s", strings.Join(chatKeys, ", ")))
}

// messagesOf gives a conversation of messages. Keys beside them are metadata of the session. A
// conversation without an ID is appended to the session run if that is not empty.
func (w *writer) messagesOf(at exchange.LineError, f fields, list []json.RawMessage, run string) error {
	c := &conversation{at: at, metadata: map[string]any{}, created: f.time(scalar.Reader{Zone: w.opts.Zone}.Time, createdKeys...)}
	id := f.word(chatIDs...)
	var all []*message
	var content []string
	for i, raw := range list {
		m, err := w.anyMessage(raw)
		if err != nil {
			if err := w.skip(at, fmt.Errorf("message %d: %w", i+1, err)); err != nil {
				return err
			}
			continue
		}
		content = append(content, canonical(raw))
		all = append(all, m)
	}
	prefix := "message"
	switch {
	case id != "":
		c.id = idOf(w.format, id)
	case run != "":
		c.id, prefix = run, w.contentID(content...) // other conversations may be in the run
	default:
		c.id = w.contentID(content...)
	}
	for i, m := range all {
		m.ID = cmp.Or(m.ID, fmt.Sprintf("%s-%d", prefix, i+1))
	}
	w.describe(c, f)
	return w.conversation(c, all)
}

// describe puts keys into the metadata of a session, as far as there is room.
func (w *writer) describe(c *conversation, f fields) {
	room := memory.MaxMetadata / 2
	for _, key := range slices.Sorted(maps.Keys(f)) {
		raw := f[key]
		if isNothing(raw) {
			continue
		}
		if len(key)+len(raw) > room {
			w.leave("of conversations: "+cut(key), 1)
			continue
		}
		room -= len(key) + len(raw)
		c.metadata[key] = valueOf(raw)
	}
}

// anyMessage reads a message of any form.
func (w *writer) anyMessage(raw []byte) (*message, error) {
	m := &message{}
	if len(raw) == 0 || raw[0] != '{' {
		return nil, errors.New("it is no object")
	}
	var from, value string
	read, err := messages.Read(raw, func(key string, v []byte) bool {
		switch {
		case key == "from":
			return json.Unmarshal(v, &from) == nil
		case key == "value":
			return json.Unmarshal(v, &value) == nil
		case slices.Contains(createdKeys, key) && m.at.IsZero():
			t, err := scalar.Reader{Zone: w.opts.Zone}.Time(valueOf(v))
			m.at = t
			return err == nil && !t.IsZero()
		}
		return false
	})
	if err != nil {
		return nil, err
	}
	m.Message = *read
	if from != "" {
		m.Role = from
	}
	if value != "" {
		m.Text += value
	}
	if _, known := messages.Speaker(m.Role); !known && m.Role != "" { // a call or its result, in words
		m.aside = from != ""
	}
	return m, nil
}
