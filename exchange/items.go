package exchange

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// Item is a record of another program, as it is stored here: a memory with its history, a
// history alone, or a line; or a line of memdb's own. With At.Err it is one that could not be read.
type Item struct {
	// At is where it stood.
	At LineError
	// Memory is nil where the history is that of a memory which is gone.
	Memory  *memory.Memory
	History []memory.HistoryEntry
	// ByName: the memory is a note, and a note of its owner that has the name already is the same.
	ByName bool
	// Line is one of the lines of an export, such as a sessions.MessageLine, and Type its type.
	Line any
	Type string
	// Own is a line of memdb's own form, as it is written. It is valid until the next item.
	Own []byte
	// Size is about how many bytes it takes.
	Size int
	// Read is how much of the input was read up to here, in bytes.
	Read int64
}

// Kind is what the item is counted as: the type of its line.
func (i *Item) Kind() string {
	switch {
	case i.Line != nil:
		return i.Type
	case i.Memory != nil:
		return TypeMemory
	}
	return TypeHistory
}

// ImportItems stores what another program kept. The second value of items is an error of the
// input itself: it ends the import, after what came before it is stored. The report is valid
// also with an error.
func ImportItems(ctx context.Context, db *engine.DB, items iter.Seq2[Item, error], o *Options) (Report, error) {
	b := newBatch(db, o)
	for item, err := range items {
		if err != nil {
			return b.finish(ctx, err)
		}
		b.report.Bytes = max(b.report.Bytes, item.Read)
		if err := b.item(ctx, &item); err != nil {
			return b.report, err
		}
		if err := ctx.Err(); err != nil {
			return b.report, err
		}
	}
	return b.finish(ctx, nil)
}

// item takes an item.
func (b *batch) item(ctx context.Context, i *Item) error {
	if i.At.Err != nil {
		return b.refuse(ctx, i.At)
	}
	if i.Own != nil {
		return b.own(ctx, i.At, i.Own)
	}
	if i.Line != nil {
		l, err := b.lineOf(i)
		if err != nil {
			i.At.Err = err
			return b.refuse(ctx, i.At)
		}
		return b.line(ctx, i.At, l, i.Size)
	}
	for _, e := range i.History {
		if err := b.happened(ctx, i.At, e); err != nil {
			return err
		}
	}
	if i.Memory == nil {
		return b.gone(ctx)
	}
	m := *i.Memory
	if i.ByName {
		if err := b.named(ctx, &m); err != nil {
			return err
		}
	}
	return b.add(ctx, i.At, m, i.Size)
}

// named gives a note that its owner has under another ID that ID, and where it says the same, all
// that it has.
func (b *batch) named(ctx context.Context, m *memory.Memory) error {
	of := b.opts.Place(m.Scope)
	if of.Owner() == (memory.Owner{}) {
		return nil // the notes of a run are nobody's files
	}
	n, err := b.db.Notes().Get(ctx, of.Owner(), m.Name)
	if errors.Is(err, memory.ErrNotFound) || err == nil && (n.Name != m.Name || n.MemoryID == m.ID) {
		return nil
	}
	if err != nil {
		return err
	}
	there, err := b.db.Memories().Get(ctx, of, n.MemoryID)
	if err != nil {
		return err
	}
	if there.Text != m.Text {
		there.Text, there.UpdatedAt = m.Text, m.UpdatedAt
		there.Importance, there.AutoImportance = nil, false
	}
	*m = there
	return nil
}

// lineOf is the line of an item, which the database stores.
func (b *batch) lineOf(i *Item) (engine.Line, error) {
	l := b.db.NewLine(i.Type)
	if l == nil {
		return nil, fmt.Errorf("type %q is not known to this version", i.Type)
	}
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false) // parts and values stay as they came
	err := enc.Encode(i.Line)
	if err == nil {
		err = json.Unmarshal(text.Bytes(), l)
	}
	if err == nil {
		err = l.Check()
	}
	return l, err
}
