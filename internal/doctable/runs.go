package doctable

import (
	"slices"
	"sync"
)

// runKey is a run of one owner.
type runKey struct{ owner, run uint32 }

// runs lists the memories of each run by their Seqs, in order, so that the neighbours
// of one are found without a look at the others. What has become of a memory is asked
// of the document table, for one that an upsert moved to another run is in both lists,
// and one that is gone stays in its list until that grows.
type runs struct {
	mu   sync.RWMutex
	Seqs map[runKey][]uint64 // nil until the documents are loaded
	Room int64               // capacity of the lists
	// oldest is the LSN of the oldest state that can be read.
	oldest func() uint64
}

// Link makes the lists for the memories that have been loaded, those up to a Seq.
func (t *Table) Link(last uint64, oldest func() uint64) {
	t.Runs.Seqs, t.Runs.oldest = map[runKey][]uint64{}, oldest
	for seq := range last {
		if s := t.Seq(seq + 1); s != nil && s.Doc.Load() != 0 {
			t.enter(s.Doc.Load() - 1)
		}
	}
}

// enter lists a memory in the run of its new version, unless it is there already.
// Only the writer calls it.
func (t *Table) enter(doc uint32) {
	rs, r := &t.Runs, t.Row(doc)
	if rs.Seqs == nil || r.Run == 0 {
		return
	}
	if before := t.Row(r.prev); before != nil && before.Run == r.Run {
		return
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	key := runKey{r.Owner, r.Run}
	seqs := rs.Seqs[key]
	rs.Room -= int64(cap(seqs))
	if len(seqs) == cap(seqs) {
		seqs = t.grown(seqs)
	}
	// Readers may hold the old list: appending writes only beyond its end, and
	// an insertion is made in a copy.
	if n := len(seqs); n == 0 || seqs[n-1] < r.Seq {
		seqs = append(seqs, r.Seq)
	} else if at, found := slices.BinarySearch(seqs, r.Seq); !found {
		seqs = slices.Insert(slices.Clip(seqs), at, r.Seq)
	}
	rs.Seqs[key] = seqs
	rs.Room += int64(cap(seqs))
}

// grown is a list with room for as many again, without the memories that nobody
// can see any more.
func (t *Table) grown(seqs []uint64) []uint64 {
	const least = 4
	oldest := t.Runs.oldest()
	kept := make([]uint64, 0, len(seqs))
	for _, seq := range seqs {
		newest := t.Row(t.Seq(seq).Doc.Load() - 1) // 0 - 1 is noDoc
		if newest != nil && newest.Died.Load() > oldest {
			kept = append(kept, seq)
		}
	}
	return append(make([]uint64, 0, max(least, 2*len(kept))), kept...)
}

// List is the memories of a run, not to be written to.
func (rs *runs) List(owner, run uint32) []uint64 {
	rs.mu.RLock()
	defer rs.mu.RUnlock()
	return rs.Seqs[runKey{owner, run}]
}

func (rs *runs) bytes() int64 {
	const seqSize, entrySize = 8, 48 // an entry: key, slice header, and the map's own
	rs.mu.RLock()
	defer rs.mu.RUnlock()
	return seqSize*rs.Room + int64(len(rs.Seqs))*entrySize
}
