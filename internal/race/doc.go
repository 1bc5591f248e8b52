// Package race says whether the race detector watches a test, and lets tests do less under it.
package race

import "testing"

// Times is how often a test does what costs much: a tenth of it under the race detector.
func Times(most int) int {
	if Enabled || testing.Short() {
		return most / 10
	}
	return most
}
