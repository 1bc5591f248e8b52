// Package entries keeps JSON values under keys, for an owner each: what an agent must
// have by name, and not by meaning.
//
// # Model
//
// An [Entry] belongs to an owner and has a key. To put one replaces what is there; its
// version is the LSN of that commit, by which a compare-and-set knows whether somebody
// was faster ([PutOptions].IfVersion). An entry that expires is hidden from that moment
// on and removed within minutes.
//
// # Keys
//
//	k | owner | key           → version, times, owner, value
//	e | time | owner | key    → nothing: entries that expire, by when
//
// Entries of an owner lie together in the order of their keys, so that a list is one
// scan. The second kind is derived from the first: the worker that removes what has
// expired reads it up to the present.
package entries
