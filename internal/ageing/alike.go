package ageing

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/seed-7aedc3ff/memdb/hnsw"
	"github.com/seed-7aedc3ff/memdb/internal/analysis"
	"github.com/seed-7aedc3ff/memdb/internal/doctable"
	"github.com/seed-7aedc3ff/memdb/internal/recall"
	"github.com/seed-7aedc3ff/memdb/internal/selection"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/invindex"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/policy"
)

const (
	// mergeNear is how many of its nearest a memory is compared with. Of more that are
	// alike the others are found in a further round.
	mergeNear = 16
	// mergeTerms is by how many of its words a text without a vector is looked for.
	mergeTerms = 32
)

// merging looks for near duplicates in one state.
type merging struct {
	st     *State
	ctx    context.Context
	policy *policy.Policy
	free   *roaring.Bitmap // that may be merged away
	groups map[group]*selection.Members
	loaded map[uint32]*candidate
	edges  []edge
	// crowded: a memory has more near ones than it was compared with.
	crowded bool
}

// edge is a pair of near duplicates, the newer one first.
type edge struct {
	into, from *candidate
	by         string
	score      float64
}

// alikePlan finds what is nearly the same: each goes, the older ones after the newer, into the
// newest one that it is alike to and that stays. What is pinned stays, for its text is another.
func (st *State) alikePlan(ctx context.Context, p *policy.Policy, f fresh) (plan []merge, crowded bool, err error) {
	m := &merging{st: st, ctx: ctx, policy: p, free: f.free, groups: map[group]*selection.Members{}, loaded: map[uint32]*candidate{}}
	for g, set := range f.groups {
		m.groups[g] = selection.NewMembers(set)
	}
	for it := f.docs.Iterator(); it.HasNext(); {
		if err := m.compare(it.Next()); err != nil {
			return nil, false, err
		}
	}
	return m.greedy(), m.crowded, nil
}

// load reads a memory once.
func (m *merging) load(doc uint32) (*candidate, error) {
	if c := m.loaded[doc]; c != nil {
		return c, nil
	}
	const most = 10_000 // candidates kept: 1 KB of text each are 10 MB
	if len(m.loaded) >= most {
		clear(m.loaded)
	}
	row := m.st.Docs.Row(doc)
	rec, err := m.st.Record(row.Version)
	if err != nil {
		return nil, err
	}
	c := &candidate{doc: doc, row: row, rec: rec}
	if s := m.st.Spaces.At(memory.DefaultSpace, m.st.LSN); s != nil {
		for _, ref := range rec.Vectors {
			if ref.Space == s.Num {
				if c.vec, err = m.st.Vector(row.Version, ref); err != nil {
					return nil, err
				}
			}
		}
	}
	m.loaded[doc] = c
	return c, nil
}

// compare compares a memory with its nearest.
func (m *merging) compare(doc uint32) error {
	if err := m.ctx.Err(); err != nil {
		return err
	}
	row := m.st.Docs.Row(doc)
	in := m.groups[group{row.Owner, row.Run}]
	if in.N < 2 {
		return nil
	}
	c, err := m.load(doc)
	if err != nil {
		return err
	}
	var near []uint32
	switch {
	case c.vec != nil:
		near, err = m.nearest(c, in)
	case m.policy.MergeEdit > 0 && c.rec.Text != "" && len(c.rec.Text) <= policy.MaxMergeText:
		near, err = m.alike(c, in)
	}
	if err != nil {
		return err
	}
	found := 0
	for _, other := range near {
		if other == doc {
			continue
		}
		o, err := m.load(other)
		if err != nil {
			return err
		}
		if by, score, same := m.same(c, o); same {
			found++
			e := edge{c, o, by, score}
			if newer(e.into, e.from) > 0 {
				e.into, e.from = e.from, e.into
			}
			m.edges = append(m.edges, e)
		}
	}
	m.crowded = m.crowded || found >= mergeNear-1
	return nil
}

