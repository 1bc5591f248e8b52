// Package notes keeps notes and archives: memories that are worked with by name.
//
// # Model
//
// A note is a memory of the kind note, or of the kind archive, with a name. Its text, name,
// aliases and kind are those of the memory, so that history, past states, exports and erasing
// are those of memories, too. What a memory does not have is a small number: the notes and
// archives of an owner are counted from 1, in the order in which they came, and a number is
// never given again.
//
// So this package asks two things of a database. It finds, stores and changes memories by a
// [Runner] and the [View] or [Tx] that this one gives: which memory has a name is a question to
// the filter index, where names and aliases are values. The numbers are keys of a [Part].
//
// # Names
//
// No two notes and archives of an owner have a name in common. A new note never takes a name.
// A rename and an alias take the alias of another note, never its name.
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
