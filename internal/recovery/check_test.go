package recovery_test

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/entries"
	"github.com/seed-7aedc3ff/memdb/internal/codec"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/records"
	"github.com/seed-7aedc3ff/memdb/internal/store"
	"github.com/seed-7aedc3ff/memdb/internal/testdb"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// spoilt is the store of a closed database, of which a test damages something. What is damaged is the second memory
// stored, so Seq 2.
type spoilt struct {
	*store.Store
	t  *testing.T
	ks *layout.Keys
}

// each visits the keys of a kind.
func (s *spoilt) each(kind byte, visit func(key, value []byte)) {
	s.t.Helper()
	lower, upper := s.ks.Span(kind)
	testdb.NoError(s.t, kv.Scan(s.Store, lower, upper, func(key, value []byte) error {
		visit(slices.Clone(key), slices.Clone(value))
		return nil
	}))
}

// version is the newest version of the memory.
func (s *spoilt) version() (v layout.Version) {
	s.each(layout.KindRecord, func(key, _ []byte) {
		if of, ok := layout.ParseRecordKey(key); ok && of.Seq == 2 {
			v = of
		}
	})
	return v
}

// forward is its document.
func (s *spoilt) forward() (doc uint32, f *records.Forward) {
	s.each(layout.KindForward, func(key, value []byte) {
		of, err := records.DecodeForward(value)
		testdb.NoError(s.t, err)
		if of.Seq == 2 {
			f = of
			doc, _ = layout.ParseDocKey(key)
		}
	})
	return doc, f
}

func (s *spoilt) set(key, value []byte) { testdb.NoError(s.t, s.Set(key, value, pebble.Sync)) }
func (s *spoilt) del(key []byte)        { testdb.NoError(s.t, s.Delete(key, pebble.Sync)) }

// keyOf is one key of the store.
type keyOf func(s *spoilt) []byte

// missing deletes a key.
func missing(key keyOf) func(*spoilt) { return func(s *spoilt) { s.del(key(s)) } }

// holding gives a key another value.
func holding(key keyOf, value ...byte) func(*spoilt) {
	return func(s *spoilt) {
		k := key(s)
		s.set(k, layout.Seal(k, value))
	}
}

func doc(kind byte) keyOf {
	return func(s *spoilt) []byte {
		n, _ := s.forward()
		return s.ks.Doc(kind, n)
	}
}

// bare is a key of a kind, and nothing else.
func bare(kind byte) keyOf { return func(s *spoilt) []byte { return s.ks.Header(kind, 0) } }

// entry damages an entry.
func entry(damage func(s *spoilt, key []byte)) func(*spoilt) {
	return func(s *spoilt) {
		s.each(byte(entries.Part{}.Kinds()[0]), func(key, _ []byte) { damage(s, key) })
	}
}

func recordKey(s *spoilt) []byte { return s.ks.Record(s.version()) }
func vectorKey(s *spoilt) []byte { return s.ks.Vector(1, s.version()) }

