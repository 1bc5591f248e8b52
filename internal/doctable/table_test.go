package doctable

import "testing"

// TestNumberOfTheSameMemory: a memory gets a number again that it had before. The states in
// between have no document of it, and to look for one ends.
func TestNumberOfTheSameMemory(t *testing.T) {
	const seq, second = 7, 1 << 16
	var table Table
	table.Link(0, func() uint64 { return 0 })
	enter := func(doc uint32, born uint64) {
		table.Add(doc, func(r *Row) { r.Seq, r.Born, r.Owner = seq, born, 1 })
	}
	enter(0, 1)
	table.Kill(0, 2)
	enter(second, 2)
	table.Release(0, second)
	table.Kill(second, 3)
	enter(0, 3)
	for lsn, want := range map[uint64]uint32{1: None, 2: second, 3: 0, 9: 0} {
		if got := table.At(seq, lsn); got != want {
			t.Errorf("as of %d it has document %d, want %d", lsn, got, want)
		}
	}
	for born, want := range map[uint64]uint32{1: 0, 2: second, 3: 0} {
		v := table.Row(0).Version
		v.Born = born
		if got := table.Last(v); got != want {
			t.Errorf("the version of %d had document %d, want %d", born, got, want)
		}
	}
}
