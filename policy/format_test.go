package policy

import (
	"encoding/hex"
	"reflect"
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/golden"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// trashOfLayout6 is what was written before layout 7.
const trashOfLayout6 = "01f6a1d5edee66000103ac02c0e1820507000000000000d03f0580a0d5edee66ab02"

// TestGoldenEncodings holds keys and values to the bytes that databases have.
func TestGoldenEncodings(t *testing.T) {
	var v golden.Keys
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
	golden.Compare(t, "testdata/policy.golden", "Encodings of policies, see docs/format. The first generation.", []golden.Encoding{
		{Name: "key policy", Bytes: policyKey(v, 3)},
		{Name: "key consolidation", Bytes: runKey(v, 300)},
		{Name: "key job", Bytes: jobKey(v, JobEvict)},
		{Name: "key trash", Bytes: trashKey(v, 300)},
		{Name: "policy", Bytes: stored},
		{Name: "consolidation", Bytes: run.encode()},
		{Name: "job", Bytes: encodeJob(1767225600123)},
		{Name: "trash", Bytes: trash.encode()},
	})
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
