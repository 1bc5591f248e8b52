package hnsw

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"

	"github.com/seed-7aedc3ff/memdb/internal/race"
	"github.com/zeebo/xxh3"
)

var update = flag.Bool("update", false, "write the golden files anew")

func snapshotOf(t testing.TB, x *Index) []byte {
	t.Helper()
	s := x.Snapshot()
	defer s.Close()
	var b bytes.Buffer
	n, err := s.WriteTo(&b)
	if err != nil {
		t.Fatal(err)
	}
	if n != int64(b.Len()) {
		t.Fatalf("WriteTo says %d bytes; it wrote %d", n, b.Len())
	}
	return b.Bytes()
}

func mustRead(t testing.TB, data []byte, cfg Config) *Index {
	t.Helper()
	x, err := ReadSnapshot(bytes.NewReader(data), cfg)
	if err != nil {
		t.Fatal(err)
	}
	x.cfg.Crossover = 0
	return x
}

// sampleIndex returns an index with slots in every state and layer, of rows in two groups
// that lie so far apart.
func sampleIndex(t testing.TB, rng *rand.Rand, cfg Config, n int, apart float32) *Index {
	t.Helper()
	vecs := clustered(rng, n, cfg.Dim, 5)
	for i, v := range vecs {
		v[0] += apart * float32(i%2)
	}
	x := linkedIndex(t, cfg, vecs[:n-n/8])
	for _, v := range vecs[n-n/8:] {
		mustAdd(t, x, v)
	}
	for i := range n / 20 {
		x.Remove(rng.Uint32N(x.Len()))
		x.Remove(uint32(n - 2*i - 1)) // one that is pending
	}
	return x
}

func TestSnapshotRoundTrip(t *testing.T) {
	race.Sequential(t)
	rng := random(t)
	for _, cfg := range configs() {
		cfg.Dim, cfg.M, cfg.Seed = 12, 5, 3
		for _, n := range []int{0, 1, 8, 600} {
			x := sampleIndex(t, rng, cfg, n, 0)
			data := snapshotOf(t, x)
			y := mustRead(t, data, cfg)
			if again := snapshotOf(t, y); !bytes.Equal(again, data) {
				t.Fatalf("%d rows: a snapshot of what was read differs", n)
			}
			checkGraph(t, y)
			for range 20 {
				query := randomVector(rng, cfg.Dim)
				for _, exact := range []bool{false, true} {
					s := Search{K: 9, Slots: x.Len(), Exact: exact}
					if got, want := mustSearch(t, y, query, s), mustSearch(t, x, query, s); !slices.Equal(got, want) {
						t.Fatalf("%d rows: %v; before %v", n, got, want)
					}
				}
			}
			for range n {
				mustAdd(t, y, randomVector(rng, cfg.Dim))
			}
			mustLink(t, y)
			checkGraph(t, y)
		}
	}
}

func TestSnapshotDamaged(t *testing.T) {
	race.Sequential(t)
	rng := random(t)
	cfg := Config{Dim: 3, M: 3}
	data := snapshotOf(t, sampleIndex(t, rng, cfg, 60, 0))
	for i := range data {
		bad := slices.Clone(data)
		bad[i] ^= 1 << rng.IntN(8)
		if _, err := ReadSnapshot(bytes.NewReader(bad), cfg); !errors.Is(err, ErrSnapshot) {
			t.Fatalf("a flipped bit in byte %d of %d: %v", i, len(data), err)
		}
		if _, err := ReadSnapshot(bytes.NewReader(data[:i]), cfg); !errors.Is(err, ErrSnapshot) {
			t.Fatalf("cut after %d of %d bytes: %v", i, len(data), err)
		}
	}
	broken := errors.New("broken")
	if _, err := ReadSnapshot(io.MultiReader(bytes.NewReader(data[:100]), iotest.ErrReader(broken)), cfg); !errors.Is(err, broken) {
		t.Errorf("a reader that fails: %v", err)
	}
	s := mustRead(t, data, cfg).Snapshot()
	defer s.Close()
	if _, err := s.WriteTo(failingWriter{broken}); !errors.Is(err, broken) {
		t.Errorf("a writer that fails: %v", err)
	}
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }

func TestSnapshotOfAnotherIndex(t *testing.T) {
	rng := random(t)
	cfg := Config{Dim: 3}
	data := snapshotOf(t, sampleIndex(t, rng, cfg, 60, 0))
	truth := func(uint32, []float32) ([]float32, error) { return nil, nil }
	for want, other := range map[string]Config{
		"dimension is 3; the index has 4": {Dim: 4},
		"metric is cosine":                {Dim: 3, Metric: L2},
		"kind of rows is 2":               {Dim: 3, Quantized: true},
		"kind of rows is 2; ":             {Dim: 3, Truth: truth},
		"M is 16; the index has 8":        {Dim: 3, M: 8},
		"seed is 0; the index has 1":      {Dim: 3, Seed: 1},
	} {
		if _, err := ReadSnapshot(bytes.NewReader(data), other); !errors.Is(err, ErrSnapshot) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v; want that its %s", err, want)
		}
	}
	if _, err := ReadSnapshot(bytes.NewReader(data), Config{}); !errors.Is(err, ErrConfig) {
		t.Errorf("no configuration: %v", err)
	}
}

