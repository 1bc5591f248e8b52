package invindex

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/near"
)

// sealedSample returns an index whose first chunk, of some hundred documents and
// lists of every form, is sealed in a store.
func sealedSample(t testing.TB) (*Index, *memStore) {
	t.Helper()
	x, store := New(Config{Prefix: []byte("i1"), ScopeFields: []uint16{2, 1, 2}}), newMemStore()
	for i := range uint32(900) {
		d := Doc{Length: 10 + i%7, Values: []Value{{1, "all"}, {2, fmt.Sprint(i % 50)}}}
		add := func(every uint32, text string, freq uint32) {
			if i%every == 0 {
				d.Terms = append(d.Terms, Term{text, freq})
			}
		}
		add(300, fmt.Sprintf("a%d", i), 1) // short, and many
		add(1, "dense", 1+i%2)             // windowed, a bitmap
		add(4, "flat", 1+i%5)              // flat
		add(90, "short", 1+i*70)           // short
		add(45, "wide", 1+i%3*30_000)      // flat, with frequencies of 16 bits
		doc := i + i/500*3*windowDocs      // two windows
		if i%500 > 300 && i < 500 {        // the first with a sparse list
			d.Terms = d.Terms[:0]
		}
		if i == 899 {
			doc = 1 << 16 // the next chunk
		}
		slices.SortFunc(d.Terms, func(a, b Term) int { return strings.Compare(a.Text, b.Text) })
		d.Numbered = true
		d.Numbers = []Number{{5, FloatOrder(float64(i % 9))}, {4, IntOrder(1_767_225_600_123 + int64(i)*977)}}
		if i%100 == 3 {
			d.Numbers = append(d.Numbers, Number{9, uint64(i) << 56}, Number{9, 7})
		}
		if err := x.Add(doc, &d); err != nil {
			t.Fatal(err)
		}
	}
	if err := x.Seal(store, 0); err != nil {
		t.Fatal(err)
	}
	return x, store
}

// answers returns everything that the index says of some queries, or the error.
func answers(t testing.TB, x *Index, r Reader) (string, error) {
	t.Helper()
	var b strings.Builder
	s := x.Snapshot()
	s.Reader = r
	q := []QueryTerm{{"dense", 1}, {"flat", 2}, {"short", 1}, {"wide", 1}, {"a300", 1}, {"absent", 1}}
	st, err := x.Stats(t.Context(), s, texts(q), Docs{})
	if err != nil {
		return "", err
	}
	hits, err := x.Search(t.Context(), s, q, st, Docs{}, 7)
	if err != nil {
		return "", err
	}
	fmt.Fprintln(&b, st, hits)
	terms, err := x.Expand(t.Context(), s, "a", nil, Docs{}, 9)
	if err != nil {
		return "", err
	}
	fmt.Fprintln(&b, terms)
	misspelt, _ := near.New("densse")
	alike, err := x.Near(t.Context(), s, []near.Word{misspelt}, Docs{}, 9)
	if err != nil {
		return "", err
	}
	fmt.Fprintln(&b, alike)
	if x.numbered() {
		for _, field := range []uint16{3, 4, 5, 9} {
			for _, r := range []Range{{0, 1<<64 - 1}, Above(FloatOrder(3)), UpTo(FloatOrder(3)), {IntOrder(1_767_225_700_000), IntOrder(1_767_225_800_000)}, {7, 7}} {
				set, err := x.FindRange(t.Context(), s, field, r, nil)
				if err != nil {
					return "", err
				}
				fmt.Fprintln(&b, field, r, set.GetCardinality(), set.Checksum())
			}
		}
	}
	for _, v := range []Value{{1, "all"}, {2, "7"}, {3, "7"}} {
		set, err := x.Find(s, v)
		if err != nil {
			return "", err
		}
		fmt.Fprintln(&b, v, set.GetCardinality(), set.Checksum())
		in := Docs{Set: set, Visible: func(doc uint32) bool { return doc%2 == 0 }}
		if st, err = x.Stats(t.Context(), s, texts(q), in); err != nil {
			return "", err
		}
		if hits, err = x.Search(t.Context(), s, q, st, in, 3); err != nil {
			return "", err
		}
		fmt.Fprintln(&b, st, hits)
	}
	return b.String(), nil
}

// numbered says whether FindRange answers.
func (x *Index) numbered() bool {
	for _, c := range x.list() {
		if s, ok := c.(*sealedChunk); ok && !s.numbered {
			return false
		}
	}
	return true
}

// loaded opens the chunk of a store as a database does.
func loaded(store *memStore) (*Index, error) {
	x := New(Config{Prefix: []byte("i1")})
	if err := x.Load(store, 0); err != nil {
		return nil, err
	}
	return x, nil
}

