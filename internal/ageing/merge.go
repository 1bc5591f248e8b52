package ageing

import (
	"bytes"
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/seed-7aedc3ff/memdb/hnsw"
	"github.com/seed-7aedc3ff/memdb/internal/doctable"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/records"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/policy"
)

const (
	// mergeRounds bounds the rounds of one consolidation.
	mergeRounds = 8
	// mergeBatch is how many memories are merged in one commit: each may rewrite another.
	mergeBatch = 1000
)

// Merge is two memories that say the same, or are nearly the same.
type Merge struct {
	ID       string `json:"id"` // of the one that goes
	Text     string `json:"text"`
	Into     string `json:"into"` // of the one that stays
	IntoText string `json:"into_text"`
	By       string `json:"by"` // "cosine" or "edit"
	// Score is the cosine, or 1 less the edit distance as a share of the longer text: 1 for
	// texts that say the same.
	Score float64 `json:"score"`
}

// merge is a Merge that is to be committed.
type merge struct {
	Merge
	from, into victim // of into only the version counts
}

// mergePlan finds the memories born after an LSN that say the same as another one, or, by the
// policy, are nearly the same, and what is merged into what. crowded: there may be more of them.
func (st *State) mergePlan(ctx context.Context, p *policy.Policy, s memory.Scope, after uint64) (plan []merge, crowded bool, err error) {
	f, err := st.freshGroups(ctx, p, s, after)
	if err != nil || f.docs.IsEmpty() {
		return nil, false, err
	}
	if p.MergesAlike() {
		plan, crowded, err = st.alikePlan(ctx, p, f)
	} else {
		plan, err = st.samePlan(ctx, f)
	}
	if err != nil {
		return nil, false, err
	}
	j := st.newJudge(ctx, p)
	plan = slices.DeleteFunc(plan, func(g merge) bool {
		_, spared := j.spares(st.Docs.Row(st.Docs.At(g.from.Seq, st.LSN)), policy.Merged)
		return spared && j != nil
	})
	j.end()
	return plan, crowded, nil
}

// group is what memories that are merged have in common, beside the rest of their heads.
type group struct{ owner, run uint32 }

// fresh are the memories that were not compared yet, and those that they are compared with.
type fresh struct {
	free   *roaring.Bitmap // that are not pinned
	docs   *roaring.Bitmap
	groups map[group]*roaring.Bitmap // with the fresh ones
}

func (st *State) freshGroups(ctx context.Context, p *policy.Policy, s memory.Scope, after uint64) (f fresh, err error) {
	free, pinned, err := st.takeable(p, s)
	if err != nil {
		return f, err
	}
	f = fresh{free, roaring.New(), map[group]*roaring.Bitmap{}}
	all := roaring.Or(free, pinned)
	alive := func(r *doctable.Row) bool { return !r.Over(st.Now) }
	err = st.EachIn(ctx, all, func(doc uint32, r *doctable.Row) {
		if r.Born > after && alive(r) {
			f.docs.Add(doc)
			f.groups[group{r.Owner, r.Run}] = nil
		}
	})
	if err != nil || f.docs.IsEmpty() {
		return f, err
	}
	err = st.EachIn(ctx, all, func(doc uint32, r *doctable.Row) {
		g := group{r.Owner, r.Run}
		set, is := f.groups[g]
		if !is || !alive(r) {
			return
		}
		if set == nil {
			set = roaring.New()
			f.groups[g] = set
		}
		set.Add(doc)
	})
	return f, err
}

// sameHead reports whether two memories of a group are the same in all but their texts, vectors
// and what a survivor has the better of. What they are told apart by, a merge would lose.
func sameHead(a, b *layout.Record) bool {
	return a.Role == b.Role && a.Kind == b.Kind && a.Source == b.Source && a.Name == b.Name && slices.Equal(a.Aliases, b.Aliases) &&
		a.Event == b.Event && a.Expires == b.Expires && bytes.Equal(a.Metadata, b.Metadata)
}

// apart reports whether a memory is not to be merged: that was undone.
func apart(r *layout.Record) bool { return r.Flags&layout.FlagApart != 0 }

