package engine_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/seed-7aedc3ff/memdb/engine"
)

var writeLayout = flag.Bool("write-layout", false, "pack a database of the current layout for TestLayoutsOpen, if there is none yet")

// maxArchive bounds a packed database: it stays in the repository for ever.
const maxArchive = 150 << 10

// layoutFile is a file of a layout's database in testdata.
func layoutFile(layout int, suffix string) string {
	return filepath.Join("testdata", "layouts", fmt.Sprintf("layout%d.%s", layout, suffix))
}

// TestLayoutsOpen opens a database of each layout, which the last program that wrote
// the layout has made, and compares all of it with what that program read from it.
// With -write-layout it makes that of the current layout first; one that is there is
// never written again.
func TestLayoutsOpen(t *testing.T) {
	if *writeLayout {
		makeLayout(t)
		return // whether other layouts open is for a run without the flag
	}
	for layout := 1; layout <= engine.LayoutVersion; layout++ {
		t.Run(fmt.Sprint(layout), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			unpack(t, layoutFile(layout, "tar.zst"), dir)
			want, err := os.ReadFile(layoutFile(layout, "jsonl"))
			if err != nil {
				t.Fatal(err)
			}
			db := openLayout(t, dir, layoutEnd)
			sameLines(t, dump(t, db), string(want))
			mustBeWhole(t, db)
			goOn(t, db)
			mustBeWhole(t, db)
			after := dump(t, db)
			closeLayout(t, db)
			db = openLayout(t, dir, layoutEnd)
			sameLines(t, dump(t, db), after)
			mustBeWhole(t, db)
			closeLayout(t, db)
		})
	}
}

// makeLayout writes the archive of the current layout and what is in it.
func makeLayout(t *testing.T) {
	archive := layoutFile(engine.LayoutVersion, "tar.zst")
	if _, err := os.Stat(archive); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("%s is not written again: databases of this layout lie on disks (%v)", archive, err)
	}
	packed := fillLayout(t, t.TempDir())
	if len(packed) > maxArchive {
		t.Fatalf("the archive has %d bytes, more than %d", len(packed), maxArchive)
	}
	if err := os.MkdirAll(filepath.Dir(archive), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(archive, packed, 0o644); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	unpack(t, archive, dir)
	db := openLayout(t, dir, layoutEnd)
	content := dump(t, db)
	mustBeWhole(t, db)
	closeLayout(t, db)
	if err := os.WriteFile(layoutFile(engine.LayoutVersion, "jsonl"), []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// mustBeWhole runs the database's own check.
func mustBeWhole(t *testing.T, db *engine.DB) {
	t.Helper()
	r, err := db.Check(t.Context())
	if err != nil || !r.OK {
		t.Errorf("check: %v, %q", err, r.Problems)
	}
}

// sameLines compares two dumps and shows the lines that only one of them has.
func sameLines(t *testing.T, got, want string) {
	t.Helper()
	if got == want {
		return
	}
	g, w := strings.SplitAfter(got, "\n"), strings.SplitAfter(want, "\n")
	for _, line := range g {
		if !slices.Contains(w, line) {
			t.Errorf("not expected: %s", line)
		}
	}
	for _, line := range w {
		if !slices.Contains(g, line) {
			t.Errorf("missing: %s", line)
		}
	}
	if !t.Failed() {
		t.Error("the lines have another order")
	}
}

// inUse are files that only say who has the folder open.
var inUse = []string{"memdb.lock", "memdb.holder", "LOCK"}

// pack makes an archive of a folder. Zeros at the ends of logs, which the store has
// reserved, are kept: compressed, they take no room.
func pack(t *testing.T, dir string) []byte {
	t.Helper()
	var b bytes.Buffer
	z, err := zstd.NewWriter(&b, zstd.WithEncoderLevel(zstd.SpeedBestCompression))
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(z)
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || slices.Contains(inUse, e.Name()) {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := w.WriteHeader(&tar.Header{Name: filepath.ToSlash(name), Mode: 0o600, Size: int64(len(content))}); err != nil {
			return err
		}
		_, err = w.Write(content)
		return err
	})
	if err := errors.Join(err, w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// unpack writes the files of an archive into a folder.
func unpack(t *testing.T, archive, dir string) {
	t.Helper()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := zstd.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	for r := tar.NewReader(z); ; {
		head, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, filepath.FromSlash(head.Name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
