// Package place finds, marks and locks the folder or the file of a database.
//
// A folder is a database if it holds memdb.json, the identity: the ID, the layout, the hash seed and the settings. A
// folder or a file that holds anything else is refused before anything is written. Locks keep other processes out.
// The package does not read the store in the folder; whoever holds the lock opens it.
package place

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"

	"github.com/seed-7aedc3ff/memdb/internal/analysis"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/store"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// Layout is the version of the folder and the keys that this memdb writes. One that is newer is refused; an older one
// is migrated when it is opened.
const Layout = 8

// Name is the name of the file that marks a folder as a database and says how to read it.
const (
	Name         = "memdb.json"
	tempSuffix   = ".new"
	identityTemp = Name + tempSuffix
	// maxIdentity bounds what is read of it.
	maxIdentity = 64 << 10
	// checksumLayout is the layout from which on the file has a checksum.
	checksumLayout = 7
	// noChecksum stands for the checksum while it is computed.
	noChecksum = "00000000"
	// checksumField comes before the checksum in the file, which ends with it.
	checksumField = `"checksum": "`
)

// Identity is what the file holds.
type Identity struct {
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

const magic = "memdb"

// Origin is where a timeline began: behind the LSN of another one.
type Origin struct {
	// Timeline is that other one, LSN the last of it that is a part of this one, too.
	Timeline string `json:"timeline"`
	LSN      uint64 `json:"lsn"`
	// Backup is the ID of the backup that the database was restored from, if it was.
	Backup string `json:"backup,omitempty"`
}

// Settings are what a database was created with.
type Settings struct {
	// ID is the database's own, a UUID; Layout is the version of what is on disk.
	ID     string `json:"id"`
	Layout int    `json:"layout"`
	// Language, Analyzer and IndexedText say how texts become words: see Options.
	Language    string                `json:"language"`
	Analyzer    string                `json:"analyzer"`
	IndexedText []memory.IndexedField `json:"indexed_text"`
	// CreatedAt is when the database was made, LexicalModel the built-in embedder of then.
	CreatedAt    time.Time `json:"created_at"`
	LexicalModel string    `json:"lexical_model"`
}

// New is the identity of a database to be created.
func New(language string, indexed []memory.IndexedField, now time.Time) (*Identity, error) {
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
	s := Settings{ID: id.String(), Layout: Layout, Language: language, IndexedText: indexed, CreatedAt: now.UTC()}
	if s.Language == "" {
		s.Language = analysis.Auto
	}
	if s.IndexedText == nil {
		s.IndexedText = []memory.IndexedField{{Field: "name", Weight: 1}}
	}
	return &Identity{Magic: magic, Layout: Layout, HashSeed: binary.BigEndian.Uint64(seed[:]), Settings: s, Timeline: timeline.String()}, nil
}

// Read reads the identity of the database in a folder, nil where the folder or the file is missing.
func Read(f vfs.FS, dir string) (*Identity, error) {
	if info, err := f.Stat(dir); err == nil && !info.IsDir() {
		return nil, &fault.Error{Kind: fault.ErrNotDatabase, What: Opening(dir), Why: "it is a file, and none of memdb", Do: "name a folder, or a file that ends with " + Suffix}
	}
	b, err := ReadFile(f, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fault.Within(Opening(dir), err)
	}
	id, err := Decode(b)
	if err != nil {
		return nil, &fault.Error{Kind: fault.ErrCorrupt, What: Opening(dir), Why: Name + " is damaged", Cause: err, Do: WayOn}
	}
	if id.Layout > Layout {
		return nil, NewerLayout(dir, id.Layout)
	}
	return id, nil
}

// NewerLayout is the error of a database that a newer memdb wrote.
func NewerLayout(dir string, layout int) error {
	return &fault.Error{
		Kind: fault.ErrNewerLayout, What: Opening(dir),
		Why: fmt.Sprintf("its layout is %d, this memdb knows %d", layout, Layout), Do: "use a newer memdb",
	}
}

// WayOn says what helps where the file is damaged or missing.
const WayOn = "restore that file from a backup of the folder; or open the database once with Salvage (memdbctl --salvage), which takes the copy in its store; or make a new database of all that can be read: memdbctl rescue SRC DEST"

// ReadFile reads the content of the file.
func ReadFile(f vfs.FS, dir string) ([]byte, error) {
	return ReadBounded(f, f.PathJoin(dir, Name), maxIdentity)
}

// WriteFile replaces the content of the file in one step.
func WriteFile(f vfs.FS, dir string, b []byte) error { return ReplaceFile(f, dir, Name, b) }

// Write replaces the file in one step.
func (id *Identity) Write(f vfs.FS, dir string) error {
	b, err := id.Encode()
	if err != nil {
		return err
	}
	return WriteFile(f, dir, b)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Encode returns the content of the file.
func (id *Identity) Encode() ([]byte, error) {
	one := *id
	one.Checksum = noChecksum
	b, err := json.MarshalIndent(&one, "", "  ")
	if err != nil {
		return nil, err
	}
	b = append(b, '\n')
	sum := fmt.Appendf(nil, "%08x", crc32.Checksum(b, castagnoli))
	copy(b[bytes.LastIndex(b, []byte(checksumField))+len(checksumField):], sum)
	return b, nil
}

var errChecksum = errors.New("it does not fit its checksum")

// Decode reads the content of the file. No change of a character goes unnoticed, but
// in a file of a layout without a checksum.
func Decode(b []byte) (*Identity, error) {
	at := bytes.LastIndex(b, []byte(checksumField)) + len(checksumField)
	summed := at >= len(checksumField) && len(b) >= at+len(noChecksum)
	if summed {
		zeros := bytes.Clone(b)
		copy(zeros[at:], noChecksum)
		if string(b[at:at+len(noChecksum)]) != fmt.Sprintf("%08x", crc32.Checksum(zeros, castagnoli)) {
			return nil, errChecksum
		}
	}
	var id Identity
	if err := json.Unmarshal(b, &id); err != nil {
		return nil, err
	}
	switch {
	case id.Magic != magic, id.Layout < 1:
		return nil, errors.New("it is no file of memdb")
	case !summed && id.Layout >= checksumLayout && id.Layout <= Layout:
		return nil, errors.New("its checksum is missing")
	}
	return &id, nil
}

// TimelineIn is the timeline of the database in a folder. An older database gets one here, the one that its
// mark has if it was opened before and not written down.
func (id *Identity) TimelineIn(f vfs.FS, dir string) (store.Timeline, error) {
	if id.Timeline != "" {
		t, err := uuid.Parse(id.Timeline)
		if err != nil {
			err = &fault.Error{Kind: fault.ErrCorrupt, What: Opening(dir), Why: Name + " holds no timeline", Cause: err, Do: WayOn}
		}
		return store.Timeline(t), err
	}
	t, _, err := store.Marked(f, dir)
	if err != nil {
		return t, fault.Within(Opening(dir), err)
	}
	if t == (store.Timeline{}) {
		random, err := uuid.NewRandom()
		if err != nil {
			return t, err
		}
		t = store.Timeline(random)
	}
	id.Timeline = uuid.UUID(t).String()
	return t, nil
}

// CopyIn is what a store holds of memdb.json: the content of the file as it is kept there.
func CopyIn(st kv.Reader) ([]byte, error) {
	has, closer, err := st.Get(layout.IdentityKey)
	if errors.Is(err, kv.ErrNotFound) {
		return nil, &fault.Error{
			Kind: fault.ErrCorrupt, What: "restore " + Name, Why: "an earlier version of memdb wrote this database, without a copy of that file in its store",
			Do: "restore that file from a backup of the folder; or make a new database of all that can be read: memdbctl rescue SRC DEST",
		}
	}
	if err != nil {
		return nil, store.Error("restore "+Name, err)
	}
	b := bytes.Clone(has)
	return b, closer.Close()
}

// Adopt checks what a program asks for against what is stored. On an empty database the
// indexed fields and the language are taken over: nothing was indexed yet.
func (id *Identity) Adopt(dir, language string, indexed []memory.IndexedField, empty bool) (changed bool, err error) {
	s := &id.Settings
	if indexed != nil && !slices.Equal(indexed, s.IndexedText) {
		if !empty {
			return false, &fault.Error{
				Kind: fault.ErrMismatch, What: Opening(dir),
				Why: fmt.Sprintf("it indexes %v along with the text, not %v", fieldNames(s.IndexedText), fieldNames(indexed)),
				Do:  "leave IndexedText out, or import its export into a new database",
			}
		}
		s.IndexedText, changed = indexed, true
	}
	if language != "" && language != s.Language {
		if !empty {
			return false, &fault.Error{
				Kind: fault.ErrMismatch, What: Opening(dir),
				Why: fmt.Sprintf("its language is %s, not %s", s.Language, language),
				Do:  "leave Language out, or import its export into a new database",
			}
		}
		s.Language, changed = language, true
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
