package sessions

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/messages"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// AppendOptions changes what Append does. nil is the default.
type AppendOptions struct {
	// Channel is that of the session; one that is there under another is ErrConflict.
	Channel string
	// NoMemory keeps the texts in the messages, instead of storing memories.
	NoMemory bool
	// TrimRemoves removes the oldest messages beyond so many, but for the call of a tool of
	// which a result stays. 0: none.
	TrimRemoves int
	// AutoCompact compacts the session behind the append, where its threshold is reached.
	AutoCompact *CompactOptions
	// Strict refuses messages with parts or keys that no known form has: ErrInvalid. Otherwise
	// they are kept as they are.
	Strict bool
}

// Appended is what became of one message.
type Appended struct {
	// Session is the name of the session, MessageID the ID of the message.
	Session   string `json:"session"`
	MessageID string `json:"message_id"`
	// MemoryID is the memory that the message refers to, empty where it carries its text.
	MemoryID string `json:"memory_id"`
	// Stored: a new memory was stored. Deduplicated: MemoryID is that of an earlier one.
	Stored       bool `json:"stored"`
	Deduplicated bool `json:"deduplicated"`
	// Messages is how many the session has then.
	Messages int `json:"messages"`
	// Repeated: the same message was there already, under its ID. Nothing was changed.
	Repeated bool `json:"repeated,omitempty"`
	// Unknown counts the parts and keys of the message that no known form has. They are kept.
	Unknown int `json:"unknown,omitempty"`
}

// Append adds messages at the end of a session, which is made if there is none. Each message
// with a text, or without one but with parts that are text, is stored as a memory of the
// session's run, unless the same text is there already, in the commit that appends. A message that names a memory that is there refers to
// it, and needs no text; if it has a text, the memory must have the same.
//
// A message under an ID that the session has already is left as it is if it says the same;
// otherwise it is ErrExists. A closed session is ErrConflict.
func (s Sessions) Append(ctx context.Context, o scope.Owner, name string, messages []Message, opts *AppendOptions) ([]Appended, error) {
	if opts == nil {
		opts = &AppendOptions{}
	}
	doing := named("append to", name)
	a, err := s.prepareAppend(ctx, doing, o, name, messages, opts)
	if err != nil {
		return nil, err
	}
	var out []Appended
	err = s.run.Append(ctx, doing, a.bytes, func(t part.Tx) error {
		out, err = a.apply(t)
		return err
	})
	if err != nil {
		return nil, err
	}
	if opts.AutoCompact != nil {
		if _, err := s.Compact(ctx, o, name, opts.AutoCompact); err != nil {
			return out, fault.Within("the messages are appended, but not compacted", err)
		}
	}
	return out, nil
}

// appending is an append that was checked outside of the lock.
type appending struct {
	doing    string
	owner    scope.Owner
	name     string
	opts     *AppendOptions
	messages []Message
	given    []bool          // which messages came with an ID
	memories []part.Prepared // those to be stored, by message
	unknown  []int           // how many parts and keys of each no form has
	bytes    int
}

// messageBytes is about what a message writes beside its content.
const messageBytes = 512

func (s Sessions) prepareAppend(ctx context.Context, doing string, o scope.Owner, name string, messages []Message, opts *AppendOptions) (*appending, error) {
	if err := checkName(doing, o, name); err != nil {
		return nil, err
	}
	if err := valid.Word(doing, "channel", opts.Channel); err != nil {
		return nil, err
	}
	switch {
	case len(messages) == 0:
		return nil, fault.Invalid(doing, "there is no message", "give one")
	case opts.TrimRemoves < 0:
		return nil, fault.Invalid(doing, "TrimRemoves is negative", "give how many messages to keep, or 0 for all")
	}
	a := &appending{
		doing: doing, owner: o, name: name, opts: opts, messages: make([]Message, len(messages)),
		given: make([]bool, len(messages)), memories: make([]part.Prepared, len(messages)), unknown: make([]int, len(messages)), bytes: 2 * stateBytes,
	}
	for i := range messages {
		if err := s.prepareMessage(ctx, a, i, messages[i]); err != nil {
			if len(messages) > 1 {
				err = fault.Within(fmt.Sprintf("message %d of %d", i+1, len(messages)), err)
			}
			return nil, err
		}
	}
	return a, nil
}

