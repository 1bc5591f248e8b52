package move

import (
	"errors"
	"hash/maphash"
	"slices"
	"strings"
	"time"

	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// mostEvents bounds the events of one memory of mem0: older ones are left out.
const mostEvents = 10_000

// isMem0 reports whether a file has the table of mem0's history, in the columns of any version.
func isMem0(f *sqliteFile) bool {
	return f.has("history", "id", "memory_id", "event", "old_memory", "new_memory") || f.has("history", "id", "memory_id", "event", "prev_value", "new_value")
}

// readMem0History reads what happened to mem0's memories. Their owner is not in it.
func readMem0History(in *Input, w *writer) error {
	return w.database(in, func(f *sqliteFile) ([]string, error) {
		if !isMem0(f) {
			return nil, errors.New(`the SQLite file has no table "history" with "memory_id", "event", "old_memory" and "new_memory", as that of mem0 has; leave the format out, or name a table with --table`)
		}
		t := f.table("history")
		if t.key == "" {
			return nil, errors.New(`the table "history" has neither rowids nor a primary key of one column; copy it into one that has`)
		}
		h := &mem0History{writer: w, seed: maphash.MakeSeed(), lives: map[uint64][]any{}}
		if err := w.each(f, "history", h.note); err != nil {
			return nil, err
		}
		return []string{"history"}, h.each(f, t)
	})
}

// mem0History gathers which rows tell of one memory: what is held are their keys alone.
type mem0History struct {
	*writer
	seed  maphash.Seed
	lives map[uint64][]any
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
	h.lives[key] = append(rows, c.row.key)
	return nil
}

// each gives the memories in the order of their first events.
func (h *mem0History) each(f *sqliteFile, t *table) error {
	for _, key := range h.order {
		var rows []sqliteRow
		for _, id := range h.lives[key] {
			row, err := f.row(h.ctx, t, id)
			if err != nil {
				return err
			}
			rows = append(rows, row)
		}
		if err := h.life(t, rows); err != nil {
			return err
		}
	}
	return nil
}

// life gives a memory with its history, or the history of one that is gone.
func (h *mem0History) life(t *table, rows []sqliteRow) error {
	var item exchange.Item
	scope := h.scope("", "", "")
	for _, row := range rows {
		c := &cells{h.writer, t, row}
		item.At = exchange.LineError{Of: "memory", ID: c.text("memory_id")}
		e := memory.HistoryEntry{
			MemoryID: idOf(h.format, c.text("memory_id")), Scope: scope, Kind: memory.KindFact, Event: memory.Event(strings.ToUpper(c.text("event"))),
		}
		created := h.when(c.any("created_at", "timestamp"))
		if e.Time = h.when(c.any("updated_at")); e.Time.IsZero() {
			e.Time = created
		}
		if text := c.text("new_memory", "new_value"); text != "" {
			e.NewText = &text
		}
		c.any("id")
		c.any("is_deleted") // the event says it
		if old := c.text("old_memory", "prev_value"); old != "" && e.Event != memory.EventAdd && len(item.History) == 0 {
			added := e // its own row is gone
			added.Event, added.Time, added.NewText = memory.EventAdd, created, &old
			item.History = append(item.History, added)
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
	if t.rowless { // its rows are in the order of their IDs
		slices.SortStableFunc(item.History, func(a, b memory.HistoryEntry) int { return a.Time.Compare(b.Time) })
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
