package main

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/exchange"
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

// TestRescueReportsEachBlock verifies that a rescue names the kind of every line that one damaged block
// of a table costs, also where the block is the first or the last of its table.
func TestRescueReportsEachBlock(t *testing.T) {
	race.Sequential(t)
	bases, err := newBases(t.Context(), []int{18}) // all, closed: everything is in tables
	if err != nil {
		t.Fatal(err)
	}
	costly := 0
	for _, b := range bases {
		for _, name := range slices.Sorted(maps.Keys(b.blocks)) {
			for _, block := range b.blocks[name] {
				files := maps.Clone(b.files)
				files[name] = slices.Clone(files[name])
				files[name][(block.From+block.To)/2] ^= 0x10
				left := rescue(t.Context(), write(files))
				gone := missing(b.lines, left.lines)
				if len(gone) > 0 {
					costly++
				}
				for _, line := range gone {
					if !reported(left.lost, line) {
						t.Errorf("%s: %s, block at byte %d: reported is %v, and missing is %.200q", b.name, name, block.From, left.lost, line)
					}
				}
			}
		}
	}
	if costly == 0 {
		t.Error("no damaged block costs a line")
	}
}

// reported reports whether losses name what a line of an export is of, or what it is found by.
func reported(lost []exchange.RescueLoss, line string) bool {
	of := map[string]string{
		"memory": "memories", "history": "memories", "kv": "entries", "entity": "graph", "relation": "graph", "merge": "graph", "link": "graph",
		"session": "sessions", "message": "sessions", "marker": "sessions", "usage": "usage", "budget": "usage", "agent": "usage",
	}
	var typed struct{ Type string }
	if json.Unmarshal([]byte(line), &typed) != nil || of[typed.Type] == "" {
		return false
	}
	return slices.ContainsFunc(lost, func(l exchange.RescueLoss) bool {
		return strings.Contains(l.What, of[typed.Type]) || strings.Contains(l.What, "memories") || strings.Contains(l.What, "names") || strings.Contains(l.What, "deletes") ||
			strings.Contains(l.What, "settings") || strings.Contains(l.What, "everything") || l.What == "what an export has"
	})
}
