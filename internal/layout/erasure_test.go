package layout

import (
	"reflect"
	"testing"
)

// TestErasureVersions verifies that an erasure reads what it wrote and what older programs wrote, and
// no part of either.
func TestErasureVersions(t *testing.T) {
	e := Erasure{LSN: 7, At: 1767225600123, Owners: []uint32{3}, Seqs: []uint64{300, 4}, Counts: []int64{1, 2}, Fields: 5}
	bare := []byte{erasureVersionBare, 7, 0xf6, 0xa9, 0xcd, 0xfb, 0xee, 0x66, 0, 5, 1, 3, 2, 0xac, 2, 4, 2, 2, 4}
	whole := e
	whole.Asked, whole.Commits, whole.Archives, whole.Traces = 1<<16|9, []uint64{5, 6}, []uint64{4}, []byte{1, 0, 0}
	for _, c := range []struct {
		stored []byte
		want   Erasure
	}{{bare, e}, {whole.Encode(), whole}} {
		got, err := DecodeErasure(c.stored)
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Traces) == 0 {
			got.Traces = nil
		}
		if got.At = c.want.At; !reflect.DeepEqual(*got, c.want) {
			t.Errorf("%+v, want %+v", *got, c.want)
		}
		for cut := range c.stored {
			if _, err := DecodeErasure(c.stored[:cut]); err == nil {
				t.Errorf("%d bytes of %x are read", cut, c.stored)
			}
		}
	}
}
