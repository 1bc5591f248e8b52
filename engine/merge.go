package engine

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/seed-7aedc3ff/memdb/hnsw"
	"github.com/seed-7aedc3ff/memdb/internal/analysis"
	"github.com/seed-7aedc3ff/memdb/internal/doctable"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/invindex"
	"github.com/seed-7aedc3ff/memdb/policy"
)

const (
	// mergeNear is how many of its nearest a memory is compared with. Of more that are
	// alike the others are found in a further round.
	mergeNear = 16
	// mergeTerms is by how many of its words a text without a vector is looked for.
	mergeTerms = 32
	// mergeRounds bounds the rounds of one consolidation.
	mergeRounds = 8
	// mergeBatch is how many memories are merged in one commit: each may rewrite another.
	mergeBatch = 1000
)

// Merge is two memories that are nearly the same.
type Merge struct {
	ID    string  `json:"id"`    // of the one that goes
	Into  string  `json:"into"`  // of the one that stays
	By    string  `json:"by"`    // "cosine" or "edit"
	Score float64 `json:"score"` // the cosine, or 1 less the edit distance as a share of the longer text
}

// merge is a Merge that is to be committed.
type merge struct {
	Merge
	from, into victim // of into only version and importance count
}

// merging looks for near duplicates in one state.
type merging struct {
	tx     *Tx
	ctx    context.Context
	policy *policy.Policy
	free   *roaring.Bitmap // that may be merged away
	groups map[group]*members
	loaded map[uint32]*candidate
	edges  []edge
	// crowded: a memory has more near ones than it was compared with.
	crowded bool
}

// group is what near duplicates have in common, beside their source.
type group struct{ owner, run uint32 }

// candidate is a memory that was read to be compared.
type candidate struct {
	doc uint32
	row *doctable.Row
	rec *layout.Record
	vec []float32 // in the default space, nil for none
}

// edge is a pair of near duplicates, the earlier one first.
type edge struct {
	into, from *candidate
	by         string
	score      float64
}

