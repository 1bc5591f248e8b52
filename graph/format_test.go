package graph

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	commandline "flag"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/scope"
)

var updateGolden = commandline.Bool("update", false, "write the golden encodings anew")

const goldenPath = "testdata/graph.golden"

// firstKeys begins keys in the first generation.
type firstKeys struct{ part.View }

func (firstKeys) Key(kind byte, _ int) []byte {
	return binary.BigEndian.AppendUint16([]byte{kind}, 1)
}

var (
	ada = node{
		first: 3, born: 9, created: 1767225600000, updated: 1767225600123, typ: 2, id: "ada", name: "Ada", aliases: []string{"A.", "Countess"},
		properties: []byte(`{"a":1}`),
	}
	found = node{extracted: true, first: 3, born: 9, created: 1767225600000, updated: 1767225600000, typ: 2, id: "ghent", name: "Ghent", properties: []byte{}}
	later = node{forward: true, id: "later"}
	gone  = node{forward: true, id: "gone", first: 3, born: 9, into: 300}
	plain = tie{born: 9, created: 1767225600000}
	full  = tie{
		born: 9, created: 1767225600000, from: -86400000, to: 1767225600000, id: "own", properties: []byte(`{}`), died: 12, diedAt: 1767225600123,
	}
	told  = tie{extracted: true, born: 9, created: 1767225600000}
	trash = held{
		links: []heldLink{{node: found, value: []byte{2, 1}, moved: true}, {node: ada, value: []byte{2}}},
		said:  []heldSaid{{arc: arc{typ: 2}, from: "ada", to: "bob", tie: told, moved: true}},
	}
	adas  = owned{Owner: scope.Owner{User: "u", Agent: "a"}, entities: 2, relations: 300, lastEntity: 4, lastRelation: 5, lastType: [3]uint32{0, 6, 7}}
	moved = []movedLink{{seq: 7}, {seq: 300, had: true}}

	imported = undoing{was: ada, before: &ada, after: &ada, links: moved, ended: []endedTie{
		{arc: arc{from: 300, typ: 2, to: 1, number: 4}, tie: full},
		{arc: arc{from: 300, typ: 2, to: 5}, tie: plain, had: &plain, made: 9, otherMerged: true},
	}}
)

