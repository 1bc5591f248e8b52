package engine_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/internal/golden"
	"github.com/seed-7aedc3ff/memdb/internal/testdb"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/sessions"
)

// transcripts are files of commands to a database in memory, each command followed by a line
// "----" and by what the database answered:
//
//	store tea text="I like tea." importance=.2
//	----
//	stored at LSN 2
//
// A line that begins with # says what the next commands show. go test -run TestTranscripts -update
// writes the answers anew; whoever changes behaviour reads the difference.
const transcripts = "testdata/transcripts"

// TestTranscripts runs each file of transcripts, and compares the answers.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(transcripts, "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			p := &player{publicDB: newPublicDB(t, engine.Options{}), views: map[string]*heldView{}}
			golden.Text(t, path, p.play(string(text)))
			p.endViews()
		})
	}
}

// player carries out the commands of a transcript for one agent.
type player struct {
	*publicDB
	views map[string]*heldView
}

// owner is whose everything in a transcript is.
var owner = memory.Owner{Agent: "coach"}

// play returns a transcript with the answers of this run.
func (p *player) play(text string) string {
	var out strings.Builder
	answer := false // the lines are an old answer
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \n")
		switch {
		case line == "":
			if !answer {
				out.WriteString("\n")
			}
			answer = false
		case answer:
		case strings.HasPrefix(line, "#"):
			out.WriteString(line + "\n")
		case line == "----":
			answer = true
		default:
			fmt.Fprintf(&out, "%s\n----\n%s\n", line, p.do(line))
		}
	}
	return strings.TrimRight(out.String(), "\n") + "\n"
}

// do carries out one command, and returns its answer with a blank line behind it.
func (p *player) do(line string) string {
	verb, rest, _ := strings.Cut(line, " ")
	fn, ok := verbs[verb]
	if !ok {
		p.t.Fatalf("%q: there is no such command", line)
	}
	a := parseWords(p.t, rest)
	said, err := fn(p, a)
	switch e, known := errors.AsType[*memory.Error](err); {
	case known:
		said = fmt.Sprintf("%v\n", e.Kind)
	case err != nil:
		said = err.Error() + "\n"
	}
	for name := range a.named {
		if !a.read[name] {
			p.t.Fatalf("%q: nothing reads %q", line, name)
		}
	}
	if said == "" {
		said = "nothing\n"
	}
	return said
}

// words are those of a command: plain ones, and names with values.
type words struct {
	plain []string
	named map[string]string
	read  map[string]bool
}

// parseWords reads words such as m1, n=3 and text="with blanks".
func parseWords(t *testing.T, s string) words {
	w := words{named: map[string]string{}, read: map[string]bool{}}
	for s = strings.TrimSpace(s); s != ""; s = strings.TrimSpace(s) {
		end := strings.IndexAny(s, " =")
		if end < 0 || s[end] == ' ' {
			word, rest, _ := strings.Cut(s, " ")
			w.plain, s = append(w.plain, word), rest
			continue
		}
		name, value := s[:end], s[end+1:]
		if quoted, err := strconv.QuotedPrefix(value); err == nil {
			s = value[len(quoted):]
			value, err = strconv.Unquote(quoted)
			if err != nil {
				t.Fatal(err)
			}
		} else {
			value, s, _ = strings.Cut(value, " ")
		}
		w.named[name] = value
	}
	return w
}

func (w words) get(name string) string {
	w.read[name] = true
	return w.named[name]
}

// float is a number, nil where it is not given.
func (w words) float(name string) *float64 {
	if v, err := strconv.ParseFloat(w.get(name), 64); err == nil {
		return &v
	}
	return nil
}

func (w words) int(name string) int {
	n, _ := strconv.Atoi(w.get(name))
	return n
}

// span reads 36h and 30d.
func span(s string) time.Duration {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		n, _ := strconv.Atoi(days)
		return time.Duration(n) * 24 * time.Hour
	}
	d, _ := time.ParseDuration(s)
	return d
}

// heldView is a View that is open while other commands are carried out.
type heldView struct {
	calls chan func(tx *engine.Tx)
	done  chan error
}

func (p *player) endViews() {
	for _, v := range p.views {
		close(v.calls)
		testdb.NoError(p.t, <-v.done)
	}
}

// read calls fn in a View: that which the command names, one as of an LSN, or a new one.
func (p *player) read(a words, fn func(tx *engine.Tx) (string, error)) (said string, err error) {
	call := func(tx *engine.Tx) error {
		said, err = fn(tx)
		return err
	}
	if lsn := a.int("asof"); lsn > 0 {
		return said, p.ViewAt(p.t.Context(), uint64(lsn), call)
	}
	if v := p.views[a.get("view")]; v != nil {
		ended := make(chan bool)
		v.calls <- func(tx *engine.Tx) { _ = call(tx); close(ended) }
		<-ended
		return said, err
	}
	return said, p.View(p.t.Context(), call)
}

