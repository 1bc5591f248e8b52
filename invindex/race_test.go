package invindex

import (
	"math/rand/v2"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
)

// Readers beside the writer see what was there when they pinned a snapshot, the
// whole of it, and nothing else, however often they ask.
func TestReadersBesideWriter(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	docs := 12_000
	if testing.Short() {
		docs = 3_000
	}
	x, store := New(Config{CacheBytes: 64 << 10}), newMemStore()
	var mu sync.Mutex // of the oracle, which is no concurrent structure
	o := &oracle{}
	var done atomic.Bool
	var wg sync.WaitGroup
	for i := range 3 {
		wg.Go(func() {
			c := newCorpus(seed+uint64(i)+1, 300)
			for !done.Load() {
				s := x.Snapshot()
				s.Reader = store
				if s.Docs == 0 {
					continue
				}
				watch(t, c, x, s, &mu, o)
			}
		})
	}
	c := newCorpus(seed, 300)
	next := uint32(1<<16 - 6_000) // into a second chunk, at full length
	for range docs {
		d := c.doc()
		mu.Lock()
		o.add(next, d)
		mu.Unlock()
		if err := x.Add(next, d); err != nil {
			t.Error(err)
			break
		}
		if next>>16 == 1 { // the first chunk is whole: seal it, once
			seal(t, x, store)
		}
		next += 1 + uint32(c.rng.IntN(2))
	}
	done.Store(true)
	wg.Wait()
}

// watch asks the same twice, with documents added meanwhile, and now and then
// compares the answer to the oracle's.
func watch(t *testing.T, c *corpus, x *Index, s Snapshot, mu *sync.Mutex, o *oracle) {
	q := c.query()
	in := Docs{}
	switch c.rng.IntN(3) {
	case 0:
		in.Set = roaring.New()
		in.Set.AddRange(0, uint64(s.Docs))
	case 1:
		in.Visible = func(doc uint32) bool { return doc%5 != 0 }
	}
	ask := func() (Stats, []Hit, uint64) {
		st, err := x.Stats(t.Context(), s, texts(q), in)
		if err != nil {
			t.Error(err)
		}
		hits, err := x.Search(t.Context(), s, q, st, in, 10)
		if err != nil {
			t.Error(err)
		}
		set, err := x.Find(s, Value{Field: 1, Key: "3"})
		if err != nil {
			t.Error(err)
		}
		return st, hits, set.GetCardinality()
	}
	st1, hits1, n1 := ask()
	st2, hits2, n2 := ask()
	if !reflect.DeepEqual(st1, st2) || !reflect.DeepEqual(hits1, hits2) || n1 != n2 {
		t.Errorf("the answer at %d changed from %+v %v %d to %+v %v %d", s.Docs, st1, hits1, n1, st2, hits2, n2)
	}
	if c.rng.IntN(50) > 0 {
		return
	}
	mu.Lock()
	want := o.stats(s, texts(q), in)
	mu.Unlock()
	if !reflect.DeepEqual(st1, want) {
		t.Errorf("statistics at %d are %+v, want %+v", s.Docs, st1, want)
	}
}
