// Package recall ranks the memories that a query may find: by their text, their vectors, what
// stands beside them and what the graph says; and explains a rank.
package recall

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/internal/analysis"
	"github.com/seed-7aedc3ff/memdb/internal/doctable"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/internal/query"
	"github.com/seed-7aedc3ff/memdb/internal/selection"
	"github.com/seed-7aedc3ff/memdb/internal/spaces"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/internal/store"
	"github.com/seed-7aedc3ff/memdb/internal/topk"
	"github.com/seed-7aedc3ff/memdb/invindex"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/policy"
)

const (
	doingRecall = "recall"
	// textMost is how many matches of the text substrate ranks at most.
	textMost = 20_000
	// CandidatesMost is how many candidates each signal brings in larger scopes.
	CandidatesMost = 1_000
)

// Host is what a recall needs of the database beside the state that it reads.
type Host interface {
	Spaces() *spaces.Set
	Scopes() *selection.Cache
	Clock() time.Time
	// View and Graph are the state as the graph reads it.
	View() part.View
	Graph() *graph.Part
	// Load is a memory as the caller sees it.
	Load(v layout.Version, vectors bool) (memory.Memory, error)
	// Trust is what the vectors of a space have shown, and whether they are to show more.
	Trust(s *spaces.Space) (trust policy.Trust, learns bool)
	// Within is a context that ends after some time.
	Within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc)
	// Touch notes that memories were recalled.
	Touch(seqs []uint64, now int64)
}

// recalling is one running query.
type recalling struct {
	st    *state.State
	host  Host
	q     *memory.Query
	keep  int                // how many of those that are ranked are kept
	in    *selection.Members // visible documents of scope and filter
	set   *roaring.Bitmap    // those, not to be changed
	terms []invindex.QueryTerm
	stats invindex.Stats
	words int      // that the terms stand for; a word in several languages is several terms
	read  struct { // see languages
		reading analysis.Reading
		known   bool
	}
	near struct { // words near those of the query, with their statistics
		terms []invindex.QueryTerm
		stats invindex.Stats
	}
	counted *memory.Statistics // receives those of the query, see Count; nil: nobody asks
	when    whenAsked
	bound   *invindex.Query // nil: the conditions on hits are in set already
	teaches bool            // others learn from it what the vectors are worth
	// kept: the documents are remembered for recalls to come.
	kept bool
	// narrowed: the set lacks memories of scope and filter, which the text excludes.
	narrowed bool
	parsed   *query.Query       // see parse
	matcher  *query.Matcher     // of parsed
	unranked string             // why the caller's hook did not rank
	tokens   int                // that the hits have
	alone    map[uint32]float64 // by document, the scores of what near words alone found in a part
	cos      cosines
	plan     memory.Plan
	began    time.Time
	scratch  *scratch
}

