package engine

import (
	"context"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/race"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// anonymous is a history without what each database gives by itself.
func anonymous(h []memory.HistoryEntry) []memory.HistoryEntry {
	out := slices.Clone(h)
	for i := range out {
		out[i].ID, out[i].Seq, out[i].LSN = "", 0, 0
	}
	return out
}

func histories(t *testing.T, m Memories, q memory.HistoryQuery) [][]memory.HistoryEntry {
	t.Helper()
	var all [][]memory.HistoryEntry
	for h, err := range m.Histories(context.Background(), q) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, h)
	}
	return all
}

func sameAsJSON(t *testing.T, what string, got, want any) {
	t.Helper()
	a, _ := json.MarshalIndent(got, "", " ")
	b, _ := json.MarshalIndent(want, "", " ")
	if string(a) != string(b) {
		t.Fatalf("%s:\n%s\nwant\n%s", what, a, b)
	}
}

// checkHistories compares the histories of all memories with the model's, and what
// a new database has in which they were restored.
func (w *world) checkHistories() {
	var want [][]memory.HistoryEntry
	for _, seq := range slices.Sorted(maps.Keys(w.model.life)) {
		life := w.model.life[seq]
		m, alive := w.model.live[seq]
		if len(life) > 1 || !alive || m.expired(w.clock.now()) {
			want = append(want, anonymous(life))
		}
	}
	var got [][]memory.HistoryEntry
	of := map[uint64][]memory.HistoryEntry{}
	for _, h := range histories(w.t, w.db.Memories(), memory.HistoryQuery{AllScopes: true}) {
		got, of[h[0].Seq] = append(got, anonymous(h)), h
	}
	sameAsJSON(w.t, "histories", got, want)

	lives := map[uint64]memory.Life{}
	for seq, h := range of {
		lives[seq] = memory.Life{History: h}
	}
	var mems []memory.Memory
	for m, err := range w.db.Memories().All(context.Background(), memory.ListQuery{AllScopes: true, WithVectors: true}) {
		if err != nil {
			w.t.Fatal(err)
		}
		lives[m.Seq] = memory.Life{Memory: &m, History: of[m.Seq]}
		mems = append(mems, m)
	}
	var ordered []memory.Life
	for _, seq := range slices.Sorted(maps.Keys(lives)) {
		ordered = append(ordered, lives[seq])
	}
	w.restored(ordered, mems, got)
}

// restored restores lives into a new database, twice, opens it again, and compares.
func (w *world) restored(lives []memory.Life, mems []memory.Memory, want [][]memory.HistoryEntry) {
	ctx := context.Background()
	fs, opts := vfs.NewMem(), Options{Clock: w.clock.now, MemoryBudget: testBudget, IndexedText: w.indexed}
	for round := range 2 {
		db, err := openOn(fs, "db", opts)
		if err != nil {
			w.t.Fatal(err)
		}
		// A memory that can do nothing but expire is no explicit ID's duplicate.
		st, err := db.Memories().Restore(ctx, lives, &memory.RestoreOptions{StoreOptions: memory.StoreOptions{NoDedup: true}, Known: db.LSN()})
		for i := range st {
			if st[i].Stored != (round == 0) {
				w.t.Fatalf("round %d: life %d: %+v", round, i, st[i])
			}
		}
		if err != nil {
			w.t.Fatal(err)
		}
		var have [][]memory.HistoryEntry
		for _, h := range histories(w.t, db.Memories(), memory.HistoryQuery{AllScopes: true}) {
			have = append(have, anonymous(h))
		}
		sameAsJSON(w.t, "restored histories", have, want)
		i := 0
		for m, err := range db.Memories().All(ctx, memory.ListQuery{AllScopes: true, WithVectors: true}) {
			if err != nil || i >= len(mems) {
				w.t.Fatal(i, len(mems), err)
			}
			m.Seq = mems[i].Seq
			if !reflect.DeepEqual(m, mems[i]) {
				w.t.Fatalf("restored %+v\nwant %+v", m, mems[i])
			}
			i++
		}
		if r, err := db.Check(ctx); err != nil || !r.OK || i != len(mems) {
			w.t.Fatalf("%d memories of %d, check %+v, %v", i, len(mems), r, err)
		}
		closeTest(w.t, db)
	}
}

// pastOf is a history of the memory "m" of ada: events a word each, "ADD:text".
func pastOf(events ...string) []memory.HistoryEntry {
	at := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	var h []memory.HistoryEntry
	for i, e := range events {
		event, text, given := strings.Cut(e, ":")
		entry := memory.HistoryEntry{MemoryID: "m", Scope: memory.Scope{User: "ada"}, Event: memory.Event(event), Time: at.Add(time.Duration(i) * time.Hour)}
		if given {
			entry.NewText = &text
		}
		h = append(h, entry)
	}
	return h
}

