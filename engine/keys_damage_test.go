package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/entries"
	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/race"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/policy"
	"github.com/seed-7aedc3ff/memdb/sessions"
	"github.com/seed-7aedc3ff/memdb/usage"
)

// unmissed says why a check need not find a damage by which nothing that can be seen changes, ""
// for all others. docs/format/keys.md says so, too.
func (d *keyDamage) unmissed() string {
	switch {
	case d.key[0] == layout.KindCounter && d.value == nil:
		return "an owner without a counter was never counted"
	case d.key[0] == layout.KindLog:
		return "its numbers and the newest record are checked; no state follows from the others, and the oldest go"
	case string(d.key) == string(layout.IdentityKey) && d.value == nil:
		return "it is a copy, which the next Open makes again"
	case d.key[0] == 'M':
		return "of a kind without keys it does not matter which generation they would have"
	case d.key[0] == 'R' && d.value == nil:
		return "the name of a model is in each of its records"
	}
	return ""
}

var keysOwner = memory.Owner{User: "u", Agent: "a"}

// fillKeys stores something under each kind of key.
func fillKeys(t *testing.T, fs vfs.FS, o Options) {
	t.Helper()
	ctx := t.Context()
	db := openTest(t, fs, o)
	m, s := db.Memories(), memory.Scope{User: "u", Agent: "a", Run: "r"}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must1 := func(_ any, err error) { t.Helper(); must(err) }
	mustStore(t, m, memory.Memory{ID: "one", Scope: s, Text: "first text about tea", Embedding: []float32{1, 2, 3}, Metadata: map[string]any{"n": 1, "tag": "x"}})
	must1(m.Update(ctx, s, "one", memory.Patch{Text: new("second text of coffee"), Embedding: []float32{3, 2, 1}}))
	mustStore(t, m, memory.Memory{ID: "two", Scope: s, Text: "gone soon"})
	must(m.Delete(ctx, s, "two"))
	mustStore(t, m, memory.Memory{ID: "three", Scope: s, Text: "stays here", Embedding: []float32{1, 1, 1}, Pinned: true})
	mustStore(t, m, memory.Memory{ID: "four", Scope: memory.Scope{User: "v"}, Text: "another owner", Vectors: map[string][]float32{"other": {1, 2}}})
	mustStore(t, m, memory.Memory{ID: "exp", Scope: s, Text: "expires", ExpiresAt: db.clock().Add(1000 * time.Hour)})
	must1(db.KV().Put(ctx, keysOwner, "k", "v", &entries.PutOptions{TTL: time.Hour}))
	must1(db.KV().Put(ctx, memory.Owner{User: "v"}, "k2", map[string]any{"a": 1}, nil))
	ada := graph.Entity{ID: "e1", Type: "p", Name: "Ada", Aliases: []string{"A"}, Properties: json.RawMessage(`{"x":1}`)}
	must1(db.Graph().Put(ctx, keysOwner, ada, []graph.Edge{{Type: "knows", Target: "e2"}}, nil))
	must1(db.Graph().Put(ctx, keysOwner, graph.Entity{ID: "e2", Type: "p", Name: "Bob"}, nil, nil))
	must1(db.Graph().Link(ctx, keysOwner, "e1", "one"))
	must1(db.Sessions().Append(ctx, keysOwner, "s", []sessions.Message{{Role: "user", Text: "hello there"}, {Role: "assistant", Text: "hi"}}, nil))
	must1(db.Notes().Add(ctx, keysOwner, "nn", "a note", ""))
	must1(db.Notes().Alias(ctx, keysOwner, "nn", "na"))
	half, err := usage.ParseUSD("0.5")
	must(err)
	must1(db.Usage().Add(ctx, usage.Record{Owner: keysOwner, Model: "m", PromptTokens: 3, Cost: half}, nil))
	must1(db.Usage().AddAgent(ctx, usage.Agent{ID: "a", Name: "Agent"}))
	must(db.Usage().SetBudget(ctx, usage.Budget{Owner: keysOwner, Limit: half}))
	must(db.Usage().SetBudget(ctx, usage.Budget{Owner: memory.Owner{User: "w"}, Limit: half}))
	setPolicy(t, db, func(p *policy.Policy) { p.Rate = 0.1 })
	mustRecall(t, m, memory.Query{Scope: s, Text: "text coffee"})
	must(db.FlushTouches(ctx))
	must(db.Close())
}

