package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"sort"
)

func main() {
	runs := flag.Int("runs", 1000, "how many damages")
	seed := flag.Uint64("seed", 1, "the seed of the first; the others follow")
	verbose := flag.Bool("v", false, "print each damage")
	flag.Parse()
	all := make([]int, 2*len(contents))
	for i := range all {
		all[i] = i
	}
	ctx := context.Background()
	bases, err := newBases(ctx, all)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	failures := run(ctx, bases, *seed, *runs, func(seed uint64, what string, v verdict) {
		if v.failure != "" {
			fmt.Printf("FAILED, seed %d: %s: %s: %s\n", seed, v.class, what, v.failure)
		} else if *verbose {
			fmt.Printf("seed %d: %s: %s\n", seed, v.class, what)
		}
	})
	if failures > 0 {
		os.Exit(1)
	}
}

// run does damages and prints how often what came of them. It returns the number of failures.
func run(ctx context.Context, bases []*base, seed uint64, runs int, tell func(seed uint64, what string, v verdict)) (failures int) {
	count := map[string]int{}
	for i := range uint64(runs) {
		what, v := judge(ctx, bases, seed+i)
		count[v.class]++
		if v.rescued {
			count["rescued"]++
		}
		if v.failure != "" {
			failures++
		}
		tell(seed+i, what, v)
	}
	var figures []string
	for _, class := range []string{found, named, harmless, silent, "rescued"} {
		figures = append(figures, fmt.Sprintf("%s %d", class, count[class]))
	}
	sort.Strings(figures)
	fmt.Printf("%d damages of %d databases, seeds %d to %d: %v, failures %d\n", runs, len(bases), seed, seed+uint64(runs)-1, figures, failures)
	return failures
}
