package onefile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/zeebo/xxh3"
)

// Damage is a part of a file that is not as it was written.
type Damage struct {
	// What is the part, such as "block 3 of 40", and Why what is wrong with it.
	What, Why string
	// From and To are the keys between which something is missing, nil where nothing is.
	From, To []byte
}

// Error is "What: Why".
func (d *Damage) Error() string { return d.What + ": " + d.Why }

// Content is what a file holds.
type Content struct {
	// Head has the number and the LSN of the newest commit.
	Head Head
	// Table is what the file held when it was written whole, and Commits are those since.
	Table   *Table
	Commits []*Commit
	// Tail is where commits are appended, nil for a file of version 1 and for one that is damaged.
	Tail *Tail
}

// Read takes a file apart that is whole. It keeps copies of the blocks, so that one that stays for
// long does not keep all of b in RAM. The error is a *Damage, or a *NewerError for a file that a newer memdb has written.
func Read(b []byte) (c Content, err error) {
	h, err := readHead(b)
	if err != nil {
		return c, err
	}
	if h.version > 1 {
		if c.Tail, c.Commits, err = readTail(b, &h); err != nil {
			return Content{}, err
		}
	}
	if c.Head, c.Table, err = readWhole(b[:h.length], h); err != nil {
		return Content{}, err
	}
	c.advance()
	return c, nil
}

// advance gives the head the number and the LSN of the newest commit.
func (c *Content) advance() {
	if n := len(c.Commits); n > 0 {
		c.Head.Number, c.Head.LSN = c.Commits[n-1].Number, max(c.Head.LSN, c.Commits[n-1].LSN)
	}
}

// readWhole reads a file as it was when it was written whole.
func readWhole(b []byte, h head) (Head, *Table, error) {
	at := int64(HeadSize)
	h.Identity = bytes.Clone(b[at : at+int64(h.identityLen)])
	at += int64(h.identityLen)
	if xxh3.Hash(h.Identity) != h.identitySum {
		return Head{}, nil, &Damage{What: "the identity", Why: "it does not fit its checksum"}
	}
	index := b[at : at+int64(h.indexLen)]
	at += int64(h.indexLen)
	if xxh3.Hash(index) != h.indexSum {
		return Head{}, nil, &Damage{What: "the index of the blocks", Why: "it does not fit its checksum"}
	}
	entries, err := readIndex(index, int(h.blocks))
	if err != nil {
		return Head{}, nil, &Damage{What: "the index of the blocks", Why: err.Error()}
	}
	blocks := make([]*Block, len(entries))
	end := h.length - HeadSize
	for i, e := range entries {
		if e.length > end-at {
			return Head{}, nil, &Damage{What: "the index of the blocks", Why: "it has more blocks than the file"}
		}
		if blocks[i], err = e.open(bytes.Clone(b[at : at+e.length])); err != nil {
			return Head{}, nil, e.damage(i, len(entries), err)
		}
		at += e.length
	}
	if at != end {
		return Head{}, nil, &Damage{What: "the index of the blocks", Why: "it has fewer blocks than the file"}
	}
	t := newTable(blocks)
	if t.Keys() != h.keys {
		return Head{}, nil, &Damage{What: "the blocks", Why: fmt.Sprintf("they have %d keys, not %d", t.Keys(), h.keys)}
	}
	return h.Head, t, nil
}

// readHead reads the head of a file, and holds its tail and its size against it.
func readHead(b []byte) (h head, err error) {
	if len(b) == 0 {
		return h, &Damage{What: "the file", Why: "it is empty: it was cut off"}
	}
	h, err = decodeHead(b)
	if newer, ok := errors.AsType[*NewerError](err); ok {
		return h, newer
	}
	if err != nil {
		return h, &Damage{What: "the head", Why: err.Error()}
	}
	switch size := int64(len(b)); {
	case size < h.length:
		return h, &Damage{What: "the file", Why: fmt.Sprintf("it was cut off: it has %d of %d bytes", size, h.length)}
	case size > h.length && h.version == 1:
		return h, &Damage{What: "the file", Why: fmt.Sprintf("it has %d bytes, %d more than were written", size, size-h.length)}
	}
	if !bytes.Equal(b[h.length-HeadSize:h.length], b[:HeadSize]) {
		return h, &Damage{What: "the tail", Why: "it is not as the head"}
	}
	return h, nil
}

// indexed is what the index says of a block.
type indexed struct {
	first, last []byte
	length      int64
	sum         uint64
}

// open opens the block and holds it against what the index says.
func (e *indexed) open(b []byte) (*Block, error) {
	one, err := openBlock(b)
	if err != nil {
		return nil, err
	}
	if len(one.bytes) != len(b) || one.sum() != e.sum {
		return nil, errors.New("it is another block than the index says")
	}
	one.First, one.Last = e.first, e.last
	return one, nil
}

