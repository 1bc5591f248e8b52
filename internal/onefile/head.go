package onefile

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/zeebo/xxh3"
)

const (
	// Magic begins a file, and so does its tail.
	Magic = "memdbone"
	// Version is that of the form. A file of version 1 has no tail of commits.
	Version = 2
	// HeadSize is that of the head and of the tail, in bytes.
	HeadSize = 128

	// mostIdentity and mostIndex bound what a head may promise. An index has some 100 bytes for a
	// block of 32 KiB.
	mostIdentity = 1 << 20
	mostIndex    = 1 << 30
)

// Head is what a file says of itself.
type Head struct {
	// Number is that of the snapshot: one more than that of the snapshot before.
	Number uint64
	// LSN is that of the newest commit in the snapshot, 0 if there is none.
	LSN uint64
	// Timeline is the ID of the history of commits that the LSN counts in.
	Timeline [16]byte
	// Identity is what memdb.json is in a folder.
	Identity []byte
}

// head is a Head with what follows it in the file.
type head struct {
	Head
	version            uint32
	sum                uint64 // its checksum, which commits name that are appended to the file
	length             int64  // of the file as it was written, without what makes room for commits
	identityLen        uint32
	identitySum        uint64
	indexLen, blocks   uint32
	indexSum           uint64
	keys, unpackedSize uint64
}

func (h *head) encode() []byte {
	b := make([]byte, 0, HeadSize)
	b = append(b, Magic...)
	le := binary.LittleEndian
	b = le.AppendUint32(b, h.version)
	b = le.AppendUint32(b, h.blocks)
	b = le.AppendUint64(b, h.Number)
	b = le.AppendUint64(b, h.LSN)
	b = append(b, h.Timeline[:]...)
	b = le.AppendUint64(b, uint64(h.length))
	b = le.AppendUint64(b, h.keys)
	b = le.AppendUint64(b, h.unpackedSize)
	b = le.AppendUint32(b, h.identityLen)
	b = le.AppendUint32(b, h.indexLen)
	b = le.AppendUint64(b, h.identitySum)
	b = le.AppendUint64(b, h.indexSum)
	b = append(b, make([]byte, HeadSize-8-len(b))...)
	h.sum = xxh3.Hash(b)
	return le.AppendUint64(b, h.sum)
}

// NewerError is returned for a file that a newer memdb has written.
type NewerError struct{ Version uint32 }

// Error names both versions.
func (e *NewerError) Error() string {
	return fmt.Sprintf("its form is version %d, this memdb knows %d", e.Version, Version)
}

var errNoMagic = errors.New("it does not begin with " + Magic)

// decodeHead reads a head or a tail. A newer version is told only by a head that is whole: all
// versions have the checksum in its last 8 bytes.
func decodeHead(b []byte) (h head, err error) {
	if len(b) < HeadSize {
		return h, fmt.Errorf("it has %d of %d bytes", len(b), HeadSize)
	}
	b = b[:HeadSize]
	if string(b[:len(Magic)]) != Magic {
		return h, errNoMagic
	}
	le := binary.LittleEndian
	if h.sum = xxh3.Hash(b[:HeadSize-8]); h.sum != le.Uint64(b[HeadSize-8:]) {
		return h, errors.New("it does not fit its checksum")
	}
	if h.version = le.Uint32(b[8:]); h.version == 0 || h.version > Version {
		return h, &NewerError{h.version}
	}
	h.blocks = le.Uint32(b[12:])
	h.Number, h.LSN = le.Uint64(b[16:]), le.Uint64(b[24:])
	copy(h.Timeline[:], b[32:])
	h.length = int64(le.Uint64(b[48:]))
	h.keys, h.unpackedSize = le.Uint64(b[56:]), le.Uint64(b[64:])
	h.identityLen, h.indexLen = le.Uint32(b[72:]), le.Uint32(b[76:])
	h.identitySum, h.indexSum = le.Uint64(b[80:]), le.Uint64(b[88:])
	if h.identityLen > mostIdentity || h.indexLen > mostIndex || h.length < h.body() {
		return h, errors.New("its sizes cannot be")
	}
	return h, nil
}

// body is where the blocks begin, plus the tail: the least that the file has.
func (h *head) body() int64 { return 2*HeadSize + int64(h.identityLen) + int64(h.indexLen) }

// Is reports whether bytes that a file begins or ends with are those of one that this package
// wrote, whole or not.
func Is(begin, end []byte) bool {
	for _, b := range [][]byte{begin, end} {
		if len(b) >= len(Magic) && string(b[:len(Magic)]) == Magic {
			return true
		}
	}
	return false
}
