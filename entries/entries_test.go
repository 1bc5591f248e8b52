package entries_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/entries"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/testdb"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// kvWorld is a database with a clock that the test moves.
type kvWorld struct {
	t   *testing.T
	fs  vfs.FS
	db  *engine.DB
	clk *testdb.Clock
}

func newKVWorld(t *testing.T) *kvWorld {
	w := &kvWorld{t: t, fs: vfs.NewMem(), clk: testdb.NewClock()}
	w.open()
	return w
}

func (w *kvWorld) open() {
	w.t.Helper()
	w.db = testdb.Open(w.t, w.fs, engine.Options{Clock: w.clk.Now})
}

func (w *kvWorld) reopen() {
	w.t.Helper()
	testdb.Close(w.t, w.db)
	w.open()
}

func (w *kvWorld) put(o memory.Owner, key string, value any, opts *entries.PutOptions) entries.Entry {
	w.t.Helper()
	e, err := w.db.KV().Put(context.Background(), o, key, value, opts)
	if err != nil {
		w.t.Fatal(err)
	}
	return e
}

// value is the value under a key, "" where there is none.
func (w *kvWorld) value(o memory.Owner, key string) string {
	w.t.Helper()
	e, found, err := w.db.KV().Lookup(context.Background(), o, key)
	if err != nil {
		w.t.Fatal(err)
	}
	if !found {
		return ""
	}
	return string(e.Value)
}

var researcher = memory.Owner{Agent: "researcher"}

// TestKVKeepsValuesOfAnAgent: a value is there under its owner and its key, with the time of the
// last put, until it is deleted, also when the database is opened again.
func TestKVKeepsValuesOfAnAgent(t *testing.T) {
	w := newKVWorld(t)
	w.put(researcher, "last_report_date", "2025-03-06", nil)
	if got := w.value(researcher, "last_report_date"); got != `"2025-03-06"` {
		t.Errorf("get = %s", got)
	}
	if got := w.value(researcher, "nothing"); got != "" {
		t.Errorf("an absent key has the value %s", got)
	}
	if got := w.value(memory.Owner{Agent: "coder"}, "last_report_date"); got != "" {
		t.Errorf("another agent reads %s", got)
	}
	w.clk.Advance(time.Hour)
	e := w.put(researcher, "last_report_date", "2025-03-07", nil)
	if !e.UpdatedAt.Equal(w.clk.Now()) {
		t.Errorf("updated at %v, want %v", e.UpdatedAt, w.clk.Now())
	}
	w.put(researcher, "reports_count", 3, nil)
	page, err := w.db.KV().List(t.Context(), entries.Query{Owner: researcher})
	if all := page.Entries; err != nil || page.Next != "" || len(all) != 2 || all[0].Key != "last_report_date" || string(all[1].Value) != "3" {
		t.Errorf("list = %v, %v", page, err)
	}
	for _, want := range []bool{true, false} {
		err := w.db.KV().Delete(t.Context(), researcher, "last_report_date")
		if found := err == nil; found != want || !found && !errors.Is(err, fault.ErrNotFound) {
			t.Errorf("delete = %v, want %v", err, want)
		}
	}
	w.reopen()
	if got := w.value(researcher, "last_report_date") + w.value(researcher, "reports_count"); got != "3" {
		t.Errorf("after reopening: %s", got)
	}
}

func TestKVValuesAreLossless(t *testing.T) {
	w := newKVWorld(t)
	for _, raw := range []string{`null`, `0`, `12345678901234567890.123`, `"é <b>&"`, `[]`, `{"a":[1,{"b":null}]}`, `""`, `false`} {
		w.put(researcher, "k", json.RawMessage(raw), nil)
		var want, got any
		if err := errors.Join(json.Unmarshal([]byte(raw), &want), json.Unmarshal([]byte(w.value(researcher, "k")), &got)); err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s came back as %s", raw, w.value(researcher, "k"))
		}
	}
	for _, same := range []string{`12345678901234567890.123`, `18446744073709551616`, `{"model":"small","temperature":0.10}`, `"<&>"`, `"\u003c\ud83d\ude00"`, strings.Repeat("[", entries.MaxValueDepth) + strings.Repeat("]", entries.MaxValueDepth)} {
		w.put(researcher, "k", json.RawMessage(same), nil)
		if got := w.value(researcher, "k"); got != same {
			t.Errorf("%s came back as %s", same, got)
		}
	}
}

