package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/api"
	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/entries"
	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/services/server"
	"github.com/seed-7aedc3ff/memdb/services/server/native"
)

// asks returns a client of a server that answers in a way.
func asks(t *testing.T, answer http.HandlerFunc) *Client {
	t.Helper()
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	c, err := New(s.URL+"/", &Options{Key: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// TestRefusals verifies that an error has the kind and the text that it has in the server.
func TestRefusals(t *testing.T) {
	for _, f := range api.Faults {
		if f.Status == api.StatusClientGone {
			continue // nobody hears of it
		}
		for _, told := range []*memory.Error{
			{Kind: f.Kind, What: "do: a thing", Why: "it is so: really", Do: "wait; or not"},
			{Kind: f.Kind, What: "do a thing"},
		} {
			c := asks(t, func(w http.ResponseWriter, _ *http.Request) {
				s := server.New(nil, server.Options{})
				s.Mount(&server.Dialect{Routes: []server.Route{{Pattern: "GET /x", Handle: func(*server.Call) error { return told }}}})
				s.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/x", nil))
			})
			_, err := Do(t.Context(), c, api.KVGet, &api.KVKey{Key: "k"}, nil)
			of, ok := errors.AsType[*Refusal](err)
			if own, is := errors.AsType[*memory.Error](err); !ok || !is || !errors.Is(err, f.Kind) || of.Code != f.Code || own.Error() != told.Error() || of.RequestID == "" {
				t.Errorf("%v (%+v), want %v", err, of, told)
			}
		}
	}
}

// TestAnswers verifies what becomes of answers that are none.
func TestAnswers(t *testing.T) {
	for _, a := range []struct {
		name, body, want string
		status           int
		kind             error
	}{
		{"a page", "<html>", "ask the server at ADDRESS: what answers is no server of memdb: 502 Bad Gateway", 502, memory.ErrFailed},
		{"no key", `{"error":{"code":"unauthorized","message":"the request needs a key"}}`, "ask the server at ADDRESS: the request needs a key", 401, memory.ErrFailed},
		{"a wrong request", `{"error":{"code":"one_shard","message":"name the user"}}`, "ask the server at ADDRESS: name the user", 400, memory.ErrInvalid},
		{"no JSON", "ok", "read the answer of the server at ADDRESS: it cannot be used: invalid character 'o' looking for beginning of value; look whether it was done, and try again", 200, memory.ErrFailed},
		{"too much", strings.Repeat(" ", MaxReply+1), fmt.Sprintf("read the answer of the server at ADDRESS: it cannot be used: it has more than %d bytes; look whether it was done, and try again", MaxReply), 200, memory.ErrFailed},
	} {
		t.Run(a.name, func(t *testing.T) {
			c := asks(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(a.status)
				_, _ = io.WriteString(w, a.body)
			})
			_, err := Do(t.Context(), c, api.KVGet, &api.KVKey{Key: "k"}, nil)
			own, ok := errors.AsType[*memory.Error](err)
			if want := strings.ReplaceAll(a.want, "ADDRESS", c.address+"/"); !ok || own.Kind == nil || err.Error() != want {
				t.Errorf("%v, want %s", err, want)
			} else if !errors.Is(err, a.kind) {
				t.Errorf("%v is no %v", err, a.kind)
			}
		})
	}
}

// TestLists verifies that a list that does not end is an error, behind the items that have arrived.
func TestLists(t *testing.T) {
	const item = `{"key":"k","value":1}` + "\n"
	stop := errors.New("enough")
	for _, l := range []struct {
		name, body, want string
		items            int
	}{
		{"whole", item + item + `{"end":true,"count":2,"next":"k","unreadable":3}` + "\n", "", 2},
		{"cut off", item, "the list was cut off", 1},
		{"cut within a line", item + `{"key"`, "unexpected end of JSON", 1},
		{"broken", item + `{"error":{"code":"damaged","message":"read: damaged"}}` + "\n", "read: damaged", 1},
		{"more behind its end", `{"end":true,"count":0}` + "\n" + item, "the list was cut off", 0},
		{"stopped", item + item + item + item, "enough", 3},
	} {
		t.Run(l.name, func(t *testing.T) {
			c := asks(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, l.body) })
			d := &Details{}
			items := 0
			end, err := List(t.Context(), c, api.KVList, &api.KVListRequest{}, d, func(entries.Line) error {
				if items++; items == 3 {
					return stop
				}
				return nil
			})
			switch {
			case items != l.items, (err == nil) != (l.want == ""), err != nil && !strings.Contains(err.Error(), l.want):
				t.Errorf("%d items, %v", items, err)
			case l.name == "stopped" && !errors.Is(err, stop), l.name == "broken" && !errors.Is(err, memory.ErrCorrupt):
				t.Errorf("%v", err)
			case l.want == "" && (end.Next != "k" || d.Unreadable != 3):
				t.Errorf("%+v, %+v", end, d)
			}
		})
	}
}