// seenOfKeys is what callers see of the database of fillKeys.
func seenOfKeys(ctx context.Context, db *DB) (seen string, err error) {
	var b strings.Builder
	var errs []error
	note := func(what any, err error) {
		line, jerr := json.Marshal(what)
		fmt.Fprintf(&b, "%s %v\n", line, err != nil)
		errs = append(errs, jerr)
		if err != nil && !errors.Is(err, memory.ErrNotFound) {
			errs = append(errs, err)
		}
	}
	lost := func(err error) { errs = append(errs, err) }
	for m, err := range db.Memories().All(ctx, memory.ListQuery{AllScopes: true, WithVectors: true, Lost: lost}) {
		note(m, err)
	}
	for h, err := range db.Memories().Histories(ctx, memory.HistoryQuery{AllScopes: true, Lost: lost}) {
		note(h, err)
	}
	note("lines", db.View(ctx, func(tx *Tx) error {
		line := func(l Line) error { note(l, nil); return nil }
		return errors.Join(tx.LinesAhead(memory.Scope{}, lost, line), tx.Lines(memory.Scope{}, lost, line))
	}))
	s := keysOwner.Scope()
	for _, q := range []memory.Query{
		{Scope: s, Text: "coffee tea here", Profile: memory.ProfileText},
		{Scope: s, Embedding: []float32{1, 2, 2}, Profile: memory.ProfileVector},
		{Scope: memory.Scope{User: "v"}, Text: "another"},
	} {
		q.NoTouch = true
		r, err := db.Memories().Recall(ctx, q)
		for _, h := range r.Hits {
			note(fmt.Sprintf("%s %.5f %d", h.ID, h.Score, h.AccessCount), nil)
		}
		note("recall", err)
	}
	for _, id := range []string{"one", "two", "three", "four", "exp"} {
		m, err := db.Memories().Get(ctx, memory.Scope{}, id)
		note(m, err)
		h, err := db.Memories().History(ctx, memory.Scope{}, id)
		note(len(h), err)
	}
	got := func(what any, err error) { note(what, err) }
	got(db.Notes().Get(ctx, keysOwner, "na"))
	got(db.KV().Get(ctx, keysOwner, "k"))
	got(db.Sessions().Load(ctx, keysOwner, "s", nil))
	got(db.Graph().Lookup(ctx, keysOwner, "ada", graph.LookupOptions{}))
	got(db.Graph().Memories(ctx, keysOwner, "e1"))
	got(db.Graph().Linked(ctx, keysOwner, "one"))
	got(db.Graph().Query(ctx, keysOwner, "e2", 2, graph.State{}))
	got(db.Usage().Total(ctx, usage.Query{Owner: keysOwner}))
	got(db.Usage().Budgets(ctx, memory.Owner{User: "w"}))
	return b.String(), errors.Join(errs...)
}

// TestEachKeyDamaged deletes each key of a database of all contents, and changes a byte of its
// value, behind the database's back: it opens, and a check finds what has changed, but for
// what nobody misses.
//
// The seed is that of the changes; MEMDB_SEED=7 sets it.
func TestEachKeyDamaged(t *testing.T) {
	race.Sequential(t)
	seed := uint64(1)
	if n, err := strconv.ParseUint(os.Getenv("MEMDB_SEED"), 10, 64); err == nil {
		seed = n
	}
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 3))
	clock := newTestClock()
	o := Options{MemoryBudget: testBudget, Clock: clock.now}
	mem := vfs.NewCrashableMem()
	fillKeys(t, mem, o)
	clone := func() vfs.FS {
		return mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 0, RNG: rand.New(rand.NewPCG(1, 2))})
	}
	db := openTest(t, mem, o)
	waitCleaned(t, db) // what waits to be cleaned up, nobody would miss
	mustCheck(t, db, 7)
	want, err := seenOfKeys(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	keys, values := allKeys(t, db)
	newest := slices.IndexFunc(keys, func(k []byte) bool { return bytes.Equal(k, db.keys().LSN(layout.KindLog, db.LSN())) })
	kinds := map[byte]bool{}
	try := func(d keyDamage, was []byte) {
		t.Helper()
		d.write(t, db, d.value)
		files := clone()
		d.write(t, db, was)
		d.try(t, files, o, want)
	}
	for i, key := range keys {
		kinds[key[0]] = true
		try(keyDamage{key: key, what: "deleted", newest: i == newest}, values[i])
		if len(values[i]) > 0 {
			at, by := rng.IntN(len(values[i])), byte(1+rng.IntN(255))
			changed := bytes.Clone(values[i])
			changed[at] ^= by
			try(keyDamage{key: key, value: changed, what: fmt.Sprintf("byte %d of %d of its value changed by %02x", at, len(changed), by)}, values[i])
		}
	}
	const least = 25 // kinds of keys that fillKeys writes
	if len(kinds) < least {
		t.Errorf("only %d kinds of keys were there", len(kinds))
	}
}

