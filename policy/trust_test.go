package policy

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestTrust: what questions show of a vector is what it counts for.
func TestTrust(t *testing.T) {
	for _, c := range []struct {
		name            string
		stands, follows float64 // the means
		least, most     float64 // of the weight
		questions       int
	}{
		{"random", 0, 0, 0, .002, 400},
		{"opposite", -.5, .2, 0, 0, 400},
		{"hashed words", .3, .48, 0, .013, 400},
		{"word vectors", -.15, .26, 0, .002, 400},
		{"weak", .4, .22, .02, .06, 400},
		{"good", .9, .1, .08, .0851, 400},
		{"very good", 2, .05, .07, .0851, 60},
	} {
		rng := rand.New(rand.NewPCG(1, 2))
		var trust Trust
		for range c.questions {
			trust.Add(c.stands+rng.NormFloat64(), c.follows+.1*rng.NormFloat64())
		}
		if w := trust.Weight(); w < c.least || w > c.most {
			t.Errorf("%s: the weight is %.4f, want %v to %v", c.name, w, c.least, c.most)
		}
	}
	var none Trust
	if w := none.Weight(); w != beginTrust {
		t.Errorf("before any question the weight is %v", w)
	}
	none.Add(math.NaN(), 1)
	none.Add(math.Inf(1), 1)
	if none != (Trust{}) {
		t.Errorf("what is no number was taken in: %+v", none)
	}
	var changed Trust
	for range 2000 {
		changed.Add(2, 0)
	}
	for range 2000 {
		changed.Add(-.1, 0)
	}
	if w := changed.Weight(); w > .002 {
		t.Errorf("of an embedder that became useless the weight is %v", w)
	}
	if VectorFloor(beginTrust) != 1-beginTrust/wholeWeight || VectorFloor(mostTrust) != 0 {
		t.Errorf("floors %v and %v", VectorFloor(beginTrust), VectorFloor(mostTrust))
	}
}
