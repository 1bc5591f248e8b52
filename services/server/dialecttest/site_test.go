package dialecttest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io/fs"
	"math/rand/v2"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/exchange/move"
	"github.com/seed-7aedc3ff/memdb/internal/testdb"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/services/server"
	"github.com/seed-7aedc3ff/memdb/services/server/agents"
	"github.com/seed-7aedc3ff/memdb/services/server/anthropic"
	"github.com/seed-7aedc3ff/memdb/services/server/langgraph"
	"github.com/seed-7aedc3ff/memdb/services/server/mcp"
	"github.com/seed-7aedc3ff/memdb/services/server/mem0"
)

// A site is a server with all dialects, over a database whose clock the test moves.
type site struct {
	t     *testing.T
	db    *engine.DB
	clock *testdb.Clock
	s     *server.Server
}

func newSite(t *testing.T) *site {
	t.Helper()
	clock := testdb.NewClock()
	db := testdb.New(t, engine.Options{Clock: clock.Now})
	s := &site{t: t, db: db, clock: clock, s: server.New(db, server.Options{Clock: clock.Now})}
	for _, d := range append(mem0.New(), mcp.Dialect(), anthropic.New(nil), langgraph.New(nil), agents.Dialect()) {
		s.s.Mount(d)
	}
	return s
}

// random returns chance from a seed that the test prints.
func random(t *testing.T) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 7))
}

// imports imports a file, which must be recognised as one of the format.
func (s *site) imports(f move.Format, file string, of memory.Scope) (exchange.Report, map[string]int) {
	s.t.Helper()
	in := &move.Input{Name: "file", Reader: bufio.NewReaderSize(strings.NewReader(file), 256<<10), File: strings.NewReader(file), Size: int64(len(file))}
	return s.importsFrom(f, in, of)
}

// importsFolder imports a folder.
func (s *site) importsFolder(f move.Format, folder fs.FS, of memory.Scope) (exchange.Report, map[string]int) {
	s.t.Helper()
	return s.importsFrom(f, &move.Input{Name: "folder", Folder: folder}, of)
}

func (s *site) importsFrom(f move.Format, in *move.Input, of memory.Scope) (exchange.Report, map[string]int) {
	s.t.Helper()
	o := exchange.Options{Scope: of}
	items := move.Read(f, in, &move.Options{Into: o})
	r, err := exchange.ImportItems(s.t.Context(), s.db, items.All(s.t.Context()), &o)
	testdb.NoError(s.t, err)
	return r, items.LeftOut()
}

// ask sends a request of a client of mem0's platform, wants a status, and returns the answer.
func (s *site) ask(status int, request, body string) any {
	s.t.Helper()
	method, target, _ := strings.Cut(request, " ")
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("X-Mem0-Client", "mem0-js/3.3.1")
	w := httptest.NewRecorder()
	s.s.Handler().ServeHTTP(w, r)
	if w.Code != status {
		s.t.Fatalf("%s %.300s: %d %.500s, want %d", request, body, w.Code, w.Body, status)
	}
	return decode(s.t, w.Body.Bytes())
}

// decode reads JSON, or the first event of a stream of it.
func decode(t *testing.T, b []byte) (v any) {
	t.Helper()
	if len(bytes.TrimSpace(b)) == 0 {
		return nil
	}
	if _, data, ok := bytes.Cut(b, []byte("data: ")); ok && b[0] != '{' && b[0] != '[' {
		b, _, _ = bytes.Cut(data, []byte("\n"))
	}
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatalf("the answer is not JSON: %v: %.300s", err, b)
	}
	return v
}

// at is the value on a path of keys and numbers, nil where there is none.
func at(v any, path ...any) any {
	for _, p := range path {
		switch p := p.(type) {
		case string:
			object, _ := v.(map[string]any)
			v = object[p]
		case int:
			list, _ := v.([]any)
			if p >= len(list) {
				return nil
			}
			v = list[p]
		}
	}
	return v
}

// toJSON is a value as JSON.
func toJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	testdb.NoError(t, err)
	return string(b)
}

// same compares values as JSON says them.
func same(t *testing.T, what string, got, want any) {
	t.Helper()
	g, w := decode(t, []byte(toJSON(t, got))), decode(t, []byte(toJSON(t, want)))
	if !reflect.DeepEqual(g, w) {
		t.Errorf("%s:\n got %s\nwant %s", what, toJSON(t, g), toJSON(t, w))
	}
}
