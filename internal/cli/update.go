package cli

import (
	"reflect"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/memory"
)

const updateExample = `
memdbctl update launch "Launch is on Monday" --agent planner
memdbctl update launch --importance auto --expires never --pinned=false
memdbctl update launch --merge-metadata '{"team":"web","draft":null}'
fmt <notes.txt | memdbctl update notes -`

func (a *app) updateCmd() *cobra.Command {
	cmd := newCmd(groupMemories, "update ID [TEXT… | -]", "Change a memory", updateExample)
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usagef(cmd, "it takes an ID, and got none")
		}
		return nil
	}
	var (
		scope memory.Scope
		patch memory.Patch
	)
	scopeFlags(cmd, &scope)
	markNone(cmd)
	a.changeFlags(cmd, &patch)
	cmd.Flags().Func("merge-metadata", "change what this `JSON` object names of the metadata; a null removes", func(s string) (err error) {
		patch.MergeMetadata, err = readMetadata(s)
		return err
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 1 {
			text, err := a.readText(cmd.Context(), args[1:])
			if err != nil {
				return err
			}
			patch.Text = &text
		}
		if reflect.ValueOf(patch).IsZero() {
			return usagef(cmd, "there is nothing to change; give a text or a flag")
		}
		ctx := cmd.Context()
		return a.use(ctx, func(db *engine.DB) error {
			m, err := db.Memories().Lacking(lackOf(cmd)).Update(ctx, scope, args[0], patch)
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(exchange.Show(m, false))
			}
			a.printf("updated %s\n", escape(m.ID))
			return nil
		})
	}
	return cmd
}
