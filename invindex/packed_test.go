package invindex

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
)

// somePostings draws n postings, of frequencies up to most.
func somePostings(rng *rand.Rand, n int, slots, most uint32) []posting {
	set := roaring.New()
	for set.GetCardinality() < uint64(n) {
		set.Add(rng.Uint32N(slots))
	}
	var p []posting
	for slot := range roaring.Values(set) {
		p = append(p, newPosting(uint16(slot), 1+rng.Uint32N(most)))
	}
	return p
}

var bodies = []struct {
	n           int
	slots, most uint32
}{
	{1, 1 << 16, 1},
	{16, 16, 1},
	{16, 1 << 16, 70_000},
	{17, 17, 2},
	{255, 1 << 16, 5},
	{255, 255, 70_000},
	{256, 256, 1},
	{300, 1 << 16, 2},
	{3000, 1 << 16, 4},
	{3000, windowDocs, 17},
	{4096, windowDocs, 300},
	{denseWindow, windowDocs, 3},
	{9000, 1 << 16, 16},
	{1 << 16, 1 << 16, 2},
	{30_000, 1 << 16, 256},
	{20_000, 1 << 16, 100_000},
}

// Each body gives back its postings, by decoding it and by looking for slots.
func TestBodies(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for _, tc := range bodies {
		want := somePostings(rng, tc.n, tc.slots, tc.most)
		for _, impacts := range []bool{true, false} {
			open := func() postingList { return reopen(t, want, impacts) }
			l := open()
			docs, err := l.docs(nil, 0, chunkDocs)
			if err != nil {
				t.Fatal(err)
			}
			l = open()
			for i, p := range want {
				if docs[i] != p>>16 {
					t.Fatalf("%+v: posting %d is of slot %d, want %d", tc, i, docs[i], p>>16)
				}
				if f := l.freq(p >> 16); f != p&MaxFreq {
					t.Fatalf("%+v: slot %d has the frequency %d, want %d", tc, p>>16, f, p&MaxFreq)
				}
			}
			if len(docs) != len(want) {
				t.Fatalf("%+v: %d postings, want %d", tc, len(docs), len(want))
			}
			checkWindows(t, open(), want)
			checkLooks(t, rng, open, want)
		}
	}
}

// reopen encodes postings as a chunk's sealer does, and opens them.
func reopen(t *testing.T, p []posting, impacts bool) postingList {
	t.Helper()
	l := postingList{n: len(p), window: -1}
	var length func(uint16) uint32
	if impacts {
		length = lengthOf
	}
	var err error
	switch {
	case len(p) <= maxShort:
		l.plain, err = decodeShort(nil, appendShort(nil, p), len(p))
	case len(p) < minWindowed:
		l.plain, err = decodeFlat(nil, appendFlat(nil, p), len(p))
	default:
		l.isPacked = true
		l.packed, err = openPacked(appendWindowed(nil, p, length), len(p), impacts)
	}
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func lengthOf(slot uint16) uint32 { return uint32(slot)*2_654_435_761>>20 + 1 }

// checkWindows reads a list by windows, and the bounds of each.
func checkWindows(t *testing.T, l postingList, want []posting) {
	t.Helper()
	s := &scorer{c0: 0.3, c1: 0.01}
	c := cursor{postingList: l, weight: 1 << 29}
	var buf [windowDocs]posting
	var got []posting
	for w := range windows {
		if !c.enter(w, s) {
			continue
		}
		in, err := c.postingsIn(buf[:])
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, in...)
		for _, p := range in {
			if len(c.win.impacts) == 0 && c.isPacked {
				break // a list of values, which has no bounds
			}
			if part := s.part(c.weight, p&MaxFreq, lengthOf(uint16(p>>16))); part > c.bound {
				t.Fatalf("a part of %d in a window of at most %d", part, c.bound)
			}
		}
	}
	if !slices.Equal(got, want) {
		t.Fatalf("the windows hold other postings")
	}
}

