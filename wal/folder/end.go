package folder

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/zeebo/xxh3"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/wal"
)

// An end record says how far the archive of a timeline reached, apart from its segments and bases: what is
// cut off, emptied or removed there is noticed by it. The archive had at least what the record says, and
// perhaps more. The record has two slots, which are written in turn, so that a crash leaves one of them
// whole. docs/format/segments.md describes every byte.
const (
	endSuffix = ".end"
	endMagic  = "memdbend"
	endSlot   = 512
	endSize   = 8 + 8 + 16 + 8 + 8 + 8 + 8 // without its checksum
)

// endRecord is a slot of an end record.
type endRecord struct {
	count uint64 // of the writes
	wal.End
	frame uint64 // the checksum of the newest frame of batches, 0 where that is not known
}

func (e *endRecord) encode(t wal.Timeline) []byte {
	b := append(make([]byte, 0, endSlot), endMagic...)
	b = binary.LittleEndian.AppendUint64(b, e.count)
	b = append(b, t[:]...)
	for _, n := range []uint64{e.Number, e.LSN, uint64(e.Time), e.frame} {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	b = binary.LittleEndian.AppendUint64(b, xxh3.Hash(b))
	return append(b, make([]byte, endSlot-len(b))...)
}

// decodeEnd reads a slot, and reports whether it is whole and of a timeline.
func decodeEnd(b []byte, t wal.Timeline) (e endRecord, ok bool) {
	if len(b) < endSize+8 || string(b[:8]) != endMagic || [16]byte(b[16:32]) != t || xxh3.Hash(b[:endSize]) != binary.LittleEndian.Uint64(b[endSize:]) {
		return e, false
	}
	number := func(at int) uint64 { return binary.LittleEndian.Uint64(b[at:]) }
	e.count, e.Number, e.LSN, e.Time, e.frame = number(8), number(32), number(40), int64(number(48)), number(56)
	return e, true
}

var errEnd = &fault.Error{
	Kind: fault.ErrCorrupt, What: "read the end record of an archive", Why: "it is missing or damaged", Do: "restore the archive from a copy, or archive the database again",
}

// readEnd reads the end record of a timeline: the newest slot, with the count 0 where there is none. An
// archive whose identity says that it has end records has one for each timeline; errEnd otherwise.
func readEnd(f vfs.FS, dir string, t wal.Timeline, id *identity) (e endRecord, err error) {
	file, err := f.Open(f.PathJoin(dir, t.String()+endSuffix))
	if errors.Is(err, fs.ErrNotExist) {
		if id.Ends {
			return e, errEnd
		}
		return e, nil
	}
	if err != nil {
		return e, err
	}
	defer func() { _ = file.Close() }()
	b, err := io.ReadAll(io.LimitReader(file, 2*endSlot))
	if err != nil {
		return e, err
	}
	for ; len(b) >= endSlot; b = b[endSlot:] {
		if one, ok := decodeEnd(b[:endSlot], t); ok && one.count > e.count {
			e = one
		}
	}
	if e.count == 0 {
		return e, errEnd
	}
	return e, nil
}

// beginEnd opens the end record of the timeline of the archive, and makes it where it is missing or
// damaged, with what the files have.
func (a *Archive) beginEnd(id *identity, has wal.End) error {
	if err := a.closeEnd(); err != nil {
		return err
	}
	path := a.fs.PathJoin(a.path, a.timeline.String()+endSuffix)
	e, err := readEnd(a.fs, a.path, a.timeline, id)
	if err != nil && !errors.Is(err, errEnd) {
		return err
	}
	if e.count == 0 {
		if e, err = makeEnd(a.fs, a.path, a.timeline, has); err != nil {
			return err
		}
	}
	a.had = e
	a.end, err = a.fs.OpenReadWrite(path, vfs.WriteCategoryUnspecified)
	return err
}

func makeEnd(f vfs.FS, dir string, t wal.Timeline, has wal.End) (endRecord, error) {
	e := endRecord{count: 1, End: has}
	return e, writeWhole(f, dir, t.String()+endSuffix, append(make([]byte, endSlot), e.encode(t)...))
}

// recordEnds makes an archive of before version 0.4 one that records its ends: of each timeline, what its
// files have now.
func (a *Archive) recordEnds(id *identity) error {
	_, all, err := timelines(a.fs, a.path)
	if err != nil {
		return err
	}
	for _, t := range all {
		if _, err := makeEnd(a.fs, a.path, t.ID, t.End); err != nil {
			return err
		}
	}
	id.Ends = true
	return id.write(a.fs, a.path)
}

// reached notes how far the archive is, behind a frame that is on disk; sum is the checksum of a frame of
// batches. It waits for no sync: readers see the record at once, and after a loss of power it may say less
// than the archive has.
func (a *Archive) reached(f *wal.Frame, sum uint64) error {
	e := endRecord{count: a.had.count + 1, End: wal.End{Number: f.After().Number, LSN: max(f.LSN, a.had.LSN), Time: max(f.Time, a.had.Time)}}
	if e.Number < a.had.Number { // what the archive had is not there again yet
		return nil
	}
	if f.Kind == wal.Batches {
		e.frame = sum
	} else if e.Number == a.had.Number {
		e.frame = a.had.frame
	}
	if _, err := a.end.WriteAt(e.encode(a.timeline), int64(e.count%2)*endSlot); err != nil {
		return err
	}
	a.had = e
	return nil
}

// closeEnd makes the end record durable.
func (a *Archive) closeEnd() error {
	if a.end == nil {
		return nil
	}
	end := a.end
	a.end = nil
	return errors.Join(end.Sync(), end.Close())
}

// Had is how far the archive of the timeline reached when it was written last, zero where that is not
// recorded: up to version 0.3 archives did not do so.
func (c *Cursor) Had() (wal.End, error) {
	had, err := c.had()
	return had.End, err
}

func (c *Cursor) had() (e endRecord, err error) {
	id, err := readIdentity(c.fs, c.path)
	if err == nil {
		e, err = readEnd(c.fs, c.path, c.timeline, id)
	}
	return e, err
}

// short returns a *wal.ShortError where the archive had more than what comes before a position.
func (c *Cursor) short(at wal.Position) error {
	had, err := c.had()
	switch {
	case errors.Is(err, errEnd):
		return &wal.ShortError{Why: "its end record is missing or damaged, so that how far it reached is not known"}
	case err != nil:
		return err
	case at.Number < had.Number || at.Parts > 0:
		return &wal.ShortError{Had: had.End, Why: fmt.Sprintf("it reached LSN %d, batch %d, and what can be read ends at batch %d", had.LSN, had.Number, at.Number)}
	case at.Number == had.Number && c.newest == had.Number && had.frame != 0 && had.frame != c.sum:
		return &wal.ShortError{Had: had.End, Why: fmt.Sprintf("batch %d is another one than was archived", had.Number)}
	}
	return nil
}
