package daemon

import (
	"github.com/seed-7aedc3ff/memdb/services/config"
	"github.com/seed-7aedc3ff/memdb/services/server"
	"github.com/seed-7aedc3ff/memdb/services/server/agents"
	"github.com/seed-7aedc3ff/memdb/services/server/anthropic"
	"github.com/seed-7aedc3ff/memdb/services/server/chat"
	"github.com/seed-7aedc3ff/memdb/services/server/functions"
	"github.com/seed-7aedc3ff/memdb/services/server/langgraph"
	"github.com/seed-7aedc3ff/memdb/services/server/mcp"
	"github.com/seed-7aedc3ff/memdb/services/server/mem0"
	"github.com/seed-7aedc3ff/memdb/services/server/native"
)

// dialects are those that programs speak. The proxy for chats is one where it is configured.
func dialects(s *config.Server, env config.Lookup) []*server.Dialect {
	all := append([]*server.Dialect{
		native.New(), mcp.Dialect(), anthropic.New(nil), langgraph.New(nil), (&functions.Functions{}).Dialect(), agents.Dialect(),
	}, mem0.New()...)
	if s.Chat != nil && s.Chat.BaseURL != "" {
		all = append(all, chat.New(chat.Options{BaseURL: s.Chat.BaseURL, Key: s.Chat.Key(env), Tokens: s.Chat.Tokens}))
	}
	return all
}
