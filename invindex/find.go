package invindex

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/RoaringBitmap/roaring/v2"
)

// Find returns the documents with a filter value, visible or not, below the
// snapshot's mark. The bitmap is the caller's.
func (x *Index) Find(s Snapshot, value Value) (*roaring.Bitmap, error) {
	return x.FindIn(s, value, 0, MaxDoc+1)
}

// FindIn is Find for the documents from one up to, but not including, another: chunks
// beside them are not looked at.
func (x *Index) FindIn(s Snapshot, value Value, from, to uint32) (*roaring.Bitmap, error) {
	if len(value.Key) > MaxTermBytes {
		return roaring.New(), nil
	}
	set, err := x.collect(s, ofValues, string(valueKey(nil, value)), from, to)
	if err == nil {
		set.RemoveRange(0, uint64(from))
		set.RemoveRange(uint64(to), MaxDoc+1)
	}
	return set, err
}

// FindTerm returns the documents that have a term, visible or not, below the
// snapshot's mark: for queries that demand a term or exclude it. The bitmap is the
// caller's.
func (x *Index) FindTerm(s Snapshot, term string) (*roaring.Bitmap, error) {
	return x.collect(s, ofTerms, term, 0, MaxDoc+1)
}

// collect returns the documents in the lists of a key, in the chunks of those from one up
// to, but not including, another.
func (x *Index) collect(s Snapshot, kind dictKind, key string, from, to uint32) (*roaring.Bitmap, error) {
	set := roaring.New()
	sc := newScratch()
	defer sc.free()
	for _, c := range s.list(x) {
		if uint32(c.id()) < from>>16 || uint32(c.id())<<16 >= to {
			continue
		}
		v := s.view(c)
		if v.limit == 0 {
			continue
		}
		sc.decoded = sc.decoded[:0]
		l, err := v.list(kind, key, sc)
		if err != nil {
			return nil, err
		}
		if l.n <= maxArray {
			if sc.docs, err = l.docs(sc.docs[:0], v.base, v.limit); err != nil {
				return nil, err
			}
			set.AddMany(sc.docs)
			continue
		}
		l.mask(&sc.mask) // whole words, where there are many documents
		sc.mask.clip(v.limit)
		sc.collect(set, v.base, &sc.mask)
	}
	return set, nil
}

// Accept says whether a term is wanted, and how it ranks. The term is valid until it
// returns.
type Accept func(term []byte) (rank int, ok bool)

// Expand returns the terms that begin with a prefix, that accept, if it is not nil,
// accepts, and that documents of in have: those of the lowest rank that accept gives
// first, then those in most documents of in, then in ascending order; at most limit.
// It is what queries for prefixes and for similar words are made of. What is not in
// in has no part in the answer. It reads every term of a hot chunk, and of a sealed
// one those with the prefix.
func (x *Index) Expand(ctx context.Context, s Snapshot, prefix string, accept Accept, in Docs, limit int) ([]string, error) {
	if limit < 0 || limit > MaxQueryTerms {
		return nil, fmt.Errorf("%w: %d expansions; at most %d are possible", ErrInvalid, limit, MaxQueryTerms)
	}
	found, err := x.terms(ctx, s, prefix, accept)
	if err != nil {
		return nil, err
	}
	if in.Set != nil || in.Visible != nil || s.grows(x) {
		if found, err = x.recount(ctx, s, found, in); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(found, func(a, b expansion) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(b.n, a.n), strings.Compare(a.term, b.term))
	})
	terms := make([]string, min(limit, len(found)))
	for i := range terms {
		terms[i] = found[i].term
	}
	return terms, nil
}

// expansion is a term that Expand has found.
type expansion struct {
	term string
	rank int
	n    int // documents that have it
}

// terms finds the terms of the chunks, with their numbers of postings.
func (x *Index) terms(ctx context.Context, s Snapshot, prefix string, accept Accept) ([]expansion, error) {
	var found []expansion
	at := map[string]int{}
	for _, c := range s.list(x) {
		if s.limit(c) == 0 {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		var late error
		looked := 0
		err := c.eachTerm(s.Reader, prefix, func(term []byte, n int) {
			if looked++; looked%termsPerCheck == 0 && late == nil {
				late = ctx.Err()
			}
			if late != nil {
				return // the rest is passed over in no time
			}
			if i, known := at[string(term)]; known {
				found[i].n += n
				return
			}
			rank, ok := 0, true
			if accept != nil {
				rank, ok = accept(term)
			}
			if ok {
				e := expansion{string(term), rank, n}
				at[e.term] = len(found)
				found = append(found, e)
			}
		})
		if err = cmp.Or(err, late); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// termsPerCheck is how many terms are accepted or not between looks at the context: to compare
// a long one with a fuzzy word takes a microsecond.
const termsPerCheck = 1024

// recount counts the documents of in that have the terms, and drops terms that
// none has.
func (x *Index) recount(ctx context.Context, s Snapshot, found []expansion, in Docs) ([]expansion, error) {
	kept := found[:0]
	for part := range slices.Chunk(found, MaxQueryTerms) {
		terms := make([]string, len(part))
		for i := range part {
			terms[i] = part[i].term
		}
		st, err := x.Stats(ctx, s, terms, in)
		if err != nil {
			return nil, err
		}
		for i, e := range part {
			if e.n = int(st.DF[i]); e.n > 0 {
				kept = append(kept, e)
			}
		}
	}
	return kept, nil
}

// grows says whether a chunk may have postings that the snapshot does not see.
func (s *Snapshot) grows(x *Index) bool {
	for _, c := range s.list(x) {
		if _, hot := c.(*hotChunk); hot || s.limit(c) < chunkDocs {
			return true
		}
	}
	return false
}

func (c *hotChunk) eachTerm(_ Reader, prefix string, yield func(term []byte, n int)) error {
	var room [64]byte
	for i := range c.terms.count.Load() {
		l := c.terms.list(i)
		if strings.HasPrefix(l.text, prefix) {
			yield(append(room[:0], l.text...), int(l.n.Load()))
		}
	}
	return nil
}

func (c *sealedChunk) eachTerm(r Reader, prefix string, yield func(term []byte, n int)) error {
	at, exact := slices.BinarySearch(c.terms.firsts, prefix)
	if !exact && at > 0 {
		at-- // the page before may end with such terms
	}
	for ; at < len(c.terms.pages); at++ {
		if first := c.terms.firsts[at]; first > prefix && !strings.HasPrefix(first, prefix) {
			return nil
		}
		p, err := c.page(r, &c.terms.pages[at])
		if err != nil {
			return err
		}
		if !eachEntry(p.data, prefix, func(term []byte, e entry) { yield(term, e.n) }) {
			return fmt.Errorf("%w: %v is malformed", ErrCorrupt, c.terms.pages[at].id)
		}
	}
	return nil
}

// eachEntry yields the entries of a dictionary page that begin with a prefix, and
// says whether the page is well-formed.
func eachEntry(b []byte, prefix string, yield func(key []byte, e entry)) bool {
	head := fields{rest: b}
	blocks := dictionaryBlocks(b)
	if blocks == 0 {
		return false
	}
	head.bytes(2 + 2*blocks)
	var key []byte
	for f := head; len(f.rest) > 0; {
		shared := f.uvarint()
		rest := f.bytes(f.uvarint())
		e := f.entry()
		if f.bad || shared > len(key) {
			return false
		}
		key = append(key[:shared], rest...)
		if e.n > 0 && strings.HasPrefix(string(key), prefix) {
			yield(key, e)
		}
	}
	return true
}
