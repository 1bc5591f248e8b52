// Package onefile is the form of a database that is one file: all keys and values of its store,
// in their order, in packed blocks.
//
// A file is a snapshot. It is written whole under another name and then takes the place of the
// one before, so that its name leads to the old snapshot or to the new one, and never to
// anything else. What a commit has not touched is the same bytes in both: a [Table] keeps the
// packed blocks in RAM, [Table.Update] packs those again in which keys have changed, and
// [Table.Write] copies the others. So a commit costs the packing of what it changes, and the
// writing of the file.
//
// A file is
//
//	head      128 bytes
//	identity  what memdb.json is in a folder
//	index     of the blocks: first and last key, size, checksum
//	blocks    each with a head of its own, so that it can be read without the index
//	tail      the head once more
//
// Every byte is under a checksum, and the checksums and sizes stand in the head: a file that was
// cut off, grown or changed anywhere is told. [Read] takes nothing but a whole file; [Salvage]
// takes every block that is whole, and says what lies between them. docs/format/onefile.md has
// the bytes.
//
// The package opens no file and knows no store.
package onefile
