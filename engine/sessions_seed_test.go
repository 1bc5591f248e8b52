package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/sessions"
)

// The tests of this file are sentences that say what sessions are for; each is the name of
// one.

// toldSummarizer returns what it is told to, and notes what it was given.
type toldSummarizer struct {
	mu       sync.Mutex
	previous []string
	sizes    []int
	texts    []string
	fn       func(ctx context.Context, call int) (string, error)
}

func (s *toldSummarizer) Summarize(ctx context.Context, previous string, m []sessions.Message) (string, error) {
	s.mu.Lock()
	s.previous = append(s.previous, previous)
	s.sizes = append(s.sizes, len(m))
	for _, of := range m {
		s.texts = append(s.texts, of.Text)
	}
	n := len(s.sizes)
	s.mu.Unlock()
	if s.fn != nil {
		return s.fn(ctx, n)
	}
	return fmt.Sprint("summary ", n), nil
}

// turns appends messages of two who take turns.
func (w *talk) turns(name string, from, n int) {
	w.t.Helper()
	var m []sessions.Message
	for i := range n {
		w.clk.advance(time.Second)
		m = append(m, sessions.Message{ID: fmt.Sprint("m", from+i), Role: []string{"user", "assistant"}[(from+i)%2], Text: fmt.Sprint("turn ", from+i), At: w.clk.now()})
	}
	w.appendTo(name, m, nil)
}

