package sessions

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/codec"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// The limits of a session.
const (
	// MaxText bounds the text of a message, and MaxParts its parts, in bytes.
	MaxText  = 8 << 20
	MaxParts = 8 << 20
	// MaxMetadata bounds the metadata of a session, in bytes of JSON: they are stored again
	// when the session is changed, but not when something is appended.
	MaxMetadata = 64 << 10
	// MaxDepth bounds how deep parts and metadata nest.
	MaxDepth = 1000
	// MaxMessages bounds the messages that a session ever had since it was saved or
	// repaired last.
	MaxMessages = math.MaxInt32
)

// Session is a conversation without its messages.
type Session struct {
	scope.Owner
	// Session is its name, which is the run of its memories.
	Session string `json:"session"`
	// Channel is where it takes place, such as "telegram". A session keeps it for good.
	Channel string `json:"channel"`
	// Metadata is a JSON object, or nothing.
	Metadata json.RawMessage `json:"metadata,omitempty"`
	// Messages counts those it holds, also those before a marker.
	Messages int `json:"messages"`
	// Compactions counts how often it was compacted.
	Compactions int       `json:"compactions"`
	CreatedAt   time.Time `json:"created_at"`
	UpdatedAt   time.Time `json:"updated_at"`
	// Closed: nothing can be appended until it is opened again. Archived: it is closed, and
	// a list has it only when archived sessions are asked for.
	Closed   bool `json:"closed"`
	Archived bool `json:"archived,omitempty"`
	// Version is the LSN of the commit that changed it last.
	Version uint64 `json:"version"`
}

// Message is one message of a session.
type Message struct {
	// ID is unique in its session, unless the session is damaged. Empty in an append: a UUID
	// is made.
	ID   string
	Role string
	Text string
	// Parts is the content of a message that is more than text: any JSON value, such as a list
	// of text, image, tool call and tool result. It is kept as it was given, in compact form.
	Parts json.RawMessage
	// ToolCalls is a list of the tools that the message calls, and ToolCallID the call of which
	// it brings the result, both as OpenAI writes them; other forms have them among the parts.
	// Name is who said it, of several in one role.
	ToolCalls  json.RawMessage
	ToolCallID string
	Name       string
	// Extra is a JSON object of the other keys that the message came with, of any form.
	Extra json.RawMessage
	// MemoryIDs are the memories that it refers to: one, or several where messages
	// were merged.
	MemoryIDs []string
	// At is when it was said. In an append, zero is now.
	At time.Time
	// Orphan: a memory that it refers to is not there. Set when it is read.
	Orphan bool

	pieces []piece // where it was read
}

// MemoryID is the first memory that the message refers to, empty where there is none.
func (m *Message) MemoryID() string {
	if len(m.MemoryIDs) == 0 {
		return ""
	}
	return m.MemoryIDs[0]
}

// Marker says that the messages before it are summarised.
type Marker struct {
	// ArchiveID is the memory that holds the summary, ArchiveName its name.
	ArchiveID   string
	ArchiveName string
	ArchivedAt  time.Time
	// Summarized is how many messages the summary was made of.
	Summarized int
}

// Item is a message or a marker: one of the two is set.
type Item struct {
	// One of the two is not nil.
	Message *Message
	Marker  *Marker
}

// The flags of a stored session.
const (
	flagLive = 1 << iota
	flagClosed
	flagArchived
)

// head is a session as it is stored.
type head struct {
	of                scope.Owner
	name              string
	channel           string
	flags             uint64
	created, updated  int64
	listed            int64  // the time under which lists have it
	version           uint64 // the LSN of the last change
	state             uint64 // the LSN of its newest state
	content, contents uint32 // the content that it shows, and the last number of one that was given
	first, next       uint32 // the positions that it shows
	markers           uint32
	undo              undo
	metadata          []byte // of a state
}

// undo is what a session showed before its last repair.
type undo struct {
	content, first, next uint32 // content 0: there was none
	markers              uint32
	repaired             uint32 // next behind the repair
}

// The version of the stored forms, and that of a message that has more than text and parts.
const (
	recordVersion  = 1
	messageVersion = 2
)

func (h *head) live() bool     { return h.flags&flagLive != 0 }
func (h *head) closed() bool   { return h.flags&flagClosed != 0 }
func (h *head) archived() bool { return h.flags&flagArchived != 0 }
func (h *head) count() int     { return int(h.next - h.first) }

