package invindex

import "slices"

// postingList is the postings of a term in a chunk, as one call reads them: from
// the first to the last, once. Hot, short and flat lists are arrays; others are
// windows that are decoded or looked into where it is needed.
type postingList struct {
	n      int       // postings in all
	plain  []posting // from the current place on
	read   int       // plain postings before the current place
	bounds *bounds   // of plain, nil for a short list
	closed int       // number of windows that bounds describes

	isPacked bool
	packed   packedList
	window   int // the window that the list is in, or -1
	win      packedWindow
}

// below limits a hot list to the slots below limit.
func (l *postingList) below(limit uint32) {
	l.plain = below(l.plain, limit)
	l.n = len(l.plain)
}

// freq returns the frequency in the document of a slot, 0 where it has none.
// Slots ascend from call to call.
func (l *postingList) freq(slot uint32) uint32 {
	if l.isPacked {
		if !l.enterPacked(int(slot >> windowBits)) {
			return 0
		}
		return l.win.find(slot % windowDocs)
	}
	l.plain = l.plain[gallop(l.plain, slot<<16):]
	if len(l.plain) == 0 || l.plain[0]>>16 != slot {
		return 0
	}
	return l.plain[0] & MaxFreq
}

// enterPacked moves to a window of a packed list, or stays in it, and says
// whether it has postings.
func (l *postingList) enterPacked(w int) bool {
	if w != l.window {
		var ok bool
		l.window = w
		if l.win, ok = l.packed.enter(w); !ok {
			l.win.n = 0
		}
	}
	return l.win.n > 0
}

// takePlain returns the postings of a plain list in a window. Windows ascend;
// those between are passed over.
func (l *postingList) takePlain(w int) []posting {
	if w > l.window+1 {
		l.pass(gallop(l.plain, posting(w)<<(windowBits+16)))
	}
	l.window = w
	n := len(l.plain)
	switch {
	case n == 0:
	case w < l.closed:
		n = min(int(l.bounds.win[w].end)-l.read, n)
	case w < windows-1:
		n = gallop(l.plain, posting(w+1)<<(windowBits+16))
	}
	in := l.plain[:n]
	l.pass(n)
	return in
}

func (l *postingList) pass(n int) {
	l.plain = l.plain[n:]
	l.read += n
}

// count returns the number of postings below a limit.
func (l *postingList) count(limit uint32) int {
	if !l.isPacked {
		return l.n
	}
	var m mask
	m.setRange(0, limit)
	return int(l.common(nil, &m))
}

// docs appends the documents of the list's slots below a limit.
func (l *postingList) docs(dst []uint32, base, limit uint32) ([]uint32, error) {
	p, err := l.all(limit)
	for _, x := range p {
		dst = append(dst, base|x>>16)
	}
	return dst, err
}

// slots appends the list's slots below a limit.
func (l *postingList) slots(dst []uint16, limit uint32) ([]uint16, error) {
	p, err := l.all(limit)
	for _, x := range p {
		dst = append(dst, uint16(x>>16))
	}
	return dst, err
}

// all returns the postings below a limit.
func (l *postingList) all(limit uint32) ([]posting, error) {
	if !l.isPacked {
		return l.plain, nil
	}
	p, err := l.appendTo(make([]posting, 0, l.n))
	return below(p, limit), err
}

// appendTo appends all postings.
func (l *postingList) appendTo(dst []posting) (_ []posting, err error) {
	if !l.isPacked {
		return append(dst, l.plain...), nil
	}
	for w := range windows {
		if !l.enterPacked(w) {
			continue
		}
		if dst, err = l.win.decode(dst, uint32(w)<<windowBits); err != nil {
			return nil, err
		}
	}
	return dst, nil
}

// mask writes the list's slots as a mask.
func (l *postingList) mask(m *mask) {
	clear(m[:])
	l.addTo(m)
}

// addTo adds the list's slots to a mask.
func (l *postingList) addTo(m *mask) {
	for _, p := range l.plain {
		m[p>>22] |= 1 << (p >> 16 & 63)
	}
	if !l.isPacked {
		return
	}
	for w := range windows {
		if l.enterPacked(w) {
			l.win.mask(m.window(w))
		}
	}
}

// probeCost is about how many postings can be looked at in the time of one look
// for a slot in a list.
const probeCost = 8

// common counts the postings whose slot is in a set: a mask, and also slots where
// they are few.
func (l *postingList) common(slots []uint16, m *mask) uint32 {
	n, reads := uint32(0), l.n
	if l.isPacked { // a bitmap is compared by words
		reads = min(reads, windows*denseWindow)
	}
	switch {
	case len(slots) > 0 && len(slots)*probeCost < reads:
		for _, slot := range slots {
			if l.freq(uint32(slot)) > 0 {
				n++
			}
		}
	case l.isPacked:
		for w := range windows {
			if l.enterPacked(w) {
				n += l.win.common(m.window(w))
			}
		}
	default:
		for _, x := range l.plain {
			n += uint32(m[x>>22] >> (x >> 16 & 63) & 1)
		}
	}
	return n
}

// cursor is one query term in one chunk.
type cursor struct {
	postingList
	weight float64

	in    []posting // a plain list's postings in the current window
	in0   uint32    // the first slot of that window
	bound uint32    // no part in the current window is above it
	rest  uint32    // the sum of bounds of the cursors up to this one
}

// enter moves the cursor to a window, and says whether it has postings there.
// Windows ascend.
func (c *cursor) enter(w int, s *scorer) bool {
	if c.isPacked {
		if !c.enterPacked(w) {
			return false
		}
		c.bound = 0
		for i := c.win.impacts; len(i) > 0; i = i[2:] {
			c.bound = max(c.bound, s.bound(c.weight, impact{freq: rounded(i[0]), length: rounded(i[1])}))
		}
		return true
	}
	c.in0 = uint32(w) << windowBits
	if c.in = c.takePlain(w); len(c.in) == 0 {
		return false
	}
	c.bound = s.most(c.weight)
	if w < c.closed {
		c.bound = 0
		for _, i := range c.bounds.win[w].impacts {
			c.bound = max(c.bound, s.bound(c.weight, i))
		}
	}
	return true
}

// freqIn returns the frequency in a slot (0 to 4,095) of the current window. Slots
// ascend from call to call.
func (c *cursor) freqIn(slot uint32) uint32 {
	if c.isPacked {
		return c.win.find(slot)
	}
	slot |= c.in0
	c.in = c.in[gallop(c.in, slot<<16):]
	if len(c.in) == 0 || c.in[0]>>16 != slot {
		return 0
	}
	return c.in[0] & MaxFreq
}

// postingsIn returns the postings of the current window, decoded into buf where
// they are packed.
func (c *cursor) postingsIn(buf []posting) ([]posting, error) {
	if !c.isPacked {
		return c.in, nil
	}
	return c.win.decode(buf[:0], uint32(c.window)<<windowBits)
}

// What looking for one slot costs, in postings that are read one after another: in
// an array, and in a bitmap.
const (
	lookCost      = 8
	denseLookCost = 2
)

// readsWhole says whether reading all postings of the current window is cheaper
// than looking for so many slots.
func (c *cursor) readsWhole(slots int) bool {
	switch {
	case !c.isPacked:
		return len(c.in) < slots*lookCost
	case c.win.dense():
		return c.win.n < slots*denseLookCost
	default:
		return c.win.n < slots*lookCost
	}
}

// byBound sorts cursors, the lowest bound first.
func byBound(cursors []*cursor) {
	slices.SortFunc(cursors, func(a, b *cursor) int { return int(int64(a.bound) - int64(b.bound)) })
}
