package graph_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/internal/race"
	"github.com/seed-7aedc3ff/memdb/internal/testdb"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/mention"
	"github.com/seed-7aedc3ff/memdb/policy"
)

// damagesVar is how many damages TestGraphDamage makes, where it is set.
const damagesVar = "MEMDB_GRAPH_DAMAGES"

// damageWorld is a graph whose keys are changed behind its back.
type damageWorld struct {
	*graphWorld
}

// damagedGraph is a graph with a bit of everything.
func damagedGraph(t *testing.T, rng *rand.Rand) *graphWorld {
	w := newMentionWorld(t, mention.Rules{})
	ctx := t.Context()
	testdb.SetPolicy(t, w.db, func(p *policy.Policy) { p.Trash, p.Kinds = policy.Span(time.Hour), []string{"message"} })
	for i := range 6 {
		w.say(fmt.Sprint("m", i), fmt.Sprintf("Ada met Bob. Person%c works at Firm%c in Ghent.", 'a'+i, 'a'+i))
	}
	old := memory.Memory{ID: "old", Scope: w.o.Scope(), Text: "Zed met Yan.", Importance: new(0.0), Confidence: new(0.0)}
	_, err := w.db.Memories().Store(ctx, old, nil)
	w.must(err)
	_, err = w.db.Evict(ctx, nil)
	w.must(err)
	id := func() string { return fmt.Sprint("e", rng.IntN(12)) }
	for i := range 12 {
		_, err := w.g.Put(ctx, w.o, graph.Entity{ID: fmt.Sprint("e", i), Type: fmt.Sprint("t", i%3), Name: fmt.Sprint("Name ", i)}, nil, nil)
		w.must(err)
	}
	for range 120 {
		w.must(changeGraph(ctx, w, rng, id))
	}
	_, err = w.g.Put(ctx, w.o, graph.Entity{ID: "e1", Name: "First"}, []graph.Edge{{Target: "e2", Type: "r0"}, {Target: "e3", Type: "r0"}}, nil)
	w.must(err)
	return w
}

// graphKeys are all keys of the graph with their values.
func graphKeys(t *testing.T, db *engine.DB) (keys, values [][]byte) {
	t.Helper()
	keys, values, err := graph.Keys(t.Context(), db.Graph())
	testdb.NoError(t, err)
	return keys, values
}

// write writes keys behind the back of the graph, which forgets what it holds in RAM.
func (w *damageWorld) write(fill func(tx part.Tx) error) {
	w.t.Helper()
	w.must(graph.Damage(w.t.Context(), w.g, fill))
}

