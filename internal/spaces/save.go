package spaces

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/zeebo/xxh3"

	"github.com/seed-7aedc3ff/memdb/hnsw"
	"github.com/seed-7aedc3ff/memdb/internal/ctxio"
	"github.com/seed-7aedc3ff/memdb/internal/doctable"
	"github.com/seed-7aedc3ff/memdb/internal/fsys"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/store"
	"github.com/seed-7aedc3ff/memdb/internal/turn"
)

// A snapshot of a space's index is a file in the database's folder, named by the
// space's number and the LSN that it holds; docs/format/vectors.md describes it.
// It is a cache: what it lacks is read from the store, and without one that can be
// used the index is built anew.
const (
	SnapshotPrefix = "vectors-"
	snapshotSuffix = ".snap"
	SnapshotTemp   = ".new"

	checksumSize = 8
	// snapshotBuffer is how much of a file is written or read at once, and
	// snapshotSync how much is written between syncs: a log's sync must not be
	// queued behind hundreds of megabytes.
	snapshotBuffer = 256 << 10
	snapshotSync   = 4 << 20
)

// saved is the snapshot of a space that is on disk, and what the index had counted
// by then.
type saved struct {
	Name                 string // empty: there is none
	added, removed, work uint64
}

// SnapshotName is the file of a space as of an LSN.
func SnapshotName(space uint16, lsn uint64) string {
	return fmt.Sprintf("%s%d-%016x%s", SnapshotPrefix, space, lsn, snapshotSuffix)
}

// ParseSnapshotName is the inverse of [SnapshotName].
func ParseSnapshotName(name string) (space uint16, lsn uint64, ok bool) {
	rest, prefixed := strings.CutPrefix(name, SnapshotPrefix)
	rest, suffixed := strings.CutSuffix(rest, snapshotSuffix)
	num, hex, _ := strings.Cut(rest, "-")
	n, err := strconv.ParseUint(num, 10, 16)
	lsn, err2 := strconv.ParseUint(hex, 16, 64)
	ok = prefixed && suffixed && err == nil && err2 == nil && name == SnapshotName(uint16(n), lsn)
	return uint16(n), lsn, ok
}

// tail is how much of a space's index its snapshot does not hold: how many vectors, and
// of how many it has no links, or links that are to be taken out.
func (s *Space) tail() (added, links uint64) {
	return s.Added.Load() - s.Saved.added, max(s.Removed.Load()-s.Saved.removed, s.Index.Work()-s.Saved.work)
}

// Save writes a snapshot of a space if the last one lacks at least so many vectors
// or links, and the disk has room. A space without a graph needs none: to read its few
// vectors is quick. A snapshot that cannot be written is tried again after as many more. It reports
// whether one was written.
func (ss *Set) Save(ctx context.Context, s *Space, leastAdded, leastLinks uint64) (saved bool) {
	if ss.Store.Failed() != nil || ss.ReadOnly || ss.Numbered(s.Num) != s { // a rebuild has replaced it
		return false
	}
	if s.Index.Linked() == 0 {
		if s.Saved.Name != "" {
			ss.removeFile(s.Saved.Name)
			s.Saved.Name = ""
		}
		return false
	}
	if added, links := s.tail(); added < leastAdded && links < leastLinks || !ss.Store.Fits(s.Bytes()) {
		return false
	}
	old := s.Saved
	name, err := ss.writeSnapshot(ctx, s)
	if err != nil {
		if ctx.Err() != nil {
			s.Saved = old // Close tries again
		} else if ss.Store.Failed() == nil {
			ss.Logger.Warn("a snapshot of vectors could not be written; opening will take longer", "space", s.Name, "error", err)
		}
		return false
	}
	s.Saved.Name = name
	if old.Name != "" && old.Name != name {
		ss.removeFile(old.Name)
	}
	return true
}

