package doctable

import (
	"slices"
	"sync"
)

// runKey is a run of one owner.
type runKey struct{ owner, run uint32 }

// runs lists the memories of each run by their Seqs, in order, so that the neighbours of a
// memory are found without a look at the others. The document table says whether a listed
// memory is still there: a memory that an upsert moved to another run is in both lists, and
// a memory that is gone stays in its list until the list grows.
type runs struct {
	mu    sync.RWMutex
	Lists map[runKey]runList // nil until the documents are loaded
	Room  int64              // capacity of the lists
	// oldest is the LSN of the oldest state that can be read.
	oldest func() uint64
}

// runList is the Seqs of a run, in two lists, each in order: the Seqs that came in order,
// and those that came late, when an upsert moved a memory from another run. If all stood in
// one list, each move would copy the list: 40,000 moves into a run of as many memories took
// 7 s, and four times as many moves sixteen times as long.
type runList struct {
	Seqs, Late []uint64
}

// mostLate is how many Seqs may be late in any case. In a longer run as many may be late as
// the square root of the others' number: copying the late list then costs, in sum, what
// joining the two lists does.
const mostLate = 64

// crowded reports whether the late Seqs are to be joined to the others.
func (l runList) crowded() bool {
	return len(l.Late) > mostLate && len(l.Late)*len(l.Late) > len(l.Seqs)
}

// Room is how many Seqs the lists have memory for.
func (l runList) Room() int64 { return int64(cap(l.Seqs) + cap(l.Late)) }

// Link makes the lists for the memories that have been loaded, those up to a Seq.
func (t *Table) Link(last uint64, oldest func() uint64) {
	t.Runs.Lists, t.Runs.oldest = map[runKey]runList{}, oldest
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
	if rs.Lists == nil || r.Run == 0 {
		return
	}
	if before := t.Of(r.prev, r.Seq); before != nil && before.Run == r.Run {
		return
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	key := runKey{r.Owner, r.Run}
	l := rs.Lists[key]
	rs.Room -= l.Room()
	if len(l.Seqs) == cap(l.Seqs) {
		l.Seqs = t.grown(l.Seqs, 0)
	}
	// Readers may hold the old lists: appending writes only beyond their end, and
	// an insertion is made in a copy.
	_, found := slices.BinarySearch(l.Late, r.Seq)
	switch n := len(l.Seqs); {
	case found:
	case n == 0 || l.Seqs[n-1] < r.Seq:
		l.Seqs = append(l.Seqs, r.Seq)
	default:
		if _, found = slices.BinarySearch(l.Seqs, r.Seq); !found {
			l.Late = inserted(l.Late, r.Seq)
		}
	}
	if l.crowded() {
		l = runList{Seqs: joined(t.grown(l.Seqs, len(l.Late)), l.Late)}
	}
	rs.Lists[key] = l
	rs.Room += l.Room()
}

// inserted is a list with a further Seq: the Seq is appended, or put into a copy of the list.
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
func (t *Table) grown(seqs []uint64, more int) []uint64 {
	const least = 4
	oldest := t.Runs.oldest()
	kept := make([]uint64, 0, len(seqs))
	for _, seq := range seqs {
		_, newest := t.newest(seq)
		if newest != nil && newest.Died.Load() > oldest {
			kept = append(kept, seq)
		}
	}
	return append(make([]uint64, 0, max(least, 2*len(kept)+more)), kept...)
}

// ReleaseRuns drops the lists of runs whose memories all died at an LSN or before. The lock
// of writers is held.
func (t *Table) ReleaseRuns(died uint64) {
	rs := &t.Runs
	lives := func(seq uint64) bool {
		_, r := t.newest(seq)
		return r != nil && r.Died.Load() > died
	}
	var gone []runKey
	for key, l := range rs.Lists { // only writers change it
		if !slices.ContainsFunc(l.Late, lives) && !slices.ContainsFunc(l.Seqs, lives) {
			gone = append(gone, key)
		}
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for _, key := range gone {
		rs.Room -= rs.Lists[key].Room()
		delete(rs.Lists, key)
	}
}

// List is the memories of a run, not to be written to.
func (rs *runs) List(owner, run uint32) runList {
	rs.mu.RLock()
	defer rs.mu.RUnlock()
	return rs.Lists[runKey{owner, run}]
}

func (rs *runs) bytes() int64 {
	const seqSize, entrySize = 8, 80 // an entry: key, two slice headers, and the map's own
	rs.mu.RLock()
	defer rs.mu.RUnlock()
	return seqSize*rs.Room + int64(len(rs.Lists))*entrySize
}
