package engine

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/race"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// TestDedup stores two memories in a row, and says what becomes of the second.
func TestDedup(t *testing.T) {
	ada, bob := memory.Scope{User: "ada"}, memory.Scope{User: "bob"}
	run := func(s memory.Scope, r string) memory.Scope { s.Run = r; return s }
	const text = "prefers tea"
	long := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name          string
		first, second memory.Memory
		options       *memory.StoreOptions
		database      Dedup
		want          bool // a duplicate
		fails         error
	}{
		{name: "same owner", first: memory.Memory{Scope: ada}, second: memory.Memory{Scope: ada}, want: true},
		{name: "other owner", first: memory.Memory{Scope: ada}, second: memory.Memory{Scope: bob}},
		{name: "agent added", first: memory.Memory{Scope: ada}, second: memory.Memory{Scope: memory.Scope{User: "ada", Agent: "a"}}},
		{name: "same owner, other run", first: memory.Memory{Scope: run(ada, "1")}, second: memory.Memory{Scope: run(ada, "2")}},
		{name: "same owner, same run", first: memory.Memory{Scope: run(ada, "1")}, second: memory.Memory{Scope: run(ada, "1")}, want: true},
		{name: "with and without run", first: memory.Memory{Scope: run(ada, "1")}, second: memory.Memory{Scope: ada}},
		{name: "owner, other run", first: memory.Memory{Scope: run(ada, "1")}, second: memory.Memory{Scope: run(ada, "2")}, database: DedupOwner, want: true},
		{name: "owner, with and without run", first: memory.Memory{Scope: run(ada, "1")}, second: memory.Memory{Scope: ada}, database: DedupOwner, want: true},
		{name: "owner, other sole run", first: memory.Memory{Scope: run(memory.Scope{}, "1")}, second: memory.Memory{Scope: run(memory.Scope{}, "2")}, database: DedupOwner},
		{name: "owner, facts of two runs", first: memory.Memory{Scope: run(ada, "1"), Kind: memory.KindFact}, second: memory.Memory{Scope: run(ada, "2"), Kind: memory.KindFact}, database: DedupOwner},
		{name: "one that has expired", first: memory.Memory{Scope: ada}, second: memory.Memory{Scope: ada, ExpiresAt: long}},
		{name: "sole run", first: memory.Memory{Scope: run(memory.Scope{}, "1")}, second: memory.Memory{Scope: run(memory.Scope{}, "1")}, want: true},
		{name: "other sole run", first: memory.Memory{Scope: run(memory.Scope{}, "1")}, second: memory.Memory{Scope: run(memory.Scope{}, "2")}},
		{name: "message and fragment", first: memory.Memory{Scope: ada}, second: memory.Memory{Scope: ada, Kind: memory.KindFragment}, want: true},
		{name: "message and fact", first: memory.Memory{Scope: ada}, second: memory.Memory{Scope: ada, Kind: memory.KindFact}},
		{name: "other role", first: memory.Memory{Scope: ada}, second: memory.Memory{Scope: ada, Role: memory.RoleAssistant}, want: true},
		{name: "other text", first: memory.Memory{Scope: ada}, second: memory.Memory{Scope: ada, Text: text + "."}},
		{name: "facts", first: memory.Memory{Scope: run(ada, "1"), Kind: memory.KindFact}, second: memory.Memory{Scope: run(ada, "1"), Kind: memory.KindFact}, want: true},
		{name: "facts of two runs", first: memory.Memory{Scope: run(ada, "1"), Kind: memory.KindFact}, second: memory.Memory{Scope: run(ada, "2"), Kind: memory.KindFact}},
		{name: "fact with and without run", first: memory.Memory{Scope: ada, Kind: memory.KindFact}, second: memory.Memory{Scope: run(ada, "2"), Kind: memory.KindFact}},
		{name: "notes", first: memory.Memory{Scope: ada, Kind: memory.KindNote, Name: "n"}, second: memory.Memory{Scope: ada, Kind: memory.KindNote, Name: "n"}, want: true},
		{name: "notes of two runs", first: memory.Memory{Scope: run(ada, "1"), Kind: memory.KindNote, Name: "n"}, second: memory.Memory{Scope: run(ada, "2"), Kind: memory.KindNote, Name: "n"}, want: true},
		{name: "notes of two names", first: memory.Memory{Scope: ada, Kind: memory.KindNote, Name: "n"}, second: memory.Memory{Scope: ada, Kind: memory.KindNote, Name: "m"}},
		{name: "notes of other text", first: memory.Memory{Scope: ada, Kind: memory.KindNote, Name: "n"}, second: memory.Memory{Scope: ada, Kind: memory.KindNote, Name: "n", Text: "x"}, fails: fault.ErrExists},
		{name: "notes without name", first: memory.Memory{Scope: ada, Kind: memory.KindNote}, second: memory.Memory{Scope: ada, Kind: memory.KindNote}},
		{name: "archives", first: memory.Memory{Scope: ada, Kind: memory.KindArchive, Name: "n"}, second: memory.Memory{Scope: ada, Kind: memory.KindArchive, Name: "n"}},
		{name: "summaries", first: memory.Memory{Scope: ada, Kind: memory.KindSummary}, second: memory.Memory{Scope: ada, Kind: memory.KindSummary}},
		{name: "new ID", first: memory.Memory{Scope: ada}, second: memory.Memory{Scope: ada, ID: "second"}},
		{name: "of one with an ID", first: memory.Memory{Scope: ada, ID: "first"}, second: memory.Memory{Scope: ada}, want: true},
		{name: "empty text", first: memory.Memory{Scope: ada, Text: "-", Embedding: []float32{1}}, second: memory.Memory{Scope: ada, Text: "-", Embedding: []float32{1}}},
		{name: "expired", first: memory.Memory{Scope: ada, ExpiresAt: long}, second: memory.Memory{Scope: ada}},
		{name: "NoDedup", first: memory.Memory{Scope: ada}, second: memory.Memory{Scope: ada}, options: &memory.StoreOptions{NoDedup: true}},
		{name: "DedupNone", first: memory.Memory{Scope: ada}, second: memory.Memory{Scope: ada}, database: DedupNone},
	} {
		t.Run(c.name, func(t *testing.T) {
			db := openTest(t, vfs.NewMem(), Options{Dedup: c.database})
			for _, m := range []*memory.Memory{&c.first, &c.second} {
				switch m.Text {
				case "":
					m.Text = text
				case "-":
					m.Text = ""
				}
			}
			first := mustStore(t, db.Memories(), c.first)
			second, err := db.Memories().Store(t.Context(), c.second, c.options)
			if c.fails != nil || err != nil {
				wantError(t, "second", err, c.fails)
				return
			}
			if second.Deduplicated != c.want || second.Stored == c.want || (second.ID == first.ID) != c.want || (second.Seq == first.Seq) != c.want {
				t.Errorf("second is %+v, first %+v; a duplicate: want %v", second, first, c.want)
			}
			left := 2
			if c.want || !c.first.ExpiresAt.IsZero() { // a copy that has expired makes room
				left = 1
			}
			mustCheck(t, db, left)
		})
	}
}

