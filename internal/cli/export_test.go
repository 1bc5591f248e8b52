package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// namesIn are those of the files in a folder.
func namesIn(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return strings.Join(all, " ")
}

func contents(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func makeFile(t *testing.T, file, text string, perm fs.FileMode) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), perm); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, perm); err != nil { // without the umask
		t.Fatal(err)
	}
}

func makeLink(t *testing.T, to, name string) {
	t.Helper()
	if err := os.Symlink(to, name); err != nil {
		t.Skipf("skipped: a link could not be made: %v", err)
	}
}

// exporter is a cli with one memory, and what it exports.
func exporter(t *testing.T) (*cli, string) {
	t.Helper()
	c := newCLI(t)
	c.ok("store", "tea", "--user", "u", "--id", "m")
	return c, c.ok("export", "-")
}

// An export touches no file but its own.
func TestExportBesideOthers(t *testing.T) {
	c, want := exporter(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "x")
	makeFile(t, file+".part", "of another", 0o600)
	c.ok("export", file)
	if got := namesIn(t, dir); got != "x x.part" || contents(t, file) != want || contents(t, file+".part") != "of another" {
		t.Errorf("%s; x: %s; x.part: %s", got, contents(t, file), contents(t, file+".part"))
	}
	makeFile(t, filepath.Join(dir, "y"), "of another", 0o600)
	makeLink(t, "y", filepath.Join(dir, "z.part"))
	c.ok("export", filepath.Join(dir, "z"))
	if got := namesIn(t, dir); got != "x x.part y z z.part" || contents(t, filepath.Join(dir, "y")) != "of another" {
		t.Errorf("%s; y: %s", got, contents(t, filepath.Join(dir, "y")))
	}
}

