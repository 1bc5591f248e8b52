package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/internal/doctable"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/metadata"
	"github.com/seed-7aedc3ff/memdb/internal/store"
)

// The fields that filters know by number. Those of metadata follow, in the order
// in which their paths were first stored.
const (
	fieldUser uint16 = 1 + iota
	fieldAgent
	fieldRun
	fieldRole
	fieldKind
	fieldSource
	fieldPinned
	fieldCreated // from here on columns of times
	fieldUpdated
	fieldEvent
	fieldNoteName // names and aliases of notes and archives, by hash

	firstMetadataField uint16 = 64
)

// field is what a name in a filter stands for, and where its value is.
type field struct {
	filter.Field
	location
}

// location is where the value of a field is. That of metadata is nowhere but in records and,
// where it has a number of its own, in the index.
type location struct {
	// number is that of an indexed field, 0 where values are only in records.
	number uint16
	// column is that of a time by whose order memories are found, 0 for none.
	column uint16
	// always: every memory has the field.
	always bool
	// of reads it from a record.
	of func(*filtered) (any, bool)
	// row reads it from the document table, where it is there.
	row func(tx *Tx, r *doctable.Row) (any, bool)
}

// locations are where the values of the built-in fields are.
var locations = map[string]location{
	"id":            {always: true, of: func(m *filtered) (any, bool) { return m.rec.ID, true }},
	"user":          {number: fieldUser, of: func(m *filtered) (any, bool) { return unlessEmpty(m.rec.Scope.User) }},
	"agent":         {number: fieldAgent, of: func(m *filtered) (any, bool) { return unlessEmpty(m.rec.Scope.Agent) }},
	"run":           {number: fieldRun, of: func(m *filtered) (any, bool) { return unlessEmpty(m.rec.Scope.Run) }},
	"role":          {always: true, number: fieldRole, of: func(m *filtered) (any, bool) { return string(roles[m.rec.Role]), true }},
	"kind":          {always: true, number: fieldKind, of: func(m *filtered) (any, bool) { return string(kindNames[m.rec.Kind]), true }},
	"source":        {number: fieldSource, of: func(m *filtered) (any, bool) { return unlessEmpty(m.rec.Source) }},
	"pinned":        {always: true, number: fieldPinned, of: func(m *filtered) (any, bool) { return m.rec.Flags&layout.FlagPinned != 0, true }},
	"name":          {of: func(m *filtered) (any, bool) { return unlessEmpty(m.rec.Name) }},
	"aliases":       {of: func(m *filtered) (any, bool) { return m.aliases() }},
	"text":          {of: func(m *filtered) (any, bool) { return unlessEmpty(m.rec.Text) }},
	"importance":    {always: true, of: func(m *filtered) (any, bool) { return m.rec.Importance, true }, row: func(_ *Tx, r *doctable.Row) (any, bool) { return r.Importance, true }},
	"confidence":    {always: true, of: func(m *filtered) (any, bool) { return m.confidence, true }, row: func(tx *Tx, r *doctable.Row) (any, bool) { return tx.confidence(r), true }},
	"access_count":  {always: true, of: func(m *filtered) (any, bool) { return m.access.Count, true }, row: func(tx *Tx, r *doctable.Row) (any, bool) { return tx.db.accessOf(r.Seq).Count, true }},
	"created_at":    {column: fieldCreated, of: func(m *filtered) (any, bool) { return unlessNever(m.rec.Created) }, row: func(_ *Tx, r *doctable.Row) (any, bool) { return unlessNever(r.Created) }},
	"updated_at":    {column: fieldUpdated, of: func(m *filtered) (any, bool) { return unlessNever(m.rec.Updated) }},
	"event_time":    {column: fieldEvent, of: func(m *filtered) (any, bool) { return unlessNever(m.rec.Event) }},
	"expires_at":    {of: func(m *filtered) (any, bool) { return unlessNever(m.rec.Expires) }, row: func(_ *Tx, r *doctable.Row) (any, bool) { return unlessNever(r.Expires) }},
	"last_accessed": {of: func(m *filtered) (any, bool) { return unlessNever(m.access.Last) }, row: func(tx *Tx, r *doctable.Row) (any, bool) { return unlessNever(tx.db.accessOf(r.Seq).Last) }},
}

func unlessEmpty(s string) (any, bool) { return s, s != "" }

func unlessNever(ms int64) (any, bool) { return ms, ms != 0 }

// fieldOf is the field of a name.
func fieldOf(name string) (field, error) {
	f, err := filter.Lookup(name)
	return field{Field: f, location: locations[f.Name]}, err
}

// filtered is a memory that a filter looks at: the Subject of a record.
type filtered struct {
	rec    *layout.Record
	access layout.Access
	// confidence is that of now.
	confidence float64

	meta    map[string]any // once it was asked for
	decoded bool
	err     error
}

// Value is the value of a field, false where the memory does not have it.
func (m *filtered) Value(f filter.Field) (any, bool) {
	if f.Name != "" {
		return locations[f.Name].of(m)
	}
	return lookPath(m.metadata(), f.Path)
}

func (m *filtered) metadata() map[string]any {
	if !m.decoded {
		m.decoded = true
		m.meta, m.err = metadata.Decode(m.rec.Metadata)
	}
	return m.meta
}

// aliases are those of the memory as a list of JSON.
func (m *filtered) aliases() (any, bool) {
	var list []any
	for _, a := range m.rec.Aliases {
		list = append(list, a)
	}
	return list, len(list) > 0
}

// filteredRow is a memory of which a filter looks at one field that its row has.
type filteredRow struct {
	value func(tx *Tx, r *doctable.Row) (any, bool)
	tx    *Tx
	row   *doctable.Row
}

