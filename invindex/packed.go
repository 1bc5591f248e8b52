package invindex

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"slices"
)

// A sealed list is stored in one of three bodies, chosen by its length:
//
//	short    up to 16 postings: for each a uvarint of (gap to the last slot) · 2,
//	         plus 1 if the frequency isn't 1 and follows as a uvarint
//	flat     below 256: the slots, 16 bits each, then the frequencies
//	windowed the rest: a mask of the windows with postings, 16 bits; for each such
//	         window a head; for each its slots, then its frequencies
//
// A window's head is 16 bits, of which the lower 12 are the number of postings
// minus one and the next 3 the code of the frequencies' width; lists of words have
// four impacts of two bytes after it. Its slots are a bitmap of 4,096 bits where
// that is smaller than 12 bits for each. Frequencies are stored minus one, each in
// the smallest of 0, 1, 2, 4, 8 or 16 bits that holds the highest of them; in a
// flat list the code of the width, one byte, precedes them. Everything is
// little-endian, and the lowest bits come first.
const (
	maxShort     = 16
	minWindowed  = 256
	windowHead   = 2
	impactBytes  = 2 * maxImpacts
	bitmapBytes  = windowDocs / 8
	denseWindow  = bitmapBytes*8/windowBits + 1 // postings from which a bitmap is smaller
	maxWidthCode = 5
)

// width is a number of bits by its code.
func width(code int) int { return 1 << code >> 1 }

// widthFor returns the code of the smallest width that holds v.
func widthFor(v uint32) int {
	if v == 0 {
		return 0
	}
	return 1 + bits.Len(uint(bits.Len32(v)-1))
}

func packedBytes(n, bitsEach int) int { return (n*bitsEach + 7) / 8 }

// appendBits packs values of the same width.
func appendBits(dst []byte, n, bitsEach int, value func(i int) uint32) []byte {
	if bitsEach == 0 {
		return dst
	}
	var acc uint64
	have := 0
	for i := range n {
		acc |= uint64(value(i)) << have
		for have += bitsEach; have >= 8; have -= 8 {
			dst = append(dst, byte(acc))
			acc >>= 8
		}
	}
	if have > 0 {
		dst = append(dst, byte(acc))
	}
	return dst
}

// appendFreqs packs the frequencies of postings, and returns the width's code.
func appendFreqs(dst []byte, p []posting) ([]byte, int) {
	code := freqWidth(p)
	return appendBits(dst, len(p), width(code), func(i int) uint32 { return p[i]&MaxFreq - 1 }), code
}

func freqWidth(p []posting) int {
	most := uint32(0)
	for _, x := range p {
		most = max(most, x&MaxFreq-1)
	}
	return widthFor(most)
}

// appendShort encodes a short body.
func appendShort(dst []byte, p []posting) []byte {
	last := uint32(0)
	for _, x := range p {
		slot, freq := x>>16, x&MaxFreq
		gap := uint64(slot-last) << 1
		if freq == 1 {
			dst = binary.AppendUvarint(dst, gap)
		} else {
			dst = binary.AppendUvarint(dst, gap|1)
			dst = binary.AppendUvarint(dst, uint64(freq))
		}
		last = slot
	}
	return dst
}

// appendFlat encodes a flat body.
func appendFlat(dst []byte, p []posting) []byte {
	for _, x := range p {
		dst = binary.LittleEndian.AppendUint16(dst, uint16(x>>16))
	}
	dst = append(dst, byte(freqWidth(p)))
	dst, _ = appendFreqs(dst, p)
	return dst
}

// appendWindowed encodes a windowed body. A nil length leaves the impacts out.
func appendWindowed(dst []byte, p []posting, length func(slot uint16) uint32) []byte {
	at := len(dst)
	dst = append(dst, 0, 0)
	present := uint16(0)
	var parts [windows][]posting
	for w := range parts {
		n := len(p)
		if w < windows-1 {
			n = lowerBound(p, posting(w+1)<<(windowBits+16))
		}
		if parts[w], p = p[:n], p[n:]; n == 0 {
			continue
		}
		present |= 1 << w
		dst = binary.LittleEndian.AppendUint16(dst, uint16((n-1)|freqWidth(parts[w])<<windowBits))
		if length != nil {
			for _, i := range maxima(parts[w], length) {
				dst = append(dst, roundUp(i.freq), roundDown(i.length))
			}
		}
	}
	binary.LittleEndian.PutUint16(dst[at:], present)
	for _, part := range parts {
		if len(part) > 0 {
			dst = appendSlots(dst, part)
			dst, _ = appendFreqs(dst, part)
		}
	}
	return dst
}

