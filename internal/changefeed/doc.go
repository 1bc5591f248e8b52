// Package changefeed reads what was committed to a database, from its log: each change once, in the order of
// commits, with the values before and after as far as they are kept.
//
// The log names what a commit changed and has no values. A reader decodes a page of records into steps
// (commit.go), finds the memories that deletes of whole scopes have killed (deaths.go), and then reads the values
// of each step from the newest state (tell.go). It holds nothing of the database between two changes.
package changefeed
