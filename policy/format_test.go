package policy

import (
	"encoding/binary"
	"encoding/hex"
	commandline "flag"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/scope"
)

var updateGolden = commandline.Bool("update", false, "write the golden encodings anew")

// trashOfLayout6 is what was written before layout 7.
const trashOfLayout6 = "01f6a1d5edee66000103ac02c0e1820507000000000000d03f0580a0d5edee66ab02"

const goldenPath = "testdata/policy.golden"

// firstKeys begins keys in the first generation.
type firstKeys struct{ part.View }

func (firstKeys) Key(kind byte, _ int) []byte {
	return binary.BigEndian.AppendUint16([]byte{kind}, 1)
}

// TestGoldenEncodings holds keys and values to the bytes that databases have.
func TestGoldenEncodings(t *testing.T) {
	var v firstKeys
	p := Default()
	p.Version, p.LSN = 3, 300
	stored, err := p.encode()
	if err != nil {
		t.Fatal(err)
	}
	run := Run{At: 1767225600123, Rate: .05, Idle: 604800000, Floor: .1, Policy: 3, Scope: scope.Scope{Agent: "a1"}, Owners: []uint32{1, 300}}
	of := layout.Version{Owner: 3, Seq: 300, Born: 0xa0b0c0, Change: 7}
	trash := Trash{
		Until: 1767225600123, Before: 299,
		Things: []Trashed{{Version: of, Confidence: .25, Count: 5, Last: 1767225600000, Into: 299}},
		Heirs:  []Heir{{Version: of, Importance: .5, Pinned: true, Confidence: .75, Confident: true}},
	}
	var text strings.Builder
	for _, e := range []struct {
		name  string
		bytes []byte
	}{
		{"key policy", policyKey(v, 3)},
		{"key consolidation", runKey(v, 300)},
		{"key job", jobKey(v, JobEvict)},
		{"key trash", trashKey(v, 300)},
		{"policy", stored},
		{"consolidation", run.encode()},
		{"job", encodeJob(1767225600123)},
		{"trash", trash.encode()},
	} {
		fmt.Fprintf(&text, "%s:\n  %s\n\n", e.name, hex.EncodeToString(e.bytes))
	}
	if *updateGolden {
		if err := os.WriteFile(goldenPath, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(goldenPath)
	if err != nil {
		t.Fatal(err)
	}
	if text.String() != string(want) {
		t.Errorf("encoded as\n%s\nwant\n%s", text.String(), want)
	}
	for s, key := range map[byte][]byte{sectionPolicy: policyKey(v, 3), sectionRun: runKey(v, 3), sectionJob: jobKey(v, 3), sectionTrash: trashKey(v, 3)} {
		if got, n, ok := parseKey(key); got != s || n != 3 || !ok {
			t.Errorf("the key %x is read as %d of %d, %v", key, n, got, ok)
		}
		if _, _, ok := parseKey(key[:len(key)-1]); ok {
			t.Errorf("the key %x is read without its end", key)
		}
	}
	if got, err := decodeTrash(0, trash.encode()); err != nil || !reflect.DeepEqual(got, trash) {
		t.Errorf("%+v, %v, want %+v", got, err, trash)
	}
	alone, err := hex.DecodeString(trashOfLayout6)
	if err != nil {
		t.Fatal(err)
	}
	trash.Before, trash.Heirs = 0, nil
	if got, err := decodeTrash(0, alone); err != nil || !reflect.DeepEqual(got, trash) {
		t.Errorf("trash of layout 6: %+v, %v, want %+v", got, err, trash)
	}
}
