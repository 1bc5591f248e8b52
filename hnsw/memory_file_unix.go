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

// fetch has the system read a part of a mapped file without waiting for it.
func fetch(at unsafe.Pointer, size uintptr) {
	before := uintptr(at) % uintptr(unix.Getpagesize())
	m := unsafe.Slice((*byte)(unsafe.Add(at, -int(before))), before+size)
	_ = unix.Madvise(m, unix.MADV_WILLNEED) // an advice
}

// majorFaults counts what the process has waited for the disk because of its mappings.
func majorFaults() uint64 {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return uint64(u.Majflt)
}

func within(m []byte, address uintptr) bool {
	start := uintptr(unsafe.Pointer(unsafe.SliceData(m)))
	return address >= start && address-start < uintptr(len(m))
}
