package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/api"
	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/memory"
)

const groupsExample = `
memdbctl groups --all-scopes
memdbctl groups --user ada --by run
memdbctl groups --all-scopes --by agent --json`

const groupsLong = `List users, agents, owners (pairs of user and agent) or runs, with how many
memories each has, and when the first and the last of them were created. A field
that is empty in a group means none.`

var groupColumns = []string{"MEMORIES", "FIRST", "LAST", "USER", "AGENT", "RUN"}

func (a *app) groupsCmd() *cobra.Command {
	var cmd *cobra.Command
	groups := *api.MemoryGroups
	groups.Summary = "List users, agents, owners or runs, with their numbers of memories"
	groups.Run = func(ctx context.Context, db *engine.DB, q *api.MemoryGroupsRequest, yield func(memory.GroupSize) error) (api.End, error) {
		if a.everyone {
			return api.End{}, a.groupEveryone(cmd, q, yield)
		}
		return api.MemoryGroups.Run(ctx, db, q, yield)
	}
	cmd = listCmd(a, &groups, listShown[api.MemoryGroupsRequest, memory.GroupSize]{
		help: help{long: groupsLong, example: groupsExample, group: groupMemories}, columns: columns[api.MemoryGroupsRequest](groupColumns...),
		cells: groupCells,
	})
	return cmd
}

func groupCells(g memory.GroupSize) []any {
	return []any{g.Memories, exchange.Time{Time: g.First}.String(), exchange.Time{Time: g.Last}.String(), g.User, g.Agent, g.Run}
}
