package recall

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/internal/analysis"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/selection"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/invindex"
	"github.com/seed-7aedc3ff/memdb/memory"
)

const (
	// whyRanked is how many memories are ranked: all that are scored, unless text or vectors
	// alone rank a larger scope.
	whyRanked = 20_000
	// whyTerms is how many terms of a memory are told.
	whyTerms = 100
)

// Explain says why the recall of a query finds a memory, by its document and record, or does not:
// it ranks all that the recall would score, and touches nothing. It adds to what is known.
func Explain(ctx context.Context, h Host, st *state.State, q *memory.Query, unembedded string, doc uint32, rec *layout.Record, known memory.Why) (memory.Why, error) {
	y := &whying{r: begin(h, st, q, unembedded), w: known, doc: doc, rec: rec}
	defer y.r.end()
	err := y.explain(ctx)
	return y.w, err
}

// whying is a question that is being answered.
type whying struct {
	r       *recalling
	w       memory.Why
	doc     uint32
	rec     *layout.Record
	has     bool // it has a term of the query
	inScope bool // and the filter holds for it
	ranked  []scored
	place   int // among those, -1 for none
}

// explain ranks the memory.
func (y *whying) explain(ctx context.Context) error {
	r := y.r
	if err := y.analyse(ctx); err != nil {
		return err
	}
	if err := r.narrow(ctx); err != nil {
		return err
	}
	y.inScope = r.set.Contains(y.doc)
	if !y.inScope {
		if err := y.fails(ctx, r.q.Filter); err != nil {
			return err
		}
	}
	if err := r.analyse(ctx); err != nil {
		return err
	}
	if err := y.rank(ctx); err != nil {
		return err
	}
	plan := r.plan
	y.w.Plan = &plan
	if err := y.compare(ctx); err != nil {
		return err
	}
	if err := y.judge(ctx); err != nil {
		return err
	}
	y.parts()
	return y.before()
}

// analyse lists the languages and terms of the memory.
func (y *whying) analyse(ctx context.Context) error {
	words := &y.r.st.Words
	texts, err := words.Texts(y.rec)
	if err != nil {
		return err
	}
	analyzer := words.Analyzer.Load()
	bag := analysis.Bags.Get().(*analysis.Bag)
	defer analysis.Bags.Put(bag)
	bag.Reset()
	for i, text := range texts {
		add := bag.AddField
		if i == 0 {
			add = bag.AddContext
		}
		if err := add(ctx, analyzer, text, 1); err != nil {
			return err
		}
	}
	m := &y.w.Memory
	m.Languages, m.Terms = []string{}, []string{}
	for _, l := range analyzer.Languages(y.rec.Text) {
		m.Languages = append(m.Languages, l.Code())
	}
	for _, t := range bag.Terms() {
		if strings.HasPrefix(t.Term, analysis.MarkPrefix) {
			continue
		}
		if m.TermCount++; m.TermCount <= whyTerms {
			m.Terms = append(m.Terms, t.Term)
		}
	}
	return nil
}

// fails lists the conditions of the filter that do not hold for the memory: those of a
// conjunction one by one.
func (y *whying) fails(ctx context.Context, f filter.Filter) error {
	if all, ok := f.(filter.All); ok {
		for _, g := range all {
			if err := y.fails(ctx, g); err != nil {
				return err
			}
		}
		return nil
	}
	if f == nil {
		return nil
	}
	holds, err := filter.Compile(f)
	if err != nil {
		return err
	}
	m, err := selection.Look(y.r.st, y.r.st.Docs.Row(y.doc))
	if err != nil {
		return err
	}
	ok, err := holds(ctx, m)
	if err = cmp.Or(m.Err, err); err == nil && !ok {
		y.w.Filter = append(y.w.Filter, f.String())
	}
	return err
}

// rank ranks what the recall scores, and notes what each term gives the memory.
func (y *whying) rank(ctx context.Context) (err error) {
	r := y.r
	r.keep = max(whyRanked, r.q.Limit)
	if err = y.terms(ctx, r.terms, r.stats, false); err != nil {
		return err
	}
	if y.ranked, err = r.rankAll(ctx); err == nil && len(r.near.terms) > 0 {
		err = y.terms(ctx, r.near.terms, r.near.stats, true)
	}
	if err != nil {
		return err
	}
	r.stage("rank")
	y.w.Languages = append([]string{"en"}, r.plan.Languages...)
	y.locate()
	return nil
}

// locate finds the place of the memory among those that are ranked.
func (y *whying) locate() {
	y.place = slices.IndexFunc(y.ranked, func(s scored) bool { return s.doc == y.doc })
	y.w.Ranked = len(y.ranked)
	if y.place >= 0 {
		y.w.Rank, y.w.Score, y.w.Near = y.place+1, y.ranked[y.place].score, y.ranked[y.place].near
	}
}

// terms notes what terms give the memory.
func (y *whying) terms(ctx context.Context, terms []invindex.QueryTerm, stats invindex.Stats, near bool) error {
	r := y.r
	switch {
	case r.bound != nil:
		stats = r.bound.Blend(stats)
	case len(stats.DF) != len(terms): // the profile does without
		words := make([]string, len(terms))
		for i, t := range terms {
			words[i] = t.Text
		}
		var err error
		if stats, err = r.st.Index.Stats(ctx, r.st.Postings, words, invindex.Docs{Set: r.set}); err != nil {
			return state.TextError(doingRecall, err)
		}
	}
	for i, t := range terms {
		one := invindex.Stats{N: stats.N, Length: stats.Length, DF: stats.DF[i : i+1]}
		hit := make([]invindex.Hit, 1)
		if err := r.st.Index.Score(ctx, r.st.Postings, terms[i:i+1], one, []uint32{y.doc}, hit); err != nil {
			return state.TextError(doingRecall, err)
		}
		score := float64(hit[0].Score)
		y.has = y.has || score > 0
		y.w.Terms = append(y.w.Terms, memory.WhyTerm{Term: t.Text, Near: near, Memories: int64(stats.DF[i]), Has: score > 0, BM25: score})
	}
	return nil
}