// checkLooks looks for random slots, and counts those in random sets.
func checkLooks(t *testing.T, rng *rand.Rand, open func() postingList, want []posting) {
	t.Helper()
	freq := map[uint32]uint32{}
	for _, p := range want {
		freq[p>>16] = p & MaxFreq
	}
	for _, n := range []int{3, 500, 20_000} {
		var m mask
		var slots []uint16
		l, count := open(), uint32(0)
		for slot := range uint32(1 << 16) {
			if rng.IntN(1<<16) >= n {
				continue
			}
			m[slot>>6] |= 1 << (slot & 63)
			slots = append(slots, uint16(slot))
			if freq[slot] > 0 {
				count++
			}
			if f := l.freq(slot); f != freq[slot] {
				t.Fatalf("slot %d has the frequency %d, want %d", slot, f, freq[slot])
			}
		}
		l = open()
		if got := l.common(slots, &m); got != count {
			t.Fatalf("%d slots in common, want %d", got, count)
		}
		l = open()
		if got := l.common(nil, &m); got != count {
			t.Fatalf("%d slots in common by mask, want %d", got, count)
		}
	}
}

func TestRounding(t *testing.T) {
	for v := range uint32(1 << 20) {
		down := rounded(roundDown(v))
		if down > v || v < 500_000 && float64(v-down) > float64(v)/16 {
			t.Fatalf("%d is rounded down to %d", v, down)
		}
		if v <= MaxFreq {
			if up := rounded(roundUp(v)); up < v || float64(up-v) > float64(v)/16+1 {
				t.Fatalf("%d is rounded up to %d", v, up)
			}
		}
	}
	for code := range 256 {
		if c := roundDown(rounded(byte(code))); int(c) != code {
			t.Errorf("code %d stands for %d, of code %d", code, rounded(byte(code)), c)
		}
	}
	if rounded(roundDown(math.MaxUint32)) < 500_000 {
		t.Error("great lengths are rounded to nothing")
	}
}

// A hot list's bounds hold for every posting, with any k1, b and average.
func TestMaxima(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 2000 {
		p := somePostings(rng, 1+rng.IntN(300), 1<<16, 1+rng.Uint32N(40))
		length := func(slot uint16) uint32 { return uint32(slot) % (1 + uint32(len(p))) }
		got := maxima(p, length)
		s := &scorer{c0: 2 * rng.Float64(), c1: rng.ExpFloat64() / 100}
		best, bound := uint32(0), uint32(0)
		for _, x := range p {
			best = max(best, s.part(1<<30, x&MaxFreq, length(uint16(x>>16))))
		}
		for _, i := range got {
			bound = max(bound, s.bound(1<<30, i))
		}
		if best > bound {
			t.Fatalf("a part of %d where %v allows %d", best, got, bound)
		}
		// Where frequencies are few, the bound is one of the postings.
		if freqs := slices.MaxFunc(p, func(a, b posting) int { return int(a&MaxFreq) - int(b&MaxFreq) }) & MaxFreq; freqs <= maxImpacts && bound > best+1 {
			t.Fatalf("a bound of %d where %d is the best", bound, best)
		}
	}
}

// Bodies that were cut or garbled are refused or read without a panic.
func TestBodyDamage(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	p := somePostings(rng, 2000, 1<<16, 5)
	b := appendWindowed(nil, p, lengthOf)
	for n := range len(b) {
		if _, err := openPacked(b[:n], len(p), true); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("cut to %d of %d bytes: %v", n, len(b), err)
		}
	}
	if _, err := openPacked(b, len(p)+1, true); !errors.Is(err, ErrCorrupt) {
		t.Errorf("another number of postings: %v", err)
	}
	b = appendFlat(nil, p[:300])
	for n := range len(b) {
		if _, err := decodeFlat(nil, b[:n], 300); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("flat, cut to %d of %d bytes: %v", n, len(b), err)
		}
	}
	b = appendShort(nil, p[:9])
	for n := range len(b) {
		if _, err := decodeShort(nil, b[:n], 9); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("short, cut to %d of %d bytes: %v", n, len(b), err)
		}
	}
	for _, b := range []string{"\x02\x00", "\x02\x00\x03", "\x80\x80\x08\x02", "\x03\x00\x02", "\x03\x80\x80\x04\x02", "\x02\x02\x02"} {
		if p, err := decodeShort(nil, []byte(b), 2); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%q is read as %v, %v", b, p, err)
		}
	}
}

