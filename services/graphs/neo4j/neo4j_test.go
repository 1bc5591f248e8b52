package neo4j

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/retry"
	"github.com/seed-7aedc3ff/memdb/internal/wiretest"
	"github.com/seed-7aedc3ff/memdb/scope"
	"github.com/seed-7aedc3ff/memdb/services/graphs"
	"github.com/seed-7aedc3ff/memdb/services/graphs/graphtest"
)

var basic = "Basic " + base64.StdEncoding.EncodeToString([]byte("neo4j:"+wiretest.Key))

// open makes a store on a stand-in.
func open(t *testing.T, change func(*Config)) (*graphtest.Server, graphtest.Subject) {
	t.Helper()
	server := graphtest.NewServer(t, basic, Statements())
	c := Config{URL: server.URL, Password: wiretest.Key, Retry: retry.Policy{Base: time.Millisecond}}
	if change != nil {
		change(&c)
	}
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	var made atomic.Int64
	return server, graphtest.Subject{Store: s, Fact: func(of scope.Scope, text string) graphs.Fact {
		return graphs.Fact{ID: fmt.Sprint("fact-", made.Add(1)), Scope: of, Text: text}
	}}
}

func TestStore(t *testing.T) {
	for _, api := range []API{Transactions, QueryV2} {
		t.Run(string(api), func(t *testing.T) {
			graphtest.Run(t, func(t *testing.T) graphtest.Subject {
				_, s := open(t, func(c *Config) { c.API = api })
				return s
			})
		})
	}
}

var alice = scope.Scope{User: "alice"}

func about(name string, told ...graphs.Fact) graphs.Change {
	return graphs.Change{Scope: alice, Entities: []graphs.Entity{{Name: name, Type: "person"}}, Told: told}
}

