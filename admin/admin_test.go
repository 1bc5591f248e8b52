package admin_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/admin"
	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/internal/cli"
	"github.com/seed-7aedc3ff/memdb/memory"
)

const (
	asMemdbctl = "MEMDB_ADMIN_TEST_CTL"
	asProgram  = "MEMDB_ADMIN_TEST_PROGRAM"  // names the folder that it serves
	asStranger = "MEMDB_ADMIN_TEST_STRANGER" // names where another user listens
)

// beStranger listens as another user, where a test can be one.
var beStranger func(path string)

// TestMain lets the test binary be memdbctl, and a program that serves a database.
func TestMain(m *testing.M) {
	switch dir := os.Getenv(asProgram); {
	case os.Getenv(asMemdbctl) != "":
		os.Exit(cli.Main(os.Args[1:], func(db *engine.DB) (io.Closer, error) { return admin.Serve(db, "") }))
	case os.Getenv(asStranger) != "":
		beStranger(os.Getenv(asStranger))
		return
	case dir != "":
		serveForever(dir)
	}
	os.Exit(m.Run())
}

func serveForever(dir string) {
	db, err := engine.Open(dir, nil)
	if err != nil {
		panic(err)
	}
	if _, err := admin.Serve(db, ""); err != nil {
		panic(err)
	}
	fmt.Fprintln(os.Stdout, "serving")
	select {}
}

// place is a database that a program serves, and a working folder for memdbctl.
type place struct {
	*testing.T
	dir, work string
	db        *engine.DB
	server    *admin.Server
}

func serve(t *testing.T) *place {
	t.Helper()
	p := &place{T: t, dir: filepath.Join(t.TempDir(), "db"), work: t.TempDir()}
	p.open()
	return p
}

func (p *place) open() {
	p.Helper()
	var err error
	if p.db, err = engine.Open(p.dir, nil); err != nil {
		p.Fatal(err)
	}
	if p.server, err = admin.Serve(p.db, ""); err != nil {
		p.Fatal(err)
	}
	p.Cleanup(p.close)
}

func (p *place) close() {
	p.Helper()
	if err := errors.Join(p.server.Close(), p.db.Close()); err != nil {
		p.Error(err)
	}
}

// ctl is memdbctl in a process of its own.
func (p *place) ctl(ctx context.Context, in io.Reader, args ...string) *exec.Cmd {
	p.Helper()
	self, err := os.Executable()
	if err != nil {
		p.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, self, append([]string{"--db", p.dir}, args...)...)
	cmd.Env = append(os.Environ(), asMemdbctl+"=1")
	cmd.Dir, cmd.Stdin = p.work, in
	return cmd
}

// run runs it, and returns what it said and its exit code.
func (p *place) run(in string, args ...string) (out, errs string, code int) {
	p.Helper()
	cmd := p.ctl(p.Context(), strings.NewReader(in), args...)
	var o, e bytes.Buffer
	cmd.Stdout, cmd.Stderr = &o, &e
	err := cmd.Run()
	if err != nil && cmd.ProcessState == nil {
		p.Fatal(err)
	}
	return o.String(), e.String(), cmd.ProcessState.ExitCode()
}

func (p *place) ok(in string, args ...string) string {
	p.Helper()
	out, errs, code := p.run(in, args...)
	if code != 0 {
		p.Fatalf("memdbctl %s: exit %d: %s", strings.Join(args, " "), code, errs)
	}
	return out
}