func TestSealedAnswersTheSame(t *testing.T) {
	x, store := sealedSample(t)
	hot, err := answers(t, x, nil)
	if err != nil {
		t.Fatal(err)
	}
	terms := x.Terms()
	if err := x.Sealed(store, 0); err != nil {
		t.Fatal(err)
	}
	if sealed, err := answers(t, x, store); err != nil || sealed != hot {
		t.Errorf("sealed: %v\n%s\nwant\n%s", err, sealed, hot)
	}
	if x.Terms() != terms {
		t.Errorf("%d terms, %d before sealing", x.Terms(), terms)
	}
	if _, err := answers(t, x, nil); err != nil {
		t.Errorf("with every page in memory no reader is needed: %v", err)
	}
	y, err := loaded(store)
	if err != nil {
		t.Fatal(err)
	}
	if err := y.Add(1<<16-1, &Doc{}); !errors.Is(err, ErrOrder) {
		t.Errorf("adding to a loaded chunk: error %v", err)
	}
	if err := y.Load(store, 0); !errors.Is(err, ErrOrder) {
		t.Errorf("loading a chunk again: error %v", err)
	}
	// The document in the second chunk is not in the store.
	last := Doc{
		Length: 10 + 899%7, Values: []Value{{1, "all"}, {2, fmt.Sprint(899 % 50)}}, Terms: []Term{{"dense", 2}},
		Numbers: []Number{{5, FloatOrder(899 % 9)}, {4, IntOrder(1_767_225_600_123 + 899*977)}}, Numbered: true,
	}
	if err := y.Add(1<<16, &last); err != nil {
		t.Fatal(err)
	}
	if again, err := answers(t, y, store); err != nil || again != hot {
		t.Errorf("loaded: %v\n%s\nwant\n%s", err, again, hot)
	}
}

