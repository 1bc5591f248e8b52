package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// TestGuards: calls that would do more, or other things, than they seem to say are refused,
// and the error says what to call.
func TestGuards(t *testing.T) {
	db := openTest(t, vfs.NewMem(), Options{})
	m, ctx := db.Memories(), t.Context()
	ada := memory.Scope{User: "ada"}
	mustStore(t, m, memory.Memory{ID: "one", Scope: ada, Text: "tea", Embedding: []float32{1, 2}, Vectors: map[string][]float32{"image": {1, 2}}})
	all := func(q memory.HistoryQuery) (err error) {
		for _, e := range m.Histories(ctx, q) {
			err = e
		}
		return err
	}
	for name, c := range map[string]struct {
		try  func() error
		says []string
	}{
		"delete without a filter":        {func() error { _, err := m.DeleteMatching(ctx, memory.DeleteQuery{Scope: ada}); return err }, []string{"DeleteScope"}},
		"delete of all without a filter": {func() error { _, err := m.DeleteMatching(ctx, memory.DeleteQuery{AllScopes: true}); return err }, []string{"DeleteAll"}},
		"unknown space": {func() error {
			_, err := m.Recall(ctx, memory.Query{Scope: ada, Embedding: []float32{1, 2}, Space: "imgae"})
			return err
		}, []string{"imgae", "default", "image"}},
		"list beside all":  {func() error { _, err := m.List(ctx, memory.ListQuery{Scope: ada, AllScopes: true}); return err }, []string{"AllScopes"}},
		"count beside all": {func() error { _, err := m.Count(ctx, memory.ListQuery{Scope: ada, AllScopes: true}); return err }, []string{"AllScopes"}},
		"recall beside all": {func() error {
			_, err := m.Recall(ctx, memory.Query{Scope: ada, AllScopes: true, Text: "tea"})
			return err
		}, []string{"AllScopes"}},
		"delete beside all": {func() error {
			_, err := m.DeleteMatching(ctx, memory.DeleteQuery{Scope: ada, AllScopes: true, Filter: filter.Eq("id", "one")})
			return err
		}, []string{"AllScopes"}},
		"histories beside all": {func() error { return all(memory.HistoryQuery{Scope: ada, AllScopes: true}) }, []string{"AllScopes"}},
		"both metadata": {func() error {
			_, err := m.Update(ctx, ada, "one", memory.Patch{Metadata: &map[string]any{}, MergeMetadata: map[string]any{"a": 1}})
			return err
		}, []string{"merge"}},
	} {
		err := c.try()
		wantError(t, name, err, fault.ErrInvalid)
		for _, s := range c.says {
			if err != nil && !strings.Contains(err.Error(), s) {
				t.Errorf("%s: %q does not name %s", name, err, s)
			}
		}
	}
	mustCheck(t, db, 1)
	for _, memories := range []int{1, 0} {
		if n, err := m.DeleteAll(ctx); n != memories || err != nil {
			t.Errorf("%d deleted, %v", n, err)
		}
	}
}

// TestVectorsAreAskedFor: what reads a memory brings its vectors only if that was asked for.
func TestVectorsAreAskedFor(t *testing.T) {
	db := openTest(t, vfs.NewMem(), Options{})
	m, ada := db.Memories(), memory.Scope{User: "ada"}
	mustStore(t, m, memory.Memory{ID: "one", Scope: ada, Text: "tea", Embedding: []float32{1, 2}})
	get, err := m.Get(t.Context(), ada, "one")
	if err != nil || get.Embedding != nil {
		t.Errorf("Get: %v, %v", get.Embedding, err)
	}
	if up, err := m.Update(t.Context(), ada, "one", memory.Patch{Pinned: new(true)}); err != nil || up.Embedding != nil {
		t.Errorf("Update: %v, %v", up.Embedding, err)
	}
	if all := mustList(t, m, ada); all[0].Embedding != nil {
		t.Errorf("List: %v", all[0].Embedding)
	}
	with, err := m.GetWithVectors(t.Context(), ada, "one")
	if err != nil {
		t.Fatal(err)
	}
	equalSlices(t, "GetWithVectors", with.Embedding, []float32{1, 2})
}