// nearest are the documents of a group with the nearest vectors.
func (m *merging) nearest(c *candidate, in *selection.Members) ([]uint32, error) {
	s := m.st.Spaces.At(memory.DefaultSpace, m.st.LSN)
	hits, err := s.Index.Search(m.ctx, c.vec, hnsw.Search{
		K: mergeNear, Slots: s.Index.Len(), Ef: recall.Ef(s, mergeNear), Truth: s.Truth(m.st.View.State), Within: in.SlotSet(s), Plain: true,
	})
	var docs []uint32
	for _, h := range hits {
		if doc := s.Doc(&m.st.Docs, h.Slot, m.st.LSN); doc != doctable.None && in.Set.Contains(doc) {
			docs = append(docs, doc)
		}
	}
	return docs, err
}

// alike are the documents of a group whose texts fit the words of a text best.
func (m *merging) alike(c *candidate, in *selection.Members) ([]uint32, error) {
	bag := analysis.Bags.Get().(*analysis.Bag)
	defer analysis.Bags.Put(bag)
	bag.Reset()
	shares, err := m.st.Languages(m.ctx, in.Set)
	if err != nil {
		return nil, err
	}
	analyzer := m.st.Words.Analyzer.Load()
	if err := bag.AddQueryIn(m.ctx, analyzer, c.rec.Text, 1, analyzer.Asked(c.rec.Text, &shares).In); err != nil {
		return nil, err
	}
	first, err := bag.First(m.ctx, mergeTerms)
	if err != nil || len(first) == 0 {
		return nil, err
	}
	var terms []invindex.QueryTerm
	var words []string
	for _, t := range first {
		words = append(words, t.Term)
		terms = append(terms, invindex.QueryTerm{Text: t.Term, Weight: float64(t.Freq)})
	}
	set := invindex.Docs{Set: in.Set}
	stats, err := m.st.Index.Stats(m.ctx, m.st.Postings, words, set)
	if err != nil {
		return nil, state.TextError(doingConsolidate, err)
	}
	hits, err := m.st.Index.Search(m.ctx, m.st.Postings, terms, stats, set, mergeNear)
	var docs []uint32
	for _, h := range hits {
		docs = append(docs, h.Doc)
	}
	return docs, state.TextError(doingConsolidate, err)
}

// same reports whether two memories of a group are near duplicates.
func (m *merging) same(a, b *candidate) (by string, score float64, same bool) {
	if !sameHead(a.rec, b.rec) || apart(a.rec) || apart(b.rec) || (a.vec == nil) != (b.vec == nil) {
		return "", 0, false
	}
	if a.vec != nil {
		score = cosineOf(a.vec, b.vec)
		return "cosine", score, score > m.policy.MergeCosine
	}
	score, same = policy.SameText(a.rec.Text, b.rec.Text, m.policy.MergeEdit)
	return "edit", score, same
}

func cosineOf(a, b []float32) float64 {
	var dot, aa, bb float64
	for i := range a {
		x, y := float64(a[i]), float64(b[i])
		dot, aa, bb = dot+x*y, aa+x*x, bb+y*y
	}
	if aa == 0 || bb == 0 {
		return 0
	}
	return dot / math.Sqrt(aa*bb)
}

// greedy chooses among the pairs.
func (m *merging) greedy() (plan []merge) {
	slices.SortFunc(m.edges, func(a, b edge) int { return cmp.Or(newer(a.from, b.from), newer(a.into, b.into)) })
	gone := map[uint64]bool{}
	for _, e := range m.edges {
		from, into := e.from.row, e.into.row
		if gone[from.Seq] || gone[into.Seq] || !m.free.Contains(e.from.doc) {
			continue
		}
		gone[from.Seq] = true
		plan = append(plan, m.st.planned(e.from, e.into, e.by, e.score))
	}
	return plan
}