// TestSpaces: memories of facts that share a database do not see each other, and a delete of
// all takes those of its own space.
func TestSpaces(t *testing.T) {
	server, s := open(t, nil)
	other, err := New(Config{URL: server.URL, Password: wiretest.Key, Space: "other"})
	if err != nil {
		t.Fatal(err)
	}
	f := s.Fact(alice, "Ada is here")
	for _, store := range []graphs.Store{s, other} {
		if _, err := store.Apply(t.Context(), about("Ada", f)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Delete(t.Context(), graphs.Selection{All: true}); err != nil {
		t.Fatal(err)
	}
	if near, err := other.Around(t.Context(), graphs.Selection{Scope: alice}, "Ada"); err != nil || len(near.Names) != 1 || server.Facts() != 1 {
		t.Errorf("%+v, %v; %q", near, err, server.Entities())
	}
}

// TestFaults: what HTTP and servers fail at, with errors that name Neo4j and no password.
func TestFaults(t *testing.T) {
	for _, api := range []API{Transactions, QueryV2} {
		reply := `{"results":[{"columns":["key","name"],"data":[]}],"errors":[]}`
		if api == QueryV2 {
			reply = `{"data":{"fields":["key","name"],"values":[]},"bookmarks":["FB:x"]}`
		}
		t.Run(string(api), func(t *testing.T) {
			wiretest.Faults(t, wiretest.Target{
				Provider: "neo4j", Kind: graphs.ErrGraph, Variable: PasswordVariable, Missing: "url and database", Reply: reply,
				Refuse: func(m string) string {
					return `{"errors":[{"code":"Neo.DatabaseError.General.UnknownError","message":"` + m + `"}]}`
				},
				Call: func(ctx context.Context, base string) error {
					s, err := New(Config{URL: base, Password: wiretest.Key, API: api, Retry: retry.Policy{Times: -1}})
					if err != nil {
						t.Fatal(err)
					}
					_, err = s.Around(ctx, graphs.Selection{Scope: alice}, "Ada")
					return err
				},
			})
		})
	}
}

// TestErrorsOfServers: what a reply says under errors decides whether the call is made again,
// is refused for good, or failed.
func TestErrorsOfServers(t *testing.T) {
	for _, c := range []struct {
		code     string
		status   int // of the Query API
		kind     error
		requests int // of a read that fails for ever
		want     string
	}{
		{"Neo.TransientError.Transaction.DeadlockDetected", 400, graphs.ErrGraph, 4, "DeadlockDetected"},
		{"Neo.TransientError.General.MemoryPoolOutOfMemoryError", 500, graphs.ErrGraph, 4, "try again later"},
		{"Neo.TransientError.Transaction.LockClientStopped", 202, graphs.ErrGraph, 4, "try again later"},
		{"Neo.ClientError.Statement.SyntaxError", 202, graphs.ErrRefused, 1, "version of the server"},
		{"Neo.ClientError.Statement.TypeError", 400, graphs.ErrRefused, 1, "version of the server"},
		{"Neo.ClientError.Schema.ConstraintValidationFailed", 400, graphs.ErrRefused, 1, "constraints"},
		{"Neo.ClientError.Security.Forbidden", 403, graphs.ErrGraph, 1, PasswordVariable},
		{"Neo.ClientError.Security.Unauthorized", 401, graphs.ErrGraph, 1, PasswordVariable},
		{"Neo.ClientError.Database.DatabaseNotFound", 404, graphs.ErrGraph, 1, "there is no neo4j"},
		{"Neo.DatabaseError.Statement.ExecutionFailed", 422, graphs.ErrGraph, 1, ""},
	} {
		for _, api := range []API{Transactions, QueryV2} {
			server, s := open(t, func(conf *Config) { conf.API = api })
			server.Fail = func(w http.ResponseWriter, _ *http.Request, _ int) bool {
				w.Header().Set("Content-Type", "application/json")
				list := `"errors":[{"code":"` + c.code + `","message":"no luck with ` + wiretest.Key + `"}]}`
				if api == QueryV2 {
					w.WriteHeader(c.status)
					_, _ = io.WriteString(w, `{`+list)
				} else {
					_, _ = io.WriteString(w, `{"results":[],`+list)
				}
				return true
			}
			_, err := s.Around(t.Context(), graphs.Selection{Scope: alice}, "Ada")
			if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), wiretest.Key) || server.Requests() != c.requests {
				t.Errorf("%s by %s: %v after %d requests, want %d", c.code, api, err, server.Requests(), c.requests)
			}
			if e, ok := errors.AsType[*fault.Error](err); !ok || e.Do == "" {
				t.Errorf("%s by %s: no next step: %v", c.code, api, err)
			}
		}
	}
}

// TestFailsInTheMiddle: each request of a change fails once, in one way after the other, and the
// change is there once and whole, also where the server has done what it did not answer.
func TestFailsInTheMiddle(t *testing.T) {
	for _, api := range []API{Transactions, QueryV2} {
		for n := 1; n <= 12; n++ {
			for _, way := range []string{"busy", "lost", "half", "deadlock"} {
				server, s := open(t, func(c *Config) { c.API = api })
				server.Fail = func(w http.ResponseWriter, r *http.Request, at int) bool {
					if at != n {
						return false
					}
					w.Header().Set("Content-Type", "application/json")
					switch way {
					case "busy":
						w.Header().Set("Retry-After-Ms", "1")
						w.WriteHeader(http.StatusServiceUnavailable)
					case "deadlock":
						_, _ = io.WriteString(w, `{"results":[],"errors":[{"code":"Neo.TransientError.Transaction.DeadlockDetected","message":"m"}]}`)
					case "half":
						_, _ = io.WriteString(w, `{"results":[{"col`)
					default: // done, and the answer is lost
						r2 := r.Clone(r.Context())
						r2.Body = r.Body
						server.ServeHTTP(&discard{http.Header{}}, r2) // as the next one
						panic(http.ErrAbortHandler)
					}
					return true
				}
				f := s.Fact(alice, "Ada knows Bob")
				c := about("Ada", f)
				c.Entities = append(c.Entities, graphs.Entity{Name: "Bob", Type: "person"})
				c.Relations = []graphs.Relation{{Source: "Ada", Relation: "knows", Target: "Bob"}}
				if done, err := s.Apply(t.Context(), c); err != nil || len(done.Taken) != 1 {
					t.Fatalf("%s, %s of request %d: %+v, %v", api, way, n, done, err)
				}
				retold := f
				retold.Before, retold.Text = f.Text, "Somebody knows Bob"
				if _, err := s.Apply(t.Context(), graphs.Change{Scope: alice, Retold: []graphs.Fact{retold}}); err != nil {
					t.Fatalf("%s, %s of request %d: %v", api, way, n, err)
				}
				near, err := s.Around(t.Context(), graphs.Selection{Scope: alice}, "Ada Bob")
				if err != nil || len(near.Names) != 1 || len(near.Facts) != 1 || len(server.Entities()) != 1 {
					t.Fatalf("%s, %s of request %d: %+v, %v", api, way, n, near, err)
				}
			}
		}
	}
}

