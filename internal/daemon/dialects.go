package daemon

import (
	"slices"

	"github.com/seed-7aedc3ff/memdb/services/server"
	"github.com/seed-7aedc3ff/memdb/services/server/mcp"
	"github.com/seed-7aedc3ff/memdb/services/server/mem0"
	"github.com/seed-7aedc3ff/memdb/services/server/native"
)

// dialects are those that programs speak.
func dialects() []*server.Dialect {
	return slices.Concat([]*server.Dialect{native.New(), mcp.Dialect()}, mem0.New())
}
