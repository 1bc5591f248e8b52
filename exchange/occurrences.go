package exchange

import "hash/maphash"

// recurring is a line without an ID. Lines with the same content may come several times in one input,
// and each is a thing of its own: the database knows it by its content and its occurrence.
type recurring interface {
	// Content is what makes two lines the same, nil for a line with an ID.
	Content() []byte
	// Occurs says which of the lines of the input with this content it is, from 1 on.
	Occurs(n uint64)
}

// mostCounted bounds the contents that are counted at a time. Lines with the same content lie near each
// other, since they have the same time. Of two that lie farther apart than so many others, the second
// one is taken for the first.
const mostCounted = 1 << 17

// occurrences count the lines of an input by their content, in two generations: where the newer one is
// full, the older one is dropped.
type occurrences struct {
	seed         maphash.Seed
	newer, older map[uint64]uint64
}

// count says which one of its content a line is.
func (o *occurrences) count(line any) {
	l, ok := line.(recurring)
	if !ok {
		return
	}
	content := l.Content()
	if content == nil {
		return
	}
	if o.newer == nil {
		o.seed, o.newer = maphash.MakeSeed(), map[uint64]uint64{}
	}
	h := maphash.Bytes(o.seed, content)
	n := max(o.newer[h], o.older[h]) + 1
	if len(o.newer) >= mostCounted {
		o.older, o.newer = o.newer, map[uint64]uint64{}
	}
	o.newer[h] = n
	l.Occurs(n)
}
