// Package folder keeps an archive of a database in a folder: its segments and bases, by timeline.
//
// The folder has a file that says which database it belongs to, and a folder for each timeline. In that,
// a segment is named by the number of its first batch, and a base by the number of the batch whose state
// it holds, in hexadecimal digits:
//
//	memdb-archive.json
//	memdb.lock
//	5c1f….end
//	5c1f…/0000000000000001.segment
//	5c1f…/000000000000a017.base
//
// Files are only appended to. A base that is being written ends with ".base.new".
package folder

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/fsys"
	"github.com/seed-7aedc3ff/memdb/internal/host"
	"github.com/seed-7aedc3ff/memdb/wal"
)

const (
	identityName  = "memdb-archive.json"
	identityMagic = "memdb-archive"
	version       = 1
	mostIdentity  = 4 << 10

	segmentSuffix = ".segment"
	baseSuffix    = ".base"
	newSuffix     = ".base.new"

	// segmentBytes is where a segment ends and the next begins: what is read again after a crash, and what
	// can be copied away whole.
	segmentBytes = 64 << 20
	// syncBytes spreads the writing of a file.
	syncBytes = 512 << 10
)

type identity struct {
	Magic    string `json:"magic"`
	Version  int    `json:"version"`
	Database string `json:"database"`
	// Ends: each timeline has an end record, and one that is missing is damage.
	Ends bool `json:"ends,omitempty"`
}

func (id *identity) write(f vfs.FS, dir string) error {
	b, err := json.MarshalIndent(id, "", "  ")
	if err != nil {
		return err
	}
	return writeWhole(f, dir, identityName, append(b, '\n'))
}

// Archive is an archive in a folder. One process at a time appends to it; any number read.
type Archive struct {
	fs   vfs.FS
	path string
	held io.Closer
	// place is where it was begun: frames that went into a folder that is gone would be lost.
	place *fsys.Place

	dir      string // of the timeline
	timeline wal.Timeline
	segment  vfs.File
	written  int64
	base     vfs.File
	baseName string
	torn     bool // the last frame may have been written in part
	end      vfs.File
	had      endRecord // what end says
	buf      []byte
}

// New is the archive in a folder, which [Archive.Begin] makes where it is missing.
func New(dir string) *Archive {
	fs, dir := fsys.Named(dir)
	return &Archive{fs: fs, path: dir}
}

// Name is the folder.
func (a *Archive) Name() string { return a.path }

func doing(dir string) string { return "use the archive " + dir }

// Begin makes the folder, or proves that it is an archive of this database: ErrMismatch otherwise,
// ErrNotDatabase where it holds other files, ErrLocked while another process appends to it.
func (a *Archive) Begin(_ context.Context, database string, t wal.Timeline) (end wal.End, err error) {
	if err := a.inPlace(); err != nil {
		return end, err
	}
	id, err := a.identify(database)
	if err != nil {
		return end, err
	}
	if a.held == nil {
		if a.held, err = fsys.LockDir(a.fs, a.path, holder()); err != nil {
			return end, &fault.Error{Kind: fault.ErrLocked, What: doing(a.path), Why: "another program archives into it", Cause: err, Do: "end it, or choose another folder"}
		}
	}
	a.timeline, a.dir = t, a.fs.PathJoin(a.path, t.String())
	at, err := survey(a.fs, a.dir)
	if err == nil && !id.Ends {
		err = a.recordEnds(id)
	}
	if err == nil { // before the folder: a timeline without its record is damaged
		err = a.beginEnd(id, at.End)
	}
	if err == nil {
		err = makeDir(a.fs, a.dir)
	}
	if err == nil {
		err = a.settle(t.String())
	}
	return at.End, fault.Within(doing(a.path), err)
}

// settle notes where the archive and the folder of its timeline are.
func (a *Archive) settle(timeline string) (err error) {
	err = a.place.Close()
	if err == nil {
		a.place, err = fsys.PlaceOf(a.fs, a.path, fsys.LockName, timeline)
	}
	return err
}

// inPlace refuses an archive whose folder is another one than it was when it was begun.
func (a *Archive) inPlace() error {
	if err := a.place.Check(); err != nil {
		return &fault.Error{Kind: fault.ErrFailed, What: doing(a.path), Cause: err, Do: "put the folder back, or close the database, open it again, and make a backup: the archive begins anew"}
	}
	return nil
}

func holder() fsys.Holder {
	pid, program, machine := host.Process()
	return fsys.Holder{PID: pid, Program: program, Host: machine, Since: clock.System()}
}

// identify reads or makes the file that says whose archive this is.
func (a *Archive) identify(database string) (*identity, error) {
	id, err := readIdentity(a.fs, a.path)
	switch {
	case err == nil && id.Database != database:
		return nil, &fault.Error{
			Kind: fault.ErrMismatch, What: doing(a.path), Why: fmt.Sprintf("it is that of the database %s, this one is %s", id.Database, database),
			Do: "choose another folder: each database has an archive of its own",
		}
	case err == nil || !errors.Is(err, fs.ErrNotExist):
		return id, err
	}
	names, err := a.fs.List(a.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fault.Within(doing(a.path), err)
	}
	for _, name := range names {
		if name != identityName+".new" && name != "memdb.lock" && name != "memdb.holder" {
			return nil, &fault.Error{Kind: fault.ErrNotDatabase, What: doing(a.path), Why: "the folder holds other files and no archive", Do: "name another folder, or an empty one"}
		}
	}
	if err := makeDir(a.fs, a.path); err != nil {
		return nil, fault.Within(doing(a.path), err)
	}
	id = &identity{identityMagic, version, database, true}
	return id, fault.Within(doing(a.path), id.write(a.fs, a.path))
}

