package cli

import (
	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/memory"
)

const groupsExample = `
memdbctl groups --all-scopes
memdbctl groups --user ada --by run
memdbctl groups --all-scopes --by agent --json`

func (a *app) groupsCmd() *cobra.Command {
	cmd := newCmd(groupMemories, "groups", "List users, agents, owners or runs, with their numbers of memories", groupsExample)
	cmd.Long = `List users, agents, owners (pairs of user and agent) or runs, with how many
memories each has, and when the first and the last of them were created. A field
that is empty in a group means none.`
	cmd.Args = exactly(0, "no argument")
	var q memory.GroupQuery
	scopeFlags(cmd, &q.Scope)
	cmd.Flags().BoolVar(&q.AllScopes, "all-scopes", false, everyoneHelp)
	cmd.Flags().StringVar((*string)(&q.By), "by", string(memory.GroupOwner), "user, agent, owner or run")
	complete(cmd, "by", string(memory.GroupUser), string(memory.GroupAgent), string(memory.GroupOwner), string(memory.GroupRun))
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if a.everyone {
			return a.groupEveryone(cmd, &q)
		}
		ctx := cmd.Context()
		return a.read(ctx, func(db *engine.DB) error {
			sizes, err := db.Memories().Groups(ctx, q)
			if err != nil {
				return err
			}
			return a.printGroups(sizes)
		})
	}
	return cmd
}

func (a *app) printGroups(sizes []memory.GroupSize) error {
	t := a.rows("MEMORIES", "FIRST", "LAST", "USER", "AGENT", "RUN")
	for _, g := range sizes {
		if err := t.add(g, g.Memories, exchange.Time{Time: g.First}.String(), exchange.Time{Time: g.Last}.String(), g.User, g.Agent, g.Run); err != nil {
			return err
		}
	}
	return t.end()
}
