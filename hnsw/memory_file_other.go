//go:build race || !unix

package hnsw

import (
	"errors"
	"unsafe"
)

// mapsFiles says whether this system maps files. Windows does not give back what a
// mapped file takes before it is closed; the race detector doesn't watch them.
const mapsFiles = false

func mapFile(uintptr, int64, int) (*page, []byte, error) { return nil, nil, errors.ErrUnsupported }

func fetch(unsafe.Pointer, uintptr) {}

func majorFaults() uint64 { return 0 }

func within([]byte, uintptr) bool { return false }
