//go:build race

package engine

// raceEnabled makes heavy tests smaller under the race detector.
const raceEnabled = true
