package graph_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/internal/fsys/crashfs"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/internal/testdb"
)

func mustRebuild(t testing.TB, db *engine.DB) {
	t.Helper()
	testdb.NoError(t, db.Rebuild(t.Context(), engine.IndexGraph, nil))
}

// follows reports whether a key of the graph follows from others: those that Mend makes again.
func follows(key []byte) bool {
	const section = 7 // behind the kind, the generation and the owner
	derived := map[byte]string{'g': "oTtinmrLwW", 'a': "tS"}[key[0]]
	return len(key) > section && strings.IndexByte(derived, key[section]) >= 0
}

// TestRebuildGraph deletes keys of a graph that follow from others: a rebuild makes each again, and
// a check finds nothing any more. Without damage it changes nothing.
func TestRebuildGraph(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 11))
	w := &damageWorld{graphWorld: damagedGraph(t, rng)}
	w.clean()
	read := func() (keys, values [][]byte) { // but for when graphs began, which follows from no other key
		keys, values = graphKeys(t, w.db)
		for i, key := range keys {
			if key[0] == 'g' && key[7] == 'o' {
				values[i] = graph.WithoutBirth(values[i])
			}
		}
		return keys, values
	}
	keys, values := read()
	before := w.db.LSN()
	mustRebuild(t, w.db)
	if w.db.LSN() != before {
		t.Error("a rebuild of a whole graph has changed it")
	}
	tried, sections := 0, map[string]bool{}
	seen := map[string]int{}
	for _, key := range keys {
		if !follows(key) {
			continue
		}
		section := string([]byte{key[0], key[7]})
		if seen[section]++; seen[section] > 4 {
			continue
		}
		sections[section] = true
		w.write(func(b part.Tx) error { return b.Delete(key) })
		mustRebuild(t, w.db)
		if now, is := read(); !reflect.DeepEqual(now, keys) || !reflect.DeepEqual(is, values) {
			t.Fatalf("key %x: the rebuild has not made it again", key)
		}
		tried++
	}
	if len(sections) < 12 || tried < 15 {
		t.Errorf("%d keys of the sections %v were tried", tried, sections)
	}
	if r, err := w.db.Check(t.Context()); err != nil || !r.OK {
		t.Errorf("check: %v, %v", r.Problems, err)
	}
}

// TestRebuildGraphOfNothing: keys that lead to nothing go, and what was lost with them is told.
func TestRebuildGraphOfNothing(t *testing.T) {
	w := &damageWorld{graphWorld: newGraphWorld(t)}
	w.put("e1", "t", "r>e2")
	w.put("e2", "t")
	keys, _ := graphKeys(t, w.db)
	w.write(func(b part.Tx) error {
		for _, key := range keys {
			if key[0] == 'a' && key[7] == 'f' { // the relation itself
				return b.Delete(key)
			}
		}
		return errors.New("there is no relation")
	})
	r, err := w.db.Check(t.Context())
	if err != nil || r.OK {
		t.Fatalf("check: %v, %v", r, err)
	}
	if !slices.ContainsFunc(r.Problems, func(p engine.Problem) bool { return p.Remedy == "rebuild graph" }) {
		t.Errorf("no problem has the remedy: %+v", r.Problems)
	}
	mustRebuild(t, w.db)
	if r, err := w.db.Check(t.Context()); err != nil || !r.OK {
		t.Errorf("check after the rebuild: %+v, %v", r.Problems, err)
	}
	if s, err := w.g.Stats(t.Context(), w.o); err != nil || s.Relations != 0 || s.Entities != 2 {
		t.Errorf("stats: %+v, %v", s, err)
	}
}

// TestRebuildGraphInSteps: a rebuild of much takes many commits; one that is killed between two
// of them, or cancelled, has mended a part, and the next one the rest. Queries in memory follow.
func TestRebuildGraphInSteps(t *testing.T) {
	w := &damageWorld{graphWorld: newGraphWorld(t)}
	disk := crashfs.NewDisk()
	testdb.Close(t, w.db)
	w.db = testdb.Open(t, disk, engine.Options{})
	w.g = w.db.Graph()
	const n = 700
	w.must(w.db.Update(t.Context(), func(tx *engine.Tx) error {
		for i := range n {
			edge := graph.Edge{Target: fmt.Sprint("e", (i+1)%n), Type: "next"}
			if _, err := tx.Graph().Put(t.Context(), w.o, graph.Entity{ID: fmt.Sprint("e", i), Name: fmt.Sprint("Name ", i)}, []graph.Edge{edge}, nil); err != nil {
				return err
			}
		}
		return nil
	}))
	keys, values := graphKeys(t, w.db)
	w.write(func(b part.Tx) error {
		for _, key := range keys {
			if follows(key) && key[7] != 'T' && key[7] != 't' || key[0] == 'a' && key[7] == 't' {
				if err := b.Delete(key); err != nil {
					return err
				}
			}
		}
		return nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	err := w.db.Rebuild(ctx, engine.IndexGraph, func(done, _ int64) {
		if done > 0 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("a cancelled rebuild: %v", err)
	}
	some, _ := graphKeys(t, w.db)
	if len(some) >= len(keys) {
		t.Fatalf("%d of %d keys after a part of the rebuild", len(some), len(keys))
	}
	killed := disk.Crash(crashfs.Crash{})
	testdb.Close(t, w.db)
	w.db = testdb.Open(t, killed, engine.Options{})
	w.g = w.db.Graph()
	mustRebuild(t, w.db)
	if now, is := graphKeys(t, w.db); !reflect.DeepEqual(now, keys) || !slices.EqualFunc(is, values, bytes.Equal) {
		t.Errorf("%d keys after the rebuild, %d before the damage", len(now), len(keys))
	}
	if _, err := w.g.Get(t.Context(), w.o, "e5", 0); err != nil {
		t.Error(err)
	}
	if r, err := w.db.Check(t.Context()); err != nil || !r.OK {
		t.Errorf("check: %v, %v", r.Problems, err)
	}
	testdb.Close(t, w.db)
}