// appendSlots encodes the slots of a window.
func appendSlots(dst []byte, p []posting) []byte {
	if len(p) < denseWindow {
		return appendBits(dst, len(p), windowBits, func(i int) uint32 { return p[i] >> 16 % windowDocs })
	}
	var bitmap [bitmapBytes]byte
	for _, x := range p {
		slot := x >> 16 % windowDocs
		bitmap[slot>>3] |= 1 << (slot & 7)
	}
	return append(dst, bitmap[:]...)
}

// Impacts are stored as bytes: exact up to 16, then with four bits of precision
// (a fifth, the first, is implied). Frequencies are rounded up and lengths down,
// so that an impact is no less than what it was.

func roundDown(v uint32) byte {
	if v < 16 {
		return byte(v)
	}
	shift := bits.Len32(v) - 5
	return byte(min(16*(shift+1)+int(v>>shift&15), math.MaxUint8))
}

// roundUp is for frequencies, which 16 bits hold.
func roundUp(v uint32) byte {
	c := roundDown(v)
	if rounded(c) < v {
		c++
	}
	return c
}

// rounded returns the value that a byte stands for.
func rounded(c byte) uint32 {
	if c < 16 {
		return uint32(c)
	}
	return (16 + uint32(c&15)) << (c>>4 - 1)
}

// decodeShort appends the postings of a short body.
func decodeShort(dst []posting, b []byte, n int) ([]posting, error) {
	next := uint64(0) // the lowest slot that may come
	last := uint64(0)
	for range n {
		v, size := binary.Uvarint(b)
		if size <= 0 {
			return nil, fmt.Errorf("%w: a short list is cut off", ErrCorrupt)
		}
		b = b[size:]
		freq := uint64(1)
		if v&1 != 0 {
			if freq, size = binary.Uvarint(b); size <= 0 || freq == 0 || freq > MaxFreq {
				return nil, fmt.Errorf("%w: a short list has a bad frequency", ErrCorrupt)
			}
			b = b[size:]
		}
		if last += v >> 1; v>>1 >= chunkDocs || last < next || last >= chunkDocs {
			return nil, fmt.Errorf("%w: a short list is out of order", ErrCorrupt)
		}
		dst = append(dst, uint32(last)<<16|uint32(freq))
		next = last + 1
	}
	if len(b) != 0 {
		return nil, fmt.Errorf("%w: a short list has %d bytes too many", ErrCorrupt, len(b))
	}
	return dst, nil
}

// decodeFlat appends the postings of a flat body.
func decodeFlat(dst []posting, b []byte, n int) ([]posting, error) {
	if len(b) < 2*n+1 || int(b[2*n]) > maxWidthCode || len(b) != 2*n+1+packedBytes(n, width(int(b[2*n]))) {
		return nil, fmt.Errorf("%w: a flat list of %d has %d bytes", ErrCorrupt, n, len(b))
	}
	from := len(dst)
	for i := range n {
		dst = append(dst, uint32(binary.LittleEndian.Uint16(b[2*i:]))<<16)
	}
	addFreqs(dst[from:], b[2*n+1:], int(b[2*n]))
	return dst, nil
}

// addFreqs adds packed frequencies to postings that have none.
func addFreqs(p []posting, b []byte, code int) {
	switch code {
	case 0:
		for i := range p {
			p[i]++
		}
	case 4:
		for i := range p {
			p[i] += uint32(b[i]) + 1
		}
	case 5:
		for i := range p {
			// 65,536 can't be: 65,535 is the highest frequency.
			p[i] += uint32(binary.LittleEndian.Uint16(b[2*i:])) + 1
		}
	default:
		addSmallFreqs(p, b, width(code))
	}
}

