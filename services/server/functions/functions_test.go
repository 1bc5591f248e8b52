package functions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/apikeys"
	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/internal/testdb"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/scope"
	"github.com/seed-7aedc3ff/memdb/services/server"
	"github.com/seed-7aedc3ff/memdb/sessions"
)

// A bench is a server with the functions, over a database whose clock the test moves.
type bench struct {
	t     *testing.T
	db    *engine.DB
	clock *testdb.Clock
	keys  *apikeys.Keys
	s     *server.Server
}

func newBench(t *testing.T) *bench {
	clock := testdb.NewClock()
	db := testdb.New(t, engine.Options{Clock: clock.Now})
	keys := testdb.Keys(t, clock.Now)
	b := &bench{t: t, db: db, clock: clock, keys: keys, s: server.New(db, server.Options{Keys: keys, Clock: clock.Now})}
	b.s.Mount((&Functions{}).Dialect())
	return b
}

// key makes a key of scopes.
func (b *bench) key(of ...memory.Scope) string {
	b.t.Helper()
	key, _, err := b.keys.Add(b.t.Context(), apikeys.Rights{Scopes: of})
	testdb.NoError(b.t, err)
	return key
}

// call calls a function and returns the status and the answer.
func (b *bench) call(key, name, args string) (int, string) {
	r := httptest.NewRequest("POST", "http://127.0.0.1/functions/"+name, strings.NewReader(args))
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	w := httptest.NewRecorder()
	b.s.Handler().ServeHTTP(w, r)
	return w.Code, strings.TrimSpace(w.Body.String())
}

// want calls a function that answers as told.
func (b *bench) want(key, name, args, want string) {
	b.t.Helper()
	if status, got := b.call(key, name, args); status != http.StatusOK || got != want {
		b.t.Errorf("%s %s: %d %s\nwant %s", name, args, status, got, want)
	}
}

// into calls a function and reads its answer.
func (b *bench) into(key, name, args string, out any) {
	b.t.Helper()
	status, got := b.call(key, name, args)
	if status != http.StatusOK {
		b.t.Fatalf("%s %s: %d %s", name, args, status, got)
	}
	testdb.NoError(b.t, json.Unmarshal([]byte(got), out))
}

func (b *bench) store(key, args string) (out Created) {
	b.t.Helper()
	b.into(key, "memory::store", args, &out)
	return out
}

func TestStore(t *testing.T) {
	b := newBench(t)
	first := b.store("", `{"agentId":"agent-123","content":"User asked about pricing plans","role":"user","sessionId":"session-456","more":1}`)
	if !first.Stored || !regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(first.ID) {
		t.Errorf("stored %+v", first)
	}
	const known = `{"deduplicated":true}`
	again := `{"agentId":"agent-123","content":"User asked about pricing plans","role":"user"%s}`
	b.want("", "memory::store", fmt.Sprintf(again, `,"sessionId":"session-456"`), known)
	b.want("", "memory::store", fmt.Sprintf(again, ""), known)
	b.want("", "memory::store", fmt.Sprintf(again, `,"sessionId":"other"`), known)
	b.want("", "memory::store", fmt.Sprintf(again, `,"sessionId":"other"`), known)
	if got := b.store("", strings.ReplaceAll(fmt.Sprintf(again, ""), "agent-123", "agent-9")); !got.Stored {
		t.Errorf("another agent's: %+v", got)
	}
	all := testdb.List(t, b.db.Memories(), memory.Scope{Agent: "agent-123"})
	if len(all) != 1 || all[0].Run != "session-456" || all[0].Role != memory.RoleUser || *all[0].Confidence != 1 {
		t.Errorf("the agent has %+v", all)
	}
	for run, want := range map[string]int{"session-456": 1, "other": 1} {
		if s, err := b.db.Sessions().Get(t.Context(), scope.Owner{Agent: "agent-123"}, run); err != nil || s.Messages != want {
			t.Errorf("session %s: %+v, %v", run, s, err)
		}
	}
	b.store("", `{"content":"nobody's"}`)
	if all := testdb.List(t, b.db.Memories(), memory.Scope{Agent: DefaultAgent}); len(all) != 1 || all[0].Role != memory.RoleUser {
		t.Errorf("the agent default has %+v", all)
	}
	testdb.Check(t, b.db, 3)
}

