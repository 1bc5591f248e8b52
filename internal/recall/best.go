package recall

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/seed-7aedc3ff/memdb/internal/doctable"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/invindex"
	"github.com/seed-7aedc3ff/memdb/policy"
)

// LendersMost is how many of the best matches of the text score, and lend to their
// neighbours. On LoCoMo 100 of them reach R@10 .751, 500 as much as all do, .753.
const LendersMost = 500

// rankBest ranks by the text with neighbours, and by the query's vector where it
// has one.
func (r *recalling) rankBest(ctx context.Context) ([]scored, error) {
	text, err := r.withNeighbours(ctx)
	if err == nil {
		err = r.withGraph(ctx, text)
	}
	if err != nil {
		return nil, err
	}
	weights := policy.Best()
	weights.Graph = r.q.Graph
	if r.q.Embedding != nil {
		if r.textless(text) { // there is nothing to weigh it against
			return r.rankVector(ctx)
		}
		v, err := r.lookAtVectors(ctx, text, weights)
		if err != nil {
			return nil, err
		}
		if v.weight > 0 {
			return r.rankBestLearned(ctx, text, v)
		}
	}
	best := newTop(r.keep)
	for i, doc := range text.docs {
		best.weigh(doc, r.st.Docs.Row, weights, text.signals(i))
	}
	r.plan.Candidates = len(text.docs)
	return best.sorted(), nil
}

func (r *recalling) rankBestLearned(ctx context.Context, text *matches, v vectorLook) ([]scored, error) {
	docs, match, err := r.withVectors(ctx, text)
	if err != nil {
		return nil, err
	}
	defer r.cos.close()
	textAlone, learned := policy.Best(), policy.BestLearned(v.weight)
	textAlone.Graph, learned.Graph = r.q.Graph, r.q.Graph
	most := v.ceilings(resized(&r.scratch.rest, len(docs)), learned.Cosine)
	for i := range most.rest {
		if match[i] > 0 {
			most.rest[i] = math.Inf(1)
		}
	}
	return r.join(docs, r.keep, most, func(i int, c float64) (policy.Weights, policy.Signals) {
		var s policy.Signals
		if match[i] > 0 {
			s = text.signals(int(match[i]) - 1)
		}
		if math.IsNaN(c) {
			return textAlone, s
		}
		s.Cosine = v.signal(c)
		return learned, s
	})
}

// matches are documents that the text has found, by themselves or by a neighbour,
// in no order. What each has is a share of the most that the query's terms can
// give.
type matches struct {
	docs    []uint32
	own     []float64 // by its text
	lent    []float64 // what its neighbours add
	session []float64 // what its run has of the query
	second  []float64 // by its text, for the terms of the first hits
	// graph is what the graph says for them; nil where it was not asked.
	graph []float64
	// lean is whose turns the question is about; nil: everybody's.
	lean *leaning
}

func newMatches(docs []uint32) *matches {
	n := len(docs)
	all := make([]float64, 4*n)
	return &matches{docs: docs, own: all[:n:n], lent: all[n : 2*n : 2*n], session: all[2*n : 3*n : 3*n], second: all[3*n:]}
}

func (m *matches) signals(i int) policy.Signals {
	s := policy.Signals{BM25: m.own[i], Neighbours: m.lent[i], Session: m.session[i], SecondLook: m.second[i]}
	if m.graph != nil {
		s.Graph = m.graph[i]
	}
	return s
}

// loan says that a part of a lender's score counts for a match.
type loan struct {
	to     int32   // the match's place
	square float64 // of the weight
}

