package invindex

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
)

// Occur says what a clause asks of a document.
type Occur uint8

// What a clause may ask.
const (
	Should  Occur = iota // having it adds to the score
	Must                 // without it there is no hit; having it adds to the score
	MustNot              // with it there is no hit
)

// Clause is a part of a Query.
type Clause struct {
	// Occur says whether it must, may or must not match.
	Occur Occur
	// Terms are alternatives: a document has the clause if it has one of them.
	// Those of more than one share the idf of a term that occurs as often as all of
	// them together, so that rare variants of a word do not outrank it.
	Terms []QueryTerm
	// Phrase: a document has the clause if it has all of the terms and they stand in
	// it as they should, which Query.Verify decides. Not of a clause that Should.
	Phrase bool
	// Any: a Phrase may stand in a document in several ways, each of other terms, so that
	// one of the terms is enough to ask Query.Verify. Not of a clause that MustNot.
	Any bool
}

// Query is a search with conditions. Without a clause that is Should or Must it
// finds nothing.
type Query struct {
	// Clauses are its conditions.
	Clauses []Clause
	// Verify says whether the phrases of a document are as they should be: that it
	// has those of clauses that Must, and none of clauses that MustNot. It is called
	// only for documents that are hits otherwise and have the words, and from the
	// best on, so about as often as there are hits. It is needed where a clause is a
	// Phrase.
	Verify func(ctx context.Context, doc uint32) (bool, error)
}

// Terms returns the terms that score, each once: those that Stats should count.
func (q *Query) Terms() []string {
	terms := q.scoring()
	texts := make([]string, len(terms))
	for i, t := range terms {
		texts[i] = t.Text
	}
	return texts
}

// scoring returns the terms that score in the order of their first appearance, with
// the sums of their weights.
func (q *Query) scoring() []QueryTerm {
	var terms []QueryTerm
	at := map[string]int{}
	for i := range q.Clauses {
		if q.Clauses[i].Occur == MustNot {
			continue
		}
		for _, t := range q.Clauses[i].Terms {
			if j, ok := at[t.Text]; ok {
				terms[j].Weight += t.Weight
				continue
			}
			at[t.Text] = len(terms)
			terms = append(terms, t)
		}
	}
	return terms
}

// condition is a set of alternatives.
type condition struct {
	terms []int // of Must: places in the plan's terms
	texts []string
}

// plan is a Query as it is carried out.
type plan struct {
	terms  []QueryTerm
	must   []condition
	not    []condition
	verify bool       // each hit is to be verified
	doubt  [][]string // a hit with all terms of one of them is to be verified
}

// plan checks a query.
func (q *Query) plan() (*plan, error) {
	p := &plan{terms: q.scoring()}
	at := make(map[string]int, len(p.terms))
	for i, t := range p.terms {
		at[t.Text] = i
	}
	total := 0
	for i := range q.Clauses {
		c := &q.Clauses[i]
		total += len(c.Terms)
		if c.Occur > MustNot || len(c.Terms) == 0 {
			return nil, fmt.Errorf("%w: clause %d of a query has %d terms and Occur %d", ErrInvalid, i, len(c.Terms), c.Occur)
		}
		if c.Phrase && (c.Occur == Should || q.Verify == nil) {
			return nil, fmt.Errorf("%w: clause %d of a query is a phrase that can't be verified", ErrInvalid, i)
		}
		p.add(c, at)
	}
	if total > MaxQueryTerms {
		return nil, tooManyTerms(total)
	}
	return p, nil
}

