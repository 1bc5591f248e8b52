package engine

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/entries"
	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// TestLimits: what docs/limits.md allows is taken, and what is one beyond is refused,
// with the limit in the error, and changes nothing.
func TestLimits(t *testing.T) {
	sequential(t)
	db := openTest(t, vfs.NewMem(), Options{})
	mustStore(t, db.Memories(), memory.Memory{ID: "m", Scope: memory.Scope{User: "u"}, Text: "tea"})
	n := 0
	store := func(change func(m *memory.Memory)) error {
		n++
		m := memory.Memory{ID: fmt.Sprint(n), Scope: memory.Scope{User: "u"}, Text: fmt.Sprint("text ", n)}
		change(&m)
		_, err := db.Memories().Store(t.Context(), m, nil)
		return err
	}
	long := func(n int) string { return strings.Repeat("x", n) }
	list := func(q memory.ListQuery) error {
		q.Scope = memory.Scope{User: "u"}
		_, err := db.Memories().List(t.Context(), q)
		return err
	}
	recall := func(q memory.Query) error {
		q.Scope, q.NoTouch = memory.Scope{User: "u"}, true // counts written later would move the LSN
		_, err := db.Memories().Recall(t.Context(), q)
		return err
	}
	put := func(key string, value any) error {
		_, err := db.KV().Put(t.Context(), memory.Owner{User: "u"}, key, value, nil)
		return err
	}
	for _, c := range []struct {
		name  string
		limit int
		try   func(n int) error
	}{
		{"ID", valid.MaxID, func(n int) error { return store(func(m *memory.Memory) { m.ID = long(n) }) }},
		{"user", valid.MaxID, func(n int) error { return store(func(m *memory.Memory) { m.User = long(n) }) }},
		{"agent", valid.MaxID, func(n int) error { return store(func(m *memory.Memory) { m.Agent = long(n) }) }},
		{"run", valid.MaxID, func(n int) error { return store(func(m *memory.Memory) { m.Run = long(n) }) }},
		{"name", valid.MaxID, func(n int) error { return store(func(m *memory.Memory) { m.Name = long(n) }) }},
		{"alias", valid.MaxID, func(n int) error { return store(func(m *memory.Memory) { m.Aliases = []string{long(n)} }) }},
		{"aliases", memory.MaxAliases, func(n int) error { return store(func(m *memory.Memory) { m.Aliases = strings.Split(long(n), "")[:n] }) }},
		{"source", valid.MaxID, func(n int) error { return store(func(m *memory.Memory) { m.Source = memory.Source(long(n)) }) }},
		{"space", valid.MaxID, func(n int) error {
			return store(func(m *memory.Memory) { m.Vectors = map[string][]float32{long(n): {1}} })
		}},
		{"text", memory.MaxText, func(n int) error { return store(func(m *memory.Memory) { m.Text = long(n) }) }},
		{"text of a query", memory.MaxText, func(n int) error { return recall(memory.Query{Text: long(n)}) }},
		{"metadata", memory.MaxMetadata, func(n int) error {
			return store(func(m *memory.Memory) { m.Metadata = map[string]any{"k": long(n - len(`{"k":""}`))} })
		}},
		{"depth of metadata", memory.MaxMetadataDepth, func(n int) error {
			meta := map[string]any{"k": 1}
			for range n - 1 {
				meta = map[string]any{"k": meta}
			}
			return store(func(m *memory.Memory) { m.Metadata = meta })
		}},
		{"dimension", memory.MaxDim, func(n int) error {
			v := make([]float32, n)
			v[0] = 1
			return store(func(m *memory.Memory) { m.Vectors = map[string][]float32{fmt.Sprint("of ", n): v} })
		}},
		{"limit of a list", valid.MaxLimit, func(n int) error { return list(memory.ListQuery{Limit: n}) }},
		{"limit of a recall", valid.MaxLimit, func(n int) error { return recall(memory.Query{Text: "tea", Limit: n}) }},
		{"values of a filter", filter.MaxNodes - 1, func(n int) error {
			return list(memory.ListQuery{Filter: filter.In("tag", make([]any, n)...)})
		}},
		{"nesting of a filter", filter.MaxDepth, func(n int) error {
			f := filter.Eq("tag", 1)
			for range n + 1 {
				f = filter.And(f)
			}
			return list(memory.ListQuery{Filter: f})
		}},
		{"key", entries.MaxKey, func(n int) error { return put(long(n), 1) }},
		{"value", entries.MaxValue, func(n int) error { return put("k", long(n-2)) }},
		{"fields of IndexedText", memory.MaxIndexedText, func(n int) error {
			var o Options
			for i := range n {
				o.IndexedText = append(o.IndexedText, memory.IndexedField{Field: fmt.Sprint("f", i)})
			}
			other, err := OpenMemory(&o)
			if err != nil {
				return err
			}
			return other.Close()
		}},
	} {
		if err := c.try(c.limit); err != nil {
			t.Errorf("%s of %d: %v", c.name, c.limit, err)
		}
		before := db.LSN()
		err, says := c.try(c.limit+1), c.limit
		if c.limit == filter.MaxNodes-1 {
			says++ // the condition itself counts
		}
		if !errors.Is(err, fault.ErrInvalid) || !strings.Contains(err.Error(), fmt.Sprint(says)) {
			t.Errorf("%s of %d: %v", c.name, c.limit+1, err)
		}
		if db.LSN() != before {
			t.Errorf("%s of %d changed the database", c.name, c.limit+1)
		}
	}
	if r, err := db.Check(t.Context()); err != nil || !r.OK {
		t.Errorf("check: %+v, %v", r, err)
	}
}

