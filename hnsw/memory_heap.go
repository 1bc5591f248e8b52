//go:build race || (!unix && !windows)

package hnsw

import "unsafe"

// pageBytes bounds an arena's page; the heap zeroes and counts it at once.
const pageBytes = 1 << 20

// newPage allocates on the Go heap: on systems without mappings, and under the
// race detector, which doesn't watch memory outside the heap.
func newPage(bytes, _ uintptr) (*page, error) {
	m := make([]uint64, (bytes+7)/8)
	return &page{base: unsafe.Pointer(unsafe.SliceData(m))}, nil
}
