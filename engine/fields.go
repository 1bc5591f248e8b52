package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/seed-7aedc3ff/memdb/internal/analysis"
	"github.com/seed-7aedc3ff/memdb/internal/doctable"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
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

	firstMetadataField uint16 = 64
)

// field is what a name in a filter stands for.
type field struct {
	// number is that of an indexed field, 0 where values are only in records.
	number uint16
	// column is that of a time by whose order memories are found, 0 for none.
	column uint16
	// path is that of a metadata field, without "metadata.".
	path string
	// of reads a value that is no metadata.
	of func(*filtered) any
	// row reads it from the document table, where it is there.
	row func(tx *Tx, r *doctable.Row) any
	// time: the value is an int64 of Unix milliseconds.
	time bool
	// text: the text itself, too long to order by.
	text bool
}

// filtered is a memory that a filter looks at.
type filtered struct {
	rec *layout.Record
	layout.Access

	meta    map[string]any // once it was asked for
	decoded bool
	err     error
	ctx     context.Context   // nil never ends
	seen    int               // conditions; see stopped
	folded  map[string]string // strings of it without regard to case
}

func (m *filtered) metadata() map[string]any {
	if !m.decoded {
		m.decoded = true
		m.meta, m.err = decodeMetadata(m.rec.Metadata)
	}
	return m.meta
}

// fold is FoldCase of a string of the memory, which is remembered: other conditions may
// ask for it. nil remembers nothing.
func (m *filtered) fold(s string) string {
	if m == nil {
		return analysis.FoldCase(s)
	}
	folded, ok := m.folded[s]
	if !ok {
		folded = m.foldCase(s)
		if m.folded == nil {
			m.folded = map[string]string{}
		}
		m.folded[s] = folded
	}
	return folded
}

// foldPiece is how many bytes of a string are folded between looks at the context: some
// 3 ms. The folding of a letter does not depend on those beside it.
const foldPiece = 64 << 10

// foldCase is FoldCase of a string of any length, which it leaves where the context ends.
func (m *filtered) foldCase(s string) string {
	if len(s) <= foldPiece {
		return analysis.FoldCase(s)
	}
	var b strings.Builder
	for len(s) > 0 && m.err == nil {
		n := min(foldPiece, len(s))
		for n < len(s) && !utf8.RuneStart(s[n]) {
			n++
		}
		b.WriteString(analysis.FoldCase(s[:n]))
		s = s[n:]
		if m.ctx != nil {
			m.err = m.ctx.Err()
		}
	}
	return b.String()
}

// builtinFields are the names that are not metadata.
var builtinFields = map[string]field{
	"id":            {of: func(m *filtered) any { return m.rec.ID }},
	"user":          {number: fieldUser, of: func(m *filtered) any { return orMissing(m.rec.Scope.User) }},
	"agent":         {number: fieldAgent, of: func(m *filtered) any { return orMissing(m.rec.Scope.Agent) }},
	"run":           {number: fieldRun, of: func(m *filtered) any { return orMissing(m.rec.Scope.Run) }},
	"role":          {number: fieldRole, of: func(m *filtered) any { return string(roles[m.rec.Role]) }},
	"kind":          {number: fieldKind, of: func(m *filtered) any { return string(kindNames[m.rec.Kind]) }},
	"source":        {number: fieldSource, of: func(m *filtered) any { return orMissing(m.rec.Source) }},
	"pinned":        {number: fieldPinned, of: func(m *filtered) any { return m.rec.Flags&layout.FlagPinned != 0 }},
	"name":          {of: func(m *filtered) any { return orMissing(m.rec.Name) }},
	"text":          {text: true, of: func(m *filtered) any { return orMissing(m.rec.Text) }},
	"importance":    {of: func(m *filtered) any { return m.rec.Importance }, row: func(_ *Tx, r *doctable.Row) any { return r.Importance }},
	"confidence":    {of: func(m *filtered) any { return m.rec.Confidence }, row: func(_ *Tx, r *doctable.Row) any { return r.Confidence }},
	"access_count":  {of: func(m *filtered) any { return m.Count }, row: func(tx *Tx, r *doctable.Row) any { return tx.db.accessOf(r.Seq).Count }},
	"created_at":    {time: true, column: fieldCreated, of: func(m *filtered) any { return orNever(m.rec.Created) }, row: func(_ *Tx, r *doctable.Row) any { return orNever(r.Created) }},
	"updated_at":    {time: true, column: fieldUpdated, of: func(m *filtered) any { return orNever(m.rec.Updated) }},
	"event_time":    {time: true, column: fieldEvent, of: func(m *filtered) any { return orNever(m.rec.Event) }},
	"expires_at":    {time: true, of: func(m *filtered) any { return orNever(m.rec.Expires) }, row: func(_ *Tx, r *doctable.Row) any { return orNever(r.Expires) }},
	"last_accessed": {time: true, of: func(m *filtered) any { return orNever(m.Last) }, row: func(tx *Tx, r *doctable.Row) any { return orNever(tx.db.accessOf(r.Seq).Last) }},
}

// otherNames are further names of built-in fields.
var otherNames = map[string]string{
	"user_id": "user", "agent_id": "agent", "run_id": "run", "memory": "text", "content": "text",
}

// missing is the value of a field that a memory has not.
type missing struct{}

func orMissing(s string) any {
	if s == "" {
		return missing{}
	}
	return s
}

func orNever(ms int64) any {
	if ms == 0 {
		return missing{}
	}
	return ms
}

// accessOf are the newest access statistics of a memory.
func (db *DB) accessOf(seq uint64) layout.Access {
	s := db.docs.Seq(seq)
	if s == nil {
		return layout.Access{}
	}
	return layout.Access{Count: s.Count.Load(), Last: s.Accessed.Load()}
}

const metadataPrefix = "metadata."

func fieldOf(name string) field {
	if other, ok := otherNames[name]; ok {
		name = other
	}
	if f, ok := builtinFields[name]; ok {
		return f
	}
	return field{path: strings.TrimPrefix(name, metadataPrefix)}
}

// value reads the field of a memory.
func (f field) value(m *filtered) any {
	if f.of != nil {
		return f.of(m)
	}
	return lookPath(m.metadata(), f.path)
}

// lookPath follows a dotted path. A key that holds the dot itself comes first.
func lookPath(m map[string]any, path string) any {
	if v, ok := m[path]; ok {
		return v
	}
	for i := range len(path) {
		if path[i] != '.' {
			continue
		}
		if o, ok := m[path[:i]].(map[string]any); ok {
			if v := lookPath(o, path[i+1:]); v != (missing{}) {
				return v
			}
		}
	}
	return missing{}
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
			t.path = strings.TrimPrefix(f.Field, metadataPrefix)
			if _, builtin := builtinFields[f.Field]; builtin || t.path == "" {
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
	switch v := lookPath(meta, f.path).(type) {
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
	if len(db.words.indexed) == 0 {
		return texts, nil
	}
	meta, err := decodeMetadata(r.Metadata)
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
