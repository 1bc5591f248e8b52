package engine

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/internal/doctable"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/memory"
)

func openMem(t *testing.T, o Options) *DB {
	t.Helper()
	db, err := OpenMemory(&o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func put(t *testing.T, db *DB, m memory.Memory) memory.Stored {
	t.Helper()
	s, err := db.Memories().Store(t.Context(), m, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var ada = memory.Scope{User: "ada"}

// TestListOrders: every order, in both directions and page by page, is a stable
// sort of the whole.
func TestListOrders(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	db := openMem(t, Options{Clock: func() time.Time { return now }})
	rng := rand.New(rand.NewPCG(5, 5))
	const memories = 120
	for i := range memories {
		m := memory.Memory{
			ID: fmt.Sprintf("id%02d", rng.IntN(100)), Scope: ada, Text: fmt.Sprint("text ", i),
			CreatedAt: now.Add(time.Duration(rng.IntN(5)) * time.Hour), Importance: new(float64(rng.IntN(4)) / 4),
			Metadata: map[string]any{},
		}
		if v := pick[any](rng, nil, true, false, 1, 2.5, -1, "a", "b", "none"); v != "none" {
			m.Metadata["mixed"] = v
		}
		if _, err := db.Memories().Store(t.Context(), m, &memory.StoreOptions{Upsert: true}); err != nil {
			t.Fatal(err)
		}
	}
	keys := map[string]func(m *memory.Memory) string{ // strings that sort as the order says
		"":           func(m *memory.Memory) string { return fmt.Sprintf("%06d", m.Seq) },
		"id":         func(m *memory.Memory) string { return m.ID },
		"created_at": func(m *memory.Memory) string { return m.CreatedAt.Format(time.RFC3339) },
		"importance": func(m *memory.Memory) string { return fmt.Sprint(*m.Importance + 1) },
		"mixed": func(m *memory.Memory) string {
			v, ok := m.Metadata["mixed"]
			if !ok {
				return "~" // last
			}
			return map[string]string{"<nil>": "0", "false": "1", "true": "2", "-1": "3", "1": "4", "2.5": "5", "a": "6", "b": "7"}[fmt.Sprint(v)]
		},
	}
	all := listAll(t, db, memory.ListQuery{Scope: ada})
	for name, key := range keys {
		for _, descending := range []bool{false, true} {
			want := slices.Clone(all)
			slices.SortStableFunc(want, func(a, b memory.Memory) int {
				x, y := key(&a), key(&b)
				if descending && x != "~" && y != "~" {
					return strings.Compare(y, x)
				}
				return strings.Compare(x, y)
			})
			got := listAll(t, db, memory.ListQuery{Scope: ada, OrderBy: name, Descending: descending, Limit: 7})
			if !slices.Equal(idsOf(got), idsOf(want)) {
				t.Errorf("by %q, descending %v:\n%v\nwant\n%v", name, descending, idsOf(got), idsOf(want))
			}
		}
	}
}

func listAll(t *testing.T, db *DB, q memory.ListQuery) []memory.Memory {
	t.Helper()
	var all []memory.Memory
	for m, err := range db.Memories().All(t.Context(), q) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, m)
	}
	return all
}

// TestCursorUnderWrites: what is added or removed between pages neither repeats
// nor hides another memory.
func TestCursorUnderWrites(t *testing.T) {
	db := openMem(t, Options{})
	rng := rand.New(rand.NewPCG(6, 6))
	for i := range 100 {
		put(t, db, memory.Memory{ID: fmt.Sprintf("m%03d", i), Scope: ada, Text: fmt.Sprint(i), Metadata: map[string]any{"n": i}})
	}
	gone := map[string]bool{}
	seen := map[string]int{}
	q := memory.ListQuery{Scope: ada, OrderBy: "n", Descending: true, Limit: 7}
	for {
		page, err := db.Memories().List(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range page.Memories {
			seen[m.ID]++
		}
		if page.Next == "" {
			break
		}
		q.Cursor = page.Next
		put(t, db, memory.Memory{Scope: ada, Text: fmt.Sprint("new ", rng.Int()), Metadata: map[string]any{"n": rng.IntN(100)}})
		if id := fmt.Sprintf("m%03d", rng.IntN(100)); !gone[id] {
			if err := db.Memories().Delete(t.Context(), ada, id); err != nil {
				t.Fatal(err)
			}
			gone[id] = true
		}
	}
	for i := range 100 {
		id := fmt.Sprintf("m%03d", i)
		if seen[id] > 1 || seen[id] == 0 && !gone[id] {
			t.Errorf("%s was listed %d times", id, seen[id])
		}
	}
}

func TestBadCursors(t *testing.T) {
	db, other := openMem(t, Options{}), openMem(t, Options{})
	next := map[*DB]string{}
	for _, d := range []*DB{db, other} {
		for i := range 3 {
			put(t, d, memory.Memory{Scope: ada, Text: fmt.Sprint(i)})
		}
		page, err := d.Memories().List(t.Context(), memory.ListQuery{Scope: ada, Limit: 1})
		if err != nil || page.Next == "" {
			t.Fatal(page, err)
		}
		next[d] = page.Next
	}
	for _, c := range []struct {
		q    memory.ListQuery
		says string
	}{
		{memory.ListQuery{Cursor: next[other]}, "another database"},
		{memory.ListQuery{Cursor: "nonsense"}, "none"},
		{memory.ListQuery{Cursor: "!"}, "none"},
		{memory.ListQuery{Cursor: next[db][:len(next[db])-8]}, "damaged"},
		{memory.ListQuery{Cursor: next[db] + "AAAA"}, "damaged"},
		{memory.ListQuery{Cursor: next[db] + "A"}, "cursor"},
		{memory.ListQuery{Cursor: next[db], OrderBy: "id"}, "another order"},
		{memory.ListQuery{Cursor: next[db], Descending: true}, "another order"},
		{memory.ListQuery{OrderBy: "text"}, "too long"},
		{memory.ListQuery{OrderBy: "metadata."}, "order by"},
		{memory.ListQuery{OrderBy: "hash"}, "order by"},
		{memory.ListQuery{OrderBy: "aliases"}, "order by"},
	} {
		c.q.Scope = ada
		if _, err := db.Memories().List(t.Context(), c.q); !errors.Is(err, fault.ErrInvalid) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: error %v, want one that says %q", c.q, err, c.says)
		}
	}
}

// TestDeleteMatching: a filter chooses what is deleted, in one commit, also where
// the program ends before the clean-up.
func TestDeleteMatching(t *testing.T) {
	for _, clean := range []bool{true, false} {
		fs := vfs.NewMem()
		db, err := openOn(fs, "db", Options{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 50 {
			put(t, db, memory.Memory{ID: fmt.Sprint("m", i), Scope: memory.Scope{User: pick2(i, "ada", "bob")}, Text: fmt.Sprint(i), Metadata: map[string]any{"n": i}})
		}
		if !clean {
			db.janitor.stop()
		}
		lsn := db.LSN()
		n, err := db.Memories().DeleteMatching(t.Context(), memory.DeleteQuery{Scope: ada, Filter: filter.Lt("n", 20)})
		if err != nil || n != 10 {
			t.Fatal(n, err)
		}
		if db.LSN() != lsn+1 {
			t.Errorf("%d commits", db.LSN()-lsn)
		}
		for range 2 {
			if got := len(listAll(t, db, memory.ListQuery{AllScopes: true})); got != 40 {
				t.Errorf("%d memories are left", got)
			}
			h, err := db.Memories().History(t.Context(), ada, "m2")
			if err != nil || len(h) != 2 || h[1].Event != memory.EventDelete || *h[1].OldText != "2" {
				t.Errorf("history %v, %v", h, err)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			if db, err = openOn(fs, "db", Options{}); err != nil {
				t.Fatal(err)
			}
			if r, err := db.Check(t.Context()); err != nil || !r.OK {
				t.Error(r, err)
			}
		}
		if n, err := db.Memories().DeleteMatching(t.Context(), memory.DeleteQuery{AllScopes: true, Filter: filter.Gte("n", 45)}); err != nil || n != 5 {
			t.Errorf("over all scopes: %d, %v", n, err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func pick2(i int, a, b string) string {
	if i%2 == 0 {
		return a
	}
	return b
}

// TestReset: nothing is left, also after reopening; an open View keeps what it
// saw; and the database goes on.
func TestReset(t *testing.T) {
	fs := vfs.NewMem()
	db, err := openOn(fs, "db", Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		put(t, db, memory.Memory{ID: fmt.Sprint("m", i), Scope: ada, Text: fmt.Sprint("tea ", i), Embedding: []float32{1, float32(i)}})
	}
	if _, err := db.Memories().DeleteMatching(t.Context(), memory.DeleteQuery{Scope: ada, Filter: filter.Eq("id", "m3")}); err != nil {
		t.Fatal(err)
	}
	if _, err := db.KV().Put(t.Context(), memory.Owner{User: "ada"}, "k", 1, nil); err != nil {
		t.Fatal(err)
	}
	err = db.View(t.Context(), func(tx *Tx) error {
		n, err := db.Reset(t.Context())
		if err != nil || n != 19 {
			t.Errorf("reset: %d, %v", n, err)
		}
		r, err := tx.Memories().Recall(t.Context(), memory.Query{Scope: ada, Text: "tea", Limit: 50, NoTouch: true})
		if err != nil || len(r.Hits) != 19 {
			t.Errorf("the View finds %d, %v", len(r.Hits), err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got := listAll(t, db, memory.ListQuery{AllScopes: true}); len(got) != 0 {
			t.Errorf("%d memories are left", len(got))
		}
		if _, err := db.Memories().History(t.Context(), memory.Scope{}, "m1"); !errors.Is(err, fault.ErrNotFound) {
			t.Errorf("the history is left: %v", err)
		}
		if _, found, err := db.KV().Lookup(t.Context(), memory.Owner{User: "ada"}, "k"); found || err != nil {
			t.Errorf("an entry is left: %v", err)
		}
		if r, err := db.Check(t.Context()); err != nil || !r.OK {
			t.Error(r, err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		if db, err = openOn(fs, "db", Options{}); err != nil {
			t.Fatal(err)
		}
	}
	s := put(t, db, memory.Memory{ID: "m1", Scope: ada, Text: "tea again", Embedding: []float32{1, 2}})
	if s.Seq != 21 {
		t.Errorf("the next Seq is %d, want 21: it is never reused", s.Seq)
	}
	if s, err := db.Stats(t.Context()); err != nil || s.Memories != 1 || s.Vectors != 1 {
		t.Errorf("%+v, %v", s, err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestListBehind: only a list by a time begins behind a place.
func TestListBehind(t *testing.T) {
	db := openTest(t, vfs.NewMem(), Options{})
	place := &memory.ListPlace{Seq: 1}
	for _, q := range []memory.ListQuery{{AllScopes: true, Behind: place}, {AllScopes: true, Behind: place, OrderBy: "importance"}, {AllScopes: true, Behind: place, OrderBy: "updated_at", Cursor: "x"}} {
		if _, err := db.Memories().List(t.Context(), q); !errors.Is(err, memory.ErrInvalid) {
			t.Errorf("%+v: %v", q, err)
		}
	}
}

// TestListByCreation lists many pages of document rows by creation, which is nearly
// their order and not quite, forwards and backwards, within a filter and without,
// beside a sort of everything.
func TestListByCreation(t *testing.T) {
	db := openTest(t, vfs.NewMem(), Options{})
	ada, n := memory.Scope{User: "ada"}, 4*doctable.PageSize
	rng := rand.New(rand.NewPCG(3, 4))
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var mems []memory.Memory
	for i := range n {
		at := i / 10 // some are created at the same time
		if rng.IntN(20) == 0 {
			at = rng.IntN(n)
		}
		mems = append(mems, memory.Memory{
			ID: fmt.Sprint("m", i), Scope: ada, Text: fmt.Sprint("number ", i),
			CreatedAt: start.Add(time.Duration(at) * time.Second), Metadata: map[string]any{"even": i%2 == 0},
		})
	}
	for part := range slices.Chunk(mems, 1000) {
		if _, err := db.Memories().StoreBatch(t.Context(), part, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, descending := range []bool{false, true} {
		for _, f := range []filter.Filter{nil, filter.Eq("even", true)} {
			want := slices.DeleteFunc(slices.Clone(mems), func(m memory.Memory) bool { return f != nil && m.Metadata["even"] == false })
			slices.SortStableFunc(want, func(a, b memory.Memory) int {
				if descending {
					a, b = b, a
				}
				return a.CreatedAt.Compare(b.CreatedAt)
			})
			var got []string
			q := memory.ListQuery{Scope: ada, Filter: f, OrderBy: "created_at", Descending: descending, Limit: 300}
			for {
				page, err := db.Memories().List(t.Context(), q)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, ids(page.Memories)...)
				if q.Cursor = page.Next; q.Cursor == "" {
					break
				}
			}
			equalSlices(t, fmt.Sprint("descending ", descending, ", filter ", f), got, ids(want))
			got = nil
			for q.Cursor = ""; ; { // behind the last of each page, by its place alone
				page, err := db.Memories().List(t.Context(), q)
				if err != nil {
					t.Fatal(err)
				}
				if len(page.Memories) == 0 {
					break
				}
				got = append(got, ids(page.Memories)...)
				last := page.Memories[len(page.Memories)-1]
				q.Behind = &memory.ListPlace{At: last.CreatedAt, Seq: last.Seq}
			}
			equalSlices(t, fmt.Sprint("behind places, descending ", descending, ", filter ", f), got, ids(want))
		}
	}
}
