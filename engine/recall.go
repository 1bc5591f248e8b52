package engine

import (
	"context"
	"sync"
	"time"

	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/internal/recall"
	"github.com/seed-7aedc3ff/memdb/internal/selection"
	"github.com/seed-7aedc3ff/memdb/internal/spaces"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/policy"
)

// Recall finds the memories that fit a query best, and notes that they were
// recalled, unless the query says NoTouch. Outside a transaction it works on the
// newest durable state.
func (m Memories) Recall(ctx context.Context, q memory.Query) (result memory.Result, err error) {
	began := clock.System()
	a, err := m.ask(ctx, &q)
	if err != nil {
		return memory.Result{}, err
	}
	embedded := clock.System()
	defer func() { m.db.recalled(began, embedded, a.stages, err) }()
	err = m.view(ctx, doingRecall, func(tx *Tx) error {
		recall := func(tx *Tx) error {
			result, err = tx.recall(ctx, a)
			return err
		}
		if q.AsOf == 0 {
			return recall(tx)
		}
		return tx.asOf(q.AsOf, recall)
	})
	return result, err
}

// Embedding is the vector that a recall of the query looks at, and its space: its own, or what the embedder
// makes of its text. It is nil where there is none, and unembedded says why where the profile would look
// at one. A query that several databases answer is asked with it: see memory.Statistics. Errors are those of
// Recall.
func (m Memories) Embedding(ctx context.Context, q memory.Query) (embedding []float32, space, unembedded string, err error) {
	a, err := m.ask(ctx, &q)
	if err != nil {
		return nil, "", "", err
	}
	return a.Query.Embedding, a.Space, a.unembedded, nil
}

// Statistics are those that the scores of a query depend on, over what this database has of it: what comes
// next, by those that the query has. See memory.Statistics. Errors are those of Recall.
func (m Memories) Statistics(ctx context.Context, q memory.Query) (s memory.Statistics, err error) {
	if err := m.db.usable(doingRecall); err != nil {
		return s, err
	}
	if q.Statistics == nil {
		q.Statistics = &memory.Statistics{}
	}
	if err := q.Complete(doingRecall); err != nil {
		return s, err
	}
	if err := m.db.checkSpace(&q); err != nil {
		return s, err
	}
	err = m.view(ctx, doingRecall, func(tx *Tx) error {
		if err := tx.checkEmbedding(&q); err != nil {
			return err
		}
		s, err = recall.Count(ctx, (*recallHost)(tx), &tx.state, &q)
		return err
	})
	return s, err
}

// recallHost is a transaction as its recalls need it.
type recallHost Tx

func (h *recallHost) Spaces() *spaces.Set      { return h.db.spaces }
func (h *recallHost) Scopes() *selection.Cache { return &h.db.scopes }
func (h *recallHost) Clock() time.Time         { return h.db.clock() }
func (h *recallHost) View() part.View          { return (*partTx)(h) }
func (h *recallHost) Graph() *graph.Part       { return partOf[*graph.Part](h.db) }

func (h *recallHost) Load(v layout.Version, vectors bool) (memory.Memory, error) {
	return (*Tx)(h).load(v, vectors)
}

// Trust is what the vectors of a space have shown: one and the same in a View, whose answers stand
// still, and what the newest question has left for a recall by itself, which others learn from.
func (h *recallHost) Trust(s *spaces.Space) (trust policy.Trust, learns bool) {
	if h.trust == nil {
		return s.Trust(), h.writes == nil && !h.state.Past
	}
	return h.trust.in(s), false
}

// trust is what the vectors of each space had shown when a recall of a View first asked.
type trust struct {
	mu sync.Mutex
	of map[*spaces.Space]policy.Trust
}

func (t *trust) in(s *spaces.Space) policy.Trust {
	t.mu.Lock()
	defer t.mu.Unlock()
	shown, ok := t.of[s]
	if !ok {
		shown = s.Trust()
		t.of[s] = shown
	}
	return shown
}

func (h *recallHost) Within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, d)
}

func (h *recallHost) Touch(seqs []uint64, now int64) {
	if !h.db.readOnly {
		h.db.touched.Recalled(seqs, now)
	}
}

func (tx *Tx) recall(ctx context.Context, q *asked) (memory.Result, error) {
	tx, err := tx.recaller(q)
	if err != nil {
		return memory.Result{}, err
	}
	result, stages, err := recall.Answer(ctx, (*recallHost)(tx), &tx.state, q.Query, q.unembedded)
	q.stages, result.Unreadable = stages, tx.db.unreadable()
	return result, err
}

// recaller is the transaction that a query is answered by.
func (tx *Tx) recaller(q *asked) (*Tx, error) {
	if tx.writes != nil {
		if err := tx.materialise(); err != nil {
			return nil, tx.breaks(err)
		}
	}
	if err := tx.checkEmbedding(q.Query); err != nil {
		return nil, err
	}
	if q.Lost != nil {
		of := *tx
		of.state.Lose = q.Lost
		tx = &of
	}
	return tx, nil
}

// checkEmbedding refuses a vector of a space that there is not, or of another size. Of several databases
// one has to have the space.
func (tx *Tx) checkEmbedding(q *memory.Query) error {
	if q.Embedding == nil {
		return nil
	}
	if given := q.Statistics; given == nil || !given.Lacks() && given.Vectors.Metric == "" {
		if err := tx.db.spaces.Known(q.Space); err != nil {
			return err
		}
	}
	return tx.db.spaces.At(q.Space, tx.state.LSN).Check(doingRecall, q.Space, q.Embedding)
}

const doingRecall = "recall"