// TestCheckFindsOlderVersion: where the newest version of a memory has lost its document, and
// the one before its mark of death, a check tells of it.
func TestCheckFindsOlderVersion(t *testing.T) {
	ctx, fs := t.Context(), vfs.NewMem()
	db := openTest(t, fs, Options{})
	db.chunks.busy.Lock() // nobody cleans up
	s := memory.Scope{User: "ada"}
	mustStore(t, db.Memories(), memory.Memory{ID: "a", Scope: s, Text: "tea"})
	was := db.tables.Docs.At(1, db.LSN())
	if _, err := db.Memories().Update(ctx, s, "a", memory.Patch{Text: new("coffee")}); err != nil {
		t.Fatal(err)
	}
	for _, key := range [][]byte{db.keys().Doc(layout.KindTombstone, was), db.keys().Doc(layout.KindForward, db.tables.Docs.At(1, db.LSN()))} {
		if _, closer, err := db.store.Get(key); err != nil || closer.Close() != nil {
			t.Fatalf("key %q: %v", key, err)
		}
		noError(t, db.store.Delete(key, pebble.Sync))
	}
	db.janitor.group.End()
	db.chunks.busy.Unlock()
	noError(t, db.Close())
	db = openTest(t, fs, Options{})
	r, err := db.Check(ctx)
	if err != nil || r.OK || !strings.Contains(fmt.Sprint(r.Problems), "which nothing finds") {
		t.Errorf("check: %+v, %v", r, err)
	}
}

// write gives the key a value, nil for none.
func (d *keyDamage) write(t *testing.T, db *DB, value []byte) {
	t.Helper()
	err := db.store.Set(d.key, value, pebble.Sync)
	if value == nil {
		err = db.store.Delete(d.key, pebble.Sync)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func allKeys(t *testing.T, db *DB) (keys, values [][]byte) {
	t.Helper()
	noError(t, kv.Scan(db.store, nil, nil, func(key, value []byte) error {
		keys, values = append(keys, bytes.Clone(key)), append(values, bytes.Clone(value))
		return nil
	}))
	return keys, values
}

// keyDamage is a key that is gone, or has another value.
type keyDamage struct {
	key, value []byte // the value that it gets, nil for none
	what       string
	newest     bool // it is the newest record of the log
}

func (d *keyDamage) try(t *testing.T, fs vfs.FS, o Options, want string) {
	t.Helper()
	db, err := openOn(fs, "db", o)
	if d.newest && errors.Is(err, memory.ErrCorrupt) && strings.Contains(err.Error(), "was acknowledged") {
		return // the newest commit is missing, which Salvage alone goes on without
	}
	if err != nil {
		t.Errorf("key %q, %s: it does not open: %v", d.key, d.what, err)
		return
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Errorf("key %q, %s: close: %v", d.key, d.what, err)
		}
	}()
	report, err := db.Check(t.Context())
	if err != nil {
		t.Errorf("key %q, %s: check ends: %v", d.key, d.what, err)
	}
	figures, err := db.Stats(t.Context())
	if err != nil || !report.OK || figures.Lost > 0 { // what Open has found, and made again
		if err != nil {
			t.Errorf("key %q, %s: statistics: %v", d.key, d.what, err)
		}
		return
	}
	if seen, err := seenOfKeys(t.Context(), db); err != nil || seen != want {
		t.Errorf("key %q, %s: nothing is found, and what is seen has changed, %v:\n%s", d.key, d.what, err, changedLines(want, seen))
	} else if d.unmissed() == "" {
		t.Errorf("key %q, %s: nothing is found", d.key, d.what)
	}
}

// changedLines are the lines that only one of two texts has.
func changedLines(was, is string) (out string) {
	for line := range strings.Lines(was) {
		if !strings.Contains(is, line) {
			out += "- " + line
		}
	}
	for line := range strings.Lines(is) {
		if !strings.Contains(was, line) {
			out += "+ " + line
		}
	}
	return out
}
