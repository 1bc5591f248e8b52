package sessions_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/internal/testdb"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/sessions"
)

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
		w.clk.Advance(time.Second)
		m = append(m, sessions.Message{ID: fmt.Sprint("m", from+i), Role: []string{"user", "assistant"}[(from+i)%2], Text: fmt.Sprint("turn ", from+i), At: w.clk.Now()})
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

func TestSessionSplitsIntoMessagesToSummariseAndRecentOnesToKeep(t *testing.T) {
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
	testdb.Equal(t, "previous summaries", sum.previous, []string{"", "summary 1"})
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
	testdb.Check(t, w.db, 72)
}

func TestSessionUpdatesTheSessionWithSummaryAndRecentMessages(t *testing.T) {
	w := newTalk(t)
	w.turns("s", 0, 30)
	r := w.compact("s", &sessions.CompactOptions{Drop: true})
	items := w.items("s")
	if r.Summarized != 20 || len(items) != 11 || items[0] != "--- 20" || items[1] != "user: turn 20" {
		t.Errorf("%+v, %q", r, items)
	}
	w.work()
	testdb.Equal(t, "items once the others are removed", w.items("s"), items)
	testdb.Check(t, w.db, 31)
}

func TestSessionChunksConversationTextAtMost80KCharsPerChunk(t *testing.T) {
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
	testdb.Equal(t, "previous", sum.previous, []string{"", "summary 1", "summary 2"})
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

func TestSessionACompactionThatFailsChangesNothing(t *testing.T) {
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
		testdb.WantError(t, name, err, memory.ErrSummarizer)
		if err != nil && (!strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "chunk 1 of 1")) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, o := range []sessions.CompactOptions{{Threshold: 10, KeepRecent: 10}, {Threshold: -1}, {KeepRecent: -1}, {KeepRecent: 30}} {
		_, err := w.db.Sessions().Compact(t.Context(), supportAgent, "s", &o)
		testdb.WantError(t, fmt.Sprintf("%+v", o), err, memory.ErrInvalid)
	}
	if w.db.LSN() != lsn {
		t.Errorf("%d commits", w.db.LSN()-lsn)
	}
}

func TestSessionTwoCompactionsAtOnceMakeOneArchive(t *testing.T) {
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
	for _, m := range testdb.List(t, w.db.Memories(), supportAgent.Scope()) {
		if m.Kind == memory.KindArchive {
			archives++
		}
	}
	if archives != 1 || w.items("s")[25] != "--- 25" {
		t.Errorf("%d archives, %q", archives, w.items("s"))
	}
}

func TestSessionAnAppendCompactsByItself(t *testing.T) {
	w := newTalk(t)
	for i := range 65 {
		w.appendTo("s", []sessions.Message{{Role: []string{"user", "assistant"}[i%2], Text: fmt.Sprint("turn ", i)}}, &sessions.AppendOptions{AutoCompact: &sessions.CompactOptions{}})
	}
	i, err := w.db.Sessions().Get(t.Context(), supportAgent, "s")
	if err != nil || i.Compactions != 2 || i.Messages != 65 {
		t.Errorf("%+v, %v", i, err)
	}
}

// untilCommit is a context that is cancelled with the next commit.
type untilCommit struct {
	context.Context
	db  *engine.DB
	lsn uint64
}

func (c untilCommit) Err() error {
	if c.db.LSN() > c.lsn {
		return context.Canceled
	}
	return nil
}

func TestSessionFetchesFullMessageContentFromMemory(t *testing.T) {
	w := newTalk(t)
	for i := range 30 {
		id := fmt.Sprint("m", i)
		testdb.Store(t, w.db.Memories(), memory.Memory{ID: id, Scope: supportAgent.Scope(), Text: fmt.Sprint("content ", i)})
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

func TestSessionThresholdAndKeepRecentAreThoseOfTheCall(t *testing.T) {
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

// TestSessionCompactedAnyNumberOfTimes: each compaction leaves one more marker and one more
// archive; history is replayed from the latest marker, and the archives stay, by search and
// by name.
func TestSessionCompactedAnyNumberOfTimes(t *testing.T) {
	w := newTalk(t)
	n := w.db.Notes()
	for round := range 3 {
		w.turns("s", 40*round, 40)
		r := w.compact("s", nil)
		if !r.Compacted {
			t.Fatalf("%+v", r)
		}
		l, err := w.db.Sessions().Load(t.Context(), supportAgent, "s", &sessions.Window{Whole: true})
		if err != nil || len(l.Messages) != 10 || l.Marker.ArchiveName != r.ArchiveName || l.Marker.ArchivedAt.IsZero() || l.Session.Compactions != round+1 {
			t.Errorf("round %d: %+v, %v", round, l, err)
		}
		archives, err := w.db.Memories().Count(t.Context(), memory.ListQuery{Scope: supportAgent.Scope(), Filter: filter.Eq("kind", "archive")})
		if err != nil || archives != round+1 {
			t.Errorf("%d archives after %d compactions, %v", archives, round+1, err)
		}
		if note, err := n.Get(t.Context(), supportAgent, r.ArchiveName); err != nil || note.MemoryID != r.SummaryID {
			t.Errorf("by its name: %+v, %v", note, err)
		}
		found, err := n.Search(t.Context(), supportAgent, "turn", 0)
		if err != nil || len(found) != round+1 {
			t.Errorf("%d archives are found, %v", len(found), err)
		}
	}
}
