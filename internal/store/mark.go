package store

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// mark says what of the store is on disk: which MANIFEST counts, and how much of it; which
// logs there are, and how much of the newest. It lies beside the store, so that a part of
// the store that is gone, cut off, or an older one is noticed. What the mark says was true
// when it was written; since then there may be more, never less.
//
// The file has two slots of a sector, which are written in turn: a crash leaves one of them
// whole. A slot holds, with numbers in little-endian order: the magic, the number of the
// write (8 bytes), the timeline (16), the newest LSN (8), the number of the MANIFEST (8) and
// its length (8), how much of the newest log was on disk (8), whether all is in tables (1),
// how many logs follow (1), their numbers (8 each), and a CRC-32C of all that (4).
type mark struct {
	count    uint64
	timeline Timeline
	lsn      uint64 // of the newest commit that was durable
	manifest uint64 // 0: not known
	listed   int64  // bytes of the MANIFEST
	synced   int64  // bytes of the newest log
	clean    bool   // the store was closed, and its logs hold nothing
	logs     []uint64
}

// Timeline is the ID of a history of commits. It is in memdb.json and in the mark, so that
// two files of different copies of a database are told apart. The zero Timeline is not known.
type Timeline [16]byte

const (
	// MarkName is the name of the mark in the folder of the database.
	MarkName  = "memdb.mark"
	markMagic = "memdblm2"
	markHead  = len(markMagic) + 8 + 16 + 8 + 8 + 8 + 8 + 1 + 1
	// mostMarked bounds the logs of a mark, the newest: each is as large as a memtable, and
	// Pebble stops writes when few memtables wait to be flushed.
	mostMarked = 32

	// Up to layout 6 the mark lay in the store, and said nothing of timeline, LSN and MANIFEST.
	oldMarkName  = "logs.mark"
	oldMarkMagic = "memdblm1"
	oldMarkHead  = len(oldMarkMagic) + 8 + 8 + 1 + 1
)

// newest is the number of the newest log, 0 if there is none.
func (m *mark) newest() uint64 {
	if len(m.logs) == 0 {
		return 0
	}
	return m.logs[len(m.logs)-1]
}

// says reports whether the mark says what another does, whichever was written first.
func (m *mark) says(o *mark) bool {
	a, b := *m, *o
	a.count, a.logs, b.count, b.logs = 0, nil, 0, nil
	return slices.Equal(m.logs, o.logs) && a.timeline == b.timeline && a.lsn == b.lsn && a.manifest == b.manifest &&
		a.listed == b.listed && a.synced == b.synced && a.clean == b.clean
}

