package selection

import (
	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/internal/doctable"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/metadata"
	"github.com/seed-7aedc3ff/memdb/internal/state"
)

// Field is what a name in a filter stands for, and where its value is.
type Field struct {
	filter.Field
	location
}

// location is where the value of a field is. That of metadata is nowhere but in records and,
// where it has a number of its own, in the index.
type location struct {
	// number is that of an indexed field, 0 where values are only in records.
	Number uint16
	// column is that of a time by whose order memories are found, 0 for none.
	Column uint16
	// always: every memory has the field.
	Always bool
	// of reads it from a record.
	Of func(*Filtered) (any, bool)
	// row reads it from the document table, where it is there.
	Row func(st *state.State, r *doctable.Row) (any, bool)
}

// locations are where the values of the built-in fields are.
var locations = map[string]location{
	"id":            {Always: true, Of: func(m *Filtered) (any, bool) { return m.Rec.ID, true }},
	"user":          {Number: layout.FieldUser, Of: func(m *Filtered) (any, bool) { return unlessEmpty(m.Rec.Scope.User) }},
	"agent":         {Number: layout.FieldAgent, Of: func(m *Filtered) (any, bool) { return unlessEmpty(m.Rec.Scope.Agent) }},
	"run":           {Number: layout.FieldRun, Of: func(m *Filtered) (any, bool) { return unlessEmpty(m.Rec.Scope.Run) }},
	"role":          {Always: true, Number: layout.FieldRole, Of: func(m *Filtered) (any, bool) { return string(state.Roles[m.Rec.Role]), true }},
	"kind":          {Always: true, Number: layout.FieldKind, Of: func(m *Filtered) (any, bool) { return string(state.Kinds[m.Rec.Kind]), true }},
	"source":        {Number: layout.FieldSource, Of: func(m *Filtered) (any, bool) { return unlessEmpty(m.Rec.Source) }},
	"pinned":        {Always: true, Number: layout.FieldPinned, Of: func(m *Filtered) (any, bool) { return m.Rec.Flags&layout.FlagPinned != 0, true }},
	"name":          {Of: func(m *Filtered) (any, bool) { return unlessEmpty(m.Rec.Name) }},
	"aliases":       {Of: func(m *Filtered) (any, bool) { return m.aliases() }},
	"text":          {Of: func(m *Filtered) (any, bool) { return unlessEmpty(m.Rec.Text) }},
	"importance":    {Always: true, Of: func(m *Filtered) (any, bool) { return m.Rec.Importance, true }, Row: func(_ *state.State, r *doctable.Row) (any, bool) { return r.Importance, true }},
	"confidence":    {Always: true, Of: func(m *Filtered) (any, bool) { return m.confidence, true }, Row: func(st *state.State, r *doctable.Row) (any, bool) { return st.Confidence(r), true }},
	"access_count":  {Always: true, Of: func(m *Filtered) (any, bool) { return m.access.Count, true }, Row: func(st *state.State, r *doctable.Row) (any, bool) { return st.Docs.Access(r.Seq).Count, true }},
	"created_at":    {Column: layout.FieldCreated, Of: func(m *Filtered) (any, bool) { return unlessNever(m.Rec.Created) }, Row: func(_ *state.State, r *doctable.Row) (any, bool) { return unlessNever(r.Created) }},
	"updated_at":    {Column: layout.FieldUpdated, Of: func(m *Filtered) (any, bool) { return unlessNever(m.Rec.Updated) }},
	"event_time":    {Column: layout.FieldEvent, Of: func(m *Filtered) (any, bool) { return unlessNever(m.Rec.Event) }},
	"expires_at":    {Of: func(m *Filtered) (any, bool) { return unlessNever(m.Rec.Expires) }, Row: func(_ *state.State, r *doctable.Row) (any, bool) { return unlessNever(r.Expires.Load()) }},
	"last_accessed": {Of: func(m *Filtered) (any, bool) { return unlessNever(m.access.Last) }, Row: func(st *state.State, r *doctable.Row) (any, bool) { return unlessNever(st.Docs.Access(r.Seq).Last) }},
}

func unlessEmpty(s string) (any, bool) { return s, s != "" }

func unlessNever(ms int64) (any, bool) { return ms, ms != 0 }

// FieldOf is the field of a name.
func FieldOf(name string) (Field, error) {
	f, err := filter.Lookup(name)
	return Field{Field: f, location: locations[f.Name]}, err
}

// Filtered is a memory that a filter looks at: the Subject of a record.
type Filtered struct {
	Rec    *layout.Record
	access layout.Access
	// confidence is that of now.
	confidence float64

	meta    map[string]any // once it was asked for
	decoded bool
	Err     error
}

// Value is the value of a field, false where the memory does not have it.
func (m *Filtered) Value(f filter.Field) (any, bool) {
	if f.Name != "" {
		return locations[f.Name].Of(m)
	}
	return state.LookPath(m.metadata(), f.Path)
}

func (m *Filtered) metadata() map[string]any {
	if !m.decoded {
		m.decoded = true
		m.meta, m.Err = metadata.Decode(m.Rec.Metadata)
	}
	return m.meta
}

// aliases are those of the memory as a list of JSON.
func (m *Filtered) aliases() (any, bool) {
	var list []any
	for _, a := range m.Rec.Aliases {
		list = append(list, a)
	}
	return list, len(list) > 0
}

// filteredRow is a memory of which a filter looks at one field that its row has.
type filteredRow struct {
	value func(st *state.State, r *doctable.Row) (any, bool)
	st    *state.State
	row   *doctable.Row
}

// Value is the value of the field, whose name is known.
func (m *filteredRow) Value(filter.Field) (any, bool) { return m.value(m.st, m.row) }
