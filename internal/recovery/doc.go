// Package recovery finds what a database has lost, and makes again what follows from the rest.
//
// [Check] compares each structure of an open database with the memories that it must follow from. While a database is
// opened, [Losses] notes what cannot be read, so that the database opens without it, and finds the generations and the
// numbers that were given out in the keys that are there. [Opened.Recover] then gives new places in the indexes to the
// memories that have lost theirs. [Copy] makes a database of what is left of one that cannot be opened.
package recovery
