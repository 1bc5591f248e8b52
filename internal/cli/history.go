package cli

import (
	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/api"
	"github.com/seed-7aedc3ff/memdb/exchange"
)

const historyExample = `
memdbctl history launch --agent planner
memdbctl history 7c9e6679-7425-40de-944b-e07fc1f90ae7 --json`

func (a *app) historyCmd() *cobra.Command {
	return listCmd(a, api.MemoryHistory, listShown[api.MemoryHistoryRequest, exchange.Past]{
		help: help{example: historyExample, group: groupMemories}, columns: columns[api.MemoryHistoryRequest]("TIME", "EVENT", "TEXT"),
		cells: func(p exchange.Past) []any { return []any{p.Time.String(), string(p.Event), pastText(p)} },
	})
}

// pastText is the text after the change, or the one that was deleted.
func pastText(p exchange.Past) string {
	switch {
	case p.NewText != nil:
		return *p.NewText
	case p.OldText != nil:
		return *p.OldText
	}
	return ""
}
