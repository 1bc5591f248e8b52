package apikeys_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/apikeys"
	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/testdb"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/wal"
	"github.com/seed-7aedc3ff/memdb/wal/folder"
)

func keysOf(db *engine.DB) *apikeys.Keys { return apikeys.Open(db.APIKeys(), time.Now) }

// twoKeys makes a key that works and one that was revoked.
func twoKeys(t *testing.T, db *engine.DB) (works, revoked string) {
	t.Helper()
	k := keysOf(db)
	works, _, err := k.Add(t.Context(), apikeys.Rights{Admin: true, Name: "of the operator"})
	testdb.NoError(t, err)
	revoked, key, err := k.Add(t.Context(), apikeys.Rights{Scopes: []memory.Scope{{User: "ada"}}})
	testdb.NoError(t, err)
	_, err = k.Revoke(t.Context(), key.ID)
	testdb.NoError(t, err)
	return works, revoked
}

// wantKeys verifies that a database has the keys of twoKeys.
func wantKeys(t *testing.T, what string, db *engine.DB, works, revoked string) {
	t.Helper()
	k := keysOf(db)
	if key, needed, err := k.Find(works); err != nil || !needed || !key.Admin || key.Name != "of the operator" {
		t.Errorf("%s: the key that works: %+v, %v, %v", what, key, needed, err)
	}
	for _, secret := range []string{revoked, "", "nonsense"} {
		if _, needed, err := k.Find(secret); !needed || !errors.Is(err, apikeys.ErrNoKey) {
			t.Errorf("%s: another key: %v, %v", what, needed, err)
		}
	}
}

// wantClosed verifies that no key of a database works, and that it needs one.
func wantClosed(t *testing.T, what string, db *engine.DB, secrets ...string) {
	t.Helper()
	for _, secret := range append(secrets, "") {
		if _, needed, err := keysOf(db).Find(secret); !needed || err == nil {
			t.Errorf("%s: needed %v, %v", what, needed, err)
		}
	}
}

