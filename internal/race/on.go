//go:build race

package race

import "testing"

// Enabled reports whether the race detector is built in.
const Enabled = true

// Sequential leaves a long test of one goroutine to runs without the race detector, which run all
// of them. Two goroutines make a race: here is one, and what the database does beside it shorter
// tests have it do, too. The store below checks itself under the detector, 30 times slower.
func Sequential(t *testing.T) { t.Skip("one goroutine alone: only slower under the race detector") }
