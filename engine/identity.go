package engine

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"

	"github.com/seed-7aedc3ff/memdb/internal/analysis"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/fsys"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/store"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// layoutVersion is that of the folder and the keys. One that is newer is refused;
// an older one is migrated when it is opened.
const layoutVersion = 8

// LayoutVersion is the newest layout that this memdb opens, and the one that it
// writes.
const LayoutVersion = layoutVersion

// The file that marks a folder as a database and says how to read it.
const (
	identityName = "memdb.json"
	tempSuffix   = ".new"
	identityTemp = identityName + tempSuffix
	// maxIdentity bounds what is read of it.
	maxIdentity = 64 << 10
)

// identity is what the file holds.
type identity struct {
	Magic    string `json:"magic"` // "memdb"
	Layout   int    `json:"layout"`
	HashSeed uint64 `json:"hash_seed,string"`
	// Created is set once the store exists: from then on a folder without one is
	// damaged, not new.
	Created  bool     `json:"created"`
	Settings Settings `json:"settings"`
	// Timeline is the ID of the history of commits, see [store.Timeline]. It is empty up to
	// layout 6.
	Timeline string `json:"timeline"`
	// Parent is where the timeline began, nil where it began with the database.
	Parent *Origin `json:"parent,omitempty"`
	// Replica says that the folder only follows another database, see [OpenReplica].
	Replica bool `json:"replica,omitempty"`
	// Logged says that the folder is what a log comes to, see [OpenLogged].
	Logged bool `json:"logged,omitempty"`
	// KeysSince is when the first API key of the database was made; nil: there never was one. It is recorded here,
	// apart from the keys, so that keys which are missing are damage.
	KeysSince *time.Time `json:"keys_since,omitempty"`
	// Checksum is the CRC-32C of the file, with zeros in its place.
	Checksum string `json:"checksum"`
}

const identityMagic = "memdb"

// Origin is where a timeline began: behind the LSN of another one.
type Origin struct {
	// Timeline is that other one, LSN the last of it that is a part of this one, too.
	Timeline string `json:"timeline"`
	LSN      uint64 `json:"lsn"`
	// Backup is the ID of the backup that the database was restored from, if it was.
	Backup string `json:"backup,omitempty"`
}

// Exists reports whether a folder holds a database, or whether there is a file that [Open] takes for
// one. It creates nothing.
func Exists(dir string) (bool, error) {
	one, err := isFile(fsys.Disk, dir)
	if err != nil {
		return false, err
	}
	if one {
		kind, _, err := fsys.KindOf(fsys.Disk, dir)
		return kind == fsys.IsFile, fault.Within(doingOpen(dir), err)
	}
	if err := look(fsys.Disk, dir); err != nil {
		return false, err
	}
	id, err := readIdentity(fsys.Disk, dir)
	if id == nil && err == nil {
		if err = refuse(fsys.Disk, dir); !errors.Is(err, fault.ErrCorrupt) {
			err = nil // no database, whatever else the folder holds
		}
	}
	return id != nil, err
}

// look refuses a folder in which a name leads to something else than memdb has made.
func look(f vfs.FS, dir string) error {
	if err := fsys.Look(f, dir); err != nil {
		return &fault.Error{
			Kind: fault.ErrCorrupt, What: doingOpen(dir), Why: err.Error(),
			Do: "somebody else has put it there, and nothing was opened: move it away, or restore the folder from a backup",
		}
	}
	return nil
}

// readIdentity reads the file, nil where the folder or the file is missing.
func readIdentity(f vfs.FS, dir string) (*identity, error) {
	if info, err := f.Stat(dir); err == nil && !info.IsDir() {
		return nil, &fault.Error{Kind: fault.ErrNotDatabase, What: doingOpen(dir), Why: "it is a file, and none of memdb", Do: "name a folder, or a file that ends with " + FileSuffix}
	}
	b, err := readFile(f, f.PathJoin(dir, identityName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fault.Within(doingOpen(dir), err)
	}
	id, err := decodeIdentity(b)
	if err != nil {
		return nil, &fault.Error{Kind: fault.ErrCorrupt, What: doingOpen(dir), Why: identityName + " is damaged", Cause: err, Do: identityWayOn}
	}
	if id.Layout > layoutVersion {
		return nil, newerLayout(dir, id.Layout)
	}
	return id, nil
}

func newerLayout(dir string, layout int) error {
	return &fault.Error{
		Kind: fault.ErrNewerLayout, What: doingOpen(dir),
		Why: fmt.Sprintf("its layout is %d, this memdb knows %d", layout, layoutVersion), Do: "use a newer memdb",
	}
}

// identityWayOn is what helps where the file is damaged or missing.
const identityWayOn = "restore that file from a backup of the folder; or open the database once with Salvage (memdbctl --salvage), which takes the copy in its store; or make a new database of all that can be read: memdbctl rescue SRC DEST"

func readFile(f vfs.FS, path string) ([]byte, error) {
	return readBounded(f, path, maxIdentity)
}

// write replaces the file in one step.
func (id *identity) write(f vfs.FS, dir string) error {
	b, err := id.encode()
	if err != nil {
		return err
	}
	return writeIdentity(f, dir, b)
}

// writeIdentity replaces the content of the file in one step.
func writeIdentity(f vfs.FS, dir string, b []byte) error { return replaceFile(f, dir, identityName, b) }

// replaceFile replaces the content of a file in one step.
func replaceFile(f vfs.FS, dir, name string, b []byte) error {
	temp := f.PathJoin(dir, name+tempSuffix)
	file, err := f.Create(temp, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, bytes.NewReader(b))
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	if err := f.Rename(temp, f.PathJoin(dir, name)); err != nil {
		return err
	}
	return fsys.SyncDir(f, dir)
}

// makeDir creates the folder of a new database, for its owner alone, as what people tell
// an agent is nobody else's, and syncs each folder in which it creates one: a crash must
// not take away the folder of acknowledged writes.
func makeDir(f vfs.FS, dir string) error {
	var missing []string // from the folder itself upwards
	for d := dir; ; d = f.PathDir(d) {
		_, err := f.Stat(d)
		if err == nil || d == f.PathDir(d) {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return fault.Within(doingOpen(dir), err)
		}
		missing = append(missing, d)
	}
	if err := f.MkdirAll(dir, 0o700); err != nil {
		return fault.Within(doingOpen(dir), err)
	}
	for _, d := range missing {
		if err := fsys.SyncDir(f, f.PathDir(d)); err != nil {
			return fault.Within(doingOpen(dir), err)
		}
	}
	return nil
}

// refuse returns an error for a folder that is no database and cannot become one:
// before anything is written to it.
func refuse(f vfs.FS, dir string) error {
	id, err := readIdentity(f, dir)
	if id != nil || err != nil {
		return err
	}
	names, err := f.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fault.Within(doingOpen(dir), err)
	}
	if slices.ContainsFunc(names, isReplicaPart) {
		return &fault.Error{
			Kind: fault.ErrNotDatabase, What: doingOpen(dir), Why: "a replica is being made in the folder, and is not complete",
			Do: "go on with it: memdbctl replica DIR --from ARCHIVE",
		}
	}
	if slices.Contains(names, store.Dir) {
		return &fault.Error{
			Kind: fault.ErrCorrupt, What: doingOpen(dir), Why: "it holds a store without its " + identityName, Do: identityWayOn,
		}
	}
	for _, name := range names {
		switch {
		case name == identityTemp, name == "memdb.lock", name == "memdb.holder": // of a creation that was interrupted
		case slices.Contains(litter, name), strings.HasPrefix(name, "._"):
		default:
			return &fault.Error{
				Kind: fault.ErrNotDatabase, What: doingOpen(dir), Why: "the folder holds other files and no database",
				Do: "name another folder, or an empty one",
			}
		}
	}
	return nil
}

