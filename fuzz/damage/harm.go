package main

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
)

// harm is one damage.
type harm struct {
	what string
	file string
	gone bool // whole parts of the file are not there any more
	// share is about which part of the file cannot be read: two blocks beside what was changed.
	share float64
}

// kinds of harm. Each returns the new content, nil for none, and what was done.
var kinds = []func(rng *rand.Rand, b *base, name string, old []byte) (content []byte, what string){
	func(rng *rand.Rand, _ *base, _ string, old []byte) ([]byte, string) {
		at, bit := rng.IntN(len(old)), rng.IntN(8)
		old[at] ^= 1 << bit
		return old, fmt.Sprintf("flip bit %d of byte %d of %d", bit, at, len(old))
	},
	func(rng *rand.Rand, _ *base, _ string, old []byte) ([]byte, string) {
		at := rng.IntN(len(old))
		to := min(at+1+rng.IntN(512), len(old))
		clear(old[at:to])
		return old, fmt.Sprintf("zero bytes %d to %d of %d", at, to, len(old))
	},
	func(rng *rand.Rand, _ *base, _ string, old []byte) ([]byte, string) {
		n := rng.IntN(len(old))
		return old[:n], fmt.Sprintf("cut to %d of %d bytes", n, len(old))
	},
	func(*rand.Rand, *base, string, []byte) ([]byte, string) { return nil, "delete" },
	func(_ *rand.Rand, b *base, name string, old []byte) ([]byte, string) {
		if was, ok := b.older[name]; ok && !bytes.Equal(was, old) {
			return slices.Clone(was), "put its older version in its place"
		}
		return nil, "delete"
	},
	func(rng *rand.Rand, _ *base, _ string, old []byte) ([]byte, string) {
		more := make([]byte, 1+rng.IntN(200))
		for i := range more {
			more[i] = byte(rng.IntN(256))
		}
		return append(old, more...), fmt.Sprintf("append %d bytes", len(more))
	},
	func(rng *rand.Rand, _ *base, _ string, old []byte) ([]byte, string) {
		at := rng.IntN(len(old))
		to := min(at+1+rng.IntN(4096), len(old))
		return slices.Concat(old[:to], old[at:to], old[to:]), fmt.Sprintf("duplicate bytes %d to %d of %d", at, to, len(old))
	},
}

// damage does one harm to one file of a copy: half of the time to one that holds data.
func (b *base) damage(rng *rand.Rand) (folder, harm) {
	files := maps.Clone(b.files)
	names := slices.Sorted(maps.Keys(files))
	if rng.IntN(2) == 0 {
		names = slices.DeleteFunc(names, func(name string) bool { return !holdsData(name) })
	}
	name := names[rng.IntN(len(names))]
	old := slices.Clone(files[name])
	kind := rng.IntN(len(kinds))
	if len(old) == 0 {
		kind = 3
	}
	content, what := kinds[kind](rng, b, name, old)
	changed := 0
	for i := range min(len(content), len(old)) {
		if content[i] != b.files[name][i] {
			changed++
		}
	}
	if len(content) > len(old) { // all behind it has moved, and can be read there
		changed = 4096
	}
	h := harm{what: what + " in " + name, file: name, gone: len(content) < len(old), share: float64(changed+2*blockBytes) / float64(len(old)+1)}
	if content == nil {
		delete(files, name)
	} else {
		files[name] = content
	}
	return files, h
}

// blockBytes is about the size of a block of a table or a log.
const blockBytes = 4500

func holdsData(name string) bool {
	return slices.Contains([]string{".sst", ".log"}, path.Ext(name)) && strings.HasPrefix(name, "store/")
}