func (p *plan) add(c *Clause, at map[string]int) {
	all := condition{}
	for _, t := range c.Terms {
		all.texts = append(all.texts, t.Text)
		if c.Occur == Must {
			all.terms = append(all.terms, at[t.Text])
		}
	}
	switch {
	case c.Occur == Should:
	case c.Phrase && c.Occur == MustNot:
		p.doubt = append(p.doubt, all.texts)
	case c.Phrase && c.Any:
		p.verify = true
		p.must = append(p.must, all)
	case c.Phrase:
		p.verify = true
		for i := range all.texts {
			p.must = append(p.must, condition{terms: all.terms[i : i+1]})
		}
	case c.Occur == Must:
		p.must = append(p.must, all)
	default:
		p.not = append(p.not, all)
	}
}

// blend gives the alternatives of a clause their common frequency.
func (q *Query) blend(terms []QueryTerm, st *Stats) Stats {
	own := Stats{N: st.N, Length: st.Length, DF: slices.Clone(st.DF)}
	at := make(map[string]int, len(terms))
	for i, t := range terms {
		at[t.Text] = i
	}
	for i := range q.Clauses {
		c := &q.Clauses[i]
		if c.Occur == MustNot || c.Phrase || len(c.Terms) < 2 {
			continue
		}
		sum := uint64(0)
		for _, t := range c.Terms {
			sum += uint64(st.DF[at[t.Text]])
		}
		for _, t := range c.Terms {
			df := &own.DF[at[t.Text]]
			*df = max(*df, uint32(min(sum, st.N)))
		}
	}
	return own
}

// Verified hits are looked for among so many times more hits, and again among so
// many times more where these were too few.
const (
	firstLook = 4
	nextLook  = 8
	mostLook  = 1 << 30
)

// Query returns the k documents of in that fit q and score best for its terms, best
// first; equal scores in ascending order of documents. The statistics are those of
// Stats for q.Terms, in the same order. An error of Verify ends it.
func (x *Index) Query(ctx context.Context, s Snapshot, q *Query, st Stats, in Docs, k int) ([]Hit, error) {
	p, err := q.plan()
	if err != nil {
		return nil, err
	}
	if len(st.DF) == len(p.terms) { // else the search will say so
		st = q.blend(p.terms, &st)
	}
	if k <= 0 || !p.verify && len(p.doubt) == 0 {
		return x.search(ctx, s, p, st, in, k)
	}
	if k > MaxHits {
		return nil, tooManyHits(k)
	}
	doubtful, err := x.doubtful(s, p)
	if err != nil {
		return nil, err
	}
	var good []Hit
	for n, seen := firstLook*k, 0; ; n = min(n*nextLook, mostLook) {
		hits, err := x.search(ctx, s, p, st, in, n)
		if err != nil {
			return nil, err
		}
		for _, h := range hits[seen:] {
			ok := true
			if err = ctx.Err(); err == nil && (p.verify || doubtful.Contains(h.Doc)) {
				ok, err = q.Verify(ctx, h.Doc)
			}
			if err != nil {
				return nil, err
			}
			if !ok {
				continue
			}
			if good = append(good, h); len(good) == k {
				return good, nil
			}
		}
		if len(hits) < n {
			return good, nil
		}
		seen = len(hits)
	}
}

// doubtful returns the documents that may have a phrase that they must not have.
func (x *Index) doubtful(s Snapshot, p *plan) (*roaring.Bitmap, error) {
	sum := roaring.New()
	for _, terms := range p.doubt {
		var all *roaring.Bitmap
		for _, term := range terms {
			set, err := x.FindTerm(s, term)
			if err != nil {
				return nil, err
			}
			if all == nil {
				all = set
			} else {
				all.And(set)
			}
		}
		sum.Or(all)
	}
	return sum, nil
}

