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
	l := t.Runs.List(row.Owner, row.Run)
	i, _ := slices.BinarySearch(l.Seqs, row.Seq)
	j, _ := slices.BinarySearch(l.Late, row.Seq)
	for i, j, places := i, j, 1; i+j > 0 && places <= policy.NeighbourReach; {
		var seq uint64
		if j == 0 || i > 0 && l.Seqs[i-1] > l.Late[j-1] {
			i--
			seq = l.Seqs[i]
		} else {
			j--
			seq = l.Late[j]
		}
		if near := tx.inRun(seq, row.Run); near != doctable.None {
			visit(near, places)
			places++
		}
	}
	for places := 1; i+j < len(l.Seqs)+len(l.Late) && places <= policy.NeighbourReach; {
		var seq uint64
		if j == len(l.Late) || i < len(l.Seqs) && l.Seqs[i] < l.Late[j] {
			seq = l.Seqs[i]
			i++
		} else {
			seq = l.Late[j]
			j++
		}
		if seq == row.Seq {
			continue
		}
		if near := tx.inRun(seq, row.Run); near != doctable.None {
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