// TestSnapshotBesideEverybody takes snapshots while rows are added, removed and
// linked: each must hold the rows that were there when it was taken.
func TestSnapshotBesideEverybody(t *testing.T) {
	rng := random(t)
	cfg := Config{Dim: 8, EfConstruction: 30}
	x := newGraph(t, cfg)
	rows := map[uint32][]float32{}
	step := func() {
		vec := randomVector(rng, cfg.Dim)
		rows[mustAdd(t, x, vec)] = vec
		if slot := rng.Uint32N(x.Len()); rng.IntN(3) == 0 {
			x.Remove(slot)
			delete(rows, slot)
		}
	}
	for range 400 {
		step()
	}
	var stop atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		for !stop.Load() {
			if err := x.Link(t.Context(), x.Len()); err != nil {
				t.Error(err)
			}
		}
	})
	for range 10 {
		s := x.Snapshot()
		want := map[uint32][]float32{}
		for slot := range rows {
			want[slot] = mustRow(t, x, slot)
		}
		var b bytes.Buffer
		wg.Go(func() {
			defer s.Close()
			if _, err := s.WriteTo(&b); err != nil {
				t.Error(err)
			}
			y, err := ReadSnapshot(&b, cfg)
			if err != nil {
				t.Error(err)
				return
			}
			for slot := range y.Len() {
				row, err := y.Row(slot, nil)
				if errors.Is(err, ErrSlot) && want[slot] == nil {
					continue
				}
				if err != nil || !slices.Equal(row, want[slot]) {
					t.Errorf("slot %d holds %v, %v; want %v", slot, row, err, want[slot])
				}
			}
		})
		for range 100 {
			step()
		}
	}
	stop.Store(true)
	wg.Wait()
}

// TestSnapshotGolden reads what this version and the one before wrote, and refuses what the
// first did: its links go by lengths that the codes do not have.
func TestSnapshotGolden(t *testing.T) {
	small, sketched := Config{Dim: 4, M: 4, Seed: 1}, Config{Dim: 256, M: 4, Seed: 1, Sketched: 1}
	goldenSnapshot(t, "snapshot-v3.bin", small, 80, 0)
	sketchesMatch(t, goldenSnapshot(t, "snapshot-v3-sketches.bin", sketched, 40, 0))
	oldSnapshot(t, "snapshot-v2.bin", small)
	sketchesMatch(t, oldSnapshot(t, "snapshot-v2-sketches.bin", sketched))
	own := func(slot uint32, dst []float32) ([]float32, error) { return append(dst, make([]float32, 32)...), nil }
	far := Config{Dim: 32, M: 4, Seed: 1, Metric: L2, Truth: own}
	x := goldenSnapshot(t, "snapshot-v3-groups.bin", far, 300, 300)
	if c := x.coding.Load(); len(c.centres) < 2 {
		t.Errorf("rows of two far groups have %d centres", len(c.centres))
	}
	x = goldenSnapshot(t, "snapshot-v3-cells.bin", Config{Dim: 16, M: 4, Seed: 1, Celled: 1}, 200, 0)
	if c, fresh := x.coding.Load().cover.look(); c == nil || c.rows == 0 || len(fresh) == 0 {
		t.Errorf("%+v are the cells of the golden snapshot, and %d fresh rows", c, len(fresh))
	}
	x = oldSnapshot(t, "snapshot-v2-centre.bin", far)
	if c := x.coding.Load(); len(c.centres) == 0 || c.rotation == nil {
		t.Errorf("rows of two far groups are coded about %v, turned by %v", c.centres, c.rotation)
	}
	for name, cfg := range map[string]Config{
		"snapshot-v1.bin":          {Dim: 4, M: 4, Seed: 1},
		"snapshot-v1-sketches.bin": {Dim: 256, M: 4, Seed: 1, Sketched: 1},
	} {
		data, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ReadSnapshot(bytes.NewReader(data), cfg); !errors.Is(err, ErrSnapshot) || !strings.Contains(err.Error(), "version 1") {
			t.Errorf("%s: %v; want that it has version 1", name, err)
		}
	}
}

