//go:build race

package main

// raceEnabled leaves the damage run, which has one goroutine after the other, out.
const raceEnabled = true