// Value is the value of the field, whose name is known.
func (m *filteredRow) Value(filter.Field) (any, bool) { return m.value(m.tx, m.row) }

// accessOf are the newest access statistics of a memory.
func (db *DB) accessOf(seq uint64) layout.Access {
	s := db.docs.Seq(seq)
	if s == nil {
		return layout.Access{}
	}
	return layout.Access{Count: s.Count.Load(), Last: s.Accessed.Load()}
}

// lookPath follows a dotted path. A key that holds the dot itself comes first.
func lookPath(m map[string]any, path string) (any, bool) {
	if v, ok := m[path]; ok {
		return v, true
	}
	for i := range len(path) {
		if path[i] != '.' {
			continue
		}
		if o, ok := m[path[:i]].(map[string]any); ok {
			if v, ok := lookPath(o, path[i+1:]); ok {
				return v, true
			}
		}
	}
	return nil, false
}

// textField is a field whose words are searched along with the text.
type textField struct {
	name   string
	path   string // of metadata; empty for name and event_time
	weight uint32 // in units of 1/textScale
}

// textScale is what weights are multiples of, where any is a fraction.
const textScale = 4

// textFields turns the option into what the analysis uses: weights as whole
// numbers of a unit, and the unit, which is the weight of the text itself.
func textFields(fields []IndexedField) (out []textField, unit uint32, err error) {
	const doing = "set the indexed fields"
	if len(fields) > MaxIndexedText {
		return nil, 0, fault.Invalid(doing, fmt.Sprintf("there are %d, the limit is %d", len(fields), MaxIndexedText), "name fewer")
	}
	unit = 1
	for _, f := range fields {
		w := f.Weight
		if w == 0 {
			w = 1
		}
		scaled := w * textScale
		if scaled != float64(uint32(scaled)) || w < 0.25 || w > 16 {
			return nil, 0, fault.Invalid(doing, fmt.Sprintf("the weight of %s is %v", f.Field, f.Weight), "give 0.25 to 16, in steps of 0.25")
		}
		if scaled != textScale*float64(uint32(w)) {
			unit = textScale
		}
	}
	for _, f := range fields {
		t := textField{name: f.Field, weight: uint32(max(f.Weight, 0) * float64(unit))}
		if f.Weight == 0 {
			t.weight = unit
		}
		switch f.Field {
		case "name", "event_time":
		default:
			t.path = strings.TrimPrefix(f.Field, "metadata.")
			_, builtin := locations[f.Field]
			if builtin && f.Field != "aliases" || t.path == "" { // which may name metadata here
				return nil, 0, fault.Invalid(doing, fmt.Sprintf("%q is not a field that can be indexed", f.Field), "name metadata fields, name or event_time")
			}
		}
		out = append(out, t)
	}
	return out, unit, nil
}

// value is the field's text in a record.
func (f textField) value(r *layout.Record, meta map[string]any) string {
	switch {
	case f.path == "" && f.name == "name":
		return r.Name
	case f.path == "":
		if r.Event == 0 {
			return ""
		}
		return dateWords(r.Event)
	}
	value, _ := lookPath(meta, f.path)
	switch v := value.(type) {
	case string:
		return v
	case json.Number:
		return string(v)
	case []any:
		var words []string
		for _, e := range v {
			if s, ok := e.(string); ok {
				words = append(words, s)
			}
		}
		return strings.Join(words, "\n")
	}
	return ""
}

// indexedTexts are the text of a record and those of its indexed fields: what the
// text index and the lexical embedder see.
func (db *DB) indexedTexts(r *layout.Record) ([]string, error) {
	texts := []string{r.Text}
	if name := db.noteName(r); name != "" {
		texts = append(texts, name)
	}
	if len(db.words.indexed) == 0 {
		return texts, nil
	}
	meta, err := metadata.Decode(r.Metadata)
	if err != nil {
		return nil, err
	}
	for _, f := range db.words.indexed {
		if s := f.value(r, meta); s != "" {
			texts = append(texts, s)
		}
	}
	return texts, nil
}

// maxCachedNames bounds the cache of names: about 100 bytes each. A full cache
// is emptied; the names come back as they are asked for.
const maxCachedNames = 200_000

// names gives numbers to scope values, owners, fields and spaces. A number is
// never reused, and is found by the full name, not by its hash alone.
type names struct {
	mu    sync.RWMutex
	cache map[layout.Name]uint32
}

func newNames() *names { return &names{cache: map[layout.Name]uint32{}} }

func (n *names) cached(k layout.Name) (uint32, bool) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	num, ok := n.cache[k]
	return num, ok
}

func (n *names) remember(k layout.Name, num uint32) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.cache) >= maxCachedNames {
		clear(n.cache)
	}
	n.cache[k] = num
}

// lookup is the number of a name, false if it has none.
func (n *names) lookup(r kv.Reader, ks *layout.Keys, k layout.Name) (uint32, bool, error) {
	if num, ok := n.cached(k); ok {
		return num, true, nil
	}
	key := ks.Name(k.Class, k.Text)
	b, closer, err := r.Get(key)
	if errors.Is(err, kv.ErrNotFound) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, store.Error("look up a name", err)
	}
	num, name, _, err := layout.DecodeName(key, b)
	if cerr := closer.Close(); err == nil && cerr != nil {
		err = store.Error("look up a name", cerr)
	}
	if err != nil {
		return 0, false, err
	}
	if name != k.Text {
		return 0, false, &fault.Error{
			Kind: fault.ErrInvalid, What: fmt.Sprintf("look up %q", k.Text),
			Why: fmt.Sprintf("its hash is that of %q", name), Do: "choose another name",
		}
	}
	n.remember(k, num)
	return num, true, nil
}
