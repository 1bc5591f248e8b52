package daemon

import (
	"github.com/seed-7aedc3ff/memdb/services/server"
	"github.com/seed-7aedc3ff/memdb/services/server/mcp"
)

// dialects are those that programs speak.
func dialects() []*server.Dialect {
	return []*server.Dialect{mcp.Dialect()}
}
