//go:build unix

package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A SQLite file that another program writes, or has open with a log beside it, is refused; one that
// another only reads is not.
func TestSQLiteLocked(t *testing.T) {
	whole, err := os.ReadFile(filepath.Join("..", "..", "exchange", "move", "testdata", "mem0.db"))
	if err != nil {
		t.Fatal(err)
	}
	logged := []byte(string(whole))
	logged[18], logged[19] = 2, 2 // it is one of those that have a log
	for _, test := range []struct {
		name string
		file []byte
		lock lockRange
		typ  int16
		says string
	}{
		{"written", whole, writersLock, unix.F_WRLCK, "another program has the SQLite file open"},
		{"read", whole, readersLock, unix.F_RDLCK, ""},
		{"held alone", whole, readersLock, unix.F_WRLCK, "another program writes the SQLite file"},
		{"open with a log", logged, readersLock, unix.F_RDLCK, "another program has the SQLite file open"},
		{"with a log, and closed", logged, lockRange{10, 1}, unix.F_RDLCK, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCLI(t)
			path := c.file("history.db", string(test.file))
			f, err := os.OpenFile(path, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = f.Close() }()
			lock := unix.Flock_t{Type: test.typ, Start: test.lock.start, Len: test.lock.len}
			if err := unix.FcntlFlock(f.Fd(), unix.F_SETLK, &lock); err != nil {
				t.Skipf("this disk has no locks: %v", err)
			}
			self, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), self, "--db", c.dir, "import", path, "--agent", "a") // a lock is one of a process
			cmd.Env = append(os.Environ(), "MEMDBCTL_TEST_MAIN=1")
			out, err := cmd.CombinedOutput()
			if (err == nil) != (test.says == "") || !strings.Contains(string(out), test.says) {
				t.Errorf("%v, %s", err, out)
			}
		})
	}
}
