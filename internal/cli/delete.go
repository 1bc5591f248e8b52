package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/memory"
)

const deleteExample = `
memdbctl delete launch --agent planner
memdbctl delete --all --user ada --run 2026-11-20
memdbctl delete --all --user ada --filter 'source = web_search and created_at < 2026-01-01'`

func (a *app) deleteCmd() *cobra.Command {
	cmd := newCmd(groupMemories, "delete ID | delete --all", "Delete a memory, or all of a scope", deleteExample)
	var (
		q        memory.DeleteQuery
		all, yes bool
	)
	scopeFlags(cmd, &q.Scope)
	markNone(cmd)
	filterFlag(cmd, &q.Filter)
	cmd.Flags().BoolVar(&q.AllScopes, "all-scopes", false, everyoneHelp)
	cmd.Flags().BoolVar(&all, "all", false, "everything of the scope, which must be given, that fits the filter")
	cmd.Flags().BoolVar(&yes, "yes", false, "yes, of everyone; --all-scopes asks for it")
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		switch {
		case all && len(args) > 0:
			return usagef(cmd, "--all takes no ID")
		case !all && len(args) != 1:
			return usagef(cmd, "it takes one ID or --all, and got %s", count(len(args), "argument", "arguments"))
		case !all && (q.Filter != nil || q.AllScopes):
			return usagef(cmd, "--filter and --all-scopes go with --all, not with an ID")
		case q.AllScopes && !yes:
			return usagef(cmd, "--all-scopes deletes from everyone; say so with --yes")
		}
		return nil
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		return a.use(ctx, func(db *engine.DB) error {
			if !all {
				if err := db.Memories().Lacking(lackOf(cmd)).Delete(ctx, q.Scope, args[0]); err != nil {
					return err
				}
				return a.printDeleted(1)
			}
			withNone(cmd, &q.Filter)
			if _, err := a.warnFields(ctx, db, asked{scope: q.Scope, all: q.AllScopes}, q.Filter, ""); err != nil {
				return err
			}
			n, err := deleteAll(ctx, db.Memories(), q)
			if err != nil {
				return err
			}
			return a.printDeleted(n)
		})
	}
	return cmd
}

// deleteAll deletes what a query selects, by the call that says how much that is.
func deleteAll(ctx context.Context, m engine.Memories, q memory.DeleteQuery) (int, error) {
	switch {
	case q.Filter != nil:
		return m.DeleteMatching(ctx, q)
	case q.AllScopes && q.Scope == (memory.Scope{}):
		return m.DeleteAll(ctx)
	}
	return m.DeleteScope(ctx, q.Scope)
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