// verbs are the commands.
var verbs map[string]func(p *player, a words) (string, error)

func init() { // some refer to it
	verbs = map[string]func(p *player, a words) (string, error){
		"advance": func(p *player, a words) (string, error) {
			p.advance(span(a.plain[0]))
			return p.now().Format("2006-01-02 15:04") + "\n", nil
		},
		"reopen":      reopen,
		"policy":      changePolicy,
		"begin":       beginView,
		"end":         endView,
		"store":       storeMemory,
		"update":      updateMemory,
		"delete":      deleteMemory,
		"list":        listMemories,
		"recall":      recallMemories,
		"history":     listHistory,
		"evict":       evictMemories,
		"consolidate": consolidateMemories,
		"undo":        undoEviction,
		"entity":      putEntity,
		"relate":      relateEntities,
		"link":        linkEntity,
		"graph":       showGraph,
		"merge": func(p *player, a words) (string, error) {
			m, err := p.Graph().Merge(p.t.Context(), owner, a.plain[0], a.plain[1])
			return fmt.Sprintf("%s stays, with %d relations and %d links, at LSN %d\n", m.ID, m.Relations, m.Links, m.LSN), err
		},
		"unmerge": func(p *player, a words) (string, error) {
			m, err := p.Graph().Unmerge(p.t.Context(), owner, a.plain[0])
			return fmt.Sprintf("%s is back, with %d relations and %d links, at LSN %d\n", m.ID, m.Relations, m.Links, m.LSN), err
		},
		"append":  appendMessage,
		"save":    saveMessages,
		"session": showSession,
		"window":  showWindow,
		"compact": compactSession,
		"repair":  repairSession,
		"unrepair": func(p *player, a words) (string, error) {
			return "the messages are what they were\n", p.Sessions().UndoRepair(p.t.Context(), owner, a.plain[0])
		},
	}
}

func reopen(p *player, a words) (string, error) {
	p.close()
	p.opts.Retain = span(a.get("retain"))
	p.open()
	return fmt.Sprintf("at LSN %d\n", p.LSN()), nil
}

func changePolicy(p *player, a words) (string, error) {
	changed, err := p.Policies().Show(p.t.Context())
	names := make([]string, 0, len(a.named))
	for name := range a.named {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		err = errors.Join(err, changed.Set(name, a.get(name)))
	}
	if err == nil {
		changed, err = p.Policies().Set(p.t.Context(), changed)
	}
	return fmt.Sprintf("version %d\n", changed.Version), err
}

func beginView(p *player, a words) (string, error) {
	v, began := &heldView{make(chan func(*engine.Tx)), make(chan error)}, make(chan uint64)
	go func() {
		v.done <- p.View(p.t.Context(), func(tx *engine.Tx) error {
			began <- tx.LSN()
			for call := range v.calls {
				call(tx)
			}
			return nil
		})
	}()
	p.views[a.plain[0]] = v
	return fmt.Sprintf("a View of LSN %d\n", <-began), nil
}

func endView(p *player, a words) (string, error) {
	v := p.views[a.plain[0]]
	delete(p.views, a.plain[0])
	close(v.calls)
	return "", <-v.done
}

func storeMemory(p *player, a words) (string, error) {
	m := memory.Memory{
		ID: a.plain[0], Scope: owner.Scope(), Text: a.get("text"), Importance: a.float("importance"), Confidence: a.float("confidence"),
		Pinned: a.get("pinned") == "true",
	}
	st, err := p.Memories().Store(p.t.Context(), m, nil)
	what := "stored"
	if !st.Stored {
		what = "it is there already as " + st.ID
	}
	return fmt.Sprintf("%s, at LSN %d\n", what, p.LSN()), err
}

func updateMemory(p *player, a words) (string, error) {
	_, err := p.Memories().Update(p.t.Context(), owner.Scope(), a.plain[0], memory.Patch{Text: new(a.get("text"))})
	return fmt.Sprintf("updated, at LSN %d\n", p.LSN()), err
}

func deleteMemory(p *player, a words) (string, error) {
	err := p.Memories().Delete(p.t.Context(), owner.Scope(), a.plain[0])
	return fmt.Sprintf("deleted, at LSN %d\n", p.LSN()), err
}