// litter is what systems leave in folders by themselves: it does not make one another's.
var litter = []string{".DS_Store", ".localized", "Thumbs.db", "desktop.ini", "lost+found"}

// newIdentity is that of a database to be created.
func newIdentity(o *Options, now time.Time) (*identity, error) {
	id, err := uuid.NewRandom()
	if err != nil {
		return nil, err
	}
	seed, err := uuid.NewRandom()
	if err != nil {
		return nil, err
	}
	timeline, err := uuid.NewRandom()
	if err != nil {
		return nil, err
	}
	s := Settings{ID: id.String(), Layout: layoutVersion, Language: o.Language, IndexedText: o.IndexedText, CreatedAt: now.UTC()}
	if s.Language == "" {
		s.Language = analysis.Auto
	}
	if s.IndexedText == nil {
		s.IndexedText = []memory.IndexedField{{Field: "name", Weight: 1}}
	}
	return &identity{Magic: identityMagic, Layout: layoutVersion, HashSeed: binary.BigEndian.Uint64(seed[:]), Settings: s, Timeline: timeline.String()}, nil
}

// adopt checks the options against what is stored. On an empty database the
// indexed fields and the language are taken over: nothing was indexed yet.
func (id *identity) adopt(dir string, o *Options, empty bool) (changed bool, err error) {
	s := &id.Settings
	if o.IndexedText != nil && !slices.Equal(o.IndexedText, s.IndexedText) {
		if !empty {
			return false, &fault.Error{
				Kind: fault.ErrMismatch, What: doingOpen(dir),
				Why: fmt.Sprintf("it indexes %v along with the text, not %v", fieldNames(s.IndexedText), fieldNames(o.IndexedText)),
				Do:  "leave IndexedText out, or import its export into a new database",
			}
		}
		s.IndexedText, changed = o.IndexedText, true
	}
	if o.Language != "" && o.Language != s.Language {
		if !empty {
			return false, &fault.Error{
				Kind: fault.ErrMismatch, What: doingOpen(dir),
				Why: fmt.Sprintf("its language is %s, not %s", s.Language, o.Language),
				Do:  "leave Language out, or import its export into a new database",
			}
		}
		s.Language, changed = o.Language, true
	}
	return changed, nil
}

func fieldNames(fields []memory.IndexedField) []string {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.Field
	}
	return names
}

// loadGenerations reads the table, which a new database gets here. Every key
// depends on it, so a database that has data and no table is damaged.
func (db *DB) loadGenerations() error {
	b, closer, err := db.store.Get(layout.GenerationsKey)
	if errors.Is(err, kv.ErrNotFound) {
		return db.firstGenerations()
	}
	if err == nil {
		err = errors.Join(db.keys().DecodeGenerations(b), closer.Close())
	}
	if store.Unreadable(err) {
		db.lost("the generations of keys", err)
		return db.deriveGenerations()
	}
	return err
}

func (db *DB) firstGenerations() error {
	it, err := db.store.Iter(nil, nil)
	if err != nil {
		return err
	}
	any := it.First()
	if err = errors.Join(err, it.Error(), it.Close()); any || store.Unreadable(err) {
		db.lost("the generations of keys", cmp.Or(err, error(&fault.Error{Kind: fault.ErrCorrupt, What: "read the generations", Why: "they are missing"})))
		return db.deriveGenerations()
	}
	if err != nil {
		return err
	}
	db.keys().FirstGenerations()
	if db.readOnly {
		return nil
	}
	return db.store.Set(layout.GenerationsKey, db.keys().EncodeGenerations(), pebble.Sync)
}