// A chunk that lacks the value of a scope is passed over without a read, but for
// the few that a Bloom filter lets through.
func TestScopeFilter(t *testing.T) {
	x, store := New(Config{ScopeFields: []uint16{7, 3}}), newMemStore()
	for i := range uint32(2000) {
		d := Doc{Values: []Value{{3, fmt.Sprint("s", i)}, {4, fmt.Sprint("o", i)}}}
		if err := x.Add(i, &d); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(x.Add(1<<16, &Doc{}), x.Seal(store, 0), x.Sealed(store, 0)); err != nil {
		t.Fatal(err)
	}
	s := x.Snapshot() // without a reader
	for _, v := range []Value{{7, "s1"}, {7, ""}} {
		if set, err := x.Find(s, v); err != nil || !set.IsEmpty() {
			t.Errorf("a field without values: %v, %v", set, err)
		}
	}
	passed := 0
	for i := range 10_000 {
		if _, err := x.Find(s, Value{3, fmt.Sprint("absent", i)}); err != nil {
			passed++
		}
	}
	if passed > 300 {
		t.Errorf("%d of 10,000 absent values were looked for", passed)
	}
	if _, err := x.Find(s, Value{4, "absent"}); err == nil {
		t.Error("a value of another field was not looked for")
	}
	s.Reader = store
	for i := range 2000 {
		if set, err := x.Find(s, Value{3, fmt.Sprint("s", i)}); err != nil || !set.Contains(uint32(i)) || set.GetCardinality() != 1 {
			t.Fatalf("value %d: %v, %v", i, set, err)
		}
	}
}

func TestSealRefuses(t *testing.T) {
	x, store := sealedSample(t)
	for name, err := range map[string]error{
		"a growing chunk":     x.Seal(store, 1),
		"a missing chunk":     x.Seal(store, 2),
		"sealed without Seal": x.Sealed(store, 1),
	} {
		if !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	if err := x.Sealed(newMemStore(), 0); !errors.Is(err, errNoPage) {
		t.Errorf("sealed elsewhere: error %v", err)
	}
	if err := x.Sealed(store, 0); err != nil {
		t.Fatal(err)
	}
	if err := x.Seal(store, 0); !errors.Is(err, ErrInvalid) {
		t.Errorf("sealing again: error %v", err)
	}
	if _, err := answers(t, x, nil); err == nil || !strings.Contains(err.Error(), "no reader") {
		t.Errorf("without a reader: error %v", err)
	}
	failing := writerFunc(func(key, value []byte) error { return errNoPage })
	y, _ := sealedSample(t)
	if err := y.Seal(failing, 0); !errors.Is(err, errNoPage) {
		t.Errorf("a writer that fails: error %v", err)
	}
}

type writerFunc func(key, value []byte) error

func (f writerFunc) Set(key, value []byte) error { return f(key, value) }

var update = flag.Bool("update", false, "write the golden files anew")

// The golden file of a version is what a program of that version wrote: it must be
// read for as long as the version is, and that of the newest written the same.
func TestSealedGolden(t *testing.T) {
	_, store := sealedSample(t)
	newest := filepath.Join("testdata", fmt.Sprintf("sealed-v%d.txt", sealVersion))
	if *update {
		var b strings.Builder
		for _, key := range slices.Sorted(maps.Keys(store.pages)) {
			fmt.Fprintf(&b, "%x %x\n", key, store.pages[key])
		}
		if err := os.WriteFile(newest, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	golden := readGolden(t, newest)
	for key, page := range store.pages {
		if !bytes.Equal(golden.pages[key], page) {
			t.Errorf("page %q is written in another way", key)
		}
	}
	if len(golden.pages) != len(store.pages) {
		t.Errorf("%d pages, %d in the golden file", len(store.pages), len(golden.pages))
	}
	for version := range sealVersion {
		golden := readGolden(t, filepath.Join("testdata", fmt.Sprintf("sealed-v%d.txt", version+1)))
		x, err := loaded(golden)
		if err != nil {
			t.Fatal(err)
		}
		y, err := loaded(store)
		if err != nil {
			t.Fatal(err)
		}
		s := x.Snapshot()
		s.Reader = golden
		if _, err := x.FindRange(t.Context(), s, 5, UpTo(1), nil); errors.Is(err, ErrNoNumbers) != (version+1 < numbersVersion) {
			t.Errorf("version %d: a range gives %v", version+1, err)
		}
		y.list()[0].(*sealedChunk).numbered = x.numbered() // asks the same of both
		want, err := answers(t, y, store)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := answers(t, x, golden); err != nil || got != want {
			t.Errorf("the golden file of version %d gives %v\n%s\nwant\n%s", version+1, err, got, want)
		}
	}
}

// readGolden reads the pages of a golden file.
func readGolden(t *testing.T, file string) *memStore {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	golden := newMemStore()
	for line := range strings.Lines(string(b)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		golden.pages[unhex(t, key)] = []byte(unhex(t, value))
	}
	return golden
}

func unhex(t *testing.T, s string) string {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Pages whose checksum is right but whose content is anything: an error or an
// answer, and no panic.
func FuzzSealed(f *testing.F) {
	x, store := sealedSample(f)
	for key, page := range store.pages {
		f.Add([]byte(key)[len(x.prefix)+2], page[:len(page)-checksumBytes])
	}
	f.Fuzz(func(t *testing.T, section byte, content []byte) {
		damaged := newMemStore()
		maps.Copy(damaged.pages, store.pages)
		id := pageID{section: section}
		damaged.pages[string(id.key(x.prefix))] = sealPage(id, content)
		y, err := loaded(damaged)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrVersion) {
				t.Fatal(err)
			}
			return
		}
		bad := func(err error) bool { return err != nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, errNoPage) }
		if _, err := answers(t, y, damaged); bad(err) {
			t.Fatal(err)
		}
		s := y.Snapshot() // and what reads every page
		s.Reader = damaged
		if err := y.Move(t.Context(), s, newMemStore(), 1, []uint32{5, 700, 3}); bad(err) && !errors.Is(err, ErrInvalid) {
			t.Fatal(err)
		}
	})
}

type batchWriter struct{ *pebble.Batch }

func (b batchWriter) Set(key, value []byte) error { return b.Batch.Set(key, value, nil) }

// On Pebble: sealed in a batch, found again by Span and ChunkOf, and read by a
// snapshot after the chunk was deleted.
func TestSealedOnPebble(t *testing.T) {
	db, err := pebble.Open("db", &pebble.Options{FS: vfs.NewMem(), Logger: quiet{t}})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	x, _ := sealedSample(t)
	want, err := answers(t, x, nil)
	if err != nil {
		t.Fatal(err)
	}
	batch := db.NewBatch()
	if err := x.Seal(batchWriter{batch}, 0); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(batch.Commit(pebble.Sync), x.Sealed(db, 0)); err != nil {
		t.Fatal(err)
	}
	start, end := x.Span(0)
	it, err := db.NewIter(&pebble.IterOptions{LowerBound: start, UpperBound: end})
	if err != nil {
		t.Fatal(err)
	}
	pages := 0
	for it.First(); it.Valid(); it.Next() {
		if chunk, ok := x.ChunkOf(it.Key()); !ok || chunk != 0 {
			t.Errorf("key %q is of chunk %d, %v", it.Key(), chunk, ok)
		}
		pages++
	}
	if err := it.Close(); err != nil || pages < 5 {
		t.Errorf("%d pages, %v", pages, err)
	}
	snapshot := db.NewSnapshot()
	defer snapshot.Close()
	if err := db.DeleteRange(start, end, pebble.Sync); err != nil {
		t.Fatal(err)
	}
	if _, err := answers(t, x, db); !errors.Is(err, pebble.ErrNotFound) {
		t.Errorf("the chunk is deleted: error %v", err)
	}
	if got, err := answers(t, x, snapshot); err != nil || got != want {
		t.Errorf("by a snapshot: %v\n%s\nwant\n%s", err, got, want)
	}
	if _, ok := x.ChunkOf([]byte("other")); ok {
		t.Error("a foreign key is of a chunk")
	}
}

type quiet struct{ t *testing.T }

func (q quiet) Infof(string, ...any)              {}
func (q quiet) Errorf(format string, args ...any) { q.t.Errorf(format, args...) }
func (q quiet) Fatalf(format string, args ...any) { q.t.Fatalf(format, args...) }
