package records

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/mention"
	"github.com/seed-7aedc3ff/memdb/policy"
)

var ada, bob = memory.Scope{User: "ada"}, memory.Scope{User: "bob"}

// text is the text that is stored under an ID, empty where there is none.
func (l *ledger) text(s memory.Scope, id string) string {
	_, rec, err := l.view().Find("get", s, memory.Lack{}, id)
	if err != nil {
		if !errors.Is(err, fault.ErrNotFound) {
			l.t.Errorf("find %q: %v", id, err)
		}
		return ""
	}
	return rec.Text
}

// told are the events of a memory, each with its text.
func (l *ledger) told(s memory.Scope, id string) (all []string) {
	l.t.Helper()
	entries, err := l.view().History("read", s, memory.Lack{}, id)
	if err != nil {
		l.t.Error(err)
	}
	for _, e := range entries {
		text := ""
		if e.NewText != nil {
			text = *e.NewText
		}
		all = append(all, strings.TrimSuffix(fmt.Sprintf("%s %s", strings.ToLower(string(e.Event)), text), " "))
	}
	return all
}

// TestStore verifies the outcomes of a store under a given ID: new, the same again, another content, an update.
func TestStore(t *testing.T) {
	l := newLedger(t)
	first := l.mustStore(memory.Memory{ID: "a", Scope: ada, Text: "tea"})
	if !first.Stored || first.Seq != 1 || l.text(ada, "a") != "tea" {
		t.Errorf("stored %+v, found %q", first, l.text(ada, "a"))
	}
	if again := l.mustStore(memory.Memory{ID: "a", Scope: ada, Text: "tea"}); again.Stored || again.Updated || again.Seq != 1 {
		t.Errorf("the same again: %+v", again)
	}
	if _, err := l.store(memory.Memory{ID: "a", Scope: ada, Text: "coffee"}, memory.StoreOptions{}); !errors.Is(err, fault.ErrExists) {
		t.Errorf("another content: %v", err)
	}
	updated, err := l.store(memory.Memory{ID: "a", Scope: ada, Text: "coffee"}, memory.StoreOptions{Upsert: true})
	if err != nil || !updated.Updated || updated.Seq != 1 || l.text(ada, "a") != "coffee" {
		t.Errorf("an update: %+v, %v", updated, err)
	}
	if got := l.told(ada, "a"); !slices.Equal(got, []string{"add tea", "update coffee"}) {
		t.Errorf("history %q", got)
	}
	if l.text(bob, "a") != "" {
		t.Error("it is found in another scope")
	}
	if own := l.mustStore(memory.Memory{Scope: ada, Text: "milk"}); own.ID == "" || l.text(memory.Scope{}, own.ID) != "milk" {
		t.Errorf("without an ID: %+v", own)
	}
	if other := l.mustStore(memory.Memory{ID: "a", Scope: bob, Text: "wine"}); other.Seq == 1 || l.text(bob, "a") != "wine" {
		t.Errorf("the ID of another owner: %+v", other)
	}
	if _, _, err := l.view().Find("get", memory.Scope{}, memory.Lack{}, "a"); !errors.Is(err, fault.ErrAmbiguous) {
		t.Errorf("without a scope: %v", err)
	}
}

// TestRefused verifies that what is refused leaves nothing behind.
func TestRefused(t *testing.T) {
	l := newLedger(t)
	before := len(l.values)
	for _, c := range []struct {
		what string
		mem  memory.Memory
		set  func()
		want error
	}{
		{"an agent without a manifest", memory.Memory{Scope: memory.Scope{Agent: "stranger"}, Text: "tea"}, func() {}, fault.ErrUnknownAgent},
		{"too many spaces", memory.Memory{Scope: ada, Text: "tea", Vectors: map[string][]float32{"x": {1}, "y": {1}}}, func() {}, fault.ErrInvalid},
		{"no room", memory.Memory{Scope: ada, Text: "tea"}, func() { l.noRoom = true }, errNoRoom},
	} {
		c.set()
		if _, err := l.store(c.mem, memory.StoreOptions{}); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.what, err, c.want)
		}
	}
	if len(l.values) != before || l.given.Seq != 0 {
		t.Errorf("%d keys and %d memories were written", len(l.values)-before, l.given.Seq)
	}
	l.noRoom = false
	if _, err := l.store(memory.Memory{Scope: ada, Role: "king", Text: "tea"}, memory.StoreOptions{}); !errors.Is(err, fault.ErrInvalid) {
		t.Errorf("an invalid memory: %v", err)
	}
}

