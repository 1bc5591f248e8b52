package exchange

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// TypeMemory is the type of a line that holds a memory.
const TypeMemory = memory.TypeMemory

// Record is a memory as one flat JSON object. When read, everything but a scope
// and a text or a vector may be missing, and seq and hash are ignored: the
// database makes its own. Fields with a help are those that a command stores a memory with.
type Record struct {
	Type           string            `json:"type"`
	ID             string            `json:"id" unit:"ID" help:"its ID; a new UUID if it is left out"`
	Seq            uint64            `json:"seq,omitzero"`
	User           string            `json:"user" unit:"user" help:"ID of the user who owns it"`
	Agent          string            `json:"agent" unit:"agent" help:"ID of the agent that owns it"`
	Run            string            `json:"run" unit:"run" help:"ID of its run, the session it belongs to"`
	Role           memory.Role       `json:"role" enum:"user,assistant,system,tool" help:"who said it: user, assistant, system or tool"`
	Kind           memory.Kind       `json:"kind" enum:"message,fragment,fact,note,archive,summary" help:"what it is: message, fragment, fact, note, archive or summary"`
	Source         memory.Source     `json:"source,omitempty" unit:"word" help:"where it came from, as user_message, or any word"`
	Text           string            `json:"text" arg:"[TEXT]..." stdin:"8388608" help:"the text"`
	NoteID         uint64            `json:"note_id,omitempty"`
	Name           string            `json:"name,omitempty" unit:"name" help:"a name to call it by"`
	Aliases        []string          `json:"aliases,omitempty" flag:"alias" unit:"name" help:"another name; can be repeated"`
	Metadata       Object            `json:"metadata,omitempty" help:"any facts about it, an object"`
	Embedding      Vector            `json:"embedding,omitempty" help:"its vector, a list of numbers"`
	Vectors        map[string]Vector `json:"vectors,omitempty"`
	Importance     *float64          `json:"importance"`
	AutoImportance bool              `json:"auto_importance"`
	Confidence     *float64          `json:"confidence" help:"from 0 to 1"`
	// StoredConfidence and DecayedImportance are what a database says beside Confidence
	// and Importance, which are those of now. An export leaves them out, and an import
	// ignores them.
	StoredConfidence  *float64 `json:"stored_confidence,omitempty"`
	DecayedImportance *float64 `json:"decayed_importance,omitempty"`

	Pinned       bool   `json:"pinned" help:"it is never evicted"`
	CreatedAt    Time   `json:"created_at,omitzero"`
	UpdatedAt    Time   `json:"updated_at,omitzero"`
	EventTime    Time   `json:"event_time,omitzero" help:"when it happened"`
	ExpiresAt    Expiry `json:"expires_at,omitzero" flag:"expires" help:"when it ends; a date is the end of that day; or never"`
	Hash         string `json:"hash"`
	AccessCount  uint64 `json:"access_count"`
	LastAccessed Time   `json:"last_accessed,omitzero"`
}

// NewRecord is the record of a memory, with the vectors that it carries.
func NewRecord(m memory.Memory) Record {
	return Record{
		Type: TypeMemory, ID: m.ID, Seq: m.Seq,
		User: m.User, Agent: m.Agent, Run: m.Run,
		Role: m.Role, Kind: m.Kind, Source: m.Source,
		Text: m.Text, NoteID: m.NoteID, Name: m.Name, Aliases: m.Aliases, Metadata: m.Metadata,
		Embedding: m.Embedding, Vectors: convert[Vector](m.Vectors),
		Importance: m.Importance, AutoImportance: m.AutoImportance, Confidence: m.Confidence, Pinned: m.Pinned,
		StoredConfidence: m.StoredConfidence, DecayedImportance: m.DecayedImportance,
		CreatedAt: Time{Time: m.CreatedAt}, UpdatedAt: Time{Time: m.UpdatedAt},
		EventTime: Time{Time: m.EventTime}, ExpiresAt: Expiry{Instant: Time{Time: m.ExpiresAt}},
		Hash: m.Hash, AccessCount: m.AccessCount, LastAccessed: Time{Time: m.LastAccessed},
	}
}

