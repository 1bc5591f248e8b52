//go:build !race

package engine

import "testing"

// raceEnabled makes heavy tests smaller under the race detector.
const raceEnabled = false

func sequential(*testing.T) {}
