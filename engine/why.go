package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/internal/analysis"
	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/selection"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/internal/store"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/invindex"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// WhyReason is why a recall finds a memory, or does not.
type WhyReason string

// The reasons.
const (
	WhyFound WhyReason = "found"
	// WhyDeleted, WhyExpired: nobody remembers it any more.
	WhyDeleted WhyReason = "deleted"
	WhyExpired WhyReason = "expired"
	// WhyFilter: the filter does not hold for it.
	WhyFilter WhyReason = "filter"
	// WhyDemanded: the operators of the query demand what it lacks, or exclude it.
	WhyDemanded WhyReason = "demanded"
	// WhyNoWords: the query has no word to look for, and nothing else that ranks.
	WhyNoWords WhyReason = "no_words"
	// WhyNoMatch: nothing of the query speaks for it.
	WhyNoMatch WhyReason = "no_match"
	// WhyNoVector: the profile ranks by vectors, and it has none to compare with.
	WhyNoVector WhyReason = "no_vector"
	// WhyNoCandidate: something speaks for it, but neither its text nor its vector is among the
	// best, which alone are ranked: see docs/recall.md.
	WhyNoCandidate WhyReason = "no_candidate"
	// WhyMissed: it is among the first, and the walk over the graph of the vectors has missed it.
	WhyMissed WhyReason = "missed"
	// WhyMinScore: its score is below the least one of the query.
	WhyMinScore WhyReason = "min_score"
	// WhyLimit: at least as many as the limit stand before it.
	WhyLimit WhyReason = "limit"
)

// Why says why a recall finds a memory, or does not.
type Why struct {
	// ID is that of the memory, and Memory what is known of it.
	ID     string    `json:"id"`
	Memory WhyMemory `json:"memory"`
	// Found: the recall finds it. Reason is why, or why not.
	Found  bool      `json:"found"`
	Reason WhyReason `json:"reason"`
	// Filter are the conditions of the filter that do not hold for it.
	Filter []string `json:"filter,omitempty"`
	// Terms are those that the query looks for, each with what it gives the memory. Languages
	// are those in which the query was read, as codes of ISO 639-1.
	Terms     []WhyTerm `json:"terms"`
	Languages []string  `json:"languages"`
	// Vector is what the profile makes of the memory's vector, nil where it looks at none.
	Vector *WhyVector `json:"vector,omitempty"`
	// Rank is the place of the memory, from 1 on, and Score what it has; 0 where it is not ranked.
	// Ranked is how many memories are.
	Rank     int     `json:"rank"`
	Score    float64 `json:"score"`
	Ranked   int     `json:"ranked"`
	Limit    int     `json:"limit"`
	MinScore float64 `json:"min_score,omitempty"`
	// Parts are those of its score, and where each alone would rank it.
	Parts []WhyPart `json:"parts"`
	// Before are the first of those that stand before it, up to the limit: of a memory that is not
	// ranked what the recall finds in its place.
	Before []WhyHit `json:"before"`
	// Plan is that of the recall, nil where it was not asked.
	Plan *memory.Plan `json:"plan,omitempty"`
}

// WhyMemory is the memory that is asked about.
type WhyMemory struct {
	memory.Scope
	// Kind, CreatedAt and ExpiresAt are as in the memory; nil where it does not expire.
	Kind      memory.Kind `json:"kind"`
	CreatedAt time.Time   `json:"created_at"`
	ExpiresAt *time.Time  `json:"expires_at,omitempty"`
	// DeletedAt is when it was deleted, DeletedFor the reason where nobody named the memory, and
	// Into the memory that it was merged into.
	DeletedAt  *time.Time    `json:"deleted_at,omitempty"`
	DeletedFor memory.Reason `json:"deleted_for,omitempty"`
	Into       string        `json:"into,omitempty"`
	// Languages are those of its text, as codes of ISO 639-1, and Terms those that it is found by,
	// the first 100 in their order; TermCount is how many there are.
	Languages []string `json:"languages"`
	Terms     []string `json:"terms"`
	TermCount int      `json:"term_count"`
}

