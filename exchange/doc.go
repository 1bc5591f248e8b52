// Package exchange reads and writes other forms of the data: memories as lines
// of JSON, and the conversations of the LoCoMo benchmark.
//
// An import reads a stream, stores it in batches, each of which is one durable
// commit, and tells in a [Report] what became of every record. It keeps what it
// is given: a text that the owner already has is stored again, while a record
// whose ID and content are there already is left alone, so that an import which
// was interrupted can be repeated as long as its records carry IDs.
//
// # Lines of JSON
//
// One object a line, in UTF-8, with or without a byte order mark:
//
//	{"type":"memory","id":"a1","user":"ada","text":"prefers tea","created_at":"2026-01-02T15:04:05.000Z"}
//
// [Record] lists the keys. A missing type means memory; lines of a type that
// this version does not know are skipped and reported. Unknown keys are ignored.
// Also read are user_id, agent_id and run_id for the scope, and memory or content
// for the text.
package exchange