func (e *indexed) damage(i, of int, err error) *Damage {
	return &Damage{
		What: fmt.Sprintf("block %d of %d, with the keys from %x to %x", i+1, of, e.first, e.last), Why: err.Error(),
		From: e.first, To: append(bytes.Clone(e.last), 0),
	}
}

var errIndex = errors.New("it cannot be read")

func readIndex(b []byte, blocks int) ([]indexed, error) {
	const least = 13 // bytes for a block: its keys, its length and its checksum
	if blocks > len(b)/least {
		return nil, errIndex
	}
	all := make([]indexed, blocks)
	var last []byte
	for i := range all {
		e := &all[i]
		var ok bool
		if e.first, b, ok = readKey(b, last); !ok {
			return nil, errIndex
		}
		if e.last, b, ok = readKey(b, e.first); !ok {
			return nil, errIndex
		}
		length, used := binary.Uvarint(b)
		if used <= 0 || length > mostBlock*2 || len(b) < used+8 {
			return nil, errIndex
		}
		e.length, e.sum, b = int64(length), binary.LittleEndian.Uint64(b[used:]), b[used+8:]
		if i > 0 && bytes.Compare(e.first, last) <= 0 || bytes.Compare(e.last, e.first) < 0 {
			return nil, errors.New("its keys are in the wrong order")
		}
		last = e.last
	}
	if len(b) > 0 {
		return nil, errIndex
	}
	return all, nil
}

// readKey reads what appendKey has written.
func readKey(b, before []byte) (key, rest []byte, ok bool) {
	shared, used := binary.Uvarint(b)
	if used <= 0 || shared > uint64(len(before)) {
		return nil, nil, false
	}
	b = b[used:]
	length, used := binary.Uvarint(b)
	if used <= 0 || length > uint64(len(b)-used) {
		return nil, nil, false
	}
	b = b[used:]
	return append(before[:shared:shared], b[:length]...), b[length:], true
}

// Each calls visit for each key of the table, in their order, and holds the keys of each block
// against what the index says. Key and value are valid during the call.
func (t *Table) Each(visit func(key, value []byte) error) error {
	var buf []byte
	for i, b := range t.blocks {
		fits := true
		err := b.each(&buf, func(key, value []byte) error {
			fits = fits && bytes.Compare(key, b.First) >= 0 && bytes.Compare(key, b.Last) <= 0
			if !fits {
				return errors.New("it has other keys than the index says")
			}
			return visit(key, value)
		})
		if err != nil {
			e := indexed{first: b.First, last: b.Last}
			return e.damage(i, len(t.blocks), err)
		}
	}
	return nil
}

// Salvage takes of a file whatever is whole, and tells what is not. Where the head is damaged, the
// tail stands for it; where the index is, blocks are looked for by how they begin. The head has
// zeros in the place of what is lost. Commits of a tail are applied as far as they can be read.
func Salvage(b []byte) (c Content, lost []*Damage) {
	tell := func(d *Damage) { lost = append(lost, d) }
	whole, tail := divide(b)
	of, table, h, known := salvageWhole(whole, tell)
	c.Head, c.Table = of, table
	told := len(lost)
	c.Commits = salvageTail(tail, &h, known, tell)
	if known && h.version > 1 && len(lost) == told && len(whole) == int(h.length) { // or else its place has changed
		if _, _, err := readTail(b, &h); err != nil {
			d, _ := errors.AsType[*Damage](err)
			tell(d)
		}
	}
	c.advance()
	return c, lost
}

// salvageWhole takes what is whole of a file without its tail.
func salvageWhole(b []byte, tell func(*Damage)) (of Head, t *Table, h head, known bool) {
	h, err := readHead(b)
	if err == nil && int64(len(b)) > h.length {
		err = &Damage{What: "the file", Why: fmt.Sprintf("it has %d bytes more than were written", int64(len(b))-h.length)}
	}
	if err != nil {
		d, ok := errors.AsType[*Damage](err)
		if !ok {
			d = &Damage{What: "the head", Why: err.Error()}
		}
		tell(d)
		if h, err = decodeHead(b); err != nil {
			h, err = decodeHead(b[max(len(b)-HeadSize, 0):])
		}
	}
	known = err == nil
	var entries []indexed
	at := int64(HeadSize)
	if known {
		of = h.Head
		entries, at = salvageBegin(b, &h, &of, tell)
	} else {
		tell(&Damage{What: "the identity", Why: "the head and the tail are damaged"})
	}
	var blocks []*Block
	if entries != nil {
		blocks = salvageIndexed(b, at, entries, tell)
	} else {
		if !known {
			at = -1
		}
		blocks = salvageFound(b, at, tell)
	}
	return of, newTable(blocks), h, known
}

