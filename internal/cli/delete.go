package cli

import (
	"context"
	"fmt"
	"reflect"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/api"
	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/memory"
)

const deleteExample = `
memdbctl delete launch --agent planner
memdbctl delete --all --user ada --run 2026-11-20
memdbctl delete --all --user ada --filter 'source = web_search and created_at < 2026-01-01'`

// deletion is what delete was asked for.
type deletion struct {
	api.MemoriesDeleteRequest
	ID string `path:"id" arg:"[ID]" help:"the ID of the memory"`
}

// deleteCmd is one command for two operations.
func (a *app) deleteCmd() *cobra.Command {
	var d deletion
	var all, yes bool
	op := api.MemoryDelete.Operation
	op.Summary = "Delete a memory, or all of a scope"
	cmd := a.operation(&op, api.FieldsOf(reflect.TypeFor[deletion]()), &d, help{example: deleteExample, group: groupMemories}, func(ctx context.Context, c *caller) error {
		n, err := a.delete(ctx, c.db, &d, all)
		if err != nil {
			return err
		}
		return a.printDeleted(n.Deleted)
	})
	cmd.Use = "delete ID | delete --all"
	cmd.Flags().BoolVar(&all, "all", false, "everything of the scope, which must be given, that fits the filter")
	cmd.Flags().BoolVar(&yes, "yes", false, "yes, of everyone; --all-scopes asks for it")
	alsoCheck(cmd, func(args []string) error {
		switch {
		case all && len(args) > 0:
			return usagef(cmd, "--all takes no ID")
		case !all && len(args) != 1:
			return usagef(cmd, "it takes one ID or --all, and got %s", count(len(args), "argument", "arguments"))
		case !all && (d.Filter != nil || d.AllScopes):
			return usagef(cmd, "--filter and --all-scopes go with --all, not with an ID")
		case d.AllScopes && !yes:
			return usagef(cmd, "--all-scopes deletes from everyone; say so with --yes")
		}
		return nil
	})
	return cmd
}

func (a *app) delete(ctx context.Context, db *engine.DB, d *deletion, all bool) (exchange.Deleted, error) {
	if !all {
		return api.MemoryDelete.Run(ctx, db, &api.Memory{Scope: d.Scope, ID: d.ID})
	}
	d.All = d.Filter == nil
	if _, err := a.warnFields(ctx, db, asked{scope: memory.Scope{User: d.User, Agent: d.Agent, Run: d.Run}, all: d.AllScopes}, d.Filter, ""); err != nil {
		return exchange.Deleted{}, err
	}
	return api.MemoriesDelete.Run(ctx, db, &d.MemoriesDeleteRequest)
}

func (a *app) printDeleted(n int) error {
	if a.json {
		return a.printJSON(exchange.Deleted{Deleted: n})
	}
	a.printf("deleted %s\n", number(n))
	return nil
}

// hasSome reports whether something was deleted.
func hasSome(deleted map[string]int64) bool {
	for _, n := range deleted {
		if n > 0 {
			return true
		}
	}
	return false
}

// nothingOf is the error of a deletion that found nothing.
func nothingOf(doing, id string) error {
	return &memory.Error{
		Kind: memory.ErrNotFound, What: fmt.Sprintf("%s %.80q", doing, id), Why: "the database has nothing of it",
		Do: "check the name; memdbctl groups --all-scopes shows which there are",
	}
}
