package recall

import (
	"context"
	"strings"

	"github.com/seed-7aedc3ff/memdb/internal/analysis"
)

// languages are those that the query is read in besides English.
func (r *recalling) languages(ctx context.Context) (analysis.Languages, error) {
	if r.read.known {
		return r.read.reading.In, nil
	}
	shares, err := r.st.Languages(ctx, r.set)
	if err != nil {
		return 0, err
	}
	r.read.reading, r.read.known = r.st.Words.Analyzer.Load().Asked(r.q.Text, &shares), true
	in := r.read.reading.In
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
