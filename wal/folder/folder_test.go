package folder

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/fsys"
	"github.com/seed-7aedc3ff/memdb/wal"
)

const database = "9b2f0d57-6d0d-4b57-8a3a-8f1d4f3f0a11"

var line = wal.Timeline{1, 2, 3}

func begin(t *testing.T, fs vfs.FS) (*Archive, wal.End) {
	t.Helper()
	a := &Archive{fs: fs, path: "/a"}
	end, err := a.Begin(t.Context(), database, line)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	return a, end
}

// batches is a frame of the numbers first to last.
func batches(first, last uint64) *wal.Frame {
	f := &wal.Frame{Timeline: line, Kind: wal.Batches, First: first, Last: last, Since: first - 1, LSN: last, Time: int64(last)}
	for n := first; n <= last; n++ {
		f.Batches = append(f.Batches, []byte(strings.Repeat(string(rune('a'+n%26)), 50)))
	}
	return f
}

func add(t *testing.T, a *Archive, frames ...*wal.Frame) {
	t.Helper()
	for _, f := range frames {
		if err := a.Append(t.Context(), f); err != nil {
			t.Fatal(err)
		}
	}
}

func base(number uint64, parts int) (frames []*wal.Frame) {
	for i := range parts {
		frames = append(frames, &wal.Frame{Timeline: line, Kind: wal.Base, First: number, Last: uint64(i), LSN: number, Batches: [][]byte{[]byte("part")}})
	}
	return append(frames, &wal.Frame{Timeline: line, Kind: wal.BaseEnd, First: number, Last: uint64(parts), LSN: number})
}

// follow reads what there is from a position on.
func follow(t *testing.T, fs vfs.FS, at wal.Position) (wal.Position, error) {
	t.Helper()
	c, err := Follow(fsys.On(fs, "/a"), wal.Timeline{}, false)
	if err != nil {
		return at, err
	}
	defer func() { _ = c.Close() }()
	for {
		f, err := c.Next(t.Context(), at)
		if _, short := errors.AsType[*wal.ShortError](err); errors.Is(err, io.EOF) && !short {
			return at, nil
		}
		if err != nil {
			return at, err
		}
		if !f.Follows(at) {
			t.Fatalf("%+v was given at %+v", f, at)
		}
		at = f.After()
	}
}

func at(number uint64) wal.Position { return wal.Position{Timeline: line, Number: number} }

func wantAt(t *testing.T, fs vfs.FS, from wal.Position, number uint64) {
	t.Helper()
	if got, err := follow(t, fs, from); err != nil || got != at(number) {
		t.Errorf("followed from %+v to %+v, %v; want number %d", from, got, err, number)
	}
}

func TestAppendAndFollow(t *testing.T) {
	fs := vfs.NewMem()
	a, end := begin(t, fs)
	if end != (wal.End{}) {
		t.Errorf("a new archive ends at %+v", end)
	}
	add(t, a, batches(1, 3), batches(4, 4))
	wantAt(t, fs, wal.Position{}, 4)
	wantAt(t, fs, at(2), 4) // within a frame
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	a, end = begin(t, fs)
	if want := (wal.End{Number: 4, LSN: 4, Time: 4, Whole: true}); end != want {
		t.Errorf("ends at %+v, want %+v", end, want)
	}
	add(t, a, batches(5, 9))
	wantAt(t, fs, at(3), 9)
	_, all, err := Timelines(fsys.On(fs, "/a"))
	if err != nil || len(all) != 1 || all[0].Segments != 2 || all[0].Number != 9 || all[0].Bytes == 0 {
		t.Errorf("%+v, %v", all, err)
	}
}

