package layout

import (
	"encoding/binary"
	"fmt"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
)

const (
	snapshotMagic   = "memdbslt"
	snapshotVersion = 1
	// SnapshotHeadSize is that of magic, version, database, space, LSN, mark of the log, slots.
	SnapshotHeadSize = 8 + 4 + 16 + 2 + 8 + 8 + 4
	// HolderSize is that of a slot's version.
	HolderSize = 24
)

// SnapshotHead says whose snapshot a file is.
type SnapshotHead struct {
	DB    [16]byte // its ID
	Space uint16
	LSN   uint64
	Mark  uint64 // a hash of the log record of that LSN
	Slots uint32
}

// Encode is the head as the file begins with it.
func (h *SnapshotHead) Encode() []byte {
	b := append(make([]byte, 0, SnapshotHeadSize), snapshotMagic...)
	b = binary.LittleEndian.AppendUint32(b, snapshotVersion)
	b = append(b, h.DB[:]...)
	b = binary.LittleEndian.AppendUint16(b, h.Space)
	b = binary.LittleEndian.AppendUint64(b, h.LSN)
	b = binary.LittleEndian.AppendUint64(b, h.Mark)
	return binary.LittleEndian.AppendUint32(b, h.Slots)
}

// DecodeSnapshotHead reads one of [SnapshotHeadSize] bytes.
func DecodeSnapshotHead(b []byte) (h SnapshotHead, err error) {
	if len(b) != SnapshotHeadSize {
		return h, badSnapshot("it ends early")
	}
	if magic := string(b[:8]); magic != snapshotMagic {
		return h, badSnapshot("it begins with %q; a snapshot does with %q", magic, snapshotMagic)
	}
	if v := binary.LittleEndian.Uint32(b[8:]); v != snapshotVersion {
		return h, badSnapshot("it has version %d; this program reads %d", v, snapshotVersion)
	}
	return SnapshotHead{
		DB: [16]byte(b[12:]), Space: binary.LittleEndian.Uint16(b[28:]), LSN: binary.LittleEndian.Uint64(b[30:]),
		Mark: binary.LittleEndian.Uint64(b[38:]), Slots: binary.LittleEndian.Uint32(b[46:]),
	}, nil
}

// AppendHolder appends the version whose vector a slot has.
func AppendHolder(b []byte, v Version) []byte {
	b = binary.LittleEndian.AppendUint64(b, v.Seq)
	b = binary.LittleEndian.AppendUint64(b, v.Born)
	b = binary.LittleEndian.AppendUint32(b, v.Owner)
	return binary.LittleEndian.AppendUint32(b, v.Change)
}

// DecodeHolder reads one of [HolderSize] bytes.
func DecodeHolder(b []byte) Version {
	return Version{
		Seq: binary.LittleEndian.Uint64(b), Born: binary.LittleEndian.Uint64(b[8:]),
		Owner: binary.LittleEndian.Uint32(b[16:]), Change: binary.LittleEndian.Uint32(b[20:]),
	}
}

func badSnapshot(format string, args ...any) error {
	return &fault.Error{Kind: fault.ErrCorrupt, What: "read a snapshot of vectors", Why: fmt.Sprintf(format, args...)}
}