// compare compares the vector of the memory with that of the query, where the profile does.
func (y *whying) compare(ctx context.Context) error {
	r := y.r
	switch {
	case r.q.Profile == memory.ProfileVector || r.q.Profile == memory.ProfileHybrid:
	case r.q.Profile == memory.ProfileText || r.q.Embedding == nil:
		return nil
	}
	if err := r.cosines(ctx, []uint32{y.doc}); err != nil {
		return err
	}
	defer r.cos.close()
	c, err := r.exact(0)
	if err != nil {
		return err
	}
	y.w.Vector = &memory.WhyVector{Space: r.plan.Vector}
	if !math.IsNaN(c) {
		c *= r.cos.unit
		y.w.Vector.Similarity = &c
		return nil
	}
	y.w.Vector.Pending = r.q.Space == memory.DefaultSpace && y.rec.Text != ""
	return nil
}

// judge finds the reason.
func (y *whying) judge(ctx context.Context) error {
	r, w := y.r, &y.w
	byVector := r.q.Profile == memory.ProfileVector
	alike := w.Vector != nil && w.Vector.Similarity != nil
	if y.place < 0 && y.inScope && alike && byVector && r.plan.Approximate {
		return y.missed(ctx)
	}
	demanded, err := y.demanded(ctx)
	switch {
	case err != nil:
		return err
	case !y.inScope:
		w.Reason = memory.WhyFilter
	case y.place >= 0:
		w.Reason = y.ofRanked()
	case !demanded:
		w.Reason = memory.WhyDemanded
	case len(r.terms) == 0 && r.q.Embedding == nil && r.q.Graph == 0:
		w.Reason = memory.WhyNoWords
	case byVector && !alike:
		w.Reason = memory.WhyNoVector
	case byVector || r.q.Profile == memory.ProfileText && y.has:
		w.Reason = memory.WhyLimit // behind all that were ranked
	case y.has || alike:
		w.Reason = memory.WhyNoCandidate
	default:
		w.Reason = memory.WhyNoMatch
	}
	return nil
}

// ofRanked is why a memory that was ranked is an answer or not.
func (y *whying) ofRanked() memory.WhyReason {
	switch r := y.r; {
	case r.q.MinScore != 0 && y.w.Score < r.q.MinScore:
		return memory.WhyMinScore
	case y.place >= r.q.Limit:
		return memory.WhyLimit
	}
	return memory.WhyFound
}

// missed ranks by all vectors what the walk over their graph has not found.
func (y *whying) missed(ctx context.Context) (err error) {
	y.r.q.Exact = true
	if y.ranked, err = y.r.rank(ctx); err != nil {
		return err
	}
	y.locate()
	switch {
	case y.place < 0 || y.place >= y.r.q.Limit:
		y.w.Reason = memory.WhyLimit
	case y.r.q.MinScore != 0 && y.w.Score < y.r.q.MinScore:
		y.w.Reason = memory.WhyMinScore
	default:
		y.w.Reason = memory.WhyMissed
	}
	return nil
}

// demanded reports whether the memory has what the operators of the query demand.
func (y *whying) demanded(ctx context.Context) (bool, error) {
	r := y.r
	if !y.inScope || r.bound == nil {
		return r.set.Contains(y.doc), nil
	}
	set, err := r.st.Index.Narrow(r.st.Postings, r.bound, roaring.BitmapOf(y.doc))
	if err != nil || set.IsEmpty() {
		return false, state.TextError(doingRecall, err)
	}
	if !r.parsed.NeedsTexts() {
		return true, nil
	}
	return r.bound.Verify(ctx, y.doc)
}

// parts ranks the memory by each part of the scores.
func (y *whying) parts() {
	if y.place < 0 {
		return
	}
	at := map[string]int{}
	y.ranked[y.place].parts.Each(func(name string, value float64) {
		at[name] = len(y.w.Parts)
		y.w.Parts = append(y.w.Parts, memory.WhyPart{Part: name, Value: value, Most: value, Rank: 1})
	})
	for i := range y.ranked {
		y.ranked[i].parts.Each(func(name string, value float64) {
			if p := &y.w.Parts[at[name]]; value > p.Value {
				p.Rank++
				p.Most = max(p.Most, value)
			}
		})
	}
	y.w.Parts = slices.DeleteFunc(y.w.Parts, func(p memory.WhyPart) bool { return p.Value == 0 && p.Most == 0 })
}

// before reads those that stand before the memory, or, where it is not ranked, in its place.
func (y *whying) before() error {
	r, n := y.r, y.place
	if n < 0 {
		n = r.reach(y.ranked)
	}
	for _, s := range y.ranked[:min(n, r.q.Limit)] {
		rec, err := r.st.Record(r.st.Docs.Row(s.doc).Version)
		if err != nil {
			if err = r.st.Without(err); err != nil {
				return err
			}
			continue
		}
		y.w.Before = append(y.w.Before, memory.WhyHit{ID: rec.ID, Text: rec.Text, Score: s.score, Near: s.near, Parts: s.parts})
	}
	return nil
}
