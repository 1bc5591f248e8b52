package cli

import (
	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/engine"
)

const resetExample = `
memdbctl reset --yes`

func (a *app) resetCmd() *cobra.Command {
	cmd := newCmd(groupDatabase, "reset --yes", "Delete everything: memories, history, keys and values", resetExample)
	cmd.Args = exactly(0, "no argument")
	var yes bool
	cmd.Flags().BoolVar(&yes, "yes", false, "yes, everything; there is no way back")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if !yes {
			return usagef(cmd, "it deletes everything in %s; say so with --yes", a.dir)
		}
		ctx := cmd.Context()
		return a.use(ctx, func(db *engine.DB) error {
			n, err := db.Reset(ctx)
			if err != nil {
				return err
			}
			return a.printDeleted(n)
		})
	}
	return cmd
}