// restrict leaves those of the view's documents that fulfil the conditions: as slots
// where they are few, else as the scratch's mask.
func (v *view) restrict(p *plan, sc *scratch) (few bool, err error) {
	sc.sizes = sc.sizes[:0]
	for i := range p.must {
		n := 0
		for _, t := range p.must[i].terms {
			n += sc.lists[t].n
		}
		if n == 0 {
			sc.slots = sc.slots[:0]
			return true, nil
		}
		sc.sizes = append(sc.sizes, sizedCondition{n, &p.must[i]})
	}
	slices.SortFunc(sc.sizes, func(a, b sizedCondition) int { return cmp.Compare(a.n, b.n) })
	rest := sc.sizes
	switch {
	case v.docs != nil && v.docs.card <= maxProbed && (len(rest) == 0 || v.docs.card <= rest[0].n):
		sc.slots = v.slots(sc.slots[:0])
	case len(rest) > 0 && rest[0].n <= maxProbed:
		if err := v.slotsOf(rest[0].condition, sc); err != nil {
			return false, err
		}
		rest = rest[1:]
	default:
		return v.restrictMask(p, sc)
	}
	for _, c := range rest {
		sc.keep(c.condition, true)
	}
	for i := range p.not {
		if len(sc.slots) == 0 {
			break
		}
		if err := v.findAll(&p.not[i], sc); err != nil {
			return false, err
		}
		sc.keepLists(false)
	}
	return true, nil
}

// maxProbed is up to how many documents are looked for one by one.
const maxProbed = 2048

type sizedCondition struct {
	n int
	*condition
}

// slotsOf writes the view's documents that fulfil a condition as slots.
func (v *view) slotsOf(c *condition, sc *scratch) error {
	if len(c.terms) > 1 || v.docs != nil {
		v.mask(&sc.mask)
		sc.and(c)
		sc.slots = sc.mask.slots(sc.slots[:0])
		return nil
	}
	l := sc.lists[c.terms[0]]
	var err error
	sc.slots, err = l.slots(sc.slots[:0], v.limit)
	return err
}

// restrictMask is restrict for many documents.
func (v *view) restrictMask(p *plan, sc *scratch) (few bool, err error) {
	v.mask(&sc.mask)
	for _, c := range sc.sizes {
		sc.and(c.condition)
	}
	for i := range p.not {
		if err := v.findAll(&p.not[i], sc); err != nil {
			return false, err
		}
		for j := range sc.found {
			sc.found[j].mask(&sc.other)
			for w := range sc.mask {
				sc.mask[w] &^= sc.other[w]
			}
		}
	}
	if sc.mask.count() > maxProbed {
		return false, nil
	}
	sc.slots = sc.mask.slots(sc.slots[:0])
	return true, nil
}

// and removes from the mask what does not fulfil a condition that Must.
func (sc *scratch) and(c *condition) {
	l := sc.lists[c.terms[0]]
	l.mask(&sc.other)
	for _, t := range c.terms[1:] {
		l := sc.lists[t]
		l.addTo(&sc.other)
	}
	for w := range sc.mask {
		sc.mask[w] &= sc.other[w]
	}
}

// keep removes the slots that do not fulfil a condition that Must.
func (sc *scratch) keep(c *condition, has bool) {
	sc.found = sc.found[:0]
	for _, t := range c.terms {
		if sc.lists[t].n > 0 {
			sc.found = append(sc.found, sc.lists[t])
		}
	}
	sc.keepLists(has)
}

// keepLists removes the slots that are in one of the lists found, or that are not.
func (sc *scratch) keepLists(has bool) {
	if len(sc.found) == 0 && !has {
		return
	}
	n := 0
	for _, slot := range sc.slots {
		in := false
		for i := range sc.found {
			if in = sc.found[i].freq(uint32(slot)) > 0; in {
				break
			}
		}
		if in == has {
			sc.slots[n] = slot
			n++
		}
	}
	sc.slots = sc.slots[:n]
}

// findAll opens the lists of a condition that MustNot.
func (v *view) findAll(c *condition, sc *scratch) error {
	sc.found = sc.found[:0]
	for _, text := range c.texts {
		l, err := v.list(ofTerms, text, sc)
		if err != nil {
			return err
		}
		if l.n > 0 {
			sc.found = append(sc.found, l)
		}
	}
	return nil
}
