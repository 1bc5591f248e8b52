//go:build !unix

package main

import (
	"github.com/seed-7aedc3ff/memdb/bench/harness"
	"github.com/seed-7aedc3ff/memdb/bench/peer"
	"github.com/seed-7aedc3ff/memdb/hnsw"
)

func rowsMapped(*peer.VectorWork) (hnsw.Truth, func() error, error) {
	return nil, nil, harness.Missing("files are mapped on Unix only")
}
