// Package sqlitefile reads the tables of a SQLite file and writes such a file, without SQLite:
// what other programs keep in one comes in, and memories go out in one, and no program that links
// the database links a whole SQL engine for it.
//
// The format is that of https://sqlite.org/fileformat2.html. A [File] reads tables in the order
// of their rows, with the changes that a write-ahead log beside the file holds. It looks for
// nothing by an index, and knows no tables without rows' IDs. Nothing in a file is believed: each
// number is bounded by the page or the file that it points into, each walk by the number of
// pages. A [Writer] writes tables one after another, in the order of their rows' IDs.
package sqlitefile
