// Package ascii looks at eight bytes of a text at a time: most texts are words of
// small letters, and a step for each byte is most of what it takes to read them.
package ascii

import "math/bits"

// CaseBit makes a capital letter a small one. CaseBits do so for eight bytes, of which
// what is no letter does not become one.
const (
	CaseBit  = 0x20
	CaseBits = CaseBit * each
)

const each, top = 0x0101010101010101, 0x8080808080808080

// Eight returns text[i:i+8] as a number, the first byte lowest; beyond the end of the
// text there are zeros. i is at most len(text).
func Eight(text string, i int) uint64 {
	if len(text)-i >= 8 {
		s := text[i : i+8]
		return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
			uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
	}
	w := uint64(0)
	for j := range len(text) - i {
		w |= uint64(text[i+j]) << (8 * j)
	}
	return w
}

// SmallLetters returns how many of eight bytes, from the lowest on, are a to z.
func SmallLetters(w uint64) int {
	low := w &^ top
	// The top bit of each byte: from a on, not beyond z, and ASCII.
	letters := (low + (0x80-'a')*each) &^ (low + (0x7f-'z')*each) &^ w
	return bits.TrailingZeros64(^letters&top) / 8
}

// Block is the number of bytes that Letters looks at.
const Block = 64

// Letters tells of the bytes text[at:at+Block] which are letters, small or capital, and
// which are beyond ASCII, the first in the lowest bit. Beyond the end of the text there
// are neither.
func Letters(text string, at int) (letters, beyond uint64) {
	for i := range Block / 8 {
		if at+8*i >= len(text) {
			break
		}
		w := Eight(text, at+8*i)
		low := w&^top | CaseBits
		l := (low + (0x80-'a')*each) &^ (low + (0x7f-'z')*each) &^ w & top
		letters |= gather(l) << (8 * i)
		beyond |= gather(w&top) << (8 * i)
	}
	return letters, beyond
}

// gather makes the top bits of eight bytes the lowest eight bits.
func gather(w uint64) uint64 {
	const each = 0x0102040810204080
	return w >> 7 * each >> 56
}
