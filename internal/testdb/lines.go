package testdb

import (
	"encoding/json"
	"testing"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// Lines is what an export has of a scope beside its memories, a line of JSON each.
func Lines(t testing.TB, db *engine.DB, s memory.Scope) (lines []string) {
	t.Helper()
	add := func(l engine.Line) error {
		b, err := json.Marshal(l)
		lines = append(lines, string(b))
		return err
	}
	NoError(t, db.View(t.Context(), func(tx *engine.Tx) error {
		if err := tx.LinesAhead(s, nil, add); err != nil {
			return err
		}
		return tx.Lines(s, nil, add)
	}))
	return lines
}

// Import stores lines in one commit, and counts those that were stored and updated. change, unless
// nil, changes each line before.
func Import(t testing.TB, db *engine.DB, lines []string, upsert bool, change func(engine.Line)) (stored, updated int, err error) {
	t.Helper()
	err = db.Update(t.Context(), func(tx *engine.Tx) error {
		for _, line := range lines {
			var of struct{ Type string }
			NoError(t, json.Unmarshal([]byte(line), &of))
			l := db.NewLine(of.Type)
			if err := json.Unmarshal([]byte(line), l); err != nil {
				return err
			}
			if change != nil {
				change(l)
			}
			if err := l.Check(); err != nil {
				return err
			}
			st, err := tx.StoreLine(l, upsert)
			if err != nil {
				return err
			}
			if st.Stored {
				stored++
			}
			if st.Updated {
				updated++
			}
		}
		return nil
	})
	return stored, updated, err
}