// TestDuplicates verifies by kind and setting what is taken for the same.
func TestDuplicates(t *testing.T) {
	run := memory.Scope{User: "ada", Run: "r"}
	for _, c := range []struct {
		what      string
		dedup     Dedup
		first, in memory.Memory
		same      bool
		want      error
	}{
		{"a text of the scope", DedupScope, memory.Memory{Scope: ada, Text: "tea"}, memory.Memory{Scope: ada, Text: "tea"}, true, nil},
		{"another text", DedupScope, memory.Memory{Scope: ada, Text: "tea"}, memory.Memory{Scope: ada, Text: "milk"}, false, nil},
		{"another owner", DedupScope, memory.Memory{Scope: ada, Text: "tea"}, memory.Memory{Scope: bob, Text: "tea"}, false, nil},
		{"another run", DedupScope, memory.Memory{Scope: ada, Text: "tea"}, memory.Memory{Scope: run, Text: "tea"}, false, nil},
		{"another run of the owner", DedupOwner, memory.Memory{Scope: ada, Text: "tea"}, memory.Memory{Scope: run, Text: "tea"}, true, nil},
		{"everything is stored", DedupNone, memory.Memory{Scope: ada, Text: "tea"}, memory.Memory{Scope: ada, Text: "tea"}, false, nil},
		{"a fact", DedupScope, memory.Memory{Scope: ada, Kind: memory.KindFact, Text: "tea"}, memory.Memory{Scope: ada, Kind: memory.KindFact, Text: "tea"}, true, nil},
		{"a fact is no message", DedupScope, memory.Memory{Scope: ada, Text: "tea"}, memory.Memory{Scope: ada, Kind: memory.KindFact, Text: "tea"}, false, nil},
		{"a summary", DedupScope, memory.Memory{Scope: ada, Kind: memory.KindSummary, Text: "tea"}, memory.Memory{Scope: ada, Kind: memory.KindSummary, Text: "tea"}, false, nil},
		{"a note", DedupScope, memory.Memory{Scope: ada, Kind: memory.KindNote, Name: "n", Text: "tea"}, memory.Memory{Scope: ada, Kind: memory.KindNote, Name: "n", Text: "tea"}, true, nil},
		{"a note of the name", DedupScope, memory.Memory{Scope: ada, Kind: memory.KindNote, Name: "n", Text: "tea"}, memory.Memory{Scope: ada, Kind: memory.KindNote, Name: "n", Text: "milk"}, false, fault.ErrExists},
		{"a note of the name under an ID", DedupScope, memory.Memory{Scope: ada, Kind: memory.KindNote, Name: "n", Text: "tea"}, memory.Memory{ID: "own", Scope: ada, Kind: memory.KindNote, Name: "n", Text: "milk"}, false, fault.ErrExists},
	} {
		l := newLedger(t)
		l.dedup = c.dedup
		first := l.mustStore(c.first)
		got, err := l.store(c.in, memory.StoreOptions{})
		if !errors.Is(err, c.want) || err == nil && (got.Deduplicated != c.same || c.same != (got.Seq == first.Seq)) {
			t.Errorf("%s: %+v, %v", c.what, got, err)
		}
		if c.same {
			if got, err := l.store(c.in, memory.StoreOptions{NoDedup: true}); err != nil || !got.Stored {
				t.Errorf("%s, NoDedup: %+v, %v", c.what, got, err)
			}
		}
	}
}

// TestDuplicateKeeps verifies that a duplicate takes the later expiry, the pin and the higher importance of the two, and
// is as young as the newer one.
func TestDuplicateKeeps(t *testing.T) {
	l := newLedger(t)
	low, high := 0.2, 0.9
	soon, late := clock.FromMillis(l.now+1000), clock.FromMillis(l.now+9000)
	first := l.mustStore(memory.Memory{Scope: ada, Text: "tea", Importance: &low, ExpiresAt: soon, CreatedAt: clock.FromMillis(5000)})
	got := l.mustStore(memory.Memory{Scope: ada, Text: "tea", Importance: &high, ExpiresAt: late, Pinned: true, CreatedAt: clock.FromMillis(7000)})
	if !got.Deduplicated || !got.Updated || got.Seq != first.Seq {
		t.Fatalf("%+v", got)
	}
	_, rec, err := l.view().Find("get", ada, memory.Lack{}, first.ID)
	if err != nil || rec.Importance != high || rec.Flags&layout.FlagPinned == 0 || rec.Expires != l.now+9000 {
		t.Errorf("%+v, %v", rec, err)
	}
	if a := l.view().Access(first.Seq); a.Last != 7000 || a.Count != 0 {
		t.Errorf("access %+v", a)
	}
	l.now += 10_000 // it has expired, and is no original of another one
	if got := l.mustStore(memory.Memory{Scope: ada, Text: "tea"}); got.Deduplicated || got.Seq == first.Seq {
		t.Errorf("after its expiry: %+v", got)
	}
	if _, lives := l.view().At(first.Seq); lives {
		t.Error("the expired copy is kept")
	}
}

