package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/entries"
	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/mention"
	"github.com/seed-7aedc3ff/memdb/policy"
	"github.com/seed-7aedc3ff/memdb/sessions"
)

// verifyGone verifies that no file has one of some words, in either case, that each of the others is
// there, and that the database is whole.
func verifyGone(t *testing.T, fs vfs.FS, db *DB, gone, kept []string) {
	t.Helper()
	var all []string
	for _, w := range gone {
		all = append(all, w, strings.ToLower(w))
	}
	if found := traces(t, fs, all...); len(found) > 0 {
		t.Errorf("left: %s", strings.Join(found, "\n"))
	}
	if missing := lacks(t, fs, kept); len(missing) > 0 {
		t.Errorf("lost of others: %v", missing)
	}
	if r, err := db.CheckDeep(t.Context()); err != nil || !r.OK {
		t.Errorf("%v, %v", r.Problems, err)
	}
}

func eraseID(t *testing.T, db *DB, user, id string) EraseReport {
	t.Helper()
	r, err := db.Erase(t.Context(), EraseQuery{User: user, ID: id})
	if err != nil {
		t.Fatalf("erase %s: %v", id, err)
	}
	return r
}

// readFeed reads the whole change feed.
func readFeed(t *testing.T, db *DB) {
	t.Helper()
	for _, err := range db.Changes(t.Context(), 1, &ChangesOptions{}) {
		noError(t, err)
	}
}

// TestEraseExtracted verifies that the erasure of a memory also erases what was extracted from its
// text, whatever became of the memory before, and nothing of what another text says, too.
func TestEraseExtracted(t *testing.T) {
	ada := memory.Scope{User: "ada"}
	texts := func(ctx context.Context, m Memories, id string) error {
		_, err := m.Store(ctx, memory.Memory{ID: id, Scope: ada, Text: "Zqjada met Zqjbob in Zqjghent"}, &memory.StoreOptions{Upsert: true})
		return err
	}
	for name, before := range map[string]func(t *testing.T, db *DB) error{
		"living": func(*testing.T, *DB) error { return nil },
		"changed": func(t *testing.T, db *DB) error {
			return second(db.Memories().Store(t.Context(), memory.Memory{ID: "x1", Scope: ada, Text: "Zqjeve met Zqjdan in Bruges"}, &memory.StoreOptions{Upsert: true}))
		},
		"deleted": func(t *testing.T, db *DB) error { return db.Memories().Delete(t.Context(), ada, "x1") },
		"deleted with its scope": func(t *testing.T, db *DB) error {
			return second(db.Memories().DeleteScope(t.Context(), ada))
		},
	} {
		t.Run(name, func(t *testing.T) {
			fs := vfs.NewMem()
			db := openTraces(t, fs, newTestClock(), Options{Extractor: mention.Rules{}})
			noError(t, texts(t.Context(), db.Memories(), "x1"))
			if missing := lacks(t, fs, []string{"Zqjada", "zqjbob"}); len(missing) > 0 {
				t.Fatalf("not there before: %v", missing)
			}
			noError(t, before(t, db))
			mustStore(t, db.Memories(), memory.Memory{ID: "x2", Scope: ada, Text: "Wernher works at Xylophonia with Zqjother"})
			r := eraseID(t, db, "ada", "x1")
			if len(r.Left) != 0 {
				t.Errorf("left: %v", r.Left)
			}
			verifyGone(t, fs, db, []string{"Zqjada", "Zqjbob", "Zqjghent", "Zqjeve", "Zqjdan", "\x02met"}, []string{"Xylophonia", "Zqjother", "xylophonia"})
			readFeed(t, db)
			// The type is given a new number, and is found in RAM.
			noError(t, texts(t.Context(), db.Memories(), "x3"))
			w, err := db.Graph().Find(t.Context(), ada.Owner(), "zqjada", graph.FindOptions{Relation: "met"})
			if err != nil || len(w.Found) != 1 {
				t.Errorf("%+v, %v", w, err)
			}
		})
	}
}

