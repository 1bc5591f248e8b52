// Package recovery finds what a database has lost, and makes again what follows from the rest.
//
// [Check] compares each structure of an open database with the memories that it must follow from. While a database is
// opened, [Losses] notes what cannot be read, so that the database opens without it.
package recovery
