package recall

import (
	"context"
	"errors"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/scalar"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/invindex"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/policy"
)

// leaning is whose turns a question is about: those of a speaker, or those in a role.
type leaning struct {
	speaker string // as in the values of layout.FieldSpeaker
	role    memory.Role
}

// others says which of the documents, in ascending order, are turns of others than those whom the
// question is about.
func (r *recalling) others(ctx context.Context, l *leaning, docs []uint32) ([]bool, error) {
	if l.speaker != "" {
		theirs, err := r.having(ctx, docs, invindex.Value{Field: layout.FieldSpeaker, Key: l.speaker})
		for i, doc := range docs {
			theirs[i] = !theirs[i] && r.st.Docs.Row(doc).Run != 0
		}
		return theirs, err
	}
	roles := []memory.Role{memory.RoleUser}
	if l.role == memory.RoleUser {
		roles = []memory.Role{memory.RoleAssistant, memory.RoleTool}
	}
	others := make([]bool, len(docs))
	for _, role := range roles {
		said, err := r.having(ctx, docs, invindex.Value{Field: layout.FieldRole, Key: scalar.TextKey(string(role))})
		if err != nil {
			return nil, err
		}
		for i, is := range said {
			others[i] = others[i] || is
		}
	}
	return others, nil
}

// weighTurns weighs the texts of the matches by what they are beside their words: who says them,
// whether they ask, whether they say when, and when they were.
func (r *recalling) weighTurns(ctx context.Context, m *matches) error {
	if len(m.docs) == 0 {
		return nil
	}
	w := newTurnWeights(m.docs)
	if err := w.asking(ctx, r); err != nil {
		return err
	}
	var err error
	if m.lean, err = r.askedAbout(ctx, w.docs); err != nil {
		return err
	}
	if m.lean != nil {
		others, err := r.others(ctx, m.lean, w.docs)
		if err != nil {
			return err
		}
		w.times(policy.OtherSpeaker, others)
	}
	if err := w.timed(ctx, r); err != nil {
		return err
	}
	for n, i := range w.places {
		m.own[i] *= w.weights[n]
		m.lent[i] *= w.weights[n]
	}
	return nil
}

// turnWeights are weights of the matches, in ascending order of their documents.
type turnWeights struct {
	docs    []uint32
	places  []int32 // of each among the matches
	weights []float64
}

func newTurnWeights(docs []uint32) *turnWeights {
	w := &turnWeights{docs: make([]uint32, len(docs)), places: make([]int32, len(docs)), weights: make([]float64, len(docs))}
	order := make([]uint64, len(docs)) // numbers are sorted in a third of the time
	for i, doc := range docs {
		order[i] = uint64(doc)<<32 | uint64(i)
	}
	slices.Sort(order)
	for n, o := range order {
		w.docs[n], w.places[n], w.weights[n] = uint32(o>>32), int32(uint32(o)), 1
	}
	return w
}

// times multiplies the weights of some.
func (w *turnWeights) times(by float64, which []bool) {
	for i, is := range which {
		if is {
			w.weights[i] *= by
		}
	}
}

// asking has turns that ask count less.
func (w *turnWeights) asking(ctx context.Context, r *recalling) error {
	asks, err := r.asking(ctx, w.docs)
	for i, doc := range w.docs {
		asks[i] = asks[i] && r.st.Docs.Row(doc).Run != 0
	}
	w.times(policy.AskingTurn, asks)
	return err
}

// timed has memories count more that say when, where the question asks for that, and those
// whose time fits the one that it names.
func (w *turnWeights) timed(ctx context.Context, r *recalling) error {
	if r.when.asked {
		dated, err := r.having(ctx, w.docs, invindex.Value{Field: layout.FieldTrait, Key: layout.TraitDated})
		if err != nil {
			return err
		}
		w.times(policy.SaysWhen, dated)
	}
	if r.when.from.IsZero() {
		return nil
	}
	fits, err := r.fitting(ctx, w.docs)
	if err != nil {
		return err
	}
	for n, doc := range w.docs {
		if fits.Contains(doc) {
			w.weights[n] *= policy.FitsDate
		}
	}
	return nil
}

// fitting are those of the documents whose events, or creation, were on the days that the
// question names, or soon after.
func (r *recalling) fitting(ctx context.Context, docs []uint32) (*roaring.Bitmap, error) {
	from, to := r.when.from.UnixMilli(), r.when.to.Add(policy.FitsAfter).UnixMilli()
	within := invindex.Range{Lo: invindex.IntOrder(from), Hi: invindex.IntOrder(to - 1)}
	set, err := r.st.Index.FindRange(ctx, r.st.Postings, layout.FieldEvent, within, roaring.BitmapOf(docs...))
	if errors.Is(err, invindex.ErrNoNumbers) { // of memories of the first layouts
		set, err = roaring.New(), nil
	}
	if err != nil {
		return nil, state.TextError(doingRecall, err)
	}
	for _, doc := range docs {
		if row := r.st.Docs.Row(doc); row.Created >= from && row.Created < to {
			set.Add(doc)
		}
	}
	return set, nil
}