// discard takes what nobody reads.
type discard struct{ header http.Header }

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }
func (d *discard) WriteHeader(int)             {}

// TestHang: a server that says nothing costs the time-out of each try, and no more.
func TestHang(t *testing.T) {
	release := make(chan struct{})
	server, s := open(t, func(c *Config) { c.Timeout, c.Retry.Times = time.Second, 1 })
	server.Fail = func(http.ResponseWriter, *http.Request, int) bool { <-release; return true }
	_, err := s.Around(t.Context(), graphs.Selection{Scope: alice}, "Ada")
	close(release)
	if !errors.Is(err, graphs.ErrGraph) || !strings.Contains(err.Error(), "no reply within 1s") || server.Requests() != 2 {
		t.Errorf("%v after %d requests", err, server.Requests())
	}
}

// TestForbiddenSchema: a user who may not make a schema stores all the same.
func TestForbiddenSchema(t *testing.T) {
	server, s := open(t, nil)
	server.Fail = func(w http.ResponseWriter, _ *http.Request, n int) bool {
		if n > len(schema) {
			return false
		}
		_, _ = io.WriteString(w, `{"results":[],"errors":[{"code":"Neo.ClientError.Security.Forbidden","message":"Schema operations are not allowed"}]}`)
		return true
	}
	if _, err := s.Apply(t.Context(), about("Ada", s.Fact(alice, "Ada is here"))); err != nil || len(server.Entities()) != 1 {
		t.Errorf("%v, %q", err, server.Entities())
	}
}