// TestStoreAtOnce stores one content in many sessions at once: one of them is new, and all have it.
func TestStoreAtOnce(t *testing.T) {
	b := newBench(t)
	const sessions = 8
	answers := make(chan string, sessions)
	for i := range sessions {
		go func() {
			_, got := b.call("", "memory::store", fmt.Sprintf(`{"agentId":"a","content":"tea","sessionId":"%d"}`, i))
			answers <- got
		}()
	}
	stored := 0
	for range sessions {
		switch got := <-answers; {
		case strings.HasSuffix(got, `"stored":true}`):
			stored++
		case got != `{"deduplicated":true}`:
			t.Error(got)
		}
	}
	var list []SessionEntry
	if b.into("", "memory::session::list", `{"agentId":"a"}`, &list); stored != 1 || len(list) != sessions {
		t.Errorf("stored %d times in %d sessions", stored, len(list))
	}
	testdb.Check(t, b.db, 1)
}

// TestStoreAfterChange stores what a memory said before it was changed, or deleted.
func TestStoreAfterChange(t *testing.T) {
	b := newBench(t)
	first := b.store("", `{"agentId":"a","content":"tea"}`)
	text := "coffee"
	_, err := b.db.Memories().Update(t.Context(), memory.Scope{Agent: "a"}, first.ID, memory.Patch{Text: &text})
	testdb.NoError(t, err)
	second := b.store("", `{"agentId":"a","content":"tea"}`)
	if !second.Stored || second.ID == first.ID {
		t.Errorf("stored %+v beside %+v", second, first)
	}
	testdb.NoError(t, b.db.Memories().Delete(t.Context(), memory.Scope{Agent: "a"}, first.ID))
	testdb.NoError(t, b.db.Memories().Delete(t.Context(), memory.Scope{Agent: "a"}, second.ID))
	if third := b.store("", `{"agentId":"a","content":"tea"}`); !third.Stored {
		t.Errorf("stored %+v", third)
	}
}

func TestRecall(t *testing.T) {
	b := newBench(t)
	b.want("", "memory::recall", `{"agentId":"a","query":"pricing"}`, `[]`)
	b.store("", `{"agentId":"a","content":"User asked about pricing plans"}`)
	stored := b.clock.Now()
	b.clock.Advance(time.Hour)
	for i := range 15 {
		b.store("", fmt.Sprintf(`{"agentId":"a","content":"pricing of item %d","role":"assistant"}`, i))
	}
	b.store("", `{"agentId":"b","content":"another agent's pricing"}`)
	var hits []Recalled
	b.into("", "memory::recall", `{"agentId":"a","query":"What did the user ask about pricing plans?"}`, &hits)
	if len(hits) != DefaultLimit || hits[0].Content != "User asked about pricing plans" || hits[0].Role != "user" ||
		hits[0].Timestamp != stored.UnixMilli() || hits[0].Score <= hits[1].Score || hits[0].Score > 1 {
		t.Fatalf("recalled %+v", hits)
	}
	m, err := b.db.Memories().Get(t.Context(), memory.Scope{Agent: "a"}, hits[0].ID)
	if err != nil || m.AccessCount != 1 || !m.LastAccessed.Equal(b.clock.Now()) {
		t.Errorf("accessed %d times, last %v: %v", m.AccessCount, m.LastAccessed, err)
	}
	b.into("", "memory::recall", `{"agentId":"a","query":"pricing","limit":3}`, &hits)
	if len(hits) != 3 {
		t.Errorf("recalled %d", len(hits))
	}
	b.want("", "memory::recall", `{"agentId":"a","query":"pricing","limit":0}`, `[]`)
}

