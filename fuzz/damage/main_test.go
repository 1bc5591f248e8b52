package main

import (
	"os"
	"strconv"
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/race"
)

// TestDamage is the short form of the command: thirty damages of four databases, with seeds that
// follow the one of MEMDB_SEED, or 1.
func TestDamage(t *testing.T) {
	race.Sequential(t)
	const runs = 30
	first := uint64(1)
	if s := os.Getenv("MEMDB_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		first = n
	}
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
