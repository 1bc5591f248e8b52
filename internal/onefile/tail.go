package onefile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/zeebo/xxh3"
)

const (
	// sector is what a disk writes whole, or not at all.
	sector = 512
	// markSize is the part of a mark that a commit writes.
	markSize = 48
	marks    = 2 // sectors, for commits of even and of odd numbers

	markMagic   = "mmrk"
	commitMagic = "mcmt"
	commitHead  = 56
)

// A Tail is the end of a file, where commits are appended: two marks, each in a sector of its own, and the
// commits since the file was written whole.
//
// A commit is written behind the newest one and synced; then the mark whose turn it is says how far the file
// goes, and is synced, too. So a file that lacks what was acknowledged is told, and a commit that was
// interrupted lies behind the mark. Where it is complete, it counts.
type Tail struct {
	// At is where the marks begin, and End where the next commit is to be written.
	At, End int64
	// Number is that of the newest commit, or of the file if there is none.
	Number uint64

	base   uint64 // the checksum of the head
	lsn    uint64
	marked uint64 // the number in the newest mark
}

func newTail(h *head) *Tail {
	at := (h.length + sector - 1) / sector * sector
	return &Tail{At: at, End: at + marks*sector, Number: h.Number, base: h.sum, lsn: h.LSN, marked: h.Number}
}

// begin is what follows a file that was written whole: zeros up to the next sector, and the marks.
func (t *Tail) begin(length int64) []byte {
	b := make([]byte, t.End-length)
	at, mark := t.Mark()
	copy(b[at-length:], mark)
	return b
}

// Settled reports whether the newest mark is that of the newest commit.
func (t *Tail) Settled() bool { return t.marked == t.Number }

// Bytes are those of the commits.
func (t *Tail) Bytes() int64 { return t.End - t.At - marks*sector }

// Mark is the mark of the newest commit, and where it is to be written.
func (t *Tail) Mark() (at int64, b []byte) {
	b = make([]byte, 0, markSize)
	le := binary.LittleEndian
	b = append(b, markMagic...)
	b = le.AppendUint32(b, 0)
	b = le.AppendUint64(b, t.Number)
	b = le.AppendUint64(b, uint64(t.End))
	b = le.AppendUint64(b, t.lsn)
	b = le.AppendUint64(b, t.base)
	return t.At + int64(t.Number%marks)*sector, le.AppendUint64(b, xxh3.Hash(b))
}

// Appended is the tail once a commit was appended.
func (t *Tail) Appended(c *Commit) *Tail {
	next := *t
	next.End += int64(len(c.bytes))
	next.Number, next.lsn, next.marked = c.Number, c.LSN, c.Number
	return &next
}

// mark is a mark that was read.
type mark struct{ number, end, base uint64 }

// readMark reads the mark that b begins with.
func readMark(b []byte) (m mark, ok bool) {
	le := binary.LittleEndian
	if len(b) < markSize || string(b[:len(markMagic)]) != markMagic || xxh3.Hash(b[:markSize-8]) != le.Uint64(b[markSize-8:]) {
		return m, false
	}
	return mark{number: le.Uint64(b[8:]), end: le.Uint64(b[16:]), base: le.Uint64(b[32:])}, true
}

// Commit is what one snapshot changed in the one before. It says what keys are, and not how they became that,
// so that it may be applied again.
type Commit struct {
	// Number is that of the snapshot, and LSN that of its newest commit.
	Number, LSN uint64

	base  uint64
	spans [][2][]byte // within which only the keys in blocks are
	gone  [][]byte    // keys without a value
	sets  Table
	bytes []byte
}

// Bytes are what is written of the commit.
func (c *Commit) Bytes() []byte { return c.bytes }