// TestCheckFinds damages one thing at a time behind the database's back: Check
// names it, and goes on to the end.
func TestCheckFinds(t *testing.T) {
	ada := memory.Scope{User: "ada"}
	one := memory.Memory{ID: "one", Scope: memory.Scope{User: "ada", Run: "r"}, Text: "prefers tea", Embedding: []float32{1, 2}, Name: "drinks"}
	sum := func(s *spoilt) layout.DedupKey {
		d, _ := records.DedupKeyOf(s.ks, &layout.Record{Text: one.Text, Scope: one.Scope}, 1, 1)
		return d
	}
	log := func(s *spoilt) []byte { return s.ks.LSN(layout.KindLog, 2) }
	run := func(s *spoilt) []byte { return s.ks.Name(layout.NameRun, "r") }
	x := func(s *spoilt) []byte { return s.ks.Name(layout.NameUser, "x") }
	stranger := layout.Version{Owner: 1, Seq: 2, Born: 999}
	for _, c := range []struct {
		name   string
		before func(t *testing.T, db *engine.DB) // what a database does, which is no damage
		damage func(s *spoilt)
		want   string // in a problem
	}{
		{"ID missing", nil, missing(func(s *spoilt) []byte { return s.ks.ID("one", 1, 2) }), "ID index"},
		{"ID of another owner", nil, holding(func(s *spoilt) []byte { return s.ks.ID("one", 9, 2) }), "ID index"},
		{"dedup missing", nil, missing(func(s *spoilt) []byte { return s.ks.Dedup(sum(s), 2) }), "dedup"},
		{"dedup of the dead", nil, holding(func(s *spoilt) []byte { return s.ks.Dedup(sum(s), 777) }), "dedup"},
		{"forward record missing", nil, missing(doc(layout.KindForward)), "no place in the indexes"},
		{"forward record damaged", nil, holding(doc(layout.KindForward), 1, 2, 3), "document"},
		{"forward record of another text", nil, swapForward, "words"},
		{"document of nobody", nil, forwardOfNobody, "neither"},
		{"tombstone of the living", nil, holding(doc(layout.KindTombstone), 0, 0, 0, 0, 0, 0, 0, 1), "no place in the indexes"},
		{"record missing", nil, missing(recordKey), "neither"},
		{"record damaged", nil, holding(recordKey, 1, 2, 3), "record"},
		{"record of a newer format", nil, holding(recordKey, 99), "record"},
		{"vector missing", nil, missing(vectorKey), "vector"},
		{"vector cut", nil, holding(vectorKey, 0, 0, 128), "vector"},
		{"vector of another dimension", nil, holding(vectorKey, 0, 0, 128, 63), "vector"},
		{"vector of nobody", nil, holding(func(s *spoilt) []byte { return s.ks.Vector(1, stranger) }, 0, 0, 128, 63, 0, 0, 128, 63), "vector"},
		{"vector under a malformed key", nil, holding(func(s *spoilt) []byte { return s.ks.Header(layout.KindVector, 0) }), "malformed vector key"},
		{"statistics damaged", nil, holding(func(s *spoilt) []byte { return s.ks.Stats(1, 2) }, 7), "statistics"},
		{"history damaged", nil, holding(func(s *spoilt) []byte { return s.ks.History(1, 2, 99, 0) }, 7), "history"},
		{"name under another's key", nil, holding(x, layout.EncodeName(nil, 9, "y", nil)...), "name"},
		{"two names with one number", nil, holding(x, layout.EncodeName(nil, 1, "x", nil)...), "same number"},
		{"owner missing", nil, missing(func(s *spoilt) []byte { return s.ks.Name(layout.NameOwner, scope.Key(ada.Owner())) }), "owner"},
		{"dedup under a malformed key", nil, holding(bare(layout.KindDedup)), "malformed dedup key"},
		{"forward record under a malformed key", nil, holding(bare(layout.KindForward)), "malformed forward key"},
		{"statistics under a malformed key", nil, holding(bare(layout.KindStats)), "malformed statistics key"},
		{"history under a malformed key", nil, holding(bare(layout.KindHistory)), "malformed history key"},
		{"pending under a malformed key", nil, holding(bare(layout.KindPending)), "malformed key of what is to be embedded"},
		{"record under a malformed key", nil, holding(bare(layout.KindRecord)), "malformed record key"},
		{"name damaged", nil, holding(x, 1), "name"},
		{"tombstone damaged", nil, holding(doc(layout.KindTombstone), 9), "no place in the indexes"},
		{"entry damaged", nil, entry(func(s *spoilt, key []byte) { s.set(key, []byte{1, 2}) }), "entries: "},
		{"entry lost", nil, entry(func(s *spoilt, key []byte) { s.del(key) }), "entries"},
		{"mark of the log damaged", nil, func(s *spoilt) { s.set(layout.LogMarkKey, []byte{1}) }, "the mark of the log"},
		{"ID of nobody", nil, holding(func(s *spoilt) []byte { return s.ks.ID("nobody", 1, 777) }), "ID index"},
		{"ID under a malformed key", nil, holding(func(s *spoilt) []byte { return s.ks.Header(layout.KindID, 0) }), "malformed ID key"},
		{"statistics of nobody", nil, holding(func(s *spoilt) []byte { return s.ks.Stats(1, 777) }, layout.Access{Count: 1, Last: 1}.Encode()...), "statistics"},
		{"pending of nobody", nil, holding(func(s *spoilt) []byte { return s.ks.Pending(layout.PendingSpace, 1, 777) }), "to be embedded"},
		{"run missing", nil, missing(run), "run number"},
		{"run of another number", nil, holding(run, layout.EncodeName(nil, 9, "r", nil)...), "run number"},
		{"death missing", deleted, loseDeath, "no place in the indexes"},
		{"superseded record missing", updated, loseFirst, "lacks the version"},
		{"superseded record of a text that was embedded later missing", embedded, loseFirst, "lacks the version"},
		{"superseded record changed", updated, changeFirst, "checksum"},
		{"last record of the dead missing", deleted, loseFirst, "lacks the version"},
		{"last record of what died in a scope missing", cleared, loseFirst, "lacks the version"},
		{"death of nobody", nil, holding(func(s *spoilt) []byte { return s.ks.History(1, 777, 99, 0) }, layout.Death{At: 1, Born: 3}.Encode()...), "history"},
		{"vector changed in one bit", nil, holding(vectorKey, codec.AppendFloats(nil, []float32{1, math.Nextafter32(2, 3)})...), "not the one that was stored"},
		{"vector of another memory", nil, holding(vectorKey, codec.AppendFloats(nil, []float32{2, 1})...), "not the one that was stored"},
		{"log with a gap", nil, missing(log), "log"},
		{"log record damaged", nil, holding(log, 7), "log"},
		{"identity damaged", nil, func(s *spoilt) { s.set(layout.IdentityKey, []byte("{}")) }, "the copy of memdb.json"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			fs := vfs.NewMem()
			db := testdb.Open(t, fs, engine.Options{})
			testdb.Store(t, db.Memories(), memory.Memory{ID: "zero", Scope: ada, Text: "first", Embedding: []float32{2, 1}})
			testdb.Store(t, db.Memories(), one)
			testdb.Store(t, db.Memories(), memory.Memory{Scope: memory.Scope{User: "bob"}, Text: "a commit behind them"})
			_, err := db.KV().Put(t.Context(), ada.Owner(), "k", "v", nil)
			testdb.NoError(t, err)
			testdb.Check(t, db, 3)
			if c.before != nil {
				c.before(t, db)
				if r, err := db.Check(t.Context()); err != nil || !r.OK {
					t.Fatalf("before the damage: %+v, %v", r, err)
				}
			}
			testdb.Close(t, db)
			testdb.Spoil(t, fs, func(ks *layout.Keys, st *store.Store) error {
				c.damage(&spoilt{st, t, ks})
				return nil
			})
			db = testdb.Open(t, fs, engine.Options{ReadOnly: true}) // which makes nothing again
			r, err := db.Check(t.Context())
			if err != nil || r.OK || !slices.ContainsFunc(r.Problems, func(p engine.Problem) bool { return strings.Contains(p.What, c.want) }) {
				t.Errorf("report %+v, %v; want a problem with %q", r, err, c.want)
			}
		})
	}
}

