//go:build unix && !race

package simd

import (
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// guarded returns a function that allocates memory which ends where an
// unreadable page begins: a kernel that reads one byte too many crashes.
func guarded(t *testing.T) func(int) []byte {
	return func(n int) []byte {
		page := unix.Getpagesize()
		size := (n + page - 1) / page * page
		m, err := unix.Mmap(-1, 0, size+page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := unix.Munmap(m); err != nil {
				t.Error(err)
			}
		})
		if err := unix.Mprotect(m[size:], unix.PROT_NONE); err != nil {
			t.Fatal(err)
		}
		return unsafe.Slice(&m[size-n], n)
	}
}

func TestNothingIsReadBeyondRows(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		rng := random(t)
		for _, dim := range bitDims {
			t.Run("", func(t *testing.T) { bitKernels(t, rng, dim, guarded(t)) })
		}
		for _, dim := range []int{16, 48, 384} {
			alloc := guarded(t)
			tiles, _ := randomTiles(rng, 3, dim, alloc)
			var q TileQuery
			q.Set(make([]float32, dim))
			keys := unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(alloc(4*3*TileRows)))), 3*TileRows)
			masks := unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(alloc(4*3)))), 3)
			ScanTiles(&q, tiles, &TileBar{}, masks, keys)
			AtLeast(keys, 0, masks)
		}
		for _, n := range blockDims {
			t.Run("", func(t *testing.T) { scanBlocks(t, rng, n, guarded(t)) })
		}
		for n := 8; n <= 4096; n *= 2 {
			t.Run("", func(t *testing.T) { hadamards(t, rng, n, guarded(t)) })
		}
		for _, dim := range dims() {
			t.Run("", func(t *testing.T) {
				floatKernels(t, rng, dim, "normal", guarded(t))
				codeKernels(t, rng, dim, guarded(t))
				vectorKernels(t, rng, dim, "normal", guarded(t))
			})
		}
	})
}
