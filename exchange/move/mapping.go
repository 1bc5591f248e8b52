package move

import (
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
// keys. Keys that no name tells, and values that are none of what their key says, go to the metadata,
// so that nothing is lost. Every key that gets another name is reported.

// A mapping makes a memory of an object.
type mapping struct {
	*writer
	fields        // those that are left
	given  fields // by the names of the fields of a memory, as Options.Map says
}

// memoryOf is the memory that an object is, by the names of its keys.
func (w *writer) memoryOf(f fields) (memory.Memory, error) { return w.mapping(f, false) }

// mapping is memoryOf. An object of JSON that has no other keys than a memory has in memdb's own form
// has all of them, also those that mean something else elsewhere, such as a name.
func (w *writer) mapping(f fields, mayBeOwn bool) (m memory.Memory, err error) {
	o := &mapping{writer: w, fields: f, given: w.pull(f)}
	own := mayBeOwn && f.areOwn()
	m.Text = o.text()
	m.Role = pick(o, "role", []string{"role"}, readRole)
	m.Kind = pick(o, "kind", []string{"kind"}, func(f fields, key string) (memory.Kind, bool) {
		k := one(f, key, kinds)
		return k, k != ""
	})
	m.Importance, m.Confidence = o.share("importance"), o.share("confidence")
	m.CreatedAt, m.UpdatedAt = o.instant("created_at", createdKeys), o.instant("updated_at", updatedKeys)
	m.EventTime, m.ExpiresAt = o.instant("event_time", eventKeys), o.instant("expires_at", expiryKeys)
	if m.UpdatedAt.Before(m.CreatedAt) && !m.UpdatedAt.IsZero() {
		w.leave("times of an update before the creation", 1)
		m.UpdatedAt = time.Time{}
	}
	if m.Scope, err = o.scope(); err != nil {
		return m, err
	}
	id := pick(o, "id", idKeys, readWord)
	if err := o.vectors(&m); err != nil {
		return m, err
	}
	m.Name = pick(o, "name", nil, readWord)
	if own {
		o.ownFields(&m)
	}
	if m.Metadata, err = o.rest(); err != nil {
		return m, err
	}
	if strings.TrimSpace(m.Text) == "" && m.Embedding == nil && len(m.Vectors) == 0 {
		if m.Text = inWords(m.Metadata); m.Text == "" {
			return m, errors.New("it has no text, and no key but those that say what it is")
		}
	}
	if id != "" { // without one it gets one of its content, when it is stored
		m.ID = idOf(w.format, id)
	}
	return m, nil
}

// pick takes a field of a memory: what the Map gives for it, or the first of the keys that has a value
// which can be read. The others stay.
func pick[T any](o *mapping, field string, keys []string, read func(f fields, key string) (T, bool)) (v T) {
	if _, ok := o.given[field]; ok {
		if v, ok := read(o.given, field); ok {
			delete(o.given, field)
			o.mapped.Add(o.opts.Map[field], field)
			return v
		}
	}
	for _, key := range keys {
		if o.fields[key] == nil {
			continue
		}
		if v, ok := read(o.fields, key); ok {
			o.mapped.Add(key, field)
			delete(o.fields, key)
			return v
		}
	}
	return v
}

func readText(f fields, key string) (string, bool) {
	s := f.text(key)
	return s, s != ""
}

func readWord(f fields, key string) (string, bool) {
	s := f.word(key)
	return s, s != ""
}

// readRole reads a role by any of its usual names.
func readRole(f fields, key string) (memory.Role, bool) {
	var s string
	if json.Unmarshal(f[key], &s) != nil {
		return "", false
	}
	role := memory.Role(strings.ToLower(s))
	if usual, ok := usualRoles[role]; ok {
		role = usual
	}
	return role, slices.Contains(roles, role)
}

// usualRoles are names that others have for roles.
var usualRoles = map[memory.Role]memory.Role{
	"human": memory.RoleUser, "ai": memory.RoleAssistant, "model": memory.RoleAssistant, "bot": memory.RoleAssistant,
	"developer": memory.RoleSystem, "function": memory.RoleTool,
}

// text takes the text. A value that the Map gives, and that is no text, is one as JSON.
func (o *mapping) text() string {
	text := pick(o, "text", textKeys, readText)
	if raw, ok := o.given["text"]; ok && raw[0] != '"' {
		delete(o.given, "text")
		o.mapped.Add(o.opts.Map["text"], "text")
		return string(raw)
	}
	o.same("text", text, ownTextKeys, readText)
	return text
}

// ownTextKeys are the textKeys with no other meaning.
var ownTextKeys = textKeys[:3]

// same drops the keys that have the value of a field again. One with another value stays, and is noted.
func (o *mapping) same(field string, v string, keys []string, read func(f fields, key string) (string, bool)) {
	for _, key := range keys {
		raw, ok := o.fields[key]
		if !ok || v == "" {
			continue
		}
		switch other, _ := read(fields{key: raw}, key); other {
		case v:
			delete(o.fields, key)
		case "":
		default:
			o.doubled.Add(fmt.Sprintf("a %s and %q", field, key), 1)
		}
	}
}

// share takes a number from 0 to 1.
func (o *mapping) share(field string) *float64 {
	return pick(o, field, []string{field}, func(f fields, key string) (*float64, bool) {
		n := f.share(key)
		return n, n != nil
	})
}

// instant takes a time. One that cannot be read stays as it is, and is noted.
func (o *mapping) instant(field string, keys []string) time.Time {
	times := scalar.Reader{Zone: o.opts.Zone}
	read := times.Time
	if field == "expires_at" {
		read = times.End
	}
	t := pick(o, field, keys, func(f fields, key string) (time.Time, bool) {
		t := f.time(read, key)
		return t, !t.IsZero()
	})
	for _, key := range append([]string{o.opts.Map[field]}, keys...) {
		raw, ok := o.fields[key]
		if key == o.opts.Map[field] && o.given[field] != nil {
			raw, ok = o.given[field], true
		}
		if ok && string(raw) != "null" && string(raw) != `""` && (t.IsZero() || key == keys[0]) {
			o.unread.Add(fmt.Sprintf("%q", key), 1)
			break
		}
	}
	return t
}

// scope takes the owner and the run. Two that differ are an error: a record is in one scope.
func (o *mapping) scope() (memory.Scope, error) {
	var named [3]string
	for i, part := range []struct {
		field string
		keys  []string
		one   int // so many of the keys mean the same
	}{{"user", userKeys, len(userKeys)}, {"agent", agentKeys, len(agentKeys)}, {"run", runKeys, 3}} {
		named[i] = pick(o, part.field, part.keys, readWord)
		for _, key := range part.keys[:part.one] {
			raw, ok := o.fields[key]
			if !ok {
				continue
			}
			other, _ := readWord(fields{key: raw}, key)
			if other != "" && other != named[i] {
				return memory.Scope{}, fmt.Errorf("it names two for the %s, %q and %q; keep one", part.field, named[i], other)
			}
			if other != "" || string(raw) == `""` {
				delete(o.fields, key)
			}
		}
	}
	return o.writer.scope(named[0], named[1], named[2]), nil
}

// vectors takes the vectors.
func (o *mapping) vectors(m *memory.Memory) error {
	raw, key := o.given["embedding"], o.opts.Map["embedding"]
	delete(o.given, "embedding")
	for _, usual := range vectorKeys {
		if raw == nil && o.fields[usual] != nil && string(o.fields[usual]) != "null" {
			raw, key = o.fields[usual], usual
			delete(o.fields, usual)
		}
	}
	if raw == nil {
		return nil
	}
	if err := o.vector(m, raw); err != nil {
		return fmt.Errorf("%q: %w", key, err)
	}
	o.mapped.Add(key, "embedding")
	return nil
}

// usualKeys are those that have a name which tells a field, or the metadata.
var usualKeys = func() map[string]bool {
	usual := map[string]bool{"metadata": true}
	for _, keys := range mapFields {
		for _, key := range keys {
			usual[key] = true
		}
	}
	return usual
}()

// areOwn reports whether there are no other keys than those of a memory in memdb's own form.
func (f fields) areOwn() bool {
	for key := range f {
		if _, ok := ownKeys[key]; !ok {
			return false
		}
	}
	return true
}

var ownKeys = func() map[string]struct{} {
	keys := map[string]struct{}{}
	for _, key := range exchange.OwnKeys {
		if key != "type" {
			keys[key] = struct{}{}
		}
	}
	return keys
}()

// ownFields takes what only memdb's own form has.
func (o *mapping) ownFields(m *memory.Memory) {
	m.Name = pick(o, "name", []string{"name"}, readWord)
	m.Source = memory.Source(pick(o, "source", []string{"source"}, readWord))
	m.Aliases = pick(o, "aliases", []string{"aliases"}, readAs[[]string])
	m.Pinned = pick(o, "pinned", []string{"pinned"}, readAs[bool])
	m.AutoImportance = pick(o, "auto_importance", []string{"auto_importance"}, readAs[bool])
	m.AccessCount = pick(o, "access_count", []string{"access_count"}, readAs[uint64])
	m.LastAccessed = o.instant("last_accessed", []string{"last_accessed"})
	if raw := o.fields["vectors"]; raw != nil && raw[0] == '{' {
		var spaces map[string]json.RawMessage
		if json.Unmarshal(raw, &spaces) == nil && o.writer.vectors(m, spaces) == nil {
			delete(o.fields, "vectors")
		}
	}
	for _, key := range exchange.Derived {
		if _, ok := o.fields[key]; ok {
			delete(o.fields, key)
			o.leave(exchange.LeftKey(exchange.TypeMemory, key), 1)
		}
	}
}

// readAs reads a value of a type.
func readAs[T any](f fields, key string) (v T, ok bool) {
	ok = string(f[key]) != "null" && json.Unmarshal(f[key], &v) == nil
	return v, ok
}

// rest is the metadata: all that is left.
func (o *mapping) rest() (map[string]any, error) {
	for field, raw := range o.given { // which is none of what the Map says
		o.fields[o.opts.Map[field]] = raw
	}
	for _, key := range slices.Sorted(maps.Keys(o.fields)) {
		switch usual := usualKeys[key]; {
		case string(o.fields[key]) == "null" && !usual: // a missing value of a field is none
			o.leave("null as "+key, 1)
		case string(o.fields[key]) != "null" && key != "metadata":
			kept, ok := strings.CutSuffix(o.mapped[key], key)
			if !ok || !strings.HasSuffix(kept, "metadata.") { // as of the records before
				o.mapped.Add(key, "metadata."+key)
			}
		}
	}
	return o.fields.metadata()
}