func addSmallFreqs(p []posting, b []byte, bitsEach int) {
	m := uint64(1)<<bitsEach - 1
	each := 64 / bitsEach
	for len(b) >= 8 && len(p) >= each {
		v := binary.LittleEndian.Uint64(b)
		for i := range p[:each] {
			p[i] += uint32(v&m) + 1
			v >>= bitsEach
		}
		p, b = p[each:], b[8:]
	}
	for i := range p {
		at := i * bitsEach
		p[i] += uint32(uint64(b[at>>3])>>(at&7)&m) + 1
	}
}

// packedList reads a windowed body, window by window.
type packedList struct {
	n       int // postings
	present uint16
	heads   []byte // from the current window on
	body    []byte
	head    int // bytes of a head
}

// openPacked checks that a body's parts are where they should be. What is in them
// is covered by the page's checksum.
func openPacked(b []byte, n int, impacts bool) (packedList, error) {
	l := packedList{n: n, head: windowHead}
	if impacts {
		l.head += impactBytes
	}
	if len(b) < 2 {
		return l, fmt.Errorf("%w: a list of %d has %d bytes", ErrCorrupt, n, len(b))
	}
	l.present, b = binary.LittleEndian.Uint16(b), b[2:]
	heads := l.head * bits.OnesCount16(l.present)
	if len(b) < heads {
		return l, fmt.Errorf("%w: a list of %d has %d bytes", ErrCorrupt, n, len(b))
	}
	l.heads, l.body = b[:heads], b[heads:]
	count, size := 0, 0
	for h := l.heads; len(h) > 0; h = h[l.head:] {
		w := readWindow(h)
		count += w.n
		size += w.slotBytes() + w.freqBytes()
		if w.code > maxWidthCode {
			return l, fmt.Errorf("%w: a list of %d has frequencies of width %d", ErrCorrupt, n, w.code)
		}
	}
	if count != n || size != len(l.body) {
		return l, fmt.Errorf("%w: a list of %d has %d postings in %d of %d bytes", ErrCorrupt, n, count, size, len(l.body))
	}
	return l, nil
}

// packedWindow is a window of a windowed body.
type packedWindow struct {
	n       int
	code    int // of the frequencies' width
	slots   []byte
	freqs   []byte
	impacts []byte

	// Where find has got to.
	at   int // postings before the word, or before the slot looked for last
	word int // of a bitmap
}

func readWindow(head []byte) packedWindow {
	h := int(binary.LittleEndian.Uint16(head))
	return packedWindow{n: h%windowDocs + 1, code: h >> windowBits}
}

func (w *packedWindow) dense() bool { return w.n >= denseWindow }

func (w *packedWindow) slotBytes() int {
	if w.dense() {
		return bitmapBytes
	}
	return packedBytes(w.n, windowBits)
}

func (w *packedWindow) freqBytes() int { return packedBytes(w.n, width(w.code)) }

// enter moves to window w, which is above every earlier one. Windows between are
// passed over.
func (l *packedList) enter(w int) (packedWindow, bool) {
	for l.present != 0 {
		at := bits.TrailingZeros16(l.present)
		if at > w {
			break
		}
		win := readWindow(l.heads)
		slots, freqs := win.slotBytes(), win.freqBytes()
		win.impacts = l.heads[windowHead:l.head]
		win.slots, win.freqs = l.body[:slots], l.body[slots:slots+freqs]
		l.heads, l.body = l.heads[l.head:], l.body[slots+freqs:]
		l.present &= l.present - 1
		if at == w {
			return win, true
		}
	}
	return packedWindow{}, false
}

// decode appends the postings of the window, whose first slot is base.
func (w *packedWindow) decode(dst []posting, base uint32) ([]posting, error) {
	from := len(dst)
	if w.dense() {
		for i := range bitmapBytes / 8 {
			for word := binary.LittleEndian.Uint64(w.slots[8*i:]); word != 0; word &= word - 1 {
				dst = append(dst, (base|uint32(i<<6|bits.TrailingZeros64(word)))<<16)
			}
		}
		if n := len(dst) - from; n != w.n {
			return nil, fmt.Errorf("%w: a bitmap of %d documents has %d", ErrCorrupt, w.n, n)
		}
	} else {
		dst = decodeSparse(dst, w.slots, w.n, base)
	}
	addFreqs(dst[from:], w.freqs, w.code)
	return dst, nil
}

