package invindex

import (
	"context"
	"strings"

	"github.com/seed-7aedc3ff/memdb/internal/query"
)

// Bind makes a Query of one that was parsed: a prefix or a fuzzy word becomes the
// terms that it stands for in documents of in, at most [query.MaxExpansions]. The
// caller verifies phrases by [query.Matcher.Matches].
func (x *Index) Bind(ctx context.Context, s Snapshot, parsed *query.Query, in Docs, verify func(ctx context.Context, doc uint32) (bool, error)) (*Query, error) {
	q := &Query{Verify: verify}
	for i := range parsed.Clauses {
		c := &parsed.Clauses[i]
		out := Clause{Occur: occurs[c.Occur], Phrase: c.Kind == query.Phrase, Any: c.Readings}
		if c.Kind == query.Prefix || c.Kind == query.Fuzzy {
			var err error
			if out.Terms, err = x.expand(ctx, s, c, in); err != nil {
				return nil, err
			}
		} else {
			for _, t := range c.Terms {
				out.Terms = append(out.Terms, QueryTerm{Text: t, Weight: c.Weight})
			}
		}
		q.Clauses = append(q.Clauses, out)
	}
	return q, nil
}

// occurs translates.
var occurs = map[query.Occur]Occur{query.Should: Should, query.Must: Must, query.MustNot: MustNot}

// expand finds what a prefix or a fuzzy word stands for. The further a word is from
// what was asked for, the less it weighs.
func (x *Index) expand(ctx context.Context, s Snapshot, c *query.Clause, in Docs) ([]QueryTerm, error) {
	prefix := ""
	if c.Kind == query.Prefix {
		prefix = c.Base
	}
	found, err := x.Expand(ctx, s, prefix, c.Accept, in, query.MaxExpansions)
	if err != nil {
		return nil, err
	}
	var terms []QueryTerm
	add := func(term string) {
		weight := c.Weight
		if distance, _ := c.Accept([]byte(term)); c.Kind == query.Fuzzy {
			weight /= float64(1 + distance)
		}
		terms = append(terms, QueryTerm{Text: term, Weight: weight})
	}
	for _, term := range found {
		add(term)
	}
	if c.Kind == query.Prefix && len(c.Terms) > 0 && !strings.HasPrefix(c.Terms[0], c.Base) {
		if len(terms) == query.MaxExpansions {
			terms = terms[:len(terms)-1]
		}
		add(c.Terms[0]) // running* is run, too
	}
	if len(terms) == 0 {
		add(c.Base) // no document of in has it
	}
	return terms, nil
}
