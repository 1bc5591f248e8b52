//go:build unix && !race

package hnsw

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// mapsFiles says whether this system maps files.
const mapsFiles = true

// mapFile maps a part of a file. Rows are met in no order, so nothing is read
// ahead.
func mapFile(fd uintptr, offset int64, size int) (*page, []byte, error) {
	m, err := unix.Mmap(int(fd), offset, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, nil, err
	}
	_ = unix.Madvise(m, unix.MADV_RANDOM) // an advice
	return ownPage(unsafe.Pointer(unsafe.SliceData(m)), m, unmap), m, nil
}

func within(m []byte, address uintptr) bool {
	start := uintptr(unsafe.Pointer(unsafe.SliceData(m)))
	return address >= start && address-start < uintptr(len(m))
}
