package invindex

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
)

// TestFindField: the documents with any value of a field, of chunks in memory and of
// sealed ones, below the snapshot's mark.
func TestFindField(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 7))
	x, store := New(Config{Prefix: []byte("i1")}), newMemStore()
	want := map[uint16]*roaring.Bitmap{}
	const docs = chunkDocs + 3000
	fields := []uint16{0, 1, 2, 255, 256, 0xffff}
	var half Snapshot
	for doc := range uint32(docs) {
		var d Doc
		for i, field := range fields {
			if rng.IntN(i+1) > 0 {
				continue
			}
			values := 1 + rng.IntN(2)
			for range values {
				// The values of field 2 are many and rare, those of others few and frequent.
				key := fmt.Sprint(rng.IntN(3))
				if field == 2 {
					key = fmt.Sprint(rng.IntN(docs))
				}
				d.Values = append(d.Values, Value{Field: field, Key: key})
			}
			if want[field] == nil {
				want[field] = roaring.New()
			}
			want[field].Add(doc)
		}
		if err := x.Add(doc, &d); err != nil {
			t.Fatal(err)
		}
		if doc == chunkDocs/2 {
			half = x.Snapshot()
		}
	}
	want[3] = roaring.New()
	check := func(what string, s Snapshot) {
		t.Helper()
		s.Reader = store
		for field, set := range want {
			set = set.Clone()
			set.RemoveRange(uint64(s.Docs), docs)
			got, err := x.FindField(t.Context(), s, field)
			if err != nil || !got.Equals(set) {
				t.Errorf("%s: field %d: %d documents, want %d, %v", what, field, got.GetCardinality(), set.GetCardinality(), err)
			}
		}
	}
	check("in memory", x.Snapshot())
	check("in memory, in part", half)
	if err := x.Seal(store, 0); err != nil {
		t.Fatal(err)
	}
	if err := x.Sealed(store, 0); err != nil {
		t.Fatal(err)
	}
	all := x.Snapshot()
	check("sealed", all)
	all.Docs = chunkDocs + 100
	check("sealed, below the last", all)
}
