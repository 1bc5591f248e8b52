package engine

import (
	"slices"

	"github.com/seed-7aedc3ff/memdb/internal/doctable"
	"github.com/seed-7aedc3ff/memdb/policy"
)

// neighbours calls visit with the documents of the memories that stand next to
// one in its run, up to policy.NeighbourReach before and as many after it, and how
// many places away they are: 1 is next to it. Places count visible memories.
func (tx *Tx) neighbours(doc uint32, visit func(doc uint32, places int)) {
	t := &tx.db.docs
	row := t.Row(doc)
	if row.Run == 0 {
		return
	}
	list := t.Runs.List(row.Owner, row.Run)
	at, found := slices.BinarySearch(list, row.Seq)
	for i, places := at-1, 1; i >= 0 && places <= policy.NeighbourReach; i-- {
		if near := tx.inRun(list[i], row.Run); near != doctable.None {
			visit(near, places)
			places++
		}
	}
	if found {
		at++
	}
	for i, places := at, 1; i < len(list) && places <= policy.NeighbourReach; i++ {
		if near := tx.inRun(list[i], row.Run); near != doctable.None {
			visit(near, places)
			places++
		}
	}
}

// inRun is the visible document of a memory, noDoc if it has none in the run.
func (tx *Tx) inRun(seq uint64, run uint32) uint32 {
	t := &tx.db.docs
	doc := t.At(seq, tx.lsn)
	if doc == doctable.None {
		return doctable.None
	}
	if r := t.Row(doc); r.Run != run || r.Expires != 0 && r.Expires <= tx.now {
		return doctable.None
	}
	return doc
}
