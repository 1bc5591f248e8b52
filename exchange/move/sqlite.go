package move

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/internal/sqlitefile"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// isSQLite reports whether the input is a SQLite file.
func (in *Input) isSQLite() bool {
	if in.Reader == nil {
		return false
	}
	head, _ := in.Reader.Peek(sqlitefile.LockHead)
	return sqlitefile.Is(head)
}

// openSQLite opens the input as a SQLite file, with what lies beside it.
func (in *Input) openSQLite() (*sqlitefile.File, error) {
	if in.File == nil {
		return nil, errors.New("a SQLite file cannot be read from a pipe, and is not sent to a server; name the file where it lies, or import it into a database there and export jsonl")
	}
	journal, err := in.beside("-journal")
	if err != nil {
		return nil, err
	}
	head := make([]byte, 1)
	if n, err := journal.readHead(head); err != nil {
		return nil, err
	} else if n > 0 && head[0] != 0 { // a zero is a journal that was ended
		return nil, errors.New("a journal lies beside the SQLite file: a program changes it now, or has died while it did; stop the program, or open the file once with it")
	}
	wal, err := in.beside("-wal")
	if err != nil {
		return nil, err
	}
	return sqlitefile.Open(sqlitefile.Section{ReaderAt: in.File, Size: in.Size}, sqlitefile.Section(wal))
}

type section sqlitefile.Section

