package store

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A chunk of a log has more in its header than one of a MANIFEST: the number of the log, and
// how much of the log was on disk when the chunk was made. The types say which header.
const (
	numberedHeader, syncedHeader = 11, 19
	firstNumbered, firstSynced   = 5, 9
	lastLogChunk                 = 12

	logSuffix     = ".log"
	damagedSuffix = ".damaged" // of what Salvage sets aside: Pebble reads no such file
)

// LogDamage is damage of a log that no crash leaves: commits that were acknowledged cannot be
// read any more, and none behind them may be.
type LogDamage struct {
	Log     uint64
	Missing bool
	At      int64  // up to this byte the log is whole
	Why     string // what proves that more was there
	After   []uint64
}

// Error says what is damaged, and what is lost with it.
func (d *LogDamage) Error() string {
	lost := fmt.Sprintf("the commits from byte %d of it on are lost", d.At)
	if d.Missing {
		lost = "all commits in it are lost"
	}
	if n := len(d.After); n > 0 {
		lost += fmt.Sprintf(", and with them those of %d later logs", n)
	}
	return fmt.Sprintf("%s %s: %s", logName(d.Log), d.Why, lost)
}

func logName(num uint64) string { return fmt.Sprintf("%06d%s", num, logSuffix) }

// logNumber is that of a log, from its name.
func logNumber(name string) (uint64, bool) {
	digits, ok := strings.CutSuffix(name, logSuffix)
	num, err := strconv.ParseUint(digits, 10, 64)
	return num, ok && err == nil
}

// checkLogs looks for logs that are missing, cut off or damaged. It returns a *LogDamage, or
// an error of the file system.
//
// Pebble takes what it cannot read for the end of the newest log, unless a later block of the
// log says that it was on disk, and goes on with what came before; and it does not know which
// logs there were. The mark says which there were, and how much was on disk a second before; and
// checkLogs looks behind what cannot be read chunk by chunk. A record that a crash tore is no
// damage: nobody was told that it is there.
func (p *proof) checkLogs() error {
	from, m := p.known.firstLog, &p.mark
	var logs []uint64 // that hold what is not in tables yet, in their order
	for _, name := range p.names {
		if num, ok := logNumber(name); ok && num >= from {
			logs = append(logs, num)
		}
	}
	slices.SortFunc(logs, cmp.Compare)
	for _, num := range m.logs {
		if num < from || slices.Contains(logs, num) || m.clean {
			continue
		}
		later := slices.DeleteFunc(slices.Clone(logs), func(l uint64) bool { return l < num })
		return &LogDamage{Log: num, Missing: true, Why: "is missing", After: later}
	}
	for i, num := range logs {
		promised := int64(0)
		if num == m.newest() && !m.clean {
			promised = m.synced
		}
		at, why, err := checkLog(p.fs, p.fs.PathJoin(p.store, logName(num)), num, i == len(logs)-1, promised)
		if err != nil {
			return err
		}
		if why != "" {
			return &LogDamage{Log: num, At: at, Why: why, After: logs[i+1:]}
		}
	}
	return nil
}

// checkLog reads a log. It returns up to where the log is whole and, if more was there, what
// proves that. newest says that a crash may have torn the end of the log.
func checkLog(fs vfs.FS, path string, num uint64, newest bool, promised int64) (at int64, why string, err error) {
	f, err := fs.Open(path)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = f.Close() }()
	block := make([]byte, manifestBlock)
	torn := false
	for offset := int64(0); ; offset += manifestBlock {
		n, err := io.ReadFull(f, block)
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return at, "", err
		}
		rest := block[:n]
		if !torn {
			whole, ended := wholeLogChunks(rest, num)
			at = offset + int64(whole)
			if ended || n < manifestBlock && whole == n {
				return at, promisedMore(at, promised), nil
			}
			torn, rest = whole < n, rest[whole:]
		}
		if torn && saysSynced(rest, num, at) {
			return at, "cannot be read, and what comes behind says that it was on disk", nil
		}
		if n == manifestBlock {
			continue
		}
		if !newest && torn {
			return at, "does not end as a log does that another one follows", nil
		}
		return at, promisedMore(at, promised), nil
	}
}

func promisedMore(at, promised int64) string {
	if at >= promised {
		return ""
	}
	return fmt.Sprintf("was on disk to byte %d, and cannot be read so far", promised)
}