// writeSnapshot writes the file of a space, and returns its name.
func (ss *Set) writeSnapshot(ctx context.Context, s *Space) (name string, err error) {
	index, lsn, err := ss.captureSpace(ctx, s)
	if err != nil {
		return "", err
	}
	defer index.Close()
	mark, err := ss.logMark(lsn)
	if err != nil {
		return "", err
	}
	// A crash may lose commits that are not synced, whose numbers are then given
	// again: no file may hold them.
	if err := ss.Durable(lsn); err != nil {
		return "", err
	}
	name = SnapshotName(s.Num, lsn)
	path := ss.Store.FS.PathJoin(ss.Dir, name)
	file, err := ss.Store.FS.Create(path+SnapshotTemp, vfs.WriteCategoryUnspecified)
	if err != nil {
		return "", err
	}
	file = vfs.NewSyncingFile(file, vfs.SyncingFileOptions{BytesPerSync: snapshotSync})
	out := bufio.NewWriterSize(file, snapshotBuffer)
	w := &spaceWriter{out: out, sum: xxh3.New()}
	w.put((&layout.SnapshotHead{DB: ss.ID(), Space: s.Num, LSN: lsn, Mark: mark, Slots: index.Slots()}).Encode())
	w.checksum()
	w.holders(ctx, s, index)
	if err = w.err; err == nil {
		_, err = index.WriteTo(turn.Writer(ctxio.Writer(ctx, out)))
	}
	if err == nil {
		err = out.Flush()
	}
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = ss.Store.FS.Rename(path+SnapshotTemp, path)
	}
	if err == nil {
		err = fsys.SyncDir(ss.Store.FS, ss.Dir)
	}
	if err != nil {
		ss.removeFile(name + SnapshotTemp)
	}
	return name, err
}

// captureSpace pins what is in a space's index: exactly the vectors of the commits
// up to an LSN.
func (ss *Set) captureSpace(ctx context.Context, s *Space) (*hnsw.Snapshot, uint64, error) {
	if err := ss.Lock(ctx); err != nil {
		return nil, 0, err
	}
	defer ss.Unlock()
	s.Saved.added, s.Saved.removed, s.Saved.work = s.Added.Load(), s.Removed.Load(), s.Index.Work()
	if ss.Numbered(s.Num) != s {
		return nil, 0, errors.New("its making was taken back")
	}
	return s.Index.Snapshot(), ss.Applied(), nil
}

// logMark is a hash of the log record of a commit: a database that has the same
// numbers and another past, such as a copy that went its own way, has another.
func (ss *Set) logMark(lsn uint64) (uint64, error) {
	b, closer, err := ss.Store.Get(ss.keys().LSN(layout.KindLog, lsn))
	if err != nil {
		return 0, store.Error(fmt.Sprintf("read log record %d", lsn), err)
	}
	mark := xxh3.Hash(b)
	return mark, closer.Close()
}

// removeFile removes a file of the folder that is not needed any more. The next
// Open tries again if that fails.
func (ss *Set) removeFile(name string) {
	if err := ss.Store.FS.Remove(ss.Store.FS.PathJoin(ss.Dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) && ss.Store.Failed() == nil {
		ss.Logger.Warn("a file that is not needed could not be removed", "file", name, "error", err)
	}
}

// sweepSnapshots removes snapshots and parts of them that no space uses.
func (ss *Set) sweepSnapshots() {
	names, err := ss.Store.FS.List(ss.Dir)
	if err != nil {
		ss.Logger.Warn("the folder could not be listed", "error", err)
		return
	}
	for _, name := range names {
		space, _, ok := ParseSnapshotName(strings.TrimSuffix(name, SnapshotTemp))
		if !ok {
			continue
		}
		if s := ss.Numbered(space); s == nil || s.Saved.Name != name {
			ss.removeFile(name)
		}
	}
}

// spaceWriter writes what stands before the index in a snapshot. Its first error makes the
// rest a no-op.
type spaceWriter struct {
	out io.Writer
	sum *xxh3.Hasher
	err error
}

func (w *spaceWriter) put(b []byte) {
	if w.err == nil {
		_, w.err = w.out.Write(b)
		_, _ = w.sum.Write(b) // hashers don't fail
	}
}

func (w *spaceWriter) checksum() {
	w.put(binary.LittleEndian.AppendUint64(nil, w.sum.Sum64()))
	w.sum.Reset()
}

// holders writes whose the slots are. Those that are free are the writer's to use
// again meanwhile, and are not looked at.
func (w *spaceWriter) holders(ctx context.Context, s *Space, index *hnsw.Snapshot) {
	b := make([]byte, 0, doctable.PageSize*layout.HolderSize)
	for slot := range index.Slots() {
		var v layout.Version
		if index.Holds(slot) {
			v = s.Holders.At(uint64(slot)).Version()
		}
		b = layout.AppendHolder(b, v)
		if len(b) == cap(b) {
			w.put(b)
			b = b[:0]
			if w.err == nil {
				w.err = ctx.Err()
			}
		}
	}
	w.put(b)
	w.checksum()
}
