package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// The store's MANIFEST is a file of chunks in LevelDB's log format: a checksum of all
// behind it, the length of the payload, the type, and the payload. None crosses the
// end of a block.
const (
	manifestBlock = 32 << 10
	chunkHeader   = 7
	// The types of chunks: a whole record, or its first, a middle, or its last part.
	fullChunk, firstChunk, lastChunk = 1, 2, 4
	// sector is what a disk writes wholly or not at all.
	sector = 512
)

// CheckManifest looks for damage in the MANIFEST, which lists the tables of the store.
func CheckManifest(fs vfs.FS, dir string) error {
	names, err := fs.List(dir)
	if err != nil {
		return nil // opening says what is wrong
	}
	name := currentManifest(names)
	if name == "" {
		return nil // likewise
	}
	return checkManifest(fs, fs.PathJoin(dir, name), 0)
}

// checkManifest looks for damage in a MANIFEST of which so many bytes are known to have been
// on disk. Pebble takes the first record that does not match its checksum for one that a crash
// cut off, ignores all records behind it, and removes the tables that only those records list:
// one flipped bit can empty a database. A crash can leave only the last record unfinished,
// since each record is synced before the next: either the file ends too early, or some
// sectors of the record were not written. So a broken record is damage if it was known to be
// on disk, if another record begins behind it, or if all of its sectors are there.
func checkManifest(fs vfs.FS, path string, promised int64) error {
	f, err := fs.Open(path)
	if err != nil {
		return err
	}
	whole, damaged, err := wholeManifest(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	name := fs.PathBase(path)
	switch {
	case damaged:
		return fmt.Errorf("the record at byte %d of %s does not fit its checksum", whole, name)
	case whole < promised:
		return fmt.Errorf("%s was on disk to byte %d, and can be read to byte %d", name, promised, whole)
	}
	return nil
}

// wholeManifest returns where the first chunk of a MANIFEST begins that is not whole, and
// reports whether no crash can have left it so.
func wholeManifest(f io.Reader) (whole int64, damaged bool, err error) {
	block := make([]byte, manifestBlock)
	broken := int64(-1)
	for offset := int64(0); ; offset += manifestBlock {
		n, err := io.ReadFull(f, block)
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return 0, false, err
		}
		if rest := block[:n]; broken >= 0 {
			damaged = beginsRecord(rest)
		} else if at := wholeChunks(rest); at < n {
			broken = offset + int64(at)
			damaged = !isTorn(rest[at:], at)
		}
		switch {
		case damaged, broken >= 0 && n < manifestBlock:
			return broken, damaged, nil
		case n < manifestBlock:
			return offset + int64(n), false, nil
		}
	}
}

// wholeChunks returns where in a block the first chunk begins that is not whole, or the end
// of the block if all are.
func wholeChunks(block []byte) int {
	at := 0
	for len(block)-at >= chunkHeader {
		size, ok := chunk(block[at:])
		if !ok {
			return at
		}
		at += size
	}
	if len(block) == manifestBlock {
		return len(block) // what is too short for a header fills the block up
	}
	return at
}

// chunk reads the chunk that b begins with.
func chunk(b []byte) (size int, ok bool) {
	size = chunkSize(b)
	if size > len(b) || b[6] < fullChunk || b[6] > lastChunk {
		return size, false
	}
	return size, chunkSum(b[6:size]) == binary.LittleEndian.Uint32(b)
}

// chunkSumAdded is what Pebble adds to the checksum of a chunk or a block.
const chunkSumAdded = 0xa282ead8

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func chunkSize(b []byte) int { return chunkHeader + int(binary.LittleEndian.Uint16(b[4:])) }

// chunkSum is the checksum of a chunk's type and payload.
func chunkSum(b []byte) uint32 {
	c := crc32.Checksum(b, castagnoli)
	return (c>>15 | c<<17) + chunkSumAdded
}

// isTorn reports whether what a block ends with, from its byte at, may be a chunk that was
// being written in a crash.
func isTorn(rest []byte, at int) bool {
	if beginsRecord(rest[1:]) {
		return false
	}
	if len(rest) < chunkHeader {
		return true
	}
	size := chunkSize(rest)
	if size > len(rest) { // cut off, unless it is the length that is wrong
		return chunkSum(rest[6:]) != binary.LittleEndian.Uint32(rest)
	}
	for from := 0; from < size; {
		to := min((at+from)/sector*sector+sector-at, size)
		if len(bytes.Trim(rest[from:to], "\x00")) == 0 {
			return true
		}
		from = to
	}
	return false
}

// beginsRecord reports whether a record begins at any byte.
func beginsRecord(b []byte) bool {
	for ; len(b) >= chunkHeader; b = b[1:] {
		if b[6] != fullChunk && b[6] != firstChunk {
			continue
		}
		if _, ok := chunk(b); ok {
			return true
		}
	}
	return false
}
