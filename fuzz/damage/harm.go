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
	// costs is how many lines it may cost that lie in the file.
	costs int
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
	h := harm{what: what + " in " + name, file: name, gone: len(content) < len(old), costs: b.costs(name, content)}
	if content == nil {
		delete(files, name)
	} else {
		files[name] = content
	}
	return files, h
}

const (
	// entryLines is how many lines need one entry of a table: a record has its memory and an event
	// of its history, and a vector or a part of a session has one line.
	entryLines = 2
	// others is how many lines may need more than the entries in the block: the messages of a
	// session need its head, the relations of an entity their ends.
	others = 12
	// recordBytes is about the most that a record of a log takes; one is lost at each end of what
	// was changed, beside those within.
	recordBytes = 4500
)

// costs is how many lines a file may lose that has another content: of a table those whose
// entries lie in the blocks that have changed, of a log those of the records.
func (b *base) costs(name string, content []byte) int {
	old := b.files[name]
	from, to := 0, 0 // what has changed
	for i := range min(len(old), len(content)) {
		if content[i] != old[i] {
			if to == 0 {
				from = i
			}
			to = i + 1
		}
	}
	if len(content) > len(old) { // all behind it has moved, and can be read there
		from, to = max(from-1, 0), from+1
	}
	if blocks, ok := b.blocks[name]; ok {
		entries := 0
		for _, block := range blocks {
			if block.From < to && from < block.To {
				entries += block.Entries
			}
		}
		return others + entryLines*entries
	}
	return others + len(b.lines)*(to-from+2*recordBytes)/(len(old)+1)
}

func holdsData(name string) bool {
	return slices.Contains([]string{".sst", ".log"}, path.Ext(name)) && strings.HasPrefix(name, "store/")
}
