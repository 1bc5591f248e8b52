package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/fsys"
	"github.com/seed-7aedc3ff/memdb/internal/fsys/crashfs"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const (
	databaseA = "11111111-1111-4111-8111-111111111111"
	databaseB = "22222222-2222-4222-8222-222222222222"
	timelineA = "33333333-3333-4333-8333-333333333333"
	timelineB = "44444444-4444-4444-8444-444444444444"
)

func headOf(lsn uint64) Head {
	return Head{Database: databaseA, Timeline: timelineA, LSN: lsn, Time: noon.Add(time.Duration(lsn) * time.Hour), Layout: 7}
}

// itemsOf are files of a database, by their names; a table has a time of its own.
func itemsOf(content map[string]string) (items []Item) {
	for _, name := range slices.Sorted(func(yield func(string) bool) {
		for name := range content {
			if !yield(name) {
				return
			}
		}
	}) {
		c := content[name]
		it := Item{Name: name, Size: int64(len(c)), Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(c)), nil }}
		if strings.HasSuffix(name, ".sst") {
			it.Modified = int64(len(c))
		}
		items = append(items, it)
	}
	return items
}

// contentOf is a database of some tables.
func contentOf(tables ...int) map[string]string {
	all := map[string]string{IdentityFile: "{}", "store/MANIFEST-000001": fmt.Sprint("tables ", tables), "store/marker.manifest.000001.MANIFEST-000001": ""}
	for _, n := range tables {
		all[fmt.Sprintf("store/%06d.sst", n)] = strings.Repeat(fmt.Sprint("row of ", n, "; "), 50*n)
	}
	return all
}

func write(t *testing.T, files vfs.FS, head Head, content map[string]string, o WriteOptions) (Written, error) {
	t.Helper()
	w, err := Begin(fsys.On(files, "repo"), noon)
	if err != nil {
		return Written{}, err
	}
	out, err := w.Write(t.Context(), head, itemsOf(content), o)
	if cerr := w.Close(); cerr != nil {
		t.Fatal(cerr)
	}
	return out, err
}

