package daemon

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/cli"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// cliVariable has the test's program be memdbctl.
const cliVariable = "MEMDB_TEST_CLI"

func TestMain(m *testing.M) {
	if os.Getenv(cliVariable) != "" {
		os.Exit(cli.Main(os.Args[1:], nil))
	}
	debug.SetGCPercent(400) // for many small databases
	os.Exit(m.Run())
}

// daemon is a server that runs.
type daemon struct {
	dir, address string
	end          func() (code int, log string)
}

// lockedLog is a log that may be read while a connection that was cut off still writes to it.
type lockedLog struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (l *lockedLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(b)
}

func (l *lockedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

// start runs memdbd on a database in a new folder.
func start(t *testing.T, dir string, flags ...string) *daemon {
	t.Helper()
	return startAt(t, time.Now, dir, flags...)
}

// startAt runs memdbd with a clock.
func startAt(t *testing.T, now func() time.Time, dir string, flags ...string) *daemon {
	t.Helper()
	var log lockedLog
	listening := make(chan string, 1)
	p := &program{out: io.Discard, err: &log, getenv: func(string) (string, bool) { return "", false }, now: now, listening: func(a string) { listening <- a }}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	go func() {
		ended <- p.run(ctx, append([]string{"--db", dir, "--listen", "127.0.0.1:0", "--log", "json"}, flags...))
	}()
	d := &daemon{dir: dir, end: func() (int, string) { cancel(); return <-ended, log.String() }}
	select {
	case d.address = <-listening:
	case code := <-ended:
		t.Fatalf("it ended with %d: %s", code, log.String())
	}
	return d
}

// verb is a call of memdbctl.
type verb struct {
	dir, key, in, ca string
}

// run runs memdbctl and returns its output, its errors and its exit code.
func (v verb) run(t *testing.T, args ...string) (out, told string, code int) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe, args...)
	cmd.Dir = v.dir
	cmd.Env = append(os.Environ(), cliVariable+"=1", "MEMDB_KEY="+v.key, "MEMDB_CA="+v.ca, "MEMDB_CONFIG=")
	cmd.Stdin = strings.NewReader(v.in)
	var o, e bytes.Buffer
	cmd.Stdout, cmd.Stderr = &o, &e
	err = cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return o.String(), e.String(), exit.ExitCode()
	}
	if err != nil {
		t.Fatal(err)
	}
	return o.String(), e.String(), 0
}