// TestEraseMerged verifies that the erasure of a memory erases what was merged into it, that no undo
// brings that back, and that the erasure of what was merged reports the memory that says the same.
func TestEraseMerged(t *testing.T) {
	for _, erased := range []string{"a2", "a1"} {
		fs, ada := vfs.NewMem(), memory.Scope{User: "ada"}
		db := openTraces(t, fs, newTestClock(), Options{})
		setPolicy(t, db, func(p *policy.Policy) { p.Trash = policy.Span(48 * time.Hour) })
		mustStore(t, db.Memories(), memory.Memory{ID: "a1", Scope: ada, Text: "The Zqjtea is Zqjgreen", Kind: memory.KindFact})
		mustStore(t, db.Memories(), memory.Memory{ID: "a2", Scope: ada, Text: "the Zqjtea is Zqjgreen.", Kind: memory.KindFact})
		c, err := db.Consolidate(t.Context(), &ConsolidateOptions{Scope: ada})
		if err != nil || c.Merged != 1 {
			t.Fatalf("%+v, %v", c, err)
		}
		r := eraseID(t, db, "ada", erased)
		if erased == "a1" {
			if len(r.Left) != 1 || r.Left[0].What != `memory "a2"` {
				t.Errorf("left: %v", r.Left)
			}
			verifyGone(t, fs, db, nil, []string{"zqjgreen"})
			continue
		}
		if len(r.Left) != 0 || r.Erased.Memories != 2 {
			t.Errorf("%+v", r)
		}
		verifyGone(t, fs, db, []string{"Zqjtea", "Zqjgreen"}, nil)
		if u, err := db.Undo(t.Context(), c.LSN); err == nil && u.Restored > 0 {
			t.Errorf("an undo brought back %+v", u)
		}
		verifyGone(t, fs, db, []string{"Zqjtea", "Zqjgreen"}, nil)
	}
}

// parrot is a Summarizer in whose words nobody can tell what is of which message.
type parrot struct{}

func (parrot) Summarize(_ context.Context, previous string, messages []sessions.Message) (string, error) {
	for i := range messages {
		previous += " they spoke of " + strings.TrimSuffix(strings.Fields(messages[i].Text)[0], ".")
	}
	return previous, nil
}

// TestEraseSummarised verifies that a message leaves the summaries of its session: an extract is
// stored again without its sentences, and another summary is deleted.
func TestEraseSummarised(t *testing.T) {
	for _, c := range []struct {
		name string
		by   sessions.Summarizer
		drop bool
		why  string
	}{
		{"extract", nil, false, "stored again"},
		{"extract of dropped messages", nil, true, "stored again"},
		{"model", parrot{}, false, "deleted"},
		{"model of dropped messages", parrot{}, true, "deleted"},
	} {
		t.Run(c.name, func(t *testing.T) {
			fs, o := vfs.NewMem(), memory.Owner{User: "ada"}
			db, ctx := openTraces(t, fs, newTestClock(), Options{}), t.Context()
			s, id := db.Sessions(), ""
			for i := range 12 {
				word := fmt.Sprintf("Zqjword%cz", 'a'+i)
				a, err := s.Append(ctx, o, "chat", []sessions.Message{{Role: "user", Text: word + " was mentioned at length. Then " + word + " came up again."}}, nil)
				noError(t, err)
				if i == 2 {
					id = a[0].MemoryID
				}
				if i%4 == 3 {
					got, err := s.Compact(ctx, o, "chat", &sessions.CompactOptions{Threshold: 3, KeepRecent: 1, Summarizer: c.by, Drop: c.drop})
					if err != nil || !got.Compacted {
						t.Fatalf("%+v, %v", got, err)
					}
				}
			}
			r := eraseID(t, db, "ada", id)
			if len(r.Derived) != 3 || !strings.Contains(r.Derived[0].Why, c.why) || len(r.Left) != 0 {
				t.Errorf("%+v", r)
			}
			verifyGone(t, fs, db, []string{"Zqjwordcz"}, []string{"Zqjwordaz", "Zqjworddz"})
			l, err := s.Load(ctx, o, "chat", nil)
			noError(t, err)
			if has := strings.Contains(l.Summary, "Zqjwordbz"); has != (c.by == nil) {
				t.Errorf("the summary is %q", l.Summary)
			}
		})
	}
}

