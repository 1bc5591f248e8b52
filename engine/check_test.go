package engine

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/codec"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/records"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// TestCheckFinds damages one thing at a time behind the database's back: Check
// names it, and goes on to the end.
func TestCheckFinds(t *testing.T) {
	ada := memory.Scope{User: "ada"}
	one := memory.Memory{ID: "one", Scope: ada, Text: "prefers tea", Embedding: []float32{1, 2}, Name: "drinks"}
	inRun := one
	inRun.Run = "r"
	// What is damaged is the second memory stored, so Seq 2 and document 1.
	at := func(db *DB) records.Live {
		l, _ := (&Tx{db: db, state: db.stateOf(nil, state.MaxLSN)}).reader().At(2)
		return l
	}
	sum := func() layout.DedupKey {
		d, _ := records.DedupKeyOf(fixedKeys(t), &layout.Record{Text: one.Text, Scope: inRun.Scope}, 1, 1)
		return d
	}()
	del := func(key func(db *DB, ks *layout.Keys) []byte) func(*testing.T, *DB) error {
		return func(_ *testing.T, db *DB) error { return db.store.Delete(key(db, db.keys()), pebble.Sync) }
	}
	put := func(key func(db *DB, ks *layout.Keys) []byte, value ...byte) func(*testing.T, *DB) error {
		return func(_ *testing.T, db *DB) error {
			k := key(db, db.keys())
			return db.store.Set(k, layout.Seal(k, value), pebble.Sync)
		}
	}
	doc := func(kind byte) func(*DB, *layout.Keys) []byte {
		return func(db *DB, ks *layout.Keys) []byte { return ks.Doc(kind, at(db).Doc) }
	}
	recordKey := func(db *DB, ks *layout.Keys) []byte { return ks.Record(at(db).Version) }
	vectorKey := func(db *DB, ks *layout.Keys) []byte { return ks.Vector(1, at(db).Version) }
	_, strangeForward := forwardEncoding()
	for _, c := range []struct {
		name   string
		damage func(t *testing.T, db *DB) error
		want   string // in a problem
	}{
		{"ID missing", del(func(db *DB, ks *layout.Keys) []byte { return ks.ID("one", 1, 2) }), "ID index"},
		{"ID of another owner", put(func(db *DB, ks *layout.Keys) []byte { return ks.ID("one", 9, 2) }), "ID index"},
		{"dedup missing", del(func(db *DB, ks *layout.Keys) []byte { return ks.Dedup(sum, 2) }), "dedup"},
		{"dedup of the dead", put(func(db *DB, ks *layout.Keys) []byte { return ks.Dedup(sum, 777) }), "dedup"},
		{"forward record missing", del(doc(layout.KindForward)), "forward"},
		{"forward record damaged", put(doc(layout.KindForward), 1, 2, 3), "document"},
		{"forward record of another text", swapForward, "words"},
		{"document of nobody", put(func(db *DB, ks *layout.Keys) []byte { return ks.Doc(layout.KindForward, 500) }, strangeForward...), "neither"},
		{"tombstone of the living", put(doc(layout.KindTombstone), 0, 0, 0, 0, 0, 0, 0, 1), "tombstone"},
		{"record missing", del(recordKey), "neither"},
		{"record damaged", put(recordKey, 1, 2, 3), "record"},
		{"record of a newer format", put(recordKey, 99), "record"},
		{"vector missing", del(vectorKey), "vector"},
		{"vector cut", put(vectorKey, 0, 0, 128), "vector"},
		{"vector of another dimension", put(vectorKey, 0, 0, 128, 63), "vector"},
		{"vector of nobody", put(func(db *DB, ks *layout.Keys) []byte { return ks.Vector(1, layout.Version{Owner: 1, Seq: 2, Born: 999}) }, 0, 0, 128, 63, 0, 0, 128, 63), "vector"},
		{"statistics damaged", put(func(db *DB, ks *layout.Keys) []byte { return ks.Stats(1, 2) }, 7), "statistics"},
		{"history damaged", put(func(db *DB, ks *layout.Keys) []byte { return ks.History(1, 2, 99, 0) }, 7), "history"},
		{"name under another's key", put(func(db *DB, ks *layout.Keys) []byte { return ks.Name(layout.NameUser, "x") }, layout.EncodeName(nil, 9, "y", nil)...), "name"},
		{"two names with one number", put(func(db *DB, ks *layout.Keys) []byte { return ks.Name(layout.NameUser, "x") }, layout.EncodeName(nil, 1, "x", nil)...), "same number"},
		{"owner missing", del(func(db *DB, ks *layout.Keys) []byte {
			db.tables.Names = state.NewNames()
			return ks.Name(layout.NameOwner, scope.Key(ada.Owner()))
		}), "owner"},
		{"ID of nobody", put(func(db *DB, ks *layout.Keys) []byte { return ks.ID("nobody", 1, 777) }), "ID index"},
		{"statistics of nobody", put(func(db *DB, ks *layout.Keys) []byte { return ks.Stats(1, 777) }, layout.Access{Count: 1, Last: 1}.Encode()...), "statistics"},
		{"pending of nobody", put(func(db *DB, ks *layout.Keys) []byte { return ks.Pending(layout.PendingSpace, 1, 777) }), "to be embedded"},
		{"run missing", del(func(db *DB, ks *layout.Keys) []byte {
			db.tables.Names = state.NewNames()
			return ks.Name(layout.NameRun, "r")
		}), "run number"},
		{"run of another number", put(func(db *DB, ks *layout.Keys) []byte {
			db.tables.Names = state.NewNames()
			return ks.Name(layout.NameRun, "r")
		}, layout.EncodeName(nil, 9, "r", nil)...), "run number"},
		{"death missing", loseDeath, "no place in the indexes"},
		{"superseded record missing", updatedThen(loseFirst), "lacks the version"},
		{"superseded record of a text that was embedded later missing", embeddedThen(loseFirst), "lacks the version"},
		{"superseded record changed", updatedThen(changeFirst), "checksum"},
		{"last record of the dead missing", deletedThen(loseFirst), "lacks the version"},
		{"last record of what died in a scope missing", clearedThen(loseFirst), "lacks the version"},
		{"death of nobody", put(func(db *DB, ks *layout.Keys) []byte { return ks.History(1, 777, 99, 0) }, layout.Death{At: 1, Born: 3}.Encode()...), "history"},
		{"vector changed in one bit", put(vectorKey, codec.AppendFloats(nil, []float32{1, math.Nextafter32(2, 3)})...), "not the one that was stored"},
		{"vector of another memory", put(vectorKey, codec.AppendFloats(nil, []float32{2, 1})...), "not the one that was stored"},
		{"log with a gap", del(func(db *DB, ks *layout.Keys) []byte { return ks.LSN(layout.KindLog, 2) }), "log"},
		{"log record damaged", put(func(db *DB, ks *layout.Keys) []byte { return ks.LSN(layout.KindLog, 2) }, 7), "log"},
	} {
		t.Run(c.name, func(t *testing.T) {
			db := openTest(t, vfs.NewMem(), Options{})
			mustStore(t, db.Memories(), memory.Memory{ID: "zero", Scope: ada, Text: "first", Embedding: []float32{2, 1}})
			mustStore(t, db.Memories(), inRun)
			mustCheck(t, db, 2)
			if err := c.damage(t, db); err != nil {
				t.Fatal(err)
			}
			mustStore(t, db.Memories(), memory.Memory{Scope: memory.Scope{User: "bob"}, Text: "a commit that shows the damage"})
			r, err := db.Check(t.Context())
			if err != nil || r.OK || !slices.ContainsFunc(r.Problems, func(p Problem) bool { return strings.Contains(p.What, c.want) }) {
				t.Errorf("report %+v, %v; want a problem with %q", r, err, c.want)
			}
		})
	}
}

