package sqlitefile

import (
	"encoding/binary"
	"errors"
	"io"
	"maps"
)

// A log is a write-ahead log beside a file: pages that were written since the last checkpoint.
type log struct {
	Section
	header [logHeader]byte
	size   int
	at     map[uint32]int64 // where the newest committed version of a page is
	pages  uint32           // of the file as of the last commit, 0 where there is none
}

const (
	logHeader   = 32
	frameHeader = 24
	logMagic    = 0x377f0682 // and one more where the checksums are of big-endian words
	logVersion  = 3007000
)

// openLog reads the frames of a log up to the last commit. What is behind it, or of an older
// round, was never committed, and is passed by.
func openLog(s Section, pageSize int) (*log, error) {
	l := &log{Section: s, size: pageSize, at: map[uint32]int64{}}
	n, err := s.ReadAt(l.header[:], 0)
	if n < logHeader {
		if err == nil || errors.Is(err, io.EOF) {
			return l, nil // nothing was written to it
		}
		return nil, err
	}
	magic := binary.BigEndian.Uint32(l.header[:])
	if magic&^1 != logMagic || binary.BigEndian.Uint32(l.header[4:]) != logVersion {
		return nil, damaged("its write-ahead log is none")
	}
	var order binary.ByteOrder = binary.LittleEndian
	if magic&1 == 1 {
		order = binary.BigEndian
	}
	sum := checksum(order, [2]uint32{}, l.header[:24])
	if !sumIs(sum, l.header[24:]) {
		return l, nil // its begin was not yet on disk
	}
	if int(binary.BigEndian.Uint32(l.header[8:])) != pageSize {
		return nil, damaged("its write-ahead log has pages of another size")
	}
	frame := make([]byte, frameHeader+pageSize)
	begun := map[uint32]int64{}
	for at := int64(logHeader); at+int64(len(frame)) <= s.Size; at += int64(len(frame)) {
		if _, err := s.ReadAt(frame, at); err != nil {
			return nil, err
		}
		if string(frame[8:16]) != string(l.header[16:24]) {
			break
		}
		sum = checksum(order, checksum(order, sum, frame[:8]), frame[frameHeader:])
		if !sumIs(sum, frame[16:]) {
			break
		}
		begun[binary.BigEndian.Uint32(frame)] = at + frameHeader
		if pages := binary.BigEndian.Uint32(frame[4:]); pages > 0 { // a commit
			l.pages = pages
			maps.Copy(l.at, begun)
			clear(begun)
		}
	}
	return l, nil
}

// page reads a page, if the log has it.
func (l *log) page(n uint32, b []byte) (bool, error) {
	at, ok := l.at[n]
	if !ok {
		return false, nil
	}
	_, err := l.ReadAt(b, at)
	return true, err
}

// changed reports whether the log has begun anew.
func (l *log) changed() (bool, error) {
	var now [logHeader]byte
	n, err := l.ReadAt(now[:], 0)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n == logHeader && now != l.header, err
}

func checksum(order binary.ByteOrder, s [2]uint32, b []byte) [2]uint32 {
	for ; len(b) >= 8; b = b[8:] {
		s[0] += order.Uint32(b) + s[1]
		s[1] += order.Uint32(b[4:]) + s[0]
	}
	return s
}

func sumIs(s [2]uint32, b []byte) bool {
	return s[0] == binary.BigEndian.Uint32(b) && s[1] == binary.BigEndian.Uint32(b[4:])
}
