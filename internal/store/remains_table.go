package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/bits"
	"slices"
	"unsafe"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/sstable/block"
	"github.com/cockroachdb/pebble/v2/sstable/colblk"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// A table is a row of blocks of entries, then those of its index, filter and properties, and a
// footer. Behind each block stand the way in which it is compressed (1 byte) and a checksum (4).
// The index says where blocks begin; where it cannot be read, they are found by their checksums.

// table reads the entries of a table, of which parts may be damaged.
type table struct {
	r         *Remains
	path      string
	num       uint64
	bounds    listed // zero where no MANIFEST lists it
	blocks    []block.Handle
	read      []entry // what is left of the block that was read last
	last      []byte  // the last key that was read
	bad       *Loss   // of the blocks before the next that can be read
	deletions []deletion
}

func (r *Remains) lost(path, why string) { r.Lost(Loss{File: r.FS.PathBase(path), Why: why}) }

// openTable finds the blocks of a table, whose bounds are those that a MANIFEST lists.
func (r *Remains) openTable(path string, num uint64, bounds listed) *table {
	t := &table{r: r, path: path, num: num, bounds: bounds, last: bounds.first}
	lost := func(why string) {
		r.Lost(Loss{File: r.FS.PathBase(path), Why: why, From: bounds.first, To: bounds.last})
	}
	b, err := readWhole(r.FS, path)
	if err != nil {
		lost(err.Error())
		return t
	}
	if err := t.readIndex(b); err != nil {
		t.blocks, t.deletions = carve(b), nil
		lost(fmt.Sprintf("its index cannot be read (%v); of its blocks %d were found without it, and ranges that it says are deleted are not", err, len(t.blocks)))
	}
	return t
}

// readIndex reads where the blocks of a table lie, and its deletions. What Pebble does not
// expect in a damaged file, it panics on.
func (t *table) readIndex(b []byte) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	reader, err := sstable.NewMemReader(b, sstable.ReaderOptions{Merger: t.r.Merger})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, reader.Close()) }()
	layout, err := reader.Layout()
	if err != nil {
		return err
	}
	for _, h := range layout.Data {
		t.blocks = append(t.blocks, h.Handle)
	}
	spans, err := reader.NewRawRangeDelIter(context.Background(), sstable.NoFragmentTransforms, sstable.NoReadEnv)
	if err != nil || spans == nil {
		return err
	}
	defer spans.Close()
	span, err := spans.First()
	for ; span != nil; span, err = spans.Next() {
		for _, k := range span.Keys {
			t.deletions = append(t.deletions, deletion{bytes.Clone(span.Start), bytes.Clone(span.End), uint64(k.SeqNum())})
		}
	}
	return err
}

// next is the next entry that can be read.
func (t *table) next() *entry {
	for len(t.read) == 0 {
		if len(t.blocks) == 0 {
			t.tellBad(t.bounds.last)
			return nil
		}
		at := t.blocks[0]
		t.blocks = t.blocks[1:]
		read, err := t.readBlock(at)
		if err != nil {
			if t.bad == nil {
				t.bad = &Loss{File: t.r.FS.PathBase(t.path), Why: fmt.Sprintf("the block at byte %d cannot be read: %v", at.Offset, err), From: t.last}
			}
			continue
		}
		t.read = read
	}
	e := &t.read[0]
	t.read = t.read[1:]
	t.tellBad(e.key)
	t.last = e.key
	return e
}

// tellBad tells of the blocks that could not be read before a key.
func (t *table) tellBad(to []byte) {
	if t.bad != nil {
		t.bad.To = to
		t.r.Lost(*t.bad)
		t.bad = nil
	}
}

// TableBlock is a block of entries: the bytes of it in the file, and how many entries it has.
type TableBlock struct{ From, To, Entries int }

