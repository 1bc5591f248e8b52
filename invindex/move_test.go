package invindex

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// clone is the store as a snapshot of it would be.
func (m *memStore) clone() *memStore { return &memStore{pages: maps.Clone(m.pages)} }

// pagesOf are the pages of a chunk, by key.
func (m *memStore) pagesOf(x *Index, number uint16) map[string][]byte {
	pages := maps.Clone(m.pages)
	maps.DeleteFunc(pages, func(key string, _ []byte) bool {
		chunk, ok := x.ChunkOf([]byte(key))
		return !ok || chunk != number
	})
	return pages
}

// moved is the oracle after documents became those of a chunk in their order, and
// the chunks in gone were dropped.
func (o *oracle) moved(docs []uint32, number uint16, gone []uint16) *oracle {
	n := &oracle{}
	for i, doc := range docs {
		n.add(uint32(number)<<16|uint32(i), o.docs[doc])
	}
	for _, doc := range o.ids {
		if !slices.Contains(gone, uint16(doc>>16)) {
			n.add(doc, o.docs[doc])
		}
	}
	slices.Sort(n.ids)
	return n
}

// Sparse chunks are moved again and again, their numbers used again, and every
// snapshot sees what it saw.
func TestMoveAgainstOracle(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	c := newCorpus(seed, 300)
	cfg := Config{Prefix: []byte("m"), ScopeFields: []uint16{1}, CacheBytes: 1 << 20}
	x, o, store := New(cfg), &oracle{}, newMemStore()
	for range 4 {
		c.fill(t, x, o, 500+c.rng.IntN(2500))
		c.leap(t, x, o)
		seal(t, x, store)
	}
	type view struct {
		s Snapshot
		o *oracle
	}
	var views []view
	pin := func() {
		s := x.Snapshot()
		s.Reader = store.clone()
		views = append(views, view{s, o})
	}
	pin()
	free := []uint16{}
	for round := range 5 {
		docs, gone := someSealed(c, x, o)
		number := gone[0]
		if round%2 == 1 && len(free) > 0 {
			number = free[0]
		}
		s := x.Snapshot()
		s.Reader = store
		w := newMemStore()
		if err := x.Move(t.Context(), s, w, number, docs); err != nil {
			t.Fatal(err)
		}
		added := asAdded(t, cfg, o, docs, number)
		if !maps.EqualFunc(w.pagesOf(x, number), added, bytes.Equal) || len(w.pages) != len(added) {
			t.Fatalf("round %d: the pages are not those of documents that were added", round)
		}
		for _, n := range gone { // as in a commit: the old pages go, the new ones come
			for key := range store.pagesOf(x, n) {
				delete(store.pages, key)
			}
		}
		maps.Copy(store.pages, w.pages)
		if err := x.Moved(store, number, gone...); err != nil {
			t.Fatal(err)
		}
		o = o.moved(docs, number, append(gone, number))
		free = slices.DeleteFunc(append(free, gone...), func(n uint16) bool { return n == number })
		pin()
		c.fill(t, x, o, 200)
		pin()
		for _, v := range views {
			for range 4 {
				compare(t, c, x, v.o, v.s)
			}
		}
	}
	lookups(t, c, x, o, store)
	expansions(t, c, x, o, store)
	for range 30 {
		ranges(t, c, x, o, store)
	}
	if err := x.Verify(t.Context(), views[len(views)-1].s, func(err error) { t.Error(err) }); err != nil {
		t.Error(err)
	}
}

// someSealed draws sealed chunks, and of their documents some, in another order.
func someSealed(c *corpus, x *Index, o *oracle) (docs []uint32, chunks []uint16) {
	for _, ch := range x.list() {
		if _, ok := ch.(*sealedChunk); ok {
			chunks = append(chunks, ch.id())
		}
	}
	c.rng.Shuffle(len(chunks), func(i, j int) { chunks[i], chunks[j] = chunks[j], chunks[i] })
	chunks = chunks[:1+c.rng.IntN(min(4, len(chunks)))]
	for _, doc := range o.ids {
		if slices.Contains(chunks, uint16(doc>>16)) && c.rng.IntN(3) > 0 {
			docs = append(docs, doc)
		}
	}
	c.rng.Shuffle(len(docs), func(i, j int) { docs[i], docs[j] = docs[j], docs[i] })
	return docs, chunks
}

