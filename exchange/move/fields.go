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
	"github.com/seed-7aedc3ff/memdb/internal/scalar"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// An object of a form that does not say what its keys mean becomes a memory by the names of its
// keys; what no name tells goes to the metadata, so that nothing is lost.

// The names of the keys, of which the first one counts that has a value of its kind.
var (
	textKeys    = []string{"text", "content", "memory", "document", "page_content", "body", "message", "fact", "note", "chunk", "data", "value", "description"}
	idKeys      = []string{"id", "uuid", "_id", "memory_id", "key"}
	userKeys    = []string{"user", "user_id", "userId"}
	agentKeys   = []string{"agent", "agent_id", "agentId"}
	runKeys     = []string{"run", "run_id", "runId", "session_id", "sessionId", "conversation_id", "thread_id"}
	createdKeys = []string{"created_at", "createdAt", "created", "create_time", "timestamp", "time", "date"}
	updatedKeys = []string{"updated_at", "updatedAt", "updated", "update_time", "modified"}
	eventKeys   = []string{"event_time", "eventTime"}
	expiryKeys  = []string{"expires_at", "expiresAt", "expiration_date", "expirationDate"}
	vectorKeys  = []string{"embedding", "vector"}
)

// fields are the keys of an object that have not been used yet.
type fields map[string]json.RawMessage

// readFields reads an object.
func readFields(raw []byte) (fields, error) {
	var f fields
	if err := exchange.Decode(raw, &f); err != nil {
		return nil, err
	}
	if f == nil {
		return nil, errors.New("it is null, not an object")
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

// memoryOf is the memory that an object is.
func (w *writer) memoryOf(f fields) (memory.Memory, error) {
	times := scalar.Reader{Zone: w.opts.Zone}
	m := memory.Memory{
		Text: f.text(textKeys...),
		Role: one(f, "role", roles), Kind: one(f, "kind", kinds),
		Importance: f.share("importance"), Confidence: f.share("confidence"),
		CreatedAt: f.time(times.Time, createdKeys...), UpdatedAt: f.time(times.Time, updatedKeys...),
		EventTime: f.time(times.Time, eventKeys...), ExpiresAt: f.time(times.End, expiryKeys...),
		Scope: w.scope(f.word(userKeys...), f.word(agentKeys...), f.word(runKeys...)),
	}
	if m.UpdatedAt.Before(m.CreatedAt) {
		m.UpdatedAt = time.Time{}
	}
	id := f.word(idKeys...)
	for _, key := range vectorKeys {
		raw, ok := f[key]
		if !ok || string(raw) == "null" {
			continue
		}
		if err := w.vector(&m, raw); err != nil {
			return m, fmt.Errorf("%q: %w", key, err)
		}
		delete(f, key)
		break
	}
	var err error
	if m.Metadata, err = f.metadata(); err != nil {
		return m, err
	}
	if strings.TrimSpace(m.Text) == "" && m.Embedding == nil && len(m.Vectors) == 0 {
		if m.Text = inWords(m.Metadata); m.Text == "" {
			return m, errors.New("it has no text, and no key but those that say what it is")
		}
	}
	return m, w.identify(&m, id)
}

// identify gives a memory its ID, or one that follows from its content.
func (w *writer) identify(m *memory.Memory, id string) error {
	if m.ID = idOf(w.format, id); id != "" {
		return nil
	}
	text, err := json.Marshal(m.Metadata)
	if err != nil {
		return err
	}
	m.ID = idOf(w.format, m.User, m.Agent, m.Run, m.Text, m.CreatedAt.Format(time.RFC3339Nano), string(text))
	return nil
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

// readJSON reads a list of texts or objects, also under a key, or such values one after another.
func readJSON(in *Input, w *writer) error {
	return eachUnder(in, w, "record", listKeys, func(at exchange.LineError, raw []byte) error { return w.record(at, raw) })
}

// listKeys are those that a document may have its list of records under.
var listKeys = []string{"results", "memories", "items", "data", "records", "documents", "result", "result.points", "points"}

// record gives a text or an object.
func (w *writer) record(at exchange.LineError, raw []byte) error {
	if raw[0] == '"' {
		var s string
		if err := exchange.Decode(raw, &s); err != nil {
			return w.skip(at, err)
		}
		f := fields{"text": raw}
		m, err := w.memoryOf(f)
		if err != nil {
			return w.skip(at, errors.New("it is an empty text"))
		}
		return w.memory(at, m)
	}
	f, err := readFields(raw)
	if err != nil {
		return w.skip(at, err)
	}
	m, err := w.memoryOf(f)
	if err != nil {
		return w.skip(at, err)
	}
	return w.memory(at, m)
}

// eachUnder visits the records of a document: of a list, or of the lists under some keys of an
// object. What an object has beside them is left out. An object without such a list is a record.
func eachUnder(in *Input, w *writer, of string, keys []string, visit func(at exchange.LineError, raw []byte) error) error {
	return eachOf(in, w, of, keys, w.leave, func(at exchange.LineError, _ string, raw []byte, err error) error {
		if err != nil {
			return w.skip(at, err)
		}
		return visit(at, raw)
	})
}

// eachOf is eachUnder for a reader that wants to know under which key a record is, and what to do
// with a record that is too long and with what an object has beside its lists.
func eachOf(in *Input, w *writer, of string, keys []string, leave func(string, int), visit func(at exchange.LineError, under string, raw []byte, err error) error) error {
	s, err := exchange.NewSplitter(in.Reader)
	if err != nil {
		return err
	}
	first, wraps, further := true, false, false
	n := 0
	walk := &walk{Splitter: s}
	walk.enter = func(path string) bool {
		if path == "" {
			c, err := s.Peek()
			if first {
				first, wraps = false, err == nil && c == '{' && wrapsRecords(s.Head(), keys)
			}
			return err == nil && (c == '[' || wraps)
		}
		return wraps && slices.Contains(keys, path)
	}
	walk.visit = func(path string, _ int, raw []byte, err error) error {
		w.read = s.Bytes()
		if strings.HasSuffix(path, offsetKey) || path == nextKey {
			further = further || string(raw) != "null"
			return nil
		}
		key, inList := strings.CutSuffix(path, "[]")
		if !inList && path != "" {
			if string(raw) != "null" && string(raw) != "[]" && string(raw) != "{}" && !slices.Contains(pageKeys, key) {
				leave("beside the records: "+key, 1)
			}
			return nil
		}
		n++
		return visit(exchange.LineError{Line: n, Of: of}, key, raw, err)
	}
	err = walk.run()
	if further {
		leave("pages behind the last one", 1)
	}
	return err
}

// pageKeys say how a list was asked for, and nothing of what is in it; offsetKey and nextKey that there are
// records which the answer lacks.
var pageKeys = []string{"count", "previous", "page", "page_size", "total", "status", "time", "usage", "message"}

const (
	offsetKey = "next_page_offset"
	nextKey   = "next"
)

// wrapsRecords reports whether the object that comes next has a list under one of the keys, as far as
// its begin tells.
func wrapsRecords(head []byte, keys []string) bool {
	return slices.ContainsFunc(topKeys(head), func(k headKey) bool {
		return slices.Contains(keys, k.path) && (k.first == '[' || k.first == '{' && slices.ContainsFunc(keys, func(of string) bool {
			return strings.HasPrefix(of, k.path+".")
		}))
	})
}
