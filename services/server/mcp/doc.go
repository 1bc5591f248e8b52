// Package mcp has a model work with a database over the Model Context Protocol.
//
// A client, such as a desktop assistant or an editor, lists the tools of a server and calls them
// for its model. Two transports carry that: the input and output of a process ([Serve], which
// memdbctl mcp runs), and HTTP ([Dialect], /mcp of memdbd). Both speak the revisions 2026-07-28,
// without sessions, and those from 2024-11-05 to 2025-11-25, which begin with initialize. Over HTTP
// every request stands for itself in all revisions: a server that starts anew loses no client.
//
// # Scope
//
// Whose memories are meant is said by the configuration, or by the key of a request, and by no
// argument of a tool: a model cannot name another scope.
//
// # Tools
//
// [Memdb] are the tools of the database. [Reference] are the nine tools of the protocol's reference
// memory server, with its results, over the graph: an entity is one with a name, its ID is the name,
// and its observations are a property. [Anthropic] is one tool, memory, with six commands on notes
// as files below /memories.
//
// A tool that fails answers with isError, and with a text that says what to do next.
package mcp
