package layout

import (
	"encoding/binary"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
)

// LogMarkKey is the key of the mark of the log that a database is kept in, if it is: each batch writes it.
var LogMarkKey = metaKey("log")

// LogMark says where the log of a database was when a batch was applied: behind which message of it.
type LogMark struct {
	// Epoch is that of the owner, Sequence and Sum are those of the message.
	Epoch, Sequence, Sum uint64
}

const (
	logMarkVersion = 1
	logMarkSize    = 1 + 3*8
)

// Encode returns the value of LogMarkKey: a version (1 byte), the epoch, the sequence and the sum (8 bytes each,
// big-endian).
func (m LogMark) Encode() []byte {
	b := append(make([]byte, 0, logMarkSize), logMarkVersion)
	for _, n := range []uint64{m.Epoch, m.Sequence, m.Sum} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	return b
}

// DecodeLogMark reads what Encode wrote. It returns ErrCorrupt for damaged bytes, and ErrNewerLayout for a later
// version.
func DecodeLogMark(b []byte) (m LogMark, err error) {
	const doing = "read how far the log was applied"
	if len(b) > 0 && b[0] > logMarkVersion {
		return m, &fault.Error{Kind: fault.ErrNewerLayout, What: doing, Do: "use a newer memdb"}
	}
	if len(b) != logMarkSize || b[0] != logMarkVersion {
		return m, &fault.Error{Kind: fault.ErrCorrupt, What: doing, Why: "its bytes are damaged", Do: "remove the folder: it is made again from the log"}
	}
	for i, n := range []*uint64{&m.Epoch, &m.Sequence, &m.Sum} {
		*n = binary.BigEndian.Uint64(b[1+8*i:])
	}
	return m, nil
}
