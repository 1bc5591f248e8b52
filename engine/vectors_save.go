package engine

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
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/store"
	"github.com/seed-7aedc3ff/memdb/internal/turn"
)

// A snapshot of a space's index is a file in the database's folder, named by the
// space's number and the LSN that it holds; docs/format/vectors.md describes it.
// It is a cache: what it lacks is read from the store, and without one that can be
// used the index is built anew.
const (
	snapshotPrefix = "vectors-"
	snapshotSuffix = ".snap"
	snapshotTemp   = ".new"

	snapshotMagic   = "memdbslt"
	snapshotVersion = 1
	// snapshotHeader is magic, version, database, space, LSN, mark of the log, slots.
	snapshotHeader = 8 + 4 + 16 + 2 + 8 + 8 + 4
	holderSize     = 24
	checksumSize   = 8
	// snapshotBuffer is how much of a file is written or read at once, and
	// snapshotSync how much is written between syncs: a log's sync must not be
	// queued behind hundreds of megabytes.
	snapshotBuffer = 256 << 10
	snapshotSync   = 4 << 20
)

// saved is the snapshot of a space that is on disk, and what the index had counted
// by then.
type saved struct {
	name                 string // empty: there is none
	added, removed, work uint64
}

func snapshotName(space uint16, lsn uint64) string {
	return fmt.Sprintf("%s%d-%016x%s", snapshotPrefix, space, lsn, snapshotSuffix)
}

func parseSnapshotName(name string) (space uint16, lsn uint64, ok bool) {
	rest, prefixed := strings.CutPrefix(name, snapshotPrefix)
	rest, suffixed := strings.CutSuffix(rest, snapshotSuffix)
	num, hex, _ := strings.Cut(rest, "-")
	n, err := strconv.ParseUint(num, 10, 16)
	lsn, err2 := strconv.ParseUint(hex, 16, 64)
	ok = prefixed && suffixed && err == nil && err2 == nil && name == snapshotName(uint16(n), lsn)
	return uint16(n), lsn, ok
}

// tail is how much of a space's index its snapshot does not hold: how many vectors, and
// of how many it has no links, or links that are to be taken out.
func (s *space) tail() (added, links uint64) {
	return s.added.Load() - s.saved.added, max(s.removed.Load()-s.saved.removed, s.index.Work()-s.saved.work)
}

// saveSpace writes a snapshot of a space if the last one lacks at least so many vectors
// or links, and the disk has room. A space without a graph needs none: to read its few
// vectors is quick. A snapshot that cannot be written is tried again after as many more.
func (db *DB) saveSpace(ctx context.Context, s *space, leastAdded, leastLinks uint64) {
	if db.Failed() != nil || db.readOnly || db.spaces.numbered(s.num) != s { // a rebuild has replaced it
		return
	}
	if s.index.Linked() == 0 {
		if s.saved.name != "" {
			db.removeFile(s.saved.name)
			s.saved.name = ""
		}
		return
	}
	if added, links := s.tail(); added < leastAdded && links < leastLinks || !db.store.Fits(s.bytes()) {
		return
	}
	old := s.saved
	name, err := db.writeSnapshot(ctx, s)
	if err != nil {
		if ctx.Err() != nil {
			s.saved = old // Close tries again
		} else if db.Failed() == nil {
			db.logger.Warn("a snapshot of vectors could not be written; opening will take longer", "space", s.name, "error", err)
		}
		return
	}
	s.saved.name = name
	if old.name != "" && old.name != name {
		db.removeFile(old.name)
	}
}

// writeSnapshot writes the file of a space, and returns its name.
func (db *DB) writeSnapshot(ctx context.Context, s *space) (name string, err error) {
	index, lsn, err := db.captureSpace(ctx, s)
	if err != nil {
		return "", err
	}
	defer index.Close()
	mark, err := db.logMark(lsn)
	if err != nil {
		return "", err
	}
	// A crash may lose commits that are not synced, whose numbers are then given
	// again: no file may hold them.
	if err := db.syncer.Wait(lsn); err != nil {
		return "", err
	}
	name = snapshotName(s.num, lsn)
	path := db.store.FS.PathJoin(db.dir, name)
	file, err := db.store.FS.Create(path+snapshotTemp, vfs.WriteCategoryUnspecified)
	if err != nil {
		return "", err
	}
	file = vfs.NewSyncingFile(file, vfs.SyncingFileOptions{BytesPerSync: snapshotSync})
	out := bufio.NewWriterSize(file, snapshotBuffer)
	w := &spaceWriter{out: out, sum: xxh3.New()}
	w.put((&snapshotHead{db: db.id, space: s.num, lsn: lsn, mark: mark, slots: index.Slots()}).encode())
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
		err = db.store.FS.Rename(path+snapshotTemp, path)
	}
	if err == nil {
		err = syncDir(db.store.FS, db.dir)
	}
	if err != nil {
		db.removeFile(name + snapshotTemp)
	}
	return name, err
}