func listMemories(p *player, a words) (string, error) {
	return p.read(a, func(tx *engine.Tx) (string, error) {
		page, err := tx.Memories().List(p.t.Context(), memory.ListQuery{Scope: owner.Scope()})
		var b strings.Builder
		for _, m := range page.Memories {
			fmt.Fprintf(&b, "%s: %q, confidence %.4g, importance %.3f, %d accesses\n", m.ID, m.Text, *m.Confidence, importanceOf(&m), m.AccessCount)
		}
		return b.String(), err
	})
}

// importanceOf is the importance that a memory was given, -1 for one that is computed.
func importanceOf(m *memory.Memory) float64 {
	if m.Importance == nil {
		return -1
	}
	return *m.Importance
}

// recallMemories has the accesses written at once: when that happens behind it depends on the clock of
// the machine, and the LSNs with it.
func recallMemories(p *player, a words) (string, error) {
	said, err := p.read(a, func(tx *engine.Tx) (string, error) {
		r, err := tx.Memories().Recall(p.t.Context(), memory.Query{Scope: owner.Scope(), Text: a.get("text"), Profile: memory.ProfileText})
		var b strings.Builder
		for _, h := range r.Hits {
			fmt.Fprintf(&b, "%q\n", h.Text)
		}
		return b.String(), err
	})
	return said, errors.Join(err, p.FlushTouches(p.t.Context()))
}

func listHistory(p *player, a words) (string, error) {
	entries, err := p.Memories().History(p.t.Context(), owner.Scope(), a.plain[0])
	var b strings.Builder
	text := func(s *string) string {
		if s == nil {
			return "-"
		}
		return strconv.Quote(*s)
	}
	for _, e := range entries {
		fmt.Fprintf(&b, "%s at LSN %d: %s, %s", e.Event, e.LSN, text(e.OldText), text(e.NewText))
		if e.Reason != "" {
			fmt.Fprintf(&b, ", by %s", e.Reason)
		}
		if e.Into != "" {
			fmt.Fprintf(&b, " into %s", e.Into)
		}
		b.WriteString("\n")
	}
	return b.String(), err
}

func evictMemories(p *player, a words) (string, error) {
	var b strings.Builder
	r, err := p.Evict(p.t.Context(), &engine.EvictOptions{
		DryRun: a.get("dry") == "true", MinImportance: a.float("min_importance"),
		Visit: func(v engine.Victim) error {
			fmt.Fprintf(&b, "%s goes, by %s\n", v.ID, v.Reason)
			return nil
		},
	})
	fmt.Fprintf(&b, "%d of policy %d, at LSN %d\n", r.Evicted, r.Policy, r.LSN)
	return b.String(), err
}

func consolidateMemories(p *player, a words) (string, error) {
	var b strings.Builder
	r, err := p.Consolidate(p.t.Context(), &engine.ConsolidateOptions{Rate: a.float("rate"), Visit: func(m engine.Merge) error {
		fmt.Fprintf(&b, "%s goes into %s\n", m.ID, m.Into)
		return nil
	}})
	fmt.Fprintf(&b, "%d looked at, %d decayed, %d merged, at LSN %d\n", r.Processed, r.Decayed, r.Merged, r.LSN)
	if r.Skipped != "" {
		fmt.Fprintf(&b, "skipped: %s\n", r.Skipped)
	}
	return b.String(), err
}

func undoEviction(p *player, a words) (string, error) {
	lsn, _ := strconv.ParseUint(a.plain[0], 10, 64)
	r, err := p.Undo(p.t.Context(), lsn)
	return fmt.Sprintf("%d are back, at LSN %d\n", r.Restored, r.LSN), err
}

func putEntity(p *player, a words) (string, error) {
	e := graph.Entity{ID: a.plain[0], Type: a.get("type"), Name: a.get("name")}
	if s := a.get("properties"); s != "" {
		e.Properties = []byte(s)
	}
	_, err := p.Graph().Put(p.t.Context(), owner, e, nil, nil)
	return fmt.Sprintf("stored, at LSN %d\n", p.LSN()), err
}

func relateEntities(p *player, a words) (string, error) {
	_, err := p.Graph().Relate(p.t.Context(), owner, graph.Relation{From: a.plain[0], Type: a.plain[1], To: a.plain[2]}, nil)
	return fmt.Sprintf("stored, at LSN %d\n", p.LSN()), err
}

func linkEntity(p *player, a words) (string, error) {
	_, err := p.Graph().Link(p.t.Context(), owner, a.plain[0], a.plain[1])
	return fmt.Sprintf("linked, at LSN %d\n", p.LSN()), err
}