// graphWalks are all that reads or changes a graph.
var graphWalks = map[string]func(ctx context.Context, db *engine.DB, g graph.Graph, o memory.Owner) error{
	"query": func(ctx context.Context, _ *engine.DB, g graph.Graph, o memory.Owner) error {
		_, err := g.Query(ctx, o, "e1", 3, graph.State{})
		return err
	},
	"query then": func(ctx context.Context, db *engine.DB, g graph.Graph, o memory.Owner) error {
		_, err := g.Query(ctx, o, "e1", 3, graph.State{AsOf: db.LSN() - 20})
		return err
	},
	"query valid": func(ctx context.Context, db *engine.DB, g graph.Graph, o memory.Owner) error {
		_, err := g.Query(ctx, o, "e1", 3, graph.State{ValidAt: graphTime})
		return err
	},
	"find": func(ctx context.Context, _ *engine.DB, g graph.Graph, o memory.Owner) error {
		_, err := g.Find(ctx, o, "e1", graph.FindOptions{Relation: "inverse:r0", Hops: 4})
		return err
	},
	"match": func(ctx context.Context, _ *engine.DB, g graph.Graph, o memory.Owner) error {
		_, err := g.Match(ctx, o, graph.Pattern{Relation: "r1", Hops: 2, Limit: 5000})
		_, named := g.Match(ctx, o, graph.Pattern{From: graph.NodePattern{Name: "first", Type: "t1"}})
		_, to := g.Match(ctx, o, graph.Pattern{To: graph.NodePattern{Name: "name 3"}, Relation: "r0"})
		return errors.Join(err, named, to)
	},
	"match then": func(ctx context.Context, db *engine.DB, g graph.Graph, o memory.Owner) error {
		_, err := g.Match(ctx, o, graph.Pattern{From: graph.NodePattern{Name: "name 1"}, State: graph.State{AsOf: db.LSN() - 20}})
		return err
	},
	"path": func(ctx context.Context, _ *engine.DB, g graph.Graph, o memory.Owner) error {
		_, err := g.Path(ctx, o, "e1", "e7", graph.State{})
		return err
	},
	"rank": func(ctx context.Context, _ *engine.DB, g graph.Graph, o memory.Owner) error {
		_, err := g.Rank(ctx, o, []string{"e1", "ada"}, graph.RankOptions{})
		return err
	},
	"components": func(ctx context.Context, _ *engine.DB, g graph.Graph, o memory.Owner) error {
		_, err := g.Components(ctx, o, graph.State{})
		return err
	},
	"degrees": func(ctx context.Context, _ *engine.DB, g graph.Graph, o memory.Owner) error {
		_, err := g.Degrees(ctx, o, graph.DegreeOptions{Type: "t1"})
		return err
	},
	"counts": func(ctx context.Context, _ *engine.DB, g graph.Graph, o memory.Owner) error {
		_, err := g.Counts(ctx, o, graph.State{})
		return err
	},
	"stats": func(ctx context.Context, _ *engine.DB, g graph.Graph, o memory.Owner) error {
		_, err := g.Stats(ctx, o)
		return err
	},
	"names": func(ctx context.Context, _ *engine.DB, g graph.Graph, o memory.Owner) error {
		_, err := g.Lookup(ctx, o, "name 4", graph.LookupOptions{})
		_, dup := g.Duplicates(ctx, o, graph.DuplicateOptions{})
		_, list := g.List(ctx, graph.ListQuery{Owner: o, NamePrefix: "na"})
		_, typed := g.List(ctx, graph.ListQuery{Owner: o, Type: "t1"})
		return errors.Join(err, dup, list, typed)
	},
	"get": func(ctx context.Context, _ *engine.DB, g graph.Graph, o memory.Owner) error {
		_, err := g.Get(ctx, o, "e1", 0)
		_, near := g.Neighbours(ctx, o, "e1", graph.NeighbourQuery{})
		_, _, lines := g.Describe(ctx, o, []string{"e1", "e2", "ada"}, 10, graph.State{})
		_, of := g.Memories(ctx, o, "ada")
		_, linked := g.Linked(ctx, o, "m1")
		_, relations := g.Relations(ctx, o, "e1", "r0", "e2", graph.State{})
		return errors.Join(err, near, lines, of, linked, relations)
	},
	"picture": func(ctx context.Context, _ *engine.DB, g graph.Graph, o memory.Owner) error {
		_, err := g.Picture(ctx, o, "e1", io.Discard, graph.PictureOptions{Depth: 2, Entities: 40})
		return err
	},
	"export": func(ctx context.Context, db *engine.DB, g graph.Graph, o memory.Owner) error {
		err := g.Export(ctx, o, graph.JSONL, io.Discard)
		lines := db.View(ctx, func(tx *engine.Tx) error {
			return tx.Lines(memory.Scope{}, nil, func(engine.Line) error { return nil })
		})
		return errors.Join(err, lines)
	},
	"recall": func(ctx context.Context, db *engine.DB, _ graph.Graph, o memory.Owner) error {
		_, err := db.Memories().Recall(ctx, memory.Query{Scope: o.Scope(), Text: "What does Ada at First do", Graph: 1, Profile: memory.ProfileBest})
		return err
	},
	"check": func(ctx context.Context, db *engine.DB, _ graph.Graph, _ memory.Owner) error {
		_, err := db.Check(ctx)
		return err
	},
}

// graphChanges are changes, which are taken back.
var graphChanges = map[string]func(ctx context.Context, tx *engine.Tx, o memory.Owner) error{
	"relate": func(ctx context.Context, tx *engine.Tx, o memory.Owner) error {
		_, err := tx.Graph().Relate(ctx, o, graph.Relation{From: "e1", Type: "r0", To: "e5"}, nil)
		return err
	},
	"merge": func(ctx context.Context, tx *engine.Tx, o memory.Owner) error {
		_, err := tx.Graph().Merge(ctx, o, "e1", "e2")
		return err
	},
	"unmerge": func(ctx context.Context, tx *engine.Tx, o memory.Owner) error {
		_, err := tx.Graph().Unmerge(ctx, o, "e4")
		return err
	},
	"delete": func(ctx context.Context, tx *engine.Tx, o memory.Owner) error {
		_, err := tx.Graph().Delete(ctx, o, "e3")
		return err
	},
	"end": func(ctx context.Context, tx *engine.Tx, o memory.Owner) error {
		return tx.Graph().End(ctx, o, "e1", "r0", "e2", "")
	},
	"forget": func(ctx context.Context, tx *engine.Tx, o memory.Owner) error {
		return tx.Memories().Delete(ctx, o.Scope(), "m1")
	},
	"mention": func(ctx context.Context, tx *engine.Tx, o memory.Owner) error {
		_, err := tx.Memories().Update(ctx, o.Scope(), "m2", memory.Patch{Text: new("Ada met Cyd.")})
		return err
	},
}