// TestRemove verifies that a removed memory is found in its history alone, and that its ID and its text are free again.
func TestRemove(t *testing.T) {
	l := newLedger(t)
	l.seen.ready = true
	first := l.mustStore(memory.Memory{ID: "a", Scope: ada, Text: "tea"})
	l.remove(first.Seq)
	if l.text(ada, "a") != "" {
		t.Error("it is found")
	}
	if got := l.told(ada, "a"); !slices.Equal(got, []string{"add tea", "delete"}) {
		t.Errorf("history %q", got)
	}
	if !slices.Equal(l.forgot, []uint64{first.Seq}) {
		t.Errorf("the graph forgot %d", l.forgot)
	}
	again := l.mustStore(memory.Memory{ID: "a", Scope: ada, Text: "tea"})
	if !again.Stored || again.Seq == first.Seq || l.text(ada, "a") != "tea" {
		t.Errorf("stored again: %+v", again)
	}
	var lives [][]string
	err := l.view().Histories(t.Context(), &memory.HistoryQuery{AllScopes: true, Lost: func(err error) { t.Error(err) }}, func(entries []memory.HistoryEntry, _ error) bool {
		var of []string
		for _, e := range entries {
			of = append(of, strings.ToLower(string(e.Event)))
		}
		lives = append(lives, of)
		return true
	})
	if err != nil || len(lives) != 1 || !slices.Equal(lives[0], []string{"add", "delete"}) {
		t.Errorf("histories %q, %v", lives, err)
	}
}

// TestPatch verifies which fields a patch changes, and that a new text takes the vector away that described the old one.
func TestPatch(t *testing.T) {
	l := newLedger(t)
	first := l.mustStore(memory.Memory{ID: "a", Scope: ada, Text: "tea", Metadata: map[string]any{"n": 1.0, "in": map[string]any{"deep": "x"}}, Embedding: []float32{1, 0}})
	patch := func(p memory.Patch, of Made) *layout.Record {
		t.Helper()
		w := l.begin()
		old, rec, err := w.Find("update", ada, memory.Lack{}, "a")
		if err != nil {
			t.Fatal(err)
		}
		next, err := w.Patch(t.Context(), "update", old, rec, &p, of)
		if err != nil {
			t.Fatal(err)
		}
		if next.Seq != first.Seq || next.Born != w.LSN {
			t.Errorf("the next version is %+v", next)
		}
		l.commit(w)
		_, rec, err = l.view().Find("get", ada, memory.Lack{}, "a")
		if err != nil {
			t.Fatal(err)
		}
		return rec
	}
	rec := patch(memory.Patch{Name: new("drink"), Role: new(memory.RoleAssistant), Source: new(memory.Source("chat")), Aliases: &[]string{"cup"}, Pinned: new(true), Confidence: new(0.5), EventTime: new(time.Unix(7, 0)), ExpiresAt: new(time.Unix(70_000, 0)), MergeMetadata: map[string]any{"m": 2.0}, AutoImportance: true}, Made{})
	if rec.Name != "drink" || rec.Role != 1 || rec.Source != "chat" || !slices.Equal(rec.Aliases, []string{"cup"}) || rec.Flags&layout.FlagPinned == 0 || rec.Confidence != 0.5 || rec.Event != 7000 || rec.Expires != 70_000_000 {
		t.Errorf("%+v", rec)
	}
	if string(rec.Metadata) != `{"in":{"deep":"x"},"m":2,"n":1}` || len(rec.Vectors) != 1 {
		t.Errorf("metadata %s, vectors %+v", rec.Metadata, rec.Vectors)
	}
	at, _ := l.view().At(first.Seq)
	if vec, err := l.view().Vector(at.Version, rec.Vectors[0]); err != nil || !slices.Equal(vec, []float32{1, 0}) {
		t.Errorf("the vector that it kept: %v, %v", vec, err)
	}
	if rec = patch(memory.Patch{Text: new("coffee"), Metadata: &map[string]any{}, Pinned: new(false), Importance: new(0.7)}, Made{}); len(rec.Vectors) != 0 || rec.Text != "coffee" || rec.Flags&layout.FlagPinned != 0 || rec.Importance != 0.7 {
		t.Errorf("after a new text: %+v", rec)
	}
	if !slices.Equal(l.forgot, []uint64{first.Seq}) {
		t.Errorf("the graph forgot %d", l.forgot)
	}
	for _, p := range []memory.Patch{{Metadata: &map[string]any{}, MergeMetadata: map[string]any{"a": 1.0}}, {Text: new("")}, {Confidence: new(math.NaN())}} {
		w := l.begin()
		old, rec, _ := w.Find("update", ada, memory.Lack{}, "a")
		if _, err := w.Patch(t.Context(), "update", old, rec, &p, Made{}); !errors.Is(err, fault.ErrInvalid) {
			t.Errorf("%+v: %v", p, err)
		}
	}
}

