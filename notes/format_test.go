package notes

import (
	"encoding/binary"
	"encoding/hex"
	commandline "flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/part"
)

var updateGolden = commandline.Bool("update", false, "write the golden encodings anew")

const goldenPath = "testdata/notes.golden"

// firstKeys begins keys in the first generation.
type firstKeys struct{ part.View }

func (firstKeys) Key(kind byte, _ int) []byte {
	return binary.BigEndian.AppendUint16([]byte{kind}, 1)
}

// TestGoldenEncodings holds keys and values to the bytes that databases have.
func TestGoldenEncodings(t *testing.T) {
	var v firstKeys
	var b strings.Builder
	for _, e := range []struct {
		name  string
		bytes []byte
	}{
		{"key of a memory", seqKey(v, 3, 70000)},
		{"key of a number", numberKey(v, 3, 300)},
		{"key of the last number", lastKey(v, 3)},
		{"number", encode(300)},
	} {
		fmt.Fprintf(&b, "%s: %s\n", e.name, hex.EncodeToString(e.bytes))
	}
	if *updateGolden {
		if err := os.WriteFile(goldenPath, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(goldenPath)
	if err != nil || b.String() != string(want) {
		t.Errorf("encodings differ from %s, %v:\n%s", goldenPath, err, b.String())
	}
}

func TestParseKey(t *testing.T) {
	var v firstKeys
	for _, k := range [][]byte{seqKey(v, 3, 7), numberKey(v, 3, 1), lastKey(v, 3)} {
		if p, ok := parseKey(k); !ok || p.owner != 3 {
			t.Errorf("%x: %+v, %v", k, p, ok)
		}
	}
	for _, k := range [][]byte{nil, {kindNote}, v.Key(kindNote, 0), lastKey(v, 3)[:6], append(lastKey(v, 3), 1), seqKey(v, 3, 7)[:12]} {
		if p, ok := parseKey(k); ok {
			t.Errorf("%x is read as %+v", k, p)
		}
	}
	for _, b := range [][]byte{nil, {0}, {1, 1}, {0x80}} {
		if n, err := decode(b); err == nil {
			t.Errorf("%x is read as %d", b, n)
		}
	}
}
