//go:build unix

package cli

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// A signal ends the process cleanly while it waits for its input.
func TestInterrupt(t *testing.T) {
	// What is ignored here, as under nohup, would be ignored there, and what is caught
	// is not.
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGHUP)
	defer signal.Stop(caught)
	for _, sig := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		c := newCLI(t)
		p := c.startImport()
		if err := p.cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		if err := p.cmd.Wait(); p.cmd.ProcessState.ExitCode() != exitFailed || p.stderr.String() != "memdbctl: interrupted\n" {
			t.Errorf("%v: %v, %q", sig, err, p.stderr.String())
		}
		c.ok("check")
	}
}

// Under nohup the end of the terminal ends nothing.
func TestHangUpIgnored(t *testing.T) {
	c := newCLI(t)
	p := c.startImport("sh", "-c", `trap "" HUP; exec "$@"`, "sh")
	if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(p.in, `{"user":"u","text":"one more line"}`+"\n"); err != nil {
		t.Fatal(err)
	}
	p.in.Close()
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("%v, %q", err, p.stderr.String())
	}
	if got := c.objects("list", "--user", "u"); len(got) != 2 {
		t.Errorf("%d lines are stored", len(got))
	}
}

// waitingImport is a process that waits for the second line of its input.
type waitingImport struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	stderr bytes.Buffer
}

// startImport starts an import, by another program that is given.
func (c *cli) startImport(by ...string) *waitingImport {
	c.t.Helper()
	self, err := os.Executable()
	if err != nil {
		c.t.Fatal(err)
	}
	args := append(by, self, "--db", c.dir, "import", "-", "--format", "jsonl")
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute) // and is killed then
	c.t.Cleanup(cancel)
	p := &waitingImport{cmd: exec.CommandContext(ctx, args[0], args[1:]...)}
	p.cmd.Env = append(os.Environ(), "MEMDBCTL_TEST_MAIN=1")
	p.cmd.Stderr = &p.stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { p.in.Close() })
	if err := p.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	if _, err := io.WriteString(p.in, `{"user":"u","text":"one line, and no more for now"}`+"\n"); err != nil {
		c.t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(c.dir, "memdb.json")); err == nil {
			return p
		}
		time.Sleep(10 * time.Millisecond)
	}
}