func (s section) readHead(b []byte) (int, error) {
	if s.ReaderAt == nil || s.Size == 0 {
		return 0, nil
	}
	n, err := s.ReadAt(b, 0)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

// beside is the file of the input's name with an ending, the zero section where there is none.
func (in *Input) beside(ending string) (section, error) {
	if in.Beside == nil {
		return section{}, nil
	}
	r, size, err := in.Beside(ending)
	if r == nil || err != nil {
		return section{}, err
	}
	return section{ReaderAt: r, Size: size}, nil
}

// database reads the tables of a SQLite file, and says at the end whether it was written
// meanwhile.
func (w *writer) database(in *Input, read func(f *sqlitefile.File) error) error {
	f, err := in.openSQLite()
	if err == nil {
		err = read(f)
	}
	if err != nil {
		return err
	}
	w.read = in.Size
	changed, err := f.Changed()
	if err == nil && changed {
		err = errors.New("the SQLite file was written while it was read; stop the program that writes it, and import again")
	}
	return err
}

// cells are the values of a row by the names of their columns.
type cells struct {
	table *sqlitefile.Table
	row   sqlitefile.Row
}

// any is a value, nil where there is no such column.
func (c *cells) any(names ...string) any {
	for _, name := range names {
		if i := c.table.Index(name); i >= 0 {
			return c.row.Values[i]
		}
	}
	return nil
}

// text is a value as a text: of bytes and numbers, too.
func (c *cells) text(names ...string) string {
	switch v := c.any(names...).(type) {
	case string:
		return v
	case []byte:
		return string(v)
	case int64, float64:
		return fmt.Sprint(v)
	}
	return ""
}

// number is a value as a number, false where it is none.
func (c *cells) number(names ...string) (float64, bool) {
	switch v := c.any(names...).(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, !math.IsNaN(v) && !math.IsInf(v, 0)
	}
	return 0, false
}

// integer is a value as a count, 0 where it is none.
func (c *cells) integer(names ...string) int64 {
	n, _ := c.any(names...).(int64)
	return max(n, 0)
}

// json is a value that holds JSON, or a text that is none as a value of JSON.
func (c *cells) json(names ...string) json.RawMessage {
	s := c.text(names...)
	if s == "" {
		return nil
	}
	if exchange.Decode([]byte(s), new(any)) == nil {
		return json.RawMessage(s)
	}
	raw, _ := json.Marshal(strings.ToValidUTF8(s, "\ufffd")) // a text always can be
	return raw
}

// each visits the rows of a table that is there. A row whose texts are no UTF-8 is skipped.
func (w *writer) each(f *sqlitefile.File, table string, visit func(at exchange.LineError, c *cells) error) error {
	t := f.Table(table)
	if t == nil {
		return nil
	}
	for row, err := range f.Rows(t) {
		if err != nil {
			return err
		}
		at := exchange.LineError{Of: "row", ID: fmt.Sprintf("%d of %s", row.ID, table)}
		bad := -1
		for i, v := range row.Values {
			if s, ok := v.(string); ok && !utf8.ValidString(s) {
				bad = i
			}
		}
		if bad >= 0 {
			err = w.skip(at, fmt.Errorf("the column %.80q is not UTF-8", t.Columns[bad].Name))
		} else {
			err = visit(at, &cells{t, row})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// leaveTables counts the rows of tables that have no place here.
func (w *writer) leaveTables(f *sqlitefile.File, known ...string) error {
	for i := range f.Tables() {
		t := &f.Tables()[i]
		name := strings.ToLower(t.Name)
		if strings.Contains(name, "_fts") || strings.Contains(name, "migrations") || containsFold(known, name) {
			continue // what follows from others, or says nothing of the memories
		}
		n := 0
		for _, err := range f.Rows(t) {
			if err != nil {
				w.leave("tables that cannot be read: "+t.Name, 1)
				n = 0
				break
			}
			n++
		}
		w.leave("rows of the table "+t.Name, n)
	}
	return nil
}

func containsFold(names []string, name string) bool {
	for _, n := range names {
		if strings.EqualFold(n, name) {
			return true
		}
	}
	return false
}

// recogniseSQLite tells whose a SQLite file is by its tables.
func recogniseSQLite(in *Input) (Format, bool) {
	f, err := in.openSQLite()
	if err != nil {
		return "", false
	}
	switch {
	case f.Table("history").Has("memory_id", "event"):
		return Mem0, true
	case f.Table("store").Has("prefix", "key", "value"):
		return LangGraph, true
	}
	return recogniseTables(f)
}

// Unknown is why an input is not read that Recognise does not know: a SQLite file is none of memdb's
// own forms. nil for any other.
func (in *Input) Unknown() error {
	if !in.isSQLite() {
		return nil
	}
	f, err := in.openSQLite()
	if err != nil {
		return err
	}
	const most = 8
	var names []string
	for _, t := range f.Tables() {
		if len(names) == most {
			names = append(names, "…")
			break
		}
		names = append(names, t.Name)
	}
	if len(names) == 0 {
		return errors.New("the SQLite file has no tables")
	}
	return fmt.Errorf("the SQLite file is of no program that is known; its tables are %s", strings.Join(names, ", "))
}

// readLangGraphSQLite reads the table of items of a SQLite store.
func readLangGraphSQLite(in *Input, w *writer) error {
	return w.database(in, func(f *sqlitefile.File) error {
		if !f.Table("store").Has("prefix", "key", "value") {
			return errors.New(`the SQLite file has no table "store" with "prefix", "key" and "value", as a store of LangGraph has`)
		}
		err := w.each(f, "store", func(at exchange.LineError, c *cells) error {
			var value exchange.Object
			if err := exchange.Decode([]byte(c.text("value")), &value); err != nil {
				return w.skip(at, fmt.Errorf("value: %w", err))
			}
			w.opts.Zone = time.UTC // that of SQLite's own times
			created, updated := w.when(c.any("created_at")), w.when(c.any("updated_at"))
			i := &exchange.LangGraphItem{Namespace: strings.Split(c.text("prefix"), "."), Key: c.text("key"), Value: value}
			if ttl, ok := c.number("ttl_minutes"); ok && ttl > 0 && c.any("expires_at") != nil {
				i.TTL = &ttl
			}
			return w.langGraph(at, i, created, updated, w.when(c.any("expires_at")), len(c.text("value")))
		})
		if err != nil {
			return err
		}
		return w.leaveTables(f, "store")
	})
}

// mostEvents bounds the events of one memory of mem0: older ones are left out.
const mostEvents = 10_000

// readMem0History reads what happened to mem0's memories. Their owner is not in it.
func readMem0History(in *Input, w *writer) error {
	return w.database(in, func(f *sqlitefile.File) error {
		t := f.Table("history")
		if !t.Has("memory_id", "event") {
			return errors.New(`the SQLite file has no table "history" with "memory_id" and "event", as that of mem0 has`)
		}
		h := &mem0History{writer: w, seed: maphash.MakeSeed(), lives: map[uint64][]int64{}}
		err := w.each(f, "history", h.note)
		for _, key := range h.order {
			if err != nil {
				return err
			}
			err = h.life(f, t, h.lives[key])
		}
		if err != nil {
			return err
		}
		return w.leaveTables(f, "history")
	})
}

// mem0History gathers which rows tell of one memory: what is held are their IDs alone.
type mem0History struct {
	*writer
	seed  maphash.Seed
	lives map[uint64][]int64
	order []uint64
}

func (h *mem0History) note(at exchange.LineError, c *cells) error {
	id := c.text("memory_id")
	if id == "" {
		return h.skip(at, errors.New(`it has no "memory_id"`))
	}
	key := maphash.String(h.seed, id)
	rows, known := h.lives[key]
	if !known {
		h.order = append(h.order, key)
	}
	if len(rows) == mostEvents {
		h.leave("older events of a memory", 1)
		rows = rows[1:]
	}
	h.lives[key] = append(rows, c.row.ID)
	return nil
}

// life gives a memory with its history, or the history of one that is gone.
func (h *mem0History) life(f *sqlitefile.File, t *sqlitefile.Table, ids []int64) error {
	var item exchange.Item
	scope := h.scope("", "", "")
	for _, id := range ids {
		row, err := f.Row(t, id)
		if err != nil {
			return err
		}
		c := &cells{t, row}
		item.At = exchange.LineError{Of: "memory", ID: c.text("memory_id")}
		e := memory.HistoryEntry{
			MemoryID: idOf(h.format, c.text("memory_id")), Scope: scope, Kind: memory.KindFact, Event: memory.Event(strings.ToUpper(c.text("event"))),
		}
		if e.Time = h.when(c.any("updated_at")); e.Time.IsZero() {
			e.Time = h.when(c.any("created_at", "timestamp"))
		}
		if text := c.text("new_memory", "new_value"); text != "" {
			e.NewText = &text
		}
		switch {
		case e.Event == memory.EventDelete:
			e.NewText = nil
		case e.Event != memory.EventAdd && e.Event != memory.EventUpdate:
			h.leave("events "+string(e.Event), 1)
			continue
		case e.NewText == nil:
			h.leave("events without a text", 1)
			continue
		}
		item.Size += overhead
		item.History = append(item.History, e)
	}
	if len(item.History) == 0 {
		return nil
	}
	first, last := &item.History[0], &item.History[len(item.History)-1]
	if last.Event == memory.EventDelete {
		return h.item(item)
	}
	item.Memory = &memory.Memory{
		ID: last.MemoryID, Scope: scope, Kind: memory.KindFact, Text: *last.NewText, CreatedAt: first.Time, UpdatedAt: last.Time,
	}
	if len(item.History) == 1 {
		item.History, item.Memory.UpdatedAt = nil, time.Time{}
	}
	return h.item(item)
}
