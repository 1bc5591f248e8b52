//go:build race || !unix

package hnsw

import "errors"

// mapsFiles says whether this system maps files. Windows does not give back what a
// mapped file takes before it is closed; the race detector doesn't watch them.
const mapsFiles = false

func mapFile(uintptr, int64, int) (*page, []byte, error) { return nil, nil, errors.ErrUnsupported }

func within([]byte, uintptr) bool { return false }