// withNeighbours scores the best matches of the text and those next to them. Term
// by term, since a neighbour counts for the terms that a memory lacks: see
// policy.WithNeighbours.
func (r *recalling) withNeighbours(ctx context.Context) (*matches, error) {
	if len(r.terms) == 0 {
		return &matches{}, nil
	}
	lenders, err := r.textHits(ctx, max(LendersMost, r.q.Limit))
	if err != nil {
		return nil, err
	}
	lenders = r.lending(lenders)
	slices.SortFunc(lenders, func(a, b invindex.Hit) int { return cmp.Compare(a.Doc, b.Doc) })
	asking, err := r.asking(ctx, docsOf(lenders))
	if err != nil {
		return nil, err
	}
	m, loans := r.lend(lenders, asking)
	r.stage("neighbours")
	docs := m.docs[:len(lenders)]
	// Sums are rounded, so they are taken in an order that no move changes.
	order := make([]int32, len(docs))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int { return cmp.Compare(r.seq(docs[a]), r.seq(docs[b])) })
	squares := make([]float64, len(m.docs))
	talks := r.sessionsOf(m)
	terms := r.termScores(docs)
	have := terms.counts() // of the terms that each lender has
	for i := range r.terms {
		hits, err := terms.of(ctx, i)
		if err != nil {
			return nil, err
		}
		m.add(hits, loans, squares, order)
		talks.add(hits)
		for n := range have {
			if hits[n].Score > 0 {
				have[n]++
			}
		}
	}
	most := r.most()
	for i := range m.docs {
		m.own[i] /= most
		m.lent[i] = max(0, m.lent[i]/most-m.own[i])
	}
	talks.share(m, most)
	r.stage("terms")
	if err := r.weighTurns(ctx, m); err != nil {
		return nil, err
	}
	r.stage("turns")
	if err := r.lookAgain(ctx, m, have, most); err != nil {
		return nil, err
	}
	return m, nil
}

func docsOf(hits []invindex.Hit) []uint32 {
	docs := make([]uint32, len(hits))
	for i, h := range hits {
		docs[i] = h.Doc
	}
	return docs
}

// having says which of the documents, in ascending order, have a filter value.
func (r *recalling) having(ctx context.Context, docs []uint32, value invindex.Value) ([]bool, error) {
	have := make([]bool, len(docs))
	err := r.st.Index.Having(ctx, r.st.Postings, value, docs, have)
	return have, state.TextError(doingRecall, err)
}

// asking says which of the documents, in ascending order, end with a question.
func (r *recalling) asking(ctx context.Context, docs []uint32) ([]bool, error) {
	return r.having(ctx, docs, invindex.Value{Field: layout.FieldTrait, Key: layout.TraitAsks})
}

// termScores are the scores of documents for the terms of the query, one term after the other.
type termScores struct {
	r    *recalling
	docs []uint32
	hits []invindex.Hit
	// Those of runs are scored by another length norm: see policy.TurnLength.
	parts []termPart
}

// termPart are the documents that are scored by the same length norm.
type termPart struct {
	b      float64
	docs   []uint32
	places []int32 // among all; nil: it is all
	hits   []invindex.Hit
}

func (r *recalling) termScores(docs []uint32) *termScores {
	t := &termScores{r: r, docs: docs, hits: make([]invindex.Hit, len(docs))}
	var parts [2]termPart
	parts[1].b = policy.TurnLength
	for i, doc := range docs {
		p := &parts[0]
		if r.st.Docs.Row(doc).Run != 0 {
			p = &parts[1]
		}
		p.docs, p.places = append(p.docs, doc), append(p.places, int32(i))
	}
	for i := range parts {
		p := &parts[i]
		switch len(p.docs) {
		case 0:
			continue
		case len(docs):
			p.places, p.hits = nil, t.hits
		default:
			p.hits = make([]invindex.Hit, len(p.docs))
		}
		t.parts = append(t.parts, *p)
	}
	return t
}

// counts has room for a count of each document, nil where any is of a run.
func (t *termScores) counts() []uint16 {
	if len(t.parts) != 1 || t.parts[0].b != 0 {
		return nil
	}
	return make([]uint16, len(t.docs))
}

// of scores the documents for the i-th term. The hits are valid until the next call.
func (t *termScores) of(ctx context.Context, i int) ([]invindex.Hit, error) {
	r := t.r
	for _, p := range t.parts {
		stats := invindex.Stats{N: r.stats.N, Length: r.stats.Length, DF: r.stats.DF[i : i+1], B: p.b}
		if err := r.st.Index.Score(ctx, r.st.Postings, r.terms[i:i+1], stats, p.docs, p.hits); err != nil {
			return nil, state.TextError(doingRecall, err)
		}
		for n, place := range p.places {
			t.hits[place] = p.hits[n]
		}
	}
	return t.hits, nil
}

