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
	seqs map[runKey]runList // nil until the documents are loaded
	room int64              // capacity of the lists
	// oldest is the LSN of the oldest state that can be read.
	oldest func() uint64
}

// runList is the Seqs of a run, in two lists, each in order: those that came in order,
// and those that came late, since an upsert moved a memory from another run. Where all
// stood in one list, each move would copy it: 40,000 moves into a run of as many took
// 7 s, and four times as many sixteen times as long.
type runList struct {
	seqs, late []uint64
}

// mostLate is how many Seqs may be late in any case. Beyond it, as many as the square root
// of the others may be, so that to copy the one costs what to join the two does.
const mostLate = 64

// crowded reports whether the late Seqs are to be joined to the others.
func (l runList) crowded() bool {
	return len(l.late) > mostLate && len(l.late)*len(l.late) > len(l.seqs)
}

// room is how many Seqs the lists have memory for.
func (l runList) room() int64 { return int64(cap(l.seqs) + cap(l.late)) }

// link makes the lists for the memories that have been loaded, those up to a Seq.
func (t *docTable) link(last uint64, oldest func() uint64) {
	t.runs.seqs, t.runs.oldest = map[runKey]runList{}, oldest
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
	l := rs.seqs[key]
	rs.room -= l.room()
	if len(l.seqs) == cap(l.seqs) {
		l.seqs = t.grown(l.seqs, 0)
	}
	// Readers may hold the old lists: appending writes only beyond their end, and
	// an insertion is made in a copy.
	_, found := slices.BinarySearch(l.late, r.seq)
	switch n := len(l.seqs); {
	case found:
	case n == 0 || l.seqs[n-1] < r.seq:
		l.seqs = append(l.seqs, r.seq)
	default:
		if _, found = slices.BinarySearch(l.seqs, r.seq); !found {
			l.late = inserted(l.late, r.seq)
		}
	}
	if l.crowded() {
		l = runList{seqs: joined(t.grown(l.seqs, len(l.late)), l.late)}
	}
	rs.seqs[key] = l
	rs.room += l.room()
}

// inserted is a list with a further Seq: appended at the end, else a copy.
func inserted(seqs []uint64, seq uint64) []uint64 {
	at, _ := slices.BinarySearch(seqs, seq)
	if at == len(seqs) {
		return append(seqs, seq)
	}
	return slices.Insert(slices.Clip(seqs), at, seq)
}

// joined puts late Seqs, from the last on, in their places among others, which have room
// for them and no readers.
func joined(seqs, late []uint64) []uint64 {
	n := len(seqs)
	seqs = seqs[:n+len(late)]
	for at := len(seqs) - 1; len(late) > 0; at-- {
		if last := len(late) - 1; n == 0 || seqs[n-1] < late[last] {
			seqs[at], late = late[last], late[:last]
		} else {
			n--
			seqs[at] = seqs[n]
		}
	}
	return seqs
}

// grown is a copy of a list with room for as many again and more, without the memories
// that nobody can see any more.
func (t *docTable) grown(seqs []uint64, more int) []uint64 {
	const least = 4
	oldest := t.runs.oldest()
	kept := make([]uint64, 0, len(seqs))
	for _, seq := range seqs {
		newest := t.row(t.seq(seq).doc.Load() - 1) // 0 - 1 is noDoc
		if newest != nil && newest.died.Load() > oldest {
			kept = append(kept, seq)
		}
	}
	return append(make([]uint64, 0, max(least, 2*len(kept)+more)), kept...)
}

// list is the memories of a run, not to be written to.
func (rs *runs) list(key runKey) runList {
	rs.mu.RLock()
	defer rs.mu.RUnlock()
	return rs.seqs[key]
}

func (rs *runs) bytes() int64 {
	const seqSize, entrySize = 8, 80 // an entry: key, two slice headers, and the map's own
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
	l := t.runs.list(runKey{row.owner, row.run})
	i, _ := slices.BinarySearch(l.seqs, row.seq)
	j, _ := slices.BinarySearch(l.late, row.seq)
	for i, j, places := i, j, 1; i+j > 0 && places <= policy.NeighbourReach; {
		var seq uint64
		if j == 0 || i > 0 && l.seqs[i-1] > l.late[j-1] {
			i--
			seq = l.seqs[i]
		} else {
			j--
			seq = l.late[j]
		}
		if near := tx.inRun(seq, row.run); near != noDoc {
			visit(near, places)
			places++
		}
	}
	for places := 1; i+j < len(l.seqs)+len(l.late) && places <= policy.NeighbourReach; {
		var seq uint64
		if j == len(l.late) || i < len(l.seqs) && l.seqs[i] < l.late[j] {
			seq = l.seqs[i]
			i++
		} else {
			seq = l.late[j]
			j++
		}
		if seq == row.seq {
			continue
		}
		if near := tx.inRun(seq, row.run); near != noDoc {
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
