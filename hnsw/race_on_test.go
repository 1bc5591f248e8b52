//go:build race

package hnsw

import "testing"

// sequential skips a test that the race detector has nothing to find in.
func sequential(t *testing.T) { t.Skip("one goroutine alone: only slower under the race detector") }
