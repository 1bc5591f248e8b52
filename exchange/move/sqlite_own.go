package move

import (
	"encoding/json"
	"fmt"
	"hash/maphash"
	"iter"
	"slices"

	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/scope"
	"github.com/seed-7aedc3ff/memdb/usage"
)

// isOwnTables reports whether a file is one of ExportSQLite.
func isOwnTables(f *sqliteFile) bool {
	return f.version == sqliteVersion && !slices.ContainsFunc(sqliteTables, func(t sqliteTableOf) bool {
		names := []string{"n"}
		for _, c := range columnsOf(t.columns) {
			names = append(names, c.name)
		}
		return !f.has(t.name, names...)
	})
}

// ownTables reads the file of ExportSQLite, whose rows are the lines of an export. A memory takes the
// vectors that name it, and the events that stand before it in the export.
type ownTables struct {
	*writer
	f       *sqliteFile
	seed    maphash.Seed
	there   []uint64 // whose memories there are, as hashes in order
	vectors *ownRows
	events  *ownRows
	run     []memory.HistoryEntry // the next history, nil behind the last
	usages  map[scope.Owner]uint64
}

// ownRows are the rows of a table, of which the next one is looked at.
type ownRows struct {
	table *table
	next  func() (sqliteRow, error, bool)
	row   *cells // nil behind the last
}

// readOwnTables gives the items of the file, and returns the names of its tables.
func readOwnTables(f *sqliteFile, w *writer) (known []string, err error) {
	o := &ownTables{writer: w, f: f, seed: maphash.MakeSeed(), usages: map[scope.Owner]uint64{}}
	for _, t := range sqliteTables {
		known = append(known, t.name)
		if err != nil {
			continue
		}
		switch t.typ {
		case exchange.TypeMemory:
			err = o.memories(columnsOf(t.columns))
		case exchange.TypeHistory, "vector": // with the memories
		default:
			columns := columnsOf(t.columns)
			err = w.each(f, t.name, func(at exchange.LineError, c *cells) error { return o.other(at, c, t.typ, columns) })
		}
	}
	return known, err
}

// memories gives the memories with all that is theirs.
func (o *ownTables) memories(columns []sqliteColumn) error {
	for _, follow := range []struct {
		rows **ownRows
		name string
	}{{&o.vectors, "vectors"}, {&o.events, "history"}} {
		rows, stop, err := o.follow(follow.name)
		if err != nil {
			return err
		}
		defer stop()
		*follow.rows = rows
	}
	err := o.f.query(`SELECT "user", "agent", "id" FROM memories`, func(v []any) error {
		o.there = append(o.there, o.hash(v...))
		return nil
	})
	if err != nil {
		return o.f.failed(o.ctx, err)
	}
	slices.Sort(o.there)
	if err = o.nextRun(); err != nil {
		return err
	}
	err = o.each(o.f, "memories", func(at exchange.LineError, c *cells) error { return o.memory(at, c, columns) })
	for err == nil && o.run != nil {
		err = o.gone()
	}
	for err == nil && o.vectors.row != nil {
		o.leave("vectors without a memory", 1)
		err = o.vectors.advance(o.writer)
	}
	return err
}

func (o *ownTables) hash(parts ...any) uint64 {
	var b []byte
	for _, p := range parts {
		if p == nil {
			p = ""
		}
		b = fmt.Appendf(b, "%q ", p)
	}
	return maphash.Bytes(o.seed, b)
}

// follow begins to read a table beside another one.
func (o *ownTables) follow(name string) (*ownRows, func(), error) {
	t := o.f.table(name)
	for i := range t.columns {
		t.columns[i].used = true
	}
	next, stop := iter.Pull2(o.f.rows(o.ctx, t))
	r := &ownRows{table: t, next: next}
	return r, stop, r.advance(o.writer)
}

// advance goes to the next row.
func (r *ownRows) advance(w *writer) error {
	row, err, ok := r.next()
	if r.row = nil; ok && err == nil {
		row.values = slices.Clone(row.values)
		r.row = &cells{w, r.table, row}
	}
	return err
}

