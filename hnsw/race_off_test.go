//go:build !race

package hnsw

import "testing"

func sequential(*testing.T) {}
