package engine

import (
	"context"
	"math"

	"github.com/seed-7aedc3ff/memdb/hnsw"
)

// cosines are the similarities of the query to documents: of[i] is that of the
// i-th, NaN where the document has no vector to compare with.
type cosines struct {
	of []float64
}

// cosines compares the query with documents: in the space of its embedding, or,
// without one, in the lexical space with those that have no vector of their own.
func (r *recalling) cosines(ctx context.Context, docs []uint32) error {
	r.cos.of = make([]float64, len(docs))
	for i := range r.cos.of {
		r.cos.of[i] = math.NaN()
	}
	defer r.stage("vectors")
	if r.q.Embedding != nil {
		s := r.tx.db.spaces.named(r.q.Space)
		if s == nil || s.born > r.tx.lsn {
			return nil // nothing was stored in it
		}
		r.plan.Vector = s.name
		return r.compare(ctx, s.index, r.q.Embedding, docs, s.slot)
	}
	return r.lexicalCosines(ctx, docs)
}

func (r *recalling) lexicalCosines(ctx context.Context, docs []uint32) error {
	db := r.tx.db
	query := db.lexical.model.Query(r.q.Text, r.idf())
	if hnsw.CheckVector(query, 0, hnsw.Cosine) != nil {
		return nil // no words in it
	}
	r.plan.Vector = lexicalSpace
	bare := make([]uint32, 0, len(docs))
	spaces := db.spaces.all()
	for _, doc := range docs {
		if !hasVector(spaces, doc) {
			bare = append(bare, doc)
		}
	}
	err := db.lexical.fill(ctx, bare, func(doc uint32) (string, error) {
		rec, err := r.tx.record(db.docs.row(doc).version)
		if err != nil {
			return "", err
		}
		return db.searched(rec)
	})
	if err != nil {
		return err
	}
	return r.compare(ctx, db.lexical.index, query, docs, db.lexical.slot)
}

// hasVector tells whether a document has a vector that was given or learned.
func hasVector(spaces []*space, doc uint32) bool {
	for _, s := range spaces {
		if _, ok := s.slot(doc); ok {
			return true
		}
	}
	return false
}

// idf weighs the query's terms by the statistics of the scope; one that was not
// counted is as rare as can be.
func (r *recalling) idf() func(string) float64 {
	n := float64(r.stats.N)
	weights := make(map[string]float64, len(r.terms))
	for i, t := range r.terms {
		df := float64(r.stats.DF[i])
		weights[t.Text] = math.Log(1 + (n-df+0.5)/(df+0.5))
	}
	rare := math.Log(1 + (n+0.5)/0.5)
	return func(term string) float64 {
		if w, ok := weights[term]; ok {
			return w
		}
		return rare
	}
}

// compareBatch is how many rows are scored between looks at the context.
const compareBatch = 4096

// compare fills in the similarities of the documents that have a slot.
func (r *recalling) compare(ctx context.Context, index *hnsw.Index, query []float32, docs []uint32, slotOf func(uint32) (uint32, bool)) error {
	slots := make([]uint32, 0, min(len(docs), compareBatch))
	places := make([]int, 0, cap(slots))
	scores := make([]float32, cap(slots))
	flush := func() error {
		if len(slots) == 0 {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := index.Scores(query, slots, scores[:len(slots)]); err != nil {
			return err
		}
		for i, place := range places {
			r.cos.of[place] = float64(scores[i])
		}
		slots, places = slots[:0], places[:0]
		return nil
	}
	for i, doc := range docs {
		slot, ok := slotOf(doc)
		if !ok {
			continue
		}
		slots, places = append(slots, slot), append(places, i)
		if len(slots) == cap(slots) {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}