// captureSpace pins what is in a space's index: exactly the vectors of the commits
// up to an LSN.
func (db *DB) captureSpace(ctx context.Context, s *space) (*hnsw.Snapshot, uint64, error) {
	if err := db.lockBehind(ctx); err != nil {
		return nil, 0, err
	}
	defer db.unlock()
	s.saved.added, s.saved.removed, s.saved.work = s.added.Load(), s.removed.Load(), s.index.Work()
	if db.spaces.numbered(s.num) != s {
		return nil, 0, errors.New("its making was taken back")
	}
	return s.index.Snapshot(), db.writer.applied, nil
}

// logMark is a hash of the log record of a commit: a database that has the same
// numbers and another past, such as a copy that went its own way, has another.
func (db *DB) logMark(lsn uint64) (uint64, error) {
	b, closer, err := db.store.Get(db.keys().LSN(layout.KindLog, lsn))
	if err != nil {
		return 0, store.Error(fmt.Sprintf("read log record %d", lsn), err)
	}
	mark := xxh3.Hash(b)
	return mark, closer.Close()
}

// removeFile removes a file of the folder that is not needed any more. The next
// Open tries again if that fails.
func (db *DB) removeFile(name string) {
	if err := db.store.FS.Remove(db.store.FS.PathJoin(db.dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) && db.Failed() == nil {
		db.logger.Warn("a file that is not needed could not be removed", "file", name, "error", err)
	}
}

// sweepSnapshots removes snapshots and parts of them that no space uses.
func (db *DB) sweepSnapshots() {
	names, err := db.store.FS.List(db.dir)
	if err != nil {
		db.logger.Warn("the folder could not be listed", "error", err)
		return
	}
	for _, name := range names {
		space, _, ok := parseSnapshotName(strings.TrimSuffix(name, snapshotTemp))
		if !ok {
			continue
		}
		if s := db.spaces.numbered(space); s == nil || s.saved.name != name {
			db.removeFile(name)
		}
	}
}

// spaceWriter writes the engine's part of a snapshot. Its first error makes the
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

// snapshotHead says whose snapshot a file is.
type snapshotHead struct {
	db    [16]byte // its ID
	space uint16
	lsn   uint64
	mark  uint64 // see DB.logMark
	slots uint32
}

func (h *snapshotHead) encode() []byte {
	b := append(make([]byte, 0, snapshotHeader), snapshotMagic...)
	b = binary.LittleEndian.AppendUint32(b, snapshotVersion)
	b = append(b, h.db[:]...)
	b = binary.LittleEndian.AppendUint16(b, h.space)
	b = binary.LittleEndian.AppendUint64(b, h.lsn)
	b = binary.LittleEndian.AppendUint64(b, h.mark)
	return binary.LittleEndian.AppendUint32(b, h.slots)
}

func decodeSnapshotHead(b []byte) (h snapshotHead, err error) {
	if len(b) != snapshotHeader {
		return h, badSnapshot("it ends early")
	}
	if magic := string(b[:8]); magic != snapshotMagic {
		return h, badSnapshot("it begins with %q; a snapshot does with %q", magic, snapshotMagic)
	}
	if v := binary.LittleEndian.Uint32(b[8:]); v != snapshotVersion {
		return h, badSnapshot("it has version %d; this program reads %d", v, snapshotVersion)
	}
	return snapshotHead{
		db: [16]byte(b[12:]), space: binary.LittleEndian.Uint16(b[28:]), lsn: binary.LittleEndian.Uint64(b[30:]),
		mark: binary.LittleEndian.Uint64(b[38:]), slots: binary.LittleEndian.Uint32(b[46:]),
	}, nil
}

func appendHolder(b []byte, v layout.Version) []byte {
	b = binary.LittleEndian.AppendUint64(b, v.Seq)
	b = binary.LittleEndian.AppendUint64(b, v.Born)
	b = binary.LittleEndian.AppendUint32(b, v.Owner)
	return binary.LittleEndian.AppendUint32(b, v.Change)
}

func decodeHolder(b []byte) layout.Version {
	return layout.Version{
		Seq: binary.LittleEndian.Uint64(b), Born: binary.LittleEndian.Uint64(b[8:]),
		Owner: binary.LittleEndian.Uint32(b[16:]), Change: binary.LittleEndian.Uint32(b[20:]),
	}
}

// holders writes whose the slots are. Those that are free are the writer's to use
// again meanwhile, and are not looked at.
func (w *spaceWriter) holders(ctx context.Context, s *space, index *hnsw.Snapshot) {
	b := make([]byte, 0, doctable.PageSize*holderSize)
	for slot := range index.Slots() {
		var v layout.Version
		if index.Holds(slot) {
			v = s.holders.At(uint64(slot)).version()
		}
		b = appendHolder(b, v)
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
