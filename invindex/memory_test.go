package invindex

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/zeebo/xxh3"
)

// A fact is remembered of one chunk, one set of documents and one key; where two
// facts have the same place, the newer one stays and neither is taken for the other.
func TestMemory(t *testing.T) {
	var all memory
	var chunks [3]chunkMemory
	for i := range chunks {
		chunks[i].start(&all)
	}
	hashes := []xxh3.Uint128{{Hi: 1, Lo: 2}, {Hi: 2, Lo: 2}, {Hi: 1, Lo: 34}}
	for round := range 2 {
		for i := range chunks {
			for j, hash := range hashes {
				for k := range 20_000 { // more than there are places
					want := uint32(i<<24 | j<<16 | k)
					if got := chunks[i].count(hash, fmt.Sprint(k), func() uint32 { return want }); got != want {
						t.Fatalf("round %d: term %d of chunk %d, set %d is counted as %d, want %d", round, k, i, j, got, want)
					}
				}
				want := sum{docs: uint64(i + 1), length: uint64(j + 1)}
				if got, err := chunks[i].sum(hash, func() (sum, error) { return want, nil }); err != nil || got != want {
					t.Fatalf("the sum of chunk %d, set %d is %v (%v), want %v", i, j, got, err, want)
				}
			}
			for k := range 10_000 {
				for kind, n := range map[dictKind]int{ofTerms: i + 1, ofValues: i + 11} {
					want := entry{n: n, page: k}
					got, err := chunks[i].entry(kind, fmt.Sprint(k), func() (entry, error) { return want, nil })
					if err != nil || got.n != want.n || got.page != want.page {
						t.Fatalf("key %d of chunk %d is %+v (%v), want %+v", k, i, got, err, want)
					}
				}
			}
		}
	}
}

// What is known is not computed again, an error is not remembered, nor is a key
// without a bound.
func TestMemoryRemembers(t *testing.T) {
	var all memory
	var c chunkMemory
	c.start(&all)
	asked, failure := 0, errors.New("unread")
	count := func(term string) {
		c.count(xxh3.Uint128{Lo: 1}, term, func() uint32 { asked++; return 1 })
	}
	read := func(key string, err error) error {
		_, err = c.entry(ofTerms, key, func() (entry, error) { asked++; return entry{n: 1}, err })
		return err
	}
	long := strings.Repeat("x", maxKnownKey+1)
	for _, tc := range []struct {
		name string
		call func() error
		want int
		err  error
	}{
		{"a count", func() error { count("a"); return nil }, 1, nil},
		{"the count again", func() error { count("a"); return nil }, 0, nil},
		{"a long term", func() error { count(long); count(long); return nil }, 2, nil},
		{"an error", func() error { return read("b", failure) }, 1, failure},
		{"a key", func() error { return read("b", nil) }, 1, nil},
		{"the key again", func() error { return read("b", failure) }, 0, nil},
		{"a long key", func() error { return errors.Join(read(long, nil), read(long, nil)) }, 2, nil},
	} {
		asked = 0
		if err := tc.call(); !errors.Is(err, tc.err) || asked != tc.want {
			t.Errorf("%s: computed %d times, want %d; error %v", tc.name, asked, tc.want, err)
		}
	}
}

func TestMemoryIsShared(t *testing.T) {
	var all memory
	var chunks [2]chunkMemory
	for i := range chunks {
		chunks[i].start(&all)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for k := range 20_000 {
				i, term := k%2, fmt.Sprint(k%3000)
				want := uint32(k%3000*2 + i)
				if got := chunks[i].count(xxh3.Uint128{Lo: 7}, term, func() uint32 { return want }); got != want {
					t.Errorf("%q of chunk %d is counted as %d, want %d", term, i, got, want)
					return
				}
			}
		})
	}
	wg.Wait()
}
