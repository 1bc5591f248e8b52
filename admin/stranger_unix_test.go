//go:build linux || darwin

package admin_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// nobody is a user that owns nothing.
const nobody = 65534

// TestStrangersListen: a folder that leads to another user's socket gets a refusal, and its server
// nothing: neither the environment nor the input.
func TestStrangersListen(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can be two users")
	}
	p, path, said := withStranger(t)
	for _, args := range [][]string{{"list", "--all-scopes"}, {"store", "-", "--user", "u"}, {"fact", "add", "x", "--user", "u"}} {
		out, errs, code := p.run("the input", args...)
		if code != 1 || out != "" || !strings.Contains(errs, "user 65534") || !strings.Contains(errs, "who made the folder") {
			t.Errorf("%v: exit %d, %q, %q", args, code, out, errs)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if got := said(); got != "" {
		t.Errorf("the stranger heard %q", got)
	}
}

// withStranger is a folder whose socket another user has made. said ends that user's process and
// returns what it heard.
func withStranger(t *testing.T) (p *place, path string, said func() string) {
	t.Helper()
	open, err := os.MkdirTemp("/tmp", "memdb-stranger-") //nolint:usetesting // another user has to enter
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(open) })
	p = &place{T: t, dir: filepath.Join(open, "db"), work: t.TempDir()}
	if err := errors.Join(os.Chmod(open, 0o777), os.Mkdir(p.dir, 0o777), os.Chmod(p.dir, 0o777)); err != nil {
		t.Fatal(err)
	}
	self := filepath.Join(open, "self") // the test, where that user can read it
	copySelf(t, self)
	path = filepath.Join(p.dir, "memdb.sock")
	stranger := exec.CommandContext(t.Context(), self)
	stranger.Env = []string{asStranger + "=" + path}
	stranger.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := stranger.StdoutPipe()
	if err == nil {
		err = stranger.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, len("listening\n"))); err != nil {
		t.Fatal(err)
	}
	return p, path, func() string {
		c, err := net.Dial("unix", path+".end")
		if err == nil {
			err = c.Close()
		}
		if err != nil {
			t.Error(err)
		}
		b, err := io.ReadAll(out)
		if err := errors.Join(err, stranger.Wait()); err != nil {
			t.Error(err)
		}
		return string(b)
	}
}

func copySelf(t *testing.T, to string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(self)
	if err == nil {
		err = os.WriteFile(to, b, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func init() { beStranger = strange }

// strange listens at a path and says what it hears, until somebody connects to another path.
func strange(path string) {
	l, err := net.Listen("unix", path)
	if err != nil {
		panic(err)
	}
	end, err := net.Listen("unix", path+".end")
	if err == nil {
		err = os.Chmod(path, 0o777)
	}
	if err != nil {
		panic(err)
	}
	fmt.Fprintln(os.Stdout, "listening")
	go func() {
		for {
			if c, err := l.Accept(); err == nil {
				_, _ = io.Copy(os.Stdout, c) // until the other end leaves
			}
		}
	}()
	_, _ = end.Accept()
}

// TestStrangersAsk: a client of another user is sent away, whatever the mode of the socket.
func TestStrangersAsk(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can be two users")
	}
	open, err := os.MkdirTemp("/tmp", "memdb-stranger-") //nolint:usetesting // another user has to enter
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(open) })
	p := &place{T: t, dir: filepath.Join(open, "db"), work: t.TempDir()}
	p.open()
	p.ok("", "store", "a secret", "--agent", "a")
	self := filepath.Join(open, "self")
	copySelf(t, self)
	for _, path := range []string{open, p.dir, p.server.Path()} {
		if err := os.Chmod(path, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), self, "--db", p.dir, "list", "--all-scopes")
	cmd.Env, cmd.Dir = []string{asMemdbctl + "=1"}, open
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	if err == nil || strings.Contains(string(out), "secret") {
		t.Errorf("%v: %s", err, out)
	}
}

// TestOddSockets: what stands in a folder under the names of a socket is neither followed, waited
// for, nor read without a bound.
func TestOddSockets(t *testing.T) {
	long := strings.Repeat("/x", 1<<20)
	for name, place := range map[string]func(path string) error{
		"a link to zeros": func(path string) error { return os.Symlink("/dev/zero", path) },
		"a link":          func(path string) error { return os.Symlink("/etc/passwd", path) },
		"a pipe":          func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"a folder":        func(path string) error { return os.Mkdir(path, 0o700) },
		"a long file":     func(path string) error { return os.WriteFile(path, []byte(long), 0o600) },
		"another folder":  func(path string) error { return os.WriteFile(path, []byte("../x.sock\n"), 0o600) },
		"a file":          func(path string) error { return os.WriteFile(path, []byte("/etc/passwd\n"), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			p := serve(t)
			p.ok("", "store", "tea", "--agent", "a")
			p.close()
			if err := place(filepath.Join(p.dir, "memdb.socket")); err != nil {
				t.Fatal(err)
			}
			if out, errs, code := p.run("", "list", "--agent", "a"); code != 1 || out != "" || !strings.Contains(errs, "memdb.socket in it") {
				t.Errorf("exit %d, %q, %q", code, out, errs)
			}
			p.open() // replaces it where it is no folder, or is in nobody's way
		})
	}
}

// TestIdleClients: clients that say nothing, or half of what they want, keep nobody waiting.
func TestIdleClients(t *testing.T) {
	p := serve(t)
	soon(t, "a verb beside idle clients", 5*time.Second, func() { // an idle one may take ten
		for i := range 300 {
			c, err := net.Dial("unix", p.server.Path())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = c.Close() }()
			if i%2 == 0 {
				continue
			}
			if _, err := io.WriteString(c, "V\xff\xff\x3f\x00{"); err != nil && !errors.Is(err, syscall.EPIPE) {
				t.Fatal(err)
			}
		}
		p.ok("", "store", "works", "--agent", "a")
	})
}