func decodeSparse(dst []posting, b []byte, n int, base uint32) []posting {
	from := len(dst)
	dst = slices.Grow(dst, n)[:from+n]
	out := dst[from:]
	base <<= 16
	for len(out) >= 4 && len(b) >= 8 {
		v := binary.LittleEndian.Uint64(b)
		out[0] = base | uint32(v)<<16&slotMask
		out[1] = base | uint32(v>>12)<<16&slotMask
		out[2] = base | uint32(v>>24)<<16&slotMask
		out[3] = base | uint32(v>>36)<<16&slotMask
		out, b = out[4:], b[6:]
	}
	for i := range out {
		out[i] = base | sparseSlot(b, i)<<16
	}
	return dst
}

// slotMask selects the slot within its window from a posting.
const slotMask = (windowDocs - 1) << 16

// sparseSlot reads the i-th of slots of 12 bits.
func sparseSlot(b []byte, i int) uint32 {
	at := i * 3 / 2
	return uint32(binary.LittleEndian.Uint16(b[at:])) >> ((i & 1) * 4) & 4095
}

// find returns the frequency of a slot of the window (0 to 4,095), 0 where it has
// no posting. Slots ascend from call to call.
func (w *packedWindow) find(slot uint32) uint32 {
	if w.dense() {
		return w.findDense(slot)
	}
	lo, hi := w.near(slot)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if sparseSlot(w.slots, mid) < slot {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if w.at = lo; lo == w.n || sparseSlot(w.slots, lo) != slot {
		return 0
	}
	return w.freq(lo)
}

// near returns places between which the first slot is that is not below the given one.
// It looks where that would be if slots were even.
func (w *packedWindow) near(slot uint32) (lo, hi int) {
	lo, hi = w.at, w.n
	if hi-lo < minGuessed {
		return lo, hi
	}
	guess := max(lo, int(slot)*w.n>>windowBits)
	step := minGuessed / 2
	if sparseSlot(w.slots, guess) < slot { // guess is below n, since slot is below 4,096
		for lo = guess + 1; lo+step < hi && sparseSlot(w.slots, lo+step) < slot; step *= 2 {
			lo += step + 1
		}
		return lo, min(lo+step, hi)
	}
	for hi = guess; hi-step > lo && sparseSlot(w.slots, hi-step) >= slot; step *= 2 {
		hi -= step
	}
	return max(lo, hi-step), hi
}

// minGuessed is from how many slots on a guess is cheaper than to halve them.
const minGuessed = 16

func (w *packedWindow) findDense(slot uint32) uint32 {
	target := int(slot >> 6)
	for ; w.word < target; w.word++ {
		w.at += bits.OnesCount64(binary.LittleEndian.Uint64(w.slots[8*w.word:]))
	}
	word := binary.LittleEndian.Uint64(w.slots[8*target:])
	if word>>(slot&63)&1 == 0 {
		return 0
	}
	i := w.at + bits.OnesCount64(word&(1<<(slot&63)-1))
	if i >= w.n { // only in a damaged bitmap
		return 0
	}
	return w.freq(i)
}

// freq reads the i-th frequency.
func (w *packedWindow) freq(i int) uint32 {
	bitsEach := width(w.code)
	switch bitsEach {
	case 0:
		return 1
	case 16:
		return uint32(binary.LittleEndian.Uint16(w.freqs[2*i:])) + 1
	}
	at := i * bitsEach
	return uint32(w.freqs[at>>3])>>(at&7)&(1<<bitsEach-1) + 1
}

// mask adds the window's slots to a set, of which m is this window.
func (w *packedWindow) mask(m []uint64) {
	if w.dense() {
		for i := range m {
			m[i] |= binary.LittleEndian.Uint64(w.slots[8*i:])
		}
		return
	}
	for i := range w.n {
		slot := sparseSlot(w.slots, i)
		m[slot>>6] |= 1 << (slot & 63)
	}
}

// common counts the postings whose slot is in a set, of which m is this window.
func (w *packedWindow) common(m []uint64) uint32 {
	n := 0
	if w.dense() {
		for i, word := range m {
			n += bits.OnesCount64(word & binary.LittleEndian.Uint64(w.slots[8*i:]))
		}
		return uint32(n)
	}
	for i := range w.n {
		slot := sparseSlot(w.slots, i)
		n += int(m[slot>>6] >> (slot & 63) & 1)
	}
	return uint32(n)
}