// asAdded are the pages of documents that are added and sealed.
func asAdded(t *testing.T, cfg Config, o *oracle, docs []uint32, number uint16) map[string][]byte {
	t.Helper()
	y, store := New(cfg), newMemStore()
	for i, doc := range docs {
		if err := y.Add(uint32(number)<<16|uint32(i), o.docs[doc]); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(y.Add((uint32(number)+1)<<16, &Doc{}), y.Seal(store, number)); err != nil {
		t.Fatal(err)
	}
	return store.pages
}

// Slots between documents that move stay empty.
func TestMoveWithGaps(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	c := newCorpus(seed, 100)
	cfg := Config{Prefix: []byte("m"), ScopeFields: []uint16{1}}
	x, o, store := New(cfg), &oracle{}, newMemStore()
	for range 3 {
		c.fill(t, x, o, 300)
		c.leap(t, x, o)
		seal(t, x, store)
	}
	const number = 40_000
	docs := slices.Repeat([]uint32{NoDoc}, 5*len(o.ids))
	y, want := New(cfg), newMemStore()
	slot := 0
	for _, doc := range o.ids {
		if x.Pages(uint16(doc>>16)) == 0 {
			continue // it is in memory
		}
		slot += 1 + c.rng.IntN(4)
		docs[slot] = doc
		if err := y.Add(number<<16|uint32(slot), o.docs[doc]); err != nil {
			t.Fatal(err)
		}
	}
	y.End()
	s, w := x.Snapshot(), newMemStore()
	s.Reader = store
	if err := errors.Join(y.Seal(want, number), x.Move(t.Context(), s, w, number, docs[:slot+1])); err != nil {
		t.Fatal(err)
	}
	if slot == 0 || !maps.EqualFunc(w.pages, want.pages, bytes.Equal) {
		t.Errorf("the pages of %d slots are not those of documents that were added", slot)
	}
	if err := x.Move(t.Context(), s, w, number, []uint32{NoDoc}); !errors.Is(err, ErrInvalid) {
		t.Errorf("to move nothing gives %v", err)
	}
}

func TestMoveRefuses(t *testing.T) {
	x, store := sealedSample(t)
	if err := x.Sealed(store, 0); err != nil {
		t.Fatal(err)
	}
	s := x.Snapshot()
	s.Reader = store
	move := func(docs ...uint32) func() error {
		return func() error { return x.Move(t.Context(), s, newMemStore(), 7, docs) }
	}
	moved := func(number uint16, drop ...uint16) func() error {
		return func() error { return x.Moved(store, number, drop...) }
	}
	before := x.list()
	for _, tc := range []struct {
		name string
		call func() error
		want error
	}{
		{"nothing", move(), ErrInvalid},
		{"too much", move(make([]uint32, chunkDocs+1)...), ErrInvalid},
		{"a gap", move(0, 40_000), ErrInvalid},
		{"twice", move(1, 2, 1), ErrInvalid},
		{"no such chunk", move(0, 5<<16), ErrInvalid},
		{"a chunk in memory", move(0, 1<<16), ErrInvalid},
		{"a writer that fails", func() error {
			return x.Move(t.Context(), s, writerFunc(func(_, _ []byte) error { return errNoPage }), 7, []uint32{1})
		}, errNoPage},
		{"no pages", func() error {
			s := x.Snapshot()
			s.Reader = newMemStore()
			return x.Move(t.Context(), s, newMemStore(), 7, []uint32{1})
		}, errNoPage},
		{"cancelled", func() error {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			return x.Move(ctx, s, newMemStore(), 7, []uint32{1})
		}, context.Canceled},
		{"a number that there is", moved(0), ErrInvalid},
		{"the number of a chunk in memory", moved(1, 1), ErrInvalid},
		{"a later number without pages", moved(2), errNoPage},
		{"a number without pages", func() error { return x.Moved(newMemStore(), 0, 0) }, errNoPage},
	} {
		if err := tc.call(); !errors.Is(err, tc.want) {
			t.Errorf("%s: error %v, want %v", tc.name, err, tc.want)
		}
	}
	if !slices.Equal(x.list(), before) {
		t.Error("a refused move changed the chunks")
	}
}

// Damage in any page that is moved is an error that names the page: nothing damaged is
// written under a new checksum.
func TestMoveDamage(t *testing.T) {
	x, store := sealedSample(t)
	if err := x.Sealed(store, 0); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 0))
	for key := range store.pages {
		if key[4] == sectionGrams {
			continue // a move makes the grams anew from the terms
		}
		for range 20 {
			damaged := store.clone()
			damaged.pages[key] = bytes.Clone(store.pages[key])
			damaged.pages[key][rng.IntN(len(store.pages[key]))] ^= 1 << rng.IntN(8)
			s := x.Snapshot()
			s.Reader = damaged
			if err := x.Move(t.Context(), s, newMemStore(), 7, []uint32{5, 3, 400}); !errors.Is(err, ErrCorrupt) {
				t.Fatalf("page %q: error %v", key, err)
			}
		}
	}
}

// Chunks of the version before are moved too, and stay without numbers.
func TestMoveOldVersion(t *testing.T) {
	golden := readGolden(t, "testdata/sealed-v1.txt")
	x, err := loaded(golden)
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Add(2<<16, &Doc{}); err != nil {
		t.Fatal(err)
	}
	s := x.Snapshot()
	s.Reader = golden
	if err := errors.Join(x.Move(t.Context(), s, golden, 1, []uint32{90, 0}), x.Moved(golden, 1, 0)); err != nil {
		t.Fatal(err)
	}
	s = x.Snapshot()
	s.Reader = golden
	set, err := x.FindTerm(s, "short")
	if err != nil || fmt.Sprint(set.ToArray()) != "[65536 65537]" {
		t.Errorf("%v, %v", set, err)
	}
	if _, err := x.FindRange(t.Context(), s, 5, UpTo(1), nil); !errors.Is(err, ErrNoNumbers) {
		t.Errorf("a range gives %v", err)
	}
}

func BenchmarkMove(b *testing.B) {
	x, s, _ := benchIndex(b, true)
	var docs []uint32
	for doc := range uint32(2 << 16) { // every other document of two chunks
		if c := s.list(x)[doc>>16].(*sealedChunk); doc%2 == 0 {
			l, err := c.lengths(s.Reader)
			if err != nil {
				b.Fatal(err)
			}
			if l.stored(doc%chunkDocs) > 0 {
				docs = append(docs, doc)
			}
		}
	}
	for b.Loop() {
		if err := x.Move(b.Context(), s, newMemStore(), 7, docs); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(docs)), "docs/op")
}