// first is the first version of the memory.
func (s *spoilt) first() (key, value []byte) {
	s.each(layout.KindRecord, func(k, b []byte) {
		if v, ok := layout.ParseRecordKey(k); ok && v.Seq == 2 && key == nil {
			key, value = k, b
		}
	})
	if key == nil {
		s.t.Fatal("the memory has no record")
	}
	return key, value
}

func loseFirst(s *spoilt) {
	key, _ := s.first()
	s.del(key)
}

// changeFirst changes a letter of the text.
func changeFirst(s *spoilt) {
	key, value := s.first()
	changed := bytes.Replace(value, []byte("tea"), []byte("tee"), 1)
	if bytes.Equal(changed, value) {
		s.t.Fatal("the record does not hold the text")
	}
	s.set(key, changed)
}

func updated(t *testing.T, db *engine.DB) {
	for _, text := range []string{"prefers coffee", "prefers water"} {
		_, err := db.Memories().Update(t.Context(), memory.Scope{User: "ada"}, "one", memory.Patch{Text: &text})
		testdb.NoError(t, err)
	}
}

// inverse is an embedder.
type inverse struct{}

func (inverse) Dim() int      { return 2 }
func (inverse) Model() string { return "inverse" }

func (inverse) Embed(_ context.Context, texts []string) (vecs [][]float32, err error) {
	for _, text := range texts {
		vecs = append(vecs, []float32{1, 1 / float32(len(text))})
	}
	return vecs, nil
}