// goldenSnapshot reads a golden snapshot, of an index of n rows in two groups that lie so
// far apart.
func goldenSnapshot(t *testing.T, name string, cfg Config, n int, apart float32) *Index {
	t.Helper()
	if *update {
		path := filepath.Join("testdata", name)
		x := sampleIndex(t, rand.New(rand.NewPCG(1, 1)), cfg, n, apart)
		if err := os.WriteFile(path, snapshotOf(t, x), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	x, data := readGolden(t, name, cfg)
	if linked, pending := x.graph.linked.Load(), len(*x.graph.pending.Load()); linked == 0 || pending == 0 || x.graph.dead.Load() == 0 || len(x.free) == 0 {
		t.Errorf("%d slots linked, %d pending, %d dead, %d free; each should occur", linked, pending, x.graph.dead.Load(), len(x.free))
	}
	if !bytes.Equal(snapshotOf(t, x), data) {
		t.Error("the golden snapshot is written differently now; give the format a new version")
	}
	return x
}

func readGolden(t *testing.T, name string, cfg Config) (*Index, []byte) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	x := mustRead(t, data, cfg)
	checkGraph(t, x)
	return x, data
}

// oldSnapshot reads a golden snapshot of the version before, which is written as one of
// this version.
func oldSnapshot(t *testing.T, name string, cfg Config) *Index {
	t.Helper()
	x, _ := readGolden(t, name, cfg)
	data := snapshotOf(t, x)
	again := mustRead(t, data, cfg)
	if !bytes.Equal(snapshotOf(t, again), data) {
		t.Errorf("%s: what is read of it is written in two ways", name)
	}
	return x
}

// sections returns where the n sections of a whole snapshot end, each before its
// checksum.
func sections(t testing.TB, data []byte, n int) (ends []int) {
	t.Helper()
	for start, end := 0, 0; end+checksumSize <= len(data); end++ {
		if binary.LittleEndian.Uint64(data[end:]) == xxh3.Hash(data[start:end]) {
			ends = append(ends, end)
			end += checksumSize
			start = end
		}
	}
	if len(ends) != n {
		t.Fatalf("%d sections in a snapshot; want %d", len(ends), n)
	}
	return ends
}

// FuzzReadSnapshot overwrites bytes of a snapshot and puts its checksums right:
// what is read then must be refused, or safe to use.
func FuzzReadSnapshot(f *testing.F) {
	small := Config{Dim: 2, M: 2}
	golden := snapshotOf(f, sampleIndex(f, rand.New(rand.NewPCG(1, 1)), small, 40, 0))
	ends := sections(f, golden, 6)
	sketched := Config{Dim: 256, M: 2, Sketched: 1}
	other := snapshotOf(f, sampleIndex(f, rand.New(rand.NewPCG(1, 1)), sketched, 30, 0))
	otherEnds := sections(f, other, 7)
	celled := Config{Dim: 2, M: 2, Celled: 1}
	third := snapshotOf(f, sampleIndex(f, rand.New(rand.NewPCG(1, 1)), celled, 100, 0))
	thirdEnds := sections(f, third, 7)
	f.Add([]byte{}, uint8(0))
	f.Add([]byte{0, 32, 255, 0, 36, 3}, uint8(0))
	f.Add([]byte{byte(ends[1] >> 8), byte(ends[1] - 9), 3, byte(ends[3] >> 8), byte(ends[3] + 9), 1}, uint8(0))
	f.Add([]byte{0, 17, 0}, uint8(1))                                         // no sketches, says the flag
	f.Add([]byte{byte(len(other) >> 8), byte(len(other) - 20), 85}, uint8(1)) // another sketch
	f.Add([]byte{0, 17, 0}, uint8(2))                                         // no cells, says the flag
	f.Add([]byte{byte(thirdEnds[5] >> 8), byte(thirdEnds[5] + 20), 200}, uint8(2))
	f.Add([]byte{byte(len(third) >> 8), byte(len(third) - 20), 85}, uint8(2)) // another fresh slot
	f.Fuzz(func(t *testing.T, edits []byte, kind uint8) {
		data, ends, cfg := slices.Clone(golden), ends, small
		switch kind % 3 {
		case 1:
			data, ends, cfg = slices.Clone(other), otherEnds, sketched
		case 2:
			data, ends, cfg = slices.Clone(third), thirdEnds, celled
		}
		for ; len(edits) >= 3; edits = edits[3:] {
			data[int(binary.BigEndian.Uint16(edits))%len(data)] = edits[2]
		}
		start := 0
		for _, end := range ends {
			binary.LittleEndian.PutUint64(data[end:], xxh3.Hash(data[start:end]))
			start = end + checksumSize
		}
		x, err := ReadSnapshot(bytes.NewReader(data), cfg)
		if err != nil {
			if !errors.Is(err, ErrSnapshot) {
				t.Fatal(err)
			}
			return
		}
		useAll(t, x)
	})
}

// useAll searches an index of any contents, and goes on with it.
func useAll(t *testing.T, x *Index) {
	t.Helper()
	query := make([]float32, x.cfg.Dim)
	query[0], query[1] = 1, 2
	x.cfg.Crossover = 0
	mustSearch(t, x, query, Search{K: 5, Slots: x.Len(), Strategy: Cascade})
	for _, exact := range []bool{false, true} {
		mustSearch(t, x, query, Search{K: 5, Slots: x.Len(), Exact: exact})
		slots := make([]uint32, x.Len())
		for i := range slots {
			slots[i] = uint32(i)
		}
		mustEstimate(t, x, query, exact, slots, make([]float32, len(slots)), make([]float32, len(slots))).Close()
	}
	mustAdd(t, x, query)
	mustLink(t, x)
	snapshotOf(t, x)
}
