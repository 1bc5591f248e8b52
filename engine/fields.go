package engine

import (
	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/internal/doctable"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/metadata"
	"github.com/seed-7aedc3ff/memdb/internal/state"
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
	"user":          {number: layout.FieldUser, of: func(m *filtered) (any, bool) { return unlessEmpty(m.rec.Scope.User) }},
	"agent":         {number: layout.FieldAgent, of: func(m *filtered) (any, bool) { return unlessEmpty(m.rec.Scope.Agent) }},
	"run":           {number: layout.FieldRun, of: func(m *filtered) (any, bool) { return unlessEmpty(m.rec.Scope.Run) }},
	"role":          {always: true, number: layout.FieldRole, of: func(m *filtered) (any, bool) { return string(state.Roles[m.rec.Role]), true }},
	"kind":          {always: true, number: layout.FieldKind, of: func(m *filtered) (any, bool) { return string(state.Kinds[m.rec.Kind]), true }},
	"source":        {number: layout.FieldSource, of: func(m *filtered) (any, bool) { return unlessEmpty(m.rec.Source) }},
	"pinned":        {always: true, number: layout.FieldPinned, of: func(m *filtered) (any, bool) { return m.rec.Flags&layout.FlagPinned != 0, true }},
	"name":          {of: func(m *filtered) (any, bool) { return unlessEmpty(m.rec.Name) }},
	"aliases":       {of: func(m *filtered) (any, bool) { return m.aliases() }},
	"text":          {of: func(m *filtered) (any, bool) { return unlessEmpty(m.rec.Text) }},
	"importance":    {always: true, of: func(m *filtered) (any, bool) { return m.rec.Importance, true }, row: func(_ *Tx, r *doctable.Row) (any, bool) { return r.Importance, true }},
	"confidence":    {always: true, of: func(m *filtered) (any, bool) { return m.confidence, true }, row: func(tx *Tx, r *doctable.Row) (any, bool) { return tx.state.Confidence(r), true }},
	"access_count":  {always: true, of: func(m *filtered) (any, bool) { return m.access.Count, true }, row: func(tx *Tx, r *doctable.Row) (any, bool) { return tx.db.tables.Docs.Access(r.Seq).Count, true }},
	"created_at":    {column: layout.FieldCreated, of: func(m *filtered) (any, bool) { return unlessNever(m.rec.Created) }, row: func(_ *Tx, r *doctable.Row) (any, bool) { return unlessNever(r.Created) }},
	"updated_at":    {column: layout.FieldUpdated, of: func(m *filtered) (any, bool) { return unlessNever(m.rec.Updated) }},
	"event_time":    {column: layout.FieldEvent, of: func(m *filtered) (any, bool) { return unlessNever(m.rec.Event) }},
	"expires_at":    {of: func(m *filtered) (any, bool) { return unlessNever(m.rec.Expires) }, row: func(_ *Tx, r *doctable.Row) (any, bool) { return unlessNever(r.Expires) }},
	"last_accessed": {of: func(m *filtered) (any, bool) { return unlessNever(m.access.Last) }, row: func(tx *Tx, r *doctable.Row) (any, bool) { return unlessNever(tx.db.tables.Docs.Access(r.Seq).Last) }},
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
	return state.LookPath(m.metadata(), f.Path)
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