func readIdentity(f vfs.FS, dir string) (*identity, error) {
	file, err := f.Open(f.PathJoin(dir, identityName))
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(file, mostIdentity))
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, fault.Within(doing(dir), err)
	}
	var id identity
	if err := json.Unmarshal(b, &id); err != nil || id.Magic != identityMagic {
		return nil, &fault.Error{Kind: fault.ErrCorrupt, What: doing(dir), Why: identityName + " is damaged", Cause: err, Do: "restore that file from a copy"}
	}
	if id.Version > version {
		return nil, &fault.Error{Kind: fault.ErrNewerLayout, What: doing(dir), Why: fmt.Sprintf("its version is %d, this memdb knows %d", id.Version, version), Do: "use a newer memdb"}
	}
	return &id, nil
}

// writeWhole writes a file in one step.
func writeWhole(f vfs.FS, dir, name string, b []byte) error {
	temp := f.PathJoin(dir, name+".new")
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

// makeDir makes a folder and syncs each one that it is in and that was made for it.
func makeDir(f vfs.FS, dir string) error {
	var missing []string
	for d := dir; ; d = f.PathDir(d) {
		if _, err := f.Stat(d); err == nil || d == f.PathDir(d) {
			break
		}
		missing = append(missing, d)
	}
	if err := f.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for _, d := range missing {
		if err := fsys.SyncDir(f, f.PathDir(d)); err != nil {
			return err
		}
	}
	return nil
}

// Append appends a frame to the newest segment, and syncs it, or to the base that is being written.
func (a *Archive) Append(_ context.Context, f *wal.Frame) error {
	if f.Timeline != a.timeline {
		return fault.Invalid(doing(a.path), "a frame of another timeline", "call Begin first")
	}
	if err := a.inPlace(); err != nil {
		return err
	}
	if f.Kind == wal.Batches {
		return fault.Within(doing(a.path), a.appendBatches(f))
	}
	return fault.Within(doing(a.path), a.appendBase(f))
}

func (a *Archive) appendBatches(f *wal.Frame) (err error) {
	if a.torn || a.written >= segmentBytes {
		a.endSegment()
	}
	if a.segment == nil {
		// The frame follows what is whole: what a failed append may have left of it has the same number, and
		// its file is written anew, or is the end of the segment before.
		if a.segment, err = a.create(fileName(f.First, segmentSuffix)); err != nil {
			return err
		}
		a.written = 0
		if err := fsys.SyncDir(a.fs, a.dir); err != nil {
			a.endSegment()
			return err
		}
	}
	n, sum, err := a.write(a.segment, f)
	if err == nil {
		err = a.segment.Sync()
	}
	a.written += n
	if a.torn = err != nil; a.torn {
		return err
	}
	return a.reached(f, sum)
}

// create makes a file whose bytes go to the disk as they come, and not all with its sync, which the log of
// a database on the same disk would wait behind.
func (a *Archive) create(name string) (vfs.File, error) {
	file, err := a.fs.Create(a.fs.PathJoin(a.dir, name), vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, err
	}
	return vfs.NewSyncingFile(file, vfs.SyncingFileOptions{BytesPerSync: syncBytes}), nil
}

func (a *Archive) endSegment() {
	if a.segment != nil {
		_ = a.segment.Close() // each frame was synced
	}
	a.segment, a.torn = nil, false
}

// write returns how many bytes the frame has, and its checksum.
func (a *Archive) write(file vfs.File, f *wal.Frame) (n int64, sum uint64, err error) {
	if a.buf, err = f.Append(a.buf[:0]); err != nil {
		return 0, 0, err
	}
	sum = wal.SumOf(a.buf) // before Write, which under the race detector changes its input in Pebble's file system in memory
	_, err = file.Write(a.buf)
	return int64(len(a.buf)), sum, err
}

func (a *Archive) appendBase(f *wal.Frame) (err error) {
	name := fileName(f.First, newSuffix)
	if f.Kind == wal.Base && f.Last == 0 {
		a.endBase()
		if a.base, err = a.create(name); err != nil {
			return err
		}
		a.baseName = name
	}
	if a.base == nil || a.baseName != name {
		return fault.Invalid("write a base", "it does not begin with its first part", "begin it again")
	}
	if _, _, err := a.write(a.base, f); err != nil || f.Kind != wal.BaseEnd {
		return err // a base counts from its end on: it is synced then
	}
	if err := a.base.Sync(); err != nil {
		return err
	}
	a.endBase()
	whole := a.fs.PathJoin(a.dir, fileName(f.First, baseSuffix))
	if err := a.fs.Rename(a.fs.PathJoin(a.dir, name), whole); err != nil {
		return err
	}
	if err := fsys.SyncDir(a.fs, a.dir); err != nil {
		return err
	}
	return a.reached(f, 0)
}

func (a *Archive) endBase() {
	if a.base != nil {
		_ = a.base.Close()
	}
	a.base = nil
}

// Close ends the use of the archive.
func (a *Archive) Close() error {
	a.endSegment()
	a.endBase()
	err := errors.Join(a.closeEnd(), a.place.Close())
	if a.held != nil {
		err = errors.Join(err, a.held.Close())
	}
	a.held, a.place = nil, nil
	return err
}

func fileName(number uint64, suffix string) string { return fmt.Sprintf("%016x%s", number, suffix) }

// numbers are those in the names of files with a suffix, rising.
func numbers(f vfs.FS, dir, suffix string) ([]uint64, error) {
	names, err := f.List(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var all []uint64
	for _, name := range names {
		digits, ok := strings.CutSuffix(name, suffix)
		if n, err := strconv.ParseUint(digits, 16, 64); ok && err == nil && fileName(n, suffix) == name {
			all = append(all, n)
		}
	}
	slices.Sort(all)
	return all, nil
}