func TestEvict(t *testing.T) {
	b := newBench(t)
	b.store("", `{"agentId":"a","content":"ok"}`)
	b.store("", `{"agentId":"b","content":"thanks"}`)
	b.clock.Advance(29 * 24 * time.Hour)
	b.want("", "memory::evict", ``, `{"evicted":0}`)
	b.want("", "memory::evict", `{"maxAge":1296000000,"minImportance":0}`, `{"evicted":0}`)
	b.want("", "memory::evict", `{"agentId":"a","maxAge":1296000000,"minImportance":1}`, `{"evicted":1}`)
	b.want("", "memory::evict", `{"maxAge":1296000000,"minImportance":1}`, `{"evicted":1}`)
	for i := range 4 {
		b.store("", fmt.Sprintf(`{"agentId":"a","content":"fact %d of many"}`, i))
	}
	b.want("", "memory::evict", `{"cap":1}`, `{"evicted":3}`)
}

func TestConsolidate(t *testing.T) {
	b := newBench(t)
	st := b.store("", `{"agentId":"a","content":"the user prefers tea"}`)
	var out ConsolidatedReply
	for _, days := range []int{6, 2} { // seven days without access, and not before
		b.clock.Advance(time.Duration(days) * 24 * time.Hour)
		b.into("", "memory::consolidate", `{"decayRate":0.2}`, &out)
	}
	if out.MemoriesDecayed != 1 || out.MemoriesMerged != 0 || out.DurationMs < 0 {
		t.Errorf("consolidated %+v", out)
	}
	if m, err := b.db.Memories().Get(t.Context(), memory.Scope{Agent: "a"}, st.ID); err != nil || *m.Confidence < .799 || *m.Confidence > .801 {
		t.Errorf("confidence %v, %v", *m.Confidence, err)
	}
	for range 20 {
		b.into("", "memory::consolidate", `{"decayRate":0.5}`, &out)
	}
	if m, err := b.db.Memories().Get(t.Context(), memory.Scope{Agent: "a"}, st.ID); err != nil || *m.Confidence < .0999 || *m.Confidence > .1001 {
		t.Errorf("confidence %v, %v", *m.Confidence, err)
	}
	if out.MemoriesDecayed != 0 {
		t.Errorf("at the floor %+v", out)
	}
}

func TestGraph(t *testing.T) {
	b := newBench(t)
	b.want("", "memory::kg::query", `{"agentId":"g","entityId":"person:alice"}`, `[]`)
	b.want("", "memory::kg::add", `{"agentId":"g","entity":{"id":"person:alice","type":"person","properties":{"name":"Alice Johnson"},
		"relations":[{"target":"project:agentos","type":"works_on"},{"target":"person:bob","type":"reports_to"}]}}`, `{"stored":true,"id":"person:alice"}`)
	b.want("", "memory::kg::add", `{"agentId":"g","entity":{"id":"person:bob","type":"person","relations":[{"target":"person:carol","type":"reports_to"}]}}`, `{"stored":true,"id":"person:bob"}`)
	b.want("", "memory::kg::add", `{"agentId":"g","entity":{"id":"project:agentos","type":"project"}}`, `{"stored":true,"id":"project:agentos"}`)
	b.want("", "memory::kg::add", `{"agentId":"g","entity":{"id":"person:carol"}}`, `{"stored":true,"id":"person:carol"}`)
	b.want("", "memory::kg::add", `{"agentId":"g","entity":{"id":"person:carol"}}`, `{"stored":true,"id":"person:carol"}`)
	for depth, want := range map[string][]string{
		`,"depth":0`: {"person:alice"},
		`,"depth":1`: {"person:alice", "project:agentos", "person:bob"},
		``:           {"person:alice", "project:agentos", "person:bob", "person:carol"},
	} {
		var got []Entity
		b.into("", "memory::kg::query", `{"agentId":"g","entityId":"person:alice"`+depth+`}`, &got)
		var ids []string
		for _, e := range got {
			ids = append(ids, e.ID)
		}
		testdb.Equal(t, "depth"+depth, ids, want)
	}
	b.want("", "memory::kg::query", `{"agentId":"g","entityId":"project:agentos","depth":0}`,
		`[{"id":"project:agentos","name":"","type":"project","properties":{},"relations":[{"target":"person:alice","type":"inverse:works_on"}]}]`)
	b.want("", "memory::kg::query", `{"agentId":"h","entityId":"person:alice"}`, `[]`)
}