// WhyTerm is a term of the query.
type WhyTerm struct {
	// Term is as the text index holds it.
	Term string `json:"term"`
	// Near: it stands for a word of the query that no memory has.
	Near bool `json:"near,omitempty"`
	// Memories is how many of those in scope have it.
	Memories int64 `json:"memories"`
	// Has: the memory has it, and BM25 is what the term gives it.
	Has  bool    `json:"has"`
	BM25 float64 `json:"bm25"`
}

// WhyVector is a vector beside that of the query.
type WhyVector struct {
	// Space is the one that is searched.
	Space string `json:"space,omitempty"`
	// Similarity is what the profile ranks by; nil where the memory has no vector to compare with.
	Similarity *float64 `json:"similarity"`
	// Pending: its text is still to be embedded.
	Pending bool `json:"pending,omitempty"`
}

// WhyPart is a part of a score, by its name in JSON.
type WhyPart struct {
	// Part is its name.
	Part string `json:"part"`
	// Value is what the memory has of it, Most the most that a memory has.
	Value float64 `json:"value"`
	Most  float64 `json:"most"`
	// Rank is the place that the part alone would give the memory: 1 + how many have more.
	Rank int `json:"rank"`
}

// WhyHit is a memory that stands before another one.
type WhyHit struct {
	// ID and Text are of the memory, Score and Parts what the query gives it.
	ID    string         `json:"id"`
	Text  string         `json:"text"`
	Score float64        `json:"score"`
	Parts memory.Signals `json:"parts"`
}

const (
	// whyRanked is how many memories are ranked: all that are scored, unless text or vectors
	// alone rank a larger scope.
	whyRanked = 20_000
	// whyTerms is how many terms of a memory are told.
	whyTerms = 100
)

// Why says why a recall of a query finds the memory with an ID, or does not: it ranks all
// that the recall would score, and touches nothing. The memory is looked for in the scope of
// the query alone, whose other memories are all that is told of: ErrNotFound where no memory there
// has, or had, the ID, ErrAmbiguous where several owners have one.
func (m Memories) Why(ctx context.Context, q memory.Query, id string) (w Why, err error) {
	doing := fmt.Sprintf("explain the recall of memory %q", valid.Short(id))
	q.Explain = true
	if err := valid.Word(doing, "ID", id); err != nil {
		return w, err
	}
	a, err := m.ask(ctx, &q)
	if err != nil {
		return w, err
	}
	err = m.view(ctx, doing, func(tx *Tx) error {
		why := func(tx *Tx) (err error) {
			w, err = tx.why(ctx, doing, a, id)
			return err
		}
		if q.AsOf == 0 {
			return why(tx)
		}
		return tx.asOf(q.AsOf, why)
	})
	return w, err
}

func (tx *Tx) why(ctx context.Context, doing string, q *asked, id string) (Why, error) {
	r, err := tx.beginRecall(q)
	if err != nil {
		return Why{}, err
	}
	defer r.end()
	y := &whying{r: r, w: Why{ID: id, Limit: q.Limit, MinScore: q.MinScore, Terms: []WhyTerm{}, Languages: []string{}, Parts: []WhyPart{}, Before: []WhyHit{}}}
	if err := y.find(doing); err != nil {
		return Why{}, err
	}
	if y.w.Reason == "" {
		if err := y.explain(ctx); err != nil {
			return Why{}, err
		}
	}
	y.w.Found = y.w.Reason == WhyFound
	return y.w, nil
}

// whying is a question that is being answered.
type whying struct {
	r       *recalling
	w       Why
	doc     uint32
	rec     *layout.Record
	has     bool // it has a term of the query
	inScope bool // and the filter holds for it
	ranked  []scored
	place   int // among those, -1 for none
}

