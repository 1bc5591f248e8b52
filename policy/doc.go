// Package policy holds the rules by which memories are weighed: how important one is when it is stored, how fast it
// fades, when it is evicted or merged, and how the signals of a recall become one score. It also keeps what the rules
// need: the policy of a database, which is a stored value with versions, and the log of consolidation runs.
//
// The rules are pure functions. Time comes in as a value, and the same arguments give the same bits on every platform
// whose math functions agree, so that a ranking can be checked against a brute-force evaluation.
//
// # Confidence
//
// A consolidation writes one record, a [Run], and changes no memory. The confidence of a memory now follows from its
// stored confidence, from the runs since, and from a debt: what earlier runs have taken, folded into the access
// statistics of the memory when the memory was recalled or changed. See [Runs].
//
// # Keys
//
//	y | 0 | version → a policy, in JSON behind a version byte
//	y | 1 | LSN     → a run
//	y | 2 | job     → when a scheduled job came last
//	y | 3 | LSN     → what a commit has put in the trash
package policy
