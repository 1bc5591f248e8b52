package state

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/seed-7aedc3ff/memdb/internal/analysis"
	"github.com/seed-7aedc3ff/memdb/invindex"
)

// Each text is analysed in a language of its own, by a rule that depends on nothing but
// the text, and its document has a term that says which: [analysis.Language.Mark]. A query
// is read in the languages of the documents that may be hits, which the statistics of
// these terms tell. So a text whose language was taken for another one is found like any
// other, and a database of English texts has no such terms and pays nothing for them.

const doingRecall = "recall"

// Spoken are the languages besides English that some document is in, or was: a query asks
// for no others. It is found in the index when it is first needed, and grows with the
// texts that are analysed.
type Spoken struct {
	found atomic.Bool
	set   atomic.Uint32
	mu    sync.Mutex // of those who look into the index
}

// Add notes languages of a text, before the text can be found.
func (s *Spoken) Add(l analysis.Languages) {
	if l != 0 && analysis.Languages(s.set.Load())&l != l {
		s.set.Or(uint32(l))
	}
}

// spoken returns the languages besides English that documents are in.
func (s *State) spoken(ctx context.Context) (analysis.Languages, error) {
	of := &s.Words.Spoken
	if !of.found.Load() {
		of.mu.Lock()
		defer of.mu.Unlock()
		// One look serves all transactions, also those of older states: what is in them and
		// not in this one has died.
		in := invindex.Docs{}
		terms, err := s.Index.Expand(ctx, s.Postings, analysis.MarkPrefix, isMark, in, len(analysis.MarkedLanguages()))
		if err != nil {
			return 0, TextError(doingRecall, err)
		}
		for _, l := range analysis.MarkedLanguages() {
			if slices.Contains(terms, l.Mark()) {
				of.Add(analysis.Languages(0).With(l))
			}
		}
		of.found.Store(true)
	}
	return analysis.Languages(of.set.Load()), nil
}

// isMark accepts the terms that mark documents of a language.
func isMark(term []byte) (rank int, ok bool) {
	return 0, strings.HasPrefix(string(term), analysis.MarkPrefix)
}

// Languages say in which languages the documents of a set are.
func (s *State) Languages(ctx context.Context, in *roaring.Bitmap) (shares analysis.Shares, err error) {
	all, err := s.spoken(ctx)
	if all == 0 || err != nil {
		return shares, err
	}
	var marks []string
	var spoken []analysis.Language
	for _, l := range analysis.MarkedLanguages() {
		if all.Has(l) {
			marks, spoken = append(marks, l.Mark()), append(spoken, l)
		}
	}
	stats, err := s.Index.Stats(ctx, s.Postings, marks, invindex.Docs{Set: in})
	if err != nil {
		return shares, TextError(doingRecall, err)
	}
	shares.All = int(stats.N)
	for i, l := range spoken {
		shares.Add(l, int(stats.DF[i]))
	}
	return shares, nil
}
