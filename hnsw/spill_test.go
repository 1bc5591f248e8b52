//go:build unix && !race

package hnsw

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/race"
	"golang.org/x/sys/unix"
)

func scratchFile(t testing.TB) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "rows"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// TestRowsInAFile: an index answers the same wherever its rows are, but for walks by
// sketches, and says what lies where.
func TestRowsInAFile(t *testing.T) {
	race.Sequential(t)
	rng := random(t)
	const n, dim = 2200, MaxDim // more than a page of rows
	vecs := clustered(rng, n+20, dim, 30)
	plain := linkedIndex(t, Config{Dim: dim, EfConstruction: 8, BlockMemory: -1}, vecs[:n])
	for _, c := range []struct{ codes, rows int64 }{
		{0, 0}, {math.MaxInt64, 0}, {0, math.MaxInt64}, {0, pageBytes},
	} {
		x := linkedIndex(t, Config{Dim: dim, EfConstruction: 8, File: scratchFile(t), CodeMemory: c.codes, RowMemory: c.rows, BlockMemory: -1}, vecs[:n])
		st, all := x.Stats(), plain.Bytes()-plain.graph.equals.Load().memory()+x.graph.equals.Load().memory()
		file := int64(0)
		if c.codes == 0 {
			file += n * int64(codeStride(dim))
			all += n * (dim/8 + 8)
		}
		if st.Bytes+st.FileBytes != all || st.Bytes != x.Bytes() {
			t.Errorf("%+v: %d bytes in memory and %d in the file; want %d", c, st.Bytes, st.FileBytes, all)
		}
		if c.rows < math.MaxInt64 {
			file += n*dim*4 - c.rows/(4*dim<<11)*(4*dim<<11)
		}
		if st.FileBytes != file {
			t.Errorf("%+v: %d bytes in the file, want %d", c, st.FileBytes, file)
		}
		for i, q := range vecs[n:] {
			s := Search{K: 10, Slots: x.Len(), Exact: i%2 == 0 || c.codes == 0}
			if got, want := mustSearch(t, x, q, s), mustSearch(t, plain, q, s); !slices.Equal(got, want) {
				t.Fatalf("%+v: %v; %v with all in memory", c, got, want)
			}
		}
		var saved bytes.Buffer
		snapshot := x.Snapshot()
		if _, err := snapshot.WriteTo(&saved); err != nil {
			t.Fatal(err)
		}
		snapshot.Close()
		cfg := x.Config()
		cfg.File = scratchFile(t)
		again, err := ReadSnapshot(&saved, cfg)
		if err != nil {
			t.Fatal(err)
		}
		if got := again.Stats(); got.FileBytes != st.FileBytes || !slices.Equal(mustRow(t, again, 7), mustRow(t, x, 7)) {
			t.Errorf("%+v: read again, it holds %+v; was %+v", c, got, st)
		}
	}
}

// fullFile has room for so many bytes.
type fullFile struct {
	*os.File
	room int64
}

func (f *fullFile) WriteAt(p []byte, at int64) (int, error) {
	if at+int64(len(p)) > f.room {
		return 0, unix.ENOSPC
	}
	return f.File.WriteAt(p, at)
}

// noDescriptor is a file that the system doesn't know.
type noDescriptor struct{ *os.File }

func (noDescriptor) Fd() uintptr { return ^uintptr(0) }

// TestFileHasNoRoom: what the file has no room for is kept in memory.
func TestFileHasNoRoom(t *testing.T) {
	const dim = 2048
	vec := make([]float32, dim)
	for _, c := range []struct {
		file   File
		filled int64 // pages
	}{
		{&fullFile{scratchFile(t), 2 * pageBytes}, 2},
		{&fullFile{scratchFile(t), 0}, 0},
		{noDescriptor{scratchFile(t)}, 0},
	} {
		x := mustNew(t, Config{Dim: dim, Metric: Dot, File: c.file, CodeMemory: math.MaxInt64})
		for len(x.rows.pages) < 4 {
			vec[0] = float32(x.Len())
			mustAdd(t, x, vec)
		}
		if filed := x.rows.filed.Load(); filed != c.filled {
			t.Errorf("%T with room for %d pages holds %d", c.file, c.filled, filed)
		}
		for slot := range x.Len() {
			if row := mustRow(t, x, slot); row[0] != float32(slot) {
				t.Fatalf("row %d begins with %v", slot, row[0])
			}
		}
	}
}

