package main

import (
	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/engine"
)

const deleteExample = `
memdbctl delete launch --agent planner
memdbctl delete --all --user ada --run 2026-11-20`

func (a *app) deleteCmd() *cobra.Command {
	cmd := newCmd(groupMemories, "delete ID | delete --all", "Delete a memory, or all of a scope", deleteExample)
	var (
		scope engine.Scope
		all   bool
	)
	scopeFlags(cmd, &scope)
	cmd.Flags().BoolVar(&all, "all", false, "everything of the scope, which must be given")
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		switch {
		case all && len(args) > 0:
			return usagef(cmd, "--all takes no ID")
		case !all && len(args) != 1:
			return usagef(cmd, "it takes one ID or --all, and got %d arguments", len(args))
		}
		return nil
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		return a.use(ctx, func(db *engine.DB) error {
			if !all {
				if err := db.Memories().Delete(ctx, scope, args[0]); err != nil {
					return err
				}
				return a.printDeleted(1)
			}
			n, err := db.Memories().DeleteScope(ctx, scope)
			if err != nil {
				return err
			}
			return a.printDeleted(n)
		})
	}
	return cmd
}

// deletedJSON is the result of a delete.
type deletedJSON struct {
	Deleted int `json:"deleted"`
}

func (a *app) printDeleted(n int) error {
	if a.json {
		return a.printJSON(deletedJSON{n})
	}
	a.printf("deleted %s\n", number(n))
	return nil
}