// TestKVExactKey: a key is no prefix of another.
func TestKVExactKey(t *testing.T) {
	w := newKVWorld(t)
	w.put(researcher, "report", 1, nil)
	w.put(researcher, "report_count", 2, nil)
	if a, b, c := w.value(researcher, "report"), w.value(researcher, "report_count"), w.value(researcher, "repor"); a+b+c != "12" {
		t.Errorf("%s, %s, %s", a, b, c)
	}
}

func TestKVCompareAndSet(t *testing.T) {
	w := newKVWorld(t)
	put := func(value any, version uint64) error {
		_, err := w.db.KV().Put(t.Context(), researcher, "k", value, &entries.PutOptions{IfVersion: &version})
		return err
	}
	if err := put(1, 7); !errors.Is(err, fault.ErrConflict) {
		t.Errorf("put of version 7 where there is none: %v", err)
	}
	if err := put(1, 0); err != nil {
		t.Fatal(err)
	}
	if err := put(2, 0); !errors.Is(err, fault.ErrConflict) {
		t.Errorf("put of version 0 where there is one: %v", err)
	}
	e, _, err := w.db.KV().Lookup(t.Context(), researcher, "k")
	if err != nil {
		t.Fatal(err)
	}
	if err := put(2, e.Version); err != nil {
		t.Fatal(err)
	}
	if err := put(3, e.Version); !errors.Is(err, fault.ErrConflict) {
		t.Errorf("put of the version before: %v", err)
	}
	if got := w.value(researcher, "k"); got != "2" {
		t.Errorf("the value is %s", got)
	}
}

// TestKVCounter: compare-and-set from many goroutines loses no increment.
func TestKVCounter(t *testing.T) {
	w := newKVWorld(t)
	const writers, each = 8, 20
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for n := 0; n < each; {
				e, found, err := w.db.KV().Lookup(t.Context(), researcher, "count")
				if err != nil {
					t.Error(err)
					return
				}
				var count int
				if found {
					if err := json.Unmarshal(e.Value, &count); err != nil {
						t.Error(err)
						return
					}
				}
				_, err = w.db.KV().Put(t.Context(), researcher, "count", count+1, &entries.PutOptions{IfVersion: &e.Version})
				switch {
				case err == nil:
					n++
				case !errors.Is(err, fault.ErrConflict):
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if got := w.value(researcher, "count"); got != fmt.Sprint(writers*each) {
		t.Errorf("count = %s, want %d", got, writers*each)
	}
}

func TestKVExpiry(t *testing.T) {
	w := newKVWorld(t)
	w.put(researcher, "short", 1, &entries.PutOptions{TTL: time.Minute})
	w.put(researcher, "long", 2, &entries.PutOptions{TTL: time.Hour})
	w.put(researcher, "kept", 3, &entries.PutOptions{TTL: time.Minute})
	w.put(researcher, "kept", 4, nil) // without a time to live
	w.put(researcher, "ancient", 5, &entries.PutOptions{ExpiresAt: time.Date(1960, 1, 1, 0, 0, 0, 0, time.UTC)})
	w.clk.Advance(time.Minute)
	if got := w.value(researcher, "short"); got != "" {
		t.Errorf("the expired entry is %s", got)
	}
	version := uint64(0)
	if _, err := w.db.KV().Put(t.Context(), researcher, "short", 5, &entries.PutOptions{IfVersion: &version, TTL: time.Second}); err != nil {
		t.Errorf("an expired entry is in the way: %v", err)
	}
	w.clk.Advance(time.Second)
	if err := entries.Work(t.Context(), w.db.KV()); err != nil {
		t.Fatal(err)
	}
	r, err := w.db.Check(t.Context())
	if err != nil || !r.OK {
		t.Error(r, err)
	}
	stored, err := w.db.Stats(t.Context())
	if n := stored.Parts["entries"]; err != nil || n != 2 {
		t.Errorf("%d entries are stored after the clean-up, want 2 (%v)", n, err)
	}
	if got := w.value(researcher, "long") + w.value(researcher, "kept"); got != "24" {
		t.Errorf("the others are %s", got)
	}
}

// TestKVListing: pages by prefix equal a sorted map, whatever bytes the keys have.
func TestKVListing(t *testing.T) {
	w := newKVWorld(t)
	rng := rand.New(rand.NewPCG(1, 1))
	model := map[string]bool{}
	for range 300 {
		var b strings.Builder
		for range 1 + rng.IntN(4) {
			b.WriteString([]string{"a", "b", "é", "\U0010ffff", "/", "~", "ab"}[rng.IntN(7)])
		}
		model[b.String()] = true
		w.put(researcher, b.String(), 1, nil)
		w.put(memory.Owner{User: "ada", Agent: "researcher"}, "other"+b.String(), 1, nil)
	}
	for _, prefix := range []string{"", "a", "ab", "é", "\U0010ffff", "zzz"} {
		var want, got []string
		for key := range model {
			if strings.HasPrefix(key, prefix) {
				want = append(want, key)
			}
		}
		slices.Sort(want)
		for e, err := range w.db.KV().All(t.Context(), entries.Query{Owner: researcher, Prefix: prefix, Limit: 7}) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, e.Key)
		}
		if !slices.Equal(got, want) {
			t.Errorf("prefix %q lists %q, want %q", prefix, got, want)
		}
	}
}

