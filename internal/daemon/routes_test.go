package daemon

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/internal/golden"
	"github.com/seed-7aedc3ff/memdb/internal/testdb"
	"github.com/seed-7aedc3ff/memdb/services/facts"
	"github.com/seed-7aedc3ff/memdb/services/server"
	"github.com/seed-7aedc3ff/memdb/services/server/native"
)

// TestRoutes sends the requests of testdata/routes/requests.txt, each section to a database with the seed of TestDoors, and
// compares the answers with golden files. Every route has a request that succeeds and one that fails.
func TestRoutes(t *testing.T) {
	dir := filepath.Join(packageDir, "testdata", "routes")
	text := string(must(os.ReadFile(filepath.Join(dir, "requests.txt")))(t))
	answered := map[string][]bool{} // by the pattern: whether it succeeded
	var routes []server.Route
	for _, section := range strings.Split("\n"+text, "\n# ")[1:] {
		name, requests, _ := strings.Cut(section, "\n")
		t.Run(name, func(t *testing.T) {
			var seconds atomic.Int64
			now := func() time.Time { return doorsTime.Add(time.Duration(seconds.Load()) * time.Second) }
			db, err := engine.OpenMemory(&engine.Options{Clock: now})
			testdb.NoError(t, err)
			defer testdb.Close(t, db)
			f, err := facts.New(&facts.Config{ForClients: true, DB: db})
			testdb.NoError(t, err)
			s := server.New(db, server.Options{Facts: f, Clock: now})
			s.Mount(native.New())
			routes = slices.DeleteFunc(s.Routes(), func(r server.Route) bool {
				_, path, _ := strings.Cut(r.Pattern, " ")
				return !strings.HasPrefix(path, "/memdb/v1/") || path == server.OpenAPIPath
			})
			mux, h := http.NewServeMux(), s.Handler()
			for _, r := range routes {
				mux.Handle(r.Pattern, http.NotFoundHandler())
			}
			send := func(method, target, body string) (r *http.Request, w *httptest.ResponseRecorder) {
				r, w = httptest.NewRequest(method, "/memdb/v1"+target, strings.NewReader(body)), httptest.NewRecorder()
				h.ServeHTTP(w, r)
				return r, w
			}
			seed := string(must(os.ReadFile(filepath.Join(doorsData, "seed.jsonl")))(t))
			if _, w := send("POST", "/import", seed); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"skipped":0`) {
				t.Fatal(w.Code, w.Body)
			}
			n := newNormal(seed)
			var b strings.Builder
			for line := range strings.Lines(requests) {
				seconds.Add(1)
				line = strings.TrimSpace(line)
				method, rest, _ := strings.Cut(line, " ")
				target, body, _ := strings.Cut(rest, " ")
				r, w := send(method, target, body)
				_, pattern := mux.Handler(r)
				answered[pattern] = append(answered[pattern], w.Code < http.StatusBadRequest)
				fmt.Fprintf(&b, "> %s\n%d %s\n%s\n\n", line, w.Code, w.Header().Get("Content-Type"), strings.TrimSpace(n.plain(w.Body.String())))
			}
			golden.Text(t, filepath.Join(dir, name+".txt"), b.String())
		})
	}
	for _, r := range routes {
		if got := answered[r.Pattern]; !slices.Contains(got, true) || !slices.Contains(got, false) {
			t.Errorf("%s: add a request that succeeds and one that fails to requests.txt", r.Pattern)
		}
	}
}