// TestVerbs: memdbctl works on a server as on a folder, with its own files.
func TestVerbs(t *testing.T) {
	files := t.TempDir()
	d := start(t, filepath.Join(t.TempDir(), "db"), "--files", files)
	here := t.TempDir()
	if err := os.WriteFile(filepath.Join(here, "in.jsonl"), []byte(`{"type":"memory","id":"m1","user":"ada","text":"Ada likes green tea"}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	v := verb{dir: here}
	for _, c := range []struct {
		in   string
		args []string
		code int
		want string // in the output, or in what is told where it fails
	}{
		{"", []string{"import", "in.jsonl"}, 0, "stored 1"},
		{"", []string{"import", "none.jsonl"}, 1, "none.jsonl"},
		{"", []string{"recall", "tea", "--user", "ada"}, 0, "green tea"},
		{"typed\n", []string{"store", "-", "--user", "bob", "--id", "m2"}, 0, "m2"},
		{"", []string{"export", "out.jsonl"}, 0, "2 memories"},
		{"", []string{"export", "out.jsonl"}, 1, "--force"},
		{"", []string{"export", "out.jsonl", "--force"}, 0, "2 memories"},
		{"", []string{"export", "-"}, 0, `"typed"`},
		{"get m2\nget none --user ada\n", []string{"shell"}, 3, "line 2"},
		{"", []string{"backup", "repo"}, 0, "verified"},
		{"", []string{"backup", "../outside"}, 1, "folder of files"},
		{"", []string{"backup", "/outside"}, 1, "folder of files"},
		{"", []string{"demo"}, 2, "works on a folder"},
		{"", []string{"restore", "repo"}, 2, "works on a folder"},
		{"", []string{"no-such-verb"}, 2, "no verb"},
		{"", []string{"check", "--json"}, 0, `"ok":true`},
	} {
		v.in = c.in
		out, told, code := v.run(t, append([]string{"--db", d.address}, c.args...)...)
		text := out
		if c.code != 0 {
			text = told
		}
		if code != c.code || !strings.Contains(text, c.want) {
			t.Errorf("%v: %d, want %d with %q\n%s%s", c.args, code, c.code, c.want, out, told)
		}
	}
	if b, err := os.ReadFile(filepath.Join(here, "out.jsonl")); err != nil || bytes.Count(b, []byte("\n")) < 2 {
		t.Errorf("%s, %v", b, err)
	}
	if _, err := os.Stat(filepath.Join(files, "repo")); err != nil {
		t.Error(err)
	}
	// Beside the server the same folder is reached by its socket.
	if out, told, code := (verb{dir: here}).run(t, "--db", d.dir, "list", "--user", "ada"); code != 0 || !strings.Contains(out, "green tea") {
		t.Error(out, told, code)
	}
	if code, log := d.end(); code != 0 || !strings.Contains(log, `"route":"POST /memdb/v1/verbs"`) {
		t.Error(code, log)
	}
	if _, told, code := v.run(t, "--db", d.address, "list", "--all-scopes"); code != 1 || !strings.Contains(told, "see that memdbd listens there") {
		t.Error(told, code)
	}
}

// keyJSON is a key as the commands print it.
type keyJSON struct {
	ID, Key string
	Scope   *memory.Scope
	Admin   bool
}

// addKey makes a key by the command.
func addKey(t *testing.T, dir string, flags ...string) keyJSON {
	t.Helper()
	var out, told bytes.Buffer
	p := &program{out: &out, err: &told, getenv: func(string) (string, bool) { return "", false }, now: time.Now}
	if code := p.run(t.Context(), append([]string{"key", "add", "--db", dir, "--json"}, flags...)); code != 0 {
		t.Fatal(code, told.String())
	}
	var k keyJSON
	if err := json.Unmarshal(out.Bytes(), &k); err != nil || k.Key == "" {
		t.Fatal(out.String(), err)
	}
	return k
}

// TestVerbsOfKeys: a key of a scope runs the verbs of a scope, within it.
func TestVerbsOfKeys(t *testing.T) {
	d := start(t, filepath.Join(t.TempDir(), "db"))
	ada, bob, root := addKey(t, d.dir, "--user", "ada"), addKey(t, d.dir, "--user", "bob", "--agent", "planner"), addKey(t, d.dir, "--admin")
	if ada.Scope == nil || ada.Scope.User != "ada" || root.Scope != nil || !root.Admin {
		t.Fatal(ada, root)
	}
	for _, c := range []struct {
		key  string
		args []string
		code int
		want string
	}{
		{"", []string{"list", "--user", "ada"}, 1, "MEMDB_KEY"},
		{"memdb_wrong", []string{"list", "--user", "ada"}, 1, "MEMDB_KEY"},
		{ada.Key, []string{"store", "Ada's tea", "--id", "m1"}, 0, "m1"},
		{bob.Key, []string{"store", "Bob's milk", "--id", "m2"}, 0, "m2"},
		{ada.Key, []string{"list"}, 0, "Ada's tea"},
		{ada.Key, []string{"recall", "milk", "--json"}, 0, ""},
		{ada.Key, []string{"get", "m2"}, 3, "there is none in this scope"},
		{ada.Key, []string{"get", "m9"}, 3, "there is none in this scope"},
		{ada.Key, []string{"get", "m2", "--user", "bob"}, 1, `is not one of user "bob"`},
		{bob.Key, []string{"get", "m2"}, 0, "Bob's milk"},
		{bob.Key, []string{"get", "m2", "--user", "bob", "--agent", ""}, 1, "asks for what has none"},
		{ada.Key, []string{"recall", "milk", "--scope", `{"user":"bob"}`}, 1, "--scope"},
		{ada.Key, []string{"recall", "milk", "--all-scopes"}, 1, "--all-scopes"},
		{ada.Key, []string{"kv", "put", "k", "1"}, 0, ""},
		{bob.Key, []string{"kv", "get", "k"}, 3, "its owner has none"},
		{ada.Key, []string{"export", "-"}, 0, "Ada's tea"},
		{ada.Key, []string{"stats"}, 1, "administrator"},
		{ada.Key, []string{"reset", "--yes"}, 1, "administrator"},
		{ada.Key, []string{"log", "tail", "--json"}, 0, "m1"},
		{root.Key, []string{"list", "--all-scopes"}, 0, "Bob's milk"},
		{root.Key, []string{"stats"}, 0, "memories"},
	} {
		out, told, code := (verb{key: c.key}).run(t, append([]string{"--db", d.address}, c.args...)...)
		if code != c.code || !strings.Contains(out+told, c.want) || c.key == ada.Key && strings.Contains(out, "Bob") {
			t.Errorf("%v: %d, want %d with %q\n%s%s", c.args, code, c.code, c.want, out, told)
		}
	}
	// The list has no keys, and a key that is revoked ends at once.
	var out bytes.Buffer
	p := &program{out: &out, err: io.Discard, getenv: func(string) (string, bool) { return "", false }, now: time.Now}
	if code := p.run(t.Context(), []string{"key", "revoke", ada.ID, "--db", d.dir}); code != 0 {
		t.Fatal(code)
	}
	if code := p.run(t.Context(), []string{"key", "list", "--db", d.dir, "--json"}); code != 0 || strings.Contains(out.String(), "memdb_") || strings.Count(out.String(), "\n") != 4 {
		t.Error(code, out.String())
	}
	if _, _, code := (verb{key: ada.Key}).run(t, "--db", d.address, "list"); code != 1 {
		t.Error(code)
	}
	if code := p.run(t.Context(), []string{"key", "revoke", "key_none", "--db", d.dir}); code != exitNotFound {
		t.Error(code)
	}
	if code, log := d.end(); code != 0 || strings.Contains(log, ada.Key) || strings.Contains(log, root.Key) {
		t.Error(code, log)
	}
}

// certificate makes one for this machine.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, of, of, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for name, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: pkcs}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

func TestTLS(t *testing.T) {
	cert, key := certificate(t)
	d := start(t, filepath.Join(t.TempDir(), "db"), "--tls-cert", cert, "--tls-key", key)
	if !strings.HasPrefix(d.address, "https://") {
		t.Fatal(d.address)
	}
	if out, told, code := (verb{ca: cert}).run(t, "--db", d.address, "stats"); code != 0 || !strings.Contains(out, "memories") {
		t.Error(out, told, code)
	}
	if _, told, code := (verb{}).run(t, "--db", d.address, "stats"); code != 1 || !strings.Contains(told, "certificate") {
		t.Error(told, code)
	}
	if code, log := d.end(); code != 0 {
		t.Error(code, log)
	}
}

// TestUsage: what cannot be is refused before the database is touched.
func TestUsage(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	config := filepath.Join(t.TempDir(), "memdbd.toml")
	if err := os.WriteFile(config, []byte("[server]\nlisten = \"127.0.0.1\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--listen", l.Addr().String()}, exitFailed, "give another address"},
		{[]string{"--listen", "nonsense"}, exitUsage, "HOST:PORT"},
		{[]string{"--config", config}, exitUsage, "HOST:PORT"},
		{[]string{"--config", "none.toml"}, exitFailed, "none.toml"},
		{[]string{"--listen", "0.0.0.0:0"}, exitFailed, "no keys"},
		{[]string{"--tls-cert", "x"}, exitUsage, "belong together"},
		{[]string{"--log", "loud"}, exitUsage, "text, json and off"},
		{[]string{"--dialect", "klingon"}, exitUsage, "no dialect"},
		{[]string{"--no-flag"}, exitUsage, "no-flag"},
		{[]string{"serve"}, exitUsage, `no verb "serve"`},
		{[]string{"key"}, exitUsage, "add, list, revoke, rotate, clear and import"},
		{[]string{"key", "add"}, exitUsage, "names no user, agent or run"},
		{[]string{"key", "add", "--user", "a", "--admin"}, exitUsage, "no scope"},
		{[]string{"key", "add", "--user", ""}, exitUsage, "empty"},
		{[]string{"key", "add", "--scope", "{"}, exitUsage, "--scope"},
		{[]string{"key", "revoke"}, exitUsage, "the ID of a key"},
	} {
		dir := filepath.Join(t.TempDir(), "db")
		var told bytes.Buffer
		p := &program{out: io.Discard, err: &told, getenv: func(string) (string, bool) { return "", false }, now: time.Now}
		if code := p.run(t.Context(), append(c.args, "--db", dir)); code != c.code || !strings.Contains(told.String(), c.want) {
			t.Errorf("%v: %d %s, want %d with %q", c.args, code, told.String(), c.code, c.want)
		}
		if _, err := os.Stat(dir); err == nil && c.code == exitUsage {
			t.Errorf("%v: the database was made", c.args)
		}
	}
}

// TestHealth: probes need no key, and the counts do.
func TestHealth(t *testing.T) {
	d := start(t, filepath.Join(t.TempDir(), "db"))
	addKey(t, d.dir, "--user", "ada")
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/metrics": 401, "/memdb/v1/verbs": 405, "/nothing": 404} {
		reply, err := http.Get(d.address + path)
		if err != nil {
			t.Fatal(err)
		}
		if _ = reply.Body.Close(); reply.StatusCode != want {
			t.Errorf("%s: %d, want %d", path, reply.StatusCode, want)
		}
	}
	if code, log := d.end(); code != 0 {
		t.Error(code, log)
	}
}

// TestOneFile verifies that a server has a database in one file, with its keys, and that commands about keys work
// beside it.
func TestOneFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.memdb")
	d := start(t, path)
	admin := addKey(t, path, "--admin")
	v := verb{dir: dir, key: admin.Key}
	if _, _, code := (verb{}).run(t, "--db", d.address, "stats"); code != exitFailed {
		t.Error("without a key:", code)
	}
	for _, args := range [][]string{{"store", "green tea", "--user", "ada"}, {"recall", "tea", "--user", "ada"}} {
		if out, told, code := v.run(t, append([]string{"--db", d.address}, args...)...); code != 0 {
			t.Errorf("%v: %d, %s%s", args, code, out, told)
		}
	}
	if code, log := d.end(); code != 0 {
		t.Error(code, log)
	}
	if out, told, code := v.run(t, "--db", path, "list", "--user", "ada"); code != 0 || !strings.Contains(out, "green tea") {
		t.Error(out, told, code)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 2 { // the file and its lock
		t.Error(left, err)
	}
}