// TableBlocks finds the blocks of entries of a table that is whole.
func (r *Remains) TableBlocks(path string) (all []TableBlock, err error) {
	t := r.openTable(path, 0, listed{})
	for _, h := range t.blocks {
		entries, err := t.readBlock(h)
		if err != nil {
			return nil, err
		}
		all = append(all, TableBlock{int(h.Offset), int(h.Offset+h.Length) + block.TrailerLen, len(entries)})
	}
	return all, nil
}

func (t *table) readBlock(h block.Handle) ([]entry, error) {
	f, err := t.r.FS.Open(t.path)
	if err != nil {
		return nil, err
	}
	b := make([]byte, h.Length+block.TrailerLen)
	_, err = f.ReadAt(b, int64(h.Offset))
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	entries, err := decodeBlock(b)
	for i := range entries {
		entries[i].file = t.num
	}
	return entries, err
}

var errBlock = errors.New("it does not fit its checksum")

// The columns of a block of entries: its keys as prefixes and suffixes, sequence numbers with
// kinds, whether a key is another one than that before it, values, whether they lie in a block
// of their own, and whether they are superseded.
const (
	columnKey, columnTrailer, columnValue, columnElsewhere = 0, 2, 4, 5
	columns                                                = 7
	blockHead                                              = 4 // before the columns' own header
)

var columnTypes = [columns]colblk.DataType{
	colblk.DataTypePrefixBytes, colblk.DataTypeBytes, colblk.DataTypeUint, colblk.DataTypeBool,
	colblk.DataTypeBytes, colblk.DataTypeBool, colblk.DataTypeBool,
}

// decodeBlock reads a block of entries with its trailer.
func decodeBlock(b []byte) (entries []entry, err error) {
	defer func() {
		if p := recover(); p != nil {
			entries, err = nil, fmt.Errorf("%v", p)
		}
	}()
	data, how := b[:len(b)-block.TrailerLen], b[len(b)-block.TrailerLen]
	if chunkSum(b[:len(data)+1]) != binary.LittleEndian.Uint32(b[len(data)+1:]) {
		return nil, errBlock
	}
	raw, err := unpack(data, block.CompressionIndicator(how))
	if err != nil {
		return nil, err
	}
	head := colblk.DecodeHeader(raw[blockHead:])
	d := colblk.DecodeBlock(raw, blockHead)
	if head.Columns != columns {
		return nil, errNoEntries
	}
	for i, of := range columnTypes {
		if d.DataType(i) != of {
			return nil, errNoEntries
		}
	}
	keys, trailers := d.PrefixBytes(columnKey), d.Uints(columnTrailer)
	values, elsewhere := d.RawBytes(columnValue), d.Bitmap(columnElsewhere)
	for i := range d.Rows() {
		e := entry{key: slices.Concat(keys.SharedPrefix(), keys.RowBundlePrefix(i), keys.RowSuffix(i))}
		trailer := trailers.At(i)
		e.seq, e.kind = trailer>>8, pebble.InternalKeyKind(trailer&0xff)
		if elsewhere.At(i) {
			continue // an older value of a key, which a newer one in this table hides
		}
		e.value = bytes.Clone(values.At(i))
		entries = append(entries, e)
	}
	return entries, nil
}

var errNoEntries = errors.New("it is no block of entries")

// maxUnpacked bounds what a block may be when it is unpacked: the largest value is a text or
// an entry of a few megabytes.
const maxUnpacked = 256 << 20

// unpack is the content of a block, at an address that its reader can work with.
func unpack(data []byte, how block.CompressionIndicator) ([]byte, error) {
	n := len(data)
	if how != block.NoCompressionIndicator {
		var err error
		if n, err = block.DecompressedLen(how, data); err != nil || n > maxUnpacked {
			return nil, errors.Join(errBlock, err)
		}
	}
	words := make([]uint64, n/8+1)
	out := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), n)
	if how == block.NoCompressionIndicator {
		copy(out, data)
		return out, nil
	}
	return out, block.DecompressInto(how, data, out)
}