// TestGoldenEncodings holds keys and values to the bytes that databases have.
func TestGoldenEncodings(t *testing.T) {
	var v firstKeys
	a, own := arc{from: 1, typ: 2, to: 300}, arc{from: 1, typ: 2, to: 300, number: 4}
	all := []struct {
		name  string
		bytes []byte
	}{
		{"key owner", ownerKey(v, 3)},
		{"key type", typeKey(v, 3, classRelation, 2)},
		{"key type by name", typeNameKey(v, 3, classEntity, "person")},
		{"key ID", idKey(v, 3, secID, "ada")},
		{"key entity", entityKey(v, 3, 300)},
		{"key superseded entity", oldKey(v, 3, 300, 9)},
		{"key name", nameKey(v, 3, "ada", 300)},
		{"key member", memberKey(v, 3, 2, 300)},
		{"key ID of a relation", idKey(v, 3, secGivenID, "own")},
		{"key former ID of a relation", idKey(v, 3, secFormerID, "own")},
		{"key link", linkKey(v, 3, 300, 7)},
		{"key link from the memory", linkedKey(v, 3, 7, 300)},
		{"key merge", mergedKey(v, 3, 300, 1)},
		{"key memory of a relation", saidKey(v, 3, a, 7)},
		{"key relation of a memory", saidByKey(v, 3, 7, a)},
		{"key of what a memory in the trash had", keptKey(v, 3, 7)},
		{"key relation without a memory", looseArcKey(v, 3, a, 7)},
		{"key relation", outKey(v, 3, a)},
		{"key relation from its other end", inKey(v, 3, a)},
		{"key relation with an ID", outKey(v, 3, own)},
		{"key superseded relation", oldArcKey(v, 3, secOldOut, own, 9)},
		{"key superseded relation from its other end", oldArcKey(v, 3, secOldIn, own.reversed(), 9)},
		{"key deleted entity", doomedKey(v, 3, 300)},
		{"owner", adas.encode()},
		{"entity", ada.encode()},
		{"forward reference", later.encode()},
		{"extracted entity", found.encode()},
		{"key entity that has lost a link", looseKey(v, 3, 300, 7)},
		{"merged entity", gone.encode()},
		{"relation", plain.encode(nil)},
		{"superseded relation with all", full.encode(nil)},
		{"relation of an ID", encodeArc(own)},
		{"merge", encodeMoved(moved)},
		{"merge that an import brought", imported.encode()},
		{"extracted relation", told.encode(nil)},
		{"what a memory in the trash had", trash.encode(300)},
		{"derived ID", []byte(derivedID("ada", "knows", "bob"))},
	}
	var text strings.Builder
	for _, e := range all {
		fmt.Fprintf(&text, "%s:\n  %s\n\n", e.name, hex.EncodeToString(e.bytes))
	}
	if *updateGolden {
		if err := os.WriteFile(goldenPath, []byte(text.String()), 0o600); err != nil {
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
}

// TestDecode reads what was encoded, and refuses each cut of it with an error.
func TestDecode(t *testing.T) {
	var v firstKeys
	own := arc{from: 1, typ: 2, to: 300, number: 4}
	if a, born, ok := parseArc(oldArcKey(v, 3, secOldOut, own, 9)); a != own || born != 9 || !ok {
		t.Error(a, born, ok)
	}
	if a, born, ok := parseArc(inKey(v, 3, own)); a != own.reversed() || born != 0 || !ok {
		t.Error(a, born, ok)
	}
	if name, num, ok := parseNameKey(nameKey(v, 3, "ada", 300)); name != "ada" || num != 300 || !ok {
		t.Error(name, num, ok)
	}
	if a, err := decodeArc(encodeArc(own)); err != nil || a != own {
		t.Error(a, err)
	}
	for _, n := range []node{ada, found, later, gone} {
		if got, err := decodeNode(n.encode()); err != nil || !reflect.DeepEqual(got, n) {
			t.Errorf("%+v, %v; want %+v", got, err, n)
		}
	}
	for _, r := range []tie{plain, full, told} {
		if got, err := decodeTie(r.encode(nil)); err != nil || !reflect.DeepEqual(got, r) {
			t.Errorf("%+v, %v; want %+v", got, err, r)
		}
	}
	if got, err := decodeOwned(adas.encode()); err != nil || got != adas {
		t.Errorf("%+v, %v", got, err)
	}
	if got, imported, err := decodeMerge(encodeMoved(moved)); err != nil || imported || !reflect.DeepEqual(got.links, moved) {
		t.Errorf("%+v, %v, %v", got, imported, err)
	}
	if got, is, err := decodeMerge(imported.encode()); err != nil || !is || !reflect.DeepEqual(*got, imported) {
		t.Errorf("%+v, %v, %v", got, is, err)
	}
	if got, into, err := decodeHeld(trash.encode(300)); err != nil || into != 300 || !reflect.DeepEqual(got, trash) {
		t.Errorf("%+v, %v, %v", got, into, err)
	}
	for what, of := range map[string]struct {
		b      []byte
		rest   int
		decode func([]byte) error
	}{
		"entity":                       {ada.encode(), len(ada.properties), func(b []byte) error { _, err := decodeNode(b); return err }},
		"relation":                     {full.encode(nil), 0, func(b []byte) error { _, err := decodeTie(b); return err }},
		"owner":                        {adas.encode(), 0, func(b []byte) error { _, err := decodeOwned(b); return err }},
		"merge":                        {encodeMoved(moved), 0, func(b []byte) error { _, _, err := decodeMerge(b); return err }},
		"merge that an import brought": {imported.encode(), 0, func(b []byte) error { _, _, err := decodeMerge(b); return err }},
		"trash":                        {trash.encode(300), 0, func(b []byte) error { _, _, err := decodeHeld(b); return err }},
		"arc":                          {encodeArc(own), 0, func(b []byte) error { _, err := decodeArc(b); return err }},
	} {
		for n := range len(of.b) - of.rest {
			if err := of.decode(of.b[:n]); !errors.Is(err, fault.ErrCorrupt) {
				t.Errorf("%s, %d of %d bytes: %v", what, n, len(of.b), err)
			}
		}
		if what == "arc" {
			continue // it has no version
		}
		if err := of.decode(append([]byte{of.b[0] + 1}, of.b[1:]...)); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%s of another version: %v", what, err)
		}
	}
}
