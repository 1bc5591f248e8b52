//go:build unix

package cli

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// fifo makes a named pipe.
func fifo(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Skipf("skipped: a pipe could not be made: %v", err)
	}
	return name
}

// A pipe is written, and stays one; through a link as well.
func TestExportToAPipe(t *testing.T) {
	c, want := exporter(t)
	pipe := fifo(t)
	linked := filepath.Join(filepath.Dir(pipe), "linked")
	makeLink(t, "pipe", linked)
	for _, args := range [][]string{{pipe}, {pipe, "--force"}, {linked}} {
		// Open at both ends, it waits for nobody; what is written fits in.
		reader, err := os.OpenFile(pipe, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		c.ok(append([]string{"export"}, args...)...)
		got := make([]byte, len(want)+1)
		if n, err := reader.Read(got); string(got[:n]) != want {
			t.Errorf("%q: %q, %v", args, got[:n], err)
		}
		reader.Close()
		if info, err := os.Lstat(pipe); err != nil || info.Mode()&fs.ModeNamedPipe == 0 || namesIn(t, filepath.Dir(pipe)) != "linked pipe" {
			t.Errorf("%q: the pipe is %v, %v, beside %s", args, info.Mode(), err, namesIn(t, filepath.Dir(pipe)))
		}
	}
}

// Where the name is that of the output, nothing follows the export.
func TestExportToTheOutput(t *testing.T) {
	c, want := exporter(t)
	pipe := fifo(t)
	out, err := os.OpenFile(pipe, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	con := c.console
	var stderr bytes.Buffer
	con.out, con.err = out, &stderr
	if code := run(t.Context(), []string{"--db", c.dir, "export", pipe}, con); code != exitDone {
		t.Fatalf("exit %d, %s", code, stderr.String())
	}
	got := make([]byte, 2*len(want))
	if n, err := out.Read(got); string(got[:n]) != want {
		t.Errorf("%q, %v", got[:n], err)
	}
}

// An interrupt ends an export that waits for the one who reads: before the first
// byte, and in a pipe that is full.
func TestExportToAPipeInterrupted(t *testing.T) {
	c := newCLI(t)
	var lines strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&lines, `{"user":"u","text":"%d %s"}`+"\n", i, strings.Repeat("x", 1000))
	}
	c.ok("import", c.file("many.jsonl", lines.String()))
	for _, read := range []bool{false, true} {
		pipe := fifo(t)
		if read {
			reader, err := os.OpenFile(pipe, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer reader.Close()
			if reader.SetReadDeadline(time.Now()) != nil {
				t.Log("skipped: writes to a pipe can't be ended")
				continue
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(300*time.Millisecond, cancel)
		con := c.console
		var stdout, stderr bytes.Buffer
		con.out, con.err = &stdout, &stderr
		code := run(ctx, []string{"--db", c.dir, "export", pipe}, con)
		if code != exitFailed || stderr.String() != "memdbctl: interrupted\n" {
			t.Errorf("read %t: exit %d, %q", read, code, stderr.String())
		}
	}
}