// embedded gives each memory another version, which is no event.
func embedded(t *testing.T, db *engine.DB) {
	_, err := db.Reembed(t.Context(), inverse{}, nil)
	testdb.NoError(t, err)
}

// waitVectors waits until the vectors of what has died are gone.
func waitVectors(t *testing.T, db *engine.DB, n int64) {
	t.Helper()
	testdb.Soon(t, "the vectors of the dead are freed", func() bool { return testdb.Stats(t, db).Vectors == n })
}

func deleted(t *testing.T, db *engine.DB) {
	testdb.NoError(t, db.Memories().Delete(t.Context(), memory.Scope{User: "ada"}, "one"))
	waitVectors(t, db, 1)
}

func cleared(t *testing.T, db *engine.DB) {
	_, err := db.Memories().DeleteScope(t.Context(), memory.Scope{User: "ada"})
	testdb.NoError(t, err)
	waitVectors(t, db, 0)
}

// loseDeath deletes what tells of the death of the memory.
func loseDeath(s *spoilt) {
	s.each(layout.KindHistory, func(key, _ []byte) { s.del(key) })
	s.each(layout.KindTombstone, func(key, _ []byte) { s.del(key) })
}

// swapForward stores the forward record of a memory with another text in place of
// its own.
func swapForward(s *spoilt) {
	n, f := s.forward()
	f.Index.Terms = f.Index.Terms[:1]
	s.setForward(n, f)
}

// forwardOfNobody stores a document of a version that no memory has.
func forwardOfNobody(s *spoilt) {
	n, f := s.forward()
	f.Born++
	s.setForward(n+500, f)
}

func (s *spoilt) setForward(n uint32, f *records.Forward) {
	p := &records.Pending{Version: f.Version, Run: f.Run, Index: f.Index, Rec: &layout.Record{
		Created: f.Created, Expires: f.Expires, Importance: f.Importance, Confidence: f.Confidence, Vectors: f.Vectors,
	}}
	s.set(s.ks.Doc(layout.KindForward, n), p.AppendForward(nil))
}

// TestCheckBesideWriters: what goes on meanwhile is no damage.
func TestCheckBesideWriters(t *testing.T) {
	clock := testdb.NewClock()
	db := testdb.New(t, engine.Options{Clock: clock.Now})
	ada := memory.Scope{User: "ada"}
	for i := range 100 {
		testdb.Store(t, db.Memories(), memory.Memory{Scope: ada, Text: fmt.Sprint("memory ", i), Embedding: []float32{float32(i), 1, 2, 3}})
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 300 {
			testdb.Store(t, db.Memories(), memory.Memory{Scope: ada, Kind: memory.KindSummary, Text: "tea", Embedding: []float32{1, 2, 3, 4}})
			if i%10 == 9 {
				if _, err := db.Memories().DeleteScope(context.Background(), ada); err != nil {
					t.Error(err)
				}
			}
			clock.Advance(time.Second)
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

// TestCheckDeep: a deep check reports what searches of each space find, and a check that is not does not.
func TestCheckDeep(t *testing.T) {
	db := testdb.New(t, engine.Options{})
	for i := range 40 {
		testdb.Store(t, db.Memories(), memory.Memory{Scope: memory.Scope{User: "ada"}, Text: fmt.Sprint("memory ", i), Embedding: []float32{float32(i), 1, 2, 3}})
	}
	testdb.Soon(t, "all vectors are linked", func() bool { return db.WaitIndexed(t.Context()) == nil })
	r, err := db.CheckDeep(t.Context())
	if err != nil || !r.OK || len(r.Spaces) != 1 || r.Spaces[0].Sampled != 40 || r.Spaces[0].Recall != 1 || len(r.Spaces[0].Asked) != 4 {
		t.Errorf("deep: %+v, %v", r, err)
	}
	if r, err = db.Check(t.Context()); err != nil || !r.OK || r.Spaces != nil {
		t.Errorf("not deep: %+v, %v", r, err)
	}
}
