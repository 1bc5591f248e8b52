//go:build race

package race

import "testing"

// Enabled reports whether the race detector is built in.
const Enabled = true

// Sequential skips a long test of one goroutine, whose database does beside it what shorter
// tests have it do, too: the store below is 30 times slower under the race detector.
func Sequential(t *testing.T) { t.Skip("one goroutine alone: only slower under the race detector") }
