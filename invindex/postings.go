package invindex

import (
	"slices"
	"sync/atomic"
	"unsafe"
)

// A posting is a document's slot in its chunk (upper 16 bits) and the frequency
// of the term in it (lower 16 bits). Postings of a list ascend.
type posting = uint32

func newPosting(slot uint16, freq uint32) posting {
	return uint32(slot)<<16 | min(freq, MaxFreq)
}

const (
	windowBits = 12
	windowDocs = 1 << windowBits // documents that are scored together; their sums fit the L1 cache
	windows    = chunkDocs / windowDocs

	// minBounded is the length from which a list keeps bounds for its windows.
	// Shorter ones are cheaper to score than to bound.
	minBounded = 256
	// maxImpacts is how many pairs describe the best postings of a window.
	maxImpacts = 4
)

// list is the postings of one term in a hot chunk: an array that one writer
// extends while readers read what was published before.
type list struct {
	text string
	// array is the first of room postings. It is replaced by a larger copy, never
	// written below n, so whatever array a reader sees holds n postings. A bare
	// pointer, because a slice header would double the size of a rare term.
	array  atomic.Pointer[posting]
	n      atomic.Uint32
	size   uint8  // rooms[size] is the array's room; the writer's alone, as what follows
	last   uint16 // slot of the last posting: looking at that would be a wait for the memory
	bounds atomic.Pointer[bounds]
}

// rooms are the sizes of arrays, one after the other: twice the one before; where that
// would waste much, a quarter more.
var rooms = func() []uint32 {
	r := []uint32{0, 1}
	for n := uint32(1); n < chunkDocs; r = append(r, n) {
		if n < 1024 {
			n *= 2
		} else {
			n += n / 4
		}
	}
	return r
}()

// postings returns the postings that were published. They are never written again.
func (l *list) postings() []posting {
	n := l.n.Load()
	return unsafe.Slice(l.array.Load(), n) // the array was stored before n
}

// add appends a posting and returns the number of bytes by which the list grew.
func (l *list) add(p posting) int {
	grown := l.put(p)
	l.publish()
	return grown
}

// put writes a posting that readers see once it is published, before the next is put.
func (l *list) put(p posting) int {
	n, grown := l.n.Load(), 0
	if n == rooms[l.size] {
		bigger := make([]posting, rooms[l.size+1])
		copy(bigger, l.postings())
		l.array.Store(&bigger[0])
		grown = 4 * (len(bigger) - int(n))
		l.size++
	}
	unsafe.Slice(l.array.Load(), rooms[l.size])[n] = p
	l.last = uint16(p >> 16)
	return grown
}

func (l *list) publish() { l.n.Store(l.n.Load() + 1) }

// bounds describes the windows of a list that will get no more postings.
type bounds struct {
	closed atomic.Uint32 // windows below it are described
	win    [windows]windowBound
}

type windowBound struct {
	end     uint32 // number of postings of the list up to the end of the window
	impacts [maxImpacts]impact
}

// impact is a frequency and a document length. A posting with at most that
// frequency in a document of at least that length can't score higher.
type impact struct {
	freq, length uint32
}

// closeWindows describes the windows below upto, now that the writer will add no
// posting to them. It returns the number of bytes by which the list grew.
func (l *list) closeWindows(upto int, length func(slot uint16) uint32) int {
	p, grown := l.postings(), 0
	if len(p) < minBounded {
		return 0
	}
	b := l.bounds.Load()
	if b == nil {
		b = new(bounds)
		grown = int(unsafe.Sizeof(*b))
	}
	from, start := int(b.closed.Load()), 0
	if from > 0 {
		start = int(b.win[from-1].end)
	}
	for w := from; w < upto; w++ {
		end := start + lowerBound(p[start:], posting(w+1)<<(windowBits+16))
		b.win[w].end = uint32(end)
		b.win[w].impacts = maxima(p[start:end], length)
		start = end
	}
	b.closed.Store(uint32(upto))
	l.bounds.Store(b)
	return grown
}

// maxima returns the pairs of frequency and length that no other posting beats in
// both, the highest frequency first. Where there are too many, neighbours are
// merged into one that beats both. Unused places repeat the last pair.
func maxima(p []posting, length func(slot uint16) uint32) (out [maxImpacts]impact) {
	if len(p) == 0 {
		return out
	}
	// The shortest document by frequency; the last place is for all that are
	// higher, and keeps the highest.
	const direct = 16
	var shortest [direct + 1]impact
	for _, x := range p {
		freq, n := x&MaxFreq, length(uint16(x>>16))
		s := &shortest[min(freq, direct)]
		if s.freq == 0 || n < s.length {
			s.length = n
		}
		s.freq = max(s.freq, freq)
	}
	var room [direct + 1]impact
	stairs := room[:0]
	for _, s := range slices.Backward(shortest[:]) {
		if s.freq > 0 && (len(stairs) == 0 || s.length < stairs[len(stairs)-1].length) {
			stairs = append(stairs, s)
		}
	}
	for i := range out {
		// Group i of equal shares: the frequency of its first, the length of its last.
		lo, hi := i*len(stairs)/maxImpacts, (i+1)*len(stairs)/maxImpacts
		if len(stairs) <= maxImpacts {
			lo = min(i, len(stairs)-1)
			hi = lo + 1
		}
		out[i] = impact{freq: stairs[lo].freq, length: stairs[hi-1].length}
	}
	return out
}

// below cuts a list to the postings below a slot limit (at most chunkDocs).
func below(p []posting, limit uint32) []posting {
	if len(p) == 0 || p[len(p)-1]>>16 < limit {
		return p
	}
	return p[:lowerBound(p, limit<<16)]
}

// lowerBound returns the number of postings below limit.
func lowerBound(p []posting, limit posting) int {
	lo, hi := 0, len(p)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if p[mid] < limit {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// gallop returns the number of postings below limit, looking near the beginning
// first: for walks in ascending order.
func gallop(p []posting, limit posting) int {
	step := 1
	for step < len(p) && p[step-1] < limit {
		step *= 2
	}
	from := step / 2
	return from + lowerBound(p[from:min(step, len(p))], limit)
}
