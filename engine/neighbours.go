package engine

import (
	"cmp"
	"slices"
	"sync"

	"github.com/seed-7aedc3ff/memdb/policy"
)

// runKey is a run of one owner.
type runKey struct{ owner, run uint32 }

// runs lists the memories of each run in order of Seq, so that the neighbours of
// one are found without a look at the others. A memory stands there by the version
// that came into the run; what has become of it is asked of the document table,
// for one that an upsert moved to another run is in both lists, and one that is
// gone stays in its list until that grows.
type runs struct {
	mu   sync.RWMutex
	docs map[runKey][]uint32 // nil until the documents are loaded
	room int64               // capacity of the lists
	// oldest is the LSN of the oldest state that can be read.
	oldest func() uint64
}

// link makes the lists for the memories that have been loaded, those up to a Seq.
func (t *docTable) link(last uint64, oldest func() uint64) {
	t.runs.docs, t.runs.oldest = map[runKey][]uint32{}, oldest
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
	if rs.docs == nil || r.run == 0 || r.prev != noDoc && t.row(r.prev).run == r.run {
		return
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	key := runKey{r.owner, r.run}
	docs := rs.docs[key]
	rs.room -= int64(cap(docs))
	if len(docs) == cap(docs) {
		docs = t.grown(docs)
	}
	// Readers may hold the old list: appending writes only beyond its end, and
	// an insertion is made in a copy.
	if n := len(docs); n == 0 || t.row(docs[n-1]).seq < r.seq {
		docs = append(docs, doc)
	} else if at, found := t.place(docs, r.seq); !found {
		docs = slices.Insert(slices.Clip(docs), at, doc)
	}
	rs.docs[key] = docs
	rs.room += int64(cap(docs))
}

// grown is a list with room for as many again, without the memories that nobody
// can see any more.
func (t *docTable) grown(docs []uint32) []uint32 {
	const least = 4
	oldest := t.runs.oldest()
	kept := make([]uint32, 0, len(docs))
	for _, doc := range docs {
		newest := t.seq(t.row(doc).seq).doc.Load()
		if newest != 0 && t.row(newest-1).died.Load() > oldest {
			kept = append(kept, doc)
		}
	}
	return append(make([]uint32, 0, max(least, 2*len(kept))), kept...)
}

// place is where a Seq is in a list, or would be.
func (t *docTable) place(docs []uint32, seq uint64) (int, bool) {
	return slices.BinarySearchFunc(docs, seq, func(doc uint32, seq uint64) int {
		return cmp.Compare(t.row(doc).seq, seq)
	})
}

// list is the memories of a run, not to be written to.
func (rs *runs) list(key runKey) []uint32 {
	rs.mu.RLock()
	defer rs.mu.RUnlock()
	return rs.docs[key]
}

func (rs *runs) bytes() int64 {
	const docSize, entrySize = 4, 48 // an entry: key, slice header, and the map's own
	rs.mu.RLock()
	defer rs.mu.RUnlock()
	return docSize*rs.room + int64(len(rs.docs))*entrySize
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
	at, found := t.place(list, row.seq)
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

// inRun is the visible document of the memory that doc is a version of, noDoc if
// it has none in the run.
func (tx *Tx) inRun(doc, run uint32) uint32 {
	t := &tx.db.docs
	r := t.row(doc)
	if !r.visible(tx.lsn) {
		if doc = t.at(r.seq, tx.lsn); doc == noDoc {
			return noDoc
		}
		r = t.row(doc)
	}
	if r.run != run || r.expires != 0 && r.expires <= tx.now {
		return noDoc
	}
	return doc
}
