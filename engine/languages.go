package engine

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/seed-7aedc3ff/memdb/internal/analysis"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/invindex"
)

// Each text is analysed in a language of its own, by a rule that depends on nothing but
// the text, and its document has a term that says which: [analysis.Language.Mark]. A query
// is read in the languages of the documents that may be hits, which the statistics of
// these terms tell. So a text whose language was taken for another one is found like any
// other, and a database of English texts has no such terms and pays nothing for them.

// spoken are the languages besides English that some document is in, or was: a query asks
// for no others. It is found in the index when it is first needed, and grows with the
// texts that are analysed.
type spoken struct {
	found atomic.Bool
	set   atomic.Uint32
	mu    sync.Mutex // of those who look into the index
}

// add notes languages of a text, before the text can be found.
func (s *spoken) add(l analysis.Languages) {
	if l != 0 && analysis.Languages(s.set.Load())&l != l {
		s.set.Or(uint32(l))
	}
}

// spoken returns the languages besides English that documents are in.
func (tx *Tx) spoken(ctx context.Context) (analysis.Languages, error) {
	s := &tx.db.words.spoken
	if !s.found.Load() {
		s.mu.Lock()
		defer s.mu.Unlock()
		// One look serves all transactions, also those of older states: what is in them and
		// not in this one has died.
		in := invindex.Docs{}
		terms, err := tx.index.Expand(ctx, tx.postings, analysis.MarkPrefix, isMark, in, len(analysis.MarkedLanguages()))
		if err != nil {
			return 0, textError(doingRecall, err)
		}
		for _, l := range analysis.MarkedLanguages() {
			for _, t := range terms {
				if t == l.Mark() {
					s.add(analysis.Languages(0).With(l))
				}
			}
		}
		s.found.Store(true)
	}
	return analysis.Languages(s.set.Load()), nil
}

// isMark accepts the terms that mark documents of a language.
func isMark(term []byte) (rank int, ok bool) {
	return 0, strings.HasPrefix(string(term), analysis.MarkPrefix)
}

// languages are those besides English that documents of a set are in.
func (tx *Tx) languages(ctx context.Context, in *roaring.Bitmap) (set analysis.Languages, err error) {
	all, err := tx.spoken(ctx)
	if all == 0 || err != nil {
		return 0, err
	}
	var marks []string
	for l := range all.All() {
		marks = append(marks, l.Mark())
	}
	stats, err := tx.index.Stats(ctx, tx.postings, marks, invindex.Docs{Set: in})
	if err != nil {
		return 0, textError(doingRecall, err)
	}
	i := 0
	for l := range all.All() {
		if stats.DF[i] > 0 {
			set = set.With(l)
		}
		i++
	}
	return set, nil
}

// languages are those that the query is read in besides English.
func (r *recalling) languages(ctx context.Context) (analysis.Languages, error) {
	if r.read.known {
		return r.read.in, nil
	}
	in, err := r.tx.languages(ctx, r.set)
	if err != nil {
		return 0, err
	}
	r.read.in, r.read.known = in, true
	if r.q.Explain && in != 0 {
		r.plan.Languages = strings.Fields(in.String())
	}
	return in, nil
}

// fewer leaves out the terms of a query that no document of its scope has, as long as
// there are more terms than words: a word that is read in several languages is a term of
// each of them, and most are in no text. The others stay, since what the query asks for and
// nothing has counts in a score.
func (r *recalling) fewer(words int) {
	extra := len(r.terms) - words
	if extra <= 0 || len(r.stats.DF) != len(r.terms) {
		return
	}
	terms, df := r.terms[:0], r.stats.DF[:0]
	for i, t := range r.terms {
		if extra > 0 && r.stats.DF[i] == 0 {
			extra--
			continue
		}
		terms, df = append(terms, t), append(df, r.stats.DF[i])
	}
	r.terms, r.stats.DF = terms, df
}

// moveLanguage makes a database that was made for English alone one that finds the language
// of each text, unless it was opened to be English. It comes before the text is indexed
// anew: memdb.json says so first, since a text that was indexed as English is found by any
// query, and one in a language only where it is looked for.
func (db *DB) moveLanguage(ctx context.Context) error {
	if db.english || db.words.analyzer.Load().Detects() {
		return nil
	}
	if err := db.lockBehind(ctx); err != nil {
		return err
	}
	defer db.unlock()
	if err := db.Failed(); err != nil {
		return err
	}
	id := *db.identity
	if id.Settings.Language != analysis.English {
		return nil
	}
	id.Settings.Language = analysis.Auto
	if err := db.keepIdentity(&id); err != nil {
		return fault.Within("note the language in "+identityName, err)
	}
	db.identity = &id
	db.settings.Store(&id.Settings)
	db.words.analyzer.Store(analysis.NewAuto())
	return nil
}