// encode is the value under S, and with metadata under G.
func (h *head) encode(metadata []byte) []byte {
	b := append(make([]byte, 0, 96+len(h.name)+len(h.channel)+len(metadata)), recordVersion)
	b = codec.AppendBytes(b, h.of.User)
	b = codec.AppendBytes(b, h.of.Agent)
	b = codec.AppendBytes(b, h.name)
	b = codec.AppendBytes(b, h.channel)
	b = binary.AppendUvarint(b, h.flags)
	b = binary.AppendVarint(b, h.created)
	b = binary.AppendVarint(b, h.updated)
	b = binary.AppendVarint(b, h.listed)
	b = binary.AppendUvarint(b, h.version)
	b = binary.AppendUvarint(b, h.state)
	u := &h.undo
	for _, n := range []uint32{h.content, h.contents, h.first, h.next, h.markers, u.content, u.first, u.next, u.markers, u.repaired} {
		b = binary.AppendUvarint(b, uint64(n))
	}
	return append(b, metadata...)
}

func decodeHead(b []byte) (*head, error) {
	r := codec.NewReader(b)
	h, v := readHead(r)
	h.metadata = bytes.Clone(r.Rest())
	if r.Err() != nil || v != recordVersion || h.first > h.next {
		return nil, &fault.Error{Kind: fault.ErrCorrupt, What: "read a session", Cause: r.Err()}
	}
	return h, nil
}

// readHead reads a session but for its metadata, which come next.
func readHead(r *codec.Reader) (h *head, version byte) {
	version = r.Byte()
	h = &head{of: scope.Owner{User: r.String(), Agent: r.String()}, name: r.String(), channel: r.String()}
	h.flags = r.Uvarint()
	h.created, h.updated, h.listed = r.Varint(), r.Varint(), r.Varint()
	h.version, h.state = r.Uvarint(), r.Uvarint()
	u := &h.undo
	for _, n := range []*uint32{&h.content, &h.contents, &h.first, &h.next, &h.markers, &u.content, &u.first, &u.next, &u.markers, &u.repaired} {
		*n = r.Uint32()
	}
	return h, version
}

// session is what a caller sees.
func (h *head) session(metadata []byte) Session {
	return Session{
		Owner: h.of, Session: h.name, Channel: h.channel, Metadata: metadata,
		Messages: h.count(), Compactions: int(h.markers),
		CreatedAt: clock.FromMillis(h.created), UpdatedAt: clock.FromMillis(h.updated),
		Closed: h.closed(), Archived: h.archived(), Version: h.version,
	}
}

// piece is what one message said before messages were merged: a reference to a memory, a
// text of its own, or both, of which the text counts.
type piece struct {
	seq   uint64 // 0: the memory was not there when it was written
	id    string
	text  string
	quiet bool // it only refers: another piece says the text
}

// encodeMessage is the value under T.
func encodeMessage(m *Message) []byte {
	version := byte(recordVersion)
	if m.more() {
		version = messageVersion
	}
	b := append(make([]byte, 0, 64+len(m.ID)+m.size()), version)
	b = codec.AppendBytes(b, m.ID)
	b = codec.AppendBytes(b, m.Role)
	b = binary.AppendVarint(b, clock.ToMillis(m.At))
	b = binary.AppendUvarint(b, uint64(len(m.pieces)))
	for _, p := range m.pieces {
		quiet := byte(0)
		if p.quiet {
			quiet = 1
		}
		b = binary.AppendUvarint(append(b, quiet), p.seq)
		b = codec.AppendBytes(b, p.id)
		b = codec.AppendBytes(b, p.text)
	}
	if version == messageVersion {
		b = codec.AppendBytes(b, m.Name)
		b = codec.AppendBytes(b, m.ToolCallID)
		b = codec.AppendBytes(b, string(m.ToolCalls))
		b = codec.AppendBytes(b, string(m.Extra))
	}
	return append(b, m.Parts...)
}

// more reports whether the message has what version 1 of its form has no place for.
func (m *Message) more() bool {
	return m.Name != "" || m.ToolCallID != "" || len(m.ToolCalls) > 0 || len(m.Extra) > 0
}