// TestWithin verifies that a transaction sees what it has written, in one commit: a version that is replaced before
// anybody could see it leaves no document and no vector.
func TestWithin(t *testing.T) {
	l := newLedger(t)
	w := l.begin()
	prepared := func(m memory.Memory) *Prepared {
		t.Helper()
		p, err := Prepare(t.Context(), w.Tables, &m, l.now, w.Space)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	p := prepared(memory.Memory{ID: "a", Scope: ada, Text: "tea", Embedding: []float32{1, 0}})
	p.Found = &mention.Found{}
	first, err := w.Store(p, &memory.StoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, rec, err := w.Find("get", ada, memory.Lack{}, "a"); err != nil || rec.Text != "tea" {
		t.Fatalf("%+v, %v", rec, err)
	}
	if _, err := w.Store(prepared(memory.Memory{ID: "a", Scope: ada, Text: "coffee", Embedding: []float32{0, 1}}), &memory.StoreOptions{Upsert: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Store(prepared(memory.Memory{ID: "b", Scope: ada, Text: "gone"}), &memory.StoreOptions{}); err != nil {
		t.Fatal(err)
	}
	gone, _, err := w.Find("get", ada, memory.Lack{}, "b")
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Remove(gone, nil); err != nil {
		t.Fatal(err)
	}
	if _, lives := w.At(gone.Seq); lives || w.Changes.Overlaps {
		t.Error("what the transaction removed lives, or overlaps with another commit")
	}
	l.commit(w)
	vectors, forwards := 0, 0
	for key := range l.values {
		switch key[0] {
		case layout.KindVector:
			vectors++
		case layout.KindForward:
			forwards++
		}
	}
	if vectors != 1 || forwards != 1 || l.text(ada, "a") != "coffee" || l.world.Tables.Docs.Live.Load() != 1 {
		t.Errorf("%d vectors, %d forward records, %d documents; %q", vectors, forwards, l.world.Tables.Docs.Live.Load(), l.text(ada, "a"))
	}
	if !slices.Equal(l.linked, []uint64{first.Seq}) {
		t.Errorf("linked %d", l.linked)
	}
	if same := l.mustStore(memory.Memory{ID: "a", Scope: ada, Text: "coffee", Embedding: []float32{0, 1}}); same.Updated {
		t.Errorf("the same vector is an update: %+v", same)
	}
	if _, err := l.store(memory.Memory{ID: "a", Scope: ada, Text: "coffee", Embedding: []float32{1, 1}}, memory.StoreOptions{}); !errors.Is(err, fault.ErrExists) {
		t.Errorf("another vector: %v", err)
	}
}

// TestRestore verifies that a life with a history is written whole, once.
func TestRestore(t *testing.T) {
	l := newLedger(t)
	entry := func(e memory.Event, at int64, text string) memory.HistoryEntry {
		h := memory.HistoryEntry{MemoryID: "a", Scope: ada, Kind: memory.KindMessage, Event: e, Time: clock.FromMillis(at)}
		if text != "" {
			h.NewText = &text
		}
		return h
	}
	past := []memory.HistoryEntry{entry(memory.EventAdd, 1000, "tea"), entry(memory.EventUpdate, 2000, "milk")}
	gone := append(slices.Clone(past), entry(memory.EventDelete, 3000, ""))
	gone[2].Reason, gone[2].Into = memory.Reason(""), ""
	restore := func(life *memory.Life, p *Prepared) memory.Stored {
		t.Helper()
		w := l.begin()
		s, err := w.StoreLife(life, p, &memory.RestoreOptions{Known: math.MaxUint64})
		if err != nil {
			t.Fatal(err)
		}
		l.commit(w)
		return s
	}
	if s := restore(&memory.Life{History: gone}, nil); !s.Stored {
		t.Errorf("a life that is gone: %+v", s)
	}
	if s := restore(&memory.Life{History: gone}, nil); s.Stored || s.Seq != 1 {
		t.Errorf("the same again: %+v", s)
	}
	if got := l.told(ada, "a"); !slices.Equal(got, []string{"add tea", "update milk", "delete"}) {
		t.Errorf("history %q", got)
	}
	mem := memory.Memory{ID: "a", Scope: ada, Text: "milk"}
	w := l.begin()
	p, err := Prepare(t.Context(), w.Tables, &mem, l.now, w.Space)
	if err != nil {
		t.Fatal(err)
	}
	if s := restore(&memory.Life{Memory: &mem, History: past}, p); !s.Stored || s.Seq != 2 || l.text(ada, "a") != "milk" {
		t.Errorf("a life that lives: %+v, %q", s, l.text(ada, "a"))
	}
	fresh := memory.Memory{ID: "c", Scope: ada, Text: "sugar"}
	if p, err = Prepare(t.Context(), w.Tables, &fresh, l.now, w.Space); err != nil {
		t.Fatal(err)
	}
	if s := restore(&memory.Life{Memory: &fresh}, p); !s.Stored || l.text(ada, "c") != "sugar" {
		t.Errorf("without a history: %+v", s)
	}
}

// TestMergedInto verifies that the ID of a memory that was merged names the one that took it in.
func TestMergedInto(t *testing.T) {
	l := newLedger(t)
	from, into := l.mustStore(memory.Memory{ID: "from", Scope: ada, Text: "tea"}), l.mustStore(memory.Memory{ID: "into", Scope: ada, Text: "a cup of tea"})
	w := l.begin()
	old, rec, err := w.Find("merge", ada, memory.Lack{}, "from")
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Remove(old, rec); err != nil {
		t.Fatal(err)
	}
	d := layout.DeathOf(rec, old.Version, l.now, layout.Cause{Reason: layout.ReasonMerged, Into: into.Seq})
	if err := l.Set(l.keys.History(old.Owner, old.Seq, w.LSN, 0), d.Encode()); err != nil {
		t.Fatal(err)
	}
	l.commit(w)
	if _, _, err := l.view().Find("get", ada, memory.Lack{}, "from"); !errors.Is(err, fault.ErrNotFound) || !strings.Contains(err.Error(), `merged into "into"`) {
		t.Errorf("%v", err)
	}
	seq, id, lives, err := l.view().Survivor(old.Owner, from.Seq)
	if err != nil || seq != into.Seq || id != "into" || !lives {
		t.Errorf("survivor %d %q %v, %v", seq, id, lives, err)
	}
}

// TestTouches verifies that accesses and moved expiries are seen at once, committed together, and given back by a
// transaction that fails.
func TestTouches(t *testing.T) {
	l := newLedger(t)
	a := l.mustStore(memory.Memory{ID: "a", Scope: ada, Text: "tea", ExpiresAt: clock.FromMillis(l.now + 1000)})
	b := l.mustStore(memory.Memory{ID: "b", Scope: ada, Text: "milk"})
	l.touches.Recalled([]uint64{a.Seq, b.Seq}, l.now)
	l.touches.Recalled([]uint64{a.Seq}, l.now+5)
	l.touches.Renew(b.Seq, l.now-1) // it was accessed since
	l.touches.Extend(map[uint64]time.Time{a.Seq: clock.FromMillis(l.now + 9000), b.Seq: clock.FromMillis(l.now + 9000), 99: {}})
	if got := l.view().Access(a.Seq); got.Count != 2 || got.Last != l.now+5 {
		t.Errorf("access %+v", got)
	}
	if at, _ := l.view().At(a.Seq); at.Expires != l.now+9000 {
		t.Errorf("it expires at %d", at.Expires)
	}
	if at, _ := l.view().At(b.Seq); at.Expires != 0 {
		t.Error("what never expires was extended")
	}
	w := l.begin()
	if err := w.FlushTouches(func(int) error { return errNoRoom }); !errors.Is(err, errNoRoom) || l.touches.Len() != 2 {
		t.Errorf("without room: %v, %d gathered", err, l.touches.Len())
	}
	w = l.begin()
	if err := w.FlushTouches(func(int) error { return nil }); err != nil || l.touches.Len() != 0 {
		t.Errorf("%v, %d gathered", err, l.touches.Len())
	}
	w.GiveBack()
	if l.touches.Len() != 2 {
		t.Errorf("%d are given back", l.touches.Len())
	}
	w = l.begin()
	if err := w.FlushTouches(func(int) error { return nil }); err != nil {
		t.Fatal(err)
	}
	l.commit(w)
	at, _ := l.view().At(a.Seq)
	key := l.keys.Stats(at.Owner, a.Seq)
	if got, err := DecodeAccess(key, l.values[string(key)]); err != nil || got.Count < 2 || got.Lease != (layout.Lease{Of: at.Born, Until: l.now + 9000}) {
		t.Errorf("stored %+v, %v", got, err)
	}
	// A new version that keeps the expiry keeps what a read has added to it since.
	w = l.begin()
	old, rec, _ := w.Find("update", ada, memory.Lack{}, "a")
	l.touches.Extend(map[uint64]time.Time{a.Seq: clock.FromMillis(l.now + 20_000)})
	if _, err := w.Patch(t.Context(), "update", old, rec, &memory.Patch{Name: new("x")}, Made{}); err != nil {
		t.Fatal(err)
	}
	l.commit(w)
	if at, _ := l.view().At(a.Seq); at.Expires != l.now+20_000 {
		t.Errorf("the next version expires at %d, want %d", at.Expires, l.now+20_000)
	}
	w = l.begin()
	if err := errors.Join(w.AddAccess(at.Owner, a.Seq, layout.Access{Count: 3}), w.SetAccess(at.Owner, b.Seq, layout.Access{Count: 7, Last: 9})); err != nil {
		t.Fatal(err)
	}
	key = l.keys.Stats(at.Owner, b.Seq)
	if got, err := DecodeAccess(key, l.values[string(key)]); err != nil || got.Count != 7 || got.Last != 9 {
		t.Errorf("set %+v, %v", got, err)
	}
	l.touches.Hold(func() {})
	for seq := range uint64(touchMost) {
		l.touches.Recalled([]uint64{1000 + seq}, l.now)
	}
	select {
	case <-l.touches.Full():
	default:
		t.Error("a full gathering asks for no flush")
	}
}

// TestNoteNumber verifies that notes get their numbers, also when they come with one.
func TestNoteNumber(t *testing.T) {
	l := newLedger(t)
	before := len(l.values)
	l.mustStore(memory.Memory{Scope: ada, Kind: memory.KindNote, Name: "n", Text: "tea", NoteID: 5})
	numbers := 0
	for key := range l.values {
		if key[0] == 'N' {
			numbers++
		}
	}
	if numbers != 3 || len(l.values) == before {
		t.Errorf("%d keys of numbers", numbers)
	}
}

// TestImportance verifies when the importance is computed: always, unless it is given, or the policy says 1.
func TestImportance(t *testing.T) {
	l := newLedger(t)
	var r layout.Record
	SetImportance(&l.world.Tables, &r, nil)
	if want := policy.Importance("", "user"); r.Importance != want || r.Flags&layout.FlagAutoImportance == 0 {
		t.Errorf("computed %v, want %v", r.Importance, want)
	}
	given := 0.25
	SetImportance(&l.world.Tables, &r, &given)
	if r.Importance != given || r.Flags&layout.FlagAutoImportance != 0 {
		t.Errorf("given: %+v", r)
	}
}

// TestAsks verifies which texts ask, by how they end.
func TestAsks(t *testing.T) {
	for text, want := range map[string]bool{
		"tea?": true, "tea": false, `"tea?")`: true, "茶？": true, "tea? no.": false, "tea? 🙂": true, "": false, "١؟": true,
	} {
		if asks(text) != want {
			t.Errorf("%q asks: %v", text, !want)
		}
	}
}