// mergePlan finds the memories born after an LSN that are nearly the same as another one of
// the same user, agent, run and source, and what is merged into what: each, in the order of
// Seqs, into the first one that it is alike to and that stays. What is pinned stays.
func (tx *Tx) mergePlan(ctx context.Context, p *policy.Policy, s Scope, after uint64) (plan []merge, crowded bool, err error) {
	free, pinned, err := tx.takeable(p, s)
	if err != nil {
		return nil, false, err
	}
	m := &merging{tx: tx, ctx: ctx, policy: p, free: free, groups: map[group]*members{}, loaded: map[uint32]*candidate{}}
	fresh := roaring.New()
	wanted := map[group]*roaring.Bitmap{}
	all := roaring.Or(free, pinned)
	alive := func(r *doctable.Row) bool { return r.Expires == 0 || r.Expires > tx.now }
	err = tx.eachIn(ctx, all, func(doc uint32, r *doctable.Row) {
		if r.Born > after && alive(r) {
			fresh.Add(doc)
			wanted[group{r.Owner, r.Run}] = nil
		}
	})
	if err == nil && !fresh.IsEmpty() {
		err = tx.eachIn(ctx, all, func(doc uint32, r *doctable.Row) {
			g := group{r.Owner, r.Run}
			set, is := wanted[g]
			if !is || !alive(r) {
				return
			}
			if set == nil {
				set = roaring.New()
				wanted[g] = set
			}
			set.Add(doc)
		})
	}
	if err != nil {
		return nil, false, err
	}
	for g, set := range wanted {
		m.groups[g] = newMembers(set)
	}
	for it := fresh.Iterator(); it.HasNext(); {
		if err := m.compare(it.Next()); err != nil {
			return nil, false, err
		}
	}
	j := tx.newJudge(ctx, p)
	plan = slices.DeleteFunc(m.greedy(), func(g merge) bool {
		_, spared := j.spares(tx.db.docs.Row(tx.db.docs.At(g.from.Seq, tx.lsn)), policy.Merged)
		return spared && j != nil
	})
	j.end()
	return plan, m.crowded, nil
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
	row := m.tx.db.docs.Row(doc)
	rec, err := m.tx.record(row.Version)
	if err != nil {
		return nil, err
	}
	c := &candidate{doc: doc, row: row, rec: rec}
	if s := m.tx.db.spaceAt(defaultSpace, m.tx.lsn); s != nil {
		for _, ref := range rec.Vectors {
			if ref.Space == s.num {
				if c.vec, err = m.tx.vector(row.Version, ref); err != nil {
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
	row := m.tx.db.docs.Row(doc)
	in := m.groups[group{row.Owner, row.Run}]
	if in.n < 2 {
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
			if e.into.row.Seq > e.from.row.Seq {
				e.into, e.from = e.from, e.into
			}
			m.edges = append(m.edges, e)
		}
	}
	m.crowded = m.crowded || found >= mergeNear-1
	return nil
}

// nearest are the documents of a group with the nearest vectors.
func (m *merging) nearest(c *candidate, in *members) ([]uint32, error) {
	s := m.tx.db.spaceAt(defaultSpace, m.tx.lsn)
	hits, err := s.index.Search(m.ctx, c.vec, hnsw.Search{
		K: mergeNear, Slots: s.index.Len(), Ef: ef(s, mergeNear), Truth: m.tx.truth(s), Within: in.slotSet(s), Plain: true,
	})
	var docs []uint32
	for _, h := range hits {
		if doc := s.doc(&m.tx.db.docs, h.Slot, m.tx.lsn); doc != doctable.None && in.set.Contains(doc) {
			docs = append(docs, doc)
		}
	}
	return docs, err
}

// alike are the documents of a group whose texts fit the words of a text best.
func (m *merging) alike(c *candidate, in *members) ([]uint32, error) {
	bag := bags.Get().(*analysis.Bag)
	defer bags.Put(bag)
	bag.Reset()
	languages, err := m.tx.languages(m.ctx, in.set)
	if err != nil {
		return nil, err
	}
	if err := bag.AddQueryIn(m.ctx, m.tx.db.words.analyzer.Load(), c.rec.Text, 1, languages); err != nil {
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
	set := invindex.Docs{Set: in.set}
	stats, err := m.tx.index.Stats(m.ctx, m.tx.postings, words, set)
	if err != nil {
		return nil, textError(doingConsolidate, err)
	}
	hits, err := m.tx.index.Search(m.ctx, m.tx.postings, terms, stats, set, mergeNear)
	var docs []uint32
	for _, h := range hits {
		docs = append(docs, h.Doc)
	}
	return docs, textError(doingConsolidate, err)
}

// same reports whether two memories of a group are near duplicates.
func (m *merging) same(a, b *candidate) (by string, score float64, same bool) {
	if a.rec.Source != b.rec.Source || a.rec.Kind != b.rec.Kind || (a.vec == nil) != (b.vec == nil) {
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
	slices.SortFunc(m.edges, func(a, b edge) int {
		return cmp.Or(cmp.Compare(a.from.row.Seq, b.from.row.Seq), cmp.Compare(a.into.row.Seq, b.into.row.Seq))
	})
	gone := map[uint64]bool{}
	for _, e := range m.edges {
		from, into := e.from.row, e.into.row
		if gone[from.Seq] || gone[into.Seq] || !m.free.Contains(e.from.doc) {
			continue
		}
		gone[from.Seq] = true
		f, a := m.tx.facts(from)
		v := newVictim(from, policy.Merged, &f, a)
		v.into = into.Seq
		plan = append(plan, merge{
			Merge{e.from.rec.ID, e.into.rec.ID, e.by, e.score},
			v,
			victim{Version: into.Version, importance: into.Importance},
		})
	}
	return plan
}

// mergeAway commits a part of a plan, and returns the memories that are gone. Those that have
// changed since, or whose survivor has, stay.
func (tx *Tx) mergeAway(ctx context.Context, plan []merge, p *policy.Policy, s Scope) ([]victim, error) {
	var victims []victim
	for i := range plan {
		if l, lives := tx.at(plan[i].into.Seq); lives && l.Version == plan[i].into.Version {
			victims = append(victims, plan[i].from)
		}
	}
	if len(victims) == 0 {
		return nil, nil
	}
	victims, err := tx.evict(victims, p, s)
	if err != nil {
		return nil, err
	}
	heirs := map[uint64]heritage{} // what a survivor gets
	for i := range victims {
		v := &victims[i]
		h := heirs[v.into]
		h.importance = max(h.importance, v.importance)
		a := tx.db.accessOf(v.Seq)
		h.access = h.access.Fold(layout.Access{Count: a.Count, Last: a.Last})
		if p.AverageEmbeddings {
			h.from = append(h.from, v.Version)
		}
		heirs[v.into] = h
	}
	for i := range plan {
		h, waits := heirs[plan[i].into.Seq]
		if !waits {
			continue
		}
		delete(heirs, plan[i].into.Seq)
		if err := tx.inheritFrom(ctx, plan[i].into, h); err != nil {
			return nil, tx.breaks(err) // some victims are dead already
		}
	}
	return victims, nil
}

// heritage is what memories leave to the one that they are merged into.
type heritage struct {
	importance float64
	access     layout.Access
	from       []layout.Version // those whose vectors count for its own
}

// inheritFrom gives a survivor the importance of what was merged into it, where that is higher, its
// accesses, and the mean of their vectors.
func (tx *Tx) inheritFrom(ctx context.Context, into victim, h heritage) error {
	if h.access != (layout.Access{}) {
		if err := tx.addAccess(into.Owner, into.Seq, h.access); err != nil {
			return err
		}
	}
	if h.importance <= into.importance && len(h.from) == 0 {
		return nil
	}
	l, _ := tx.at(into.Seq)
	rec, err := tx.record(l.Version)
	if err != nil {
		return err
	}
	var patch Patch
	if h.importance > into.importance {
		patch.Importance = &h.importance
	}
	if patch.Vectors, err = tx.meanVectors(rec, l.Version, h.from); err != nil {
		return err
	}
	if patch.Importance == nil && len(patch.Vectors) == 0 {
		return nil
	}
	_, err = tx.patch(ctx, doingConsolidate, l, rec, &patch, nil)
	return err
}

// meanVectors are the means of the vectors of a version and those of others, by space, for each
// space that it has one in and any of them. Where cosines are compared, a vector counts by its
// direction alone, and the mean has the length of the version's own.
func (tx *Tx) meanVectors(rec *layout.Record, v layout.Version, others []layout.Version) (map[string][]float32, error) {
	means := map[string][]float32{}
	for _, ref := range rec.Vectors {
		s := tx.db.spaces.numbered(ref.Space)
		if s == nil || len(others) == 0 {
			continue
		}
		own, err := tx.vector(v, ref)
		if err != nil {
			return nil, err
		}
		all := [][]float32{own}
		for _, o := range others {
			vec, err := tx.vectorIn(s.num, o)
			if err != nil {
				return nil, err
			}
			if vec != nil {
				all = append(all, vec)
			}
		}
		if mean := meanOf(all, s.metric == hnsw.Cosine); mean != nil && len(all) > 1 {
			means[s.name] = mean
		}
	}
	return means, nil
}

// vectorIn is the vector of a version in a space, nil where it has none.
func (tx *Tx) vectorIn(space uint16, v layout.Version) ([]float32, error) {
	rec, err := tx.record(v)
	if err != nil {
		return nil, err
	}
	for _, ref := range rec.Vectors {
		if ref.Space == space {
			return tx.vector(v, ref)
		}
	}
	return nil, nil
}

// meanOf is the mean of vectors; by direction, with the length of the first one, if they are
// compared by cosines. It is nil where they cancel each other out.
func meanOf(all [][]float32, byDirection bool) []float32 {
	sum := make([]float64, len(all[0]))
	for _, vec := range all {
		by := 1.0
		if byDirection {
			by = 1 / max(lengthOf(vec), math.SmallestNonzeroFloat32)
		}
		for i, x := range vec {
			sum[i] += float64(x) * by
		}
	}
	by := 1 / float64(len(all))
	if byDirection {
		var squares float64
		for _, x := range sum {
			squares += x * x
		}
		if squares == 0 {
			return nil
		}
		by = lengthOf(all[0]) / math.Sqrt(squares)
	}
	mean := make([]float32, len(sum))
	for i, x := range sum {
		mean[i] = float32(x * by)
	}
	return mean
}

func lengthOf(vec []float32) float64 {
	var squares float64
	for _, x := range vec {
		squares += float64(x) * float64(x)
	}
	return math.Sqrt(squares)
}

// addAccess counts accesses of a memory that were others' before.
func (tx *Tx) addAccess(owner uint32, seq uint64, a layout.Access) error {
	if err := tx.carryDebt(owner, seq, false); err != nil {
		return err
	}
	if err := tx.mergeAccess(owner, seq, a); err != nil {
		return err
	}
	tx.logAccesses(layout.LogTouch, 1, appendTouch(nil, owner, seq, a))
	s := tx.db.docs.Seq(seq)
	tx.staged = append(tx.staged, stagedChange{tx.lsn, func(uint64) {
		s.Count.Add(a.Count)
		for last := s.Accessed.Load(); last < a.Last && !s.Accessed.CompareAndSwap(last, a.Last); {
			last = s.Accessed.Load()
		}
	}})
	return nil
}

// mergedInto is the ID of the memory that one with an ID was merged into, or what took that
// one in since; empty where there is none in the scope.
func (tx *Tx) mergedInto(s Scope, id string) (into string, err error) {
	err = tx.holders(anyOwner, id, func(c claim) error {
		entries, err := tx.lifeOf(c.owner, c.seq, id, s)
		if err != nil || len(entries) == 0 || entries[len(entries)-1].Into == "" {
			return err
		}
		const most = 100 // a chain of merges
		seq := c.seq
		for range most {
			d, _, _, err := tx.deathOf(c.owner, seq)
			if err != nil {
				return err
			}
			if _, lives := tx.at(seq); lives || d == nil || d.Into == 0 {
				break
			}
			seq = d.Into
		}
		if into, err = tx.lastID(c.owner, seq); err != nil {
			return err
		}
		return kv.ErrStop
	})
	if errors.Is(err, kv.ErrStop) {
		err = nil
	}
	return into, err
}