func mustWrite(t *testing.T, files vfs.FS, head Head, content map[string]string) Written {
	t.Helper()
	w, err := write(t, files, head, content, WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func source(t *testing.T, files vfs.FS, path string) Source {
	t.Helper()
	s, err := OpenSource(fsys.On(files, path))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// extract is what a source gives of a backup.
func extract(ctx context.Context, s Source, b *Backup) (map[string]string, error) {
	to := vfs.NewMem()
	if err := s.Extract(ctx, b, to, "new"); err != nil {
		return nil, err
	}
	id, err := s.Identity(ctx, b)
	if err != nil {
		return nil, err
	}
	got := map[string]string{IdentityFile: string(id)}
	for _, f := range b.Files {
		if f.Name != IdentityFile {
			content, err := readSmall(to, "new/"+f.Name, maxFile)
			if err != nil {
				return nil, err
			}
			got[f.Name] = string(content)
		}
	}
	return got, nil
}

func mustExtract(t *testing.T, s Source, id string, want map[string]string) {
	t.Helper()
	b, err := Find(t.Context(), s, Wanted{ID: id})
	if err != nil {
		t.Fatal(err)
	}
	got, err := extract(t.Context(), s, b)
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: %v, want %v", id, got, want)
	}
}

// tree is all files of a folder, by their paths.
func tree(t *testing.T, files vfs.FS, dir string) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	var walk func(dir string)
	walk = func(dir string) {
		names, err := files.List(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			path := files.PathJoin(dir, name)
			info, err := files.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			if info.IsDir() {
				walk(path)
				continue
			}
			if all[path], err = readSmall(files, path, maxFile); err != nil {
				t.Fatal(err)
			}
		}
	}
	walk(dir)
	return all
}

func place(t *testing.T, files vfs.FS, path string, b []byte) {
	t.Helper()
	f, err := files.Create(path, vfs.WriteCategoryUnspecified)
	if err == nil {
		_, err = f.Write(bytes.Clone(b))
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestRepository: each backup is what it was, and a second one writes what is new; IDs ascend
// where the clock does not.
func TestRepository(t *testing.T) {
	mem := vfs.NewMem()
	first := mustWrite(t, mem, headOf(5), contentOf(1, 2))
	second := mustWrite(t, mem, headOf(3), contentOf(2, 3)) // the clock was set back
	if second.ID <= first.ID || !second.Time.Before(first.Time) {
		t.Errorf("%s after %s", second.ID, first.ID)
	}
	if want := int64(len(contentOf(3)["store/000003.sst"]) + len(contentOf(2, 3)["store/MANIFEST-000001"])); second.NewBytes != want {
		t.Errorf("%d new bytes, want %d", second.NewBytes, want)
	}
	s := source(t, mem, "repo")
	mustExtract(t, s, first.ID, contentOf(1, 2))
	mustExtract(t, s, second.ID, contentOf(2, 3))
	mustExtract(t, s, "", contentOf(2, 3))
	r, err := s.Verify(t.Context(), "")
	if err != nil || !r.OK || r.Backups != 2 || r.LSN != 3 || len(r.Problems) != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := s.Verify(t.Context(), "20260101T000000.000Z"); !errors.Is(err, fault.ErrNotFound) {
		t.Error(err)
	}
	for _, c := range []struct {
		w    Wanted
		want string
	}{
		{Wanted{LSN: 4}, second.ID},
		{Wanted{Time: noon.Add(4 * time.Hour)}, second.ID},
		{Wanted{LSN: 2}, ""},
		{Wanted{Database: databaseA}, second.ID},
		{Wanted{Database: databaseB}, ""},
	} {
		b, err := Find(t.Context(), s, c.w)
		if c.want == "" && !errors.Is(err, fault.ErrNotFound) || c.want != "" && (err != nil || b.ID != c.want) {
			t.Errorf("%+v: %v, %v", c.w, b, err)
		}
	}
}

// TestKnownFiles: a table of the same name, size and time is taken as known in one timeline, and in
// no other, and not where all is to be read.
func TestKnownFiles(t *testing.T) {
	for _, c := range []struct {
		timeline string
		full     bool
		read     bool // the table
	}{{timelineA, false, false}, {timelineA, true, true}, {timelineB, false, true}} {
		mem := vfs.NewMem()
		mustWrite(t, mem, headOf(1), contentOf(1))
		head, read := headOf(2), false
		head.Timeline = c.timeline
		items := itemsOf(contentOf(1))
		for i := range items {
			if open := items[i].Open; items[i].Modified != 0 {
				items[i].Open = func() (io.ReadCloser, error) { read = true; return open() }
			}
		}
		w, err := Begin(fsys.On(mem, "repo"), noon)
		if err != nil {
			t.Fatal(err)
		}
		made, err := w.Write(t.Context(), head, items, WriteOptions{Full: c.full})
		if err = errors.Join(err, w.Close()); err != nil {
			t.Fatal(err)
		}
		if read != c.read || made.NewBytes != 0 {
			t.Errorf("%+v: the table was read: %v, %d bytes are new", c, read, made.NewBytes)
		}
	}
}

// TestEachByte: whatever byte of a repository changes, and wherever one of its files is cut or goes,
// that is told by a verification, and nothing wrong is ever restored.
func TestEachByte(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	mem := vfs.NewMem()
	want := contentOf(1, 2)
	made := mustWrite(t, mem, headOf(5), want)
	w, err := source(t, mem, "repo").(*Repository).Archive(t.Context(), fsys.On(mem, "repo/archive"), &made.Backup)
	if err != nil || w.NewBytes == 0 {
		t.Fatal(w, err)
	}
	for path, whole := range tree(t, mem, "repo") {
		if path == "repo/memdb.lock" {
			continue
		}
		damages := map[string][]byte{"cut to nothing": {}, "gone": nil, "longer": append(bytes.Clone(whole), 0)}
		for _, at := range append([]int{0, len(whole) / 2, len(whole) - 1}, rng.IntN(max(len(whole), 1)), rng.IntN(max(len(whole), 1))) {
			if at >= 0 && at < len(whole) {
				flipped := bytes.Clone(whole)
				flipped[at] ^= 1 << rng.IntN(8)
				damages[fmt.Sprint("byte ", at)] = flipped
				damages[fmt.Sprint("cut at ", at)] = whole[:at]
			}
		}
		for what, b := range damages {
			if bytes.Equal(b, whole) && b != nil {
				continue
			}
			if b == nil {
				if err := mem.Remove(path); err != nil {
					t.Fatal(err)
				}
			} else {
				place(t, mem, path, b)
			}
			from := "repo"
			if path == "repo/archive" {
				from = path
			}
			if told := damageOf(t, mem, from, want); !told && (from == "repo" || what == "gone") {
				t.Errorf("%s: %s is not told", path, what)
			}
			place(t, mem, path, whole)
		}
	}
	if damageOf(t, mem, "repo", want) || damageOf(t, mem, "repo/archive", want) {
		t.Error("damage where there is none")
	}
}

// damageOf reports whether a source is told to be damaged. What it gives all the same must be what
// was backed up.
func damageOf(t *testing.T, files vfs.FS, path string, want map[string]string) bool {
	t.Helper()
	s, err := OpenSource(fsys.On(files, path))
	if err != nil {
		return true
	}
	r, err := s.Verify(t.Context(), "")
	told := err != nil || !r.OK || r.Backups == 0
	b, err := Find(t.Context(), s, Wanted{})
	if err != nil {
		if !told {
			t.Errorf("%s: verified, and not found: %v", path, err)
		}
		return told
	}
	got, err := extract(t.Context(), s, b)
	if err == nil && fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: another content", path)
	}
	if (err != nil) != told {
		t.Errorf("%s: told %v, and extracted with %v", path, told, err)
	}
	return told
}

// TestPrune: the newest backups of each database stay, with their files, and nothing else.
func TestPrune(t *testing.T) {
	mem := vfs.NewMem()
	var ids []string
	for n := range 5 {
		ids = append(ids, mustWrite(t, mem, headOf(uint64(n+1)), contentOf(1, n+2)).ID)
	}
	other := headOf(9)
	other.Database = databaseB
	b := mustWrite(t, mem, other, contentOf(9))
	// What an interrupted backup has left.
	stray := mem.PathJoin("repo", filesDir, "ab", strings.Repeat("ab", 32))
	if err := errors.Join(mem.MkdirAll("repo/files/ab", 0o700), mem.MkdirAll("repo/partial", 0o700)); err != nil {
		t.Fatal(err)
	}
	place(t, mem, stray, []byte("left"))
	place(t, mem, "repo/partial/1.part", []byte("left"))
	place(t, mem, "repo/files/mine.txt", []byte("mine"))
	p, err := Prune(t.Context(), fsys.On(mem, "repo"), 2, noon)
	if err != nil || !slices.Equal(p.Removed, ids[:3]) || !slices.Equal(p.Kept, append(slices.Clone(ids[3:]), b.ID)) || p.Files < 4 {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err := mem.Stat(stray); !errors.Is(err, fs.ErrNotExist) {
		t.Error("what nobody names stays")
	}
	if _, err := mem.Stat("repo/files/mine.txt"); err != nil {
		t.Error(err)
	}
	s := source(t, mem, "repo")
	if r, err := s.Verify(t.Context(), ""); err != nil || !r.OK || r.Backups != 3 {
		t.Errorf("%+v, %v", r, err)
	}
	mustExtract(t, s, ids[4], contentOf(1, 6))
	mustExtract(t, s, b.ID, contentOf(9))
	if _, err := Find(t.Context(), s, Wanted{}); !errors.Is(err, fault.ErrInvalid) {
		t.Error(err)
	}
	if _, err := Prune(t.Context(), fsys.On(mem, "repo"), 0, noon); !errors.Is(err, fault.ErrInvalid) {
		t.Error(err)
	}
	place(t, mem, "repo/"+manifestPath(ids[4]), []byte("{}"))
	if _, err := Prune(t.Context(), fsys.On(mem, "repo"), 1, noon); !errors.Is(err, fault.ErrCorrupt) {
		t.Error(err)
	}
	mustWrite(t, mem, headOf(20), contentOf(1)) // a backup goes on beside a damaged manifest
}

// TestLostNewest verifies that a repository whose newest backup is gone reports it, refuses to take the one
// before for the newest, and gives that by its ID, or where the newest is not what is asked for.
func TestLostNewest(t *testing.T) {
	mem := vfs.NewMem()
	old := mustWrite(t, mem, headOf(1), contentOf(1)).ID
	newest := mustWrite(t, mem, headOf(2), contentOf(1, 2)).ID
	if err := mem.Remove("repo/" + manifestPath(newest)); err != nil {
		t.Fatal(err)
	}
	s := source(t, mem, "repo")
	if _, err := Find(t.Context(), s, Wanted{}); !errors.Is(err, fault.ErrCorrupt) {
		t.Error(err)
	}
	if r, err := s.Verify(t.Context(), ""); err != nil || r.OK || len(r.Problems) != 1 || r.Problems[0].ID != newest {
		t.Errorf("%+v, %v", r, err)
	}
	for _, w := range []Wanted{{ID: old}, {LSN: 1}} {
		if b, err := Find(t.Context(), s, w); err != nil || b.ID != old {
			t.Errorf("%+v: %+v, %v", w, b, err)
		}
	}
	mustWrite(t, mem, headOf(3), contentOf(1, 3))
	if _, err := Find(t.Context(), source(t, mem, "repo"), Wanted{}); err != nil {
		t.Errorf("behind another backup: %v", err)
	}
}

// TestOneWriter: a repository has one writer at a time, and readers beside it.
func TestOneWriter(t *testing.T) {
	mem := vfs.NewMem()
	mustWrite(t, mem, headOf(1), contentOf(1))
	w, err := Begin(fsys.On(mem, "repo"), noon)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Begin(fsys.On(mem, "repo"), noon); !errors.Is(err, fault.ErrLocked) {
		t.Error(err)
	}
	if _, err := Prune(t.Context(), fsys.On(mem, "repo"), 1, noon); !errors.Is(err, fault.ErrLocked) {
		t.Error(err)
	}
	mustExtract(t, source(t, mem, "repo"), "", contentOf(1))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	mustWrite(t, mem, headOf(2), contentOf(2))
}

// TestStrangers: what somebody else may have put into a repository names no file outside, and a
// newer version is told as such.
func TestStrangers(t *testing.T) {
	made := Backup{ID: noon.Format(idForm), Head: headOf(1), Files: []File{{Name: IdentityFile, Hash: strings.Repeat("0", 64)}}}
	for what, change := range map[string]func(m *manifest){
		"no change":      func(*manifest) {},
		"name":           func(m *manifest) { m.Files[0].Name = "../memdb.json" },
		"deep name":      func(m *manifest) { m.Files[0].Name = "store/../../x" },
		"dots":           func(m *manifest) { m.Files[0].Name = "store/.." },
		"no identity":    func(m *manifest) { m.Files[0].Name = "store/x" },
		"twice":          func(m *manifest) { m.Files = append(m.Files, m.Files[0]) },
		"hash":           func(m *manifest) { m.Files[0].Hash = "../../../etc" },
		"size":           func(m *manifest) { m.Files[0].Size = -1 },
		"sum":            func(m *manifest) { m.Bytes = 7 },
		"database":       func(m *manifest) { m.Database = "x" },
		"magic":          func(m *manifest) { m.Magic = "x" },
		"another backup": func(m *manifest) { m.ID = "20260101T000000.000Z" },
		"newer":          func(m *manifest) { m.Version++ },
	} {
		m := manifest{Magic: manifestMagic, Version: Version, Backup: made, Checksum: noChecksum}
		m.Files = slices.Clone(made.Files)
		change(&m)
		b, err := encode(&m)
		if err != nil {
			t.Fatal(err)
		}
		_, err = decodeManifest(made.ID, b)
		want := fault.ErrCorrupt
		switch what {
		case "no change":
			want = nil
		case "newer":
			want = fault.ErrNewerLayout
		}
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	}
	mem := vfs.NewMem()
	mustWrite(t, mem, headOf(1), contentOf(1))
	b, err := encode(&marker{Magic: markerMagic, Version: Version + 1, Checksum: noChecksum})
	if err != nil {
		t.Fatal(err)
	}
	place(t, mem, "repo/"+markerName, b)
	if _, err := write(t, mem, headOf(2), contentOf(2), WriteOptions{}); !errors.Is(err, fault.ErrNewerLayout) {
		t.Error(err)
	}
	if _, err := OpenSource(fsys.On(mem, "repo")); !errors.Is(err, fault.ErrNewerLayout) {
		t.Error(err)
	}
}

// TestCrashes: whatever a crash takes while backups are made and pruned, every backup that was
// acknowledged and not pruned is whole, none is there by half, and the next one goes on.
func TestCrashes(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	disk := crashfs.NewDisk()
	type state struct {
		acknowledged int
		disk         *crashfs.Disk
	}
	var states []state
	acknowledged := 0
	files := crashfs.Wrap(disk, nil)
	files.SetHook(func(crashfs.Op) error {
		if len(states) < 30 && rng.IntN(5) == 0 {
			states = append(states, state{acknowledged, disk.Lose(rng.IntN(101), rng)})
		}
		return nil
	})
	const all = 6
	for n := range all {
		w, err := Begin(fsys.On(files, "repo"), noon)
		if err != nil {
			t.Fatal(err)
		}
		for _, it := range itemsOf(contentOf(n+1, n+2)) { // one file after the other, so that the hook needs no lock
			c := copies{Writer: w, named: map[string]bool{}}
			if _, err := c.keep(t.Context(), &it, 0); err != nil {
				t.Fatal(err)
			}
		}
		b := Backup{ID: noon.Add(time.Duration(n) * time.Second).Format(idForm), Head: headOf(uint64(n + 1))}
		for name, content := range contentOf(n+1, n+2) {
			b.Files = append(b.Files, File{Name: name, Size: int64(len(content)), Hash: hashOf([]byte(content))})
			b.Bytes += int64(len(content))
		}
		if err := errors.Join(w.commit(&b), w.Close()); err != nil {
			t.Fatal(err)
		}
		acknowledged++
		if n == 3 {
			if _, err := Prune(t.Context(), fsys.On(files, "repo"), 2, noon); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i, at := range states {
		checkCrash(t, at.disk, at.acknowledged)
		if t.Failed() {
			t.Fatalf("crash %d, after %d backups", i, at.acknowledged)
		}
	}
	if len(states) < 15 {
		t.Fatalf("%d crashes", len(states))
	}
}

// checkCrash looks at what a crash has left of a repository, of whose backups so many were
// acknowledged; all but two are perhaps pruned.
func checkCrash(t *testing.T, disk *crashfs.Disk, acknowledged int) {
	t.Helper()
	if acknowledged > 0 {
		s := source(t, disk, "repo")
		found, damaged, err := s.Backups(t.Context())
		if err != nil || len(damaged) > 0 {
			t.Fatal(damaged, err)
		}
		lsns := map[uint64]bool{}
		for _, b := range found {
			lsns[b.LSN] = true
			mustExtract(t, s, b.ID, contentOf(int(b.LSN), int(b.LSN)+1))
		}
		for n := max(1, acknowledged-1); n <= acknowledged; n++ {
			if !lsns[uint64(n)] {
				t.Errorf("backup %d is gone; there are %v", n, lsns)
			}
		}
	}
	mustWrite(t, disk, headOf(1000), contentOf(1, 2, 3))
	if _, err := Prune(t.Context(), fsys.On(disk, "repo"), 1, noon); err != nil {
		t.Error(err)
	}
	s := source(t, disk, "repo")
	mustExtract(t, s, "", contentOf(1, 2, 3))
	if r, err := s.Verify(t.Context(), ""); err != nil || !r.OK || r.Backups != 1 {
		t.Errorf("%+v, %v", r, err)
	}
}