// newer orders candidates by whose text counts: that which was written last.
func newer(a, b *candidate) int {
	return cmp.Or(cmp.Compare(b.rec.Updated, a.rec.Updated), cmp.Compare(b.row.Seq, a.row.Seq))
}

// candidate is a memory that was read to be compared.
type candidate struct {
	doc uint32
	row *doctable.Row
	rec *layout.Record
	vec []float32 // in the default space, nil for none
}

// planned is that one candidate goes into another.
func (st *State) planned(from, into *candidate, by string, score float64) merge {
	f, a := st.Facts(from.row)
	v := newVictim(from.row, policy.Merged, &f, a)
	v.into, v.pinned, v.auto = into.row.Seq, from.rec.Flags&layout.FlagPinned != 0, from.rec.Flags&layout.FlagAutoImportance != 0
	return merge{
		Merge{from.rec.ID, from.rec.Text, into.rec.ID, into.rec.Text, by, score},
		v,
		victim{Version: into.row.Version},
	}
}

// mergeAway commits a part of a plan, and returns the memories that are gone. Those that have
// changed since, or whose survivor has, stay. heirs are the survivors that it has changed. before is the LSN of the commit before it in the same
// consolidation that took something, 0 for none.
func (tx *Tx) mergeAway(ctx context.Context, plan []merge, p *policy.Policy, s memory.Scope, before uint64) (gone []victim, heirs []policy.Heir, err error) {
	is := func(v layout.Version) bool {
		l, lives := tx.At(v.Seq)
		return lives && l.Version == v
	}
	var victims []victim
	left := map[uint64]heritage{} // what a survivor gets
	for i := range plan {
		v := plan[i].from
		if !is(v.Version) || !is(plan[i].into.Version) {
			continue
		}
		victims = append(victims, v)
		left[v.into] = left[v.into].with(tx.State, &v, p.AverageEmbeddings)
	}
	if len(victims) == 0 {
		return nil, nil, nil
	}
	for i := range plan {
		h, waits := left[plan[i].into.Seq]
		if !waits {
			continue
		}
		delete(left, plan[i].into.Seq)
		heir, changed, err := tx.inheritFrom(ctx, plan[i].into.Version, h)
		if err != nil {
			return nil, nil, tx.Writer.Break(err) // some heirs have got theirs
		}
		if changed {
			heirs = append(heirs, heir)
		}
	}
	sortVictims(victims)
	gone, err = tx.evict(victims, p, s, &policy.Trash{Before: before, Heirs: heirs})
	return gone, heirs, err
}

// heritage is what memories leave to the one that they are merged into.
type heritage struct {
	importance float64
	auto       bool // it was computed
	confidence float64
	pinned     bool
	access     layout.Access
	from       []layout.Version // those whose vectors count for its own
}

func (h heritage) with(st *State, v *victim, vectors bool) heritage {
	if v.importance > h.importance {
		h.importance, h.auto = v.importance, v.auto
	}
	h.confidence, h.pinned = max(h.confidence, v.confidence), h.pinned || v.pinned
	a := st.Docs.Access(v.Seq)
	h.access = h.access.Fold(layout.Access{Count: a.Count, Last: a.Last})
	if vectors {
		h.from = append(h.from, v.Version)
	}
	return h
}

