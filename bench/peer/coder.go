//go:build !windows

package peer

import (
	"context"
	"math"
	"slices"

	"github.com/coder/hnsw"
)

var coder = VectorOpener{Name: "coder/hnsw", Small: true, Open: openCoder}

// openCoder prepares github.com/coder/hnsw, which knows one ef for building and
// searching.
func openCoder(_ context.Context, w *VectorWork) (Vectors, error) {
	g := hnsw.NewGraph[int]()
	g.M, g.Ml, g.EfSearch = w.M, 1/math.Log(float64(w.M)), w.EfConstruction
	return &InProcess{
		Work: w,
		Fill: func(ctx context.Context) (int64, error) {
			for i := range w.Base.Len() {
				g.Add(hnsw.MakeNode(i, slices.Clone(w.Base.Row(i))))
			}
			return 0, ctx.Err()
		},
		Search: func(_ context.Context, query []float32, ef, k int, dst []uint32) ([]uint32, error) {
			g.EfSearch = ef
			for _, n := range g.Search(query, k) {
				dst = append(dst, uint32(n.Key))
			}
			return dst, nil
		},
	}, nil
}