// TestBase: a base that is complete is begun with; one that is not is passed over; what comes behind a
// gap is followed only from a base on.
func TestBase(t *testing.T) {
	fs := vfs.NewMem()
	a, _ := begin(t, fs)
	add(t, a, batches(1, 3))
	add(t, a, base(7, 3)[:2]...)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	a, end := begin(t, fs)
	if end.Number != 7 || end.Whole {
		t.Errorf("with half a base: %+v", end)
	}
	wantAt(t, fs, wal.Position{}, 3)
	parts := base(9, 2)
	add(t, a, parts[0], batches(10, 11), parts[1], parts[2], batches(12, 12))
	wantAt(t, fs, wal.Position{}, 12)
	if _, err := follow(t, fs, at(3)); !errors.Is(err, wal.ErrGap) || !errors.Is(err, fault.ErrNotRetained) {
		t.Errorf("over the gap: %v", err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if _, end = begin(t, fs); end.Number != 12 || !end.Whole {
		t.Errorf("behind a base: %+v", end)
	}
}

// TestTornAppend: what a crash or a failure leaves of a frame is written again.
func TestTornAppend(t *testing.T) {
	fs := vfs.NewMem()
	a, _ := begin(t, fs)
	add(t, a, batches(1, 2), batches(3, 5))
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	path := fs.PathJoin("/a", line.String(), fileName(1, segmentSuffix))
	whole := readFile(t, fs, path)
	for cut := range len(whole) {
		writeFile(t, fs, path, whole[:cut])
		a, end := begin(t, fs)
		if end.Number != 0 && end.Number != 2 || end.Whole != (end.Number > 0) {
			t.Fatalf("cut at %d: %+v", cut, end)
		}
		add(t, a, batches(end.Number+1, 8))
		wantAt(t, fs, wal.Position{}, 8)
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		if end.Number > 0 {
			if err := fs.Remove(fs.PathJoin("/a", line.String(), fileName(end.Number+1, segmentSuffix))); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestFrameTwice: a frame that was written although the append failed comes again, with others.
func TestFrameTwice(t *testing.T) {
	fs := vfs.NewMem()
	a, _ := begin(t, fs)
	add(t, a, batches(1, 2), batches(3, 5))
	a.torn = true // as after a failed sync
	add(t, a, batches(3, 7))
	wantAt(t, fs, wal.Position{}, 7)
	wantAt(t, fs, at(5), 7)
}

// TestDamagedSegment: a byte that has changed, a segment that is missing or that is another one are told.
func TestDamagedSegment(t *testing.T) {
	fs := vfs.NewMem()
	for _, f := range []*wal.Frame{batches(1, 3), batches(4, 6), batches(7, 9)} {
		a, _ := begin(t, fs)
		add(t, a, f)
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
	}
	path := func(n uint64) string { return fs.PathJoin("/a", line.String(), fileName(n, segmentSuffix)) }
	middle := readFile(t, fs, path(4))
	for i := range middle {
		b := append([]byte(nil), middle...)
		b[i] ^= 0x20
		writeFile(t, fs, path(4), b)
		got, err := follow(t, fs, wal.Position{})
		if err == nil || got != at(3) {
			t.Fatalf("byte %d changed: followed to %+v, %v", i, got, err)
		}
	}
	if err := fs.Remove(path(4)); err != nil {
		t.Fatal(err)
	}
	if got, err := follow(t, fs, wal.Position{}); !errors.Is(err, wal.ErrGap) || got != at(3) {
		t.Errorf("a segment is missing: %+v, %v", got, err)
	}
	writeFile(t, fs, path(4), readFile(t, fs, path(7)))
	if got, err := follow(t, fs, wal.Position{}); !errors.Is(err, wal.ErrGap) || got != at(3) {
		t.Errorf("one in the place of another: %+v, %v", got, err)
	}
	writeFile(t, fs, path(4), middle)
	last := readFile(t, fs, path(7))
	for i := range last { // it may as well have been torn: who follows is told that something was there
		b := append([]byte(nil), last...)
		b[i] ^= 0x20
		writeFile(t, fs, path(7), b)
		c, err := Follow(fsys.On(fs, "/a"), line, false)
		if err != nil {
			t.Fatal(err)
		}
		if f, err := c.Next(t.Context(), at(6)); !errors.Is(err, wal.ErrTorn) && !errors.Is(err, fault.ErrNewerLayout) {
			t.Fatalf("byte %d of the end changed: %+v, %v", i, f, err)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	writeFile(t, fs, path(7), last)
	writeFile(t, fs, path(5), middle) // one twice
	if got, err := follow(t, fs, wal.Position{}); err != nil || got != at(9) {
		t.Errorf("a segment twice: %+v, %v", got, err)
	}
}

func TestBegin(t *testing.T) {
	fs := vfs.NewMem()
	a, _ := begin(t, fs)
	add(t, a, batches(1, 1))
	other := &Archive{fs: fs, path: "/a"}
	if _, err := other.Begin(t.Context(), database, line); !errors.Is(err, fault.ErrLocked) {
		t.Errorf("two write: %v", err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Begin(t.Context(), "another", line); !errors.Is(err, fault.ErrMismatch) {
		t.Errorf("another database: %v", err)
	}
	// Another timeline has a place of its own.
	if end, err := other.Begin(t.Context(), database, wal.Timeline{9}); err != nil || end != (wal.End{}) {
		t.Errorf("another timeline: %+v, %v", end, err)
	}
	if err := other.Append(t.Context(), batches(2, 2)); !errors.Is(err, fault.ErrInvalid) {
		t.Errorf("a frame of another timeline: %v", err)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	writeFile(t, fs, "/a/"+identityName, []byte(`{"magic":"memdb-archive","version":2}`))
	if _, err := other.Begin(t.Context(), database, line); !errors.Is(err, fault.ErrMismatch) && !errors.Is(err, fault.ErrNewerLayout) {
		t.Errorf("a newer one: %v", err)
	}
	writeFile(t, fs, "/a/"+identityName, []byte(`{`))
	if _, err := other.Begin(t.Context(), database, line); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("a damaged one: %v", err)
	}
	if err := fs.MkdirAll("/foreign", 0o755); err != nil {
		t.Fatal(err)
	}
	writeFile(t, fs, "/foreign/notes.txt", nil)
	foreign := &Archive{fs: fs, path: "/foreign"}
	if _, err := foreign.Begin(t.Context(), database, line); !errors.Is(err, fault.ErrNotDatabase) {
		t.Errorf("a foreign folder: %v", err)
	}
	if _, _, err := Timelines(fsys.On(fs, "/foreign")); !errors.Is(err, fault.ErrNotDatabase) {
		t.Errorf("timelines of a foreign folder: %v", err)
	}
}

// TestFollowWaits: a cursor that waits gets what is appended later, and ends with its context.
func TestFollowWaits(t *testing.T) {
	fs := vfs.NewMem()
	a, _ := begin(t, fs)
	add(t, a, batches(1, 1))
	c, err := Follow(fsys.On(fs, "/a"), line, true)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	f, err := c.Next(t.Context(), wal.Position{})
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan error, 1)
	go func() {
		next, err := c.Next(t.Context(), f.After())
		if err == nil && next.First != 2 {
			err = errors.New("another frame")
		}
		got <- err
	}()
	time.Sleep(pollEvery / 2)
	add(t, a, batches(2, 2))
	if err := <-got; err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Next(ctx, at(2)); !errors.Is(err, context.Canceled) {
		t.Errorf("with an ended context: %v", err)
	}
}

func readFile(t *testing.T, fs vfs.FS, path string) []byte {
	t.Helper()
	f, err := fs.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(f)
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	return b
}

func writeFile(t *testing.T, fs vfs.FS, path string, b []byte) {
	t.Helper()
	f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestArchiveMoved verifies that nothing is appended to an archive whose folder was removed or
// replaced, and that the archive does not begin again beside the one that it was.
func TestArchiveMoved(t *testing.T) {
	for name, act := range map[string]func(path string) error{
		"removed":  os.RemoveAll,
		"renamed":  func(path string) error { return os.Rename(path, path+".old") },
		"replaced": func(path string) error { return errors.Join(os.Rename(path, path+".old"), os.Mkdir(path, 0o700)) },
		"timeline": func(path string) error { return os.RemoveAll(filepath.Join(path, line.String())) },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "archive")
			a := New(path)
			defer func() { _ = a.Close() }()
			if _, err := a.Begin(t.Context(), database, line); err != nil {
				t.Fatal(err)
			}
			add(t, a, batches(1, 3))
			if err := act(path); err != nil {
				t.Skip(err) // the system keeps files that are open
			}
			if err := a.Append(t.Context(), batches(4, 5)); !errors.Is(err, fault.ErrFailed) || !strings.Contains(err.Error(), "removed or replaced") {
				t.Errorf("append: %v", err)
			}
			if _, err := a.Begin(t.Context(), database, line); !errors.Is(err, fault.ErrFailed) {
				t.Errorf("begin: %v", err)
			}
		})
	}
}

// TestShortArchive verifies that whoever follows an archive to its end is told when the archive has less
// than it had, whatever is gone.
func TestShortArchive(t *testing.T) {
	dir := "/a/" + line.String() + "/"
	first, last := dir+fileName(1, segmentSuffix), dir+fileName(5, segmentSuffix)
	change := func(t *testing.T, fs vfs.FS, name string, to func(b []byte) []byte) {
		t.Helper()
		writeFile(t, fs, name, to(readFile(t, fs, name)))
	}
	remove := func(t *testing.T, fs vfs.FS, names ...string) {
		t.Helper()
		for _, name := range names {
			if err := fs.RemoveAll(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	other := func(b []byte) []byte { // whole, and not what was archived
		f := batches(8, 9)
		f.Batches[1][0] ^= 1
		old, err := batches(8, 9).Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		if b, err = f.Append(b[:len(b)-len(old)]); err != nil {
			t.Fatal(err)
		}
		return b
	}
	for _, c := range []struct {
		name string
		harm func(t *testing.T, fs vfs.FS)
	}{
		{"the last frame is flipped", func(t *testing.T, fs vfs.FS) {
			change(t, fs, last, func(b []byte) []byte { b[len(b)-3] ^= 1; return b })
		}},
		{"the head of the last frame is flipped", func(t *testing.T, fs vfs.FS) {
			change(t, fs, last, func(b []byte) []byte { b[strings.LastIndex(string(b), wal.Magic)+40] ^= 1; return b })
		}},
		{"the last frame is cut", func(t *testing.T, fs vfs.FS) { change(t, fs, last, func(b []byte) []byte { return b[:len(b)-1] }) }},
		{"the last frame is another", func(t *testing.T, fs vfs.FS) { change(t, fs, last, other) }},
		{"the last segment is empty", func(t *testing.T, fs vfs.FS) { change(t, fs, last, func([]byte) []byte { return nil }) }},
		{"the last segment is gone", func(t *testing.T, fs vfs.FS) { remove(t, fs, last) }},
		{"all segments are gone", func(t *testing.T, fs vfs.FS) { remove(t, fs, first, last) }},
		{"the folder is gone", func(t *testing.T, fs vfs.FS) { remove(t, fs, strings.TrimSuffix(dir, "/")) }},
		{"the first segment is empty", func(t *testing.T, fs vfs.FS) { change(t, fs, first, func([]byte) []byte { return nil }) }},
		{"the first segment is gone", func(t *testing.T, fs vfs.FS) { remove(t, fs, first) }},
		{"the end record is gone", func(t *testing.T, fs vfs.FS) { remove(t, fs, "/a/"+line.String()+endSuffix) }},
		{"the end record is flipped", func(t *testing.T, fs vfs.FS) {
			change(t, fs, "/a/"+line.String()+endSuffix, func(b []byte) []byte { b[40] ^= 1; b[40+endSlot] ^= 1; return b })
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			fs := vfs.NewMem()
			for _, frames := range [][]*wal.Frame{{batches(1, 2), batches(3, 4)}, {batches(5, 7), batches(8, 9)}} {
				a, _ := begin(t, fs)
				add(t, a, frames...)
				if err := a.Close(); err != nil {
					t.Fatal(err)
				}
			}
			wantAt(t, fs, wal.Position{}, 9)
			c.harm(t, fs)
			end, err := follow(t, fs, wal.Position{})
			if _, short := errors.AsType[*wal.ShortError](err); !short && !errors.Is(err, wal.ErrGap) && !errors.Is(err, fault.ErrCorrupt) {
				t.Errorf("followed to %+v, %v", end, err)
			}
			a, _ := begin(t, fs) // the writer goes on from a base
			add(t, a, base(12, 1)...)
			wantAt(t, fs, wal.Position{}, 12)
		})
	}
}

// TestUnrecordedEnd verifies that an archive of before end records is followed, and gets a record when it
// is written again.
func TestUnrecordedEnd(t *testing.T) {
	fs := vfs.NewMem()
	a, _ := begin(t, fs)
	add(t, a, batches(1, 2))
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if err := (&identity{identityMagic, version, database, false}).write(fs, "/a"); err != nil {
		t.Fatal(err)
	}
	if err := fs.Remove("/a/" + line.String() + endSuffix); err != nil {
		t.Fatal(err)
	}
	wantAt(t, fs, wal.Position{}, 2)
	a, _ = begin(t, fs)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if err := fs.Remove("/a/" + line.String() + "/" + fileName(1, segmentSuffix)); err != nil {
		t.Fatal(err)
	}
	if _, err := follow(t, fs, wal.Position{}); err == nil {
		t.Error("the loss of a segment is not reported")
	}
}
