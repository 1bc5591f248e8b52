package recall

import (
	"cmp"
	"context"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/seed-7aedc3ff/memdb/internal/analysis"
	"github.com/seed-7aedc3ff/memdb/invindex"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/policy"
)

// The bounds of a second look. On judged collections two to ten first hits and 10 to 30 of their
// terms differ by less than .01 of nDCG@10.
const (
	firstHits = 3 // whose terms are looked for
	// FirstHitTerms is how many of those, FirstHitBytes how much of the text of each is looked
	// at: answers are turns and short passages.
	FirstHitTerms, FirstHitBytes = 10, 2048
	secondLookMost               = 50 // best matches that are scored again
	// secondLookScope is how many memories are in scope at most: a conversation or a few, in
	// which its gain was measured. Among 10,000 it was a quarter of a recall.
	secondLookScope = 2048
	// trustedVector is the weight of a vector beside which there is none.
	trustedVector = .02
)

// lookAgain scores the best matches once more, for the terms of the first hits. It does not
// where one of these has all terms of the query by itself: have counts them by match; nor in
// large scopes, nor beside a vector that has earned a weight, which finds by itself what has other words; nor among
// turns, which their neighbours speak for.
func (r *recalling) lookAgain(ctx context.Context, m *matches, have []uint16, most float64) error {
	if r.q.Ranking.OneLook || r.q.Syntax == memory.SyntaxOperators || r.vectorWeight() > trustedVector || r.meant() > secondLookScope {
		return nil
	}
	if r.q.Statistics != nil {
		return r.lookAgainAtPart(ctx, m, have, most)
	}
	if have == nil {
		return nil
	}
	places := r.bestMatches(m)
	first := places[:min(firstHits, len(places))]
	for _, h := range first {
		if r.hasAll(have, h.doc) {
			return nil
		}
	}
	terms, stats, err := r.termsOf(ctx, m, first)
	if err != nil || len(terms) == 0 {
		return err
	}
	return r.scoreAgain(ctx, m, places, terms, stats, most)
}

// bestMatches are the places of the best matches, best first.
func (r *recalling) bestMatches(m *matches) []scored {
	w := policy.Best()
	best := newTop(secondLookMost)
	for i := range m.docs {
		if score := w.Score(m.signals(i)); best.admits(score) {
			best.offer(scored{doc: uint32(i), seq: r.seq(m.docs[i]), score: score})
		}
	}
	return best.sorted()
}

// hasAll reports whether a match has all terms of the query: have counts them by match.
func (r *recalling) hasAll(have []uint16, place uint32) bool {
	return int(place) < len(have) && int(have[place]) == len(r.terms)
}

// scoreAgain scores matches at some places for the terms of the first hits.
func (r *recalling) scoreAgain(ctx context.Context, m *matches, places []scored, terms []invindex.QueryTerm, stats invindex.Stats, most float64) error {
	slices.SortFunc(places, func(a, b scored) int { return cmp.Compare(m.docs[a.doc], m.docs[b.doc]) })
	docs, hits := make([]uint32, len(places)), make([]invindex.Hit, len(places))
	for n, p := range places {
		docs[n] = m.docs[p.doc]
	}
	if err := r.st.Index.Score(ctx, r.st.Postings, terms, stats, docs, hits); err != nil {
		return err
	}
	for n, p := range places {
		i := p.doc
		m.second[i] = float64(hits[n].Score) / most
	}
	r.stage("second look")
	return nil
}

// firstHitTerm is a term of the first hits, with the sum of their scores.
type firstHitTerm struct {
	text   string
	weight float64
	df     uint32
}

// termsOf are the terms of the first hits that weigh most, with their statistics. Those of the query are not among them.
func (r *recalling) termsOf(ctx context.Context, m *matches, first []scored) ([]invindex.QueryTerm, invindex.Stats, error) {
	found, err := r.saidBy(ctx, m, first)
	if err != nil || len(found) == 0 {
		return nil, invindex.Stats{}, err
	}
	counted, err := r.st.Index.Stats(ctx, r.st.Postings, textsOf(found), invindex.Docs{Set: r.set})
	if err != nil {
		return nil, invindex.Stats{}, err
	}
	for i := range found {
		found[i].df = counted.DF[i]
	}
	terms, stats := r.heaviest(found, counted.N)
	return terms, stats, nil
}

func textsOf(found []firstHitTerm) []string {
	words := make([]string, len(found))
	for i := range found {
		words[i] = found[i].text
	}
	return words
}

// heaviest are the terms of the first hits that weigh most: by how rare they are among n memories in scope and by the
// scores of the hits that have them.
func (r *recalling) heaviest(found []firstHitTerm, n uint64) ([]invindex.QueryTerm, invindex.Stats) {
	for i := range found {
		df := float64(found[i].df)
		found[i].weight *= math.Log(1 + (float64(n)-df+0.5)/(df+0.5))
	}
	slices.SortFunc(found, func(a, b firstHitTerm) int {
		return cmp.Or(cmp.Compare(b.weight, a.weight), cmp.Compare(a.text, b.text))
	})
	found = found[:min(FirstHitTerms, len(found))]
	stats := invindex.Stats{N: r.stats.N, Length: r.stats.Length}
	terms := make([]invindex.QueryTerm, len(found))
	for i, f := range found {
		terms[i] = invindex.QueryTerm{Text: f.text, Weight: 1}
		stats.DF = append(stats.DF, f.df)
		if r.q.Explain {
			r.plan.SecondLook = append(r.plan.SecondLook, f.text)
		}
	}
	return terms, stats
}

// saidBy are the terms of the first hits but for the query's, each with the sum of the scores
// of the hits that have it.
func (r *recalling) saidBy(ctx context.Context, m *matches, first []scored) ([]firstHitTerm, error) {
	found := make([]firstHitTerm, 0, 32) // three turns have as many
	at := map[string]int{}
	err := r.eachSaid(ctx, m, first, func(hit int, term string) { found = addFirstTerm(found, at, term, first[hit].score) })
	return found, err
}

// addFirstTerm adds a term of a hit with a score, to as many as a query has at most: at says where each is.
func addFirstTerm(found []firstHitTerm, at map[string]int, term string, score float64) []firstHitTerm {
	if len(found) == invindex.MaxQueryTerms {
		return found
	}
	n, ok := at[term]
	if !ok {
		n = len(found)
		at[term] = n
		found = append(found, firstHitTerm{text: term})
	}
	found[n].weight += score
	return found
}

// eachSaid calls visit with the terms of each of the first hits but for the query's, in their order.
func (r *recalling) eachSaid(ctx context.Context, m *matches, first []scored, visit func(hit int, term string)) error {
	asked := make(map[string]bool, len(r.terms))
	for _, t := range r.terms {
		asked[t.Text] = true
	}
	in, err := r.languages(ctx)
	if err != nil {
		return err
	}
	bag := analysis.Bags.Get().(*analysis.Bag)
	defer analysis.Bags.Put(bag)
	for i, h := range first {
		texts, err := r.indexedTexts(m.docs[h.doc])
		if err != nil {
			return err
		}
		bag.Reset()
		left := FirstHitBytes
		for _, text := range texts {
			text = firstBytes(text, left)
			left -= len(text)
			if err := bag.AddQueryIn(ctx, r.st.Words.Analyzer.Load(), text, 1, in); err != nil {
				return err
			}
		}
		for _, t := range bag.Terms() {
			if !asked[t.Term] {
				visit(i, t.Term)
			}
		}
	}
	return nil
}

// firstBytes are the first whole letters of a text within n bytes.
func firstBytes(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}
