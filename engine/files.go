package engine

import (
	"errors"
	"io/fs"
	"strings"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/spaces"
	"github.com/seed-7aedc3ff/memdb/internal/store"
)

// FileBytes are the bytes of the files in the folder of a database.
type FileBytes struct {
	// Tables and Logs are those of the store, Snapshots those of vectors and of their codes.
	Tables    int64 `json:"tables"`
	Logs      int64 `json:"logs"`
	Snapshots int64 `json:"snapshots"`
	Other     int64 `json:"other"`
	// File is the one file of a database that has no folder.
	File int64 `json:"file,omitempty"`
}

func (b FileBytes) sum() int64 { return b.Tables + b.Logs + b.Snapshots + b.Other + b.File }

// files adds up the files of the folder. One that goes meanwhile counts nothing.
func (db *DB) files() (b FileBytes, err error) {
	if f := db.store.File(); f != nil {
		return FileBytes{File: f.Size()}, nil
	}
	err = db.addFiles(&b, db.dir, true)
	return b, fault.Within("add up the files of "+db.dir, err)
}

func (db *DB) addFiles(b *FileBytes, dir string, top bool) error {
	names, err := db.store.FS.List(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		path := db.store.FS.PathJoin(dir, name)
		info, err := db.store.FS.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist), top && strings.HasPrefix(name, store.CopyDir): // it has links to what is counted
			continue
		case err != nil:
			return err
		case info.IsDir():
			if err := db.addFiles(b, path, false); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		case top && strings.HasPrefix(name, spaces.SnapshotPrefix):
			b.Snapshots += info.Size()
		case !top && strings.HasSuffix(name, ".sst"):
			b.Tables += info.Size()
		case !top && strings.HasSuffix(name, ".log"):
			b.Logs += info.Size()
		default:
			b.Other += info.Size()
		}
	}
	return nil
}
