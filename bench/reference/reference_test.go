package reference

import (
	"math"
	"slices"
	"testing"
)

func TestPlain(t *testing.T) {
	got := Plain("The RUNNERS' 2 houses, and Über-fast cats!")
	if want := []string{"runner", "2", "hous", "über", "fast", "cat"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestQuestion(t *testing.T) {
	if got, want := Question("What did the cat do?"), []string{"cat"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestParts compares with BM25 worked out by hand: three documents of 3, 1 and 2
// terms, 2 on average.
func TestParts(t *testing.T) {
	c := New([]string{"tea tea cup", "house", "tea house"}, Plain)
	parts := c.Parts([]string{"tea", "cup", "tea", "sky"})
	tea, cup := math.Log(1+1.5/2.5), math.Log(1+2.5/1.5)
	want := [][]float64{
		{2 * tea * 2 / (2 + 1.2*(.25+.75*1.5)), 0, 2 * tea * 1 / (1 + 1.2)},
		{cup * 1 / (1 + 1.2*(.25+.75*1.5)), 0, 0},
		{0, 0, 0},
	}
	for i := range want {
		for j := range want[i] {
			if math.Abs(parts[i][j]-want[i][j]) > 1e-12 {
				t.Errorf("term %d, document %d: %v, want %v", i, j, parts[i][j], want[i][j])
			}
		}
	}
	if sum := Sum(parts, 3)[0]; math.Abs(sum-want[0][0]-want[1][0]) > 1e-12 {
		t.Errorf("the sum is %v", sum)
	}
}
