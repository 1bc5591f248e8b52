package invindex

import (
	"hash/maphash"
	"slices"
	"strings"
	"sync/atomic"
)

// dict maps the terms of a hot chunk to their lists. One writer inserts; readers
// look up beside it, without locks.
type dict struct {
	seed  maphash.Seed // random, since what is hashed is chosen by users
	table atomic.Pointer[[]atomic.Uint64]
	pages atomic.Pointer[[]*dictPage]
	count atomic.Uint32
	texts strings.Builder // terms are cut from blocks: a rare one costs its bytes
}

const (
	pageBits  = 8
	textBlock = 16 << 10
	minTable  = 64
)

type dictPage [1 << pageBits]list

func newDict() *dict {
	d := &dict{seed: maphash.MakeSeed()}
	table := make([]atomic.Uint64, minTable)
	d.table.Store(&table)
	d.pages.Store(new([]*dictPage))
	return d
}

// A table entry holds the upper half of a term's hash, and its number plus one;
// 0 is an empty place. The table has a power of two of places and is at most
// three quarters full.

// find returns the list of a term, or nil. Readers and the writer may call it.
func (d *dict) find(term string) *list {
	return d.findHashed(*d.table.Load(), term, maphash.String(d.seed, term))
}

func (d *dict) findHashed(table []atomic.Uint64, term string, hash uint64) *list {
	mask := uint64(len(table) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		e := table[i].Load()
		if e == 0 {
			return nil
		}
		if e>>32 != hash>>32 {
			continue
		}
		if l := d.list(uint32(e) - 1); l.text == term {
			return l
		}
	}
}

// findEach is find for up to addBatch terms, step by step for all of them.
func (d *dict) findEach(terms []Term, lists *[addBatch]*list) {
	table := *d.table.Load()
	mask := uint64(len(table) - 1)
	var hashes, entries [addBatch]uint64
	for i, t := range terms {
		hashes[i] = maphash.String(d.seed, t.Text)
	}
	for i := range terms {
		entries[i] = table[hashes[i]&mask].Load()
	}
	for i, t := range terms {
		hash, e := hashes[i], entries[i]
		if e != 0 && e>>32 == hash>>32 { // nearly always the term, if it is there
			if l := d.list(uint32(e) - 1); l.text == t.Text {
				lists[i] = l
				continue
			}
		}
		lists[i] = d.findHashed(table, t.Text, hash)
	}
}

func (d *dict) list(n uint32) *list {
	return &(*d.pages.Load())[n>>pageBits][n&(1<<pageBits-1)]
}

// insert makes the list of a term that find doesn't know. Readers see it once it
// is whole. It returns the number of bytes by which the dictionary grew.
func (d *dict) insert(term string) (*list, int) {
	n, grown := d.count.Load(), len(term)
	if int(n>>pageBits) == len(*d.pages.Load()) {
		// Appending in place is safe: readers only see the elements that their
		// slice header counts.
		pages := append(*d.pages.Load(), new(dictPage))
		d.pages.Store(&pages)
		grown += dictPageBytes
	}
	l := d.list(n)
	l.text = d.keep(term)
	if table := *d.table.Load(); int(n) >= len(table)/4*3 {
		d.grow(len(table) * 2)
		grown += 8 * len(table)
	}
	d.place(*d.table.Load(), maphash.String(d.seed, term), n)
	d.count.Store(n + 1)
	return l, grown
}

func (d *dict) place(table []atomic.Uint64, hash uint64, n uint32) {
	mask := uint64(len(table) - 1)
	i := hash & mask
	for table[i].Load() != 0 {
		i = (i + 1) & mask
	}
	table[i].Store(hash>>32<<32 | uint64(n+1))
}

func (d *dict) grow(places int) {
	table := make([]atomic.Uint64, places)
	for n := range d.count.Load() {
		d.place(table, maphash.String(d.seed, d.list(n).text), n)
	}
	d.table.Store(&table)
}

// keep copies a term into a block that is shared with others.
func (d *dict) keep(term string) string {
	if d.texts.Len()+len(term) > d.texts.Cap() {
		d.texts = strings.Builder{}
		d.texts.Grow(max(textBlock, len(term)))
	}
	from := d.texts.Len()
	d.texts.WriteString(term)
	return d.texts.String()[from:]
}

// sorted returns the lists in the order of their keys.
func (d *dict) sorted() []*list {
	lists := make([]*list, d.count.Load())
	for i := range lists {
		lists[i] = d.list(uint32(i))
	}
	slices.SortFunc(lists, func(a, b *list) int { return strings.Compare(a.text, b.text) })
	return lists
}