// TestEraseObservation verifies that the memory of an observation leaves the property of its entity, in
// every version, and that the other observations stay.
func TestEraseObservation(t *testing.T) {
	fs, o := vfs.NewMem(), memory.Owner{User: "ada"}
	db, ctx := openTraces(t, fs, newTestClock(), Options{}), t.Context()
	put := func(texts ...string) {
		p, err := json.Marshal(map[string][]string{"observations": texts})
		noError(t, err)
		noError(t, second(db.Graph().Put(ctx, o, graph.Entity{ID: "bob", Type: "person", Name: "Bob", Properties: p}, nil, nil)))
	}
	put("likes Zqjtea", "likes Zqjcake")
	put("likes Zqjtea", "likes Zqjcake", "likes Zqjpie")
	put("likes Zqjtea", "likes Zqjpie") // the memory of the cake is deleted
	for _, text := range []string{"Zqjtea", "Zqjcake"} {
		if r := eraseID(t, db, "ada", graph.ObservationID("bob", "likes "+text)); len(r.Left) != 0 {
			t.Errorf("left: %v", r.Left)
		}
		verifyGone(t, fs, db, []string{text}, []string{"Zqjpie"})
	}
	e, err := db.Graph().Get(ctx, o, "bob", 0)
	if err != nil || string(e.Properties) != `{"observations":["likes Zqjpie"]}` {
		t.Errorf("%s, %v", e.Properties, err)
	}
	readFeed(t, db)
}

// TestEraseSource verifies that memories whose source is an erased memory go with it.
func TestEraseSource(t *testing.T) {
	fs, ada := vfs.NewMem(), memory.Scope{User: "ada"}
	db := openTraces(t, fs, newTestClock(), Options{})
	for id, source := range map[string]memory.Source{"m1": memory.SourceUserMessage, "f1": "m1", "f2": "f1", "m2": memory.SourceUserMessage, "f3": "m2"} {
		mustStore(t, db.Memories(), memory.Memory{ID: id, Scope: ada, Source: source, Text: "what Zqj" + id + "z says"})
	}
	if r := eraseID(t, db, "ada", "m1"); r.Erased.Memories != 3 || len(r.Left) != 0 {
		t.Errorf("%+v", r)
	}
	verifyGone(t, fs, db, []string{"Zqjm1z", "Zqjf1z", "Zqjf2z"}, []string{"Zqjm2z", "Zqjf3z"})
}

// TestEraseLeft verifies that the report names what else has an erased text, and tells others apart.
func TestEraseLeft(t *testing.T) {
	fs := vfs.NewMem()
	db, ctx := openTraces(t, fs, newTestClock(), Options{}), t.Context()
	text := "The combination of the old safe is 4711."
	mustStore(t, db.Memories(), memory.Memory{ID: "m1", Scope: memory.Scope{User: "ada"}, Text: text})
	mustStore(t, db.Memories(), memory.Memory{ID: "m2", Scope: memory.Scope{User: "ada"}, Text: "He said: The combination of the old safe is 4711"})
	mustStore(t, db.Memories(), memory.Memory{ID: "m3", Scope: memory.Scope{User: "bob"}, Text: text})
	noError(t, second(db.KV().Put(ctx, memory.Owner{User: "bob"}, "key", text, &entries.PutOptions{})))
	var got []string
	for _, k := range eraseID(t, db, "ada", "m1").Left {
		got = append(got, k.What)
	}
	if want := []string{"changes in the log: 1", "keys of the entries: 1", `memory "m2"`, "memories of others: 1"}; !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
		t.Errorf("left: %q", got)
	}
}

// TestEraseDeadline verifies that a call whose deadline ends beside a View is ErrBusy, that the erasure
// completes, and that a later call returns its report.
func TestEraseDeadline(t *testing.T) {
	fs := vfs.NewMem()
	db := openTraces(t, fs, newTestClock(), Options{})
	mustStore(t, db.Memories(), memory.Memory{ID: "m1", Scope: memory.Scope{User: "ulrike"}, Text: "Zqjword is all"})
	in, out, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- db.View(context.WithoutCancel(t.Context()), func(*Tx) error {
			close(in)
			<-out
			return nil
		})
	}()
	<-in
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := db.Erase(ctx, EraseQuery{User: "ulrike"})
	wantError(t, "beside a View", err, fault.ErrBusy)
	close(out)
	noError(t, <-done)
	waitFor(t, func() bool { return db.erasing.Load() == nil })
	for range 2 {
		r, err := db.Erase(t.Context(), EraseQuery{User: "ulrike"})
		if err != nil || r.Erased.Memories != 1 || r.Erased.Names == 0 || r.LSN == 0 || r.RewrittenBytes == 0 {
			t.Errorf("%+v, %v", r, err)
		}
	}
	_, err = db.Erase(t.Context(), EraseQuery{User: "nobody"})
	wantError(t, "another", err, fault.ErrNotFound)
	verifyGone(t, fs, db, []string{"ulrike", "Zqjword"}, nil)
}

