package cli

import (
	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/memory"
)

const historyExample = `
memdbctl history launch --agent planner
memdbctl history 7c9e6679-7425-40de-944b-e07fc1f90ae7 --json`

func (a *app) historyCmd() *cobra.Command {
	cmd := newCmd(groupMemories, "history ID", "Show what happened to a memory, also to a deleted one", historyExample)
	cmd.Args = exactly(1, "one ID")
	var scope memory.Scope
	scopeFlags(cmd, &scope)
	markNone(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		return a.read(ctx, func(db *engine.DB) error {
			entries, err := db.Memories().Lacking(lackOf(cmd)).History(ctx, scope, args[0])
			if err != nil {
				return err
			}
			return a.printHistory(entries)
		})
	}
	return cmd
}

func (a *app) printHistory(entries []memory.HistoryEntry) error {
	t := a.rows("TIME", "EVENT", "TEXT")
	for _, e := range entries {
		if err := t.add(exchange.NewPast(e), exchange.Time{Time: e.Time}.String(), string(e.Event), historyText(e)); err != nil {
			return err
		}
	}
	return t.end()
}

// historyText is the text after the change, or the one that was deleted.
func historyText(e memory.HistoryEntry) string {
	switch {
	case e.NewText != nil:
		return *e.NewText
	case e.OldText != nil:
		return *e.OldText
	}
	return ""
}