func TestSessions(t *testing.T) {
	b := newBench(t)
	b.want("", "memory::session::list", `{"agentId":"a"}`, `[]`)
	b.want("", "memory::session::compact", `{"agentId":"a","sessionId":"s"}`, `{"compacted":false,"reason":"below_threshold"}`)
	b.want("", "memory::session::repair", `{"agentId":"a","sessionId":"s"}`,
		`{"repaired":false,"totalFixes":0,"stats":{"emptyRemoved":0,"duplicatesRemoved":0,"consecutiveMerged":0,"orphanedRefs":0,"reordered":0,"oversizedDetected":0}}`)
	for i := range 30 {
		if i == 29 {
			b.want("", "memory::session::compact", `{"agentId":"a","sessionId":"s"}`, `{"compacted":false,"reason":"below_threshold"}`)
		}
		b.store("", fmt.Sprintf(`{"agentId":"a","sessionId":"s","content":"The plan number %d costs %d dollars.","role":"%s"}`, i, i, []string{"user", "assistant"}[i%2]))
	}
	at := b.clock.Now().UnixMilli()
	b.want("", "memory::session::list", `{"agentId":"a"}`,
		fmt.Sprintf(`[{"key":"s","value":{"sessionId":"s","agentId":"a","messageCount":30,"compactions":0,"createdAt":%d,"updatedAt":%d}}]`, at, at))
	var c Compacted
	b.into("", "memory::session::compact", `{"agentId":"a","sessionId":"s"}`, &c)
	if !c.Compacted || c.Summarized != 20 || c.Kept != 10 {
		t.Errorf("compacted %+v", c)
	}
	m, err := b.db.Memories().Get(t.Context(), memory.Scope{Agent: "a"}, c.SummaryID)
	if err != nil || m.Role != memory.RoleSystem || *m.Importance != .9 {
		t.Errorf("summary %+v, %v", m, err)
	}
	b.into("", "memory::session::compact", `{"agentId":"a","sessionId":"s","threshold":10,"keepRecent":9}`, &c)
	if !c.Compacted || c.Summarized != 1 || c.Kept != 9 {
		t.Errorf("compacted again %+v", c)
	}
}

func TestRepair(t *testing.T) {
	b := newBench(t)
	at := b.clock.Now()
	items := []sessions.Item{
		{Message: &sessions.Message{ID: "1", Role: "user", Text: "one", At: at}},
		{Message: &sessions.Message{ID: "2", Role: "user", Text: "two", At: at.Add(time.Second)}},
		{Message: &sessions.Message{ID: "3", Role: "assistant", At: at.Add(2 * time.Second)}},
		{Message: &sessions.Message{ID: "4", Role: "assistant", Text: "four", At: at.Add(4 * time.Second)}},
		{Message: &sessions.Message{ID: "4", Role: "assistant", Text: "four", At: at.Add(4 * time.Second)}},
		{Message: &sessions.Message{ID: "5", Role: "system", Text: strings.Repeat("x", sessions.Oversized+1), At: at.Add(3 * time.Second)}},
	}
	_, err := b.db.Sessions().Save(t.Context(), scope.Owner{Agent: "a"}, DefaultSession, items, nil)
	testdb.NoError(t, err)
	var r Repaired
	b.into("", "memory::session::repair", `{"agentId":"a"}`, &r)
	want := RepairStats{EmptyRemoved: 1, DuplicatesRemoved: 1, ConsecutiveMerged: 1, Reordered: 1, OversizedDetected: 1}
	if !r.Repaired || r.TotalFixes != 4 || r.Stats != want {
		t.Errorf("repaired %+v", r)
	}
	b.into("", "memory::session::repair", `{"agentId":"a"}`, &r)
	if r.Repaired || r.TotalFixes != 0 {
		t.Errorf("repaired again %+v", r)
	}
}

