// Package apikeys keeps the keys by which programs are known to a server: who may ask, and what each may
// see and do.
//
// # Model
//
// A key is a random secret. The secret is shown once, when the key is made; only its SHA-256 is kept. What is
// known of a key is a few lines of JSON, each stored under a name: one line makes the key, one revokes it, and
// one says when it was last used. A line is never changed into a weaker one: revocation is a line of its own.
//
// Lines are in a [Store]. A database stores them in its own store, as a part ([Book]), so that whatever moves a
// database moves its keys with it. The nodes of a cluster share a store of their own. [Keys] is what a server
// asks: it holds the keys in RAM and reads the lines again when the version of the store has changed.
//
// # Closed by default
//
// A store records that it has ever had a key, apart from the keys. Without that record, a server is open: it has
// no keys, and whoever reaches it may do everything. With it, each request needs a key, also when every key was
// revoked, is damaged or is missing. [Keys.Clear] is the only way back.
//
// # Keys of the store
//
//	K | 0        → the head: when the first key was made, how many lines there are, and a digest of them
//	K | 1 | name → a line
//
// The digest is the XOR of the SHA-256 of every name and line. A reader compares it with the lines that it
// found, so a line that is missing, old or damaged makes all keys unreadable instead of reviving a revoked one.
package apikeys