// Memory is what the record stores. An importance that was computed is kept as
// it is, and computed again when the text changes; a missing one is computed.
func (r *Record) Memory() memory.Memory {
	return memory.Memory{
		ID: r.ID, Scope: memory.Scope{User: r.User, Agent: r.Agent, Run: r.Run},
		Role: r.Role, Kind: r.Kind, Source: r.Source,
		Text: r.Text, NoteID: r.NoteID, Name: r.Name, Aliases: r.Aliases, Metadata: r.Metadata,
		Embedding: r.Embedding, Vectors: convert[[]float32](r.Vectors),
		Importance: r.Importance, AutoImportance: r.AutoImportance, Confidence: r.Confidence, Pinned: r.Pinned,
		CreatedAt: r.CreatedAt.Time, UpdatedAt: r.UpdatedAt.Time,
		EventTime: r.EventTime.Time, ExpiresAt: r.ExpiresAt.Time,
		AccessCount: r.AccessCount, LastAccessed: r.LastAccessed.Time,
	}
}

// Vector is the list of a vector's components.
type Vector []float32

// UnmarshalJSON reads a list of numbers, or null for no vector, in less time than
// json would, which reads a null in the list as 0.
func (v *Vector) UnmarshalJSON(b []byte) error {
	rest, ok := bytes.CutPrefix(b, []byte("["))
	if !ok {
		return json.Unmarshal(b, (*[]float32)(v))
	}
	rest = bytes.TrimSpace(bytes.TrimSuffix(rest, []byte("]")))
	list := make(Vector, 0, bytes.Count(rest, []byte(","))+1)
	for more := len(rest) > 0; more; {
		var part []byte
		part, rest, more = bytes.Cut(rest, []byte(","))
		f, err := strconv.ParseFloat(string(bytes.TrimSpace(part)), 32)
		if err != nil {
			return noVector(b)
		}
		list = append(list, float32(f))
	}
	*v = list
	return nil
}

// noVector is why a list is no vector.
func noVector(b []byte) error {
	if err := json.Unmarshal(b, new([]float32)); err != nil {
		return err
	}
	return &json.UnmarshalTypeError{Value: nullComponent, Type: reflect.TypeFor[float32]()}
}

func convert[To, From ~[]float32](vectors map[string]From) map[string]To {
	if vectors == nil {
		return nil
	}
	out := make(map[string]To, len(vectors))
	for space, v := range vectors {
		out[space] = To(v)
	}
	return out
}

// Object is a JSON object whose numbers keep every digit, as json.Number.
type Object map[string]any

// UnmarshalJSON reads an object or null.
func (o *Object) UnmarshalJSON(b []byte) error {
	if b = bytes.TrimSpace(b); len(b) > 0 && b[0] != '{' && string(b) != "null" {
		return fmt.Errorf("metadata is %s, not an object", jsonKind(b[0]))
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var m map[string]any
	if err := d.Decode(&m); err != nil {
		return err
	}
	*o = m
	return nil
}

// ParseObject reads an object. A key that is given twice is refused: one of the two would be
// lost in silence.
func ParseObject(s string) (Object, error) {
	var o Object
	if err := Decode([]byte(s), &o); err != nil {
		return nil, err
	}
	return o, keysOnce(json.NewDecoder(strings.NewReader(s)))
}

// keysOnce refuses the next value, valid JSON, where an object in it has a key twice.
func keysOnce(d *json.Decoder) error {
	begin, err := d.Token()
	if err != nil || begin != json.Delim('{') && begin != json.Delim('[') {
		return err
	}
	seen := map[json.Token]bool{}
	for d.More() {
		if begin == json.Delim('{') {
			key, err := d.Token()
			if err != nil {
				return err
			}
			if seen[key] {
				return fmt.Errorf("the key %q is given twice", key)
			}
			seen[key] = true
		}
		if err := keysOnce(d); err != nil {
			return err
		}
	}
	_, err = d.Token() // the end of it
	return err
}

// Time is an instant: written as RFC 3339 in UTC with milliseconds, read as ParseTime
// reads it. The zero time is no time; null and "" are read as such.
type Time = clock.Instant

// Expiry is a Time that is read from a bare date as the end of that day.
type Expiry = clock.Expiry

// ParseTime reads an instant: RFC 3339, a bare date (midnight UTC), or an integer since
// 1970, of seconds below 100,000,000,000 and of milliseconds from there on. An integer of
// fewer than nine digits and a year outside 1 to 9999 are an error.
func ParseTime(s string) (time.Time, error) { return clock.Parse(s) }

// ParseExpiry is ParseTime, but for a bare date, which is the end of that day.
func ParseExpiry(s string) (time.Time, error) { return clock.ParseExpiry(s) }
