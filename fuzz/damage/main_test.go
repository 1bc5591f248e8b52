package main

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/race"
)

// TestDamage is the short form of the command: thirty damages of four databases, with seeds that
// follow the one of MEMDB_SEED, or 1.
func TestDamage(t *testing.T) {
	race.Sequential(t)
	const runs = 30
	first := seed(t)
	bases, err := newBases(t.Context(), []int{1, 7, 8, 18}) // memories killed, graph killed, sessions closed, all closed
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("seeds %d to %d", first, first+runs-1)
	count := run(t.Context(), bases, first, runs, func(seed uint64, what string, v verdict) {
		if v.failure != "" {
			t.Errorf("seed %d: %s: %s: %s", seed, v.class, what, v.failure)
		}
	})
	if count[found] == 0 || count[named] == 0 || count[harmless] == 0 {
		t.Errorf("the damages are of one kind: %v", count)
	}
}

// seed is the one of MEMDB_SEED, or 1.
func seed(t *testing.T) uint64 {
	s := os.Getenv("MEMDB_SEED")
	if s == "" {
		return 1
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestNoShortAnswer verifies that no command that reads gives a short answer without a word: one
// bit is flipped in some blocks of young and old databases, and each answer is the one of the whole
// database, an error, or marked as one that may be incomplete.
func TestNoShortAnswer(t *testing.T) {
	race.Sequential(t)
	const sample = 5
	first := seed(t)
	t.Logf("seed %d", first)
	bases, err := newBases(t.Context(), []int{18}) // all closed
	if err != nil {
		t.Fatal(err)
	}
	old, err := layoutBases(t.Context(), filepath.Join("..", "..", "engine", "testdata", "layouts"), 8)
	if err != nil {
		t.Fatal(err)
	}
	bases = append(bases, old...)
	if err := listen(t.Context(), bases); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(first, 12))
	all := flips(rng, bases)
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	differ := 0
	for _, f := range all[:min(sample, len(all))] {
		short, other := f.b.shortAnswers(t.Context(), f.files())
		for _, why := range short {
			t.Errorf("%v: %s", f, why)
		}
		if other {
			differ++
		}
	}
	if differ == 0 {
		t.Error("no flip has changed an answer")
	}
}
