//go:build unix

package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// A signal ends the process cleanly while it waits for its input.
func TestInterrupt(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "db")
	cmd := exec.CommandContext(t.Context(), self, "--db", dir, "import", "-", "--format", "jsonl")
	cmd.Env = append(os.Environ(), "MEMDBCTL_TEST_MAIN=1")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(in, `{"user":"u","text":"one line, and no more for now"}`+"\n"); err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "memdb.json")); err == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != exitFailed || stderr.String() != "memdbctl: interrupted\n" {
		t.Errorf("%v, %q", err, stderr.String())
	}
	c := newCLI(t)
	c.dir = dir
	c.ok("check")
}