// TestEraseRandom plants words through many doors, erases by ID, by user and by agent, and verifies
// that the files have none of the words that derive from the erased and all others.
func TestEraseRandom(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			w := newPlanted(t, seed)
			for range 40 {
				w.plant()
			}
			w.settle()
			w.erase(EraseQuery{User: "ulrike", ID: w.pick("ulrike", "")})
			w.erase(EraseQuery{User: "ulrike", ID: w.pick("ulrike", "")})
			for range 10 {
				w.plant()
			}
			w.settle()
			w.erase(EraseQuery{User: "viktor", Agent: "berta", ID: w.pick("viktor", "berta")})
			w.erase(EraseQuery{Agent: "berta"})
			w.erase(EraseQuery{User: "ulrike"})
		})
	}
}

// planted is a database with words, each of which is of the memories of one family.
type planted struct {
	t     *testing.T
	rng   *rand.Rand
	fs    vfs.FS
	db    *DB
	clk   *testClock
	n     int
	words map[string]*family
	all   []*family
}

// family is a memory and what derives from it.
type family struct {
	owner memory.Owner
	id    string // empty: things that only go with their owner
	text  string
	alive bool
	kind  memory.Kind
}

func newPlanted(t *testing.T, seed uint64) *planted {
	t.Logf("seed %d", seed)
	w := &planted{t: t, rng: rand.New(rand.NewPCG(seed, 7)), fs: vfs.NewMem(), clk: newTestClock(), words: map[string]*family{}}
	w.db = openTraces(t, w.fs, w.clk, Options{Extractor: mention.Rules{}})
	setPolicy(t, w.db, func(p *policy.Policy) { p.Trash = policy.Span(48 * time.Hour) })
	return w
}

// word is a new word of a family.
func (w *planted) word(f *family) string {
	w.n++
	s := fmt.Sprintf("Zq%cj%dz", 'a'+w.rng.IntN(26), w.n)
	w.words[s] = f
	return s
}

func (w *planted) family(owner memory.Owner) *family {
	w.n++
	f := &family{owner: owner, id: fmt.Sprintf("m%d", w.n), alive: true}
	w.all = append(w.all, f)
	return f
}

// some is a living family of an owner, nil for none.
func (w *planted) some(owner memory.Owner, kind memory.Kind) *family {
	for _, i := range w.rng.Perm(len(w.all)) {
		if f := w.all[i]; f.owner == owner && f.alive && f.id != "" && f.kind == kind {
			return f
		}
	}
	return nil
}

// plant puts words in by a door.
func (w *planted) plant() {
	owner := []memory.Owner{{User: "ulrike", Agent: "anton"}, {User: "ulrike"}, {User: "viktor", Agent: "berta"}, {User: "viktor"}}[w.rng.IntN(4)]
	db, ctx, m := w.db, w.t.Context(), w.db.Memories()
	store := func(f *family, mem memory.Memory) {
		mem.ID, mem.Scope = f.id, f.owner.Scope()
		if f.text = mem.Text; mem.Kind != "" {
			f.kind = mem.Kind
		}
		w.must(second(m.Store(ctx, mem, &memory.StoreOptions{Upsert: true})))
	}
	said := func(f *family) string {
		return w.word(f) + " met " + w.word(f) + " in " + w.word(f)
	}
	own := &family{owner: owner}
	switch w.rng.IntN(12) {
	case 0, 1:
		f := w.family(owner)
		store(f, memory.Memory{Text: said(f)})
	case 2:
		if f := w.some(owner, ""); f != nil {
			store(f, memory.Memory{Text: said(f), Metadata: map[string]any{"note": w.word(f)}})
		}
	case 3: // what is merged is of the family of the survivor
		f := w.family(owner)
		store(f, memory.Memory{Text: "The " + w.word(f) + " is green", Kind: memory.KindFact})
		w.n++
		old := f.id
		f.id = fmt.Sprintf("m%d", w.n)
		w.clk.advance(time.Second)
		store(f, memory.Memory{Text: "the " + strings.TrimSuffix(strings.TrimPrefix(f.text, "The "), " is green") + " is green.", Kind: memory.KindFact})
		_ = old
	case 4:
		if f := w.some(owner, ""); f != nil {
			w.must(m.Delete(ctx, f.owner.Scope(), f.id))
			f.alive = false
		}
	case 5:
		f := w.family(owner)
		a, err := db.Sessions().Append(ctx, owner, "chat", []sessions.Message{{Role: "user", Text: w.word(f) + " was spoken of. We like " + w.word(f) + " best."}}, nil)
		w.must(err)
		f.id, f.kind = a[0].MemoryID, memory.KindMessage
	case 6:
		f := w.family(owner)
		text := "likes " + w.word(f)
		p, err := json.Marshal(map[string][]string{"observations": {text}})
		w.must(err)
		id := w.word(own)
		w.must(second(db.Graph().Put(ctx, owner, graph.Entity{ID: id, Type: "person", Properties: p}, nil, nil)))
		f.id, f.kind = graph.ObservationID(id, text), memory.KindFragment
	case 7:
		if f := w.some(owner, ""); f != nil {
			w.n++
			w.must(second(m.Store(ctx, memory.Memory{ID: fmt.Sprintf("m%d", w.n), Scope: owner.Scope(), Source: memory.Source(f.id), Text: said(f)}, nil)))
		}
	case 8:
		f := w.family(owner)
		_, _, err := Once(ctx, db, Request{ID: f.id, Asks: f.id}, func(ctx context.Context) (string, error) {
			f.text, f.kind = said(f), memory.KindNote
			return f.text, second(m.Store(ctx, memory.Memory{ID: f.id, Scope: owner.Scope(), Text: f.text, Kind: memory.KindFact}, nil))
		})
		w.must(err)
	case 9:
		w.must(second(db.KV().Put(ctx, owner, w.word(own), w.word(own), nil)))
	case 10:
		w.must(second(db.Notes().Add(ctx, owner, w.word(own), w.word(own)+" noted", "")))
	default:
		w.must(second(db.Graph().Put(ctx, owner, graph.Entity{ID: w.word(own), Type: "thing", Name: w.word(own)}, []graph.Edge{{Type: w.word(own), Target: w.word(own)}}, nil)))
	}
}

