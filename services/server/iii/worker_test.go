package iii

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/internal/realdata"
	"github.com/seed-7aedc3ff/memdb/internal/testdb"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/services/server/functions"
)

// A fakeEngine takes workers, one at a time.
type fakeEngine struct {
	t     *testing.T
	url   string
	conns chan *link
}

// A link is the connection of a worker, from the side of the engine.
type link struct {
	t    *testing.T
	conn *websocket.Conn
	gone chan struct{}
}

func newEngine(t *testing.T) *fakeEngine {
	e := &fakeEngine{t: t, conns: make(chan *link)}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		l := &link{t, conn, make(chan struct{})}
		select {
		case e.conns <- l:
			<-l.gone
		case <-t.Context().Done():
		}
		_ = conn.CloseNow() // the worker may have closed it
	}))
	t.Cleanup(s.Close)
	e.url = "ws" + strings.TrimPrefix(s.URL, "http")
	return e
}

// worker runs a worker until the test ends, and returns its database.
func (e *fakeEngine) worker(o Options) (db *engine.DB, stop func() error) {
	e.t.Helper()
	db = testdb.New(e.t, engine.Options{Clock: testdb.NewClock().Now})
	o.URL, o.DB, o.FirstWait = e.url, db, time.Millisecond
	ctx, cancel := context.WithCancel(e.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, o) }()
	stop = func() error {
		cancel()
		err := <-ended
		ended <- err
		return err
	}
	e.t.Cleanup(func() { _ = stop() })
	return db, stop
}

// next waits for a worker, and tells it who it is.
func (e *fakeEngine) next(id, token string) *link {
	e.t.Helper()
	select {
	case l := <-e.conns:
		e.t.Cleanup(l.drop)
		l.send(`{"type":"workerregistered","worker_id":%q,"reattach_token":%q}`, id, token)
		return l
	case <-time.After(testdb.Patience):
		e.t.Fatal("no worker has connected")
		return nil
	}
}

// drop ends the connection at once.
func (l *link) drop() {
	select {
	case <-l.gone:
	default:
		close(l.gone)
	}
}

func (l *link) send(format string, args ...any) {
	l.t.Helper()
	testdb.NoError(l.t, l.conn.Write(l.t.Context(), websocket.MessageText, fmt.Appendf(nil, format, args...)))
}

// read returns the next frame of the worker.
func (l *link) read() map[string]any {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), testdb.Patience)
	defer cancel()
	_, b, err := l.conn.Read(ctx)
	testdb.NoError(l.t, err)
	var f map[string]any
	testdb.NoError(l.t, json.Unmarshal(b, &f))
	return f
}

// want reads a frame that is as told.
func (l *link) want(want string) {
	l.t.Helper()
	if got := jsonOf(l.t, l.read()); got != want {
		l.t.Errorf("the worker says %s\nwant %s", got, want)
	}
}

// registered reads up to what the worker says about itself, which is the last frame of a registration.
func (l *link) registered() (frames []map[string]any) {
	l.t.Helper()
	for {
		f := l.read()
		if frames = append(frames, f); f["function_id"] == registerWorker {
			return frames
		}
	}
}

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	testdb.NoError(t, e.Encode(v))
	return strings.TrimSpace(b.String())
}