func (s Sessions) prepareMessage(ctx context.Context, a *appending, i int, m Message) (err error) {
	if err := checkMessage(a.doing, &m); err != nil {
		return err
	}
	if a.unknown[i], err = m.unknown(a.doing, a.opts.Strict); err != nil {
		return err
	}
	if a.given[i] = m.ID != ""; !a.given[i] {
		if m.ID, err = newID(a.doing); err != nil {
			return err
		}
	}
	a.bytes += messageBytes + m.size()
	text := m.Text
	if text == "" && len(m.MemoryIDs) == 0 {
		text = m.form().Words()
	}
	if strings.TrimSpace(text) != "" && !a.opts.NoMemory {
		speaker, _ := messages.Speaker(m.Role)
		if a.memories[i], err = s.run.Prepare(ctx, part.NewMemory{
			ID: m.MemoryID(), Scope: scope.Scope{User: a.owner.User, Agent: a.owner.Agent, Run: a.name},
			Role: speaker, Text: text, Created: clock.ToMillis(m.At),
		}); err != nil {
			return err
		}
		a.bytes += a.memories[i].Bytes()
	}
	a.messages[i] = m
	return nil
}

// checkMessage checks a message that is to be appended, and completes it.
func checkMessage(doing string, m *Message) (err error) {
	if m.Role == "" {
		m.Role, _ = messages.Speaker("")
	}
	switch {
	case m.bare():
		return fault.Invalid(doing, "the message is empty", "give a text, parts, calls of tools or a memory")
	case len(m.MemoryIDs) > 1:
		return fault.Invalid(doing, "it refers to several memories", "append a message for each")
	}
	return checkWords(doing, m)
}

// checkWords checks what a message may not have even where it is damaged.
func checkWords(doing string, m *Message) (err error) {
	for what, word := range map[string]string{"message ID": m.ID, "role": m.Role, "name": m.Name, "tool_call_id": m.ToolCallID} {
		if err := valid.Word(doing, what, word); err != nil {
			return err
		}
	}
	for _, id := range m.MemoryIDs {
		if err := valid.Word(doing, "memory ID", id); err != nil {
			return err
		}
	}
	if err := valid.Time(doing, "time", m.At); err != nil {
		return err
	}
	if len(m.Text) > MaxText {
		return fault.Invalid(doing, fmt.Sprintf("its text is %d bytes long, the limit is %d", len(m.Text), MaxText), "split it")
	}
	if valid.InvalidAt(m.Text) < len(m.Text) {
		return fault.Invalid(doing, "its text is no UTF-8", "convert it to UTF-8")
	}
	for what, b := range map[string]*json.RawMessage{"parts": &m.Parts, "tool_calls": &m.ToolCalls, "extra keys": &m.Extra} {
		if len(*b) > 0 {
			if *b, err = compactJSON(doing, what, *b, MaxParts); err != nil {
				return err
			}
		}
	}
	return nil
}

// apply appends, in a transaction.
func (a *appending) apply(t part.Tx) ([]Appended, error) {
	if err := t.Need(a.doing, a.bytes); err != nil {
		return nil, err
	}
	c, err := begin(t, a.owner, a.name)
	if err != nil {
		return nil, err
	}
	if err := c.appendable(a.doing, a.opts.Channel, len(a.messages)); err != nil {
		return nil, err
	}
	out := make([]Appended, len(a.messages))
	fresh := 0
	for i := range a.messages {
		if out[i].Repeated, err = a.repeated(c, i); err != nil {
			return nil, err
		}
		if !out[i].Repeated {
			fresh++
		}
	}
	if fresh > 0 {
		if err := c.settle(); err != nil {
			return nil, err
		}
	}
	first := c.next
	for i := range a.messages {
		if err := a.add(c, i, &out[i]); err != nil {
			return nil, err
		}
	}
	if fresh > 0 {
		if err := c.appended(first, a.opts.TrimRemoves); err != nil {
			return nil, err
		}
	}
	for i := range out {
		out[i].Session, out[i].MessageID, out[i].Messages = a.name, a.messages[i].ID, c.count()
		out[i].Unknown = a.unknown[i]
	}
	return out, nil
}

// appendable refuses an append to a session that is closed, full, or of another channel.
func (c *change) appendable(doing, channel string, n int) error {
	switch {
	case c.fresh():
		c.channel = channel
		return nil
	case c.closed():
		return &fault.Error{Kind: fault.ErrConflict, What: doing, Why: "the session is closed", Do: "open it again"}
	case uint64(c.next)+uint64(n) > MaxMessages:
		return &fault.Error{Kind: fault.ErrFull, What: doing, Why: "the session has no numbers left", Do: "repair it, which numbers its messages anew, or begin another one"}
	}
	return c.sameChannel(doing, channel)
}

