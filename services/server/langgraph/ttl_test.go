package langgraph

import (
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/internal/testdb"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/services/server"
)

// TestReadsOfTTL verifies that reads which start a time to live again change nothing else: a thousand of
// them, by get, by search and by list, leave updated_at, the order of the list and the history as they
// were, and make few commits. The items end a time to live after the last read, also of a database that
// was closed meanwhile.
func TestReadsOfTTL(t *testing.T) {
	clock, files := testdb.NewClock(), vfs.NewMem()
	open := func() (*engine.DB, *service) {
		db := testdb.Open(t, files, engine.Options{Clock: clock.Now})
		s := server.New(db, server.Options{Clock: clock.Now})
		s.Mount(New(nil))
		return db, &service{t, clock, s}
	}
	db, s := open()
	const get, search = "/store/items?namespace=a&key=", "/store/items/search"
	for i := range 3 {
		s.ask(204, "", "PUT", "/store/items", fmt.Sprintf(`{"namespace":["a"],"key":"k%d","value":{"text":"tea %d"},"ttl":10}`, i, i))
		clock.Advance(time.Second)
	}
	const list, query = `{}`, `{"query":"tea","limit":1}`
	first, began, before := s.ask(200, "", "POST", search, list), time.Now(), db.LSN()
	for i := range 1000 {
		clock.Advance(time.Minute)
		switch i % 5 {
		case 0:
			s.ask(200, "", "GET", get+"k0", "")
		case 1:
			s.ask(200, "", "POST", search, query)
		case 2:
			s.ask(200, "", "POST", search, list)
		case 3:
			s.ask(200, "", "POST", search, `{"refresh_ttl":false}`)
		case 4:
			s.ask(200, "", "GET", get+"k1&refresh_ttl=false", "")
		}
	}
	// What reads have gathered is committed every five seconds.
	if n, most := db.LSN()-before, uint64(time.Since(began)/(5*time.Second))+1; n > most {
		t.Errorf("%d commits of 1000 reads, want at most %d", n, most)
	}
	if got := s.ask(200, "", "POST", search, list); got != first {
		t.Errorf("the list has changed:\n%s\nwas\n%s", got, first)
	}
	history := func() (n int) {
		for m, err := range db.Memories().All(t.Context(), memory.ListQuery{Scope: memory.Scope{User: "default"}}) {
			testdb.NoError(t, err)
			h, err := db.Memories().History(t.Context(), m.Scope, m.ID)
			testdb.NoError(t, err)
			n += len(h)
		}
		return n
	}
	if n := history(); n != 3 {
		t.Errorf("%d entries of history, want 3", n)
	}
	testdb.NoError(t, db.Close())
	db, s = open()
	clock.Advance(10*time.Minute - time.Millisecond) // since the list
	if got := s.ask(200, "", "POST", search, `{"refresh_ttl":false}`); got != first {
		t.Errorf("reopened, the list is\n%s\nwas\n%s", got, first)
	}
	s.ask(200, "", "GET", get+"k1", "") // which lives on
	clock.Advance(time.Millisecond)
	for body, want := range map[string]string{`{"refresh_ttl":false}`: "a/k1", `{"refresh_ttl":false,"query":"tea"}`: "a/k1 scored"} {
		if got := s.keysOf(s.ask(200, "", "POST", search, body)); got != want {
			t.Errorf("%s: %q, want %q", body, got, want)
		}
	}
	for key, status := range map[string]int{"k0": 404, "k1": 200, "k2": 404} {
		s.ask(status, "", "GET", get+key+"&refresh_ttl=false", "")
	}
	if report, err := db.Check(t.Context()); err != nil || !report.OK {
		t.Errorf("check: %+v, %v", report, err)
	}
}