func TestSelection(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for round := range 200 {
		set := roaring.New()
		for range rng.IntN(6) {
			base := rng.Uint32N(5) << 16
			switch rng.IntN(3) {
			case 0:
				lo := uint64(base) + rng.Uint64N(1<<16)
				set.AddRange(lo, lo+rng.Uint64N(1<<17))
			case 1:
				for range rng.IntN(20_000) {
					set.Add(base + rng.Uint32N(1<<16))
				}
			default:
				for range 1 + rng.IntN(20) {
					set.Add(base + rng.Uint32N(1<<16))
				}
			}
		}
		if round%2 == 0 {
			set.RunOptimize()
		}
		var s selection
		if err := s.read(set); err != nil {
			t.Fatal(err)
		}
		var bySlots, byMask []uint32
		for _, c := range s.containers {
			slots := c.slots(nil)
			if len(slots) != c.card {
				t.Fatalf("chunk %d has %d slots, cardinality %d", c.chunk, len(slots), c.card)
			}
			for _, slot := range slots {
				bySlots = append(bySlots, uint32(c.chunk)<<16|uint32(slot))
			}
			var m mask
			m.setRange(100, 70_000%(1<<16)) // what was there must go
			c.mask(&m)
			for slot := range uint32(1 << 16) {
				if m.has(slot) {
					byMask = append(byMask, uint32(c.chunk)<<16|slot)
				}
			}
		}
		if want := set.ToArray(); !slices.Equal(bySlots, want) || !slices.Equal(byMask, want) {
			t.Fatalf("%d documents by slots, %d by mask, want %d", len(bySlots), len(byMask), len(want))
		}
	}
}

func TestCovers(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	for _, n := range []uint64{1, 63, 64, 100, 4095, 4096, 4097, 5000, 65535, 65536} {
		for _, holes := range []int{0, 1} {
			for _, optimize := range []bool{false, true} {
				set := roaring.New()
				for doc := range uint32(n) {
					set.Add(doc)
				}
				hole := uint32(n)
				if holes > 0 {
					hole = rng.Uint32N(uint32(n))
					set.Remove(hole)
				}
				if optimize {
					set.RunOptimize()
				}
				var s selection
				if set.IsEmpty() {
					continue
				}
				if err := s.read(set); err != nil {
					t.Fatal(err)
				}
				for _, limit := range []uint32{1, 2, 63, 64, 65, 4096, 4097, hole, hole + 1, uint32(n), uint32(n) + 1, 65536} {
					if limit == 0 || limit > chunkDocs {
						continue
					}
					if got := s.containers[0].covers(limit); got != (limit <= hole) {
						t.Fatalf("%d slots without %d: covers(%d) is %v", n, hole, limit, got)
					}
				}
			}
		}
	}
}

func TestMask(t *testing.T) {
	for _, tc := range [][3]uint32{{0, 0, 65536}, {0, 64, 63}, {3, 70, 5}, {0, 65536, 65536}, {0, 65536, 65535}, {65535, 65536, 65535}, {1, 2, 0}} {
		lo, hi, limit := tc[0], tc[1], tc[2]
		var m mask
		m.setRange(lo, hi)
		m.clip(limit)
		m.filter(1<<16, func(doc uint32) bool { return doc%5 != 0 })
		for slot := range uint32(1 << 16) {
			if want := slot >= lo && slot < hi && slot < limit && (1<<16+slot)%5 != 0; m.has(slot) != want {
				t.Fatalf("%v: slot %d is %v", tc, slot, m.has(slot))
			}
		}
	}
}

// The cache holds no more than its budget, but for the page that came last.
func TestPageCache(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	c := pageCache{budget: 100_000}
	slots := make([]pageSlot, 200)
	reads := 0
	read := func(id pageID) (*page, error) {
		reads++
		return &page{data: make([]byte, 1+rng.IntN(5000))}, nil
	}
	for i := range 20_000 {
		n := rng.IntN(len(slots))
		if i%2 == 0 {
			n = rng.IntN(5) // always wanted
		}
		p, err := c.get(&slots[n], read)
		if err != nil || p == nil {
			t.Fatal(err)
		}
		held := int64(0)
		for i := range slots {
			if p := slots[i].page.Load(); p != nil {
				held += p.bytes()
			}
		}
		if held != c.bytes() || held > c.budget+p.bytes() {
			t.Fatalf("%d bytes held, %d counted, of a budget of %d", held, c.bytes(), c.budget)
		}
	}
	if reads > 10_000 {
		t.Errorf("%d reads: pages that are always wanted don't stay", reads)
	}
	failing := func(pageID) (*page, error) { return nil, errNoPage }
	if _, err := (&pageCache{}).get(&pageSlot{}, failing); !errors.Is(err, errNoPage) {
		t.Errorf("error %v", err)
	}
}
