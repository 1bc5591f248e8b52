package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// TestOneFile: verbs make and use one file, which is told by its name and by its magic, and convert
// makes a folder of it and a file again, with the same export.
func TestOneFile(t *testing.T) {
	c := newCLI(t)
	at := func(name string) string { return filepath.Join(filepath.Dir(c.dir), name) }
	c.dir = at("a.memdb")
	c.fails(1, "there is no such file", "list", "--user", "ada")
	c.ok("store", "--user", "ada", "The deploy runs at six.")
	c.ok("note", "add", "--user", "ada", "tea", "Green, no milk.")
	c.ok("kv", "put", "--user", "ada", "cart", `{"tea":2}`)
	if out := c.ok("recall", "--user", "ada", "deploy"); !strings.Contains(out, "The deploy runs at six.") {
		t.Errorf("recall: %s", out)
	}
	if s := c.objects("stats")[0]; s["form"] != "file" || s["disk_bytes"] != s["files"].(map[string]any)["file"] {
		t.Errorf("%v", s)
	}
	want := c.ok("export", "-")
	if s := c.objects("convert", c.dir, at("folder"))[0]; s["memories"] != 2.0 || s["bytes"].(float64) <= 0 {
		t.Errorf("%v", s)
	}
	c.ok("convert", at("folder"), at("other name"))
	c.ok("convert", at("folder"), at("other name")) // it finds what it would make
	c.fails(1, "it is there", "convert", c.dir, at("other name"))
	for path, form := range map[string]string{at("folder"): "folder", at("other name"): "file", at("a.memdb"): "file"} {
		c.dir = path
		if s := c.objects("stats")[0]; s["form"] != form {
			t.Errorf("%s is a %v", path, s["form"])
		}
		if got := c.ok("export", "-"); got != want {
			t.Errorf("%s exports\n%s\nwant\n%s", path, got, want)
		}
		c.ok("check", "--deep")
	}
	c.fails(2, "memdbctl convert", "--db", at("new.memdb"), "restore", at("folder"))
}

// TestOneFileBesideItsHolder verifies that commands that read return the last commit of a file that another program has
// open, with a note, and that commands that write fail with a next step.
func TestOneFileBesideItsHolder(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a reader needs the lock")
	}
	c := newCLI(t)
	c.dir = filepath.Join(filepath.Dir(c.dir), "a.memdb")
	c.ok("store", "--user", "ada", "--id", "m", "The deploy runs at six.")
	db, err := engine.Open(c.dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Memories().Store(t.Context(), memory.Memory{Scope: memory.Scope{User: "ada"}, Text: "Tea is green."}, nil); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(c.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"recall", "--user", "ada", "tea"}, {"list", "--user", "ada"}, {"get", "--user", "ada", "m"}, {"stats"}, {"export", "-"}, {"check"}, {"log", "tail"},
	} {
		if r := c.run(args...); r.code != exitDone || r.out == "" || !strings.Contains(r.err, "its last commit is read") {
			t.Errorf("%v: %+v", args, r)
		}
	}
	if out := c.ok("list", "--user", "ada"); !strings.Contains(out, "Tea is green.") {
		t.Errorf("%s", out)
	}
	c.fails(4, "held open by", "store", "--user", "ada", "More.")
	c.fails(4, "held open by", "log", "tail", "--follow")
	if after, err := os.ReadFile(c.dir); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the file was written: %v", err)
	}
}

// TestFolderWithTheNameOfAFile verifies that a folder whose name ends with .memdb is not taken for a new database.
func TestFolderWithTheNameOfAFile(t *testing.T) {
	c := newCLI(t)
	c.dir = filepath.Join(filepath.Dir(c.dir), "a.memdb")
	if err := os.Mkdir(c.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	c.fails(1, "remove the folder", "store", "--user", "ada", "The deploy runs at six.")
	c.fails(1, "remove the folder", "list", "--user", "ada")
	if err := os.Remove(c.dir); err != nil {
		t.Fatal("something was written there: ", err)
	}
	c.ok("store", "--user", "ada", "The deploy runs at six.")
	if s := c.objects("stats")[0]; s["form"] != "file" {
		t.Errorf("%v", s)
	}
}

// TestDamagedOneFile: a damaged file is exit code 5 and names the way on; rescue and --salvage bring
// what is whole.
func TestDamagedOneFile(t *testing.T) {
	c := newCLI(t)
	c.dir = filepath.Join(filepath.Dir(c.dir), "a.memdb")
	c.ok("store", "--user", "ada", "The deploy runs at six.")
	b, err := os.ReadFile(c.dir)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.LastIndex(b, []byte("mblk")) + 30 // the last block: versions of policies, names or texts
	b[at] ^= 1
	if err := os.WriteFile(c.dir, b, 0o600); err != nil {
		t.Fatal(err)
	}
	c.fails(5, "memdbctl rescue SRC DEST", "list", "--user", "ada")
	if r := c.run("check", "--json"); r.code != 5 || !strings.Contains(r.out, `"remedy":"rescue"`) || !strings.Contains(r.out, "block ") {
		t.Errorf("%+v", r)
	}
	if r := c.run("rescue", c.dir, c.dir+".rescued"); r.code != 0 || !strings.Contains(r.out, "lost: ") {
		t.Errorf("%+v", r)
	}
	if r := c.run("--salvage", "list", "--user", "ada"); !strings.Contains(r.err, "was salvaged: ") {
		t.Errorf("%+v", r)
	}
}

// TestMaxFile: the limit of one file can be raised and lowered by a variable.
func TestMaxFile(t *testing.T) {
	c := newCLI(t)
	c.dir = filepath.Join(filepath.Dir(c.dir), "a.memdb")
	c.ok("store", "--user", "ada", "The deploy runs at six.")
	most := "100"
	c.getenv = func(name string) string {
		if name == maxFileVariable {
			return most
		}
		return ""
	}
	c.fails(1, "memdbctl convert", "list", "--user", "ada")
	most = "much"
	c.fails(2, "is no number of bytes", "list", "--user", "ada")
	most = "1000000"
	c.ok("list", "--user", "ada")
}
