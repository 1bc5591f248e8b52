package engine_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/internal/testdb"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// publicDB is a database as a program sees it, on a clock of its own.
type publicDB struct {
	*engine.DB
	t    *testing.T
	clk  *testdb.Clock
	opts engine.Options
	fs   vfs.FS
}

func (d *publicDB) now() time.Time           { return d.clk.Now() }
func (d *publicDB) advance(by time.Duration) { d.clk.Advance(by) }

func newPublicDB(t *testing.T, o engine.Options) *publicDB {
	t.Helper()
	d := &publicDB{t: t, clk: testdb.NewClock(), opts: o, fs: vfs.NewMem()}
	d.opts.Clock = d.now
	d.open()
	return d
}

func (d *publicDB) open() {
	d.t.Helper()
	d.DB = testdb.Open(d.t, d.fs, d.opts)
}

func (d *publicDB) close() {
	d.t.Helper()
	testdb.Close(d.t, d.DB)
}

// add stores a memory, a second after what was before, and returns its ID.
func (d *publicDB) add(m memory.Memory) string {
	d.t.Helper()
	d.advance(time.Second)
	st, err := d.Memories().Store(d.t.Context(), m, nil)
	if err != nil || !st.Stored {
		d.t.Fatalf("store %q: %+v, %v", m.Text, st, err)
	}
	return st.ID
}

func (d *publicDB) get(id string) memory.Memory {
	d.t.Helper()
	m, err := d.Memories().GetWithVectors(d.t.Context(), memory.Scope{}, id)
	if err != nil {
		d.t.Fatal(err)
	}
	return m
}

func (d *publicDB) all(s memory.Scope) []string {
	d.t.Helper()
	page, err := d.Memories().List(d.t.Context(), memory.ListQuery{Scope: s})
	if err != nil {
		d.t.Fatal(err)
	}
	return texts(page.Memories)
}

// search are the texts that a query finds, best first.
func (d *publicDB) search(q memory.Query) []string {
	d.t.Helper()
	r, err := d.Memories().Recall(d.t.Context(), q)
	if err != nil {
		d.t.Fatal(err)
	}
	var out []string
	for _, h := range r.Hits {
		out = append(out, h.Text)
	}
	return out
}

// finds compares what a query finds, in any order.
func (d *publicDB) finds(q memory.Query, want ...string) {
	d.t.Helper()
	got := d.search(q)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		d.t.Errorf("%q in %+v found %q, want %q", q.Text, q.Scope, got, want)
	}
}

// filtered compares what a filter in JSON leaves of a scope, in recall and in a list.
func (d *publicDB) filtered(s memory.Scope, text, form string, want ...string) {
	d.t.Helper()
	f, err := filter.Parse(d.t.Context(), []byte(form))
	if err != nil {
		d.t.Fatal(err)
	}
	d.finds(memory.Query{Scope: s, Text: text, Filter: f, Limit: 100}, want...)
	page, err := d.Memories().List(d.t.Context(), memory.ListQuery{Scope: s, Filter: f})
	if err != nil {
		d.t.Fatal(err)
	}
	got := texts(page.Memories)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		d.t.Errorf("%s lists %q, want %q", form, got, want)
	}
}

func texts(mems []memory.Memory) []string {
	var out []string
	for _, m := range mems {
		out = append(out, m.Text)
	}
	return out
}

// events are a history as "EVENT old→new".
func (d *publicDB) events(id string) []string {
	d.t.Helper()
	h, err := d.Memories().History(d.t.Context(), memory.Scope{}, id)
	if err != nil {
		d.t.Fatal(err)
	}
	text := func(s *string) string {
		if s == nil {
			return "null"
		}
		return *s
	}
	var out []string
	for _, e := range h {
		if e.MemoryID != id {
			d.t.Errorf("an event of %s in the history of %s", e.MemoryID, id)
		}
		out = append(out, fmt.Sprintf("%s %s→%s %v", e.Event, text(e.OldText), text(e.NewText), e.IsDeleted))
	}
	return out
}

func (d *publicDB) wantEvents(id string, want ...string) {
	d.t.Helper()
	if got := d.events(id); !slices.Equal(got, want) {
		d.t.Errorf("history %q, want %q", got, want)
	}
}

func (d *publicDB) wantAll(s memory.Scope, want ...string) {
	d.t.Helper()
	if got := d.all(s); !slices.Equal(got, want) {
		d.t.Errorf("%+v has %q, want %q", s, got, want)
	}
}

func (d *publicDB) wantErr(err, kind error) {
	d.t.Helper()
	if !errors.Is(err, kind) {
		d.t.Errorf("error %v, want %v", err, kind)
	}
}