// salvageBegin reads the identity and the index. Its results are nil where they are damaged.
func salvageBegin(b []byte, h *head, of *Head, tell func(*Damage)) (entries []indexed, at int64) {
	cut := func(from int64, length uint32, sum uint64) []byte {
		if from+int64(length) > int64(len(b)) {
			return nil
		}
		part := b[from : from+int64(length)]
		if xxh3.Hash(part) != sum {
			return nil
		}
		return part
	}
	at = HeadSize
	if of.Identity = cut(at, h.identityLen, h.identitySum); of.Identity == nil {
		tell(&Damage{What: "the identity", Why: "it does not fit its checksum"})
	}
	at += int64(h.identityLen)
	index := cut(at, h.indexLen, h.indexSum)
	at += int64(h.indexLen)
	if index == nil && h.blocks > 0 {
		tell(&Damage{What: "the index of the blocks", Why: "it does not fit its checksum"})
		return nil, at
	}
	entries, err := readIndex(index, int(h.blocks))
	if err != nil {
		tell(&Damage{What: "the index of the blocks", Why: err.Error()})
		return nil, at
	}
	return entries, at
}

// salvageIndexed reads the blocks that the index names. Where bytes were inserted or removed, blocks are
// in another place, and are found there by their checksums.
func salvageIndexed(b []byte, at int64, entries []indexed, tell func(*Damage)) (blocks []*Block) {
	begin := min(at, int64(len(b)))
	var moved map[uint64][]byte // the bytes of blocks by their checksums
	for i := range entries {
		e := &entries[i]
		from := min(at, int64(len(b)))
		one, err := e.open(b[from:min(at+e.length, int64(len(b)))])
		if err != nil {
			if moved == nil {
				moved = blocksIn(b[begin:])
			}
			if bytes, ok := moved[e.sum]; ok {
				one, err = e.open(bytes)
			}
		}
		if err == nil {
			err = one.proven()
		}
		if err != nil {
			tell(e.damage(i, len(entries), err))
		} else {
			blocks = append(blocks, one)
		}
		at += e.length
	}
	return blocks
}

// blocksIn finds blocks by how they begin, wherever they are, and returns their bytes by their checksums.
func blocksIn(b []byte) map[uint64][]byte {
	found := map[uint64][]byte{}
	for {
		next := bytes.Index(b, []byte(blockMagic))
		if next < 0 {
			return found
		}
		b = b[next:]
		one, err := openBlock(b)
		if err != nil {
			b = b[1:]
			continue
		}
		found[one.sum()] = one.bytes
		b = b[len(one.bytes):]
	}
}

// firstKey and lastKey are before and behind all keys.
var (
	firstKey = []byte{0}
	lastKey  = []byte{0xff}
)

// salvageFound looks for blocks by how they begin. Between two that do not lie side by side,
// something is missing. begin is where the first block lies, -1 where that is not known.
func salvageFound(b []byte, begin int64, tell func(*Damage)) (blocks []*Block) {
	gap := func(from, to []byte, bytes int) {
		if bytes > 0 {
			tell(&Damage{What: "a part of the file", Why: fmt.Sprintf("in %d bytes no block can be read", bytes), From: from, To: to})
		}
	}
	last, ended := firstKey, int(begin) // where the newest block ends
	for at := 0; at < len(b); {
		next := bytes.Index(b[at:], []byte(blockMagic))
		if next < 0 {
			break
		}
		at += next
		one, err := openBlock(b[at:])
		if err == nil {
			err = one.proven()
		}
		if err != nil || bytes.Compare(one.First, last) <= 0 {
			at++
			continue
		}
		if ended >= 0 {
			gap(last, one.First, at-ended)
		}
		blocks, last = append(blocks, one), one.Last
		at += len(one.bytes)
		ended = at
	}
	gap(last, lastKey, len(b)-HeadSize-max(ended, 0))
	return blocks
}

// proven reads the whole block, and fills in its keys where they are not known.
func (b *Block) proven() error {
	var first, last []byte
	n := uint32(0)
	err := b.Each(func(key, _ []byte) error {
		if n++; n == 1 {
			first = bytes.Clone(key)
		}
		last = append(last[:0], key...)
		return nil
	})
	if err != nil {
		return err
	}
	if b.First != nil && !bytes.Equal(b.First, first) || b.Last != nil && !bytes.Equal(b.Last, last) {
		return errors.New("it has other keys than the index says")
	}
	b.First, b.Last = first, last
	return nil
}