func (w *planted) must(err error) {
	w.t.Helper()
	noError(w.t, err)
}

// settle merges, compacts and repairs.
func (w *planted) settle() {
	for _, o := range []memory.Owner{{User: "ulrike", Agent: "anton"}, {User: "ulrike"}, {User: "viktor", Agent: "berta"}, {User: "viktor"}} {
		w.must(second(w.db.Consolidate(w.t.Context(), &ConsolidateOptions{Scope: o.Scope()})))
		if _, err := w.db.Sessions().Get(w.t.Context(), o, "chat"); err != nil {
			continue
		}
		w.must(second(w.db.Sessions().Compact(w.t.Context(), o, "chat", &sessions.CompactOptions{Threshold: 2, KeepRecent: 1})))
		w.must(second(w.db.Sessions().Repair(w.t.Context(), o, "chat", false)))
	}
}

// pick is the ID of a memory of an owner.
func (w *planted) pick(user, agent string) string {
	for _, i := range w.rng.Perm(len(w.all)) {
		if f := w.all[i]; f.id != "" && f.owner.User == user && (agent == "" || f.owner.Agent == agent) {
			return f.id
		}
	}
	w.t.Fatalf("the seed has planted nothing for user %q and agent %q", user, agent)
	return ""
}

// erase erases, and verifies what is gone.
func (w *planted) erase(q EraseQuery) {
	w.t.Helper()
	means := func(f *family) bool { return q.Means(f.owner) && (q.ID == "" || f.id == q.ID) }
	var gone, kept []string
	for word, f := range w.words {
		if means(f) {
			gone = append(gone, word)
			delete(w.words, word)
		} else {
			kept = append(kept, word)
		}
	}
	kept = slices.DeleteFunc(kept, func(word string) bool { return w.words[word].kind == memory.KindNote }) // answers go with their owner's
	w.all = slices.DeleteFunc(w.all, means)
	if q.ID == "" {
		if missing := lacks(w.t, w.fs, slices.Concat(gone, kept)); len(missing) > 0 {
			w.t.Fatalf("%+v: not there before: %v", q, missing)
		}
	}
	r, err := w.db.Erase(w.t.Context(), q)
	if err != nil {
		w.t.Fatalf("%+v: %v", q, err)
	}
	fields := func(k Kept) bool { return strings.HasSuffix(k.What, " names of metadata fields") }
	if r.Left = slices.DeleteFunc(r.Left, fields); len(r.Left) > 0 {
		w.t.Errorf("%+v: left: %v", q, r.Left)
	}
	verifyGone(w.t, w.fs, w.db, gone, kept)
	readFeed(w.t, w.db)
	if w.t.Failed() {
		w.t.FailNow()
	}
}
