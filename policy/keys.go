package policy

import (
	"encoding/binary"

	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/part"
)

const (
	kind part.Kind = 'y' // section | number

	sectionPolicy byte = 0 // version, 4 bytes
	sectionRun    byte = 1 // LSN, 8 bytes
	sectionJob    byte = 2 // job, 1 byte
	sectionTrash  byte = 3 // LSN, 8 bytes
	sections      byte = 4 // no section: one past the last

	opPolicy part.Op = 41 // the policy as it is stored
	opRun    part.Op = 42 // the run as it is stored
	opJob    part.Op = 45 // job, 1 byte, and the value as it is stored
)

func section(v part.View, s byte) []byte { return append(v.Key(byte(kind), 9), s) }

func policyKey(v part.View, version uint32) []byte {
	return binary.BigEndian.AppendUint32(section(v, sectionPolicy), version)
}

func runKey(v part.View, lsn uint64) []byte {
	return binary.BigEndian.AppendUint64(section(v, sectionRun), lsn)
}

func jobKey(v part.View, j Job) []byte { return append(section(v, sectionJob), byte(j)) }

// parseKey returns the section and the number of a key, false for a malformed one.
func parseKey(k []byte) (s byte, number uint64, ok bool) {
	if len(k) <= layout.KeyHeader {
		return 0, 0, false
	}
	s, k = k[layout.KeyHeader], k[layout.KeyHeader+1:]
	switch {
	case s == sectionPolicy && len(k) == 4:
		return s, uint64(binary.BigEndian.Uint32(k)), true
	case (s == sectionRun || s == sectionTrash) && len(k) == 8:
		return s, binary.BigEndian.Uint64(k), true
	case s == sectionJob && len(k) == 1:
		return s, uint64(k[0]), true
	}
	return 0, 0, false
}
