package main

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
)

// A flip is one bit of a table that is changed.
type flip struct {
	b    *base
	name string
	at   int
	bit  int
}

func (f flip) String() string {
	return fmt.Sprintf("%s: flip bit %d of byte %d of %s", f.b.name, f.bit, f.at, f.name)
}

// footBytes is how far apart the flips are in what follows the last block of entries of a table:
// its filter, its properties, its index and its footer.
const footBytes = 512

// flips are one bit of each block of each table of the databases, and a few of what follows them.
func flips(rng *rand.Rand, bases []*base) (all []flip) {
	for _, b := range bases {
		for _, name := range slices.Sorted(maps.Keys(b.blocks)) {
			one := func(from, to int) { all = append(all, flip{b, name, from + rng.IntN(to-from), rng.IntN(8)}) }
			end := 0
			for _, block := range b.blocks[name] {
				one(block.From, block.To)
				end = max(end, block.To)
			}
			for size := len(b.files[name]); end < size; end += footBytes {
				one(end, min(end+footBytes, size))
			}
		}
	}
	return all
}

// files are those of the database with the bit changed.
func (f flip) files() folder {
	files := maps.Clone(f.b.files)
	files[f.name] = slices.Clone(files[f.name])
	files[f.name][f.at] ^= 1 << f.bit
	return files
}