// find looks the memory up in the scope of the query, and says what became of one that is gone.
func (y *whying) find(doing string) error {
	r, owners := y.r, 0
	scopes := r.q.Scopes
	if len(scopes) == 0 {
		scopes = []memory.Scope{r.q.Scope} // an empty one, with AllScopes, is every one
	}
	err := r.tx.living(anyOwner, y.w.ID, func(_ claim, l live, rec *layout.Record) error {
		if rec.ID != y.w.ID || !slices.ContainsFunc(scopes, func(s memory.Scope) bool { return scope.Contains(s, rec.Scope) }) {
			return nil
		}
		y.doc, y.rec = l.doc, rec
		owners++
		return nil
	})
	switch {
	case err != nil:
		return store.Error(doing, err)
	case owners > 1:
		return ambiguous(doing, owners)
	case owners == 0:
		return y.gone(doing, scopes)
	}
	y.w.Memory = WhyMemory{Scope: y.rec.Scope, Kind: state.Kinds[y.rec.Kind], CreatedAt: clock.FromMillis(y.rec.Created)}
	if y.rec.Expires != 0 {
		y.w.Memory.ExpiresAt = new(clock.FromMillis(y.rec.Expires))
		if y.rec.Expires <= r.tx.state.Now {
			y.w.Reason = WhyExpired
		}
	}
	return nil
}