// tellsFaults tries whether a fault of a mapped page comes with its address.
func tellsFaults(t *testing.T) (told bool) {
	t.Helper()
	f := scratchFile(t)
	s := newSpill(f)
	p, err := s.newPage(spillGrain)
	if err == nil {
		err = f.Truncate(0)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		fault, ok := recover().(interface{ Addr() uintptr })
		told = ok && s.holds(fault.Addr())
	}()
	t.Error("read beyond the end of a file:", *(*byte)(p.base))
	return false
}

// TestFileFails cuts the file under the mapping: the system then faults where a
// page is read, as it does for a disk that can't be read. Every call says so, and
// no process dies of it.
func TestFileFails(t *testing.T) {
	race.Sequential(t)
	if !tellsFaults(t) {
		t.Skip("the system doesn't say which address faults, as emulators may not")
	}
	const n, dim = 2000, 128
	vecs := clustered(random(t), n+1, dim, 10)
	query := vecs[n]
	linked := func() (*Index, *os.File) {
		f := scratchFile(t)
		x := newGraph(t, Config{Dim: dim, File: f})
		for i, v := range vecs[:n] {
			if mustAdd(t, x, v); i == n/2 {
				mustLink(t, x)
			}
		}
		return x, f
	}
	for name, call := range map[string]func(x *Index) error{
		"flat search": func(x *Index) error {
			_, err := x.Search(t.Context(), query, Search{K: 5, Slots: x.Len(), Exact: true})
			return err
		},
		"walk": func(x *Index) error {
			_, err := x.Search(t.Context(), query, Search{K: 5, Slots: x.Len(), Strategy: Sweep})
			return err
		},
		"row":    func(x *Index) error { _, err := x.Row(1, nil); return err },
		"link":   func(x *Index) error { return x.Link(t.Context(), x.Len()) },
		"add":    func(x *Index) error { _, err := x.Add(query); return err },
		"scores": func(x *Index) error { return x.Scores(query, []uint32{1}, make([]float32, 1)) },
		"estimate": func(x *Index) error {
			e, err := x.Estimator(query, true)
			if err != nil {
				return err
			}
			defer e.Close()
			return e.Estimate([]uint32{1}, make([]float32, 1), make([]float32, 1))
		},
		"snapshot": func(x *Index) error {
			s := x.Snapshot()
			defer s.Close()
			_, err := s.WriteTo(new(bytes.Buffer))
			return err
		},
	} {
		x, f := linked()
		if err := f.Truncate(0); err != nil {
			t.Fatal(err)
		}
		if err := call(x); !errors.Is(err, ErrFile) {
			t.Errorf("%s of an index whose file is cut: %v", name, err)
		}
		// What comes later fails at once, whether it meets the hole or not.
		if err := f.Truncate(1 << 30); err != nil {
			t.Fatal(err)
		}
		if err := call(x); !errors.Is(err, ErrFile) {
			t.Errorf("%s: then %v", name, err)
		}
	}
}

// TestFetchedCodes: bounds are the same when codes are asked for ahead, those of the
// last row of a mapping among them.
func TestFetchedCodes(t *testing.T) {
	rng := random(t)
	const n, dim = 4100, MaxDim
	x := mustNew(t, Config{Dim: dim, Quantized: true, File: scratchFile(t)})
	query := randomVector(rng, dim)
	slots := make([]uint32, n)
	for i := range slots {
		slots[i] = mustAdd(t, x, query)
	}
	if x.coding.Load().codes.filed.Load() < 2 {
		t.Fatal("all rows are in one mapping")
	}
	rng.Shuffle(n, func(i, j int) { slots[i], slots[j] = slots[j], slots[i] })
	for _, cold := range []bool{false, true} {
		e, err := x.Estimator(query, true)
		if err != nil {
			t.Fatal(err)
		}
		e.cold = cold
		low, high := make([]float32, n), make([]float32, n)
		if err := e.Estimate(slots, low, high); err != nil {
			t.Fatal(err)
		}
		if slices.Min(low) != low[0] || low[0] > 1 || slices.Max(high) != high[0] || high[0] < 1 {
			t.Errorf("cold %v: the bounds of 1 are from %v, %v to %v, %v", cold, slices.Min(low), low[0], slices.Max(high), high[0])
		}
		e.Close()
	}
}