// Of a link the file at its end is replaced, or made.
func TestExportToALink(t *testing.T) {
	c, want := exporter(t)
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, filepath.FromSlash(name)) }
	for _, sub := range []string{"a/b", "c"} {
		if err := os.MkdirAll(in(sub), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	makeFile(t, in("a/old"), "old", 0o600)
	makeLink(t, filepath.Join("a", "b"), in("linked"))
	makeLink(t, filepath.Join("..", "old"), in("a/b/first"))
	makeLink(t, filepath.Join("linked", "first"), in("second"))
	makeLink(t, filepath.Join("c", "new"), in("dangling"))
	makeLink(t, filepath.Join("absent", "new"), in("lost"))

	c.fails(exitFailed, "second: the file is there", "export", in("second"))
	c.ok("export", in("second"), "--force")
	c.ok("export", in("dangling"))
	c.fails(exitFailed, "lost: no such file", "export", in("lost"))
	for _, name := range []string{"linked", "a/b/first", "second", "dangling", "lost"} {
		if info, err := os.Lstat(in(name)); err != nil || info.Mode()&fs.ModeSymlink == 0 {
			t.Errorf("%s is no link: %v, %v", name, info, err)
		}
	}
	for _, name := range []string{"a/old", "c/new"} {
		if got := contents(t, in(name)); got != want {
			t.Errorf("%s: %s", name, got)
		}
	}
	for sub, want := range map[string]string{"": "a c dangling linked lost second", "a": "b old", "a/b": "first", "c": "new"} {
		if got := namesIn(t, in(sub)); got != want {
			t.Errorf("%s/: %s, want %s", sub, got, want)
		}
	}
}

// A file that is replaced keeps its mode; a new one has that of any new file.
func TestExportKeepsTheMode(t *testing.T) {
	c, _ := exporter(t)
	dir := t.TempDir()
	mode := func(name string) fs.FileMode {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return info.Mode()
	}
	for _, perm := range []fs.FileMode{0o600, 0o640, 0o666, 0o777} {
		makeFile(t, filepath.Join(dir, "old"), "old", perm)
		want := mode("old")
		c.ok("export", filepath.Join(dir, "old"), "--force")
		if got := mode("old"); got != want {
			t.Errorf("the mode is %v, and was %v", got, want)
		}
	}
	c.ok("export", filepath.Join(dir, "new"))
	if got, want := mode("new"), mode("old")&^0o777|0o600; runtime.GOOS != "windows" && got != want {
		t.Errorf("the mode of a new file is %v, want %v", got, want)
	}
}

// An export that is interrupted leaves what was there, and nothing else.
func TestExportInterrupted(t *testing.T) {
	c := newCLI(t)
	var lines strings.Builder
	for i := range 1200 {
		fmt.Fprintf(&lines, `{"user":"u","text":"line %d"}`+"\n", i)
	}
	c.ok("import", c.file("many.jsonl", lines.String()))
	dir := t.TempDir()
	file := filepath.Join(dir, "old")
	makeFile(t, file, "old", 0o600)
	db, err := engine.Open(c.dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, name := range []string{"old", "new"} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		between := ""
		opts := &exchange.ExportOptions{Progress: func(exchange.ExportReport) {
			between = namesIn(t, dir)
			cancel()
		}}
		if err := (&app{}).exportFile(ctx, db, filepath.Join(dir, name), true, opts); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
		if runtime.GOOS == "linux" && between != "old" { // what is not whole has no name
			t.Errorf("%s: meanwhile there were %s", name, between)
		}
		if got := namesIn(t, dir); got != "old" || contents(t, file) != "old" {
			t.Errorf("%s: %s are left; old: %s", name, got, contents(t, file))
		}
	}
}

// TestExportRemovesWhatWasLeft verifies that an export removes what killed ones left of the same file, but no file that
// is being written, nor one with another name.
func TestExportRemovesWhatWasLeft(t *testing.T) {
	c, want := exporter(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "x")
	for _, name := range []string{"x.ABCDEFGH.part", "x.part", "x.abcdefgh.part", "y.ABCDEFGH.part"} {
		makeFile(t, filepath.Join(dir, name), "plain text", 0o600)
	}
	busy, err := os.OpenFile(filepath.Join(dir, "x.AAAAAAAA.part"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil || !claim(busy) {
		t.Fatal(err)
	}
	defer busy.Close()
	c.ok("export", file)
	if got := namesIn(t, dir); contents(t, file) != want || runtime.GOOS != "windows" && got != "x x.AAAAAAAA.part x.abcdefgh.part x.part y.ABCDEFGH.part" {
		t.Errorf("there are %s", got)
	}
	pages := filepath.Join(dir, "pages")
	c.ok("export", pages, "--format", "markdown")
	before := namesIn(t, pages)
	makeFile(t, filepath.Join(pages, "a.md.ABCDEFGH.part"), "plain text", 0o600)
	if c.ok("export", pages, "--format", "markdown", "--force"); namesIn(t, pages) != before {
		t.Errorf("pages: %s", namesIn(t, pages))
	}
}

// Two exports to one name are both whole. Without --force the second is none.
func TestTwoExportsToOneName(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "x")
	for _, force := range []bool{true, false} {
		var both [2]*target
		for i := range both {
			var err error
			if both[i], err = openTarget(t.Context(), file, force); err != nil {
				t.Fatal(err)
			}
		}
		for i, to := range both {
			if _, err := io.WriteString(to, strings.Repeat(fmt.Sprint(i), 10+i)); err != nil {
				t.Fatal(err)
			}
		}
		want := []string{"0000000000", "11111111111"}
		if err := both[0].end(nil); err != nil || contents(t, file) != want[0] {
			t.Errorf("the first: %v, %s", err, contents(t, file))
		}
		err := both[1].end(nil)
		if force && (err != nil || contents(t, file) != want[1]) || !force && (!errors.Is(err, memory.ErrExists) || contents(t, file) != want[0]) {
			t.Errorf("the second, force %t: %v, %s", force, err, contents(t, file))
		}
		if got := namesIn(t, dir); got != "x" {
			t.Errorf("left are %s", got)
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
}

// Errors name the file that was given, whatever failed.
func TestExportErrors(t *testing.T) {
	c, _ := exporter(t)
	dir := t.TempDir()
	absent := filepath.Join(dir, "absent", "x")
	c.fails(exitFailed, "open "+absent+": ", "export", absent)

	file := filepath.Join(dir, "x")
	to, err := openTarget(t.Context(), file, true)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(file, "full"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := to.end(nil); err == nil || !strings.Contains(err.Error(), file+": ") || strings.Contains(err.Error(), ".part") {
		t.Errorf("a folder came up: %v", err)
	}
	if got := namesIn(t, dir); got != "x" {
		t.Errorf("left are %s", got)
	}

	closed, err := openTarget(t.Context(), filepath.Join(dir, "y"), false)
	if err != nil {
		t.Fatal(err)
	}
	closed.file.Close()
	for _, write := range []func() error{
		func() error { _, err := io.WriteString(closed, "x"); return err },
		func() error { return closed.end(nil) },
	} {
		if err := write(); err == nil || !strings.Contains(err.Error(), closed.name+": ") || strings.Contains(err.Error(), ".part") {
			t.Errorf("a closed file: %v", err)
		}
	}
	if got := namesIn(t, dir); !slices.Equal(strings.Fields(got), []string{"x"}) {
		t.Errorf("left are %s", got)
	}
}