// TestDedupOriginal: the lowest Seq that is there is the original, whatever was
// deleted or changed before it.
func TestDedupOriginal(t *testing.T) {
	fs := vfs.NewMem()
	db := openTest(t, fs, Options{})
	ada := memory.Scope{User: "ada"}
	ctx := t.Context()
	for i := range 5 {
		mustStore(t, db.Memories(), memory.Memory{ID: fmt.Sprint(i), Scope: ada, Text: "same"})
	}
	original := func(want string) {
		t.Helper()
		st, err := db.Memories().Store(ctx, memory.Memory{Scope: ada, Text: "same"}, nil)
		if err != nil || st.ID != want || !st.Deduplicated {
			t.Errorf("the original is %+v, %v; want %s", st, err, want)
		}
	}
	original("0")
	if err := db.Memories().Delete(ctx, ada, "0"); err != nil {
		t.Fatal(err)
	}
	original("1")
	if _, err := db.Memories().Update(ctx, ada, "1", memory.Patch{Text: new("other")}); err != nil {
		t.Fatal(err)
	}
	original("2")
	if _, err := db.Memories().Update(ctx, ada, "1", memory.Patch{Text: new("same")}); err != nil {
		t.Fatal(err)
	}
	original("1")
	if _, err := db.Memories().Update(ctx, ada, "1", memory.Patch{ExpiresAt: new(time.Unix(1, 0))}); err != nil {
		t.Fatal(err)
	}
	original("2")
	err := db.Update(ctx, func(tx *Tx) error { return tx.Memories().Delete(ctx, ada, "2") })
	if err != nil {
		t.Fatal(err)
	}
	closeTest(t, db)
	db = openTest(t, fs, Options{})
	original("3")
	mustCheck(t, db, 2) // 1 has expired
}