// TestMemoryJSONIsFlat: the JSON of a memory has its scope among its fields, and reads
// back as the same memory.
func TestMemoryJSONIsFlat(t *testing.T) {
	db := openTest(t, vfs.NewMem(), Options{})
	s := memory.Scope{User: "ada", Agent: "coach", Run: "r1"}
	mustStore(t, db.Memories(), memory.Memory{ID: "one", Scope: s, Text: "tea", Embedding: []float32{1, 2}, Metadata: map[string]any{"a": "b"}})
	mem := mustGet(t, db.Memories(), s, "one")
	b, err := json.Marshal(mem)
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(b, &fields); err != nil {
		t.Fatal(err)
	}
	if fields["user"] != "ada" || fields["agent"] != "coach" || fields["run"] != "r1" || fields["scope"] != nil {
		t.Errorf("%s", b)
	}
	var back memory.Memory
	if err := json.Unmarshal(b, &back); err != nil || !reflect.DeepEqual(back, mem) {
		t.Errorf("%+v\nread back as\n%+v, %v", mem, back, err)
	}
}

// TestCount: a count is that of the list, in an Update too.
func TestCount(t *testing.T) {
	clock := newTestClock()
	db := openTest(t, vfs.NewMem(), Options{Clock: clock.now})
	ada, bob := memory.Scope{User: "ada"}, memory.Scope{User: "bob"}
	for i := range 10 {
		mem := memory.Memory{Scope: []memory.Scope{ada, bob}[i%2], Text: strings.Repeat("tea ", i+1), Metadata: map[string]any{"n": i}}
		if i == 8 {
			mem.ExpiresAt = clock.now().Add(time.Second)
		}
		mustStore(t, db.Memories(), mem)
	}
	clock.advance(time.Minute)
	counts := func(m Memories, more int) {
		t.Helper()
		for _, c := range []struct {
			q    memory.ListQuery
			want int
		}{
			{memory.ListQuery{Scope: ada}, 4 + more},
			{memory.ListQuery{AllScopes: true, Limit: 1}, 9 + more},
			{memory.ListQuery{Scope: ada, Filter: filter.Gte("n", 4)}, 2},
			{memory.ListQuery{Scope: memory.Scope{User: "eve"}}, 0},
		} {
			if n, err := m.Count(t.Context(), c.q); n != c.want || err != nil {
				t.Errorf("%+v: %d, %v; want %d", c.q, n, err, c.want)
			}
		}
	}
	counts(db.Memories(), 0)
	err := db.Update(t.Context(), func(tx *Tx) error {
		mustStore(t, tx.Memories(), memory.Memory{Scope: ada, Text: "new"})
		counts(tx.Memories(), 1)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestMinScore: hits below the least score are left out, and nothing else changes.
func TestMinScore(t *testing.T) {
	db := openTest(t, vfs.NewMem(), Options{Clock: newTestClock().now})
	ada := memory.Scope{User: "ada"}
	for i, v := range [][]float32{{1, 0}, {1, 1}, {0, 1}, {-1, 0}} {
		mustStore(t, db.Memories(), memory.Memory{ID: string(rune('a' + i)), Scope: ada, Text: strings.Repeat("tea and milk ", i+1), Embedding: v})
	}
	for _, profile := range []memory.Profile{memory.ProfileVector, memory.ProfileText, memory.ProfileBest, memory.ProfileHybrid, memory.ProfileSubstrate} {
		q := memory.Query{Scope: ada, Text: "tea", Embedding: []float32{1, 0}, Profile: profile, NoTouch: true}
		all := mustRecall(t, db.Memories(), q)
		for _, h := range all {
			q.MinScore = h.Score
			want := slices.DeleteFunc(slices.Clone(all), func(o memory.Hit) bool { return h.Score != 0 && o.Score < h.Score })
			if got := mustRecall(t, db.Memories(), q); !slices.Equal(hitIDs(got), hitIDs(want)) {
				t.Errorf("%s from %g: %v, want %v", profile, h.Score, hitIDs(got), hitIDs(want))
			}
		}
	}
}

// TestMergeMetadata follows the examples of RFC 7386, appendix A, that have objects.
func TestMergeMetadata(t *testing.T) {
	db := openTest(t, vfs.NewMem(), Options{})
	m, ada := db.Memories(), memory.Scope{User: "ada"}
	for _, c := range []struct{ old, patch, want string }{
		{`{"a":"b"}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"b"}`, `{"b":"c"}`, `{"a":"b","b":"c"}`},
		{`{"a":"b"}`, `{"a":null}`, `{}`},
		{`{"a":"b","b":"c"}`, `{"a":null}`, `{"b":"c"}`},
		{`{"a":["b"]}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"c"}`, `{"a":["b"]}`, `{"a":["b"]}`},
		{`{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`, `{"a":{"b":"d"}}`},
		{`{"a":[{"b":"c"}]}`, `{"a":[1]}`, `{"a":[1]}`},
		{`{"e":null}`, `{"a":1}`, `{"a":1,"e":null}`},
		{`{}`, `{"a":{"bb":{"ccc":null}}}`, `{"a":{"bb":{}}}`},
		{`{"a":9007199254740993}`, `{}`, `{"a":9007199254740993}`},
	} {
		object := func(s string) (o map[string]any) {
			t.Helper()
			d := json.NewDecoder(strings.NewReader(s))
			d.UseNumber()
			if err := d.Decode(&o); err != nil {
				t.Fatal(err)
			}
			return o
		}
		mustStore(t, m, memory.Memory{ID: c.old + c.patch, Scope: ada, Text: "text of " + c.old + c.patch, Metadata: object(c.old)})
		patch := object(c.patch)
		got := mustUpdate(t, m, ada, c.old+c.patch, memory.Patch{MergeMetadata: patch})
		want := object(c.want)
		if len(got.Metadata)+len(want) > 0 && !reflect.DeepEqual(got.Metadata, want) {
			t.Errorf("%s with %s: %v, want %s", c.old, c.patch, got.Metadata, c.want)
		}
		if !reflect.DeepEqual(patch, object(c.patch)) {
			t.Errorf("the patch %s was changed to %v", c.patch, patch)
		}
	}
	deep := map[string]any{}
	for range memory.MaxMetadataDepth + 1 {
		deep = map[string]any{"a": deep}
	}
	_, err := m.Update(t.Context(), ada, `{"a":"b"}{"a":"c"}`, memory.Patch{MergeMetadata: deep})
	wantError(t, "a deep patch", err, fault.ErrInvalid)
}

// TestLitter: what systems leave in folders by themselves does not keep a database from
// being made there; what people put there does.
func TestLitter(t *testing.T) {
	for name, fine := range map[string]bool{
		".DS_Store": true, "._x": true, "Thumbs.db": true, "desktop.ini": true, "notes.txt": false, ".git": false,
	} {
		fs := vfs.NewMem()
		if err := fs.MkdirAll("db", 0o700); err != nil {
			t.Fatal(err)
		}
		f, err := fs.Create("db/"+name, vfs.WriteCategoryUnspecified)
		if err == nil {
			err = f.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		db, err := openOn(fs, "db", Options{})
		if !fine {
			wantError(t, name, err, fault.ErrNotDatabase)
			continue
		}
		if err != nil {
			t.Errorf("beside %s: %v", name, err)
			continue
		}
		closeTest(t, db)
		closeTest(t, openTest(t, fs, Options{}))
	}
}

// TestErrorsAreTheDatabases: each error is an *Error with a kind, or that of the context.
func TestErrorsAreTheDatabases(t *testing.T) {
	db, f := openEmbedding(t, vfs.NewMem(), newTestClock())
	m, ada := db.Memories(), memory.Scope{User: "ada"}
	mustStore(t, m, memory.Memory{ID: "one", Scope: ada, Text: "tea"})
	over, cancel := context.WithCancel(t.Context())
	cancel()
	f.set(func(f *fakeEmbedder) { f.fail = errors.New("no network") })
	broken := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(errorfs.Op) error { return errors.New("no such luck") }))
	for name, c := range map[string]struct {
		try  func(ctx context.Context) error
		kind error // nil: only the context's error counts
	}{
		"store": {func(ctx context.Context) error {
			_, err := m.Store(ctx, memory.Memory{Scope: ada, Text: "x"}, nil)
			return err
		}, nil},
		"batch": {func(ctx context.Context) error {
			_, err := m.StoreBatch(ctx, []memory.Memory{{Scope: ada, Text: "y"}, {Scope: ada}}, nil)
			return err
		}, fault.ErrInvalid},
		"get":   {func(ctx context.Context) error { _, err := m.Get(ctx, ada, "none"); return err }, fault.ErrNotFound},
		"list":  {func(ctx context.Context) error { _, err := m.List(ctx, memory.ListQuery{}); return err }, fault.ErrScope},
		"count": {func(ctx context.Context) error { _, err := m.Count(ctx, memory.ListQuery{Scope: ada}); return err }, nil},
		"recall": {func(ctx context.Context) error {
			_, err := m.Recall(ctx, memory.Query{Scope: ada, Text: "milk", Profile: memory.ProfileVector})
			return err
		}, fault.ErrEmbedder},
		"embed":   {func(ctx context.Context) error { _, err := db.EmbedPending(ctx, 0); return err }, nil},
		"delete":  {func(ctx context.Context) error { return m.Delete(ctx, ada, "none") }, fault.ErrNotFound},
		"view":    {func(ctx context.Context) error { return db.View(ctx, func(*Tx) error { return nil }) }, nil},
		"update":  {func(ctx context.Context) error { return db.Update(ctx, func(*Tx) error { return nil }) }, nil},
		"rebuild": {func(ctx context.Context) error { return db.Rebuild(ctx, "text", nil) }, nil},
		"indexed": {func(ctx context.Context) error { return db.WaitIndexed(ctx) }, nil},
		"stats":   {func(ctx context.Context) error { _, err := db.Stats(ctx); return err }, nil},
		"entry": {func(ctx context.Context) error {
			_, err := db.KV().Put(ctx, memory.Owner{User: "ada"}, "k", make(chan int), nil)
			return err
		}, fault.ErrInvalid},
		"make": {func(context.Context) error { _, err := openOn(broken, "db", Options{}); return err }, fault.ErrFailed},
		"open": {func(context.Context) error { _, err := openOn(broken, "db", Options{ReadOnly: true}); return err }, fault.ErrFailed},
	} {
		for _, ctx := range []context.Context{t.Context(), over} {
			err := c.try(ctx)
			if ctx == over && (err == context.Canceled || c.kind == nil && err == nil) { //nolint:errorlint // it is not to be wrapped
				continue
			}
			if own, ok := err.(*memory.Error); err != nil && (!ok || own.Kind == nil) { //nolint:errorlint // it is not to be wrapped
				t.Errorf("%s: %T %v", name, err, err)
			}
			if c.kind != nil && !errors.Is(err, c.kind) {
				t.Errorf("%s: %v, want %v", name, err, c.kind)
			}
		}
	}
}

// TestGroups: the groups of a scope have the memories that lists of them have.
func TestGroups(t *testing.T) {
	ctx, clock := t.Context(), newTestClock()
	db := openTest(t, vfs.NewMem(), Options{Clock: clock.now})
	m := db.Memories()
	for i, s := range []memory.Scope{
		{User: "ada", Run: "r1"},
		{User: "ada", Run: "r1"},
		{User: "ada", Agent: "a1", Run: "r1"},
		{User: "ada", Agent: "a1"},
		{User: "bob", Agent: "a1", Run: "r2"},
		{Agent: "a2"},
		{Agent: "a2", Run: "r1"},
		{Run: "r3"},
	} {
		clock.advance(time.Minute)
		mustStore(t, m, memory.Memory{ID: string(rune('a' + i)), Scope: s, Text: "text " + string(rune('a'+i))})
	}
	mustStore(t, m, memory.Memory{Scope: memory.Scope{User: "gone"}, Text: "ends", ExpiresAt: clock.now().Add(time.Second)})
	clock.advance(time.Minute)
	if err := m.Delete(ctx, memory.Scope{User: "ada"}, "b"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		q    memory.GroupQuery
		want string
	}{
		{memory.GroupQuery{AllScopes: true, By: memory.GroupUser}, `1: 3  ada: 3  bob: 1`},
		{memory.GroupQuery{AllScopes: true, By: memory.GroupAgent}, `1: 2  a1: 3  a2: 2`},
		{memory.GroupQuery{AllScopes: true}, `//: 1  /a2/: 2  ada//: 1  ada/a1/: 2  bob/a1/: 1`},
		{memory.GroupQuery{AllScopes: true, By: memory.GroupRun}, `//r3: 1  /a2/: 1  /a2/r1: 1  ada//r1: 1  ada/a1/: 1  ada/a1/r1: 1  bob/a1/r2: 1`},
		{memory.GroupQuery{Scope: memory.Scope{User: "ada"}, By: memory.GroupRun}, `ada//r1: 1  ada/a1/: 1  ada/a1/r1: 1`},
		{memory.GroupQuery{Scope: memory.Scope{Agent: "a1"}, By: memory.GroupUser}, `ada: 2  bob: 1`},
		{memory.GroupQuery{Scope: memory.Scope{User: "nobody"}}, ``},
	} {
		sizes, err := m.Groups(ctx, c.q)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, g := range sizes {
			name := g.User + "/" + g.Agent + "/" + g.Run
			switch c.q.By {
			case memory.GroupUser:
				name = cmp.Or(g.User, "1")
			case memory.GroupAgent:
				name = cmp.Or(g.Agent, "1")
			}
			got = append(got, fmt.Sprintf("%s: %d", name, g.Memories))
			if g.First.After(g.Last) || g.First.IsZero() {
				t.Errorf("%s: from %v to %v", name, g.First, g.Last)
			}
		}
		if got := strings.Join(got, "  "); got != c.want {
			t.Errorf("%+v:\n%s\nwant\n%s", c.q, got, c.want)
		}
	}
	for name, q := range map[string]memory.GroupQuery{"by": {AllScopes: true, By: "text"}, "beside": {Scope: memory.Scope{User: "ada"}, AllScopes: true}} {
		_, err := m.Groups(ctx, q)
		wantError(t, name, err, memory.ErrInvalid)
	}
	if _, err := m.Groups(ctx, memory.GroupQuery{}); !errors.Is(err, memory.ErrScope) {
		t.Errorf("no scope: %v", err)
	}
}

// TestRecallScopes: several scopes are recalled from as one, whose memories are ranked
// together, and nobody else's.
func TestRecallScopes(t *testing.T) {
	ctx := t.Context()
	db := openTest(t, vfs.NewMem(), Options{Clock: newTestClock().now}) // scores are of the time of the recall
	m := db.Memories()
	for _, s := range []memory.Scope{{User: "ada", Run: "r1"}, {User: "ada", Run: "r2"}, {User: "bob", Run: "r1"}, {User: "eve"}} {
		for i := range 5 {
			mustStore(t, m, memory.Memory{Scope: s, Text: fmt.Sprintf("%s drinks tea %d %s", s.User, i, s.Run), Metadata: map[string]any{"n": i}})
		}
	}
	union := []memory.Scope{{User: "ada", Run: "r1"}, {User: "bob"}, {Run: "r1"}}
	for _, profile := range []memory.Profile{memory.ProfileBest, memory.ProfileText, memory.ProfileVector, memory.ProfileHybrid, memory.ProfileSubstrate} {
		q := memory.Query{Scopes: union, Text: "who drinks tea", Limit: 100, Profile: profile, NoTouch: true}
		r, err := m.Recall(ctx, q)
		if err != nil || len(r.Hits) != 10 {
			t.Fatalf("%s: %d hits, %v", profile, len(r.Hits), err)
		}
		for _, h := range r.Hits {
			if h.Run != "r1" {
				t.Errorf("%s: %+v is of no scope asked for", profile, h.Scope)
			}
		}
		q.Filter = filter.Eq("n", 3)
		if r, err = m.Recall(ctx, q); err != nil || len(r.Hits) != 2 {
			t.Errorf("%s, filtered: %d hits, %v", profile, len(r.Hits), err)
		}
		q = memory.Query{Scopes: []memory.Scope{{User: "ada"}}, Text: "who drinks tea", Profile: profile, NoTouch: true}
		several, err := m.Recall(ctx, q)
		q.Scopes, q.Scope = nil, memory.Scope{User: "ada"}
		one, err2 := m.Recall(ctx, q)
		if err != nil || err2 != nil || !reflect.DeepEqual(several.Hits, one.Hits) {
			t.Errorf("%s: a list of one scope is answered otherwise than the scope (%v, %v)", profile, err, err2)
		}
	}
	for name, q := range map[string]memory.Query{
		"beside Scope":     {Scope: memory.Scope{User: "ada"}, Scopes: union, Text: "tea"},
		"beside AllScopes": {AllScopes: true, Scopes: union, Text: "tea"},
		"too many":         {Scopes: make([]memory.Scope, memory.MaxScopes+1), Text: "tea"},
	} {
		_, err := m.Recall(ctx, q)
		wantError(t, name, err, memory.ErrInvalid)
	}
	if _, err := m.Recall(ctx, memory.Query{Scopes: []memory.Scope{{User: "ada"}, {}}, Text: "tea"}); !errors.Is(err, memory.ErrScope) {
		t.Errorf("an empty scope among several: %v", err)
	}
}
