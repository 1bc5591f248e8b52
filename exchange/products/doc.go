// Package products says how things of other products are kept in memdb: the importers of their
// files and the servers that speak their dialects translate with it, in both directions. So a
// memory is the same record whether it was imported or sent to a server.
//
// mem0.go has memories of mem0, mcp.go the knowledge graph of the reference memory server of the
// Model Context Protocol, and files.go the files of Anthropic's memory tool and memory stores.
package products