func TestBadCalls(t *testing.T) {
	b := newBench(t)
	for _, c := range []struct {
		name, args string
		status     int
		code, says string
	}{
		{"memory::unknown", `{}`, 404, CodeNotFound, "Function memory::unknown not found"},
		{"memory::store", ``, 400, CodeFailed, "content is missing"},
		{"memory::store", `{"content":1}`, 400, CodeFailed, "content"},
		{"memory::store", `{"content":"x","role":"captain"}`, 400, CodeFailed, "role"},
		{"memory::store", `["x"]`, 400, CodeFailed, "no JSON object"},
		{"memory::store", `{"content":"x"`, 400, CodeFailed, "arguments"},
		{"memory::store", `{"content":"x","agentId":"` + strings.Repeat("a", 513) + `"}`, 400, CodeFailed, "512"},
		{"memory::recall", `{"agentId":"a"}`, 400, CodeFailed, "query is missing"},
		{"memory::recall", `{"agentId":"a","query":"x","limit":-1}`, 400, CodeFailed, "limit is -1"},
		{"memory::recall", `{"agentId":"a","query":"x","limit":1.5}`, 400, CodeFailed, "limit"},
		{"memory::recall", `{"agentId":"a","query":"x","limit":10001}`, 400, CodeFailed, "10000"},
		{"memory::evict", `{"maxAge":-1}`, 400, CodeFailed, "maxAge is -1"},
		{"memory::evict", `{"maxAge":9223372036854775807}`, 400, CodeFailed, "maxAge"},
		{"memory::evict", `{"minImportance":2}`, 400, CodeFailed, ""},
		{"memory::evict", `{"cap":-1}`, 400, CodeFailed, ""},
		{"memory::consolidate", `{"decayRate":-0.1}`, 400, CodeFailed, ""},
		{"memory::kg::add", `{"agentId":"a"}`, 400, CodeFailed, "entity is missing"},
		{"memory::kg::add", `{"agentId":"a","entity":{"type":"x"}}`, 400, CodeFailed, "entity.id is missing"},
		{"memory::kg::add", `{"agentId":"a","entity":{"id":"x","relations":[{"target":"y"}]}}`, 400, CodeFailed, "relations[0]"},
		{"memory::kg::add", `{"agentId":"a","entity":{"id":"x","properties":[]}}`, 400, CodeFailed, "object"},
		{"memory::kg::query", `{"agentId":"a"}`, 400, CodeFailed, "entityId is missing"},
		{"memory::kg::query", `{"agentId":"a","entityId":"x","depth":-1}`, 400, CodeFailed, ""},
		{"memory::session::compact", `{"agentId":"a","keepRecent":0}`, 400, CodeFailed, "keepRecent 0"},
		{"memory::session::compact", `{"agentId":"a","threshold":10}`, 400, CodeFailed, "threshold is 10"},
		{"memory::session::repair", `{"agentId":"a","sessionId":"` + strings.Repeat("a", 513) + `"}`, 400, CodeFailed, "512"},
		{"a/b", `{}`, 404, CodeFailed, "nothing at this path"},
	} {
		status, got := b.call("", c.name, c.args)
		var f struct{ Error errorBody }
		if err := json.Unmarshal([]byte(got), &f); err != nil || status != c.status || f.Error.Code != c.code || !strings.Contains(f.Error.Message, c.says) || f.Error.RequestID == "" {
			t.Errorf("%s %.80s: %d %s", c.name, c.args, status, got)
		}
	}
	testdb.Check(t, b.db, 0)
}

