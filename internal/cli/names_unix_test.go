//go:build unix

package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLinkedLocks: verbs that read change nothing of what the names in a folder lead to.
func TestLinkedLocks(t *testing.T) {
	c := newCLI(t)
	c.ok("store", "tea", "--user", "ada")
	for _, name := range []string{"memdb.lock", "store/LOCK", "memdb.mark", "store/logs.mark", "memdb.holder"} {
		target, path := filepath.Join(t.TempDir(), "target"), filepath.Join(c.dir, name)
		_ = os.Remove(path) // some are there only at times
		if err := errors.Join(os.WriteFile(target, []byte("mine"), 0o600), os.Symlink(target, path)); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{"list", "--user", "ada"}, {"stats"}, {"check"}, {"export", "-"}, {"rescue", c.dir, target + ".rescued"}} {
			if r := c.run(args...); r.code == 0 || !strings.Contains(r.out+r.err, name+" is a link") {
				t.Errorf("%s as a link: %s: exit code %d, %s%s", name, args[0], r.code, r.out, r.err)
			}
		}
		if b, err := os.ReadFile(target); err != nil || string(b) != "mine" {
			t.Errorf("%s as a link: the target is now %q, %v", name, b, err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	c.ok("list", "--user", "ada")
}

// TestWideFolderIsTold warns of a folder that others may enter, beside what was asked for.
func TestWideFolderIsTold(t *testing.T) {
	c := newCLI(t)
	c.ok("store", "tea", "--user", "ada")
	if err := os.Chmod(c.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if r := c.run("list", "--user", "ada"); r.code != 0 || !strings.Contains(r.out, "tea") || !strings.Contains(r.err, "(mode 0755): chmod 700 "+c.dir) {
		t.Errorf("%+v", r)
	}
}
