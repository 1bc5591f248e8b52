//go:build unix && !race

package hnsw

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// pageBytes bounds an arena's page. Mappings cost memory only where they
	// are touched, and large ones waste little at the ends of huge pages.
	pageBytes = 32 << 20
)

// newPage maps zeroed memory outside the Go heap, so that rows don't count
// towards the collector's pace, and asks for huge pages from an offset on:
// without them a random row costs a walk of the page table on top of the load.
func newPage(bytes, hugeFrom uintptr) (*page, error) {
	m, err := unix.Mmap(-1, 0, int(bytes)+hugePage, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, err
	}
	skip := -uintptr(unsafe.Pointer(unsafe.SliceData(m))) & (hugePage - 1)
	if hugeFrom < bytes {
		adviseHuge(m[skip+hugeFrom : skip+bytes])
	}
	return ownPage(unsafe.Pointer(&m[skip]), m, unmap), nil
}

func unmap(m []byte) {
	// A mapping of ours can't fail to unmap; if it did, it would only linger.
	_ = unix.Munmap(m)
}