// tried runs all walks and changes, and returns the errors that are no answer.
func (w *graphWorld) tried(ctx context.Context) (errs []error) {
	answer := func(err error) bool {
		for _, kind := range []error{memory.ErrNotFound, memory.ErrConflict, memory.ErrInvalid, memory.ErrExists, memory.ErrNotRetained} {
			if errors.Is(err, kind) {
				return !errors.Is(err, memory.ErrCorrupt)
			}
		}
		return err == nil
	}
	names := make([]string, 0, len(graphWalks))
	for name := range graphWalks {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if err := graphWalks[name](ctx, w.db, w.g, w.o); !answer(err) {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	}
	back := errors.New("taken back")
	for name, change := range graphChanges {
		var failed error
		err := w.db.Update(ctx, func(tx *engine.Tx) error {
			if failed = change(ctx, tx, w.o); failed == nil {
				_, failed = tx.Graph().Query(ctx, w.o, "e1", 3, graph.State{})
			}
			return back
		})
		if !errors.Is(err, back) && !errors.Is(err, memory.ErrCorrupt) {
			errs = append(errs, err)
		}
		if !answer(failed) {
			errs = append(errs, fmt.Errorf("%s: %w", name, failed))
		}
	}
	return errs
}

// TestGraphDamage changes keys and values of a graph at random, as the store would give them back
// with a right checksum: whatever reads or changes the graph gives an answer or ErrCorrupt, and
// comes to its end.
//
// MEMDB_GRAPH_DAMAGES=100000 makes so many.
func TestGraphDamage(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 17))
	w := &damageWorld{graphWorld: damagedGraph(t, rng)}
	if errs := w.tried(t.Context()); len(errs) > 0 {
		t.Fatalf("without damage: %v", errs)
	}
	most := race.Times(150)
	if v, err := strconv.Atoi(os.Getenv(damagesVar)); err == nil {
		most = v
	}
	keys, values := graphKeys(t, w.db)
	found := 0
	for range most {
		i := rng.IntN(len(keys))
		key, value := spoiled(rng, keys[i], values[i])
		t.Logf("%x = %x becomes %x = %x", keys[i], values[i], key, value)
		w.write(func(b part.Tx) error {
			return errors.Join(b.Delete(keys[i]), b.Set(key, value))
		})
		ctx, cancel := context.WithTimeout(t.Context(), testdb.Patience)
		for _, err := range w.tried(ctx) {
			if found++; !errors.Is(err, memory.ErrCorrupt) {
				t.Errorf("%v", err)
			}
		}
		cancel()
		if t.Failed() {
			t.FailNow()
		}
		w.write(func(b part.Tx) error {
			return errors.Join(b.Delete(key), b.Set(keys[i], values[i]))
		})
	}
	if found == 0 {
		t.Error("no damage was found")
	}
}

// spoiled changes a key, a value or both.
func spoiled(rng *rand.Rand, key, value []byte) (newKey, newValue []byte) {
	key, value = bytes.Clone(key), bytes.Clone(value)
	const head = 3 // the kind and the generation: another part's keys are not ours to try
	number := func(b []byte) {
		if len(b) >= 4 {
			at := rng.IntN(len(b) - 3)
			copy(b[at:], [][]byte{{0xff, 0xff, 0xff, 0xff}, {0, 0, 0, 0}, {0, 0, 0, byte(rng.IntN(40))}, {0, 1, 0, 0}}[rng.IntN(4)])
		}
	}
	switch rng.IntN(6) {
	case 0:
		number(key[head:])
	case 1:
		key[head+rng.IntN(len(key)-head)] = byte(rng.UintN(256))
	case 2:
		key = key[:max(head+5, len(key)-1-rng.IntN(6))]
	case 3:
		number(value)
	case 4:
		if len(value) > 0 {
			value[rng.IntN(len(value))] = byte(rng.UintN(256))
		}
	default:
		value = value[:rng.IntN(len(value)+1)]
	}
	return key, value
}

// TestGraphNumberBeyondTheLast: a relation to a number that was never given out is an error that
// names its key, by keys and in memory, and in every kind of walk along it.
func TestGraphNumberBeyondTheLast(t *testing.T) {
	w := &damageWorld{graphWorld: newGraphWorld(t)}
	ctx := t.Context()
	w.put("e1", "t", "r>e2")
	w.put("e2", "t")
	keys, _ := graphKeys(t, w.db)
	var out []byte
	for _, k := range keys {
		if k[0] == 'a' && k[7] == 'f' {
			out = k
		}
	}
	for name, bad := range map[string][]byte{
		"the target": slices.Concat(out[:len(out)-4], []byte{0xff, 0xff, 0xff, 0xff}),
		"the type":   slices.Concat(out[:len(out)-8], []byte{0xff, 0xff, 0xff, 0xff}, out[len(out)-4:]),
		"nobody":     slices.Concat(out[:len(out)-4], []byte{0, 0, 0, 0}),
	} {
		w.write(func(b part.Tx) error { return b.Set(bad, []byte{1, 1, 0}) })
		for _, walk := range []string{"query", "rank", "components", "counts", "export"} {
			err := graphWalks[walk](ctx, w.db, w.g, w.o)
			inTx := w.db.Update(ctx, func(tx *engine.Tx) error { return graphWalks[walk](ctx, w.db, tx.Graph(), w.o) })
			if walk == "export" {
				inTx = err // it reads a state of its own
			}
			for _, err := range []error{err, inTx} {
				if !errors.Is(err, memory.ErrCorrupt) || !strings.Contains(fmt.Sprint(err), hex.EncodeToString(bad)) {
					t.Errorf("%s, %s: %v", name, walk, err)
				}
			}
		}
		w.write(func(b part.Tx) error { return b.Delete(bad) })
	}
	if errs := w.tried(ctx); len(errs) > 0 {
		t.Errorf("mended: %v", errs)
	}
}