// inheritFrom gives a survivor the better of what it has and of what was merged into it: the
// importance, the confidence and the pin; all accesses; and the mean of the vectors. It returns
// what the survivor had, where that has changed.
func (tx *Tx) inheritFrom(ctx context.Context, into layout.Version, h heritage) (heir policy.Heir, changed bool, err error) {
	if h.access != (layout.Access{}) {
		if err := tx.AddAccess(into.Owner, into.Seq, h.access); err != nil {
			return heir, false, err
		}
	}
	l, _ := tx.At(into.Seq)
	rec, err := tx.Record(l.Version)
	if err != nil {
		return heir, false, err
	}
	heir = policy.Heir{
		Importance: rec.Importance, AutoImportance: rec.Flags&layout.FlagAutoImportance != 0, Pinned: rec.Flags&layout.FlagPinned != 0,
		Confidence: tx.ConfidenceOf(into, rec.Created, rec.Confidence),
	}
	to := standing{importance: heir.Importance, auto: heir.AutoImportance, pinned: heir.Pinned || h.pinned}
	if h.importance > to.importance {
		to.importance, to.auto = h.importance, h.auto
	}
	if heir.Confident = h.confidence > heir.Confidence; heir.Confident {
		to.confidence = &h.confidence
	}
	if to.vectors, err = tx.meanVectors(rec, l.Version, h.from); err != nil {
		return heir, false, err
	}
	if to.importance == heir.Importance && to.pinned == heir.Pinned && !heir.Confident && len(to.vectors) == 0 {
		return heir, false, nil
	}
	if l, err = tx.stand(ctx, doingConsolidate, l, rec, &to); err != nil {
		return heir, false, err
	}
	heir.Version = l.Version
	return heir, true, nil
}

// standing is what a merge changes of a survivor.
type standing struct {
	importance float64
	auto       bool // it was computed, and is again when the text changes
	pinned     bool
	confidence *float64 // nil: as it is
	vectors    map[string][]float32
}

// stand writes the next version of a memory, with another standing.
func (tx *Tx) stand(ctx context.Context, doing string, l records.Live, rec *layout.Record, to *standing) (records.Live, error) {
	p, err := tx.Writer.Patched(doing, rec, &memory.Patch{Pinned: &to.pinned, Confidence: to.confidence, Vectors: to.vectors, Importance: &to.importance})
	if err != nil {
		return l, err
	}
	if to.auto {
		p.Rec.Flags |= layout.FlagAutoImportance
	}
	return tx.Writer.Rewrite(ctx, doing, l, rec, p, nil)
}

// Disinherit gives a survivor what it had before a merge, unless it was changed since.
func (tx *Tx) Disinherit(ctx context.Context, doing string, h *policy.Heir) error {
	l, lives := tx.At(h.Seq)
	if !lives || l.Version != h.Version {
		return nil
	}
	rec, err := tx.Record(l.Version)
	if err != nil {
		return err
	}
	before := standing{importance: h.Importance, auto: h.AutoImportance, pinned: h.Pinned}
	if h.Confident {
		before.confidence = &h.Confidence
	}
	_, err = tx.stand(ctx, doing, l, rec, &before)
	return err
}

// meanVectors are the means of the vectors of a version and those of others, by space, for each
// space that it has one in and any of them. Where cosines are compared, a vector counts by its
// direction alone, and the mean has the length of the version's own.
func (st *State) meanVectors(rec *layout.Record, v layout.Version, others []layout.Version) (map[string][]float32, error) {
	means := map[string][]float32{}
	for _, ref := range rec.Vectors {
		s := st.Spaces.Numbered(ref.Space)
		if s == nil || len(others) == 0 {
			continue
		}
		own, err := st.Vector(v, ref)
		if err != nil {
			return nil, err
		}
		all := [][]float32{own}
		for _, o := range others {
			vec, err := st.vectorIn(s.Num, o)
			if err != nil {
				return nil, err
			}
			if vec != nil {
				all = append(all, vec)
			}
		}
		if mean := meanOf(all, s.Metric == hnsw.Cosine); mean != nil && len(all) > 1 {
			means[s.Name] = mean
		}
	}
	return means, nil
}

// vectorIn is the vector of a version in a space, nil where it has none.
func (st *State) vectorIn(space uint16, v layout.Version) ([]float32, error) {
	rec, err := st.Record(v)
	if err != nil {
		return nil, err
	}
	for _, ref := range rec.Vectors {
		if ref.Space == space {
			return st.Vector(v, ref)
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

// AddAccess counts accesses of a memory that were others' before.
func (tx *Tx) AddAccess(owner uint32, seq uint64, a layout.Access) error {
	if err := tx.Writer.AddAccess(owner, seq, a); err != nil {
		return err
	}
	s := tx.Docs.Seq(seq)
	tx.Applied(func(uint64) error {
		s.Count.Add(a.Count)
		s.See(a.Last)
		return nil
	})
	return nil
}