// A wrecker damages a record, given its key and value.
type wrecker func(db *DB, key, value []byte) error

func loseFirst(db *DB, key, _ []byte) error { return db.store.Delete(key, pebble.Sync) }

// changeFirst changes a letter of the text.
func changeFirst(db *DB, key, value []byte) error {
	changed := bytes.Replace(value, []byte("tea"), []byte("tee"), 1)
	if bytes.Equal(changed, value) {
		return errors.New("the record does not hold the text")
	}
	return db.store.Set(key, changed, pebble.Sync)
}

// wreckFirst damages the first version of the second memory.
func (wreck wrecker) wreckFirst(db *DB) error {
	lower, upper := db.keys().Span(layout.KindRecord)
	var first, value []byte
	err := kv.Scan(db.store, lower, upper, func(key, b []byte) error {
		if v, ok := layout.ParseRecordKey(key); !ok || v.Seq != 2 {
			return nil
		}
		first, value = slices.Clone(key), slices.Clone(b)
		return kv.ErrStop
	})
	if !errors.Is(err, kv.ErrStop) {
		return cmp.Or(err, errors.New("the memory has no record"))
	}
	return wreck(db, first, value)
}

// changedThen runs what a database does, which is no damage, before one of its records is damaged.
func changedThen(change func(t *testing.T, db *DB) error, wreck wrecker) func(*testing.T, *DB) error {
	return func(t *testing.T, db *DB) error {
		if err := change(t, db); err != nil {
			return err
		}
		if r, err := db.Check(t.Context()); err != nil || !r.OK {
			t.Fatalf("before the damage: %+v, %v", r, err)
		}
		return wreck.wreckFirst(db)
	}
}

