// Package onefile is the form of a database that is one file: all keys and values of its store,
// in their order, in packed blocks.
//
// A file is written whole under another name and then takes the place of the one before, so that its
// name leads to the old file or to the new one, and never to anything else. What has not changed is the
// same bytes in both: a [Table] keeps the packed blocks in RAM, [Table.Update] packs those again in which
// keys have changed, and [Table.Write] copies the others. Commits since are appended to its [Tail], until
// it is written whole again: so a commit costs what it changes.
//
// A file is
//
//	head      128 bytes
//	identity  what memdb.json is in a folder
//	index     of the blocks: first and last key, size, checksum
//	blocks    each with a head of its own, so that it can be read without the index
//	head      once more
//	marks     two, of which the newer says how far the commits go
//	commits   what each changed
//
// Every byte is under a checksum, and the checksums and sizes stand in the head and the marks: a file that
// was cut off or changed anywhere is told. [Read] takes nothing but a whole file; [Salvage]
// takes every block and commit that is whole, and says what lies between them. docs/format/onefile.md has
// the bytes.
//
// The package opens no file and knows no store.
package onefile