// nextRun gathers the events of one memory that follow each other.
func (o *ownTables) nextRun() error {
	o.run = nil
	for o.events.row != nil {
		c := o.events.row
		e := memory.HistoryEntry{
			MemoryID: c.text("memory_id"), Scope: memory.Scope{User: c.text("user"), Agent: c.text("agent"), Run: c.text("run")},
			Event: memory.Event(c.text("event")), Reason: memory.Reason(c.text("reason")), Time: o.when(c.any("at")),
		}
		if text, ok := c.any("text").(string); ok {
			e.NewText = &text
		} else if e.Event != memory.EventDelete {
			e.NewText = new("")
		}
		if n := len(o.run); n > 0 {
			last := &o.run[n-1]
			if o.key(last) != o.key(&e) || last.Event == memory.EventDelete && e.Event == memory.EventAdd {
				break
			}
		}
		o.run = append(o.run, e)
		if err := o.events.advance(o.writer); err != nil {
			return err
		}
	}
	return nil
}

func (o *ownTables) key(e *memory.HistoryEntry) uint64 {
	return o.hash(e.Scope.User, e.Scope.Agent, e.MemoryID)
}

// isGone reports whether the next history belongs to a memory that is not in the file.
func (o *ownTables) isGone() bool {
	last := &o.run[len(o.run)-1]
	_, there := slices.BinarySearch(o.there, o.key(last))
	return last.Event == memory.EventDelete || !there
}

// gone gives the next history without a memory.
func (o *ownTables) gone() error {
	item := exchange.Item{At: exchange.LineError{Of: "history of", ID: o.run[0].MemoryID}, History: o.run}
	if err := o.item(item); err != nil {
		return err
	}
	return o.nextRun()
}

func (o *ownTables) memory(at exchange.LineError, c *cells, columns []sqliteColumn) error {
	for o.run != nil && o.isGone() {
		if err := o.gone(); err != nil {
			return err
		}
	}
	item := exchange.Item{At: at}
	if o.run != nil && o.key(&o.run[0]) == o.hash(c.any("user"), c.any("agent"), c.any("id")) {
		item.History = o.run
		if err := o.nextRun(); err != nil {
			return err
		}
	}
	raw, err := json.Marshal(c.lineOf(exchange.TypeMemory, columns))
	if err != nil {
		return o.skip(at, err)
	}
	var r exchange.Record
	if err := exchange.DecodeStrict(raw, &r); err != nil {
		return o.skip(at, err)
	}
	m := r.Memory()
	for i := range item.History {
		item.History[i].Kind = m.Kind
	}
	if err := o.takeVectors(c.row.number, &m); err != nil {
		return err
	}
	item.Memory, item.Size = &m, len(raw)+4*len(m.Embedding)+overhead
	return o.item(item)
}

// takeVectors gives a memory the vectors of its row.
func (o *ownTables) takeVectors(n int64, m *memory.Memory) error {
	for o.vectors.row != nil {
		c := o.vectors.row
		of, _ := c.any("memory").(int64)
		if of > n {
			return nil
		}
		blob, _ := c.any("vector").([]byte)
		switch vector := floatsOf(blob); {
		case of < n:
			o.leave("vectors without a memory", 1)
		case vector == nil:
			o.leave("vectors that cannot be read", 1)
		case c.text("space") == "default":
			m.Embedding = vector
		default:
			if m.Vectors == nil {
				m.Vectors = map[string][]float32{}
			}
			m.Vectors[c.text("space")] = vector
		}
		if err := o.vectors.advance(o.writer); err != nil {
			return err
		}
	}
	return nil
}

// other gives a line of another type.
func (o *ownTables) other(at exchange.LineError, c *cells, typ string, columns []sqliteColumn) error {
	l := c.lineOf(typ, columns)
	if typ == usage.TypeUsage { // the number makes it the same record when it comes again
		owner := scope.Owner{User: c.text("user"), Agent: c.text("agent")}
		o.usages[owner]++
		l["number"] = o.usages[owner]
	}
	return o.line(at, typ, l, overhead)
}

// lineOf is the line of an export that a row was made of.
func (c *cells) lineOf(typ string, columns []sqliteColumn) map[string]any {
	l := map[string]any{"type": typ}
	c.any("n") // its place
	for _, column := range columns {
		v := c.any(column.name)
		switch {
		case v == nil && column.key == "value":
			v = json.RawMessage("null")
		case v == nil:
			continue
		case column.kind == "json":
			v = c.json(column.name)
		case column.key == "pinned" || column.key == "closed":
			v = v != int64(0)
		}
		l[column.key] = v
	}
	return l
}
