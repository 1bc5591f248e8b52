package exchange

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
)

// Fingerprint names an input by all its bytes, for Options.Origin.
func Fingerprint(r io.Reader) (string, error) {
	h := sha256.New()
	if _, err := io.Copy(h, r); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// lineID is the ID of a line that has none: a UUID (version 8) made of the input
// and the number of the line, the same whenever that input is read.
func lineID(origin string, line int) string {
	sum := sha256.Sum256(binary.AppendUvarint([]byte(origin+"\n"), uint64(line)))
	b := sum[:16]
	b[6], b[8] = b[6]&0x0f|0x80, b[8]&0x3f|0x80 // version 8, the RFC's variant
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