// Commit makes the commit that goes to the end of the tail: touched are all keys that have changed since the one
// before. get and scan read the state of now.
func (t *Tail) Commit(lsn uint64, touched *Touched, get func(key []byte, visit func(value []byte) error) (found bool, err error), scan Scan) (*Commit, error) {
	c := &Commit{Number: t.Number + 1, LSN: lsn, base: t.base, spans: joined(touched.spans)}
	keys := slices.Clone(touched.keys)
	slices.SortFunc(keys, bytes.Compare)
	keys = slices.CompactFunc(keys, bytes.Equal)
	p := packer{size: BlockSize, mixed: true}
	spans := c.spans
	within := func(key []byte) bool { return len(spans) > 0 && bytes.Compare(key, spans[0][0]) >= 0 }
	span := func() error {
		s := spans[0]
		spans = spans[1:]
		keys = slices.DeleteFunc(keys, func(key []byte) bool { return bytes.Compare(key, s[0]) >= 0 && bytes.Compare(key, s[1]) < 0 })
		return scan(s[0], s[1], p.add)
	}
	for len(keys) > 0 {
		key := keys[0]
		if within(key) {
			if err := span(); err != nil {
				return nil, err
			}
			continue
		}
		found, err := get(key, func(value []byte) error { return p.add(key, value) })
		if err != nil {
			return nil, err
		}
		if !found {
			c.gone = append(c.gone, key)
		}
		keys = keys[1:]
	}
	for len(spans) > 0 {
		if err := span(); err != nil {
			return nil, err
		}
	}
	if err := p.end(); err != nil {
		return nil, err
	}
	c.sets = *newTable(p.blocks)
	c.encode()
	return c, nil
}

// joined are spans in their order, those that overlap as one.
func joined(spans [][2][]byte) (all [][2][]byte) {
	spans = slices.Clone(spans)
	slices.SortFunc(spans, func(a, b [2][]byte) int { return bytes.Compare(a[0], b[0]) })
	for _, s := range spans {
		if last := len(all) - 1; last >= 0 && bytes.Compare(s[0], all[last][1]) <= 0 {
			if bytes.Compare(s[1], all[last][1]) > 0 {
				all[last][1] = s[1]
			}
			continue
		}
		all = append(all, s)
	}
	return all
}

func (c *Commit) encode() {
	le := binary.LittleEndian
	b := make([]byte, commitHead, commitHead+int(c.sets.bytes)+64)
	b = binary.AppendUvarint(b, uint64(len(c.spans)))
	for _, s := range c.spans {
		b = appendKey(b, nil, s[0])
		b = appendKey(b, s[0], s[1])
	}
	b = binary.AppendUvarint(b, uint64(len(c.gone)))
	var last []byte
	for _, key := range c.gone {
		b = appendKey(b, last, key)
		last = key
	}
	removals := len(b) - commitHead
	for _, one := range c.sets.blocks {
		b = append(b, one.bytes...)
	}
	copy(b, commitMagic)
	le.PutUint32(b[4:], uint32(len(c.sets.blocks)))
	le.PutUint64(b[8:], c.Number)
	le.PutUint64(b[16:], c.LSN)
	le.PutUint64(b[24:], c.base)
	le.PutUint64(b[32:], uint64(len(b)-commitHead))
	le.PutUint64(b[40:], uint64(removals))
	le.PutUint64(b[48:], commitSum(b))
	c.bytes = b
}

// commitSum is the checksum of a commit: of all but itself.
func commitSum(b []byte) uint64 {
	var h xxh3.Hasher
	_, _ = h.Write(b[:commitHead-8]) // which never fails
	_, _ = h.Write(b[commitHead:])
	return h.Sum64()
}

var errCommit = errors.New("it cannot be read")

