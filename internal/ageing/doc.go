// Package ageing lets memories lose confidence, and takes away those that a policy does not keep.
//
// Evict removes what a policy rules out by age, confidence and cap. Consolidate lowers the confidence of what nobody
// looks at, prunes what has faded, and merges what says the same. What has expired goes by itself, and so may what is over
// the cap, what a schedule names, and what a compaction passes. Hooks of the program give verdicts and observe.
//
// Each chooses in a view, beside writers, and ends its victims in a commit: what was changed in between stays.
package ageing
