// Package functions are the functions memory::store to memory::session::repair, by their names: what
// agents call that find their memory as functions of an engine.
//
// A function takes one JSON object and returns one JSON value. It knows nothing of how it was called:
// [Functions.Dialect] has the functions over HTTP, and package iii over the WebSocket of an engine.
//
// # Whose memories
//
// agentId names the agent, and sessionId the run, of a [memory.Scope]. A missing agentId is the agent of
// the key, or "default". What the key leaves open is open: without a user in the key, a store has none, and
// a recall looks at all users' memories of the agent. Keys that a function does not have are ignored.
package functions
