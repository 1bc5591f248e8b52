package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/apikeys"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/fsys"
	"github.com/seed-7aedc3ff/memdb/internal/place"
)

// APIKeys are the keys of the database's server. They are stored in the database, so a conversion, a backup, a
// replica and a rescue have them, too.
func (db *DB) APIKeys() *apikeys.Book {
	return apikeys.NewBook(runner{db: db}, partOf[*apikeys.Part](db), keySeal{db}, db.apiKeys.broken)
}

// apiKeys is what a database knows of its API keys outside of its store.
type apiKeys struct {
	sealed atomic.Bool // there was a key: identity.KeysSince is set
	// Earlier versions kept the keys in a file. broken is why the file could not be read; lines are its keys
	// if the database is open for reading only, and cannot store them.
	broken error
	lines  []byte
}

// keySeal is the record in memdb.json that there was a key.
type keySeal struct{ db *DB }

// Sealed implements [apikeys.Seal].
func (s keySeal) Sealed() bool { return s.db.apiKeys.sealed.Load() }

// SetSealed implements [apikeys.Seal].
func (s keySeal) SetSealed(ctx context.Context, sealed bool) error {
	db := s.db
	if db.apiKeys.sealed.Load() == sealed {
		return nil
	}
	release, err := db.admit(ctx)
	if err != nil {
		return err
	}
	defer release()
	if err := db.lock(ctx); err != nil {
		return err
	}
	defer db.unlock()
	if err := db.Failed(); err != nil {
		return err
	}
	id := *db.identity
	id.KeysSince = nil
	if sealed {
		now := db.clock().UTC()
		id.KeysSince = &now
	}
	if err := db.keepIdentity(&id); err != nil {
		return fault.Within("record the keys in "+place.Name, err)
	}
	db.setIdentity(&id)
	return nil
}

// setIdentity has the database go by what memdb.json says now. The writer lock is held, or nobody else has the database.
func (db *DB) setIdentity(id *place.Identity) {
	db.identity = id
	db.settings.Store(&id.Settings)
	db.apiKeys.sealed.Store(id.KeysSince != nil)
}

const (
	// keyFileSuffix ended the name of the key file of earlier versions beside a one-file database.
	keyFileSuffix = ".keys"
	doingAdopt    = "take over the keys in "
)

// adoptKeys takes over the keys of an older database, once: from then on those in the store count, and the file is
// marked so that an older memdbd refuses it. Where the file cannot be read, the database counts as one that has keys
// which cannot be read. keep leaves the file as it is.
func (db *DB) adoptKeys(files vfs.FS, path string, one, keep bool) {
	name := path + keyFileSuffix
	if !one {
		name = files.PathJoin(path, apikeys.OldFile)
	}
	kind, what, err := fsys.KindOf(files, name)
	if err == nil && kind == fsys.Missing {
		return
	}
	if begun, berr := db.APIKeys().Begun(); berr != nil || begun {
		return // those in the store count
	}
	var lines []byte
	if err == nil && kind != fsys.IsFile {
		err = errors.New("it is " + what)
	}
	if err == nil {
		lines, err = place.ReadBounded(files, name, apikeys.MaxOldFile)
	}
	if err == nil {
		err = apikeys.CheckLines(lines)
	}
	if err != nil {
		db.apiKeys.broken = &fault.Error{
			Kind: fault.ErrCorrupt, What: doingAdopt + name, Cause: err,
			Do: "restore that file; or make a new key with memdbd key add --admin, which takes the place of those in it",
		}
	} else if db.readOnly {
		db.apiKeys.lines = lines
		db.apiKeys.broken = &fault.Error{Kind: fault.ErrReadOnly, What: doingAdopt + name, Why: "the database was opened to be read", Do: "open it once to be written"}
	} else if err = db.APIKeys().Adopt(context.Background(), lines); err != nil {
		db.apiKeys.broken = fault.Within(doingAdopt+name, err)
	} else if !keep {
		if err = db.markAdopted(files, name, lines); err == nil {
			db.logger.Info("the keys are in the database now, and not in a file any more", "file", name)
			return
		}
		db.logger.Warn("the keys are in the database now, and their old file could not be marked: remove it", "file", name, "error", err)
		return
	}
	if db.apiKeys.broken != nil {
		db.logger.Warn("the keys of the server cannot be read", "error", db.apiKeys.broken)
	}
}

// markAdopted adds a line to a file of keys that an older memdbd cannot read: it must not serve with old keys.
func (db *DB) markAdopted(files vfs.FS, name string, lines []byte) error {
	mark, err := json.Marshal(struct {
		AdoptedAt time.Time `json:"adopted_at"`
		Note      string    `json:"note"`
	}{db.clock().UTC(), "the keys are in the database; this file is not read any more and can be removed"})
	if err != nil {
		return err
	}
	lines = append(bytes.TrimRight(lines, "\n"), '\n')
	return place.ReplaceFile(files, files.PathDir(name), files.PathBase(name), append(append(lines, mark...), '\n'))
}

// CopyAPIKeys copies the API keys to a database that has none, and what of them an older file has. Keys that cannot be
// read are not copied: the other database then records only that there were some, which keeps its server closed, and
// lost says why.
func (db *DB) CopyAPIKeys(ctx context.Context, to *DB) (lost, err error) {
	lines, keyed, err := db.APIKeys().Lines()
	if err == nil && keyed && len(lines) == 0 {
		err = &fault.Error{Kind: fault.ErrCorrupt, What: "read the keys", Why: "all are missing"}
	}
	switch {
	case db.apiKeys.lines != nil:
		return nil, to.APIKeys().Adopt(ctx, db.apiKeys.lines)
	case err != nil:
		return err, to.APIKeys().Clear(ctx, true)
	case !keyed:
		return nil, nil
	}
	return nil, to.APIKeys().Adopt(ctx, lines)
}
