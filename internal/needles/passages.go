package needles

import (
	"encoding/binary"
	"hash/maphash"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Passages are texts that are looked for in bytes of any kind, by the first bytes of each and a hash
// of the whole, as Rabin and Karp (1987) do. A Passages takes some 50 bytes for each, whatever their
// lengths, and reads each byte of what is searched once.
type Passages struct {
	seed  maphash.Seed
	long  map[uint64][]passage // by their first 8 bytes
	short map[uint32][]string  // names of 4 to 7 bytes, by their first 4
	// mayLong and mayShort have a bit for what may be in the maps.
	mayLong, mayShort []uint64
	n                 int
	most              int
}

// passage is one of 8 bytes or more.
type passage struct {
	length int
	sum    uint64
	name   bool
}

const (
	// leastPart is the length from which on a part of a text is looked for: shorter ones, such as
	// "Yes, please.", are in many texts.
	leastPart = 16
	// leastName is that of a name. A shorter one is in whatever bytes there are.
	leastName = 4
	// mostPart bounds a part, so that a text is also found where it was cut.
	mostPart = 256

	longWindow = 8
	longBits   = 23
	shortBits  = 16
)

// NewPassages returns Passages that take at most so many.
func NewPassages(most int) *Passages {
	return &Passages{
		seed: maphash.MakeSeed(), most: most, long: map[uint64][]passage{}, short: map[uint32][]string{},
		mayLong: make([]uint64, 1<<(longBits-6)), mayShort: make([]uint64, 1<<(shortBits-6)),
	}
}

// Full reports whether some were left out, since there were too many.
func (p *Passages) Full() bool { return p.n > p.most }

// Len is how many there are.
func (p *Passages) Len() int { return min(p.n, p.most) }

// Text adds the sentences of a text. Each is cut where JSON would write it in another way.
func (p *Passages) Text(text string) {
	for part := range strings.FieldsFuncSeq(text, func(r rune) bool {
		return r < ' ' || strings.ContainsRune("\"\\<>&.!?。！？\u2028\u2029", r) || r == utf8.RuneError
	}) {
		for part = strings.TrimSpace(part); len(part) >= leastPart; {
			n := min(len(part), mostPart)
			p.add(part[:n], false)
			part = part[n:]
		}
	}
}

// Name adds a name, which is looked for as a whole word.
func (p *Passages) Name(name string) {
	switch name = strings.TrimSpace(name); {
	case len(name) < leastName:
	case len(name) >= longWindow:
		p.add(name[:min(len(name), mostPart)], true)
	default:
		if p.n++; p.n > p.most {
			return
		}
		first := binary.LittleEndian.Uint32([]byte(name))
		p.short[first] = append(p.short[first], name)
		set(p.mayShort, bitOf(uint64(first), shortBits))
	}
}

func (p *Passages) add(text string, name bool) {
	if p.n++; p.n > p.most {
		return
	}
	first := binary.LittleEndian.Uint64([]byte(text[:longWindow]))
	p.long[first] = append(p.long[first], passage{len(text), maphash.String(p.seed, text), name})
	set(p.mayLong, bitOf(first, longBits))
}

func bitOf(window uint64, bits int) uint64 { return window * 0x9e3779b97f4a7c15 >> (64 - bits) }

func set(bits []uint64, at uint64) { bits[at/64] |= 1 << (at % 64) }

func has(bits []uint64, at uint64) bool { return bits[at/64]>>(at%64)&1 != 0 }

// In reports whether one of them is in some bytes.
func (p *Passages) In(b []byte) bool {
	for i := 0; i+leastName <= len(b); i++ {
		if first := binary.LittleEndian.Uint32(b[i:]); len(p.short) > 0 && has(p.mayShort, bitOf(uint64(first), shortBits)) {
			for _, name := range p.short[first] {
				if strings.HasPrefix(string(b[i:min(len(b), i+longWindow)]), name) && isWord(b, i, len(name)) {
					return true
				}
			}
		}
		if i+longWindow > len(b) {
			continue
		}
		first := binary.LittleEndian.Uint64(b[i:])
		if !has(p.mayLong, bitOf(first, longBits)) {
			continue
		}
		for _, of := range p.long[first] {
			if i+of.length <= len(b) && maphash.Bytes(p.seed, b[i:i+of.length]) == of.sum && (!of.name || isWord(b, i, of.length)) {
				return true
			}
		}
	}
	return false
}

// isWord reports whether neither a letter nor a digit stands before or behind some bytes.
func isWord(b []byte, at, length int) bool {
	if length >= '0' {
		return true // the byte before may be its length, and no letter
	}
	before, _ := utf8.DecodeLastRune(b[max(0, at-utf8.UTFMax):at])
	after, _ := utf8.DecodeRune(b[at+length:])
	inWord := func(r rune) bool { return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r)) }
	return !inWord(before) && !inWord(after)
}
