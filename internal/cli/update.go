package cli

import (
	"reflect"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/api"
	"github.com/seed-7aedc3ff/memdb/exchange"
)

const updateExample = `
memdbctl update launch "Launch is on Monday" --agent planner
memdbctl update launch --importance auto --expires never --pinned=false
memdbctl update launch --merge-metadata '{"team":"web","draft":null}'
fmt <notes.txt | memdbctl update notes -`

func (a *app) updateCmd() *cobra.Command {
	return opCmd(a, api.MemoryUpdate, shown[api.MemoryUpdateRequest, exchange.Record]{
		help: help{example: updateExample, group: groupMemories},
		more: func(cmd *cobra.Command, q *api.MemoryUpdateRequest) {
			cmd.Use = "update ID [TEXT… | -]"
			importanceFlag(cmd, &q.Importance, &q.AutoImportance)
			alsoCheck(cmd, func(args []string) error {
				if len(args) == 1 && reflect.ValueOf(q.MemoryChange).IsZero() {
					return usagef(cmd, "there is nothing to change; give a text or a flag")
				}
				return nil
			})
		},
		show: func(_ *api.MemoryUpdateRequest, r exchange.Record) { a.printf("updated %s\n", escape(r.ID)) },
	})
}

// importanceFlag is --importance, which can be auto.
func importanceFlag(cmd *cobra.Command, fixed **float64, auto *bool) {
	cmd.Flags().Func("importance", "from 0 to 1, or auto: computed from the text", func(s string) error {
		if *auto = s == "auto"; *auto {
			return nil
		}
		return parseShare(s, fixed)
	})
}
