package engine

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/store"
)

const (
	// checksumLayout is the layout from which on the file has a checksum.
	checksumLayout = 7
	// noChecksum stands for the checksum while it is computed.
	noChecksum = "00000000"
	// checksumField comes before the checksum in the file, which ends with it.
	checksumField = `"checksum": "`
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// encode is the content of the file.
func (id *identity) encode() ([]byte, error) {
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

// decodeIdentity reads the content of the file. No change of a character goes unnoticed, but
// in a file of a layout without a checksum.
func decodeIdentity(b []byte) (*identity, error) {
	at := bytes.LastIndex(b, []byte(checksumField)) + len(checksumField)
	summed := at >= len(checksumField) && len(b) >= at+len(noChecksum)
	if summed {
		zeros := bytes.Clone(b)
		copy(zeros[at:], noChecksum)
		if string(b[at:at+len(noChecksum)]) != fmt.Sprintf("%08x", crc32.Checksum(zeros, castagnoli)) {
			return nil, errChecksum
		}
	}
	var id identity
	if err := json.Unmarshal(b, &id); err != nil {
		return nil, err
	}
	switch {
	case id.Magic != identityMagic, id.Layout < 1:
		return nil, errors.New("it is no file of memdb")
	case !summed && id.Layout >= checksumLayout && id.Layout <= layoutVersion:
		return nil, errors.New("its checksum is missing")
	}
	return &id, nil
}

// timeline is the timeline of the database. An older database gets one here, the one that its
// mark has if it was opened before and not written down.
func (id *identity) timeline(f vfs.FS, dir string) (store.Timeline, error) {
	if id.Timeline != "" {
		t, err := uuid.Parse(id.Timeline)
		if err != nil {
			err = &fault.Error{Kind: fault.ErrCorrupt, What: doingOpen(dir), Why: identityName + " holds no timeline", Cause: err, Do: identityWayOn}
		}
		return store.Timeline(t), err
	}
	t, _, err := store.Marked(f, dir)
	if err != nil {
		return t, fault.Within(doingOpen(dir), err)
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

// keepIdentity writes memdb.json and its copy in the store. The copy is durable with the next
// commit; Open mends one that is not.
func (db *DB) keepIdentity(id *identity) error {
	if err := id.write(db.store.FS, db.dir); err != nil {
		return err
	}
	return db.copyIdentity(id)
}

// copyIdentity writes the copy in the store, where it is another.
func (db *DB) copyIdentity(id *identity) error {
	want, err := id.encode()
	if err != nil {
		return err
	}
	has, closer, err := db.store.Get(layout.IdentityKey)
	if err == nil {
		same := bytes.Equal(has, want)
		if err := closer.Close(); err != nil || same {
			return err
		}
	} else if !errors.Is(err, kv.ErrNotFound) {
		return store.Error("read the copy of "+identityName, err)
	}
	return db.applyBare(func(b *pebble.Batch) error { return b.Set(layout.IdentityKey, want, nil) })
}

// restoreIdentity puts the copy of memdb.json in the place of one that is damaged or missing. A
// damaged file is kept under a name that nothing reads.
func (db *DB) restoreIdentity(base vfs.FS) (*identity, error) {
	st := db.store.Again()
	if err := st.Open(true, store.Timeline{}); err != nil {
		return nil, err
	}
	b, err := copyOfIdentity(st)
	if err = errors.Join(err, st.Close()); err != nil {
		return nil, err
	}
	id, err := decodeIdentity(b)
	if err != nil {
		return nil, &fault.Error{Kind: fault.ErrCorrupt, What: doingOpen(db.dir), Why: "the copy of " + identityName + " is damaged, too", Cause: err, Do: store.WayOn}
	}
	path, was := base.PathJoin(db.dir, identityName), "missing"
	if _, err := base.Stat(path); err == nil {
		was = "damaged"
		if err := base.Rename(path, path+".damaged"); err != nil {
			return nil, fault.Within(doingOpen(db.dir), err)
		}
	}
	if err := writeIdentity(base, db.dir, b); err != nil {
		return nil, fault.Within(doingOpen(db.dir), err)
	}
	db.opening.mended = append(db.opening.mended, identityName+" was "+was+": its copy took its place, and nothing is lost with it")
	if st.Salvaged != "" {
		db.opening.mended = append(db.opening.mended, st.Salvaged)
	}
	return id, nil
}

// copyOfIdentity is what a store holds of memdb.json.
func copyOfIdentity(st *store.Store) ([]byte, error) {
	has, closer, err := st.Get(layout.IdentityKey)
	if errors.Is(err, kv.ErrNotFound) {
		return nil, &fault.Error{
			Kind: fault.ErrCorrupt, What: "restore " + identityName, Why: "an earlier version of memdb wrote this database, without a copy of that file in its store",
			Do: "restore that file from a backup of the folder; or make a new database of all that can be read: memdbctl rescue SRC DEST",
		}
	}
	if err != nil {
		return nil, store.Error("restore "+identityName, err)
	}
	b := bytes.Clone(has)
	return b, closer.Close()
}
