package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
)

func main() {
	runs := flag.Int("runs", 1000, "how many damages")
	seed := flag.Uint64("seed", 1, "the seed of the first; the others follow")
	verbose := flag.Bool("v", false, "print each damage")
	blocks := flag.Bool("blocks", false, "flip one bit of each block of each table, in the place of damages at random")
	old := flag.String("layouts", "engine/testdata/layouts", "the folder of the packed databases of earlier layouts")
	flag.Parse()
	all := make([]int, 2*len(contents))
	for i := range all {
		all[i] = i
	}
	ctx := context.Background()
	bases, err := newBases(ctx, all)
	// Layouts from before there was a mark cannot notice that a log is gone, so their files are
	// not damaged at random.
	if err == nil && *blocks {
		var older []*base
		older, err = layoutBases(ctx, *old, 1, 3, 6, 8)
		bases = append(bases, older...)
	}
	if err == nil {
		err = listen(ctx, bases)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if *blocks {
		flipAll(ctx, bases, *seed)
		return
	}
	count := run(ctx, bases, *seed, *runs, func(seed uint64, what string, v verdict) {
		if v.failure != "" {
			fmt.Fprintf(os.Stdout, "FAILED, seed %d: %s: %s: %s\n", seed, v.class, what, v.failure)
		} else if *verbose {
			fmt.Fprintf(os.Stdout, "seed %d: %s: %s\n", seed, v.class, what)
		}
	})
	fmt.Fprintf(os.Stdout, "%d damages of %d databases, seeds %d to %d:", *runs, len(bases), *seed, *seed+uint64(*runs)-1)
	for _, class := range []string{found, named, harmless, silent, rescued, failed} {
		fmt.Fprintf(os.Stdout, " %s %d", class, count[class])
	}
	fmt.Fprintln(os.Stdout)
	if count[failed] > 0 {
		os.Exit(1)
	}
}

// flipAll flips a bit of each block, and prints the answers that are short without a word.
func flipAll(ctx context.Context, bases []*base, seed uint64) {
	failures := 0
	all := flips(rand.New(rand.NewPCG(seed, 12)), bases)
	for _, f := range all {
		if short, _ := f.b.shortAnswers(ctx, f.files()); len(short) > 0 {
			failures++
			fmt.Fprintf(os.Stdout, "FAILED, seed %d: %v: %s\n", seed, f, strings.Join(short, "; "))
		}
	}
	fmt.Fprintf(os.Stdout, "%d bits flipped, one of each block, in %d databases, seed %d: %d with short answers\n", len(all), len(bases), seed, failures)
	if failures > 0 {
		os.Exit(1)
	}
}

// What is counted beside the classes: rescues that brought all that is whole, and failures.
const rescued, failed = "rescued", "failed"

// run does damages, and counts what came of them.
func run(ctx context.Context, bases []*base, seed uint64, runs int, tell func(seed uint64, what string, v verdict)) map[string]int {
	count := map[string]int{}
	for i := range uint64(runs) {
		what, v := judge(ctx, bases, seed+i)
		count[v.class]++
		if v.rescued {
			count[rescued]++
		}
		if v.failure != "" {
			count[failed]++
		}
		tell(seed+i, what, v)
	}
	return count
}