// scratch is memory that one recall leaves to the next: figures of each candidate,
// of which there may be many thousands.
type scratch struct {
	bounds, refined        []float32
	ceilings, rest, shares []float64
	counts                 []uint16
	slots, roughSlots      []uint32
	rough, places          []int32
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// resized is a buffer with room for n, of any contents.
func resized[T any](buf *[]T, n int) []T {
	if cap(*buf) < n {
		*buf = make([]T, n)
	}
	return (*buf)[:n]
}

// Answer finds the memories that fit a query best, and notes that they were recalled, unless the
// query says not to. unembedded says why its text has no vector although its profile looks at one.
// stages say how long each part of it took.
func Answer(ctx context.Context, h Host, st *state.State, q *memory.Query, unembedded string) (result memory.Result, stages []memory.Stage, err error) {
	r := begin(h, st, q, unembedded)
	defer r.end()
	r.teaches = q.Statistics == nil // of a part of the answer, nothing is learned
	result, err = r.answer(ctx)
	return result, r.plan.Stages, err
}

func (r *recalling) answer(ctx context.Context) (memory.Result, error) {
	if err := r.narrow(ctx); err != nil {
		return memory.Result{}, err
	}
	if err := r.analyse(ctx); err != nil {
		return memory.Result{}, err
	}
	ranked, err := r.rankAll(ctx)
	if err != nil {
		return memory.Result{}, err
	}
	r.stage("rank")
	ranked = ranked[:min(r.q.Limit, len(ranked))]
	result, err := r.fetch(ctx, ranked[:r.reach(ranked)])
	if err != nil {
		return memory.Result{}, err
	}
	if r.q.Explain {
		result.Plan = &r.plan
	}
	return result, nil
}

// begin begins to answer a query that was checked. The caller ends it.
func begin(h Host, st *state.State, q *memory.Query, unembedded string) *recalling {
	return &recalling{
		host: h, st: st, q: q, keep: q.Limit, plan: memory.Plan{Profile: q.Profile, LSN: st.LSN, Unembedded: unembedded}, began: h.Clock(),
		scratch: scratches.Get().(*scratch),
	}
}

// end leaves what the recall used to the next one.
func (r *recalling) end() { scratches.Put(r.scratch) }

// reach is how many of those that are ranked have the least score of the query.
func (r *recalling) reach(ranked []scored) int {
	if r.q.MinScore != 0 { // they are in descending order
		if low := slices.IndexFunc(ranked, func(s scored) bool { return s.score < r.q.MinScore }); low >= 0 {
			return low
		}
	}
	return len(ranked)
}

func (r *recalling) stage(name string) {
	now := r.host.Clock()
	r.plan.Stages = append(r.plan.Stages, memory.Stage{Name: name, Micros: now.Sub(r.began).Microseconds()})
	r.began = now
}

// narrow finds the documents that may be hits at all.
func (r *recalling) narrow(ctx context.Context) error {
	if len(r.q.Scopes) > 0 {
		if err := r.narrowScopes(ctx); err != nil {
			return err
		}
	} else if r.q.Filter != nil && (r.q.Scope == (memory.Scope{}) || !r.st.Shared()) || r.q.Scope == (memory.Scope{}) && !r.q.AllScopes {
		// The filter's postings are fewer than everything, or than what nobody remembers.
		set, err := selection.Selected(ctx, r.st, r.q.Scope, r.q.AllScopes, r.q.Filter)
		if err != nil {
			return err
		}
		r.within(selection.NewMembers(set))
	} else if err := r.narrowScope(ctx); err != nil {
		return err
	}
	r.plan.InScope = r.in.N
	r.stage("scope")
	return nil
}

// narrowScope finds the documents of the scope for which the filter holds.
func (r *recalling) narrowScope(ctx context.Context) error {
	st, remembered, err := r.host.Scopes().Scoped(ctx, r.st, r.q.Scope)
	if err != nil {
		return err
	}
	r.within(st.Members)
	if r.q.Filter == nil {
		r.kept = remembered
		return nil
	}
	return r.narrowFilter(ctx)
}

// narrowScopes finds the documents of any of the query's scopes for which the filter holds.
func (r *recalling) narrowScopes(ctx context.Context) error {
	sets := make([]*roaring.Bitmap, len(r.q.Scopes))
	for i, s := range r.q.Scopes {
		st, _, err := r.host.Scopes().Scoped(ctx, r.st, s)
		if err != nil {
			return err
		}
		sets[i] = st.Set
	}
	r.within(selection.NewMembers(roaring.FastOr(sets...)))
	if r.q.Filter == nil {
		return nil
	}
	return r.narrowFilter(ctx)
}

// narrowFilter leaves the documents for which the filter holds.
func (r *recalling) narrowFilter(ctx context.Context) error {
	set, err := selection.Holds(ctx, r.st, r.q.Filter, r.set.Clone())
	if err != nil {
		return err
	}
	r.within(selection.NewMembers(set))
	return nil
}

// within makes a set that of the documents that may be hits.
func (r *recalling) within(m *selection.Members) { r.in, r.set, r.kept = m, m.Set, false }

// analyse turns the text into terms and gathers their statistics over the scope:
// nothing outside it has a part in a score.
func (r *recalling) analyse(ctx context.Context) error {
	if r.q.Text == "" {
		return nil
	}
	if r.q.Syntax == memory.SyntaxOperators {
		return r.operators(ctx)
	}
	in, err := r.languages(ctx)
	if err != nil {
		return err
	}
	bag := analysis.Bags.Get().(*analysis.Bag)
	defer analysis.Bags.Put(bag)
	bag.Reset()
	if err := bag.AddQueryIn(ctx, r.st.Words.Analyzer.Load(), r.q.Text, 1, in); err != nil {
		return err
	}
	r.readWhen()
	for _, said := range r.when.words {
		if err := bag.AddMissing(ctx, r.st.Words.Analyzer.Load(), said, 1); err != nil {
			return err
		}
	}
	// Of a query as long as a book, the first terms stand for it.
	terms, err := bag.First(ctx, invindex.MaxQueryTerms)
	if err != nil {
		return err
	}
	words := make([]string, len(terms))
	for i, t := range terms {
		words[i] = t.Term
		weight := float64(t.Freq) * r.read.reading.Weight(t.In)
		if r.q.Profile == memory.ProfileBest && policy.IsVague(t.Term) {
			weight *= policy.VagueTerm
		}
		r.terms = append(r.terms, invindex.QueryTerm{Text: t.Term, Weight: weight})
	}
	r.words = min(bag.Words(), len(words))
	if r.counted != nil {
		r.counted.Near.Own, r.counted.Near.Others = words, len(words)-r.words
	}
	if r.q.Explain {
		r.plan.Terms = words
	}
	if r.uncounted() {
		return nil
	}
	own := len(r.terms)
	words = r.joined(words)
	r.stats, err = r.count(ctx, words)
	if err == nil {
		r.found(own)
		r.fewer(r.words)
	}
	r.stage("statistics")
	return err
}

// uncounted reports whether the profile needs no statistics of the terms: where it
// asks at most whether a memory has them.
func (r *recalling) uncounted() bool {
	switch {
	case r.q.Embedding == nil:
		return false // the lexical vectors are weighed by them
	case r.q.Profile == memory.ProfileHybrid:
		return r.counted == nil && r.few() // another database may have more of it
	}
	return r.q.Profile == memory.ProfileVector
}

// scored is a candidate with its score.
type scored struct {
	doc   uint32
	seq   uint64
	score float64
	parts memory.Signals
	near  bool // near words alone found it
}

// before is the order of hits: by score, equal ones by Seq.
func (a *scored) before(b *scored) bool {
	return a.score > b.score || a.score == b.score && a.seq < b.seq
}

func (r *recalling) rank(ctx context.Context) ([]scored, error) {
	if r.set.IsEmpty() || len(r.terms) == 0 && r.q.Embedding == nil && r.q.Graph == 0 {
		return nil, nil
	}
	switch r.q.Profile {
	case memory.ProfileText:
		return r.rankText(ctx, r.keep)
	case memory.ProfileVector:
		return r.rankVector(ctx)
	case memory.ProfileSubstrate:
		return r.rankSubstrate(ctx)
	case memory.ProfileHybrid:
		return r.rankHybrid(ctx)
	}
	facts, err := r.hasFacts()
	if err != nil {
		return nil, err
	}
	if facts {
		r.keep = max(r.keep, factReach)
	}
	ranked, err := r.rankBest(ctx)
	if err != nil || !facts {
		return ranked, err
	}
	return r.correct(ctx, ranked)
}

func (r *recalling) rankText(ctx context.Context, k int) ([]scored, error) {
	hits, err := r.textHits(ctx, k)
	if err != nil {
		return nil, err
	}
	best := newTop(k)
	for _, h := range hits {
		s := float64(h.Score)
		best.offer(scored{doc: h.Doc, seq: r.seq(h.Doc), score: s, parts: memory.Signals{BM25: s}})
	}
	return best.sorted(), nil
}

// textHits are the k best matches of the text: of equal ones at the end, those of
// the lowest Seqs.
func (r *recalling) textHits(ctx context.Context, k int) ([]invindex.Hit, error) {
	// The index breaks ties by document, a result by Seq, which an update keeps:
	// all that tie with the last hit must be seen.
	var hits []invindex.Hit
	for n := k + 1; ; n = min(2*n, invindex.MaxHits) {
		var err error
		if r.bound != nil {
			hits, err = r.st.Index.Query(ctx, r.st.Postings, r.bound, r.stats, invindex.Docs{Set: r.set}, n)
		} else {
			hits, err = r.st.Index.Search(ctx, r.st.Postings, r.terms, r.stats, invindex.Docs{Set: r.set}, n)
		}
		if err != nil {
			return nil, state.TextError(doingRecall, err)
		}
		if len(hits) < n || hits[n-1].Score < hits[k-1].Score || n == invindex.MaxHits {
			break
		}
	}
	r.stage("text")
	r.plan.Candidates = max(r.plan.Candidates, len(hits))
	if len(hits) <= k {
		return hits, nil
	}
	last := hits[k-1].Score
	from := slices.IndexFunc(hits, func(h invindex.Hit) bool { return h.Score == last })
	to := k
	for to < len(hits) && hits[to].Score == last {
		to++
	}
	slices.SortFunc(hits[from:to], func(a, b invindex.Hit) int { return cmp.Compare(r.seq(a.Doc), r.seq(b.Doc)) })
	return hits[:k], nil
}

func (r *recalling) seq(doc uint32) uint64 { return r.st.Docs.Row(doc).Seq }

// rankVector ranks by the vectors alone.
func (r *recalling) rankVector(ctx context.Context) ([]scored, error) {
	if r.q.Embedding != nil {
		if s := r.querySpace(); r.walked(s) {
			k := r.q.Limit // another one would be another walk
			docs, scores, err := r.nearest(ctx, s, k, false)
			best := newTop(k)
			for i, doc := range docs {
				best.offer(scored{doc: doc, seq: r.seq(doc), score: scores[i], parts: memory.Signals{Cosine: scores[i]}})
			}
			r.plan.Candidates = len(docs)
			return best.sorted(), err
		}
	}
	if err := r.allCosines(ctx); err != nil {
		return nil, err
	}
	defer r.cos.close()
	docs := slices.Clone(r.in.List())
	n := 0
	for i := range docs { // those without a vector are no hits
		if r.cos.has(i) {
			docs[n] = docs[i]
			r.cos.move(n, i)
			n++
		}
	}
	r.plan.Candidates, r.plan.Exhaustive = n, true
	rest := resized(&r.scratch.rest, n)
	clear(rest)
	alone := policy.Weights{Cosine: 1}
	ranked, err := r.join(docs[:n], r.keep, ceilings{rest, alone.Cosine, math.Inf(-1)}, func(_ int, c float64) (policy.Weights, policy.Signals) {
		return alone, policy.Signals{Cosine: c}
	})
	for i := range ranked {
		ranked[i].score *= r.cos.unit
		ranked[i].parts.Cosine *= r.cos.unit
	}
	return ranked, err
}

// rankHybrid scores candidates by every signal: all in scope where they are few
// enough, else the union of what text and vector find.
func (r *recalling) rankHybrid(ctx context.Context) ([]scored, error) {
	docs, err := r.candidates(ctx)
	if err != nil {
		return nil, err
	}
	if err := r.cosines(ctx, docs); err != nil {
		return nil, err
	}
	defer r.cos.close()
	keywords, err := r.keywords(ctx, docs)
	if err != nil {
		return nil, err
	}
	r.plan.Candidates = len(docs)
	weights := policy.Hybrid()
	known := func(i int, c float64) policy.Signals {
		s := policy.Signals{Keywords: keywords[i]}
		if !math.IsNaN(c) {
			s.Cosine = c
		}
		return s
	}
	most := ceilings{resized(&r.scratch.rest, len(docs)), weights.Cosine, math.Inf(-1)}
	r.hybridRest(weights, docs, keywords, most.rest)
	return r.join(docs, r.keep, most, func(i int, c float64) (policy.Weights, policy.Signals) {
		s, row := known(i, c), r.st.Docs.Row(docs[i])
		s.Recency = policy.Recency(r.since(row.Created), policy.RecencyHalfLife)
		s.Importance, s.Confidence = row.Importance, r.st.Confidence(row)
		return weights, s
	})
}

// recencyGrain are the milliseconds, a power of two of them, by which a page's newest
// creation is rounded up: a quarter of an hour is next to nothing of a week, and pages
// that were written together need one exponential function.
const recencyGrain = 1 << 20

// hybridRest computes what the scores of documents without their similarities are at
// most, without a look at their rows.
func (r *recalling) hybridRest(w policy.Weights, docs []uint32, keywords, rest []float64) {
	glances := &r.st.Docs.Glances
	var looks []doctable.Glance // where they lie together
	if r.lists(docs) {
		looks = r.in.Glances(glances)
	}
	page, recent, recency := uint32(math.MaxUint32), int64(math.MinInt64), 0.0
	for i, doc := range docs {
		if doc/doctable.PageSize != page {
			page = doc / doctable.PageSize
			_, newest := glances.Created(page)
			if newest |= recencyGrain - 1; newest != recent {
				recent = newest
				recency = w.Recency * policy.Recency(r.since(newest), policy.RecencyHalfLife)
			}
		}
		var look doctable.Glance
		if looks != nil {
			look = looks[i]
		} else {
			look = glances.Of(doc)
		}
		importance, confidence := look.Bounds()
		rest[i] = w.Keywords*keywords[i] + recency + w.Importance*importance + w.Confidence*confidence + roundings
	}
}

// keywords are the shares of the query's terms that documents have.
func (r *recalling) keywords(ctx context.Context, docs []uint32) ([]float64, error) {
	shares := resized(&r.scratch.shares, len(docs))
	if len(r.terms) == 0 {
		clear(shares)
		return shares, nil
	}
	words := make([]string, len(r.terms))
	for i := range r.terms {
		words[i] = r.terms[i].Text
	}
	counts := resized(&r.scratch.counts, len(docs))
	if err := r.st.Index.Matched(ctx, r.st.Postings, words, docs, counts); err != nil {
		return nil, state.TextError(doingRecall, err)
	}
	for i, n := range counts {
		shares[i] = min(1, float64(n)/float64(r.words))
	}
	r.stage("text")
	return shares, nil
}

// since is the time from an instant to the reader's clock, or what a Duration
// holds of it: 292 years, where memories may be of any year from 1 to 9999.
func (r *recalling) since(ms int64) time.Duration { return r.st.Since(ms) }

// candidates are the documents that a mixed profile scores: all in scope, or what
// text and vectors find.
func (r *recalling) candidates(ctx context.Context) ([]uint32, error) {
	if r.few() {
		return r.in.List(), nil
	}
	var found []uint32
	if len(r.terms) > 0 {
		hits, err := r.textHits(ctx, max(CandidatesMost, r.q.Limit))
		if err != nil {
			return nil, err
		}
		for _, h := range hits {
			found = append(found, h.Doc)
		}
	}
	// The lexical vectors are made of the same words as the text's terms: what
	// is close in them has been found already.
	if r.q.Embedding == nil {
		return roaring.BitmapOf(found...).ToArray(), nil
	}
	return r.withNearest(ctx, found)
}

// few reports whether all in scope are candidates.
func (r *recalling) few() bool {
	r.plan.Exhaustive = r.q.Exact || r.in.N <= r.host.Spaces().Limits.Exhaustive
	return r.plan.Exhaustive
}

// withNearest adds to documents those whose vectors are the closest, and sorts
// them.
func (r *recalling) withNearest(ctx context.Context, found []uint32) ([]uint32, error) {
	set := roaring.BitmapOf(found...)
	s, k := r.querySpace(), max(CandidatesMost, r.q.Limit)
	switch {
	case s == nil:
	case r.walked(s):
		near, _, err := r.nearest(ctx, s, k, true)
		if err != nil {
			return nil, err
		}
		set.AddMany(near)
	default:
		if err := r.allCosines(ctx); err != nil {
			return nil, err
		}
		defer r.cos.close()
		all := r.in.List()
		places := make([]int32, len(all))
		for i := range places {
			places[i] = int32(i)
		}
		if err := r.refine(places); err != nil {
			return nil, err
		}
		near := newTop(k)
		for i, doc := range all {
			if r.cos.has(i) {
				near.offer(scored{doc: doc, score: float64(r.cos.low[i])})
			}
		}
		for _, s := range near.heap {
			set.Add(s.doc)
		}
	}
	return set.ToArray(), nil
}

// fetch reads the memories of the hits, and notes which of them are given.
func (r *recalling) fetch(ctx context.Context, ranked []scored) (memory.Result, error) {
	marks := r.q.Highlight && r.q.Text != ""
	if marks {
		if err := r.parse(ctx); err != nil {
			return memory.Result{}, err
		}
	}
	hits := make([]found, 0, len(ranked))
	for _, s := range ranked {
		if err := ctx.Err(); err != nil {
			return memory.Result{}, err
		}
		m, err := r.host.Load(r.st.Docs.Row(s.doc).Version, r.q.WithVectors)
		if store.Unreadable(err) && r.st.Without(err) == nil {
			continue
		}
		if err != nil {
			return memory.Result{}, err
		}
		h := found{memory.Hit{Memory: m, Score: s.score, Parts: s.parts, Near: s.near, Alike: r.alone[s.doc]}, s.doc, s.seq}
		if marks {
			if h.Spans, err = r.highlight(ctx, m.Text); err != nil {
				return memory.Result{}, err
			}
		}
		hits = append(hits, h)
	}
	r.stage("fetch")
	hits, err := r.arrange(ctx, hits)
	if err != nil {
		return memory.Result{}, err
	}
	result := memory.Result{Unembedded: r.plan.Unembedded, Unranked: r.unranked, Tokens: r.tokens}
	if len(hits) > 0 {
		result.Hits = make([]memory.Hit, len(hits))
	}
	seqs := make([]uint64, len(hits))
	for i, h := range hits {
		result.Hits[i], seqs[i] = h.Hit, h.seq
	}
	if !r.q.NoTouch {
		r.host.Touch(seqs, r.st.Now)
	}
	return result, nil
}

// top keeps the best k, as a heap with the worst of them first.
type top struct {
	k    int
	heap []scored
}

func newTop(k int) *top { return &top{k: k} }

// admits reports whether what has a score may be among the best k.
func (t *top) admits(score float64) bool {
	return len(t.heap) < t.k || score >= t.heap[0].score
}

// weigh offers a document for its signals. Most don't come near the best k: of
// those it looks at nothing more.
func (t *top) weigh(doc uint32, row func(uint32) *doctable.Row, w policy.Weights, s policy.Signals) {
	if score := w.Score(s); t.admits(score) {
		t.offer(scored{doc: doc, seq: row(doc).Seq, score: score, parts: memory.Signals(w.Parts(s))})
	}
}

func (t *top) offer(s scored) {
	switch {
	case len(t.heap) < t.k:
		t.heap = append(t.heap, s)
		topk.UpFunc(t.heap, after)
	case s.before(&t.heap[0]):
		t.heap[0] = s
		topk.DownFunc(t.heap, 0, after)
	}
}

// after reports whether a is ranked behind b.
func after(a, b *scored) bool { return b.before(a) }

func (t *top) sorted() []scored {
	slices.SortFunc(t.heap, func(a, b scored) int {
		if a.before(&b) {
			return -1
		}
		return 1
	})
	return t.heap
}