// TestKeyStays verifies that a redirect carries the key nowhere.
func TestKeyStays(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { t.Errorf("another server got %v", r.Header) }))
	defer elsewhere.Close()
	heard := ""
	c := asks(t, func(w http.ResponseWriter, r *http.Request) {
		heard = r.Header.Get("Authorization")
		http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
	})
	_, err := Do(t.Context(), c, api.KVDelete, &api.KVKey{Key: "k"}, nil)
	if heard != "Bearer secret" || err == nil || !strings.Contains(err.Error(), "it sends its clients to "+elsewhere.URL) {
		t.Errorf("it heard %q, %v", heard, err)
	}
}

// TestUnreached verifies the errors of what does not answer, and of a context that is over.
func TestUnreached(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 10))
			_ = conn.Close()
		}
	}()
	dial := func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", l.Addr().String())
	}
	c, err := New("http://localhost", &Options{Dial: dial})
	if err != nil {
		t.Fatal(err)
	}
	put := &api.KVPutRequest{Key: "k", Value: []byte("1")}
	if _, err := Do(t.Context(), c, api.KVPut, put, nil); !errors.Is(err, memory.ErrFailed) {
		t.Errorf("closed: %v", err)
	}
	_ = l.Close()
	if _, err := Do(t.Context(), c, api.KVPut, put, nil); err == nil || !strings.Contains(err.Error(), "refused; see that memdbd listens there") {
		t.Errorf("nobody: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Do(ctx, c, api.KVPut, put, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("over: %v", err)
	}
	for _, address := range []string{"", "localhost:7070", "ftp://x", "http://", "http://u:p@x", "http://x?a=b", "http://x#a"} {
		if _, err := New(address, nil); !errors.Is(err, memory.ErrInvalid) {
			t.Errorf("%q: %v", address, err)
		}
	}
}

// TestStream verifies that a reply comes whole, with what the operation says of it, and that a request with an ID is done
// once.
func TestStream(t *testing.T) {
	db, err := engine.OpenMemory(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	s := server.New(db, server.Options{})
	s.Mount(native.New())
	c := asks(t, s.Handler().ServeHTTP)
	c.key = ""
	of := api.Owner{Agent: "a"}
	if _, err := Do(t.Context(), c, api.GraphRelate, &api.GraphRelateRequest{Owner: of, NewRelation: api.NewRelation{From: "x", Relation: "knows", To: "y"}}, nil); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"x", "y"} {
		if _, err := Do(t.Context(), c, api.GraphAdd, &api.GraphAddRequest{Owner: of, Entity: graph.Given{ID: id, Type: "person"}}, nil); err != nil {
			t.Fatal(err)
		}
	}
	var picture strings.Builder
	show := &api.GraphShowRequest{GraphEntity: api.GraphEntity{Owner: of, ID: "x"}, Depth: 1, Limit: 40}
	drawn, err := Stream(t.Context(), c, api.GraphShow, show, nil, &picture)
	if err != nil || drawn.Entities != 2 || drawn.Relations != 1 || !strings.HasSuffix(strings.TrimSpace(picture.String()), "</svg>") {
		t.Errorf("%+v, %v: %s", drawn, err, picture.String())
	}
	if _, err := Stream(t.Context(), c, api.GraphExport, &api.GraphExportRequest{Owner: of, Format: "pdf"}, nil, io.Discard); !errors.Is(err, memory.ErrInvalid) {
		t.Errorf("a wrong format: %v", err)
	}
	spent := &api.UsageAddRequest{Owner: of, ModelCall: api.ModelCall{Model: "m", TotalTokens: 3}}
	for _, repeated := range []bool{false, true} {
		d := &Details{RequestID: "r"}
		if _, err := Do(t.Context(), c, api.UsageAdd, spent, d); err != nil || d.Repeated != repeated {
			t.Errorf("%+v, %v", d, err)
		}
	}
}
