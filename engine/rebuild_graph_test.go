package engine

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/mention"
)

// TestRebuildOfSpoiledKeys spoils values of the graph below their checksums, of keys that follow
// from others: a rebuild makes each as it was.
func TestRebuildOfSpoiledKeys(t *testing.T) {
	db, ctx, ada := openTest(t, vfs.NewMem(), Options{Extractor: mention.Rules{}}), t.Context(), memory.Owner{User: "ada"}
	for _, text := range []string{"Ada met Bob. Carol works at Acme in Ghent.", "Bob lives in Rome.", "Carol met Ada."} {
		mustStore(t, db.Memories(), memory.Memory{Scope: ada.Scope(), Text: text})
	}
	_, err := db.Graph().Relate(ctx, ada, graph.Relation{ID: "own", From: "ada", Type: "knows", To: "carol"}, nil)
	noError(t, err)
	noError(t, db.Graph().End(ctx, ada, "ada", "knows", "carol", "own"))
	_, err = db.Graph().Merge(ctx, ada, "bob", "carol")
	noError(t, err)
	keys, values := keysOfGraph(t, db)
	tried, sections := 0, map[string]bool{}
	for i, key := range keys {
		const section = 7 // behind the kind, the generation and the owner
		derived := map[byte]string{'g': "oTtinmrLwW", 'a': "tS"}[key[0]]
		if len(key) <= section || strings.IndexByte(derived, key[section]) < 0 {
			continue
		}
		noError(t, db.applyBare(func(b *pebble.Batch) error { return b.Set(key, append([]byte{1}, values[i]...), nil) }))
		if key[0] == 'g' && key[section] == 'w' { // the other end has all of it
			noError(t, db.applyBare(func(b *pebble.Batch) error { return b.Delete(key, nil) }))
		}
		noError(t, partOf[*graph.Part](db).Load(nil, part.Opening{Budget: db.partShare()}))
		_, err := db.KV().Put(ctx, ada, "seen", tried, nil) // readers from now on see it
		noError(t, err)
		mustRebuild(t, db, IndexGraph)
		if now, is := keysOfGraph(t, db); !reflect.DeepEqual(now, keys) || !reflect.DeepEqual(is, values) {
			t.Fatalf("key %x: the rebuild has not made it as it was", key)
		}
		sections[string([]byte{key[0], key[section]})] = true
		tried++
	}
	if len(sections) < 8 || tried < 30 {
		t.Errorf("%d keys of the sections %v were tried", tried, sections)
	}
	mustCheck(t, db, 3)
}

// keysOfGraph are all keys of the graph with their values, as the store has them.
func keysOfGraph(t *testing.T, db *DB) (keys, values [][]byte) {
	t.Helper()
	for _, kind := range partOf[*graph.Part](db).Kinds() {
		lower, upper := db.keys().Span(byte(kind))
		noError(t, kv.Scan(db.store, lower, upper, func(key, value []byte) error {
			keys, values = append(keys, bytes.Clone(key)), append(values, bytes.Clone(value))
			return nil
		}))
	}
	return keys, values
}

func mustRebuild(t testing.TB, db *DB, index string) {
	t.Helper()
	noError(t, db.Rebuild(t.Context(), index, nil))
}