// TestAPIKeysMove verifies that whatever copies a database copies its keys.
func TestAPIKeysMove(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	archive := path("archive")
	db, err := engine.Open(path("db"), &engine.Options{Archive: folder.New(archive)})
	testdb.NoError(t, err)
	_, err = db.Backup(t.Context(), path("early"), nil) // without keys: the log brings them
	testdb.NoError(t, err)
	works, revoked := twoKeys(t, db)
	_, err = db.Reset(t.Context())
	testdb.NoError(t, err)
	wantKeys(t, "reset", db, works, revoked)
	_, err = db.Compact(t.Context())
	testdb.NoError(t, err)
	_, err = db.Backup(t.Context(), path("repo"), nil)
	testdb.NoError(t, err)
	_, err = db.WaitArchived(t.Context())
	testdb.NoError(t, err)
	testdb.Close(t, db)

	_, err = engine.Convert(t.Context(), path("db"), path("one.memdb"), nil)
	testdb.NoError(t, err)
	_, err = engine.Convert(t.Context(), path("one.memdb"), path("back"), nil)
	testdb.NoError(t, err)
	_, err = engine.Restore(t.Context(), path("repo"), path("restored"), nil)
	testdb.NoError(t, err)
	_, err = engine.Restore(t.Context(), path("early"), path("replayed"), &engine.RestoreOptions{Archive: archive})
	testdb.NoError(t, err)
	feed, err := folder.Follow(archive, wal.Timeline{}, false)
	testdb.NoError(t, err)
	r, err := engine.OpenReplica(path("replica"), feed.Next, nil)
	testdb.NoError(t, err)
	testdb.Soon(t, "the replica has everything", func() bool { return !r.Stats().Following })
	testdb.NoError(t, r.Close())
	testdb.NoError(t, feed.Close())
	_, err = engine.PromoteReplica(path("replica"))
	testdb.NoError(t, err)
	for _, name := range []string{"db", "one.memdb", "back", "restored", "replayed", "replica"} {
		db, err := engine.Open(path(name), nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		wantKeys(t, name, db, works, revoked)
		testdb.Check(t, db, 0)
		testdb.Close(t, db)
	}
}

// keyFileOf is a file of keys as earlier versions wrote it, of the keys of twoKeys.
func keyFileOf(t *testing.T) (file []byte, works, revoked string) {
	t.Helper()
	db := testdb.New(t, engine.Options{})
	works, revoked = twoKeys(t, db)
	lines, _, err := db.APIKeys().Lines()
	testdb.NoError(t, err)
	return lines, works, revoked
}

// TestAPIKeysAdopted verifies that the keys of an older database are taken over once, also by what only reads it.
func TestAPIKeysAdopted(t *testing.T) {
	file, works, revoked := keyFileOf(t)
	for _, name := range []string{"db", "one.memdb"} {
		dir := t.TempDir()
		path := filepath.Join(dir, name)
		db, err := engine.Open(path, nil)
		testdb.NoError(t, err)
		testdb.Store(t, db.Memories(), memory.Memory{ID: "m1", Scope: memory.Scope{User: "ada"}, Text: "tea"})
		testdb.Close(t, db)
		old := filepath.Join(path, "memdbd.keys")
		if name != "db" {
			old = path + ".keys"
		}
		testdb.NoError(t, os.WriteFile(old, file, 0o600))

		db, err = engine.Open(path, &engine.Options{ReadOnly: true})
		testdb.NoError(t, err)
		wantClosed(t, "opened to be read", db, works)
		testdb.Close(t, db)
		made := filepath.Join(dir, "converted")
		if name == "db" {
			made += engine.FileSuffix
		}
		_, err = engine.Convert(t.Context(), path, made, nil)
		testdb.NoError(t, err)
		left, err := engine.OpenRemains(t.Context(), path, filepath.Join(dir, "beside"), nil)
		testdb.NoError(t, err)
		wantKeys(t, "remains", left.DB, works, revoked)
		testdb.NoError(t, left.Close())
		if b, err := os.ReadFile(old); err != nil || !bytes.Equal(b, file) {
			t.Errorf("the file was changed by who reads: %v", err)
		}
		for _, path := range []string{path, path, made} { // also a second time
			db, err := engine.Open(path, nil)
			testdb.NoError(t, err)
			wantKeys(t, path, db, works, revoked)
			testdb.Close(t, db)
		}
		b, err := os.ReadFile(old)
		if err != nil || !bytes.HasPrefix(b, file) || apikeys.CheckLines(b) == nil {
			t.Errorf("an older memdbd would go on with the file: %v", err)
		}
		testdb.NoError(t, os.WriteFile(old, nil, 0o600)) // which nobody reads any more
		db, err = engine.Open(path, nil)
		testdb.NoError(t, err)
		wantKeys(t, "with an empty file", db, works, revoked)
		testdb.Close(t, db)
	}
}

// TestAPIKeysOldFileDamaged verifies that an old file of keys that is empty, cut, a link or a folder lets nobody in.
func TestAPIKeysOldFileDamaged(t *testing.T) {
	file, works, revoked := keyFileOf(t)
	for n := range file {
		err := apikeys.CheckLines(file[:n])
		whole := n > 0 && (file[n-1] == '\n' || file[n] == '\n')
		if (err == nil) != whole {
			t.Errorf("cut at byte %d of %d: %v", n, len(file), err)
		}
	}
	for what, make := range map[string]func(name string) error{
		"empty":             func(name string) error { return os.WriteFile(name, nil, 0o600) },
		"cut":               func(name string) error { return os.WriteFile(name, file[:len(file)-20], 0o600) },
		"a link":            func(name string) error { return os.Symlink("/dev/null", name) },
		"a link to nowhere": func(name string) error { return os.Symlink(name+".none", name) },
		"a folder":          func(name string) error { return os.Mkdir(name, 0o700) },
	} {
		dir := filepath.Join(t.TempDir(), "db")
		db, err := engine.Open(dir, nil)
		testdb.NoError(t, err)
		testdb.Close(t, db)
		testdb.NoError(t, make(filepath.Join(dir, "memdbd.keys")))
		db, err = engine.Open(dir, nil)
		testdb.NoError(t, err)
		wantClosed(t, what, db, works, revoked)
		if _, _, err := keysOf(db).Find(works); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%s: %v", what, err)
		}
		secret, _, err := keysOf(db).Add(t.Context(), apikeys.Rights{Admin: true})
		testdb.NoError(t, err)
		if _, _, err := keysOf(db).Find(secret); err != nil {
			t.Errorf("%s, and a new key: %v", what, err)
		}
		testdb.Close(t, db)
	}
}
