// Package exchange reads and writes other forms of the data: everything as lines
// of JSON, and files of vectors. The page docs/exchange.md describes the forms, key by key.
//
// An import reads a stream, stores it in batches, each of which is one durable
// commit, and tells in a [Report] what became of every record. It keeps what it
// is given: a text that the owner already has is stored again, while a record
// whose ID and content are there already is left alone. So an import that was
// interrupted can be repeated, as long as its records carry IDs, or
// [Options.Origin] gives them some.
package exchange
