package relevance

import (
	"math"
	"strings"
	"testing"
)

// judged makes a judgement of "a", "b=3": grades, 1 where none is given.
func judged(list string) map[string]float64 {
	grades := map[string]float64{}
	for item := range strings.FieldsSeq(list) {
		id, grade, ok := strings.Cut(item, "=")
		grades[id] = 1
		if ok {
			grades[id] = float64(grade[0] - '0')
		}
	}
	return grades
}

func TestRecall(t *testing.T) {
	for _, c := range []struct {
		ranking, relevant string
		k                 int
		want              float64
	}{
		{"a b c", "a", 1, 1},
		{"b a c", "a", 1, 0},
		{"b a c", "a", 2, 1},
		{"a b c d", "a d", 3, 0.5},
		{"a b c d", "a d", 10, 1},
		{"a b c d", "a d x y", 10, 0.5},
		{"a a a", "a b", 3, 0.5},
		{"a b", "a b=0", 1, 1},
		{"", "a", 5, 0},
		{"a", "", 5, 0},
	} {
		if got := Recall(strings.Fields(c.ranking), judged(c.relevant), c.k); got != c.want {
			t.Errorf("Recall(%q, %q, %d) = %v, want %v", c.ranking, c.relevant, c.k, got, c.want)
		}
	}
}

func TestNDCG(t *testing.T) {
	// The discounts of the first ranks are 1, log2 3 = 1.5849625, 2, log2 5 =
	// 2.3219281; the wanted values are worked out with them by hand.
	for _, c := range []struct {
		ranking, relevant string
		k                 int
		want              float64
	}{
		{"a b c", "a", 10, 1},
		{"b a c", "a", 10, 0.6309298},     // (1/1.5849625) / 1
		{"b c a", "a", 10, 0.5},           // (1/2) / 1
		{"b c a", "a", 2, 0},              // beyond k
		{"a b c", "a c", 10, 0.9197207},   // (1 + 1/2) / (1 + 1/1.5849625)
		{"x a y b", "a b", 10, 0.6509209}, // (0.6309298 + 0.4306766) / 1.6309298
		{"a b", "a=1 b=3", 10, 0.7967075}, // (1 + 3·0.6309298) / (3 + 0.6309298)
		{"a b", "a b c", 2, 1},            // the ideal is cut at k too
		{"a a", "a b", 10, 0.6131472},     // a repeated: 1 / 1.6309298
		{"a b", "a b=0", 10, 1},           // a grade of 0 is not relevant
		{"", "a", 10, 0},
		{"a", "", 10, 0},
	} {
		if got := NDCG(strings.Fields(c.ranking), judged(c.relevant), c.k); math.Abs(got-c.want) > 1e-6 {
			t.Errorf("NDCG(%q, %q, %d) = %.7f, want %.7f", c.ranking, c.relevant, c.k, got, c.want)
		}
	}
}