// TestKeys has two keys of one agent name, and keys that are narrower.
func TestKeys(t *testing.T) {
	b := newBench(t)
	ada, bob := b.key(memory.Scope{User: "ada"}), b.key(memory.Scope{User: "bob"})
	bot := b.key(memory.Scope{User: "ada", Agent: "bot"})
	run := b.key(memory.Scope{User: "ada", Agent: "bot", Run: "r"})
	b.store(ada, `{"agentId":"bot","content":"the secret of ada","sessionId":"s"}`)
	b.want(ada, "memory::kg::add", `{"agentId":"bot","entity":{"id":"x"}}`, `{"stored":true,"id":"x"}`)
	for _, key := range []string{ada, bot} {
		var hits []Recalled
		b.into(key, "memory::recall", `{"agentId":"bot","query":"secret"}`, &hits)
		if len(hits) != 1 {
			t.Errorf("recalled %+v", hits)
		}
	}
	for name, args := range map[string]string{
		"memory::recall": `,"query":"secret"`, "memory::kg::query": `,"entityId":"x"`, "memory::session::list": ``,
	} {
		b.want(bob, name, `{"agentId":"bot"`+args+`}`, `[]`)
		b.want(bob, name, `{"agentId":"nobody"`+args+`}`, `[]`)
	}
	if st := b.store(bob, `{"agentId":"bot","content":"the secret of ada"}`); !st.Stored {
		t.Errorf("stored %+v", st)
	}
	if st := b.store(run, `{"content":"the secret of ada"}`); !st.Stored {
		t.Errorf("a key of a run is told of what is in another: %+v", st)
	}
	b.want(run, "memory::store", `{"content":"the secret of ada"}`, `{"deduplicated":true}`)
	var list []SessionEntry
	if b.into(run, "memory::session::list", ``, &list); len(list) != 1 || list[0].Key != "r" || list[0].Value.MessageCount != 1 {
		t.Errorf("sessions of a key of a run: %+v", list)
	}
	b.want(bot, "memory::recall", `{"query":"secret","limit":0}`, `[]`) // the agent is the key's
	for _, c := range []struct{ key, name, args string }{
		{bot, "memory::store", `{"agentId":"other","content":"x"}`},
		{bot, "memory::recall", `{"agentId":"other","query":"x"}`},
		{bot, "memory::kg::add", `{"agentId":"other","entity":{"id":"x"}}`},
		{bot, "memory::session::repair", `{"agentId":"other"}`},
		{bot, "memory::evict", `{"agentId":"other"}`},
		{run, "memory::store", `{"content":"x","sessionId":"s"}`},
		{run, "memory::session::compact", `{"sessionId":"s"}`},
		{run, "memory::kg::query", `{"entityId":"x"}`},
		{run, "memory::evict", `{}`},
		{run, "memory::consolidate", `{}`},
	} {
		if status, got := b.call(c.key, c.name, c.args); status != 403 || !strings.Contains(got, CodeForbidden) {
			t.Errorf("%s %s: %d %s", c.name, c.args, status, got)
		}
	}
	if status, got := b.call("", "memory::store", `{"content":"x"}`); status != 401 {
		t.Errorf("without a key: %d %s", status, got)
	}
	b.clock.Advance(31 * 24 * time.Hour)
	b.want(bob, "memory::evict", `{"minImportance":1}`, `{"evicted":1}`)
	if all := testdb.List(t, b.db.Memories(), memory.Scope{User: "ada"}); len(all) != 2 {
		t.Errorf("ada has %+v", all)
	}
}

func TestList(t *testing.T) {
	b := newBench(t)
	w := httptest.NewRecorder()
	b.s.Handler().ServeHTTP(w, httptest.NewRequest("GET", "http://127.0.0.1/functions", nil))
	var list []struct{ ID, Description string }
	if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil || len(list) != len(All()) || list[0].ID != "memory::store" {
		t.Errorf("%s, %v", w.Body, err)
	}
}

func TestCode(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{errors.New("x"), CodeFailed},
		{server.Denied("x"), CodeForbidden},
		{fmt.Errorf("late: %w", context.DeadlineExceeded), CodeTimeout},
	} {
		if Code(c.err) != c.want {
			t.Errorf("%v: %s", c.err, Code(c.err))
		}
	}
}