// TestKVTransactions: a view is fixed, an Update sees its own writes, and an
// aborted one leaves nothing.
func TestKVTransactions(t *testing.T) {
	w := newKVWorld(t)
	w.put(researcher, "k", 1, nil)
	errAbort := errors.New("abort")
	err := w.db.View(t.Context(), func(view *engine.Tx) error {
		w.put(researcher, "k", 2, nil)
		err := w.db.Update(t.Context(), func(tx *engine.Tx) error {
			if _, err := tx.KV().Put(t.Context(), researcher, "k", 3, nil); err != nil {
				return err
			}
			if e, _, err := tx.KV().Lookup(t.Context(), researcher, "k"); err != nil || string(e.Value) != "3" {
				t.Errorf("inside the Update: %s, %v", e.Value, err)
			}
			if _, err := tx.Memories().Store(t.Context(), memory.Memory{Scope: memory.Scope{Agent: "researcher"}, Text: "x"}, nil); err != nil {
				return err
			}
			return errAbort
		})
		if !errors.Is(err, errAbort) {
			t.Errorf("the Update returned %v", err)
		}
		if e, _, err := view.KV().Lookup(t.Context(), researcher, "k"); err != nil || string(e.Value) != "1" {
			t.Errorf("the View reads %s, %v", e.Value, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := w.value(researcher, "k"); got != "2" {
		t.Errorf("the value is %s", got)
	}
}

func TestKVBadInput(t *testing.T) {
	w := newKVWorld(t)
	w.put(researcher, "k", 1, nil)
	put := func(o memory.Owner, key string, value any, opts *entries.PutOptions) error {
		_, err := w.db.KV().Put(t.Context(), o, key, value, opts)
		return err
	}
	_, listErr := w.db.KV().List(t.Context(), entries.Query{Owner: researcher, Limit: -1})
	_, scopeErr := w.db.KV().List(t.Context(), entries.Query{})
	for name, c := range map[string]struct {
		err  error
		kind error
		says string
	}{
		"no owner":          {put(memory.Owner{}, "k", 1, nil), fault.ErrScope, "At least one"},
		"empty key":         {put(researcher, "", 1, nil), fault.ErrInvalid, "empty"},
		"key of 1 MB":       {put(researcher, strings.Repeat("k", 1<<20), 1, nil), fault.ErrInvalid, "1048576"},
		"control character": {put(researcher, "a\x00b", 1, nil), fault.ErrInvalid, "control"},
		"no UTF-8":          {put(researcher, "\xff", 1, nil), fault.ErrInvalid, "UTF-8"},
		"no JSON":           {put(researcher, "k", json.RawMessage(`{"a":`), nil), fault.ErrInvalid, "JSON"},
		"value of no UTF-8": {put(researcher, "k", json.RawMessage("\"\xff\""), nil), fault.ErrInvalid, "UTF-8"},
		"lone surrogate":    {put(researcher, "k", json.RawMessage(`"\ud800"`), nil), fault.ErrInvalid, "surrogate"},
		"value too deep":    {put(researcher, "k", json.RawMessage(strings.Repeat("[", 5000)+strings.Repeat("]", 5000)), nil), fault.ErrInvalid, "5000 deep"},
		"NaN":               {put(researcher, "k", math.NaN(), nil), fault.ErrInvalid, "JSON"},
		"value over limit":  {put(researcher, "k", strings.Repeat("x", entries.MaxValue), nil), fault.ErrInvalid, "8388608"},
		"negative TTL":      {put(researcher, "k", 1, &entries.PutOptions{TTL: -1}), fault.ErrInvalid, "time to live"},
		"limit":             {listErr, fault.ErrInvalid, "-1"},
		"list no owner":     {scopeErr, fault.ErrScope, "At least one"},
	} {
		if !errors.Is(c.err, c.kind) || !strings.Contains(c.err.Error(), c.says) {
			t.Errorf("%s: %v", name, c.err)
		}
	}
	if got := w.value(researcher, "k"); got != "1" {
		t.Errorf("the value changed to %s", got)
	}
}
