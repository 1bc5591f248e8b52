package engine

import (
	"context"
	"strings"

	"github.com/seed-7aedc3ff/memdb/internal/analysis"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
)

// languages are those that the query is read in besides English.
func (r *recalling) languages(ctx context.Context) (analysis.Languages, error) {
	if r.read.known {
		return r.read.in, nil
	}
	in, err := r.tx.state.Languages(ctx, r.set)
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
	if db.english || db.tables.Words.Analyzer.Load().Detects() {
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
	db.tables.Words.Analyzer.Store(analysis.NewAuto())
	return nil
}
