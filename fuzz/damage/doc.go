// Damage damages files of databases at random and looks whether that is told.
//
//	go run ./fuzz/damage -runs 1000 -seed 7
//
// Twenty databases with all kinds of contents, half of them closed and half of them killed, are
// made in memory. Each run takes a copy of one, does one damage to one file of it, and judges what
// the database makes of that:
//
//	found     opening refuses it
//	named     it opens, and check, an export or the salvage says that something is wrong
//	harmless  it opens, nothing is wrong, and all that was acknowledged is there
//	silent    it opens, nothing is said, and what is there differs: a failure
//
// Every command that reads is asked, too, in two openings of the database. An answer that differs
// from the one of the whole database is a failure, unless it is an error or marked as one that may
// be incomplete. -blocks flips one bit of each block of each table, and asks the commands alone.
//
// Then what is left is rescued. A rescue fails that is refused although there are tables or logs
// which nobody has touched, that lacks what lies in files which nobody has touched, that lacks
// anything and does not say so, that lacks more than what lies in the blocks which have changed, or that makes a database which a check finds damaged.
//
// A line of each failure names the run by which it can be repeated: -runs 1 -seed N.
package main
