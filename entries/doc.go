// Package entries keeps JSON values under keys, for an owner each: what an agent must
// have by name, and not by meaning.
//
// # Model
//
// An [Entry] belongs to an owner and has a key. A put replaces the entry under its key. The
// version of an entry is the LSN of the commit that put it; a compare-and-set names the
// version that it expects ([PutOptions].IfVersion), and fails if somebody was faster. An
// entry that has expired is hidden at once, and removed within minutes.
//
// # Keys
//
//	k | owner | key           → version, times, owner, value
//	e | time | owner | key    → nothing: the entries that expire, by their time
//
// Entries of an owner lie together in the order of their keys, so that a list is one
// scan. The second kind is derived from the first: a worker scans it up to the present, and
// removes the entries that have expired.
package entries