// TestDedupByMany: 64 goroutines store the same 1,000 texts, each in an order of
// its own; every text is stored once, and all are told the same.
func TestDedupByMany(t *testing.T) {
	const goroutines, distinct = 64, 1000
	texts, batch := distinct, 50
	if race.Enabled {
		texts = 200
	}
	db := openTest(t, vfs.NewMem(), Options{})
	told := make([][]string, goroutines)
	var wg sync.WaitGroup
	for g := range goroutines {
		told[g] = make([]string, texts)
		wg.Go(func() {
			for from := 0; from < texts; from += batch {
				var mems []memory.Memory
				for i := from; i < from+batch; i++ {
					mems = append(mems, memory.Memory{Scope: memory.Scope{User: "ada"}, Text: fmt.Sprint("text ", (i+g*13)%texts)})
				}
				got, err := db.Memories().StoreBatch(context.Background(), mems, nil)
				if err != nil {
					t.Error(err)
					return
				}
				for i, st := range got {
					told[g][(from+i+g*13)%texts] = st.ID
				}
			}
		})
	}
	wg.Wait()
	for g := range told {
		for i, id := range told[g] {
			if id == "" || id != told[0][i] {
				t.Fatalf("goroutine %d was told %q of text %d, goroutine 0 %q", g, id, i, told[0][i])
			}
		}
	}
	mustCheck(t, db, texts)
}

// TestDuplicateTakesOver: what a store that is a duplicate asks to be kept is kept: the later
// expiry, the pin and the higher importance of the two.
func TestDuplicateTakesOver(t *testing.T) {
	clock := newTestClock()
	db := openTest(t, vfs.NewMem(), Options{Clock: clock.now})
	ctx, ada := t.Context(), memory.Scope{User: "ada"}
	soon, later := clock.now().Add(time.Second), clock.now().Add(time.Hour)
	low, high := 0.1, 0.9
	for _, c := range []struct {
		name          string
		first, second memory.Memory
		want          memory.Memory
	}{
		{"later", memory.Memory{ExpiresAt: soon}, memory.Memory{ExpiresAt: later}, memory.Memory{ExpiresAt: later}},
		{"never", memory.Memory{ExpiresAt: soon}, memory.Memory{}, memory.Memory{}},
		{"sooner", memory.Memory{ExpiresAt: later}, memory.Memory{ExpiresAt: soon}, memory.Memory{ExpiresAt: later}},
		{"sooner than never", memory.Memory{}, memory.Memory{ExpiresAt: soon}, memory.Memory{}},
		{"pinned", memory.Memory{}, memory.Memory{Pinned: true}, memory.Memory{Pinned: true}},
		{"pinned before", memory.Memory{Pinned: true}, memory.Memory{}, memory.Memory{Pinned: true}},
		{"higher", memory.Memory{Importance: &low}, memory.Memory{Importance: &high}, memory.Memory{Importance: &high}},
		{"lower", memory.Memory{Importance: &high}, memory.Memory{Importance: &low}, memory.Memory{Importance: &high}},
		{"all", memory.Memory{ExpiresAt: soon, Importance: &low}, memory.Memory{Pinned: true, Importance: &high}, memory.Memory{Pinned: true, Importance: &high}},
	} {
		c.first.Scope, c.first.Text, c.second.Scope, c.second.Text = ada, c.name, ada, c.name
		first := mustStore(t, db.Memories(), c.first)
		st, err := db.Memories().Store(ctx, c.second, nil)
		if err != nil || !st.Deduplicated || st.ID != first.ID {
			t.Fatalf("%s: %+v, %v", c.name, st, err)
		}
		m, err := db.Memories().Get(ctx, ada, first.ID)
		if err != nil || !m.ExpiresAt.Equal(c.want.ExpiresAt) || m.Pinned != c.want.Pinned || c.want.Importance != nil && *m.Importance != *c.want.Importance {
			t.Errorf("%s: %v, pinned %v, importance %v, %v", c.name, m.ExpiresAt, m.Pinned, *m.Importance, err)
		}
		changed := !m.ExpiresAt.Equal(c.first.ExpiresAt) || m.Pinned != c.first.Pinned || c.first.Importance != nil && *m.Importance != *c.first.Importance
		if st.Updated != changed {
			t.Errorf("%s: updated is %v", c.name, st.Updated)
		}
	}
	clock.advance(time.Minute)
	for _, m := range mustList(t, db.Memories(), ada) {
		if m.Text == "never" || m.Text == "all" {
			continue
		}
		if !m.ExpiresAt.IsZero() && m.ExpiresAt.Before(clock.now()) {
			t.Errorf("%s is there and has expired", m.Text)
		}
	}
	mustCheck(t, db, 9)
}
