//go:build race

package engine

import "testing"

// raceEnabled makes heavy tests smaller under the race detector.
const raceEnabled = true

// sequential skips a long test of one goroutine, whose database does beside it what shorter
// tests have it do, too: the store below is 30 times slower under the race detector.
func sequential(t *testing.T) { t.Skip("one goroutine alone: only slower under the race detector") }