// showGraph has each entity with its aliases, the memories that it is linked to, and its relations.
func showGraph(p *player, a words) (string, error) {
	asOf := uint64(a.int("asof"))
	page, err := p.Graph().List(p.t.Context(), graph.ListQuery{Owner: owner})
	var b strings.Builder
	for _, id := range slices.Concat(a.plain, entityIDs(page.Entities)) {
		e, err := p.Graph().Get(p.t.Context(), owner, id, asOf)
		if errors.Is(err, memory.ErrNotFound) || slices.Contains(a.plain, id) && e.ID != id {
			continue
		}
		of, merr := p.Graph().Memories(p.t.Context(), owner, id) // those of now
		near, nerr := p.Graph().Neighbours(p.t.Context(), owner, id, graph.NeighbourQuery{AsOf: asOf})
		if err := errors.Join(err, merr, nerr); err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "%s %q, also %q", e.ID, e.Name, e.Aliases)
		if asOf == 0 {
			fmt.Fprintf(&b, ", of %q", of)
		}
		b.WriteString("\n")
		for _, n := range near.Neighbours {
			fmt.Fprintf(&b, "  %s %s\n", n.Type, n.Target)
		}
	}
	return b.String(), err
}

func entityIDs(all []graph.Entity) (ids []string) {
	for _, e := range all {
		ids = append(ids, e.ID)
	}
	return ids
}

func message(p *player, a words) sessions.Message {
	return sessions.Message{ID: a.plain[1], Role: a.get("role"), Text: a.get("text"), At: p.now(), ToolCallID: a.get("answers"), ToolCalls: calls(a.get("calls"))}
}

// calls are the calls of a tool with an ID.
func calls(id string) []byte {
	if id == "" {
		return nil
	}
	return fmt.Appendf(nil, `[{"id":%q}]`, id)
}

func appendMessage(p *player, a words) (string, error) {
	p.advance(time.Second)
	out, err := p.Sessions().Append(p.t.Context(), owner, a.plain[0], []sessions.Message{message(p, a)}, &sessions.AppendOptions{TrimRemoves: a.int("trim")})
	if err != nil {
		return "", err
	}
	what := "stored"
	switch {
	case out[0].Repeated:
		what = "repeated"
	case out[0].Deduplicated:
		what = "its text is a memory already"
	}
	return fmt.Sprintf("%s; %d messages\n", what, out[0].Messages), nil
}

// saveMessages saves messages of a user, whose IDs and texts follow: id:text.
func saveMessages(p *player, a words) (string, error) {
	var items []sessions.Item
	for i, s := range a.plain[1:] {
		id, text, _ := strings.Cut(s, ":")
		items = append(items, sessions.Item{Message: &sessions.Message{ID: id, Role: "user", Text: text, At: p.now().Add(time.Duration(i) * time.Second)}})
	}
	n, err := p.Sessions().Save(p.t.Context(), owner, a.plain[0], items, nil)
	return fmt.Sprintf("%d messages\n", n), err
}

func showSession(p *player, a words) (string, error) {
	return p.read(a, func(tx *engine.Tx) (string, error) {
		var b strings.Builder
		for i, err := range tx.Sessions().Items(p.t.Context(), owner, a.plain[0]) {
			switch {
			case err != nil:
				return "", err
			case i.Marker != nil:
				fmt.Fprintf(&b, "--- %d summarised in %s\n", i.Marker.Summarized, i.Marker.ArchiveName)
			default:
				fmt.Fprintf(&b, "%s %s: %s\n", i.Message.ID, i.Message.Role, i.Message.Text)
			}
		}
		return b.String(), nil
	})
}

func showWindow(p *player, a words) (string, error) {
	l, err := p.Sessions().Load(p.t.Context(), owner, a.plain[0], &sessions.Window{Last: a.int("last"), Tokens: a.int("tokens")})
	var b strings.Builder
	if l.Marker != nil {
		fmt.Fprintf(&b, "summary: %s\n", strings.ReplaceAll(l.Summary, "\n", " / "))
	}
	for _, m := range l.Messages {
		fmt.Fprintf(&b, "%s %s: %s\n", m.ID, m.Role, m.Text)
	}
	return b.String(), err
}

func compactSession(p *player, a words) (string, error) {
	r, err := p.Sessions().Compact(p.t.Context(), owner, a.plain[0], &sessions.CompactOptions{
		Threshold: a.int("threshold"), KeepRecent: a.int("keep"), Drop: a.get("drop") == "true",
	})
	if !r.Compacted {
		return "", err
	}
	return fmt.Sprintf("%d summarised in %s, %d kept\n", r.Summarized, r.ArchiveName, r.Kept), err
}

func repairSession(p *player, a words) (string, error) {
	r, err := p.Sessions().Repair(p.t.Context(), owner, a.plain[0], a.get("dry") == "true")
	return fmt.Sprintf("%d fixes: %+v\n", r.TotalFixes, r.Stats), err
}