// repeated reports whether a message is there already. One with the same ID that says
// something else is ErrExists.
func (a *appending) repeated(c *change, i int) (bool, error) {
	m := &a.messages[i]
	if !a.given[i] {
		return false, nil
	}
	for j := range i {
		if a.messages[j].ID == m.ID {
			return false, fault.Invalid(a.doing, fmt.Sprintf("two of its messages have the ID %q", valid.Short(m.ID)), "give each its own")
		}
	}
	if c.fresh() {
		return false, nil
	}
	have, _, err := byID(c, c.at, c.head, m.ID)
	if err != nil || have == nil {
		return false, err
	}
	if err := resolve(c, c.of, c.at, have); err != nil {
		return false, err
	}
	if have.Role == m.Role && (m.Text == "" || have.Text == m.Text) && have.alike(m) &&
		(len(m.MemoryIDs) == 0 || have.MemoryID() == m.MemoryID()) {
		return true, nil
	}
	return false, &fault.Error{
		Kind: fault.ErrExists, What: a.doing, Why: fmt.Sprintf("the message %q is there and says something else", valid.Short(m.ID)),
		Do: "choose another ID, or leave it out",
	}
}

// add stores the memory of a message and writes the message.
func (a *appending) add(c *change, i int, out *Appended) error {
	m := a.messages[i] // a copy: a transaction may be tried again
	if out.Repeated {
		have, _, err := byID(c, c.at, c.head, m.ID)
		if err == nil && have != nil {
			out.MemoryID = have.MemoryID()
		}
		return err
	}
	p, err := a.refer(c, i, &m, out)
	if err != nil {
		return err
	}
	m.pieces = nil
	if p != (piece{}) {
		m.pieces = []piece{p}
	}
	if out.MemoryID = p.id; m.At.IsZero() {
		m.At = clock.FromMillis(c.Now())
	}
	return c.put(c.next, &m)
}

// refer finds or stores the memory of a message.
func (a *appending) refer(c *change, i int, m *Message, out *Appended) (piece, error) {
	id := m.MemoryID()
	if id != "" {
		mem, found, err := c.Memory(a.owner, id)
		switch {
		case err != nil:
			return piece{}, err
		case found && m.Text != "" && m.Text != mem.Text:
			return piece{}, &fault.Error{
				Kind: fault.ErrExists, What: a.doing, Why: fmt.Sprintf("the memory %q has another text", valid.Short(id)),
				Do: "leave the text out to refer to that memory, or choose another ID",
			}
		case found:
			return piece{seq: mem.Seq, id: id}, nil
		case a.memories[i] == nil:
			return piece{}, &fault.Error{
				Kind: fault.ErrNotFound, What: a.doing, Why: fmt.Sprintf("its owner has no memory %q", valid.Short(id)), Do: "check the ID and the owner, or give the text",
			}
		}
	}
	if a.memories[i] == nil {
		return piece{text: m.Text}, nil
	}
	s, err := c.StoreMemory(a.memories[i])
	if err != nil {
		return piece{}, err
	}
	out.Stored, out.Deduplicated = s.Stored, s.Deduplicated
	return piece{seq: s.Seq, id: s.ID, quiet: m.Text == ""}, nil // the parts say it
}

// put writes a message at a position of the content that the session shows.
func (c *change) put(position uint32, m *Message) error {
	c.next = max(c.next, position+1)
	return c.putIn(c.content, position, m)
}

// putIn writes a message at a position of a content.
func (c *change) putIn(content, position uint32, m *Message) error {
	if err := c.Set(c.at.item(c, kindMessage, content, position, c.LSN()), encodeMessage(m)); err != nil {
		return err
	}
	if m.ID == "" {
		return nil
	}
	return c.Set(c.at.id(c, content, m.ID), numbers(position))
}

// appended ends a change that added the positions from first on.
func (c *change) appended(first uint32, trim int) error {
	c.updated = max(c.updated, c.Now())
	c.Log(opAppend, logged(c.at, numbers(c.content, first, c.next-first)))
	cut := trim > 0 && c.count() > trim
	if cut {
		var err error
		if c.first, err = wholeFrom(c, c.at, c.head, c.first, c.next-uint32(trim)); err != nil {
			return err
		}
		if err := c.later(c.content, c.first); err != nil {
			return err
		}
	}
	if !c.fresh() && !cut {
		return c.save()
	}
	metadata, err := c.metadata()
	if err != nil {
		return err
	}
	return c.saveState(metadata)
}

// byID is the message of a session that has an ID, nil where there is none.
func byID(v part.View, p place, h *head, id string) (m *Message, position uint32, err error) {
	b, found, err := v.Get(p.id(v, h.content, id))
	if err != nil || !found {
		return nil, 0, err
	}
	position, ok := readNumber(b)
	if !ok {
		return nil, 0, &fault.Error{Kind: fault.ErrCorrupt, What: fmt.Sprintf("look up message %q", valid.Short(id)), Do: "run check"}
	}
	if position < h.first || position >= h.next {
		return nil, 0, nil
	}
	err = eachMessage(v, p, h.content, position, position+1, func(_ uint32, read *Message) error {
		if read.ID == id {
			m = read
		}
		return nil
	})
	return m, position, err
}