// TestVerbs: verbs run in the program that holds the database as they do without it: what they
// print, their files, their input and their exit codes are the same.
func TestVerbs(t *testing.T) {
	p := serve(t)
	if info, err := os.Stat(p.server.Path()); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket: %v, %v", info, err)
	}
	p.ok("", "store", "tea in the garden", "--agent", "a", "--id", "one")
	p.ok("from the input", "store", "-", "--agent", "a", "--id", "two")
	if err := os.WriteFile(filepath.Join(p.work, "in.jsonl"), []byte(`{"type":"memory","id":"three","agent":"a","text":"coffee at noon"}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.ok("", "import", "in.jsonl")
	p.ok(`{"type":"memory","id":"four","agent":"a","text":"rain"}`, "import", "-")
	p.ok("", "kv", "put", "k", `{"n":1}`, "--agent", "a")
	p.ok("", "fact", "add", "I prefer tea to coffee", "--user", "ada")
	spent := []string{"usage", "add", "--agent", "a", "--model", "m", "--request-id", "r1", "--json"}
	if first, again := p.ok("", spent...), p.ok("", spent...); strings.Replace(again, `,"repeated":true`, "", 1) != first || again == first {
		t.Errorf("a request again: %s, first %s", again, first)
	}
	if m, err := p.db.Memories().Get(t.Context(), memory.Scope{Agent: "a"}, "two"); err != nil || m.Text != "from the input" {
		t.Fatalf("the program sees %+v, %v", m, err)
	}
	p.ok("", "export", "out.jsonl")
	if b, err := os.ReadFile(filepath.Join(p.work, "out.jsonl")); err != nil || !strings.Contains(string(b), "coffee at noon") {
		t.Errorf("the export: %q, %v", b, err)
	}
	type said struct {
		out, errs string
		code      int
	}
	verbs := []struct {
		in   string
		args []string
	}{
		{"", []string{"list", "--agent", "a"}},
		{"", []string{"list", "--agent", "a", "--json"}},
		{"", []string{"list", "--agent", "a", "--count"}},
		{"", []string{"recall", "tea", "--agent", "a", "--no-touch", "--profile", "text"}},
		{"", []string{"get", "one", "--agent", "a", "--json"}},
		{"", []string{"get", "nobody", "--agent", "a"}},
		{"", []string{"get"}},
		{"", []string{"lost"}},
		{"", []string{"kv", "get", "k", "--agent", "a"}},
		{"", []string{"fact", "list", "--user", "ada", "--json"}},
		{"", []string{"check"}},
		{"", []string{"export", "-"}},
		{"", []string{"import", "none.jsonl"}},
		{"", []string{"--version"}},
		{"list --agent a\nget nobody --agent a\n", []string{"shell"}},
	}
	var there []said
	for _, v := range verbs {
		out, errs, code := p.run(v.in, v.args...)
		there = append(there, said{out, errs, code})
	}
	p.close()
	for i, v := range verbs {
		out, errs, code := p.run(v.in, v.args...)
		if got, here := there[i], (said{out, strings.ReplaceAll(errs, "none.jsonl", filepath.Join(p.work, "none.jsonl")), code}); got != here && (got != said{out, errs, code}) {
			t.Errorf("memdbctl %s: in the program %+v, by itself %+v", strings.Join(v.args, " "), got, here)
		}
	}
	p.open()
}

// TestGone: a program that is killed while a verb runs ends the verb with an error, and what it
// leaves behind is in nobody's way.
func TestGone(t *testing.T) {
	p := &place{T: t, dir: filepath.Join(t.TempDir(), "db"), work: t.TempDir()}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := exec.CommandContext(t.Context(), self)
	program.Env = append(os.Environ(), asProgram+"="+p.dir)
	said, err := program.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(said, make([]byte, len("serving"))); err != nil {
		t.Fatal(err)
	}
	p.ok("", "store", "kept", "--agent", "a")
	in, typed := io.Pipe()
	verb := p.ctl(t.Context(), in, "import", "-", "--agent", "a")
	var errs bytes.Buffer
	verb.Stderr = &errs
	if err := verb.Start(); err != nil {
		t.Fatal(err)
	}
	// More than pipes hold: the verb runs once it is written.
	for i := range 20_000 {
		if _, err := fmt.Fprintf(typed, `{"type":"memory","agent":"a","text":"half %d"}`+"\n", i); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(program.Process.Kill(), typed.Close()); err != nil {
		t.Fatal(err)
	}
	_ = program.Wait() // it was killed
	if err := verb.Wait(); err == nil || verb.ProcessState.ExitCode() != 1 || !strings.Contains(errs.String(), "try again") {
		t.Errorf("%v: %s", err, errs.String())
	}
	if out := p.ok("", "list", "--agent", "a"); !strings.Contains(out, "kept") {
		t.Errorf("afterwards %q", out)
	}
	p.open()
	if out := p.ok("", "list", "--agent", "a"); !strings.Contains(out, "kept") {
		t.Errorf("in another program %q", out)
	}
}

// TestCancel: a client that is gone cancels its verb, and Close those that run.
func TestCancel(t *testing.T) {
	t.Parallel() // it waits
	p := serve(t)
	for _, end := range []func(verb *exec.Cmd){
		func(verb *exec.Cmd) { _ = verb.Process.Signal(os.Interrupt) },
		func(verb *exec.Cmd) { _ = verb.Process.Kill() },
		func(*exec.Cmd) {
			if err := p.server.Close(); err != nil {
				t.Error(err)
			}
		},
	} {
		verb := p.ctl(t.Context(), nil, "import", "-", "--agent", "a")
		typed, err := verb.StdinPipe() // open until it has ended: the end of its input would end it, too
		if err != nil {
			t.Fatal(err)
		}
		if err := verb.Start(); err != nil {
			t.Fatal(err)
		}
		// More than pipes and sockets hold: the last is taken once the program reads it.
		line := `{"type":"memory","agent":"a","text":"half of ` + strings.Repeat("it ", 400) + `"}` + "\n"
		if _, err := io.WriteString(typed, strings.Repeat(line, 1000)); err != nil {
			t.Fatal(err)
		}
		end(verb)
		if err := verb.Wait(); err == nil {
			t.Error("the verb was not cancelled")
		}
	}
	if _, err := os.Stat(p.server.Path()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket after Close: %v", err)
	}
}

// TestManyAtOnce: clients beside each other are all answered, and what is no client harms nobody.
func TestManyAtOnce(t *testing.T) {
	p := serve(t)
	for _, garbage := range []string{"", "GET / HTTP/1.1\r\n\r\n", "V\xff\xff\xff\xff", "V\x02\x00\x00\x00{]", "I\x00\x00\x00\x00"} {
		c, err := net.Dial("unix", p.server.Path())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, garbage); err != nil {
			t.Error(err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	var all sync.WaitGroup
	const clients = 50
	for i := range clients {
		all.Go(func() {
			out, errs, code := p.run("", "store", fmt.Sprint("text ", i), "--agent", "a")
			if code != 0 {
				t.Errorf("client %d: exit %d, %s%s", i, code, out, errs)
			}
		})
	}
	all.Wait()
	if n, err := p.db.Memories().Count(t.Context(), memory.ListQuery{Scope: memory.Scope{Agent: "a"}}); err != nil || n != clients {
		t.Errorf("%d memories, %v", n, err)
	}
}

// TestServeRefuses: what cannot be served is refused, and a socket that nobody listens at is
// replaced.
func TestServeRefuses(t *testing.T) {
	p := serve(t)
	if _, err := admin.Serve(p.db, ""); !errors.Is(err, memory.ErrLocked) {
		t.Errorf("twice: %v", err)
	}
	inMemory, err := engine.OpenMemory(nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := admin.Serve(inMemory, ""); !errors.Is(err, memory.ErrInvalid) {
		t.Errorf("in memory: %v", err)
	}
	if err := inMemory.Close(); err != nil {
		t.Error(err)
	}
	file := filepath.Join(p.work, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.Serve(p.db, file); !errors.Is(err, memory.ErrExists) {
		t.Errorf("at a file: %v", err)
	}
	if err := p.server.Close(); err != nil {
		t.Fatal(err)
	}
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: p.server.Path(), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	stale.SetUnlinkOnClose(false)
	if err := stale.Close(); err != nil {
		t.Fatal(err)
	}
	if p.server, err = admin.Serve(p.db, ""); err != nil {
		t.Fatalf("after one that is gone: %v", err)
	}
	p.ok("", "store", "works", "--agent", "a")
}

// TestLongPath: a folder whose name is too long for a socket is served from elsewhere.
func TestLongPath(t *testing.T) {
	p := &place{T: t, dir: filepath.Join(t.TempDir(), strings.Repeat("long", 30), "db"), work: t.TempDir()}
	p.open()
	p.ok("", "store", "works", "--agent", "a")
	if strings.HasPrefix(p.server.Path(), p.dir) {
		t.Errorf("the socket lies at %s", p.server.Path())
	}
}

// TestNobodyServes: a verb that only reads soon gives up on a database that is held, and says by
// whom.
func TestNobodyServes(t *testing.T) {
	p := serve(t)
	if err := p.server.Close(); err != nil {
		t.Fatal(err)
	}
	soon(t, "a verb that reads", 4*time.Second, func() { // of the five that others wait
		out, errs, code := p.run("", "list", "--agent", "a")
		if code != 4 || out != "" || !strings.Contains(errs, fmt.Sprint("pid ", os.Getpid())) {
			t.Errorf("exit %d, %q, %q", code, out, errs)
		}
	})
}

// soon holds a call to a time. A machine that is busy with other work may be late, but not at each of
// several tries.
func soon(t *testing.T, what string, most time.Duration, call func()) {
	t.Helper()
	const tries = 5
	var took time.Duration
	for range tries {
		began := time.Now()
		call()
		if took = time.Since(began); took <= most || t.Failed() {
			return
		}
	}
	t.Errorf("%s took more than %v in each of %d tries, at last %v", what, most, tries, took)
}

// TestFollow: a verb that follows the log beside the program that writes has each change at once,
// and Ctrl-C ends it cleanly.
func TestFollow(t *testing.T) {
	p := serve(t)
	verb := p.ctl(t.Context(), nil, "log", "tail", "--follow", "--json", "--agent", "a")
	verb.Stdout = nil
	out, err := verb.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := verb.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for _, text := range []string{"first", "second"} {
		if _, err := p.db.Memories().Store(t.Context(), memory.Memory{Scope: memory.Scope{Agent: "a"}, Text: text}, nil); err != nil {
			t.Fatal(err)
		}
		if !lines.Scan() || !strings.Contains(lines.Text(), `"text":"`+text+`"`) {
			t.Errorf("after the store of %s: %s", text, lines.Text())
		}
	}
	if err := verb.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() {
		t.Errorf("then %s", lines.Text())
	}
	if err := verb.Wait(); err != nil {
		t.Errorf("Ctrl-C: %v", err)
	}
}

// TestArchiveBeside: beside a program that runs, archive goes on with --follow until it is interrupted, and
// brings another archive up to now; backups are taken there, too.
func TestArchiveBeside(t *testing.T) {
	t.Parallel() // it waits
	p := serve(t)
	place := t.TempDir()
	store := func(text string) uint64 {
		t.Helper()
		if _, err := p.db.Memories().Store(t.Context(), memory.Memory{Scope: memory.Scope{Agent: "a"}, Text: text}, nil); err != nil {
			t.Fatal(err)
		}
		return p.db.LSN()
	}
	store("before")
	verb := p.ctl(t.Context(), nil, "archive", filepath.Join(place, "followed"), "--follow", "--json")
	verb.Stdout = nil
	out, err := verb.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := verb.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	reached := func(lsn uint64) {
		t.Helper()
		for lines.Scan() {
			var at struct {
				LSN uint64 `json:"lsn"`
			}
			if err := json.Unmarshal(lines.Bytes(), &at); err != nil {
				t.Fatal(err)
			}
			if at.LSN >= lsn {
				return
			}
		}
		t.Errorf("the archive never came to LSN %d", lsn)
	}
	reached(1)
	reached(store("meanwhile"))
	if err := verb.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() {
		continue
	}
	if err := verb.Wait(); err != nil {
		t.Errorf("Ctrl-C: %v", err)
	}
	for _, verb := range [][]string{{"archive", filepath.Join(place, "once")}, {"backup", filepath.Join(place, "repo")}} {
		c := p.ctl(t.Context(), nil, append(verb, "--json")...)
		c.Stdout = nil
		if got, err := c.Output(); err != nil || !strings.Contains(string(got), `"lsn":`+strconv.FormatUint(p.db.LSN(), 10)) {
			t.Errorf("%v: %s, %v", verb, got, err)
		}
	}
}

// TestOldClient verifies that memdbctl 0.3, which sends a frame first, gets one sentence with the version that holds the database.
func TestOldClient(t *testing.T) {
	p := serve(t)
	const asked = `{"args":["list","--agent","a"],"dir":"/"}` // as memdbctl 0.3 sends it
	c, err := net.Dial("unix", p.server.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "V"+string([]byte{byte(len(asked)), 0, 0, 0})+asked); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(c)
	if err != nil || len(got) < 11 {
		t.Fatalf("%q, %v", got, err)
	}
	said, exit := string(got[5:len(got)-6]), string(got[len(got)-6:])
	if got[0] != 'E' || int(got[1]) != len(said) || exit != "X\x01\x00\x00\x00\x01" || !strings.HasPrefix(said, "memdbctl: the program that holds the database has memdb ") || strings.Count(said, "\n") != 1 {
		t.Errorf("%q", got)
	}
}

// TestOldProgram: memdbctl beside a program with memdb 0.3, which ends a connection that begins with no frame, says so in
// one sentence.
func TestOldProgram(t *testing.T) {
	p := &place{T: t, dir: filepath.Join(t.TempDir(), "db"), work: t.TempDir()}
	p.ok("", "kv", "put", "k", "1", "--agent", "a")
	l, err := net.Listen("unix", filepath.Join(p.dir, "memdb.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.ReadFull(c, make([]byte, 5))
			_ = c.Close()
		}
	}()
	for _, verb := range [][]string{{"list", "--agent", "a"}, {"kv", "get", "k", "--agent", "a"}, {"mcp", "--agent", "a"}} {
		out, errs, code := p.run("", verb...)
		if code != 1 || out != "" || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, "memdb 0.3 or earlier") || !strings.Contains(errs, "use the memdbctl of its version") {
			t.Errorf("%v: exit %d, %q, %q", verb, code, out, errs)
		}
	}
}
