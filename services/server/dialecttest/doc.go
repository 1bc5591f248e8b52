// Package dialecttest verifies that the importers and the dialects of a server agree: a test imports
// what another program kept, asks through the dialect of that program, and compares the answers with
// those of a model of the program, and with those for the same things sent through the dialect.
package dialecttest
