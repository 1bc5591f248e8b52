package ageing

import (
	"math"
	"slices"
	"testing"
)

// TestMeanOf: lengths count where cosines are not compared, and vectors that cancel each other
// out have no direction.
func TestMeanOf(t *testing.T) {
	if got := meanOf([][]float32{{1, 0}, {3, 2}}, false); !slices.Equal(got, []float32{2, 1}) {
		t.Errorf("mean %v", got)
	}
	if got := meanOf([][]float32{{3, 0}, {0, 7}}, true); math.Abs(float64(got[0])-3/math.Sqrt2) > 1e-6 || got[0] != got[1] {
		t.Errorf("mean direction %v", got)
	}
	if got := meanOf([][]float32{{1, 0}, {-1, 0}}, true); got != nil {
		t.Errorf("opposite directions: %v", got)
	}
}