func (m *mark) encode() []byte {
	b := make([]byte, 0, sector)
	b = append(b, markMagic...)
	b = binary.LittleEndian.AppendUint64(b, m.count)
	b = append(b, m.timeline[:]...)
	for _, n := range []uint64{m.lsn, m.manifest, uint64(m.listed), uint64(m.synced)} {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	clean := byte(0)
	if m.clean {
		clean = 1
	}
	b = append(b, clean, byte(len(m.logs)))
	for _, num := range m.logs {
		b = binary.LittleEndian.AppendUint64(b, num)
	}
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
	return append(b, make([]byte, sector-len(b))...)
}

// decodeMark reads a slot, and reports whether it is whole.
func decodeMark(b []byte) (m mark, ok bool) {
	if !wholeSlot(b, markMagic, markHead) {
		return m, false
	}
	number := func(at int) uint64 { return binary.LittleEndian.Uint64(b[len(markMagic)+at:]) }
	m.count = number(0)
	copy(m.timeline[:], b[len(markMagic)+8:])
	m.lsn, m.manifest, m.listed, m.synced = number(24), number(32), int64(number(40)), int64(number(48))
	m.clean, m.logs = slotLogs(b, markHead)
	return m, true
}

// decodeOldMark reads a slot of a mark that lies in the store.
func decodeOldMark(b []byte) (m mark, ok bool) {
	if !wholeSlot(b, oldMarkMagic, oldMarkHead) {
		return m, false
	}
	m.count = binary.LittleEndian.Uint64(b[len(oldMarkMagic):])
	m.synced = int64(binary.LittleEndian.Uint64(b[len(oldMarkMagic)+8:]))
	m.clean, m.logs = slotLogs(b, oldMarkHead)
	return m, true
}

// wholeSlot reports whether a slot has its magic and fits its checksum. Logs follow its head,
// which ends with their number.
func wholeSlot(b []byte, magic string, head int) bool {
	if len(b) < head || string(b[:len(magic)]) != magic || b[head-1] > mostMarked {
		return false
	}
	end := head + 8*int(b[head-1])
	return len(b) >= end+4 && crc32.Checksum(b[:end], castagnoli) == binary.LittleEndian.Uint32(b[end:])
}

// slotLogs reads what a slot ends with: whether all is in tables, and its logs.
func slotLogs(b []byte, head int) (clean bool, logs []uint64) {
	for at := range int(b[head-1]) {
		logs = append(logs, binary.LittleEndian.Uint64(b[head+8*at:]))
	}
	return b[head-2] != 0, logs
}

// readMark returns the newest mark of a database's folder, the zero mark if there is none:
// the first versions wrote none.
func readMark(fs vfs.FS, dir string) (m mark, err error) {
	m, err = readSlots(fs, fs.PathJoin(dir, MarkName), decodeMark)
	if err != nil || m.count > 0 {
		return m, err
	}
	return readSlots(fs, fs.PathJoin(dir, Dir, oldMarkName), decodeOldMark)
}

func readSlots(fs vfs.FS, path string, decode func([]byte) (mark, bool)) (m mark, err error) {
	f, err := fs.Open(path)
	if isMissing(err) {
		return m, nil
	}
	if err != nil {
		return m, err
	}
	defer func() { _ = f.Close() }()
	b := make([]byte, 2*sector)
	n, err := io.ReadFull(f, b)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return m, err
	}
	for slot := range slices.Chunk(b[:n], sector) {
		if one, ok := decode(slot); ok && one.count > m.count {
			m = one
		}
	}
	return m, nil
}