// mostSearched bounds how far a block that is found by its checksum reaches. Usual blocks are 4 to
// 32 KiB, and one with a large value is little larger than that.
const mostSearched = 16 << 20

// carve finds the blocks of entries in the bytes of a table by their checksums, wherever they begin. It
// reads each byte once.
//
// With Z(t) the register of a CRC after t bytes that began as 0, and x^8 what one byte multiplies the
// register by, the block from s to t has the register x^8(t-s)(^0 + Z(s)) + Z(t). So one begins at s where
// x^-8s(^0 + Z(s)) is x^-8t(Z(t) + the register that the checksum behind t stands for): the left side is
// noted for each byte, and the right side is looked for behind each byte that may end a block.
func carve(b []byte) (found []block.Handle) {
	begun := newBeginnings(min(len(b), mostSearched))
	state, power := uint32(0), crcOne
	from := 0 // behind the block that was found last
	for at := 0; at+block.TrailerLen <= len(b); at++ {
		begun.add(at, crcProduct(power, ^state))
		state = castagnoli[byte(state)^b[at]] ^ state>>8 // with the byte that says how a block is packed
		power = crcBack(power)
		if block.CompressionIndicator(b[at]) > block.MinLZCompressionIndicator {
			continue
		}
		sum := binary.LittleEndian.Uint32(b[at+1:]) - chunkSumAdded
		end := crcProduct(power, state^^(sum>>17|sum<<15))
		for _, s := range begun.at(end, max(from, at+1-mostSearched)) {
			if _, err := decodeBlock(b[s : at+block.TrailerLen]); err == nil {
				found = append(found, block.Handle{Offset: uint64(s), Length: uint64(at - s)})
				from = at + block.TrailerLen
				break
			}
		}
	}
	return found
}

// The polynomial of a CRC-32C register has the highest power of x in its lowest bit: crcOne is 1.
const (
	crcPolynomial = uint32(crc32.Castagnoli)
	crcOne        = uint32(1 << 31)
)

// crcProduct multiplies two polynomials.
func crcProduct(a, b uint32) (p uint32) {
	for ; a != 0; a <<= 1 {
		p ^= b & -(a >> 31)
		b = b>>1 ^ crcPolynomial&-(b&1)
	}
	return p
}

// crcBack divides a polynomial by x^8: it takes back what one byte does.
func crcBack(a uint32) uint32 {
	for range 8 {
		high := a >> 31
		a = (a^crcPolynomial&-high)<<1 | high
	}
	return a
}

// beginnings are the places at which a block may begin, by a number that its checksum leads to. Places
// that are added come one after the other; the oldest are forgotten.
type beginnings struct {
	heads []int32 // by the highest bits of the number: the newest place, from 1 on
	shift int
	older []int32 // by the place: the one before it with the same bits
	sums  []uint32
}

func newBeginnings(n int) *beginnings {
	width := min(bits.Len(uint(n)), 22)
	return &beginnings{heads: make([]int32, 1<<width), shift: 32 - width, older: make([]int32, n), sums: make([]uint32, n)}
}

func (f *beginnings) add(place int, sum uint32) {
	head := &f.heads[sum>>f.shift]
	f.older[place%len(f.older)], f.sums[place%len(f.sums)] = *head, sum
	*head = int32(place + 1)
}

// at returns the places of a number, the newest first, down to a least one.
func (f *beginnings) at(sum uint32, least int) (places []int) {
	for next := f.heads[sum>>f.shift]; int(next) > least; {
		place := int(next) - 1
		next = f.older[place%len(f.older)]
		if f.sums[place%len(f.sums)] == sum {
			places = append(places, place)
		}
	}
	return places
}

func readWhole(fs vfs.FS, path string) ([]byte, error) {
	f, err := fs.Open(path)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(f)
	return b, errors.Join(err, f.Close())
}
