package hnsw

import "math/bits"

// Set is a set of slots, one bit for each of an index. It is for one goroutine while
// it changes, and for any number when it does no more.
type Set struct {
	words []uint64
	n     int
}

// NewSet returns the set of some slots.
func NewSet(slots ...uint32) *Set {
	s := &Set{}
	s.Add(slots...)
	return s
}

// Len returns how many slots are in the set.
func (s *Set) Len() int { return s.n }

// Has reports whether a slot is in the set.
func (s *Set) Has(slot uint32) bool {
	w := int(slot >> 6)
	return w < len(s.words) && s.words[w]>>(slot&63)&1 != 0
}

// Add puts slots into the set.
func (s *Set) Add(slots ...uint32) {
	for _, slot := range slots {
		w, bit := int(slot>>6), uint64(1)<<(slot&63)
		if w >= len(s.words) {
			s.words = append(s.words, make([]uint64, w+1-len(s.words))...)
		}
		if s.words[w]&bit == 0 {
			s.words[w] |= bit
			s.n++
		}
	}
}

// Remove takes a slot out of the set.
func (s *Set) Remove(slot uint32) {
	if s.Has(slot) {
		s.words[slot>>6] &^= 1 << (slot & 63)
		s.n--
	}
}

// Clone returns a copy.
func (s *Set) Clone() *Set {
	words := make([]uint64, len(s.words), len(s.words)+len(s.words)/16+1)
	copy(words, s.words)
	return &Set{words, s.n}
}

// below returns the part of the set below a limit: the set itself, if that is all.
func (s *Set) below(limit uint32) *Set {
	from := int(limit >> 6)
	if from >= len(s.words) {
		return s
	}
	kept := s.words[from] & (1<<(limit&63) - 1)
	beyond := bits.OnesCount64(s.words[from] &^ kept)
	for _, w := range s.words[from+1:] {
		beyond += bits.OnesCount64(w)
	}
	if beyond == 0 {
		return s
	}
	return &Set{append(s.words[:from:from], kept), s.n - beyond}
}

// next fills a buffer with the slots from one on, in ascending order. It returns
// how many there were, and from where to go on.
func (s *Set) next(from uint32, buf []uint32) (n int, to uint32) {
	for w := int(from >> 6); w < len(s.words); w++ {
		word := s.words[w]
		if w == int(from>>6) {
			word &= ^uint64(0) << (from & 63)
		}
		for ; word != 0; word &= word - 1 {
			slot := uint32(w<<6 + bits.TrailingZeros64(word))
			if n == len(buf) {
				return n, slot
			}
			buf[n] = slot
			n++
		}
	}
	return n, uint32(len(s.words)) << 6
}