// wholeLogChunks returns where in a block of a log the first chunk begins that is not whole,
// or the end of the block if all are, and reports whether the log was closed there.
func wholeLogChunks(block []byte, num uint64) (at int, ended bool) {
	for len(block)-at >= chunkHeader {
		if isTrailer(block[at:], num) {
			return at + numberedHeader, true
		}
		size, _, of, ok := logChunk(block[at:])
		if !ok {
			break
		}
		if of != uint32(num) { // of the log that this file was before
			return at, false
		}
		at += size
	}
	if len(block) == manifestBlock && len(block)-at < syncedHeader && allZero(block[at:]) {
		return len(block), false // what is too short for a header fills the block up
	}
	return at, false
}

// isTrailer reports whether a log was closed here: a header without a checksum or a payload,
// with the number after that of the log.
func isTrailer(b []byte, num uint64) bool {
	return len(b) >= numberedHeader && allZero(b[:6]) && b[6] == firstNumbered &&
		binary.LittleEndian.Uint32(b[chunkHeader:]) == uint32(num)+1
}

// logChunk reads the chunk that b begins with: its size, how much of the log was on disk
// before it, and the number of its log.
func logChunk(b []byte) (size int, synced uint64, num uint32, ok bool) {
	kind, header := b[6], 0
	switch {
	case kind >= firstSynced && kind <= lastLogChunk:
		header = syncedHeader
	case kind >= firstNumbered && kind < firstSynced:
		header = numberedHeader
	default:
		return 0, 0, 0, false
	}
	size = header + int(binary.LittleEndian.Uint16(b[4:]))
	if size > len(b) || chunkSum(b[6:size]) != binary.LittleEndian.Uint32(b) {
		return 0, 0, 0, false
	}
	if header == syncedHeader {
		synced = binary.LittleEndian.Uint64(b[numberedHeader:])
	}
	return size, synced, binary.LittleEndian.Uint32(b[chunkHeader:]), true
}

// saysSynced reports whether a chunk at any byte says that more of the log was on disk than
// up to at.
func saysSynced(b []byte, num uint64, at int64) bool {
	for ; len(b) >= syncedHeader; b = b[1:] {
		if b[6] < firstSynced || b[6] > lastLogChunk || binary.LittleEndian.Uint32(b[chunkHeader:]) != uint32(num) ||
			binary.LittleEndian.Uint64(b[numberedHeader:]) <= uint64(at) {
			continue
		}
		if _, _, _, ok := logChunk(b); ok {
			return true
		}
	}
	return false
}

func allZero(b []byte) bool { return !slices.ContainsFunc(b, func(c byte) bool { return c != 0 }) }

// salvageLogs makes logs that can be opened of those with damage: what is whole before the damage
// stays, and the damaged log and all later ones are set aside as files that end with
// ".damaged". A commit behind a lost one is not kept, since it may build on it.
func salvageLogs(fs vfs.FS, dir string, d *LogDamage) error {
	aside := func(num uint64) error {
		path := fs.PathJoin(dir, logName(num))
		return copyFile(fs, path, path+damagedSuffix, -1)
	}
	for _, num := range d.After {
		if err := aside(num); err != nil {
			return err
		}
	}
	if !d.Missing {
		if err := aside(d.Log); err != nil {
			return err
		}
	}
	if err := syncFolder(fs, dir); err != nil {
		return err
	}
	// From the last one on: if this is interrupted, what is left is damaged where it was.
	for _, num := range slices.Backward(d.After) {
		if err := fs.Remove(fs.PathJoin(dir, logName(num))); err != nil {
			return err
		}
	}
	if !d.Missing {
		path := fs.PathJoin(dir, logName(d.Log))
		whole := path + ".whole"
		if err := copyFile(fs, path, whole, d.At); err != nil {
			return err
		}
		if err := fs.Rename(whole, path); err != nil {
			return err
		}
	}
	return syncFolder(fs, dir)
}

// copyFile copies a file, or its first bytes if most is not negative, and syncs the copy.
func copyFile(fs vfs.FS, from, to string, most int64) error {
	in, err := fs.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := fs.Create(to, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	var r io.Reader = in
	if most >= 0 {
		r = io.LimitReader(in, most)
	}
	_, err = io.Copy(out, r)
	if err == nil {
		err = out.Sync()
	}
	return errors.Join(err, out.Close())
}

func syncFolder(fs vfs.FS, dir string) error {
	d, err := fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
