package onefile

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"slices"
	"sort"

	"github.com/zeebo/xxh3"
)

// Table is the content of a file: all its keys and values, in packed blocks. It does not change.
type Table struct {
	blocks []*Block
	bytes  int64 // of all blocks, packed
}

// Blocks are those of the table, in the order of their keys.
func (t *Table) Blocks() []*Block { return t.blocks }

// Keys is how many keys there are.
func (t *Table) Keys() (n uint64) {
	for _, b := range t.blocks {
		n += uint64(b.keys)
	}
	return n
}

func newTable(blocks []*Block) *Table {
	t := &Table{blocks: blocks}
	for _, b := range blocks {
		t.bytes += int64(len(b.bytes))
	}
	return t
}

// Scan reads the keys of [lower, upper), in their order; nil is no bound. Key and value are valid
// during the call of visit.
type Scan func(lower, upper []byte, visit func(key, value []byte) error) error

// Pack makes a table of all that scan reads.
func Pack(scan Scan) (*Table, error) {
	p := packer{size: BlockSize}
	if err := scan(nil, nil, p.add); err != nil {
		return nil, err
	}
	if err := p.end(); err != nil {
		return nil, err
	}
	return newTable(p.blocks), nil
}

// Touched are keys whose values may have changed. The zero value has none.
type Touched struct {
	keys  [][]byte
	spans [][2][]byte
	bytes int64
	arena []byte
}

const arenaSize = 16 << 10 // bytes of keys

// Key notes a key, and how long its value is; it keeps a copy of it.
func (t *Touched) Key(key []byte, value int) {
	t.keys = append(t.keys, t.keep(key))
	t.bytes += int64(len(key) + value)
}

// Span notes all keys of [lower, upper).
func (t *Touched) Span(lower, upper []byte) {
	t.spans = append(t.spans, [2][]byte{t.keep(lower), t.keep(upper)})
}

func (t *Touched) keep(key []byte) []byte {
	if len(t.arena)+len(key) > cap(t.arena) {
		t.arena = make([]byte, 0, max(arenaSize, len(key)))
	}
	at := len(t.arena)
	t.arena = append(t.arena, key...)
	return t.arena[at:len(t.arena):len(t.arena)]
}

// Empty reports whether nothing was noted.
func (t *Touched) Empty() bool { return len(t.keys) == 0 && len(t.spans) == 0 }

// Bytes are those of the keys that were noted, with their values.
func (t *Touched) Bytes() int64 { return t.bytes }

// Dirty are the blocks of a table whose keys may have changed, by their places.
type Dirty []bool

// Update makes the table of a later state: scan reads it, and dirty are all blocks that the keys lie in
// that may differ from those in t. It packs these again, and neighbours of these that have become small.
func (t *Table) Update(dirty Dirty, scan Scan) (*Table, error) {
	if len(t.blocks) == 0 {
		return Pack(scan)
	}
	if dirty == nil {
		return t, nil
	}
	p := packer{size: BlockSize}
	blocks := make([]*Block, 0, len(t.blocks)+8)
	for i := 0; i < len(t.blocks); i++ {
		if !dirty[i] {
			blocks = append(blocks, t.blocks[i])
			continue
		}
		lower, upper := t.blocks[i].First, []byte(nil)
		if i == 0 {
			lower = nil
		}
		for i+1 < len(t.blocks) && (dirty[i+1] || t.blocks[i+1].size < BlockSize/2 && sameKind(t.blocks[i].First, t.blocks[i+1].First)) {
			i++
		}
		if i+1 < len(t.blocks) {
			upper = t.blocks[i+1].First
		}
		if err := scan(lower, upper, p.add); err != nil {
			return nil, err
		}
		if err := p.end(); err != nil {
			return nil, err
		}
		blocks, p.blocks = append(blocks, p.blocks...), p.blocks[:0]
	}
	return newTable(blocks), nil
}

// Mark adds to dirty the blocks that touched keys lie in, or would lie in. nil has none.
func (t *Table) Mark(dirty Dirty, touched *Touched) Dirty {
	if len(t.blocks) == 0 || touched.Empty() {
		return dirty
	}
	if dirty == nil {
		dirty = make(Dirty, len(t.blocks))
	}
	for _, key := range touched.keys {
		dirty[t.at(key)] = true
	}
	for _, s := range touched.spans {
		for i := t.at(s[0]); i < len(t.blocks) && (i == 0 || bytes.Compare(t.blocks[i].First, s[1]) < 0); i++ {
			dirty[i] = true
		}
	}
	return dirty
}

// at is the block that a key belongs to: the last that does not begin behind it, or the first.
func (t *Table) at(key []byte) int {
	n := sort.Search(len(t.blocks), func(i int) bool { return bytes.Compare(t.blocks[i].First, key) > 0 })
	return max(n-1, 0)
}

// index is the index of the blocks as the file has it.
func (t *Table) index() []byte {
	var b []byte
	var last []byte
	for _, one := range t.blocks {
		b = appendKey(b, last, one.First)
		b = appendKey(b, one.First, one.Last)
		b = binary.AppendUvarint(b, uint64(len(one.bytes)))
		b = binary.LittleEndian.AppendUint64(b, one.sum())
		last = one.Last
	}
	return b
}

// appendKey writes a key: how much of it is that of the one before, how long the rest is, the rest.
func appendKey(b, before, key []byte) []byte {
	shared := commonPrefix(before, key)
	b = binary.AppendUvarint(b, uint64(shared))
	b = binary.AppendUvarint(b, uint64(len(key)-shared))
	return append(b, key[shared:]...)
}

const writeBuffer = 256 << 10

// Write writes a file that commits can be appended to, and returns its length and the tail that they go to.
func (t *Table) Write(w io.Writer, of Head) (int64, *Tail, error) {
	index := t.index()
	h := head{
		Head: of, version: Version, identityLen: uint32(len(of.Identity)), identitySum: xxh3.Hash(of.Identity),
		indexLen: uint32(len(index)), blocks: uint32(len(t.blocks)), indexSum: xxh3.Hash(index), keys: t.Keys(),
	}
	for _, b := range t.blocks {
		h.unpackedSize += uint64(b.size)
	}
	h.length = h.body() + t.bytes
	first := h.encode()
	tail := newTail(&h)
	buffered := bufio.NewWriterSize(w, writeBuffer)
	for part := range slices.Values([][]byte{first, of.Identity, index}) {
		if _, err := buffered.Write(part); err != nil {
			return 0, nil, err
		}
	}
	for _, b := range t.blocks {
		if _, err := buffered.Write(b.bytes); err != nil {
			return 0, nil, err
		}
	}
	for part := range slices.Values([][]byte{first, tail.begin(h.length)}) {
		if _, err := buffered.Write(part); err != nil {
			return 0, nil, err
		}
	}
	return tail.End, tail, buffered.Flush()
}
