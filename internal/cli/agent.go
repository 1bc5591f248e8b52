package cli

import (
	"encoding/json"
	"errors"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/usage"
)

const agentExample = `
memdbctl agent add researcher --name "The researcher" --metadata '{"team":"search"}'
memdbctl agent list
memdbctl agent delete researcher --yes`

func (a *app) agentCmd() *cobra.Command {
	cmd := newCmd(groupMemories, "agent", "Keep manifests of agents, and delete an agent with all it has", agentExample)
	return withVerbs(cmd, a.agentAddCmd(), a.agentGetCmd(), a.agentListCmd(), a.agentDeleteCmd())
}

func (a *app) printAgents(agents ...usage.Agent) error {
	t := a.rows("AGENT", "NAME", "CREATED", "METADATA")
	for _, g := range agents {
		if err := t.add(usage.NewAgentLine(g), g.ID, g.Name, exchange.Time{Time: g.CreatedAt}.String(), string(g.Metadata)); err != nil {
			return err
		}
	}
	return t.end()
}

func (a *app) agentAddCmd() *cobra.Command {
	cmd := newCmd("", "add ID", "Store the manifest of an agent", "\nmemdbctl agent add researcher --name \"The researcher\"")
	cmd.Args = exactly(1, "one ID")
	var g usage.Agent
	cmd.Flags().StringVar(&g.Name, "name", "", "a `name` to show")
	cmd.Flags().Func("metadata", "any facts about it, a `JSON` object", func(s string) error {
		g.Metadata = json.RawMessage(s)
		_, err := exchange.ParseObject(s)
		return err
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		g.ID = args[0]
		ctx := cmd.Context()
		return a.create(ctx, nil, func(db *engine.DB) error {
			added, err := db.Usage().AddAgent(ctx, g)
			if err != nil {
				return err
			}
			return a.printAgents(added)
		})
	}
	return cmd
}

func (a *app) agentGetCmd() *cobra.Command {
	cmd := newCmd("", "get ID", "Show the manifest of an agent", "\nmemdbctl agent get researcher --json")
	cmd.Args = exactly(1, "one ID")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		return a.read(ctx, func(db *engine.DB) error {
			g, err := db.Usage().Agent(ctx, args[0])
			if err != nil {
				return err
			}
			return a.printAgents(g)
		})
	}
	return cmd
}

func (a *app) agentListCmd() *cobra.Command {
	cmd := newCmd("", "list", "List the agents that have a manifest", "\nmemdbctl agent list")
	cmd.Args = exactly(0, "no argument")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx := cmd.Context()
		return a.read(ctx, func(db *engine.DB) error {
			all, err := db.Usage().Agents(ctx)
			if err != nil {
				return err
			}
			return a.printAgents(all...)
		})
	}
	return cmd
}

func (a *app) agentDeleteCmd() *cobra.Command {
	cmd := newCmd("", "delete ID --yes", "Delete an agent with all it has", "\nmemdbctl agent delete researcher --yes")
	cmd.Long = `Delete the manifest of an agent, and all that belongs to it, of every user and of
none, in one commit. The history of its memories stays, with their texts, and so do its
name and the changes in the log, until the policy lets go of them: "memdbctl erase --agent"
takes all of it, and rewrites the files.`
	cmd.Args = exactly(1, "one ID")
	var yes bool
	cmd.Flags().BoolVar(&yes, "yes", false, "yes, all that it has")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !yes {
			return usagef(cmd, "it deletes all that %s has; say so with --yes", cut(args[0], 60))
		}
		ctx := cmd.Context()
		return a.use(ctx, func(db *engine.DB) error {
			_, unnamed := db.Usage().Agent(ctx, args[0]) // ErrNotFound without a manifest
			var n map[string]int64
			err := a.during("agent delete", func() (err error) {
				n, err = db.DeleteAgent(ctx, args[0])
				return err
			})
			if err != nil {
				return err
			}
			if errors.Is(unnamed, memory.ErrNotFound) && !hasSome(n) {
				return nothingOf("delete the agent", args[0])
			}
			out := exchange.NewAgentDeleted(n)
			if !a.json {
				a.printf("deleted %s and %s\n", count(n["memories"], "memory", "memories"), count(n["entries"]+n["sessions"]+n["entities"]+n["relations"]+n["usage"], "thing beside", "things beside"))
				a.printf("left: %s: %s\n", out.Left[0].What, out.Left[0].Why)
				return nil
			}
			return a.printJSON(out)
		})
	}
	return cmd
}
