//go:build !race

package hnsw

import "golang.org/x/sys/unix"

// adviseHuge asks for huge pages; a kernel without them serves small ones.
func adviseHuge(m []byte) { _ = unix.Madvise(m, unix.MADV_HUGEPAGE) }
