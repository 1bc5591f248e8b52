// Package policy holds the rules by which memories are weighed: how important one is when it is stored, how fast it
// fades, and how the signals of a recall become one score.
//
// The rules are pure functions. Time comes in as a value, and the same arguments give the same bits on every platform
// whose math functions agree, so that a ranking can be checked against a brute-force evaluation.
package policy
