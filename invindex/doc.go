// Package invindex is the inverted index: which documents hold which words and
// which filter values, ranked by BM25.
//
// # Model
//
// A document is a number, its weighted terms, its length, its filter values and its
// numbers ([Doc]). The index never sees texts, queries in a language, or what a document
// is: an analyzer outside turns both sides into terms.
//
// Document numbers are 32 bits: the upper 16 name a chunk of 65,536 documents,
// the lower 16 a slot in it. They are given out by the caller in ascending order,
// with gaps where it likes. A chunk holds its own term dictionary, postings and
// lengths, and knows nothing of other chunks.
//
// A chunk is hot, in memory and growing, until the caller seals it: its postings
// are then packed into pages that lie in a store, under the keys of the chunk
// ([Index.Seal], [Index.Sealed]). Pages that queries need are kept in memory up to
// a budget. Hot and sealed chunks answer alike, in one query, to the bit. An index
// whose chunks are never sealed needs no store.
//
// What makes a document durable before its chunk is sealed is the caller's record
// of it ([AppendDoc]), from which a hot chunk is built again.
//
// Where many documents of some sealed chunks are dead, the others are moved together,
// in any order, without their texts:
//
//	err := x.Move(ctx, s, batch, number, docs)  // docs[i] becomes number<<16 | i
//	                                            // delete each Span of from, but before it;
//	                                            // and commit what else knows of documents
//	err = x.Moved(db, number, from...)          // for snapshots from now on
//
// The number of a chunk that was dropped can be used again for a move at once: who
// pinned the old one reads it by the snapshot of the store that was pinned with it. What
// else the caller keeps by document number must be pinned as well, or wait.
//
// # Readers and the writer
//
// One goroutine at a time adds documents. Any number of readers run beside it,
// without locks: everything in a chunk is append-only, and a length is published
// atomically after what it counts. A reader pins a [Snapshot], the number after
// the last document and the chunks as they were, and sees the same documents for as
// long as it keeps it.
//
// Nothing is deleted from postings. Which documents are alive, for whom, and as
// of when, is the caller's knowledge; it is passed into every call as [Docs]. A
// document that was never committed stays behind as garbage that is not visible.
//
// # Numbers and times
//
// [Index.Find] finds documents by an exact value, [Index.FindRange] by a number in a
// range. The index orders numbers as unsigned 64 bits; the caller puts what it has into
// that order, a field in one order:
//
//	JSON number n   FloatOrder(float64(n))
//	time            IntOrder(milliseconds)
//	x >= 3          FindRange(ctx, s, field, From(FloatOrder(3)), within)
//	3 < x <= 5      FindRange(ctx, s, field, Range{FloatOrder(3) + 1, FloatOrder(5)}, within)
//
// Where a field may hold strings or booleans beside numbers, a document has a Number
// only if it has a number, so that types are never compared with each other. From 2⁵³
// on, integers that round to the same float64 have one place: for a bound v of that
// size, what is found in Range{FloatOrder(v), FloatOrder(v)} is to be looked at, and
// what is beyond it is certain.
//
// A document whose caller says nothing of numbers ([Doc.Numbered]), as those of older
// records and chunks, makes FindRange return ErrNoNumbers where it could be missing.
//
// # Queries
//
// [Index.Search] ranks by plain terms. A typed text takes four steps, in one snapshot
// and for one set of documents:
//
//	parsed := query.Parse(analyzer, text)                  // never fails
//	q, err := x.Bind(ctx, s, parsed, in, verify)           // prefixes and fuzzy words become terms
//	stats, err := x.Stats(ctx, s, q.Terms(), in)
//	hits, err := x.Query(ctx, s, q, stats, in, k)
//
// where verify reads the texts of a document and asks parsed.Matcher whether they match;
// it is called only where the query has phrases. The Matcher finds what to highlight in a
// text, too.
// Without signs in the text, Query gives what Search gives for the analyzer's terms.
//
// # Scores
//
// The score of a document is BM25 as Lucene 8 and later compute it, without the
// constant factor (k1+1):
//
//	sum over terms of weight · idf · tf / (tf + k1·(1 − b + b·length/average))
//	idf = ln(1 + (N − df + ½) / (df + ½))
//
// Lengths are exact. N, df and the average come from [Stats], which the caller
// computes for the same documents that it searches, so that a document outside
// them can change no score.
//
// Terms are summed as integers in a fixed-point unit that depends on the query
// alone, so a sum does not depend on its order: exhaustive, pruned and probing
// evaluation, and [Index.Score], give equal bits.
package invindex
