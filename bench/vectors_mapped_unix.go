//go:build unix

package main

import (
	"errors"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/seed-7aedc3ff/memdb/bench/peer"
	"github.com/seed-7aedc3ff/memdb/hnsw"
)

// rowsMapped finds rows in a file that is mapped into memory: the system keeps
// of it what it has room for.
func rowsMapped(w *peer.VectorWork) (hnsw.Truth, func() error, error) {
	f, err := os.Open(w.BaseFile)
	if err != nil {
		return nil, nil, err
	}
	dim := w.Base.Dim
	m, err := unix.Mmap(int(f.Fd()), 0, w.Base.Len()*dim*4, unix.PROT_READ, unix.MAP_SHARED)
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, nil, err
	}
	rows := unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(m))), w.Base.Len()*dim)
	return func(slot uint32, _ []float32) ([]float32, error) {
		at := int(slot) * dim
		return rows[at : at+dim : at+dim], nil
	}, func() error { return unix.Munmap(m) }, nil
}
