package daemon

import (
	"github.com/seed-7aedc3ff/memdb/services/server"
	"github.com/seed-7aedc3ff/memdb/services/server/agents"
	"github.com/seed-7aedc3ff/memdb/services/server/anthropic"
	"github.com/seed-7aedc3ff/memdb/services/server/functions"
	"github.com/seed-7aedc3ff/memdb/services/server/langgraph"
	"github.com/seed-7aedc3ff/memdb/services/server/mcp"
	"github.com/seed-7aedc3ff/memdb/services/server/mem0"
	"github.com/seed-7aedc3ff/memdb/services/server/native"
)

// dialects are those that programs speak.
func dialects() []*server.Dialect {
	return append([]*server.Dialect{
		native.New(), mcp.Dialect(), anthropic.New(nil), langgraph.New(nil), (&functions.Functions{}).Dialect(), agents.Dialect(),
	}, mem0.New()...)
}
