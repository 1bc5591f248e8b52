package engine

import (
	"slices"
	"sync"

	"github.com/seed-7aedc3ff/memdb/policy"
)

// runKey is a run of one owner.
type runKey struct{ owner, run uint32 }

// runs lists the memories of each run by their Seqs, in order, so that the neighbours
// of one are found without a look at the others. What has become of a memory is asked
// of the document table, for one that an upsert moved to another run is in both lists,
// and one that is gone stays in its list until that grows.
type runs struct {
	mu   sync.RWMutex
	seqs map[runKey][]uint64 // nil until the documents are loaded
	room int64               // capacity of the lists
	// oldest is the LSN of the oldest state that can be read.
	oldest func() uint64
}

// link makes the lists for the memories that have been loaded, those up to a Seq.
func (t *docTable) link(last uint64, oldest func() uint64) {
	t.runs.seqs, t.runs.oldest = map[runKey][]uint64{}, oldest
	for seq := range last {
		if s := t.seq(seq + 1); s != nil && s.doc.Load() != 0 {
			t.enter(s.doc.Load() - 1)
		}
	}
}

// enter lists a memory in the run of its new version, unless it is there already.
// Only the writer calls it.
func (t *docTable) enter(doc uint32) {
	rs, r := &t.runs, t.row(doc)
	if rs.seqs == nil || r.run == 0 {
		return
	}
	if before := t.row(r.prev); before != nil && before.run == r.run {
		return
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	key := runKey{r.owner, r.run}
	seqs := rs.seqs[key]
	rs.room -= int64(cap(seqs))
	if len(seqs) == cap(seqs) {
		seqs = t.grown(seqs)
	}
	// Readers may hold the old list: appending writes only beyond its end, and
	// an insertion is made in a copy.
	if n := len(seqs); n == 0 || seqs[n-1] < r.seq {
		seqs = append(seqs, r.seq)
	} else if at, found := slices.BinarySearch(seqs, r.seq); !found {
		seqs = slices.Insert(slices.Clip(seqs), at, r.seq)
	}
	rs.seqs[key] = seqs
	rs.room += int64(cap(seqs))
}

// grown is a list with room for as many again, without the memories that nobody
// can see any more.
func (t *docTable) grown(seqs []uint64) []uint64 {
	const least = 4
	oldest := t.runs.oldest()
	kept := make([]uint64, 0, len(seqs))
	for _, seq := range seqs {
		newest := t.row(t.seq(seq).doc.Load() - 1) // 0 - 1 is noDoc
		if newest != nil && newest.died.Load() > oldest {
			kept = append(kept, seq)
		}
	}
	return append(make([]uint64, 0, max(least, 2*len(kept))), kept...)
}

// list is the memories of a run, not to be written to.
func (rs *runs) list(key runKey) []uint64 {
	rs.mu.RLock()
	defer rs.mu.RUnlock()
	return rs.seqs[key]
}

func (rs *runs) bytes() int64 {
	const seqSize, entrySize = 8, 48 // an entry: key, slice header, and the map's own
	rs.mu.RLock()
	defer rs.mu.RUnlock()
	return seqSize*rs.room + int64(len(rs.seqs))*entrySize
}

// neighbours calls visit with the documents of the memories that stand next to
// one in its run, up to policy.NeighbourReach before and as many after it, and how
// many places away they are: 1 is next to it. Places count visible memories.
func (tx *Tx) neighbours(doc uint32, visit func(doc uint32, places int)) {
	t := &tx.db.docs
	row := t.row(doc)
	if row.run == 0 {
		return
	}
	list := t.runs.list(runKey{row.owner, row.run})
	at, found := slices.BinarySearch(list, row.seq)
	for i, places := at-1, 1; i >= 0 && places <= policy.NeighbourReach; i-- {
		if near := tx.inRun(list[i], row.run); near != noDoc {
			visit(near, places)
			places++
		}
	}
	if found {
		at++
	}
	for i, places := at, 1; i < len(list) && places <= policy.NeighbourReach; i++ {
		if near := tx.inRun(list[i], row.run); near != noDoc {
			visit(near, places)
			places++
		}
	}
}

// inRun is the visible document of a memory, noDoc if it has none in the run.
func (tx *Tx) inRun(seq uint64, run uint32) uint32 {
	t := &tx.db.docs
	doc := t.at(seq, tx.lsn)
	if doc == noDoc {
		return noDoc
	}
	if r := t.row(doc); r.run != run || r.expires != 0 && r.expires <= tx.now {
		return noDoc
	}
	return doc
}