func decodeMessage(b []byte) (*Message, error) {
	r := codec.NewReader(b)
	v := r.Byte()
	m := &Message{ID: r.String(), Role: r.String(), At: clock.FromMillis(r.Varint())}
	for range r.Count() {
		m.pieces = append(m.pieces, piece{quiet: r.Byte() != 0, seq: r.Uvarint(), id: r.String(), text: r.String()})
	}
	if v == messageVersion {
		m.Name, m.ToolCallID = r.String(), r.String()
		m.ToolCalls, m.Extra = rawOf(r.String()), rawOf(r.String())
	}
	m.Parts = rawOf(string(r.Rest()))
	if r.Err() != nil || v != recordVersion && v != messageVersion {
		return nil, &fault.Error{Kind: fault.ErrCorrupt, What: "read a message", Cause: r.Err()}
	}
	for _, p := range m.pieces {
		if p.id != "" {
			m.MemoryIDs = append(m.MemoryIDs, p.id)
		}
	}
	return m, nil
}

// rawOf is JSON that was stored, nil where there was none.
func rawOf(s string) json.RawMessage {
	if s == "" {
		return nil
	}
	return json.RawMessage(s)
}

// encode is the value under B.
func (m *Marker) encode() []byte {
	b := append([]byte(nil), recordVersion)
	b = codec.AppendBytes(b, m.ArchiveID)
	b = codec.AppendBytes(b, m.ArchiveName)
	b = binary.AppendVarint(b, clock.ToMillis(m.ArchivedAt))
	return binary.AppendUvarint(b, uint64(m.Summarized))
}

func decodeMarker(b []byte) (*Marker, error) {
	r := codec.NewReader(b)
	v := r.Byte()
	m := &Marker{ArchiveID: r.String(), ArchiveName: r.String(), ArchivedAt: clock.FromMillis(r.Varint()), Summarized: int(r.Uint32())}
	if r.Err() != nil || v != recordVersion {
		return nil, &fault.Error{Kind: fault.ErrCorrupt, What: "read a marker", Cause: r.Err()}
	}
	return m, nil
}

// stamped is a time as it is stored.
func stamped(t time.Time) time.Time { return clock.FromMillis(clock.ToMillis(t)) }

// joined is the text of pieces whose texts are known.
func joined(texts []string) string {
	kept := texts[:0]
	for _, t := range texts {
		if t != "" {
			kept = append(kept, t)
		}
	}
	return strings.Join(kept, "\n")
}

// checkMarker checks a marker that comes from outside.
func checkMarker(doing string, m *Marker) error {
	for what, word := range map[string]string{"archive ID": m.ArchiveID, "archive name": m.ArchiveName} {
		if err := valid.Word(doing, what, word); err != nil {
			return err
		}
	}
	if m.Summarized < 0 || m.Summarized > MaxMessages {
		return fault.Invalid(doing, fmt.Sprintf("it summarises %d messages", m.Summarized), "give how many there were")
	}
	m.ArchivedAt = stamped(m.ArchivedAt)
	return valid.Time(doing, "archived_at", m.ArchivedAt)
}

// checkName refuses an owner or a name that a session cannot have.
func checkName(doing string, o scope.Owner, name string) error {
	if err := scope.Check(doing, o.Scope()); err != nil {
		return err
	}
	if name == "" {
		return fault.Invalid(doing, "the session has no name", "give the run of its memories")
	}
	return valid.Word(doing, "session", name)
}

// checkObject returns metadata in compact form.
func checkObject(doing string, b json.RawMessage) (json.RawMessage, error) {
	if len(b) == 0 || string(b) == "null" {
		return nil, nil
	}
	b, err := compactJSON(doing, "metadata", b, MaxMetadata)
	if err == nil && b[0] != '{' {
		err = fault.Invalid(doing, "its metadata is no JSON object", "give one")
	}
	return b, err
}

// compactJSON checks a JSON value and returns it without blanks.
func compactJSON(doing, what string, b json.RawMessage, limit int) (json.RawMessage, error) {
	if err := valid.JSON(b); err != nil {
		return nil, fault.Invalid(doing, fmt.Sprintf("its %s is no text: %v", what, err), "convert it to UTF-8")
	}
	var out bytes.Buffer
	if err := json.Compact(&out, b); err != nil {
		return nil, fault.Invalid(doing, fmt.Sprintf("its %s is no JSON: %v", what, err), "give JSON")
	}
	if out.Len() > limit {
		return nil, fault.Invalid(doing, fmt.Sprintf("its %s is %d bytes long, the limit is %d", what, out.Len(), limit), "shorten it")
	}
	if depth := valid.Depth(b); depth > MaxDepth {
		return nil, fault.Invalid(doing, fmt.Sprintf("its %s nests %d deep, the limit is %d", what, depth, MaxDepth), "flatten it")
	}
	return out.Bytes(), nil
}
