package facts

import (
	"context"
	"fmt"
	"math"

	"github.com/seed-7aedc3ff/memdb/internal/panics"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// refusalsInARow is how many single texts in a row an embedder may refuse before it is
// taken for one that fails: nobody waits for a thousand time-outs.
const refusalsInARow = 8

// embed makes vectors of texts: in one call, or of each alone where that fails, so that
// one text does not cost the others their vectors. failed has why a text has none. A
// vector of zeros, which no other can be compared with, is none. Only the context's end
// is an error. Without an embedder there are no vectors: the database makes its own.
func (f *Facts) embed(ctx context.Context, texts []string) (vecs [][]float32, failed []error, err error) {
	failed = make([]error, len(texts))
	if f.Embedder == nil || len(texts) == 0 {
		return make([][]float32, len(texts)), failed, ctx.Err()
	}
	vecs, whole := f.embedCall(ctx, texts)
	if whole == nil || ctx.Err() != nil {
		return vecs, failed, ctx.Err()
	}
	vecs = make([][]float32, len(texts))
	if len(texts) == 1 {
		failed[0] = whole
		return vecs, failed, nil
	}
	row := 0
	for i, text := range texts {
		if row == refusalsInARow {
			failed[i] = whole
			continue
		}
		one, err := f.embedCall(ctx, []string{text})
		switch {
		case ctx.Err() != nil:
			return nil, nil, ctx.Err()
		case err != nil:
			failed[i] = err
			row++
		default:
			vecs[i], row = one[0], 0
		}
	}
	return vecs, failed, nil
}

// embedOne is embed of one text, whose failure is the error.
func (f *Facts) embedOne(ctx context.Context, text string) ([]float32, error) {
	vecs, failed, err := f.embed(ctx, []string{text})
	if err != nil {
		return nil, err
	}
	return vecs[0], failed[0]
}

// embedCall calls the embedder and checks what it returns.
func (f *Facts) embedCall(ctx context.Context, texts []string) (vecs [][]float32, err error) {
	if panicked := panics.Catch("embeds texts", func() { vecs, err = f.Embedder.Embed(ctx, texts) }); panicked != nil {
		err = panicked
	}
	if err == nil {
		err = checkVectors(vecs, len(texts), f.Embedder.Dim())
	}
	if err != nil {
		return nil, &memory.Error{
			Kind: memory.ErrEmbedder, What: fmt.Sprintf("embed %d texts with %s", len(texts), f.Embedder.Model()),
			Cause: err, Do: "check the embedder",
		}
	}
	for i, v := range vecs {
		if norm(v) == 0 {
			vecs[i] = nil
		}
	}
	return vecs, nil
}

func checkVectors(vecs [][]float32, n, dim int) error {
	if len(vecs) != n {
		return fmt.Errorf("it returned %d vectors", len(vecs))
	}
	for i, v := range vecs {
		if len(v) != dim {
			return fmt.Errorf("vector %d has %d dimensions, not %d", i+1, len(v), dim)
		}
		if n := norm(v); math.IsNaN(n) || math.IsInf(n, 0) {
			return fmt.Errorf("vector %d has a component that is no finite number, or is too long", i+1)
		}
	}
	return nil
}

func norm(v []float32) float64 { return math.Sqrt(dot(v, v)) }

func dot(a, b []float32) (sum float64) {
	for i, x := range a {
		sum += float64(x) * float64(b[i])
	}
	return sum
}

// cosine is that of two vectors, 0 where one has no direction or there is none.
func cosine(a, b []float32) float64 {
	if len(a) != len(b) {
		return 0
	}
	if n := norm(a) * norm(b); n > 0 {
		return dot(a, b) / n
	}
	return 0
}