// TestDescribed holds every request against the description of both interfaces.
func TestDescribed(t *testing.T) {
	for api, route := range map[API]string{Transactions: "/db/{databaseName}/tx/commit", QueryV2: "/db/{databaseName}/query/v2"} {
		t.Run(string(api), func(t *testing.T) {
			schema := wiretest.Request(t, "neo4j/openapi.json", route)
			server, s := open(t, func(c *Config) { c.API = api })
			server.Fail = func(_ http.ResponseWriter, r *http.Request, _ int) bool {
				b, err := io.ReadAll(r.Body)
				if err == nil {
					err = schema.Check(b)
				}
				if err != nil {
					t.Error(err)
				}
				r.Body = io.NopCloser(bytes.NewReader(b))
				return false
			}
			f := s.Fact(alice, "Ada is here")
			for _, c := range []graphs.Change{about("Ada", f), {Gone: []graphs.Fact{f}}} {
				if _, err := s.Apply(t.Context(), c); err != nil {
					t.Error(err)
				}
				if _, err := s.Around(t.Context(), graphs.Selection{Scope: alice}, "Ada"); err != nil {
					t.Error(err)
				}
			}
			if err := s.Delete(t.Context(), graphs.Selection{All: true}); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestOtherReplies: replies in which rows are missing, or of another width, are refused.
func TestOtherReplies(t *testing.T) {
	for _, reply := range []string{`{"results":[],"errors":[]}`, `{}`, `{"results":[{"data":[{"row":["a"]}]}]}`, `{"results":[{"data":[{"row":["a",5]}]}]}`, `{"results":[{"data":[]},{"data":[]}]}`} {
		server, s := open(t, nil)
		server.Fail = func(w http.ResponseWriter, _ *http.Request, _ int) bool {
			_, _ = io.WriteString(w, reply)
			return true
		}
		if near, err := s.Around(t.Context(), graphs.Selection{Scope: alice}, "Ada"); !errors.Is(err, graphs.ErrGraph) || server.Requests() != 1 {
			t.Errorf("%s: %+v, %v", reply, near, err)
		}
	}
}

// TestAuthorization sends a password of any letters, or a token.
func TestAuthorization(t *testing.T) {
	for want, c := range map[string]Config{
		"Basic " + base64.StdEncoding.EncodeToString([]byte("ada:pass wörd")): {Username: "ada", Password: "pass wörd"},
		"Bearer " + wiretest.Key: {Token: wiretest.Key},
	} {
		server := graphtest.NewServer(t, want, Statements())
		c.URL = server.URL
		s, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Delete(t.Context(), graphs.Selection{Scope: alice}); err != nil {
			t.Error(err)
		}
		if out := fmt.Sprintf("%v %+v %#v", s, s, s); strings.Contains(out, wiretest.Key) || strings.Contains(out, "wörd") {
			t.Errorf("the secret is shown: %s", out)
		}
	}
}

// TestAddress has the URL of HTTP for one of a driver.
func TestAddress(t *testing.T) {
	for given, want := range map[string]string{
		"http://h:7474": "http://h:7474", "https://h/neo": "https://h/neo", "bolt://localhost:7687": "http://localhost:7474", "neo4j://h": "http://h:7474",
		"bolt+s://h:7687": "https://h:7473", "neo4j+ssc://h": "https://h:7473", "neo4j+s://0a1b.databases.neo4j.io": "https://0a1b.databases.neo4j.io", "bolt://[::1]:7687": "http://[::1]:7474",
	} {
		if got, aura, err := address(given); err != nil || got != want || aura != strings.Contains(given, "databases.neo4j.io") {
			t.Errorf("%s: %s, %v, %v; want %s", given, got, aura, err, want)
		}
	}
}

// TestConfig refuses what cannot be, and shows no secret.
func TestConfig(t *testing.T) {
	const host = "http://h:7474"
	for want, c := range map[string]Config{
		"there is no URL: set NEO4J_URL":         {Password: wiretest.Key},
		"there is no password: set NEO4J_PASSWO": {URL: host},
		"no way to a URL of ftp":                 {URL: "ftp://h", Password: wiretest.Key},
		"its URL is none":                        {URL: "localhost", Password: wiretest.Key},
		"a port of its own":                      {URL: "bolt://h:9999", Password: wiretest.Key},
		"a user, a path":                         {URL: "bolt://u:" + wiretest.Key + "@h", Password: wiretest.Key},
		"a password, a query":                    {URL: "http://u:" + wiretest.Key + "@h", Password: wiretest.Key},
		"both a password and a token":            {URL: host, Password: wiretest.Key, Token: "t"},
		`the interface is "bolt"`:                {URL: host, Password: wiretest.Key, API: "bolt"},
		`the database is "a/b"`:                  {URL: host, Password: wiretest.Key, Database: "a/b"},
		`the database is ".."`:                   {URL: host, Password: wiretest.Key, Database: ".."},
		"the space is":                           {URL: host, Password: wiretest.Key, Space: strings.Repeat("x", 64)},
		"the timeout is negative":                {URL: host, Password: wiretest.Key, Timeout: -1},
		"the user name has a colon":              {URL: host, Username: "a:b", Password: wiretest.Key},
		"repeat a call 11 times":                 {URL: host, Password: wiretest.Key, Retry: retry.Policy{Times: 11}},
		"copy the key again to NEO4J_PASSWORD":   {URL: host, Token: "a b"},
	} {
		s, err := New(c)
		want = strings.Replace(want, ": set", "; set", 1)
		if !errors.Is(err, fault.ErrInvalid) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), wiretest.Key) {
			t.Errorf("%v: error %v, want %q", s, err, want)
		}
	}
}