// openCommit reads the commit that b begins with. It keeps a copy of its bytes.
func openCommit(b []byte) (*Commit, error) {
	if len(b) < commitHead || string(b[:len(commitMagic)]) != commitMagic {
		return nil, errors.New("it does not begin as a commit does")
	}
	le := binary.LittleEndian
	length, removals := le.Uint64(b[32:]), le.Uint64(b[40:])
	if length > uint64(len(b)-commitHead) || removals > length {
		return nil, fmt.Errorf("it has %d bytes, and less are there", length)
	}
	if commitSum(b[:commitHead+length]) != le.Uint64(b[48:]) {
		return nil, errors.New("it does not fit its checksum")
	}
	b = bytes.Clone(b[:commitHead+length])
	c := &Commit{Number: le.Uint64(b[8:]), LSN: le.Uint64(b[16:]), base: le.Uint64(b[24:]), bytes: b}
	if !c.readRemovals(b[commitHead : commitHead+removals]) {
		return nil, errCommit
	}
	rest := b[commitHead+removals:]
	var blocks []*Block
	for range le.Uint32(b[4:]) {
		one, err := openBlock(rest)
		if err == nil {
			err = one.proven()
		}
		if err != nil {
			return nil, err
		}
		if n := len(blocks); n > 0 && bytes.Compare(one.First, blocks[n-1].Last) <= 0 {
			return nil, errCommit
		}
		blocks, rest = append(blocks, one), rest[len(one.bytes):]
	}
	if len(rest) > 0 {
		return nil, errCommit
	}
	c.sets = *newTable(blocks)
	return c, nil
}

func (c *Commit) readRemovals(b []byte) bool {
	count := func() (uint64, bool) {
		n, used := binary.Uvarint(b)
		if used <= 0 || n > uint64(len(b)) {
			return 0, false
		}
		b = b[used:]
		return n, true
	}
	n, ok := count()
	for range n {
		var s [2][]byte
		if s[0], b, ok = readKey(b, nil); !ok {
			return false
		}
		if s[1], b, ok = readKey(b, s[0]); !ok {
			return false
		}
		c.spans = append(c.spans, s)
	}
	if !ok {
		return false
	}
	n, ok = count()
	var last []byte
	for range n {
		if last, b, ok = readKey(b, last); !ok {
			return false
		}
		c.gone = append(c.gone, last)
	}
	return ok && len(b) == 0
}

// Changes are the calls that a Commit is applied with, in the order of the fields.
type Changes struct {
	DeleteRange func(lower, upper []byte) error
	Delete      func(key []byte) error
	Set         func(key, value []byte) error
}

// Apply calls to for all that the commit changes.
func (c *Commit) Apply(to Changes) error {
	for _, s := range c.spans {
		if err := to.DeleteRange(s[0], s[1]); err != nil {
			return err
		}
	}
	for _, key := range c.gone {
		if err := to.Delete(key); err != nil {
			return err
		}
	}
	return c.sets.Each(to.Set)
}

// Touched are the keys that the commit changes.
func (c *Commit) Touched() (*Touched, error) {
	t := &Touched{}
	err := c.Apply(Changes{
		DeleteRange: func(lower, upper []byte) error {
			t.Span(lower, upper)
			return nil
		},
		Delete: func(key []byte) error {
			t.Key(key, 0)
			return nil
		},
		Set: func(key, value []byte) error {
			t.Key(key, len(value))
			return nil
		},
	})
	return t, err
}

