package store

import (
	"bytes"
	"cmp"
	"container/heap"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Remains are what can be read of a store whose files are damaged or gone. They are read
// without Pebble's own opening, which needs all files to be whole: each table block by block,
// each log record by record. No file of the store is changed.
type Remains struct {
	FS     vfs.FS
	Dir    string // of the database; the store lies in a folder within it
	Merger *pebble.Merger
	// Lost is told of everything that cannot be read.
	Lost func(Loss)
}

// Loss is a part of a file that cannot be read.
type Loss struct {
	File string
	Why  string
	// What is lost, where no keys tell it.
	What string
	// From and To are the keys between which something is missing. At the edge of a table they are the
	// table's bounds; nil where these are not known.
	From, To []byte
}

// Error tells of the loss in a sentence.
func (l *Loss) Error() string { return l.File + ": " + l.Why }

// entry is what a table or a log holds of a key: the value of one sequence number.
type entry struct {
	key, value []byte
	seq        uint64
	kind       pebble.InternalKeyKind
	file       uint64
}

// before is the order in which entries are read: by key, the newest first. Of two of the same
// age, which two files hold that stem from each other, the one of the later file comes first.
func (e *entry) before(o *entry) int {
	return cmp.Or(bytes.Compare(e.key, o.key), cmp.Compare(o.seq, e.seq), cmp.Compare(o.file, e.file))
}

// deletion is a range of keys that was deleted.
type deletion struct {
	from, to []byte
	seq      uint64
}

// stream gives the entries of a file in their order.
type stream interface {
	// next is the next entry, nil after the last. It is valid for good.
	next() *entry
}

// Fill writes what the keys of the remains are into this store, which is open and empty, and returns
// how many there are.
func (s *Store) Fill(r *Remains) (keys int, err error) { return r.CopyTo(s.db) }

// CopyTo writes what the keys of the remains are into another store, which is open and empty,
// and returns how many keys there were.
func (r *Remains) CopyTo(to *pebble.DB) (keys int, err error) {
	dir := r.FS.PathJoin(r.Dir, Dir)
	names, err := r.FS.List(dir)
	if err != nil && !isMissing(err) { // without a store there is no key
		return 0, err
	}
	slices.Sort(names)
	known := readCatalog(r.FS, dir, names)
	var m merging
	var logged []entry
	for _, name := range names {
		path := r.FS.PathJoin(dir, name)
		if num, ok := fileNumber(name, tableSuffix); ok && !known.obsolete[num] {
			t := r.openTable(path, num, known.live[num])
			m.deletions = append(m.deletions, t.deletions...)
			m.add(t)
		}
		if num, ok := logNumber(name); ok && num >= known.firstLog {
			logged = append(logged, r.readLog(path, &m.deletions)...)
		}
	}
	for _, num := range known.missing(names) {
		of := known.live[num]
		r.Lost(Loss{File: tableName(num), Why: "is missing", From: of.first, To: of.last})
	}
	if err := r.promised(dir, names, known.firstLog); err != nil {
		return 0, err
	}
	slices.SortStableFunc(logged, func(a, b entry) int { return a.before(&b) })
	m.add(&list{logged})
	return m.writeTo(to)
}

// promised reports logs that were there and are not, or not as far as they were, and a list of the tables
// that cannot be read.
func (r *Remains) promised(dir string, names []string, first uint64) error {
	m, err := readMark(r.FS, r.Dir)
	if err != nil {
		return err
	}
	list := &proof{fs: r.FS, dir: r.Dir, store: dir, names: names, mark: m}
	if len(names) > 0 && len(list.wholeManifests()) == 0 {
		r.Lost(Loss{File: "MANIFEST", What: "tables that are missing, and deletes", Why: "neither the newest MANIFEST nor its copy can be read whole: whether all tables are there is not known, and what was deleted may be back"})
	}
	if m.clean {
		return nil
	}
	for _, num := range m.logs {
		switch {
		case num < first:
		case !slices.Contains(names, logName(num)):
			r.Lost(Loss{File: logName(num), Why: "is missing"})
		case num == m.newest():
			_, why, err := checkLog(r.FS, r.FS.PathJoin(dir, logName(num)), num, true, m.synced)
			if err != nil {
				return err
			}
			if why != "" {
				r.Lost(Loss{File: logName(num), Why: why})
			}
		}
	}
	return nil
}

const tableSuffix = ".sst"

// fileNumber is that of a file of the store, from its name.
func fileNumber(name, suffix string) (uint64, bool) {
	digits, ok := strings.CutSuffix(name, suffix)
	num, err := strconv.ParseUint(digits, 10, 64)
	return num, ok && err == nil
}

// list is a stream of what is in RAM.
type list struct{ left []entry }

func (l *list) next() *entry {
	if len(l.left) == 0 {
		return nil
	}
	e := &l.left[0]
	l.left = l.left[1:]
	return e
}

// merging reads several streams as one. It is a heap of the next entry of each.
type merging struct {
	heads     []head
	deletions []deletion
	running   []deletion // those that the key of now lies in
}

type head struct {
	*entry
	of stream
}

func (m *merging) Len() int           { return len(m.heads) }
func (m *merging) Less(i, j int) bool { return m.heads[i].before(m.heads[j].entry) < 0 }
func (m *merging) Swap(i, j int)      { m.heads[i], m.heads[j] = m.heads[j], m.heads[i] }
func (m *merging) Push(v any)         { m.heads = append(m.heads, v.(head)) }
func (m *merging) Pop() any {
	h := m.heads[len(m.heads)-1]
	m.heads = m.heads[:len(m.heads)-1]
	return h
}

func (m *merging) add(s stream) {
	if e := s.next(); e != nil {
		m.heads = append(m.heads, head{e, s})
	}
}

// pop is the next entry of all streams.
func (m *merging) pop() *entry {
	h := &m.heads[0]
	e := h.entry
	if h.entry = h.of.next(); h.entry == nil {
		heap.Pop(m)
	} else {
		heap.Fix(m, 0)
	}
	return e
}

// deletedAt is the sequence number below which all of a key is deleted. It is called with
// keys in their order.
func (m *merging) deletedAt(key []byte) (seq uint64) {
	for len(m.deletions) > 0 && bytes.Compare(m.deletions[0].from, key) <= 0 {
		m.running = append(m.running, m.deletions[0])
		m.deletions = m.deletions[1:]
	}
	m.running = slices.DeleteFunc(m.running, func(d deletion) bool { return bytes.Compare(d.to, key) <= 0 })
	for _, d := range m.running {
		seq = max(seq, d.seq)
	}
	return seq
}

// copyBatch is how many bytes are written to the other store at a time.
const copyBatch = 4 << 20

func (m *merging) writeTo(to *pebble.DB) (keys int, err error) {
	slices.SortFunc(m.deletions, func(a, b deletion) int { return bytes.Compare(a.from, b.from) })
	heap.Init(m)
	b := to.NewBatch()
	defer func() { err = errors.Join(err, b.Close()) }()
	for len(m.heads) > 0 {
		there, err := m.writeKey(b)
		if err != nil {
			return keys, err
		}
		if there {
			keys++
		}
		if b.Len() < copyBatch && len(m.heads) > 0 {
			continue
		}
		if err := b.Commit(pebble.NoSync); err != nil {
			return keys, err
		}
		b.Reset()
	}
	return keys, to.Flush()
}

// writeKey writes what the next key is, and reports whether it is anything.
func (m *merging) writeKey(b *pebble.Batch) (there bool, err error) {
	key := m.heads[0].key
	deleted := m.deletedAt(key)
	var base *entry
	var operands [][]byte
	ended, last := false, uint64(0)
	for first := true; len(m.heads) > 0 && bytes.Equal(m.heads[0].key, key); first = false {
		e := m.pop()
		if again := !first && e.seq == last; ended || again {
			continue
		}
		last = e.seq
		if ended = e.seq < deleted; ended {
			continue
		}
		switch e.kind {
		case pebble.InternalKeyKindMerge:
			operands = append(operands, e.value)
		case pebble.InternalKeyKindSet, pebble.InternalKeyKindSetWithDelete:
			base, ended = e, true
		default: // a delete
			ended = true
		}
	}
	if base != nil {
		err = b.Set(key, base.value, nil)
	}
	for _, v := range slices.Backward(operands) {
		err = errors.Join(err, b.Merge(key, v, nil))
	}
	return base != nil || len(operands) > 0, err
}
