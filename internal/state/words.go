package state

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/internal/analysis"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/metadata"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// Words say how texts become words. They are fixed when a database is created.
type Words struct {
	Analyzer atomic.Pointer[analysis.Analyzer]
	Spoken   Spoken // the languages that texts are in
	Indexed  []TextField
	Unit     uint32 // the weight of a word of the text
}

// TextField is a field whose words are searched along with the text.
type TextField struct {
	Name   string
	Path   string // of metadata; empty for name and event_time
	Weight uint32 // in units of 1/textScale
}

// textScale is what weights are multiples of, where any is a fraction.
const textScale = 4

// TextFields turns the option into what the analysis uses: weights as whole
// numbers of a unit, and the unit, which is the weight of the text itself.
func TextFields(fields []memory.IndexedField) (out []TextField, unit uint32, err error) {
	const doing = "set the indexed fields"
	if len(fields) > memory.MaxIndexedText {
		return nil, 0, fault.Invalid(doing, fmt.Sprintf("there are %d, the limit is %d", len(fields), memory.MaxIndexedText), "name fewer")
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
		t := TextField{Name: f.Field, Weight: uint32(max(f.Weight, 0) * float64(unit))}
		if f.Weight == 0 {
			t.Weight = unit
		}
		switch f.Field {
		case "name", "event_time":
		default:
			t.Path = strings.TrimPrefix(f.Field, "metadata.")
			known, err := filter.Lookup(f.Field)
			builtin := err == nil && known.Name == f.Field
			if builtin && f.Field != "aliases" || t.Path == "" { // which may name metadata here
				return nil, 0, fault.Invalid(doing, fmt.Sprintf("%q is not a field that can be indexed", f.Field), "name metadata fields, name or event_time")
			}
		}
		out = append(out, t)
	}
	return out, unit, nil
}

// Value is the field's text in a record.
func (f TextField) Value(r *layout.Record, meta map[string]any) string {
	switch {
	case f.Path == "" && f.Name == "name":
		return r.Name
	case f.Path == "":
		if r.Event == 0 {
			return ""
		}
		return DateWords(r.Event)
	}
	value, _ := LookPath(meta, f.Path)
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

// speakerField is the last word of the path of an indexed field that says who spoke.
const speakerField = "speaker"

// Speaks reports whether the field says who spoke.
func (f TextField) Speaks() bool {
	return f.Path == speakerField || strings.HasSuffix(f.Path, "."+speakerField)
}

// SpeakerKey is the name of a speaker as it is compared: without regard to case, accents and
// how its words are spaced.
func SpeakerKey(name string) string { return strings.Join(strings.Fields(analysis.Fold(name)), " ") }

// Texts are the text of a record and those of its indexed fields: what the
// text index and the lexical embedder see.
func (w *Words) Texts(r *layout.Record) ([]string, error) {
	texts := []string{r.Text}
	if name := w.NoteName(r); name != "" {
		texts = append(texts, name)
	}
	if len(w.Indexed) == 0 {
		return texts, nil
	}
	meta, err := metadata.Decode(r.Metadata)
	if err != nil {
		return nil, err
	}
	for _, f := range w.Indexed {
		if s := f.Value(r, meta); s != "" {
			texts = append(texts, s)
		}
	}
	return texts, nil
}

// NoteName is the name of a note or an archive, which is searched beside its text; empty
// where the options have names of all memories searched.
func (w *Words) NoteName(r *layout.Record) string {
	if !IsNote(r) || slices.ContainsFunc(w.Indexed, func(f TextField) bool { return f.Path == "" && f.Name == "name" }) {
		return ""
	}
	return r.Name
}

// LookPath follows a dotted path. A key that holds the dot itself comes first.
func LookPath(m map[string]any, path string) (any, bool) {
	if v, ok := m[path]; ok {
		return v, true
	}
	for i := range len(path) {
		if path[i] != '.' {
			continue
		}
		if o, ok := m[path[:i]].(map[string]any); ok {
			if v, ok := LookPath(o, path[i+1:]); ok {
				return v, true
			}
		}
	}
	return nil, false
}

// DateWords is a time as words: what a person would type to find it.
func DateWords(ms int64) string {
	return time.UnixMilli(ms).UTC().Format("2 January 2006")
}