// gone says when and why a memory was deleted.
func (y *whying) gone(doing string, scopes []memory.Scope) error {
	var last *memory.HistoryEntry
	for _, s := range scopes {
		entries, err := y.r.tx.history(doing, s, memory.Lack{}, y.w.ID)
		switch {
		case errors.Is(err, fault.ErrNotFound):
			continue
		case err != nil:
			return err
		}
		if e := entries[len(entries)-1]; last == nil || e.LSN > last.LSN {
			last = &e
		}
	}
	if last == nil || !last.IsDeleted {
		return &fault.Error{Kind: fault.ErrNotFound, What: doing, Why: "there is none in this scope", Do: "check the ID and the scope"}
	}
	y.w.Memory = WhyMemory{Scope: last.Scope, Kind: last.Kind, DeletedAt: &last.Time, DeletedFor: last.Reason, Into: last.Into}
	y.w.Reason = WhyDeleted
	if last.Reason == memory.ReasonExpired {
		y.w.Reason = WhyExpired
	}
	return nil
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
	db := y.r.tx.db
	texts, err := db.tables.Words.Texts(y.rec)
	if err != nil {
		return err
	}
	analyzer := db.tables.Words.Analyzer.Load()
	bag := bags.Get().(*analysis.Bag)
	defer bags.Put(bag)
	bag.Reset()
	for _, text := range texts {
		if err := bag.AddContext(ctx, analyzer, text, 1); err != nil {
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
	m, err := selection.Look(&y.r.tx.state, y.r.tx.db.tables.Docs.Row(y.doc))
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
	if err = y.terms(ctx, false); err != nil {
		return err
	}
	if y.ranked, err = r.rank(ctx); err == nil && len(y.ranked) == 0 {
		if y.ranked, err = r.rankNear(ctx); err == nil && len(r.plan.Near) > 0 {
			err = y.terms(ctx, true)
		}
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
		y.w.Rank, y.w.Score = y.place+1, y.ranked[y.place].score
	}
}

// terms notes what the terms that are looked for now give the memory.
func (y *whying) terms(ctx context.Context, near bool) error {
	r := y.r
	stats := r.stats
	switch {
	case r.bound != nil:
		stats = r.bound.Blend(stats)
	case len(stats.DF) != len(r.terms): // the profile does without
		words := make([]string, len(r.terms))
		for i, t := range r.terms {
			words[i] = t.Text
		}
		var err error
		if stats, err = r.tx.state.Index.Stats(ctx, r.tx.state.Postings, words, invindex.Docs{Set: r.set}); err != nil {
			return state.TextError(doingRecall, err)
		}
	}
	for i, t := range r.terms {
		one := invindex.Stats{N: stats.N, Length: stats.Length, DF: stats.DF[i : i+1]}
		hit := make([]invindex.Hit, 1)
		if err := r.tx.state.Index.Score(ctx, r.tx.state.Postings, r.terms[i:i+1], one, []uint32{y.doc}, hit); err != nil {
			return state.TextError(doingRecall, err)
		}
		score := float64(hit[0].Score)
		y.has = y.has || score > 0
		y.w.Terms = append(y.w.Terms, WhyTerm{Term: t.Text, Near: near, Memories: int64(stats.DF[i]), Has: score > 0, BM25: score})
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
	y.w.Vector = &WhyVector{Space: r.plan.Vector}
	if !math.IsNaN(c) {
		y.w.Vector.Similarity = &c
		return nil
	}
	y.w.Vector.Pending = r.q.Space == memory.DefaultSpace && y.rec.Text != ""
	return nil
}

// judge finds the reason.
func (y *whying) judge(ctx context.Context) error {
	r, w := y.r, &y.w
	byVector := r.q.Profile == memory.ProfileVector || r.q.Profile == memory.ProfileSubstrate && r.q.Embedding != nil
	alike := w.Vector != nil && w.Vector.Similarity != nil
	if y.place < 0 && y.inScope && alike && byVector && r.plan.Approximate {
		return y.missed(ctx)
	}
	demanded, err := y.demanded(ctx)
	switch {
	case err != nil:
		return err
	case !y.inScope:
		w.Reason = WhyFilter
	case y.place >= 0 && r.q.MinScore != 0 && w.Score < r.q.MinScore:
		w.Reason = WhyMinScore
	case y.place >= r.q.Limit:
		w.Reason = WhyLimit
	case y.place >= 0:
		w.Reason = WhyFound
	case !demanded:
		w.Reason = WhyDemanded
	case len(r.terms) == 0 && r.q.Embedding == nil && r.q.Graph == 0:
		w.Reason = WhyNoWords
	case byVector && !alike:
		w.Reason = WhyNoVector
	case byVector || r.q.Profile == memory.ProfileText && y.has:
		w.Reason = WhyLimit // behind all that were ranked
	case y.has || alike:
		w.Reason = WhyNoCandidate
	default:
		w.Reason = WhyNoMatch
	}
	return nil
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
		y.w.Reason = WhyLimit
	case y.r.q.MinScore != 0 && y.w.Score < y.r.q.MinScore:
		y.w.Reason = WhyMinScore
	default:
		y.w.Reason = WhyMissed
	}
	return nil
}

// demanded reports whether the memory has what the operators of the query demand.
func (y *whying) demanded(ctx context.Context) (bool, error) {
	r := y.r
	if !y.inScope || r.bound == nil {
		return r.set.Contains(y.doc), nil
	}
	set, err := r.tx.state.Index.Narrow(r.tx.state.Postings, r.bound, roaring.BitmapOf(y.doc))
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
		y.w.Parts = append(y.w.Parts, WhyPart{Part: name, Value: value, Most: value, Rank: 1})
	})
	for i := range y.ranked {
		y.ranked[i].parts.Each(func(name string, value float64) {
			if p := &y.w.Parts[at[name]]; value > p.Value {
				p.Rank++
				p.Most = max(p.Most, value)
			}
		})
	}
	y.w.Parts = slices.DeleteFunc(y.w.Parts, func(p WhyPart) bool { return p.Value == 0 && p.Most == 0 })
}

// before reads those that stand before the memory, or, where it is not ranked, in its place.
func (y *whying) before() error {
	r, n := y.r, y.place
	if n < 0 {
		n = r.reach(y.ranked)
	}
	for _, s := range y.ranked[:min(n, r.q.Limit)] {
		rec, err := r.tx.state.Record(r.tx.db.tables.Docs.Row(s.doc).Version)
		if err != nil {
			if err = r.tx.state.Without(err); err != nil {
				return err
			}
			continue
		}
		y.w.Before = append(y.w.Before, WhyHit{ID: rec.ID, Text: rec.Text, Score: s.score, Parts: s.parts})
	}
	return nil
}
