package engine

import (
	"context"
	"fmt"
	"math/bits"

	"github.com/seed-7aedc3ff/memdb/embed"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/panics"
	"github.com/seed-7aedc3ff/memdb/internal/records"
	"github.com/seed-7aedc3ff/memdb/memory"
)

const (
	// refusalsInARow is how many single texts in a row an embedder may refuse before a
	// call takes it for one that fails, and leaves the others for later.
	refusalsInARow = 8

	// noEmbedderInUpdate is why a text has no vector: an embedder may take seconds.
	noEmbedderInUpdate = "in an Update no embedder is called, since it would be called under the writer lock"
)

// VectorModel is what made the vectors that recalls use, as the database knows it. The zero
// VectorModel is that of a database without such vectors.
type VectorModel struct {
	Model string // as its embedder names it; empty: callers gave the vectors
	Base  string // the address of its server, empty for its provider's own or where it is not known
	Dim   int    // the length of the vectors
}

// VectorModel tells what made the vectors of the default space.
func (db *DB) VectorModel() VectorModel {
	s := db.spaces.Named(memory.DefaultSpace)
	if s == nil {
		return VectorModel{}
	}
	return VectorModel{Model: s.Model, Base: s.Base, Dim: s.Dim}
}

// setEmbedder makes e that of the database, nil for none, before it is used.
func (db *DB) setEmbedder(e embed.Embedder) {
	if e != nil && !embed.IsLexical(e) && !db.uncached {
		e = embed.NewCache(e, 0, db.embeddingShare())
	}
	db.embedder = e
}

// lacksEmbedder says why a text gets no vector that compares with those of the default space,
// although a model made these: the database was opened without it. Empty where that is not so.
func (db *DB) lacksEmbedder() string {
	m := db.VectorModel()
	if db.embedder != nil || m.Model == "" || m.Model == db.spaces.Lexical.Model.Model() {
		return ""
	}
	return "the database was opened without the embedder of its vectors, " + m.Model
}

// embed calls the embedder and checks what it returns.
func (db *DB) embed(ctx context.Context, texts []string) ([][]float32, error) {
	model := db.embedder.Model()
	var vecs [][]float32
	var err error
	if panicked := panics.Catch("embeds texts", func() { vecs, err = db.embedder.Embed(ctx, texts) }); panicked != nil {
		err = panicked
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, ctx.Err()
	case err == nil:
		err = db.checkEmbedded(texts, vecs)
	}
	if err != nil {
		err = &fault.Error{Kind: fault.ErrEmbedder, What: fmt.Sprintf("embed %d texts with %s", len(texts), model), Cause: err, Do: "check the embedder"}
		db.backlog.failed(db.clock(), err)
		return nil, err
	}
	return vecs, nil
}

// checkEmbedded refuses vectors that would be of no use, or fix the dimension of the
// space by mistake.
func (db *DB) checkEmbedded(texts []string, vecs [][]float32) error {
	if len(vecs) != len(texts) {
		return fmt.Errorf("it returned %d vectors for %d texts", len(vecs), len(texts))
	}
	s := db.spaces.At(memory.DefaultSpace, db.LSN())
	for i, v := range vecs {
		if dim := db.embedder.Dim(); len(v) != dim {
			return fmt.Errorf("it returned a vector of %d dimensions for text %d of %d, and says that it makes %d", len(v), i+1, len(texts), dim)
		}
		if err := s.Check("look at the vector of a text", memory.DefaultSpace, v); err != nil {
			return fmt.Errorf("vector %d of %d: %w", i+1, len(vecs), err)
		}
	}
	return nil
}

// embedEach embeds texts, in ever smaller parts where the embedder refuses them, so that
// one that it cannot take does not keep the others from their vectors. got receives the
// vector of each text, or why it alone was refused. After patience failures without a
// success the embedder is taken for one that fails: what is left gets the error that
// embedEach returns.
func (db *DB) embedEach(ctx context.Context, texts []string, patience int, got func(i int, vec []float32, err error)) error {
	part, failures := len(texts), 0
	for i := 0; i < len(texts); {
		n := min(part, len(texts)-i)
		vecs, err := db.embed(ctx, texts[i:i+n])
		if err == nil {
			for j, v := range vecs {
				got(i+j, v, nil)
			}
			i, part, failures = i+n, 2*n, 0
			db.backlog.down.Store(false)
			continue
		}
		if ctx.Err() != nil {
			return err
		}
		if n == 1 {
			got(i, nil, err)
			i++
		}
		if part, failures = max(n/2, 1), failures+1; failures >= patience {
			db.backlog.down.Store(true)
			if i < len(texts) {
				return err
			}
		}
	}
	return nil
}

// halvings is how often a part of n texts can be halved: so many failures in a row
// one text that is refused can cause.
func halvings(n int) int { return bits.Len(uint(n)) }

// embedMissing gives the default space's vector to those that have a text and no
// vector, through the database's embedder. Those that it refuses are left pending: they
// are stored, found by text, and embedded by a later pass.
func (db *DB) embedMissing(ctx context.Context, ps []*records.Prepared) {
	missing := db.markPending(ps)
	if len(missing) == 0 || db.embedder == nil {
		return
	}
	texts := make([]string, len(missing))
	for i, p := range missing {
		texts[i] = p.Rec.Text
	}
	patience := halvings(len(texts)) + 1
	if db.backlog.down.Load() {
		patience = 1 // nobody waits for each half of a batch while the embedder is down
	}
	left := len(texts)
	err := db.embedEach(ctx, texts, patience, func(i int, vec []float32, err error) {
		if err != nil {
			missing[i].Why = err.Error()
			return
		}
		missing[i].Vectors[memory.DefaultSpace] = vec
		missing[i].Pending, missing[i].Why, missing[i].Learned = false, "", true
		left--
	})
	for _, p := range missing {
		if err != nil && p.Pending && p.Why == noEmbedderInUpdate {
			p.Why = err.Error()
		}
	}
	if left > 0 {
		db.logger.Warn("embedding failed; the memories are stored and will be embedded later", "memories", left)
	}
}

// markPending marks what an embedder is to embed later, that of the database or the one that it was
// opened without, and returns it.
func (db *DB) markPending(ps []*records.Prepared) (missing []*records.Prepared) {
	why := noEmbedderInUpdate
	if db.embedder == nil {
		if why = db.lacksEmbedder(); why == "" {
			return nil
		}
	}
	for _, p := range ps {
		if p != nil && p.Rec.Text != "" && p.Vectors[memory.DefaultSpace] == nil {
			p.Pending, p.Why = true, why
			missing = append(missing, p)
		}
	}
	return missing
}

// embedPatch embeds a new text before the lock is taken. It returns nil inside a
// transaction, without an embedder, and where that fails: then a later pass does.
func (m Memories) embedPatch(ctx context.Context, patch *memory.Patch) []float32 {
	if m.locked(ctx) || m.db == nil || m.db.embedder == nil || patch.Text == nil || *patch.Text == "" ||
		patch.Embedding != nil || patch.Vectors[memory.DefaultSpace] != nil {
		return nil
	}
	vecs, err := m.db.embed(ctx, []string{*patch.Text})
	if err != nil {
		m.db.logger.Warn("embedding failed; the memory is updated and will be embedded later", "error", err)
		return nil
	}
	return vecs[0]
}