func TestInvocations(t *testing.T) {
	e := newEngine(t)
	db, stop := e.worker(Options{Version: "v1", PID: 7, Namespace: "orders", Cron: true})
	l := e.next("w1", "")
	frames := l.registered()
	var names []string
	for _, f := range frames[:len(functions.All())] {
		names = append(names, f["id"].(string))
		if f["type"] != typeRegisterFunction || f["description"] == "" {
			t.Errorf("registered %v", f)
		}
	}
	want := []string{
		"memory::store", "memory::recall", "memory::evict", "memory::consolidate", "memory::kg::add", "memory::kg::query",
		"memory::session::list", "memory::session::compact", "memory::session::repair",
	}
	testdb.Equal(t, "functions", names, want)
	if got := jsonOf(t, frames[len(names)]); got != `{"config":{"expression":"0 */6 * * *"},"function_id":"memory::consolidate","id":"memdb:memory::consolidate","namespace":"orders","trigger_type":"cron","type":"registertrigger"}` {
		t.Error(got)
	}
	about := frames[len(frames)-1]
	if data := about["data"].(map[string]any); data["name"] != "memdb" || data["runtime"] != "go" || data["pid"] != 7.0 || data["namespace"] != "orders" || jsonOf(t, about["action"]) != `{"type":"void"}` {
		t.Errorf("about itself: %v", about)
	}

	l.send(`{"type":"ping"}`)
	l.want(`{"type":"pong"}`)
	l.send(`{"type":"invokefunction","function_id":"memory::store","data":{"agentId":"a","content":"void"},"action":{"type":"void"}}`)
	l.send(`{"type":"tomorrow","id":1}`)
	l.send(`no JSON`)
	testdb.NoError(t, l.conn.Write(t.Context(), websocket.MessageBinary, []byte{1, 2}))
	l.send(`{"type":"invokefunction","invocation_id":"2","function_id":"memory::store","data":{"boom":true}}`)
	l.want(`{"error":{"code":"invocation_failed","message":"memory::store: content is missing; give a text"},"function_id":"memory::store","invocation_id":"2","type":"invocationresult"}`)
	l.send(`{"type":"invokefunction","invocation_id":"3","function_id":"memory::unknown","data":{}}`)
	l.want(`{"error":{"code":"function_not_found","message":"Function not found"},"function_id":"memory::unknown","invocation_id":"3","type":"invocationresult"}`)
	l.send(`{"type":"invokefunction","invocation_id":"4","function_id":"memory::recall","data":{"agentId":"b","query":"<nothing>"}}`)
	l.want(`{"function_id":"memory::recall","invocation_id":"4","result":[],"type":"invocationresult"}`)
	testdb.Soon(t, "the void invocation is done", func() bool {
		n, err := db.Memories().Count(t.Context(), memory.ListQuery{Scope: memory.Scope{Agent: "a"}})
		testdb.NoError(t, err)
		return n == 1
	})
	go l.conn.CloseRead(t.Context())
	testdb.NoError(t, stop())
}

// TestReattach has the engine go away, and come back.
func TestReattach(t *testing.T) {
	e := newEngine(t)
	e.worker(Options{})
	l := e.next("w1", "secret")
	if first := l.registered()[0]; first["type"] != typeRegisterFunction {
		t.Errorf("the first frame of a new worker is %v", first)
	}
	l.send(`{"type":"ping"}`) // it has read who it is
	l.want(`{"type":"pong"}`)
	l.drop()
	l = e.next("w2", "other")
	l.want(`{"previous_worker_id":"w1","reattach_token":"secret","type":"reattach"}`)
	if n := len(l.registered()); n != len(functions.All())+1 {
		t.Errorf("registered %d frames again", n)
	}
	l.send(`{"type":"invokefunction","invocation_id":"1","function_id":"memory::session::list","data":null}`)
	l.want(`{"function_id":"memory::session::list","invocation_id":"1","result":[],"type":"invocationresult"}`)
}

func TestConflict(t *testing.T) {
	e := newEngine(t)
	_, stop := e.worker(Options{})
	l := e.next("w1", "")
	l.registered()
	l.send(`{"type":"registrationrejected","code":"FUNCTION_NAMESPACE_CONFLICT","namespace":"default","function_id":"memory::store","owner_worker_id":"w0"}`)
	l.send(`{"type":"ping"}`)
	l.want(`{"type":"pong"}`)
	l.send(`{"type":"registrationrejected","code":"WORKER_NAMESPACE_CONFLICT","namespace":"default","worker_name":"memdb","owner_worker_id":"w0"}`)
	_, _, err := l.conn.Read(t.Context())
	if err == nil {
		t.Error("the worker goes on")
	}
	l.drop()
	if err := stop(); !errors.Is(err, ErrConflict) || !strings.Contains(err.Error(), "w0") {
		t.Errorf("ended with %v", err)
	}
}

// TestScope has an engine that sees one agent alone.
func TestScope(t *testing.T) {
	e := newEngine(t)
	db, _ := e.worker(Options{Scope: memory.Scope{User: "ada", Agent: "bot"}})
	testdb.Store(t, db.Memories(), memory.Memory{Scope: memory.Scope{User: "bob", Agent: "bot"}, Text: "the secret of bob"})
	l := e.next("w1", "")
	l.registered()
	l.send(`{"type":"invokefunction","invocation_id":"1","function_id":"memory::recall","data":{"query":"secret"}}`)
	l.want(`{"function_id":"memory::recall","invocation_id":"1","result":[],"type":"invocationresult"}`)
	l.send(`{"type":"invokefunction","invocation_id":"2","function_id":"memory::store","data":{"agentId":"other","content":"x"}}`)
	if f := l.read(); f["error"].(map[string]any)["code"] != functions.CodeForbidden {
		t.Errorf("another agent: %v", f)
	}
	l.send(`{"type":"invokefunction","invocation_id":"3","function_id":"memory::evict","data":{"cap":1}}`)
	l.want(`{"function_id":"memory::evict","invocation_id":"3","result":{"evicted":0},"type":"invocationresult"}`)
	l.send(`{"type":"invokefunction","invocation_id":"4","function_id":"memory::store","data":{"content":"x"}}`)
	if f := l.read(); f["error"] != nil {
		t.Errorf("its own agent: %v", f)
	}
	if all := testdb.List(t, db.Memories(), memory.Scope{User: "ada", Agent: "bot"}); len(all) != 1 {
		t.Errorf("ada's bot has %+v", all)
	}
}

