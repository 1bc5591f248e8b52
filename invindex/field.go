package invindex

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/RoaringBitmap/roaring/v2"
)

// FindField returns the documents that have any value of a field, visible or not, below
// the snapshot's mark. It reads all values of the field, chunk by chunk. The bitmap is
// the caller's.
func (x *Index) FindField(ctx context.Context, s Snapshot, field uint16) (*roaring.Bitmap, error) {
	return x.FindValues(ctx, s, field, func(string) bool { return true })
}

// FindValues is FindField of the values whose keys a test accepts. Of others it reads no postings.
func (x *Index) FindValues(ctx context.Context, s Snapshot, field uint16, accept func(key string) bool) (*roaring.Bitmap, error) {
	set := roaring.New()
	sc := newScratch()
	defer sc.free()
	prefix := string(binary.BigEndian.AppendUint16(nil, field))
	for v, err := range sc.views(ctx, x, &s, Docs{}) {
		if err != nil {
			return nil, err
		}
		clear(sc.other[:])
		err = v.eachValue(v.reader, prefix, accept, &sc.decoded, func(l *postingList) error { return sc.join(l, v.limit) })
		if err != nil {
			return nil, err
		}
		sc.other.clip(v.limit)
		sc.collect(set, v.base, &sc.other)
	}
	return set, nil
}

// join adds the slots of a list below a limit to the other mask.
func (sc *scratch) join(l *postingList, limit uint32) (err error) {
	if l.n > maxArray {
		l.mask(&sc.mask)
		for i, word := range sc.mask {
			sc.other[i] |= word
		}
		return nil
	}
	sc.slots, err = l.slots(sc.slots[:0], limit)
	for _, slot := range sc.slots {
		sc.other[slot>>6] |= 1 << (slot & 63)
	}
	return err
}

func (c *hotChunk) eachValue(_ Reader, prefix string, accept func(string) bool, _ *[]posting, yield func(l *postingList) error) error {
	for i := range c.values.count.Load() {
		l := c.values.list(i)
		if !strings.HasPrefix(l.text, prefix) || !accept(l.text[len(prefix):]) {
			continue
		}
		p := l.postings()
		if err := yield(&postingList{plain: p, n: len(p), window: -1}); err != nil {
			return err
		}
	}
	return nil
}

func (c *sealedChunk) eachValue(r Reader, prefix string, accept func(string) bool, buf *[]posting, yield func(l *postingList) error) error {
	d := &c.values
	at, exact := slices.BinarySearch(d.firsts, prefix)
	if !exact && at > 0 {
		at-- // the page before may end with such values
	}
	for ; at < len(d.pages); at++ {
		if first := d.firsts[at]; first > prefix && !strings.HasPrefix(first, prefix) {
			return nil
		}
		p, err := c.page(r, &d.pages[at])
		if err != nil {
			return err
		}
		ok := eachEntry(p.data, prefix, func(key []byte, e entry) {
			if err != nil || !accept(string(key[len(prefix):])) {
				return
			}
			*buf = (*buf)[:0]
			var l postingList
			if l, err = c.open(r, e, false, buf); err == nil {
				err = yield(&l)
			}
		})
		if err != nil {
			return err
		}
		if !ok {
			return fmt.Errorf("%w: %v is malformed", ErrCorrupt, d.pages[at].id)
		}
	}
	return nil
}