func updatedThen(wreck wrecker) func(*testing.T, *DB) error {
	return changedThen(func(t *testing.T, db *DB) error {
		for _, text := range []string{"prefers coffee", "prefers water"} {
			if _, err := db.Memories().Update(t.Context(), memory.Scope{User: "ada"}, "one", memory.Patch{Text: &text}); err != nil {
				return err
			}
		}
		return nil
	}, wreck)
}

// embedAgain gives the second memory another vector, by a version that is no event.
func embedAgain(t *testing.T, db *DB) error {
	return db.Update(t.Context(), func(tx *Tx) error {
		l, _ := tx.reader().At(2)
		_, err := tx.revise(t.Context(), "embed it again", l, map[string][]float32{memory.DefaultSpace: {3, 4}}, 0, false)
		return err
	})
}

func embeddedThen(wreck wrecker) func(*testing.T, *DB) error { return changedThen(embedAgain, wreck) }

func deletedThen(wreck wrecker) func(*testing.T, *DB) error {
	return changedThen(func(t *testing.T, db *DB) error {
		if err := embedAgain(t, db); err != nil {
			return err
		}
		if err := db.Memories().Delete(t.Context(), memory.Scope{User: "ada"}, "one"); err != nil {
			return err
		}
		waitVectors(t, db, 1)
		return nil
	}, wreck)
}

func clearedThen(wreck wrecker) func(*testing.T, *DB) error {
	return changedThen(func(t *testing.T, db *DB) error {
		if _, err := db.Memories().DeleteScope(t.Context(), memory.Scope{User: "ada"}); err != nil {
			return err
		}
		waitVectors(t, db, 0)
		return nil
	}, wreck)
}

// loseDeath deletes the second memory, and what tells of it but its history.
func loseDeath(t *testing.T, db *DB) error {
	if err := db.Memories().Delete(t.Context(), memory.Scope{User: "ada"}, "one"); err != nil {
		return err
	}
	waitVectors(t, db, 1)
	lower, upper := db.keys().Span(layout.KindHistory)
	return kv.Scan(db.store, lower, upper, func(key, _ []byte) error {
		return db.store.Delete(slices.Clone(key), pebble.Sync)
	})
}

// swapForward stores the forward record of a memory with another text in place of
// its own.
func swapForward(t *testing.T, db *DB) error {
	l, _ := (&Tx{db: db, state: db.stateOf(nil, state.MaxLSN)}).reader().At(2)
	key := db.keys().Doc(layout.KindForward, l.Doc)
	b, closer, err := db.store.Get(key)
	if err != nil {
		return err
	}
	f, err := decodeForward(b)
	if err != nil {
		return err
	}
	if err := closer.Close(); err != nil {
		return err
	}
	f.idx.Terms = f.idx.Terms[:1]
	p := &records.Pending{Version: f.Version, Run: f.Run, Index: f.idx, Rec: &layout.Record{
		Created: f.Created, Expires: f.Expires, Importance: f.Importance, Confidence: f.Confidence, Vectors: f.Vectors,
	}}
	return db.store.Set(key, p.AppendForward(nil), pebble.Sync)
}

// TestCheckBesideWriters: what goes on meanwhile is no damage.
func TestCheckBesideWriters(t *testing.T) {
	clock := newTestClock()
	db := openTest(t, vfs.NewMem(), Options{Clock: clock.now})
	ada := memory.Scope{User: "ada"}
	fill(t, db, ada, 0, 100)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 300 {
			mustStore(t, db.Memories(), memory.Memory{Scope: ada, Kind: memory.KindSummary, Text: "tea", Embedding: []float32{1, 2, 3, 4}})
			if i%10 == 9 {
				if _, err := db.Memories().DeleteScope(context.Background(), ada); err != nil {
					t.Error(err)
				}
			}
			clock.advance(time.Second)
		}
	}()
	for over := false; !over; {
		select {
		case <-done:
			over = true
		default:
		}
		if r, err := db.Check(t.Context()); err != nil || !r.OK {
			t.Fatalf("check: %+v, %v", r, err)
		}
	}
}