// TestRanges: the values that a field takes, and those just outside.
func TestRanges(t *testing.T) {
	db := openTest(t, vfs.NewMem(), Options{})
	n := 0
	try := func(name string, ok bool, change func(m *memory.Memory)) {
		t.Helper()
		n++
		m := memory.Memory{Scope: memory.Scope{User: "u"}, Text: fmt.Sprint("text ", n)}
		change(&m)
		if _, err := db.Memories().Store(t.Context(), m, nil); ok != (err == nil) || err != nil && !errors.Is(err, fault.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, share := range []float64{0, 1, math.Nextafter(0, -1), math.Nextafter(1, 2), math.NaN(), math.Inf(1)} {
		ok := share == 0 || share == 1
		try(fmt.Sprint("importance ", share), ok, func(m *memory.Memory) { m.Importance = &share })
		try(fmt.Sprint("confidence ", share), ok, func(m *memory.Memory) { m.Confidence = &share })
	}
	for _, c := range []struct {
		at time.Time
		ok bool
	}{
		{time.Date(1, 1, 1, 0, 0, 0, 1e6, time.UTC), true},
		{time.Date(0, 12, 31, 23, 59, 59, 0, time.UTC), false},
		{time.Date(9999, 12, 31, 23, 59, 59, 999e6, time.UTC), true},
		{time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), false},
	} {
		try(c.at.String(), c.ok, func(m *memory.Memory) { m.EventTime = c.at })
	}
	for _, word := range []string{"\x00", "a\x7f", "a\u0085", "\xff", "line\nbreak"} {
		try(fmt.Sprintf("ID %q", word), false, func(m *memory.Memory) { m.ID = word })
		try(fmt.Sprintf("run %q", word), false, func(m *memory.Memory) { m.Run = word })
	}
	for weight, ok := range map[float64]bool{0: true, 0.25: true, 16: true, 0.2: false, 0.3: false, 16.25: false, -1: false} {
		other, err := openOn(vfs.NewMem(), "db", Options{IndexedText: []memory.IndexedField{{Field: "f", Weight: weight}}})
		if ok != (err == nil) {
			t.Errorf("weight %v: %v", weight, err)
		}
		if err == nil {
			closeTest(t, other)
		}
	}
}

// TestTxBytesCountTheLog: what a transaction writes, its log record with the values of
// entries and the lists of what filters delete included, keeps to the limit.
func TestTxBytesCountTheLog(t *testing.T) {
	if testing.Short() || raceEnabled {
		t.Skip("writes 100 MB")
	}
	const slack = 1 << 20 // keys and what else is estimated
	db := openTest(t, vfs.NewMem(), Options{})
	ctx := t.Context()
	written := func(fn func(tx *Tx, i int) error) {
		t.Helper()
		before := db.store.Metrics().WAL.BytesIn
		err := db.Update(ctx, func(tx *Tx) error {
			for i := range 1000 {
				if err := fn(tx, i); err != nil {
					wantError(t, "a large transaction", err, fault.ErrTxTooLarge)
					return nil
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		n := db.store.Metrics().WAL.BytesIn - before
		if n > MaxTxBytes+slack || n < MaxTxBytes/2 {
			t.Errorf("the transaction wrote %d bytes, the limit is %d", n, MaxTxBytes)
		}
	}
	value := strings.Repeat("x", 2<<20)
	written(func(tx *Tx, i int) error {
		_, err := tx.KV().Put(ctx, memory.Owner{User: "u"}, fmt.Sprint("k", i), value, nil)
		return err
	})
}

// TestListedDeletesCount: the list of a delete by filter counts against the limit.
func TestListedDeletesCount(t *testing.T) {
	db := openTest(t, vfs.NewMem(), Options{})
	s := memory.Scope{User: "ada"}
	var mems []memory.Memory
	for i := range 2000 {
		mems = append(mems, memory.Memory{Scope: s, Text: fmt.Sprint("text ", i), Metadata: map[string]any{"odd": i%2 == 1}})
	}
	if _, err := db.Memories().StoreBatch(t.Context(), mems, nil); err != nil {
		t.Fatal(err)
	}
	abort := errors.New("abort")
	err := db.Update(t.Context(), func(tx *Tx) error {
		tx.log = make([]byte, MaxTxBytes-4*memory.MaxID-100) // as if others had filled it
		_, err := tx.Memories().DeleteMatching(t.Context(), memory.DeleteQuery{Scope: s, Filter: filter.Eq("odd", true)})
		wantError(t, "a delete without room for its list", err, fault.ErrTxTooLarge)
		if n, err := tx.Memories().DeleteScope(t.Context(), s); n != 2000 || err != nil {
			t.Errorf("a delete without a list: %d, %v", n, err)
		}
		return abort
	})
	if !errors.Is(err, abort) {
		t.Error(err)
	}
	mustCheck(t, db, 2000)
}
