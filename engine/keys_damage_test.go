package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/entries"
	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/policy"
	"github.com/seed-7aedc3ff/memdb/sessions"
	"github.com/seed-7aedc3ff/memdb/usage"
)

// unmissed are the kinds of keys whose loss a check may not find, each with the reason why nothing
// is lost with one. docs/format/keys.md says so, too.
var unmissed = map[byte]string{
	layout.KindCounter: "an owner without a counter was never counted: its part counts the keys",
	'M':                "the copy of memdb.json, which is there; without the other, all kinds are of the first generation",
	'R':                "the name of a model is in each of its records",
}

var keysOwner = Owner{User: "u", Agent: "a"}

// fillKeys stores something under each kind of key.
func fillKeys(t *testing.T, fs vfs.FS, o Options) {
	t.Helper()
	ctx := t.Context()
	db := openTest(t, fs, o)
	m, s := db.Memories(), Scope{User: "u", Agent: "a", Run: "r"}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must1 := func(_ any, err error) { t.Helper(); must(err) }
	mustStore(t, m, Memory{ID: "one", Scope: s, Text: "first text about tea", Embedding: []float32{1, 2, 3}, Metadata: map[string]any{"n": 1, "tag": "x"}})
	must1(m.Update(ctx, s, "one", Patch{Text: new("second text of coffee"), Embedding: []float32{3, 2, 1}}))
	mustStore(t, m, Memory{ID: "two", Scope: s, Text: "gone soon"})
	must(m.Delete(ctx, s, "two"))
	mustStore(t, m, Memory{ID: "three", Scope: s, Text: "stays here", Embedding: []float32{1, 1, 1}, Pinned: true})
	mustStore(t, m, Memory{ID: "four", Scope: Scope{User: "v"}, Text: "another owner", Vectors: map[string][]float32{"other": {1, 2}}})
	mustStore(t, m, Memory{ID: "exp", Scope: s, Text: "expires", ExpiresAt: db.clock().Add(1000 * time.Hour)})
	must1(db.KV().Put(ctx, keysOwner, "k", "v", &entries.PutOptions{TTL: time.Hour}))
	must1(db.KV().Put(ctx, Owner{User: "v"}, "k2", map[string]any{"a": 1}, nil))
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
	must(db.Usage().SetBudget(ctx, usage.Budget{Owner: Owner{User: "w"}, Limit: half}))
	setPolicy(t, db, func(p *policy.Policy) { p.Rate = 0.1 })
	mustRecall(t, m, Query{Scope: s, Text: "text coffee"})
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
		if err != nil && !errors.Is(err, ErrNotFound) {
			errs = append(errs, err)
		}
	}
	lost := func(err error) { errs = append(errs, err) }
	for m, err := range db.Memories().All(ctx, ListQuery{AllScopes: true, WithVectors: true, Lost: lost}) {
		note(m, err)
	}
	for h, err := range db.Memories().Histories(ctx, HistoryQuery{AllScopes: true, Lost: lost}) {
		note(h, err)
	}
	note("lines", db.View(ctx, func(tx *Tx) error {
		line := func(l Line) error { note(l, nil); return nil }
		return errors.Join(tx.LinesAhead(Scope{}, lost, line), tx.Lines(Scope{}, lost, line))
	}))
	s := keysOwner.Scope()
	for _, q := range []Query{
		{Scope: s, Text: "coffee tea here", Profile: ProfileText}, {Scope: s, Embedding: []float32{1, 2, 2}, Profile: ProfileVector},
		{Scope: Scope{User: "v"}, Text: "another"},
	} {
		q.NoTouch = true
		r, err := db.Memories().Recall(ctx, q)
		for _, h := range r.Hits {
			note(fmt.Sprintf("%s %.5f %d", h.ID, h.Score, h.AccessCount), nil)
		}
		note("recall", err)
	}
	for _, id := range []string{"one", "two", "three", "four", "exp"} {
		m, err := db.Memories().Get(ctx, Scope{}, id)
		note(m, err)
		h, err := db.Memories().History(ctx, Scope{}, id)
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
	got(db.Usage().Budgets(ctx, Owner{User: "w"}))
	return b.String(), errors.Join(errs...)
}

// TestEachKeyDamaged deletes each key of a database of all contents, and changes a byte of its
// value, behind the database's back: it opens, and a check finds what has changed, but for
// what nobody misses.
//
// The seed is that of the changes; MEMDB_SEED=7 sets it.
func TestEachKeyDamaged(t *testing.T) {
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
	db := openTest(t, clone(), o)
	mustCheck(t, db, 7)
	want, err := seenOfKeys(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	keys, values := allKeys(t, db)
	kinds := map[byte]bool{}
	for i, key := range keys {
		kinds[key[0]] = true
		d := keyDamage{key: key, what: "deleted"}
		d.try(t, clone(), o, want)
		if len(values[i]) > 0 {
			at, by := rng.IntN(len(values[i])), byte(1+rng.IntN(255))
			changed := bytes.Clone(values[i])
			changed[at] ^= by
			d = keyDamage{key, changed, fmt.Sprintf("byte %d of %d of its value changed by %02x", at, len(changed), by)}
			d.try(t, clone(), o, want)
		}
	}
	const least = 25 // kinds of keys that fillKeys writes
	if len(kinds) < least {
		t.Errorf("only %d kinds of keys were there", len(kinds))
	}
}

func allKeys(t *testing.T, db *DB) (keys, values [][]byte) {
	t.Helper()
	it, err := db.store.NewIter(nil)
	if err != nil {
		t.Fatal(err)
	}
	for ok := it.First(); ok; ok = it.Next() {
		keys, values = append(keys, bytes.Clone(it.Key())), append(values, bytes.Clone(it.Value()))
	}
	if err := errors.Join(it.Error(), it.Close()); err != nil {
		t.Fatal(err)
	}
	return keys, values
}

// keyDamage is a key that is gone, or has another value.
type keyDamage struct {
	key, value []byte // the value that it gets, nil for none
	what       string
}

func (d *keyDamage) try(t *testing.T, fs vfs.FS, o Options, want string) {
	t.Helper()
	raw := openTest(t, fs, o)
	var err error
	if d.value == nil {
		err = raw.store.Delete(d.key, pebble.Sync)
	} else {
		err = raw.store.Set(d.key, d.value, pebble.Sync)
	}
	if err = errors.Join(err, raw.Close()); err != nil {
		t.Fatal(err)
	}
	db, err := openOn(fs, "db", o)
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
	if !report.OK {
		return
	}
	seen, err := seenOfKeys(t.Context(), db)
	why := unmissed[d.key[0]]
	switch {
	case err != nil || seen != want:
		t.Errorf("key %q, %s: nothing is found, and what is seen has changed, %v:\n%s", d.key, d.what, err, changedLines(want, seen))
	case why == "" || d.value != nil:
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
