// Package requests records which requests of clients were done and what they answered, so that a
// request that is sent again is done once.
//
// # Model
//
// A client gives a request an ID. The transaction that does the request also writes a [Record]: when
// it was done, a hash of what was asked, and the answer. Effect and record are one commit, so a crash
// keeps both or neither, and a replica has both or neither. Records count for [Keep], a day; a
// [Worker] then removes them, in commits of bounded size.
//
// A record has two halves. The first half says that the request was done. It holds a hash of the ID
// and no data of the client. The second half holds the answer, stored under the owner whose data the
// request changed, or under owner 0 where it changed data of several. When an owner is deleted or
// erased, its answers and those under owner 0 are deleted as ranges; the first halves stay. A request
// that is sent again after that is still not done again: it gets an error that its answer is gone.
//
// # Keys
//
//	I | 0 | hash of client and ID   → first half: the time, and the owner of the answer
//	I | 1 | time | the hash         → nothing: the records in the order in which they expire
//	E | owner | the hash            → second half: the hash of what was asked, and the answer
//
// Records are not exported: an export has data, and no clients that wait for an answer.
package requests
