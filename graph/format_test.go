package graph

import (
	"errors"
	"reflect"
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/golden"
	"github.com/seed-7aedc3ff/memdb/scope"
)

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
	begun = owned{Owner: adas.Owner, entities: 2, relations: 300, lastEntity: 4, lastRelation: 5, lastType: adas.lastType, born: 300}
	moved = []movedLink{{seq: 7}, {seq: 300, had: true}}

	imported = undoing{was: ada, before: &ada, after: &ada, links: moved, ended: []endedTie{
		{arc: arc{from: 300, typ: 2, to: 1, number: 4}, tie: full},
		{arc: arc{from: 300, typ: 2, to: 5}, tie: plain, had: &plain, made: 9, otherMerged: true},
	}}
)

// TestGoldenEncodings holds keys and values to the bytes that databases have.
func TestGoldenEncodings(t *testing.T) {
	var v golden.Keys
	a, own := arc{from: 1, typ: 2, to: 300}, arc{from: 1, typ: 2, to: 300, number: 4}
	golden.Compare(t, "testdata/graph.golden", "Encodings of the graph, see docs/format. The first generation.", []golden.Encoding{
		{Name: "key owner", Bytes: ownerKey(v, 3)},
		{Name: "key type", Bytes: typeKey(v, 3, classRelation, 2)},
		{Name: "key type by name", Bytes: typeNameKey(v, 3, classEntity, "person")},
		{Name: "key ID", Bytes: idKey(v, 3, secID, "ada")},
		{Name: "key entity", Bytes: entityKey(v, 3, 300)},
		{Name: "key superseded entity", Bytes: oldKey(v, 3, 300, 9)},
		{Name: "key name", Bytes: nameKey(v, 3, "ada", 300)},
		{Name: "key member", Bytes: memberKey(v, 3, 2, 300)},
		{Name: "key ID of a relation", Bytes: idKey(v, 3, secGivenID, "own")},
		{Name: "key former ID of a relation", Bytes: idKey(v, 3, secFormerID, "own")},
		{Name: "key link", Bytes: linkKey(v, 3, 300, 7)},
		{Name: "key link from the memory", Bytes: linkedKey(v, 3, 7, 300)},
		{Name: "key merge", Bytes: mergedKey(v, 3, 300, 1)},
		{Name: "key memory of a relation", Bytes: saidKey(v, 3, a, 7)},
		{Name: "key relation of a memory", Bytes: saidByKey(v, 3, 7, a)},
		{Name: "key of what a memory in the trash had", Bytes: keptKey(v, 3, 7)},
		{Name: "key relation without a memory", Bytes: looseArcKey(v, 3, a, 7)},
		{Name: "key relation", Bytes: outKey(v, 3, a)},
		{Name: "key relation from its other end", Bytes: inKey(v, 3, a)},
		{Name: "key relation with an ID", Bytes: outKey(v, 3, own)},
		{Name: "key superseded relation", Bytes: oldArcKey(v, 3, secOldOut, own, 9)},
		{Name: "key superseded relation from its other end", Bytes: oldArcKey(v, 3, secOldIn, own.reversed(), 9)},
		{Name: "key deleted entity", Bytes: doomedKey(v, 3, 300)},
		{Name: "owner", Bytes: adas.encode()},
		{Name: "owner whose graph began at LSN 300", Bytes: begun.encode()},
		{Name: "entity", Bytes: ada.encode()},
		{Name: "forward reference", Bytes: later.encode()},
		{Name: "extracted entity", Bytes: found.encode()},
		{Name: "key entity that has lost a link", Bytes: looseKey(v, 3, 300, 7)},
		{Name: "merged entity", Bytes: gone.encode()},
		{Name: "relation", Bytes: plain.encode(nil)},
		{Name: "superseded relation with all", Bytes: full.encode(nil)},
		{Name: "relation of an ID", Bytes: encodeArc(own)},
		{Name: "merge", Bytes: encodeMoved(moved)},
		{Name: "merge that an import brought", Bytes: imported.encode()},
		{Name: "extracted relation", Bytes: told.encode(nil)},
		{Name: "what a memory in the trash had", Bytes: trash.encode(300)},
		{Name: "derived ID", Bytes: []byte(derivedID("ada", "knows", "bob"))},
	})
}

// TestDecode reads what was encoded, and refuses each cut of it with an error.
func TestDecode(t *testing.T) {
	var v golden.Keys
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
	for _, o := range []owned{adas, begun} {
		if got, err := decodeOwned(o.encode()); err != nil || got != o {
			t.Errorf("%+v, %v", got, err)
		}
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
