package invindex

import (
	"github.com/RoaringBitmap/roaring/v2"
)

// Scoring returns the terms that score, each once, in the order of Terms. With
// them, and Blend's statistics, Search and Score give what Query gives, but for the
// conditions.
func (q *Query) Scoring() []QueryTerm { return q.scoring() }

// Blend returns the statistics of Terms with those of alternatives joined, as Query
// counts them.
func (q *Query) Blend(st Stats) Stats { return q.blend(q.scoring(), &st) }

// Narrow returns the documents of set that have what a query demands, and nothing
// that it excludes. Of phrases it demands the words; the rest is Verify's, which it
// does not call. It may change set.
func (x *Index) Narrow(s Snapshot, q *Query, set *roaring.Bitmap) (*roaring.Bitmap, error) {
	for i := range q.Clauses {
		c := &q.Clauses[i]
		if c.Occur == Should || c.Occur == MustNot && c.Phrase {
			continue
		}
		docs := roaring.New()
		for j, t := range c.Terms {
			with, err := x.FindTerm(s, t.Text)
			switch {
			case err != nil:
				return nil, err
			case c.Phrase && !c.Any && j > 0:
				docs.And(with)
			default:
				docs.Or(with)
			}
		}
		if c.Occur == MustNot {
			set.AndNot(docs)
		} else {
			set.And(docs)
		}
	}
	return set, nil
}