// lend finds to whom the lenders lend: the matches are the lenders in their order,
// and then the others; loans[i] are those of the i-th lender. asking are those that ask, whose
// answers they lend more.
func (r *recalling) lend(lenders []invindex.Hit, asking []bool) (m *matches, loans [][]loan) {
	weights := policy.NeighbourWeights()
	docs := make([]uint32, len(lenders), 4*len(lenders))
	place := make(map[uint32]int32, 4*len(lenders))
	for i, l := range lenders {
		docs[i], place[l.Doc] = l.Doc, int32(i)
	}
	flat := make([]loan, 0, 2*policy.NeighbourReach*len(lenders))
	loans = make([][]loan, len(lenders))
	for i, l := range lenders {
		from := len(flat)
		r.neighbours(l.Doc, func(doc uint32, places int) {
			if (r.narrowed || r.q.Filter != nil) && !r.set.Contains(doc) {
				return
			}
			to, ok := place[doc]
			if !ok {
				to = int32(len(docs))
				docs, place[doc] = append(docs, doc), to
			}
			w := weights[max(places, -places)-1]
			if places == 1 && asking[i] {
				w = policy.AnswerWeight
			}
			flat = append(flat, loan{to, float64(w * w)})
		})
		loans[i] = flat[from:len(flat):len(flat)]
	}
	return newMatches(docs), loans
}

// add adds what one term gives, in an order of the lenders: hits are theirs, and squares
// is all 0. Until the last term is in, lent is what own and lent give together.
func (m *matches) add(hits []invindex.Hit, loans [][]loan, squares []float64, order []int32) {
	for _, i := range order {
		h := hits[i]
		if h.Score == 0 {
			continue
		}
		own := float64(h.Score)
		m.own[i] += own
		for _, l := range loans[i] {
			squares[l.to] += float64(l.square * float64(own*own))
		}
	}
	for i, square := range squares {
		own := 0.0
		if i < len(hits) {
			own = float64(hits[i].Score)
		}
		if own != 0 || square != 0 {
			m.lent[i] += policy.WithNeighbours(own, square)
			squares[i] = 0
		}
	}
}

// most is what the terms of the query could give at most.
func (r *recalling) most() float64 {
	idf := r.idf()
	most := 0.0
	for _, t := range r.terms {
		most += float64(t.Weight * idf(t.Text))
	}
	return most
}

// neighbours calls visit with the documents of the memories that stand next to
// one in its run, up to policy.NeighbourReach before and as many after it, and how
// many places away they are: 1 is next to it, -1 before it. Places count visible memories.
func (r *recalling) neighbours(doc uint32, visit func(doc uint32, places int)) {
	t := &r.st.Docs
	row := t.Row(doc)
	if row.Run == 0 {
		return
	}
	l := t.Runs.List(row.Owner, row.Run)
	i, _ := slices.BinarySearch(l.Seqs, row.Seq)
	j, _ := slices.BinarySearch(l.Late, row.Seq)
	for i, j, places := i, j, 1; i+j > 0 && places <= policy.NeighbourReach; {
		var seq uint64
		if j == 0 || i > 0 && l.Seqs[i-1] > l.Late[j-1] {
			i--
			seq = l.Seqs[i]
		} else {
			j--
			seq = l.Late[j]
		}
		if near := r.inRun(seq, row.Run); near != doctable.None {
			visit(near, -places)
			places++
		}
	}
	for places := 1; i+j < len(l.Seqs)+len(l.Late) && places <= policy.NeighbourReach; {
		var seq uint64
		if j == len(l.Late) || i < len(l.Seqs) && l.Seqs[i] < l.Late[j] {
			seq = l.Seqs[i]
			i++
		} else {
			seq = l.Late[j]
			j++
		}
		if seq == row.Seq {
			continue
		}
		if near := r.inRun(seq, row.Run); near != doctable.None {
			visit(near, places)
			places++
		}
	}
}

// inRun is the visible document of a memory, doctable.None if it has none in the run.
func (r *recalling) inRun(seq uint64, run uint32) uint32 {
	t := &r.st.Docs
	doc := t.At(seq, r.st.LSN)
	if doc == doctable.None {
		return doctable.None
	}
	if row := t.Row(doc); row.Run != run || row.Over(r.st.Now) {
		return doctable.None
	}
	return doc
}