// readTail reads the tail of a file whose head is h.
func readTail(b []byte, h *head) (*Tail, []*Commit, error) {
	t := newTail(h)
	if size := int64(len(b)); size < t.End {
		return nil, nil, &Damage{What: "the file", Why: fmt.Sprintf("it was cut off: it has %d of at least %d bytes", size, t.End)}
	}
	for _, filler := range [][]byte{b[h.length:t.At], b[t.At+markSize : t.At+sector], b[t.At+sector+markSize : t.End]} {
		if slices.ContainsFunc(filler, func(v byte) bool { return v != 0 }) {
			return nil, nil, &Damage{What: "the tail", Why: "something was written beside its marks"}
		}
	}
	newest, ok := newestMark(b[t.At:t.End], t.base)
	if !ok {
		return nil, nil, &Damage{What: "the tail", Why: "neither of its marks can be read", From: firstKey, To: lastKey}
	}
	end := int64(min(newest.end, 1<<62))
	if size := int64(len(b)); size < end {
		return nil, nil, &Damage{What: "the file", Why: fmt.Sprintf("it was cut off: it has %d of %d bytes", size, end), From: firstKey, To: lastKey}
	}
	var commits []*Commit
	for {
		c, err := openCommit(b[t.End:])
		if err == nil && (c.base != t.base || c.Number != t.Number+1) {
			err = errors.New("it is another one than its place says")
		}
		if err != nil && t.End >= end {
			break // what an interrupted commit has left
		}
		if err != nil {
			return nil, nil, &Damage{What: fmt.Sprintf("commit %d of the tail", t.Number+1-h.Number), Why: err.Error(), From: firstKey, To: lastKey}
		}
		commits, t = append(commits, c), t.Appended(c)
	}
	if t.Number < newest.number {
		return nil, nil, &Damage{What: "the tail", Why: fmt.Sprintf("it ends with commit %d, and %d was written", t.Number, newest.number), From: firstKey, To: lastKey}
	}
	t.marked = newest.number
	return t, commits, nil
}

// newestMark is the newest of the marks that belong to a file.
func newestMark(b []byte, base uint64) (newest mark, ok bool) {
	for i := range marks {
		m, whole := readMark(b[i*sector:])
		if whole && m.base == base && (!ok || m.number > newest.number) {
			newest, ok = m, true
		}
	}
	return newest, ok
}

// divide finds where the file ends that was written whole and its tail begins, in one that is damaged.
func divide(b []byte) (whole, tail []byte) {
	h, err := decodeHead(b)
	if err == nil {
		if h.version == 1 {
			return b, nil
		}
		if t := newTail(&h); t.End <= int64(len(b)) {
			if _, ok := newestMark(b[t.At:t.End], t.base); ok {
				return b[:h.length], b[t.At:]
			}
		}
	}
	at := len(b)
	for from := 0; ; {
		next := bytes.Index(b[from:], []byte(markMagic))
		if next < 0 {
			break
		}
		from += next
		if m, ok := readMark(b[from:]); ok && (err != nil || m.base == h.sum) {
			at = max(from-int(m.number%marks)*sector, 0)
			break
		}
		from++
	}
	if at == len(b) { // no mark is left
		if next := nextCommit(b, 0); next >= 0 {
			at = max(next-marks*sector, 0)
		}
	}
	whole, tail = b[:at], b[at:]
	if last := bytes.LastIndex(whole, []byte(Magic)); last > 0 { // the head once more, and then zeros
		if _, err := decodeHead(whole[last:]); err == nil {
			whole = whole[:last+HeadSize]
		}
	}
	return whole, tail
}

// nextCommit finds the next commit that can be read, -1 for none.
func nextCommit(b []byte, from int) int {
	for {
		next := bytes.Index(b[from:], []byte(commitMagic))
		if next < 0 {
			return -1
		}
		from += next
		if _, err := openCommit(b[from:]); err == nil {
			return from
		}
		from++
	}
}

// salvageTail takes of a tail the commits that are whole. known: number and base are those of the file.
func salvageTail(b []byte, h *head, known bool, tell func(*Damage)) (commits []*Commit) {
	number, newest := h.Number, mark{}
	for i := range marks {
		if len(b) >= i*sector {
			if m, ok := readMark(b[i*sector:]); ok && m.number > newest.number {
				newest = m
			}
		}
	}
	lose := func(upto uint64) {
		if known && number < upto {
			tell(&Damage{What: fmt.Sprintf("%d commits of the tail", upto-number), Why: "they cannot be read", From: firstKey, To: lastKey})
		}
	}
	for at := 0; ; {
		if at = nextCommit(b, at); at < 0 {
			break
		}
		c, err := openCommit(b[at:])
		if err != nil || known && c.base != h.sum || c.Number <= number {
			at++
			continue
		}
		lose(c.Number - 1)
		commits, number, known = append(commits, c), c.Number, true
		at += len(c.bytes)
	}
	lose(newest.number)
	return commits
}
