package policy

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/scope"
)

func TestDebt(t *testing.T) {
	for _, tc := range []struct{ rate, left float64 }{{0, 1}, {.05, .95}, {.5, .5}, {.999, .001}, {1, 0}} {
		if got := Confidence(1, DebtOf(tc.rate)); math.Abs(got-tc.left) > 1e-9 {
			t.Errorf("a rate of %v leaves %v, want %v", tc.rate, got, tc.left)
		}
	}
	if got := Confidence(1, 2*DebtOf(.05)); got != .9025 {
		t.Errorf("twice 0.05 leaves %v, want 0.9025", got)
	}
	if got := Confidence(.3333333333333333, 0); got != .3333333333333333 {
		t.Errorf("without a debt %v is read", got)
	}
	for _, rate := range []float64{1, 2, math.Inf(1), math.NaN()} {
		if got := DebtOf(rate); got != mostDebt {
			t.Errorf("a rate of %v has the debt %d, want the most", rate, got)
		}
	}
}

// TestRunsEqualReplay: what the runs take of a memory is what one gets by taking each at its time, in any mix of rates,
// idle times, floors and scopes, as of any LSN, and with folds at any time, but for those of a clock
// that was ahead of the present.
func TestRunsEqualReplay(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	const owners = 4
	for range 200 {
		var runs Runs
		var log []Run
		lsn, now := uint64(10), int64(1_000_000)
		for range 1 + rng.IntN(40) {
			lsn += 1 + uint64(rng.IntN(3))
			now += int64(rng.IntN(50))
			if rng.IntN(8) == 0 { // the clock jumps, either way
				now += int64(rng.IntN(1000)) - 500
			}
			r := Run{LSN: lsn, At: now, Rate: []float64{0, .05, .4, 1}[rng.IntN(4)], Idle: int64(rng.IntN(3)) * 40, Floor: float64(rng.IntN(3)) * .2}
			if rng.IntN(3) == 0 {
				r.Scope = scope.Scope{User: "u"}
				r.Owners = slices.Sorted(slices.Values(someOwners(rng, owners)))
			}
			runs.Add(r)
			log = append(log, r)
		}
		for range 50 {
			m := Aged{Owner: uint32(rng.IntN(owners)), Stored: rng.Float64(), After: 8 + uint64(rng.IntN(60)), Last: 1_000_000 + int64(rng.IntN(1000)) - 200}
			asOf, want, at := 8+uint64(rng.IntN(int(lsn))), m.Stored, now
			if rng.IntN(4) == 0 {
				at += int64(rng.IntN(1000)) - 800
			}
			for _, r := range log {
				if r.At > at || r.LSN <= m.After || r.LSN > asOf || r.At-r.Idle < m.Last || r.Owners != nil && !slices.Contains(r.Owners, m.Owner) {
					continue
				}
				want = max(want*(1-r.Rate), min(want, r.Floor))
			}
			got := runs.Owed(&m, asOf, at)
			if c := Confidence(m.Stored, got); math.Abs(c-want) > 1e-9 {
				t.Fatalf("%+v as of %d: %v, want %v of %+v", m, asOf, c, want, log)
			}
			// A fold in between takes the same.
			if fold := m.After + uint64(rng.IntN(20)); fold < asOf {
				folded := m
				folded.Debt, folded.After = runs.Owed(&m, fold, at), fold
				if again := runs.Owed(&folded, asOf, at); again != got {
					t.Fatalf("%+v folded at %d: %d, want %d", m, fold, again, got)
				}
			}
		}
	}
}

// TestRunsBesideReaders: a reader of a table sees no run that was added later.
func TestRunsBesideReaders(t *testing.T) {
	var runs Runs
	m := Aged{Owner: 1, Stored: 1}
	for n := range uint64(100) {
		if got, want := runs.Owed(&m, math.MaxUint64, math.MaxInt64), Debt(n)*DebtOf(.01); got != want {
			t.Fatalf("after %d runs the debt is %d, want %d", n, got, want)
		}
		runs.Add(Run{LSN: n + 1, At: int64(n), Rate: .01})
	}
	if got, want := runs.Owed(&m, 40, math.MaxInt64), 40*DebtOf(.01); got != want {
		t.Errorf("as of LSN 40 the debt is %d, want %d", got, want)
	}
}

func BenchmarkOwed(b *testing.B) {
	var runs Runs
	for n := range uint64(1460) { // a year, four times a day
		runs.Add(Run{LSN: 100 * n, At: int64(n) * (6 * time.Hour).Milliseconds(), Rate: .05, Idle: (7 * day).Milliseconds(), Floor: .1})
	}
	m := Aged{Owner: 1, Stored: 1, After: 50_000, Last: (180 * day).Milliseconds()}
	for b.Loop() {
		runs.Owed(&m, math.MaxUint64, math.MaxInt64)
	}
}

func someOwners(rng *rand.Rand, n int) []uint32 {
	var some []uint32
	for _, o := range rng.Perm(n)[:1+rng.IntN(n)] {
		some = append(some, uint32(o))
	}
	return some
}