// TestRestoreRefuses: a history that no memory can have had changes nothing.
func TestRestoreRefuses(t *testing.T) {
	race.Sequential(t)
	db := openTest(t, vfs.NewMem(), Options{})
	change := func(h []memory.HistoryEntry, i int, f func(*memory.HistoryEntry)) []memory.HistoryEntry {
		f(&h[i])
		return h
	}
	last := pastOf("ADD:a", "UPDATE:b")[1].Time
	mem := &memory.Memory{ID: "m", Scope: memory.Scope{User: "ada"}, Text: "b", UpdatedAt: last}
	other := *mem
	other.Text = "c"
	for _, test := range []struct {
		name string
		life memory.Life
		want string
	}{
		{"nothing", memory.Life{}, "neither a memory nor a history"},
		{"unknown event", memory.Life{History: pastOf("ADD:a", "TOUCH:b")}, `its event is "TOUCH"`},
		{"no text", memory.Life{History: pastOf("ADD")}, "no new text"},
		{"delete first", memory.Life{History: pastOf("DELETE")}, "a delete comes after"},
		{"after a delete", memory.Life{History: pastOf("ADD:a", "DELETE", "DELETE")}, "a delete comes after"},
		{"two adds", memory.Life{History: pastOf("ADD:a", "ADD:b")}, "an add after another event"},
		{"deleted and there", memory.Life{Memory: mem, History: pastOf("ADD:a", "DELETE")}, "a delete comes last"},
		{"other ID", memory.Life{History: change(pastOf("ADD:a", "DELETE"), 1, func(e *memory.HistoryEntry) { e.MemoryID = "n" })}, "another memory"},
		{"other owner", memory.Life{History: change(pastOf("ADD:a", "DELETE"), 1, func(e *memory.HistoryEntry) { e.Scope.User = "bob" })}, "another memory"},
		{"no ID", memory.Life{History: change(pastOf("ADD:a"), 0, func(e *memory.HistoryEntry) { e.MemoryID = "" })}, "names no memory"},
		{"no scope", memory.Life{History: change(pastOf("ADD:a"), 0, func(e *memory.HistoryEntry) { e.Scope = memory.Scope{} })}, "must be provided"},
		{"no time", memory.Life{History: change(pastOf("ADD:a"), 0, func(e *memory.HistoryEntry) { e.Time = time.Time{} })}, "no time"},
		{"no UTF-8", memory.Life{History: pastOf("ADD:\xff")}, "no UTF-8"},
		{"other text", memory.Life{Memory: &other, History: pastOf("ADD:a", "UPDATE:b")}, "does not end with"},
		{"too many", memory.Life{History: pastOf(append([]string{"ADD:a"}, slices.Repeat([]string{"UPDATE:b"}, MaxTxChanges)...)...)}, "the limit"},
	} {
		_, err := db.Memories().Restore(t.Context(), []memory.Life{{Memory: mem}, test.life}, nil)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
	}
	if n := len(mustList(t, db.Memories(), memory.Scope{User: "ada"})); n != 0 || len(histories(t, db.Memories(), memory.HistoryQuery{AllScopes: true})) != 0 {
		t.Errorf("%d memories were stored", n)
	}
	// The good ones of a batch are stored where that is asked for.
	st, err := db.Memories().Restore(t.Context(), []memory.Life{
		{History: pastOf("DELETE")}, {Memory: mem, History: pastOf("ADD:a", "UPDATE:b")},
	}, &memory.RestoreOptions{StoreOptions: memory.StoreOptions{SkipInvalid: true}})
	if err != nil || st[0].Err == nil || !st[1].Stored || st[1].Err != nil {
		t.Errorf("%+v, %v", st, err)
	}
}

// TestHistoriesStayInScope: a query with a scope tells of nothing else, and one
// without must say so.
func TestHistoriesStayInScope(t *testing.T) {
	db := openTest(t, vfs.NewMem(), Options{})
	for _, user := range []string{"ada", "bob"} {
		s := memory.Scope{User: user, Run: "r"}
		mustStore(t, db.Memories(), memory.Memory{ID: "m", Scope: s, Text: user})
		if err := db.Memories().Delete(t.Context(), s, "m"); err != nil {
			t.Fatal(err)
		}
	}
	got := histories(t, db.Memories(), memory.HistoryQuery{Scope: memory.Scope{User: "ada"}})
	if len(got) != 1 || len(got[0]) != 2 || *got[0][0].NewText != "ada" {
		t.Errorf("got %+v", got)
	}
	if got := histories(t, db.Memories(), memory.HistoryQuery{Scope: memory.Scope{Run: "r"}}); len(got) != 2 {
		t.Errorf("of the run %+v", got)
	}
	for _, err := range db.Memories().Histories(t.Context(), memory.HistoryQuery{}) {
		wantError(t, "without a scope", err, fault.ErrScope)
	}
	for h, err := range db.Memories().Histories(t.Context(), memory.HistoryQuery{AllScopes: true}) {
		if err != nil || len(h) != 2 {
			t.Error(h, err)
		}
		break // which ends the state that it holds
	}
}