func isMissing(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// dropMark removes the marks of a store that lacks what they say, and goes on without it.
func dropMark(fs vfs.FS, dir string) error {
	for _, path := range []string{fs.PathJoin(dir, MarkName), fs.PathJoin(dir, Dir, oldMarkName)} {
		if err := fs.Remove(path); err != nil && !isMissing(err) {
			return err
		}
	}
	return syncFolder(fs, dir)
}

// marker writes the marks of an open store.
type marker struct {
	lsn  atomic.Uint64
	mu   sync.Mutex
	file vfs.File // nil before Open and after Close
	last mark
}

// Reached notes that all commits up to an LSN are durable. The next mark says so.
func (s *Store) Reached(lsn uint64) { s.marker.lsn.Store(lsn) }

// MarkedLSN is the newest LSN that was durable when the mark was written which Open has found.
func (s *Store) MarkedLSN() uint64 { return s.marked }

// GoBackTo marks an LSN that is older than the one that was marked: what came after is lost,
// and the database goes on without it.
func (s *Store) GoBackTo(lsn uint64) error {
	s.marker.mu.Lock()
	defer s.marker.mu.Unlock()
	s.marker.last.lsn = 0
	s.marker.lsn.Store(lsn)
	return s.markLogs(false)
}

// Marked returns the timeline and the newest durable LSN that the mark in the folder of a database
// names, zeros if there is none.
func Marked(fs vfs.FS, dir string) (t Timeline, lsn uint64, err error) {
	m, err := readMark(fs, dir)
	return m.timeline, m.lsn, err
}

// MarkLogs writes down what of the store is on disk, if that has changed. It is called
// every second or so, and whenever a log was made or the MANIFEST grew: it costs a sync of
// one sector.
func (s *Store) MarkLogs() error {
	s.marker.mu.Lock()
	defer s.marker.mu.Unlock()
	return s.markLogs(false)
}

// markLogs is MarkLogs with the lock held. closed says that the logs hold nothing.
func (s *Store) markLogs(closed bool) error {
	if s.marker.file == nil || s.Failed() != nil {
		return nil
	}
	old := &s.marker.last
	m := mark{
		count: old.count + 1, timeline: s.timeline, lsn: max(old.lsn, s.marker.lsn.Load()),
		manifest: old.manifest, listed: old.listed, synced: old.synced, logs: slices.Clone(old.logs),
	}
	logs, synced := s.FS.SyncedLogs()
	for _, path := range logs {
		if num, ok := logNumber(s.FS.PathBase(path)); ok && num > m.newest() {
			m.logs = append(m.logs, num)
		}
	}
	m.logs = m.logs[max(0, len(m.logs)-mostMarked):]
	if len(logs) > 0 {
		m.synced = synced
	}
	m.clean = closed || old.clean && len(logs) == 0
	if path, listed := s.FS.SyncedManifest(); path != "" {
		m.manifest, m.listed = manifestNumber(s.FS.PathBase(path)), listed
	}
	if m.says(old) {
		return nil
	}
	_, err := s.marker.file.WriteAt(m.encode(), int64(m.count%2)*sector)
	if err == nil {
		err = s.marker.file.SyncData()
	}
	if err == nil {
		*old = m
	}
	return err
}

// beginMarks goes on from the mark that Open has found and proven.
func (s *Store) beginMarks(found mark) error {
	path := s.FS.PathJoin(s.config.Dir, MarkName)
	f, err := s.FS.OpenReadWrite(path, vfs.WriteCategoryUnspecified)
	if isMissing(err) {
		f, err = s.newMark(path)
	}
	if err != nil {
		return err
	}
	if found.manifest == 0 {
		found.manifest, found.listed = s.syncManifest()
	}
	s.marker.mu.Lock()
	s.marker.file, s.marker.last = f, found
	s.marker.mu.Unlock()
	s.FS.OnSettled(func() {
		if err := s.MarkLogs(); err != nil { // the next may succeed
			s.config.Log.Warn("what of the store is on disk could not be written down", "error", err)
		}
	})
	return nil
}

// newMark makes the file, filled, so that no later write changes its size.
func (s *Store) newMark(path string) (f vfs.File, err error) {
	if f, err = s.FS.Create(path, vfs.WriteCategoryUnspecified); err != nil {
		return nil, err
	}
	if _, err = f.Write(make([]byte, 2*sector)); err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = syncFolder(s.FS, s.config.Dir)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// syncManifest is the MANIFEST of a store without a mark that names one, and its length, once
// that is on disk for certain: it was perhaps written by a process that was killed. A MANIFEST
// that cannot be synced is not marked.
func (s *Store) syncManifest() (num uint64, bytes int64) {
	dir := s.FS.PathJoin(s.config.Dir, Dir)
	names, err := s.FS.List(dir)
	if err != nil {
		return 0, 0
	}
	name := currentManifest(names)
	f, err := s.FS.OpenReadWrite(s.FS.PathJoin(dir, name), vfs.WriteCategoryUnspecified)
	if err != nil {
		return 0, 0
	}
	whole, _, err := wholeManifest(f)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return 0, 0
	}
	return manifestNumber(name), whole
}

// closeMark writes the last mark and closes the file. clean says that the logs hold nothing.
func (s *Store) closeMark(clean bool) error {
	s.marker.mu.Lock()
	defer s.marker.mu.Unlock()
	err := s.markLogs(clean)
	if f := s.marker.file; f != nil {
		s.marker.file = nil
		err = errors.Join(err, f.Close())
	}
	return err
}

// dropOldMark removes the mark that lay in the store, once there is another.
func (s *Store) dropOldMark() error {
	err := s.FS.Remove(s.FS.PathJoin(s.config.Dir, Dir, oldMarkName))
	if isMissing(err) {
		return nil
	}
	return err
}
