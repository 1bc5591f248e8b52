// Package notes gives notes and archives their numbers.
//
// # Model
//
// A note is a memory with a name. Its text, name, aliases and kind are those of the memory,
// so that history, past states, exports and erasing are those of memories, too. What a memory
// does not have is a small number: the notes and archives of an owner are counted from 1, in
// the order in which they came, and a number is never given again.
//
// # Keys
//
//	N | owner | 0 | seq → number
//	N | owner | 1 | number → seq
//	N | owner | 2 → the number that was given last
//
// A number comes in the commit that stores the memory, and goes with the memory once nobody
// can read it. The first two say the same from both sides. All are truth.
package notes
