// Package usage keeps what calls of language models have taken: tokens and money, by owner,
// model and time; budgets that are checked before a call; and the manifests of agents.
//
// # Model
//
// A [Record] is one call: its model, its tokens, its cost and its time. An owner's records
// have numbers from 1 on. Costs are decimals and stay exact, in a record and in every sum.
//
// Sums of an owner's records are kept for seconds, minutes, hours, days, 32 days, 1,024 days
// and for ever, of each model and of all models. A range of time is made of whole buckets,
// the widest in its middle, and of the records in the two seconds at its ends. So the totals
// of any range take O(log n) reads, where n is the length of the range; totals over several
// owners take that for each owner.
//
// A [Budget] bounds what an owner spends in a day, in a month, or ever. [Usage.Reserve] takes
// a part of the budgets before a call, and [Usage.Add] gives the part back and puts the record
// in its place, each in one transaction: callers that run beside each other never reserve
// more than there is.
//
// [Usage.RollUp] replaces old records by one for each day and model. Totals stay the same.
//
// An [Agent] is a manifest: what is said about an agent beside its ID. It belongs to the owner
// that has the agent and no user.
//
// # Keys
//
//	u | owner | time | number                 → a record
//	Q | owner | level | model | bucket        → a sum
//	R | owner | model                         → the name of the model
//	w | owner | 0                             → the owner, the last number, the roll-up
//	w | owner | 1 | period                    → a budget
//	w | owner | 2 | expiry | number           → a reservation
//	w | owner | 3 | hash                      → the number of a record that was imported without one
//	A | owner                                 → a manifest
//
// A model in a key is the first half of the SHA-256 of its name; zeros are all models.
// A record that comes by an import and has no number is known by its content, and by its place among
// the records of the input that have the same content. So a file that is imported again, or that has
// grown since, adds what is new in it. This identity stays when the record is rolled up.
//
// Everything of an owner lies in one range of keys for each kind. Sums are derived from the
// records.
package usage
