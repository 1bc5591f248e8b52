package engine

import (
	"context"
	"fmt"

	"github.com/seed-7aedc3ff/memdb/embed"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// asked is a query that can be answered: checked, and with its vector.
type asked struct {
	*memory.Query
	unembedded string         // why its text has no vector although its profile looks at one
	stages     []memory.Stage // of its answer
}

// ask checks a query, and has it embedded.
func (m Memories) ask(ctx context.Context, q *memory.Query) (a *asked, err error) {
	if err := m.db.usable(doingRecall); err != nil {
		return nil, err
	}
	if err := q.Complete(doingRecall); err != nil {
		return nil, err
	}
	if err := m.db.checkSpace(q); err != nil {
		return nil, err
	}
	a = &asked{Query: q}
	if q.Statistics == nil {
		a.unembedded, err = m.embedQuery(ctx, q)
	}
	return a, err
}

// checkSpace refuses a query for a space whose model nobody knows.
func (db *DB) checkSpace(q *memory.Query) error {
	if q.Space != "" && q.Embedding == nil && (q.Space != memory.DefaultSpace || db.embedder == nil) {
		return fault.Invalid(doingRecall, fmt.Sprintf("nothing embeds the query for the space %q", valid.Short(q.Space)), "give its embedding")
	}
	if q.Embedding != nil && q.Space == "" {
		q.Space = memory.DefaultSpace
	}
	return nil
}

// embedQuery gives the query its vector, where the database has an embedder and
// the profile looks at one, or says why not. In an Update no embedder is called.
func (m Memories) embedQuery(ctx context.Context, q *memory.Query) (unembedded string, err error) {
	if q.Embedding != nil || q.Text == "" || q.Profile == memory.ProfileText {
		return "", nil
	}
	if m.db.embedder == nil {
		return m.db.lacksEmbedder(), nil
	}
	if embed.IsLexical(m.db.embedder) && q.Profile == memory.ProfileBest {
		return "", nil // its vectors say no more than the text does
	}
	if m.tx != nil && m.tx.writes != nil || attemptOf(ctx).opened() {
		return noEmbedderInUpdate, nil
	}
	vecs, err := m.db.embed(ctx, []string{q.Text})
	switch {
	case err == nil:
		q.Space, q.Embedding = memory.DefaultSpace, vecs[0]
		return "", nil
	case q.Profile == memory.ProfileVector || ctx.Err() != nil:
		return "", err
	}
	m.db.logger.Warn("embedding a query failed; it is answered without its vector", "error", err)
	return err.Error(), nil
}
