package store

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// mark says which logs there were, and how much of the newest was on disk. The file has two
// slots of a sector, which are written in turn: a crash leaves one of them whole. What the
// mark says was true when it was written; since then there may be more.
//
// A slot holds, with numbers in little-endian order: the magic, the number of the write
// (8 bytes), how much of the newest log was on disk (8), whether all is in tables (1), how
// many logs follow (1), their numbers (8 each), and a CRC-32C of all that (4).
type mark struct {
	count  uint64
	synced int64
	clean  bool // the store was closed, and its logs hold nothing
	logs   []uint64
}

const (
	markName  = "logs.mark"
	markMagic = "memdblm1"
	markHead  = len(markMagic) + 8 + 8 + 1 + 1
	// mostMarked bounds the logs of a mark, the newest: each is as large as a memtable, and
	// Pebble stops writes when few memtables wait to be flushed.
	mostMarked = 32
)

// newest is the number of the newest log, 0 if there is none.
func (m *mark) newest() uint64 {
	if len(m.logs) == 0 {
		return 0
	}
	return m.logs[len(m.logs)-1]
}

func (m *mark) encode() []byte {
	b := make([]byte, 0, sector)
	b = append(b, markMagic...)
	b = binary.LittleEndian.AppendUint64(b, m.count)
	b = binary.LittleEndian.AppendUint64(b, uint64(m.synced))
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
	if len(b) < markHead || string(b[:len(markMagic)]) != markMagic {
		return m, false
	}
	n := int(b[markHead-1])
	end := markHead + 8*n
	if n > mostMarked || len(b) < end+4 || crc32.Checksum(b[:end], castagnoli) != binary.LittleEndian.Uint32(b[end:]) {
		return m, false
	}
	m.count = binary.LittleEndian.Uint64(b[len(markMagic):])
	m.synced = int64(binary.LittleEndian.Uint64(b[len(markMagic)+8:]))
	m.clean = b[markHead-2] != 0
	for at := markHead; at < end; at += 8 {
		m.logs = append(m.logs, binary.LittleEndian.Uint64(b[at:]))
	}
	return m, true
}

// readMark returns the newest mark of a folder, the zero mark if there is none: earlier
// versions wrote none.
func readMark(fs vfs.FS, dir string) (m mark, err error) {
	f, err := fs.Open(fs.PathJoin(dir, markName))
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
		if one, ok := decodeMark(slot); ok && one.count > m.count {
			m = one
		}
	}
	return m, nil
}

func isMissing(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// marker writes the marks of an open store.
type marker struct {
	mu   sync.Mutex
	file vfs.File // nil until the first mark, and after Close
	last mark
}

// MarkLogs writes down how much of the logs is on disk, if that has changed. It is called
// every second or so: it costs a sync of one sector.
func (s *Store) MarkLogs() error { return s.markLogs(false) }

func (s *Store) markLogs(clean bool) error {
	if s.config.ReadOnly || s.Failed() != nil {
		return nil
	}
	s.marker.mu.Lock()
	defer s.marker.mu.Unlock()
	m := mark{count: s.marker.last.count + 1, clean: clean}
	var names []string
	names, m.synced = s.FS.SyncedLogs()
	for _, name := range names {
		if num, ok := logNumber(s.FS.PathBase(name)); ok {
			m.logs = append(m.logs, num)
		}
	}
	m.logs = m.logs[max(0, len(m.logs)-mostMarked):]
	if old := &s.marker.last; old.synced == m.synced && old.clean == m.clean && slices.Equal(old.logs, m.logs) {
		return nil
	}
	if err := s.openMark(&m); err != nil {
		return err
	}
	_, err := s.marker.file.WriteAt(m.encode(), int64(m.count%2)*sector)
	if err == nil {
		err = s.marker.file.SyncData()
	}
	if err == nil {
		s.marker.last = m
	}
	return err
}

// openMark opens the file for the mark to come, which gets the next number. A new file is
// filled, so that no later write changes its size.
func (s *Store) openMark(m *mark) error {
	if s.marker.file != nil {
		return nil
	}
	dir := s.FS.PathJoin(s.config.Dir, Dir)
	path := s.FS.PathJoin(dir, markName)
	old, err := readMark(s.FS, dir)
	if err != nil {
		return err
	}
	m.count = old.count + 1
	_, err = s.FS.Stat(path)
	if err == nil {
		s.marker.file, err = s.FS.OpenReadWrite(path, vfs.WriteCategoryUnspecified)
		return err
	}
	if !isMissing(err) {
		return err
	}
	f, err := s.FS.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	if _, err = f.Write(make([]byte, 2*sector)); err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = syncFolder(s.FS, dir)
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	s.marker.file = f
	return nil
}

// closeMark writes the last mark and closes the file. clean says that the logs hold nothing.
func (s *Store) closeMark(clean bool) error {
	err := s.markLogs(clean)
	s.marker.mu.Lock()
	defer s.marker.mu.Unlock()
	if f := s.marker.file; f != nil {
		s.marker.file = nil
		err = errors.Join(err, f.Close())
	}
	return err
}
