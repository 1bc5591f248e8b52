package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/sessions"
)

// TestGrowth: what was written since a time, by the commits and not by what memories say of themselves.
func TestGrowth(t *testing.T) {
	clock := newTestClock()
	db := openTest(t, vfs.NewMem(), Options{Clock: clock.now})
	m, ada := db.Memories(), memory.Scope{User: "ada"}
	since := func(at time.Time) Growth {
		t.Helper()
		g, err := db.GrowthSince(t.Context(), at)
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	start := clock.now()
	if g := since(start); g != (Growth{Since: start, Whole: true}) {
		t.Errorf("of an empty database: %+v", g)
	}
	store := func(id, text string, created time.Time) {
		mustStore(t, m, memory.Memory{ID: id, Scope: ada, Text: text, CreatedAt: created, Embedding: []float32{1, 2}})
	}
	for day := range 5 {
		store(fmt.Sprint("m", day), fmt.Sprint("day ", day), time.Time{})
		store(fmt.Sprint("old", day), fmt.Sprint("of long ago ", day), start.AddDate(-3, 0, 0))
		if _, err := db.Sessions().Append(t.Context(), ada.Owner(), "run", []sessions.Message{{Role: "user", Text: "hello"}}, nil); err != nil {
			t.Fatal(err)
		}
		clock.advance(24 * time.Hour)
	}
	// The first message is a memory, too; the others say the same.
	if g := since(start.AddDate(0, 0, -1)); g.Memories != 11 || g.Living != 11 || g.Messages != 5 || g.LSN != 0 || !g.Whole {
		t.Errorf("since before it was made: %+v", g)
	}
	day3 := start.AddDate(0, 0, 3)
	g := since(day3)
	if g.Memories != 4 || g.Living != 4 || g.Updated != 0 || g.Deleted != 0 || g.Messages != 2 || !g.Since.Equal(day3) {
		t.Errorf("of the last two days: %+v", g)
	}
	if all := since(start.AddDate(0, 0, -1)); all.Bytes <= 2*g.Bytes || g.Bytes == 0 {
		t.Errorf("bytes of two days and of five: %d, %d", g.Bytes, all.Bytes)
	}
	text := "another text"
	if _, err := m.Update(t.Context(), ada, "m0", memory.Patch{Text: &text}); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"m1", "m4"} {
		if err := m.Delete(t.Context(), ada, id); err != nil {
			t.Fatal(err)
		}
	}
	if g := since(day3); g.Memories != 4 || g.Living != 3 || g.Updated != 1 || g.Deleted != 2 {
		t.Errorf("after an update and two deletes: %+v", g)
	}
	now := clock.now().Add(time.Minute)
	if g := since(now); g.Memories+g.Updated+g.Deleted+g.Messages+g.Bytes != 0 {
		t.Errorf("since now: %+v", g)
	}
	// Where the log was cut, it counts from there on, and says so.
	if err := db.lockBehind(t.Context()); err != nil {
		t.Fatal(err)
	}
	lower, _ := db.keys().Span(layout.KindLog)
	err := db.applyBare(func(b *pebble.Batch) error { return b.DeleteRange(lower, db.keys().LSN(layout.KindLog, 7), nil) })
	if err == nil {
		err = db.republish()
	}
	db.unlock()
	if err != nil {
		t.Fatal(err)
	}
	if g := since(start); g.Whole || g.LSN != 7 || !g.Since.Equal(start.AddDate(0, 0, 2)) {
		t.Errorf("of a log that was cut: %+v", g)
	}
}
