package move

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// The names of the keys, of which the first one counts that has a value of its kind.
var (
	textKeys    = []string{"text", "content", "memory", "document", "page_content", "body", "message", "fact", "note", "chunk", "data", "value", "description"}
	idKeys      = []string{"id", "uuid", "_id", "memory_id", "key"}
	userKeys    = []string{"user", "user_id", "userId"}
	agentKeys   = []string{"agent", "agent_id", "agentId"}
	runKeys     = []string{"run", "run_id", "runId", "session", "session_id", "sessionId", "conversation_id", "thread_id"}
	createdKeys = []string{"created_at", "createdAt", "created", "create_time", "timestamp", "time", "date", "ts"}
	updatedKeys = []string{"updated_at", "updatedAt", "updated", "update_time", "modified"}
	eventKeys   = []string{"event_time", "eventTime"}
	expiryKeys  = []string{"expires_at", "expiresAt", "expiration_date", "expirationDate"}
	vectorKeys  = []string{"embedding", "vector"}
)

// fields are the keys of an object that have not been used yet.
type fields map[string]json.RawMessage

// readFields reads an object. A key that is given twice is an error.
func readFields(raw []byte) (fields, error) {
	if string(raw) == "null" {
		return nil, errors.New("it is null, not an object")
	}
	members, err := exchange.Members(raw)
	if err != nil {
		return nil, err
	}
	f := make(fields, len(members))
	for _, m := range members {
		f[m.Key] = bytes.Clone(m.Value)
	}
	return f, nil
}

// text takes the first of the keys that has a text.
func (f fields) text(keys ...string) string {
	for _, key := range keys {
		var s string
		if raw, ok := f[key]; ok && raw[0] == '"' && json.Unmarshal(raw, &s) == nil && s != "" {
			delete(f, key)
			return s
		}
	}
	return ""
}

// word takes the first of the keys that has a text or an integer.
func (f fields) word(keys ...string) string {
	for _, key := range keys {
		raw, ok := f[key]
		if !ok {
			continue
		}
		var n json.Number
		if s := (fields{key: raw}).text(key); s != "" && len(s) <= memory.MaxID {
			delete(f, key)
			return s
		} else if s == "" && raw[0] != '"' && json.Unmarshal(raw, &n) == nil && n != "" {
			delete(f, key)
			return n.String()
		}
	}
	return ""
}

// time takes the first of the keys that has a time, which read reads.
func (f fields) time(read func(any) (time.Time, error), keys ...string) time.Time {
	for _, key := range keys {
		raw, ok := f[key]
		if !ok {
			continue
		}
		v, err := decodeAny(raw)
		if err != nil {
			continue
		}
		if v == nil || v == "" {
			delete(f, key)
			return time.Time{}
		}
		if t, err := read(v); err == nil {
			delete(f, key)
			return t
		}
	}
	return time.Time{}
}

// share takes a number from 0 to 1.
func (f fields) share(key string) *float64 {
	var n float64
	if raw, ok := f[key]; !ok || json.Unmarshal(raw, &n) != nil || !(n >= 0 && n <= 1) || string(raw) == "null" {
		return nil
	}
	delete(f, key)
	return &n
}

// decodeAny reads a value whose numbers keep every digit.
func decodeAny(raw []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	err = d.Decode(&v)
	return v, err
}

// metadata takes what is left: an object under the key "metadata" is laid in, where
// no key is there twice.
func (f fields) metadata() (map[string]any, error) {
	out := map[string]any{}
	for _, key := range slices.Sorted(maps.Keys(f)) {
		raw := f[key]
		if string(raw) == "null" {
			continue
		}
		v, err := decodeAny(raw)
		if err != nil {
			return nil, err
		}
		inner, ok := v.(map[string]any)
		if !ok || key != "metadata" || f.hasOne(inner) { // nothing is written over
			out[key] = v
			continue
		}
		maps.Copy(out, inner)
	}
	if len(out) == 0 {
		return nil, nil
	}
	return out, nil
}

// hasOne reports whether a key of an object is one of the fields, too.
func (f fields) hasOne(of map[string]any) bool {
	for name := range of {
		if _, ok := f[name]; ok {
			return true
		}
	}
	return false
}

var (
	roles = []memory.Role{memory.RoleUser, memory.RoleAssistant, memory.RoleSystem, memory.RoleTool}
	kinds = []memory.Kind{memory.KindMessage, memory.KindFragment, memory.KindFact, memory.KindNote, memory.KindArchive, memory.KindSummary}
)

// one takes a key whose text is one of those that there are.
func one[S ~string](f fields, key string, there []S) S {
	var s S
	if raw, ok := f[key]; !ok || json.Unmarshal(raw, &s) != nil || !slices.Contains(there, s) {
		return ""
	}
	delete(f, key)
	return s
}

// inWords is the text of an object that has none under the usual names: each key with its value.
func inWords(m map[string]any) string {
	var lines []string
	for _, key := range slices.Sorted(maps.Keys(m)) {
		text, ok := m[key].(string)
		if raw, err := json.Marshal(m[key]); !ok && err == nil {
			text = string(raw)
		}
		if strings.TrimSpace(text) != "" {
			lines = append(lines, key+": "+text)
		}
	}
	return strings.Join(lines, "\n")
}

// vector reads a vector, or vectors by the names of their spaces. Sparse ones and lists of
// vectors have no place here, and are counted.
func (w *writer) vector(m *memory.Memory, raw []byte) error {
	switch raw[0] {
	case '[':
		if inner := bytes.TrimLeft(raw[1:], " \t\r\n"); len(inner) > 0 && inner[0] == '[' {
			w.leave("lists of vectors", 1)
			return nil
		}
		var v exchange.Vector
		if err := json.Unmarshal(raw, &v); err != nil {
			return errors.New("it is no list of numbers")
		}
		if len(v) > memory.MaxDim {
			return fmt.Errorf("it has %d components; the limit is %d", len(v), memory.MaxDim)
		}
		if len(v) > 0 {
			m.Embedding = v
		}
		return nil
	case '{':
		var spaces map[string]json.RawMessage
		if err := json.Unmarshal(raw, &spaces); err != nil {
			return err
		}
		if spaces["indices"] != nil && spaces["values"] != nil {
			w.leave("sparse vectors", 1)
			return nil
		}
		return w.vectors(m, spaces)
	}
	return errors.New("it is neither a list nor an object")
}

func (w *writer) vectors(m *memory.Memory, spaces map[string]json.RawMessage) error {
	for _, name := range slices.Sorted(maps.Keys(spaces)) {
		var in memory.Memory
		if raw := spaces[name]; len(raw) == 0 || raw[0] == '{' {
			w.leave("sparse vectors", 1)
			continue
		}
		if err := w.vector(&in, spaces[name]); err != nil {
			return fmt.Errorf("%.80q: %w", name, err)
		}
		switch {
		case in.Embedding == nil:
		case name == "" || name == "default":
			m.Embedding = in.Embedding
		default:
			if m.Vectors == nil {
				m.Vectors = map[string][]float32{}
			}
			m.Vectors[name] = in.Embedding
		}
	}
	return nil
}
