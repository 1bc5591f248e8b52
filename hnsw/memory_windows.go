//go:build !race

package hnsw

import (
	"unsafe"

	"golang.org/x/sys/windows"
)

// pageBytes bounds an arena's page. Windows charges a mapping when it is
// committed, not when it is touched, hence smaller ones than elsewhere.
const pageBytes = 4 << 20

// newPage maps zeroed memory outside the Go heap, so that rows don't count
// towards the collector's pace.
func newPage(bytes, _ uintptr) (*page, error) {
	addr, err := windows.VirtualAlloc(0, bytes, windows.MEM_RESERVE|windows.MEM_COMMIT, windows.PAGE_READWRITE)
	if err != nil {
		return nil, err
	}
	m := unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&addr))), bytes)
	return ownPage(unsafe.Pointer(unsafe.SliceData(m)), m, unmap), nil
}

func unmap(m []byte) {
	// A mapping of ours can't fail to unmap; if it did, it would only linger.
	_ = windows.VirtualFree(uintptr(unsafe.Pointer(unsafe.SliceData(m))), 0, windows.MEM_RELEASE)
}