func (w *talk) compact(name string, o *sessions.CompactOptions) sessions.Compacted {
	w.t.Helper()
	r, err := w.db.Sessions().Compact(w.t.Context(), supportAgent, name, o)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

func TestSessionSeedUpdatesSessionMetadataIfSessionIDProvided(t *testing.T) {
	w := newTalk(t)
	lsn := w.db.LSN()
	s, a, err := w.db.Sessions().StoreMemory(t.Context(), memory.Memory{Scope: memory.Scope{Agent: "support", Run: "session-456"}, Text: "User asked about pricing plans", Metadata: map[string]any{"n": 1.0}}, nil, sessions.Message{}, nil)
	if err != nil || !s.Stored || a.MemoryID != s.ID || a.Messages != 1 || w.db.LSN() != lsn+1 {
		t.Errorf("%+v, %+v, %v", s, a, err)
	}
	again, b, err := w.db.Sessions().StoreMemory(t.Context(), memory.Memory{Scope: memory.Scope{Agent: "support", Run: "session-456"}, Text: "User asked about pricing plans"}, nil, sessions.Message{}, nil)
	if err != nil || !again.Deduplicated || again.ID != s.ID || b.Messages != 2 {
		t.Errorf("%+v, %+v, %v", again, b, err)
	}
	mustCheck(t, w.db, 1)
}

func TestSessionSeedListsAllSessionsForASpecificAgent(t *testing.T) {
	w := newTalk(t)
	w.say("a", "user", "x")
	w.say("b", "user", "x")
	if _, err := w.db.Sessions().Append(t.Context(), memory.Owner{Agent: "other"}, "c", []sessions.Message{{Text: "x"}}, nil); err != nil {
		t.Fatal(err)
	}
	equalSlices(t, "sessions", w.names(sessions.Query{}), []string{"b", "a"})
}

func TestSessionSeedSplitsIntoMessagesToSummariseAndRecentOnesToKeep(t *testing.T) {
	w := newTalk(t)
	sum := &toldSummarizer{}
	o := &sessions.CompactOptions{Summarizer: sum}
	w.turns("s", 0, 29)
	if r := w.compact("s", o); r.Compacted || r.Kept != 29 {
		t.Errorf("below the threshold: %+v", r)
	}
	w.turns("s", 29, 6)
	first := w.compact("s", o)
	if !first.Compacted || first.Summarized != 25 || first.Kept != 10 {
		t.Errorf("35 messages: %+v", first)
	}
	if r := w.compact("s", o); r.Compacted {
		t.Errorf("again at once: %+v", r)
	}
	w.turns("s", 35, 35)
	second := w.compact("s", o)
	if !second.Compacted || second.Summarized != 35 || second.Kept != 10 || second.ArchiveName == first.ArchiveName {
		t.Errorf("35 more: %+v", second)
	}
	equalSlices(t, "previous summaries", sum.previous, []string{"", "summary 1"})
	m, err := w.db.Memories().Get(t.Context(), supportAgent.Scope(), second.SummaryID)
	if err != nil || m.Kind != memory.KindArchive || m.Role != memory.RoleSystem || *m.Importance != 0.9 || m.Name != second.ArchiveName || m.Text != "summary 2" {
		t.Errorf("the archive: %+v, %v", m, err)
	}
	items := w.items("s")
	if len(items) != 72 || items[25] != "--- 25" || items[61] != "--- 35" || items[62] != "user: turn 60" {
		t.Errorf("%d items: %q", len(items), items)
	}
	loaded, err := w.db.Sessions().Load(t.Context(), supportAgent, "s", nil)
	if err != nil || len(loaded.Messages) != 10 || loaded.Messages[0].Text != "turn 60" || loaded.Summary != "summary 2" || loaded.Marker.ArchiveID != second.SummaryID {
		t.Errorf("%+v, %v", loaded, err)
	}
	if i := loaded.Session; i.Messages != 70 || i.Compactions != 2 {
		t.Errorf("%+v", i)
	}
	mustCheck(t, w.db, 72)
}

func TestSessionSeedUpdatesTheSessionWithSummaryAndRecentMessages(t *testing.T) {
	w := newTalk(t)
	w.turns("s", 0, 30)
	r := w.compact("s", &sessions.CompactOptions{Drop: true})
	items := w.items("s")
	if r.Summarized != 20 || len(items) != 11 || items[0] != "--- 20" || items[1] != "user: turn 20" {
		t.Errorf("%+v, %q", r, items)
	}
	w.work()
	equalSlices(t, "items once the others are removed", w.items("s"), items)
	mustCheck(t, w.db, 31)
}

func TestSessionSeedChunksConversationTextAtMost80KCharsPerChunk(t *testing.T) {
	w := newTalk(t)
	var m []sessions.Message
	for i := range 30 {
		m = append(m, sessions.Message{Role: []string{"user", "assistant"}[i%2], Text: strings.Repeat(fmt.Sprint(i%10), 10_000)})
	}
	w.appendTo("s", m, &sessions.AppendOptions{NoMemory: true})
	sum := &toldSummarizer{}
	w.compact("s", &sessions.CompactOptions{Summarizer: sum})
	if fmt.Sprint(sum.sizes) != "[8 8 4]" {
		t.Errorf("messages in each chunk: %v", sum.sizes)
	}
	equalSlices(t, "previous", sum.previous, []string{"", "summary 1", "summary 2"})
}

// lateContext is one whose deadline passes when a test says so.
type lateContext struct {
	context.Context
	over chan struct{}
}

func (c *lateContext) Done() <-chan struct{} { return c.over }

func (c *lateContext) Err() error {
	select {
	case <-c.over:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

func TestSessionSeedACompactionThatFailsChangesNothing(t *testing.T) {
	w := newTalk(t)
	w.turns("s", 0, 40)
	lsn := w.db.LSN()
	late := &lateContext{Context: t.Context(), over: make(chan struct{})}
	for name, c := range map[string]struct {
		ctx  context.Context
		fn   func(context.Context, int) (string, error)
		says string
	}{
		"error":   {t.Context(), func(context.Context, int) (string, error) { return "", errors.New("out of tokens") }, "out of tokens"},
		"nothing": {t.Context(), func(context.Context, int) (string, error) { return " \n", nil }, "returned nothing"},
		"10 MB":   {t.Context(), func(context.Context, int) (string, error) { return strings.Repeat("x", 10<<20), nil }, "the limit is"},
		"no text": {t.Context(), func(context.Context, int) (string, error) { return "\xff", nil }, "UTF-8"},
		"hangs": {late, func(ctx context.Context, _ int) (string, error) {
			close(late.over)
			<-ctx.Done()
			return "", ctx.Err()
		}, "not done in time"},
	} {
		_, err := w.db.Sessions().Compact(c.ctx, supportAgent, "s", &sessions.CompactOptions{Summarizer: &toldSummarizer{fn: c.fn}})
		wantError(t, name, err, memory.ErrSummarizer)
		if err != nil && (!strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "chunk 1 of 1")) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, o := range []sessions.CompactOptions{{Threshold: 10, KeepRecent: 10}, {Threshold: -1}, {KeepRecent: -1}, {KeepRecent: 30}} {
		_, err := w.db.Sessions().Compact(t.Context(), supportAgent, "s", &o)
		wantError(t, fmt.Sprintf("%+v", o), err, memory.ErrInvalid)
	}
	if w.db.LSN() != lsn {
		t.Errorf("%d commits", w.db.LSN()-lsn)
	}
}

func TestSessionSeedTwoCompactionsAtOnceMakeOneArchive(t *testing.T) {
	w := newTalk(t)
	w.turns("s", 0, 35)
	both := make(chan struct{})
	var entered sync.WaitGroup
	entered.Add(2)
	go func() { entered.Wait(); close(both) }()
	sum := &toldSummarizer{fn: func(_ context.Context, call int) (string, error) {
		if call <= 2 {
			entered.Done()
			<-both
		}
		return "summary", nil
	}}
	results := make([]sessions.Compacted, 2)
	var done sync.WaitGroup
	for i := range results {
		done.Go(func() {
			var err error
			if results[i], err = w.db.Sessions().Compact(context.Background(), supportAgent, "s", &sessions.CompactOptions{Summarizer: sum}); err != nil {
				t.Error(err)
			}
		})
	}
	done.Wait()
	if results[0].Compacted == results[1].Compacted {
		t.Errorf("%+v", results)
	}
	archives := 0
	for _, m := range mustList(t, w.db.Memories(), supportAgent.Scope()) {
		if m.Kind == memory.KindArchive {
			archives++
		}
	}
	if archives != 1 || w.items("s")[25] != "--- 25" {
		t.Errorf("%d archives, %q", archives, w.items("s"))
	}
}

func TestSessionSeedAnAppendCompactsByItself(t *testing.T) {
	w := newTalk(t)
	for i := range 65 {
		w.appendTo("s", []sessions.Message{{Role: []string{"user", "assistant"}[i%2], Text: fmt.Sprint("turn ", i)}}, &sessions.AppendOptions{AutoCompact: &sessions.CompactOptions{}})
	}
	i, err := w.db.Sessions().Get(t.Context(), supportAgent, "s")
	if err != nil || i.Compactions != 2 || i.Messages != 65 {
		t.Errorf("%+v, %v", i, err)
	}
}

func TestSessionSeedRepairIsIdempotent(t *testing.T) {
	w := newTalk(t)
	s, ctx := w.db.Sessions(), t.Context()
	mustStore(t, w.db.Memories(), memory.Memory{ID: "lives", Scope: supportAgent.Scope(), Text: "from a memory"})
	at := func(s int) time.Time { return time.Unix(int64(1_700_000_000+s), 0).UTC() }
	message := func(id, role, text string, second int, refs ...string) sessions.Item {
		return sessions.Item{Message: &sessions.Message{ID: id, Role: role, Text: text, At: at(second), MemoryIDs: refs}}
	}
	n, err := s.Save(ctx, supportAgent, "s", []sessions.Item{
		message("", "user", "", 1), message("e", "user", "", 1), message("a", "user", "one", 1), message("a", "user", "one", 1),
		message("b", "user", "two", 2), message("c", "assistant", "", 3, "lives"), message("d", "user", "", 4, "gone"),
		{Marker: &sessions.Marker{Summarized: 3}},
		message("f", "tool", strings.Repeat("x", 600_000), 9), message("g", "user", "late", 8),
	}, nil)
	if err != nil || n != 9 {
		t.Fatal(n, err)
	}
	before := w.items("s")
	dry, err := s.Repair(ctx, supportAgent, "s", true)
	lsn := w.db.LSN()
	want := sessions.RepairStats{EmptyRemoved: 2, DuplicatesRemoved: 1, ConsecutiveMerged: 1, OrphanedRefs: 1, Reordered: 1, OversizedDetected: 1}
	if err != nil || dry.Stats != want || dry.TotalFixes != 5 || !dry.Repaired {
		t.Errorf("%+v, %v", dry, err)
	}
	equalSlices(t, "after a dry run", w.items("s"), before)
	r, err := s.Repair(ctx, supportAgent, "s", false)
	if err != nil || r != dry || w.db.LSN() != lsn+1 {
		t.Errorf("%+v, %v, %d commits", r, err, w.db.LSN()-lsn)
	}
	repaired := []string{"user: one\ntwo", "assistant: from a memory", "user: ", "--- 3", "user: late", "tool: " + strings.Repeat("x", 600_000)}
	equalSlices(t, "repaired", w.items("s"), repaired)
	lsn = w.db.LSN()
	if again, err := s.Repair(ctx, supportAgent, "s", false); err != nil || again.Repaired || again.TotalFixes != 0 || w.db.LSN() != lsn {
		t.Errorf("again: %+v, %v", again, err)
	}
	w.work()
	mustCheck(t, w.db, 1)
	if err := s.UndoRepair(ctx, supportAgent, "s"); err != nil {
		t.Fatal(err)
	}
	equalSlices(t, "undone", w.items("s"), before)
	wantError(t, "undone twice", s.UndoRepair(ctx, supportAgent, "s"), memory.ErrNotFound)
	if _, err := s.Repair(ctx, supportAgent, "s", false); err != nil {
		t.Fatal(err)
	}
	w.say("s", "user", "more")
	wantError(t, "undone after an append", s.UndoRepair(ctx, supportAgent, "s"), memory.ErrConflict)
	w.work()
	mustCheck(t, w.db, 2)
}

func TestSessionSeedGetOrCreate(t *testing.T) {
	w := newTalk(t)
	s, err := w.db.Sessions().Open(t.Context(), supportAgent, "s", nil)
	if err != nil || s.Messages != 0 || s.CreatedAt.IsZero() {
		t.Errorf("if no session exists, a new one is created with an empty message list: %+v, %v", s, err)
	}
	w.say("s", "user", "x")
	s, err = w.db.Sessions().Open(t.Context(), supportAgent, "s", nil)
	if err != nil || s.Messages != 1 {
		t.Errorf("the session is loaded: %+v, %v", s, err)
	}
}

func TestSessionSeedSessionsAreChannelScoped(t *testing.T) {
	w := newTalk(t)
	one, err := w.db.Sessions().OpenChannel(t.Context(), supportAgent, "telegram")
	two, other := w.db.Sessions().OpenChannel(t.Context(), supportAgent, "discord")
	if err := errors.Join(err, other); err != nil || one.Session == two.Session {
		t.Errorf("%+v, %+v, %v", one, two, err)
	}
	w.say(one.Session, "user", "secret")
	if items := w.items(two.Session); len(items) != 0 {
		t.Errorf("context leaks across channels: %q", items)
	}
}

func TestSessionSeedMessageContentOfSeveralParts(t *testing.T) {
	w := newTalk(t)
	parts := json.RawMessage(`[{"type":"text","text":"see"},{"type":"image","url":"file:///a.png","w":12345678901234567890},{"type":"tool_call","id":"t1","args":{"q":"\u00e9"}},{"type":"tool_result","id":"t1","ok":1e-7}]`)
	w.appendTo("s", []sessions.Message{{Text: "see", Parts: parts}}, nil)
	w.reopen()
	l, err := w.db.Sessions().Load(t.Context(), supportAgent, "s", nil)
	if err != nil || string(l.Messages[0].Parts) != string(parts) || l.Messages[0].Text != "see" {
		t.Errorf("%s, %v", l.Messages[0].Parts, err)
	}
}

func TestSessionSeedALongSessionIsSavedAsideAndShownByOneCommit(t *testing.T) {
	w := newTalk(t)
	s, ctx := w.db.Sessions(), t.Context()
	w.say("s", "user", "old")
	var items []sessions.Item
	for i := range 5500 {
		items = append(items, sessions.Item{Message: &sessions.Message{ID: fmt.Sprint("m", i), Role: []string{"user", "assistant"}[i%2], Text: fmt.Sprint("text ", i)}})
	}
	stop := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() { // sees either the old session or the new one
		for {
			select {
			case <-stop:
				return
			default:
			}
			i, err := s.Get(context.Background(), supportAgent, "s")
			if err != nil || i.Messages != 1 && i.Messages != len(items) {
				t.Errorf("%d messages, %v", i.Messages, err)
				return
			}
		}
	})
	lsn := w.db.LSN()
	n, err := s.Save(ctx, supportAgent, "s", items, nil)
	close(stop)
	watch.Wait()
	if err != nil || n != len(items) || w.db.LSN()-lsn != 6 {
		t.Errorf("%d messages in %d commits, %v", n, w.db.LSN()-lsn, err)
	}
	if got := w.items("s"); len(got) != len(items) || got[5499] != "assistant: text 5499" {
		t.Errorf("%d items", len(got))
	}
	wrong := uint64(1)
	_, err = s.Save(ctx, supportAgent, "s", items[:2], &sessions.SaveOptions{IfVersion: &wrong})
	wantError(t, "another version", err, memory.ErrConflict)
	_, err = s.Save(ctx, supportAgent, "fresh", items, nil) // one that is not there yet
	if err != nil || len(w.items("fresh")) != len(items) {
		t.Error(err)
	}
	w.work()
	mustCheck(t, w.db, 1)
	if n := w.keysOf("s"); n != 2*len(items)+2 { // messages and IDs, the session and its state
		t.Errorf("%d keys", n)
	}
}

// untilCommit is a context that is cancelled with the next commit.
type untilCommit struct {
	context.Context
	db  *DB
	lsn uint64
}

func (c untilCommit) Err() error {
	if c.db.LSN() > c.lsn {
		return context.Canceled
	}
	return nil
}

// A save that ends half-way, as by a crash, leaves nothing that is seen, and is removed.
func TestSessionSaveLeftHalfWay(t *testing.T) {
	w := newTalk(t)
	w.say("old", "user", "kept")
	var items []sessions.Item
	for i := range 2500 {
		items = append(items, sessions.Item{Message: &sessions.Message{ID: fmt.Sprint("m", i), Role: "user", Text: "x"}})
	}
	for _, name := range []string{"old", "new"} {
		_, err := w.db.Sessions().Save(untilCommit{t.Context(), w.db, w.db.LSN()}, supportAgent, name, items, nil)
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	if names := w.names(sessions.Query{}); !slices.Equal(names, []string{"old"}) {
		t.Errorf("%v", names)
	}
	w.work()
	equalSlices(t, "items", w.items("old"), []string{"user: kept"})
	if n, m := w.keysOf("old"), w.keysOf("new"); n != 4 || m != 0 { // session, state, message, ID
		t.Errorf("%d keys of the old session and %d of the new one are left", n, m)
	}
	mustCheck(t, w.db, 1)
}

func TestSessionSeedFetchesFullMessageContentFromMemory(t *testing.T) {
	w := newTalk(t)
	for i := range 30 {
		id := fmt.Sprint("m", i)
		mustStore(t, w.db.Memories(), memory.Memory{ID: id, Scope: supportAgent.Scope(), Text: fmt.Sprint("content ", i)})
		w.appendTo("s", []sessions.Message{{Role: []string{"user", "assistant"}[i%2], MemoryIDs: []string{id}}}, nil)
	}
	changed := "content that changed since"
	if _, err := w.db.Memories().Update(t.Context(), supportAgent.Scope(), "m3", memory.Patch{Text: &changed}); err != nil {
		t.Fatal(err)
	}
	sum := &toldSummarizer{}
	w.compact("s", &sessions.CompactOptions{Summarizer: sum})
	told := strings.Join(sum.texts, "\n") + "\n"
	for i := range 20 {
		want := fmt.Sprint("content ", i)
		if i == 3 {
			want = changed
		}
		if !strings.Contains(told, want+"\n") {
			t.Errorf("the summarizer was not told of %q", want)
		}
	}
	if strings.Contains(told, "content 20") {
		t.Error("the summarizer was told of what is kept")
	}
}

func TestSessionSeedThresholdAndKeepRecentAreThoseOfTheCall(t *testing.T) {
	w := newTalk(t)
	o := &sessions.CompactOptions{Threshold: 50, KeepRecent: 15}
	w.turns("s", 0, 49)
	if r := w.compact("s", o); r.Compacted || r.SummaryID != "" {
		t.Errorf("49 messages: %+v", r)
	}
	w.turns("s", 49, 1)
	r := w.compact("s", o)
	if !r.Compacted || r.Summarized != 35 || r.Kept != 15 {
		t.Errorf("50 messages: %+v", r)
	}
	m, err := w.db.Memories().Get(t.Context(), supportAgent.Scope(), r.SummaryID)
	if err != nil || m.Role != memory.RoleSystem || *m.Importance != 0.9 {
		t.Errorf("the summary: %+v, %v", m, err)
	}
}

func TestSessionSeedRepairsEachCorruptionByItself(t *testing.T) {
	w := newTalk(t)
	mustStore(t, w.db.Memories(), memory.Memory{ID: "lives", Scope: supportAgent.Scope(), Text: "from a memory"})
	message := func(id, role, text string, second int, refs ...string) sessions.Item {
		at := time.Unix(int64(1_700_000_000+second), 0).UTC()
		return sessions.Item{Message: &sessions.Message{ID: id, Role: role, Text: text, At: at, MemoryIDs: refs}}
	}
	big := strings.Repeat("x", 512_001)
	for name, c := range map[string]struct {
		items []sessions.Item
		want  []string
		stats sessions.RepairStats
		fixes int
	}{
		"nothing":              {[]sessions.Item{message("a", "user", "x", 1), message("b", "assistant", "y", 2)}, []string{"user: x", "assistant: y"}, sessions.RepairStats{}, 0},
		"neither ID nor text":  {[]sessions.Item{message("", "user", "", 1), message("b", "assistant", "y", 2)}, []string{"assistant: y"}, sessions.RepairStats{EmptyRemoved: 1}, 1},
		"no ID":                {[]sessions.Item{message("", "user", "x", 1), message("b", "assistant", "y", 2)}, []string{"user: x", "assistant: y"}, sessions.RepairStats{}, 0},
		"no content":           {[]sessions.Item{message("a", "user", "", 1), message("b", "assistant", "y", 2)}, []string{"assistant: y"}, sessions.RepairStats{EmptyRemoved: 1}, 1},
		"one ID twice":         {[]sessions.Item{message("a", "user", "x", 1), message("b", "tool", "z", 1), message("a", "user", "x", 2)}, []string{"user: x", "tool: z"}, sessions.RepairStats{DuplicatesRemoved: 1}, 1},
		"one ID for two":       {[]sessions.Item{message("a", "user", "x", 1), message("a", "assistant", "y", 2)}, []string{"user: x", "assistant: y"}, sessions.RepairStats{DuplicatesRemoved: 1}, 1},
		"a role twice":         {[]sessions.Item{message("a", "user", "x", 1), message("b", "user", "y", 2)}, []string{"user: x\ny"}, sessions.RepairStats{ConsecutiveMerged: 1}, 1},
		"the system's twice":   {[]sessions.Item{message("a", "system", "x", 1), message("b", "system", "y", 2)}, []string{"system: x", "system: y"}, sessions.RepairStats{}, 0},
		"a memory that is not": {[]sessions.Item{message("a", "user", "x", 1, "gone"), message("b", "assistant", "", 2, "lives")}, []string{"user: x", "assistant: from a memory"}, sessions.RepairStats{OrphanedRefs: 1}, 0},
		"swapped times":        {[]sessions.Item{message("a", "user", "x", 2), message("b", "assistant", "y", 1)}, []string{"assistant: y", "user: x"}, sessions.RepairStats{Reordered: 1}, 1},
		"over 500 KB":          {[]sessions.Item{message("a", "user", big, 1)}, []string{"user: " + big}, sessions.RepairStats{OversizedDetected: 1}, 0},
		"500 KB":               {[]sessions.Item{message("a", "user", big[1:], 1)}, []string{"user: " + big[1:]}, sessions.RepairStats{}, 0},
	} {
		if _, err := w.db.Sessions().Save(t.Context(), supportAgent, "s", c.items, nil); err != nil {
			t.Fatal(name, err)
		}
		r, err := w.db.Sessions().Repair(t.Context(), supportAgent, "s", false)
		if err != nil || r.Stats != c.stats || r.TotalFixes != c.fixes || r.Repaired != (c.fixes > 0) {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
		equalSlices(t, name, w.items("s"), c.want)
		if again, err := w.db.Sessions().Repair(t.Context(), supportAgent, "s", false); err != nil || again.TotalFixes != 0 || again.Repaired {
			t.Errorf("%s, again: %+v, %v", name, again, err)
		}
	}
}

func TestSessionSeedTheConversationContinuesWhereItWas(t *testing.T) {
	w := newTalk(t)
	for i := range 3 {
		w.say("s", "user", fmt.Sprint("question ", i))
		w.say("s", "assistant", fmt.Sprint("answer ", i))
		w.reopen() // after every loop of the agent
		l, err := w.db.Sessions().Load(t.Context(), supportAgent, "s", nil)
		if err != nil || len(l.Messages) != 2*(i+1) || l.Messages[2*i+1].Text != fmt.Sprint("answer ", i) || l.Session.UpdatedAt.Before(l.Session.CreatedAt) {
			t.Errorf("%+v, %v", l, err)
		}
	}
}

func TestSessionSeedSaveUpdatesTheMessageHistory(t *testing.T) {
	w := newTalk(t)
	w.say("s", "user", "hello")
	var items []sessions.Item
	for i, err := range w.db.Sessions().Items(t.Context(), supportAgent, "s") {
		if err != nil {
			t.Fatal(err)
		}
		items = append(items, i)
	}
	items = append(items, sessions.Item{Message: &sessions.Message{ID: "pushed", Role: "assistant", Text: "good morning"}})
	if n, err := w.db.Sessions().Save(t.Context(), supportAgent, "s", items, nil); n != 2 || err != nil {
		t.Error(n, err)
	}
	w.reopen()
	equalSlices(t, "saved", w.items("s"), []string{"user: hello", "assistant: good morning"})
}

func TestSessionSeedASessionOfMoreThan20MessagesLosesTheOldest(t *testing.T) {
	w := newTalk(t)
	trim := &sessions.AppendOptions{TrimRemoves: 20}
	for i := range 25 {
		w.appendTo("s", []sessions.Message{{Text: fmt.Sprint("turn ", i)}}, trim)
		if items := w.items("s"); len(items) != min(i+1, 20) || items[len(items)-1] != fmt.Sprint("user: turn ", i) {
			t.Errorf("after %d: %q", i+1, items)
		}
	}
	w.work()
	if items := w.items("s"); items[0] != "user: turn 5" {
		t.Errorf("%q", items)
	}
	mustCheck(t, w.db, 25)
}

func TestSessionSeedOldSessionsAreArchivedAndExported(t *testing.T) {
	w := newTalk(t)
	w.say("old", "user", "hello")
	w.say("new", "user", "hello")
	if err := w.db.Sessions().Archive(t.Context(), supportAgent, "old"); err != nil {
		t.Fatal(err)
	}
	equalSlices(t, "sessions", w.names(sessions.Query{}), []string{"new"})
	equalSlices(t, "archived sessions", w.names(sessions.Query{Archived: true}), []string{"old"})
	var exported []string
	err := w.db.View(t.Context(), func(tx *Tx) error {
		return tx.Lines(supportAgent.Scope(), nil, func(l Line) error {
			exported = append(exported, l.Type())
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	equalSlices(t, "exported", exported, []string{"session", "message", "session", "message"})
}