// TestTimeout has functions that take longer than they may.
func TestTimeout(t *testing.T) {
	e := newEngine(t)
	e.worker(Options{Timeout: time.Nanosecond, MaxConcurrent: 1})
	l := e.next("w1", "")
	l.registered()
	for i := range 3 {
		l.send(`{"type":"invokefunction","invocation_id":"%d","function_id":"memory::store","data":{"content":"x"}}`, i)
		if f := l.read(); f["error"] == nil || f["error"].(map[string]any)["code"] != functions.CodeTimeout {
			t.Errorf("too late: %v", f)
		}
	}
}

func TestOptions(t *testing.T) {
	db := testdb.New(t, engine.Options{})
	for _, o := range []Options{
		{},
		{URL: "ws://127.0.0.1:1"},
		{URL: "http://127.0.0.1:1", DB: db},
		{URL: "127.0.0.1:49134", DB: db},
		{URL: "ws://%", DB: db},
		{URL: "ws://127.0.0.1:1", DB: db, Timeout: -1},
		{URL: "ws://127.0.0.1:1", DB: db, Scope: memory.Scope{User: strings.Repeat("a", 513)}},
	} {
		testdb.WantError(t, fmt.Sprintf("%.80v", o), Run(t.Context(), o), memory.ErrInvalid)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var log bytes.Buffer
	ended := make(chan error, 1)
	seen := make(chan struct{}, 1)
	logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		select {
		case seen <- struct{}{}:
		default:
		}
		return a
	}}))
	go func() {
		ended <- Run(ctx, Options{URL: "ws://user:hidden@127.0.0.1:1", DB: db, Logger: logger, FirstWait: time.Millisecond})
	}()
	<-seen
	cancel()
	testdb.NoError(t, <-ended) // an engine that is not there is waited for
	if strings.Contains(log.String(), "hidden") {
		t.Errorf("logged %s", &log)
	}
}

// TestRecording sends a worker what an engine has sent the one of the recording, and compares which keys
// the answers have.
func TestRecording(t *testing.T) {
	b, err := os.ReadFile(realdata.Path(t, "specs/iii/iii-sdk-0.22.1-wire-recording.json"))
	testdb.NoError(t, err)
	var recording struct {
		Frames []struct {
			Dir   string
			Frame map[string]any
		}
	}
	testdb.NoError(t, json.Unmarshal(b, &recording))
	e := newEngine(t)
	e.worker(Options{Cron: true})
	l := e.next("w", "")
	own := map[string]map[string]any{} // what the worker registers, by its type
	for _, f := range l.registered() {
		own[f["type"].(string)] = f
	}
	sent := map[any]bool{}
	compared := 0
	for _, r := range recording.Frames {
		f, kind := r.Frame, fmt.Sprint(r.Frame["type"])
		switch {
		case r.Dir == "engine->worker":
			if kind == typeInvokeFunction {
				sent[f["invocation_id"]] = true
			}
			l.send("%s", jsonOf(t, f))
			continue
		case kind == typeInvocationResult && sent[f["invocation_id"]]:
			got := l.read()
			if got["invocation_id"] != f["invocation_id"] || got["function_id"] != f["function_id"] {
				t.Errorf("answered %v, recorded %v", got, f)
			}
			sameKeys(t, got, f)
		case kind == typeInvokeFunction && f["function_id"] == registerWorker || kind == typeRegisterFunction || kind == typeRegisterTrigger:
			delete(f, "message_type") // which belongs to no frame
			sameKeys(t, own[kind], f)
		default:
			continue
		}
		compared++
	}
	if compared < 6 {
		t.Errorf("compared %d frames", compared)
	}
}

func sameKeys(t *testing.T, got, want map[string]any) {
	t.Helper()
	if g, w := slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)); !slices.Equal(g, w) {
		t.Errorf("a frame %v has the keys %v, want %v", want["type"], g, w)
	}
	if e, ok := want["error"].(map[string]any); ok && got["error"].(map[string]any)["code"] != e["code"] {
		t.Errorf("failed with %v, want %v", got["error"], e)
	}
}
