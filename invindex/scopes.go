package invindex

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/zeebo/xxh3"
)

// scopeFilter is a summary of the values that a sealed chunk has of some fields: a
// Bloom filter in blocks of a cache line. It is part of the chunk's header, in
// memory, so that a scope of a few documents among many chunks is looked for in
// few of them.
type scopeFilter struct {
	fields []uint16 // ascending
	blocks []byte
}

const (
	filterBlock  = 64 // bytes
	filterProbes = 7
	filterBits   = 10 // for each value; about 1% of others pass
)

// scopeSummary gathers what a scopeFilter is made of.
type scopeSummary struct {
	fields []uint16
	hashes []uint64
}

// newScopeSummary is one of the values of the given fields.
func newScopeSummary(fields []uint16) scopeSummary {
	fields = slices.Clone(fields)
	slices.Sort(fields)
	return scopeSummary{fields: slices.Compact(fields)}
}

// add adds the key of a value, of whatever field.
func (s *scopeSummary) add(key string) {
	if f := (scopeFilter{fields: s.fields}); f.covers(key) {
		s.hashes = append(s.hashes, xxh3.HashString(key))
	}
}

func (s *scopeSummary) filter() scopeFilter {
	f := scopeFilter{fields: s.fields}
	if len(s.hashes) == 0 {
		return f
	}
	blocks := (len(s.hashes)*filterBits + 8*filterBlock - 1) / (8 * filterBlock)
	f.blocks = make([]byte, blocks*filterBlock)
	for _, h := range s.hashes {
		block, probes := f.place(h)
		for range filterProbes {
			block[probes>>3%filterBlock] |= 1 << (probes & 7)
			probes >>= 9
		}
	}
	return f
}

// covers says whether the filter knows the field of a valueKey.
func (f *scopeFilter) covers(key string) bool {
	_, ok := slices.BinarySearch(f.fields, binary.BigEndian.Uint16([]byte(key[:2])))
	return ok
}

// place returns the block of a hash, and bits that choose places in it.
func (f *scopeFilter) place(h uint64) (block []byte, probes uint64) {
	blocks := uint64(len(f.blocks) / filterBlock)
	i := (h >> 32) * blocks >> 32
	return f.blocks[i*filterBlock:][:filterBlock], h * 0x9e3779b97f4a7c15
}

// mayHave is false where the chunk surely has no document with the value.
func (f *scopeFilter) mayHave(key string) bool {
	if !f.covers(key) {
		return true
	}
	if len(f.blocks) == 0 {
		return false
	}
	block, probes := f.place(xxh3.HashString(key))
	for range filterProbes {
		if block[probes>>3%filterBlock]>>(probes&7)&1 == 0 {
			return false
		}
		probes >>= 9
	}
	return true
}

// append encodes the filter: the number of fields, each as 16 bits little-endian,
// the number of blocks, the blocks.
func (f *scopeFilter) append(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(f.fields)))
	for _, field := range f.fields {
		dst = binary.LittleEndian.AppendUint16(dst, field)
	}
	dst = binary.AppendUvarint(dst, uint64(len(f.blocks)/filterBlock))
	return append(dst, f.blocks...)
}

func (f *fields) scopeFilter() scopeFilter {
	var s scopeFilter
	for b := f.bytes(2 * f.uvarint()); len(b) > 0; b = b[2:] {
		s.fields = append(s.fields, binary.LittleEndian.Uint16(b))
	}
	s.blocks = bytes.Clone(f.bytes(f.uvarint() * filterBlock))
	return s
}
