package cli

import (
	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/services/facts"
)

// The verbs of one fact, and those that delete.

func (a *app) factGetCmd() *cobra.Command {
	cmd := newCmd("", "get ID", "Show a fact", "\nmemdbctl fact get 7c9e6679-7425-40de-944b-e07fc1f90ae7 --json")
	cmd.Args = exactly(1, "one ID")
	var scope memory.Scope
	scopeFlags(cmd, &scope)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		return a.withFacts(ctx, a.read, func(f *facts.Facts) error {
			item, err := f.Get(ctx, scope, args[0])
			if err != nil {
				return err
			}
			if item == nil {
				return noFact("get "+args[0], "there is no such fact")
			}
			return a.printFact(*item)
		})
	}
	return cmd
}

// noFact is the error of a fact that there is not.
func noFact(what, why string) error {
	return &memory.Error{Kind: memory.ErrNotFound, What: what, Why: why, Do: "check the ID and the scope; memdbctl fact list shows what there is"}
}

// printFact prints everything about a fact.
func (a *app) printFact(item facts.Item) error {
	if a.json {
		return a.printJSON(item)
	}
	t := &table{header: []string{"", ""}, whole: true}
	for _, row := range [][2]string{
		{"id", item.ID},
		{"user", item.Scope.User},
		{"agent", item.Scope.Agent},
		{"run", item.Scope.Run},
		{"hash", item.Hash},
		{"created", exchange.Time{Time: item.CreatedAt}.String()},
		{"updated", exchange.Time{Time: item.UpdatedAt}.String()},
		{"metadata", compactJSON(item.Metadata)},
		{"text", item.Memory},
	} {
		if row[1] != "" && row[1] != "null" {
			t.add(row[0], row[1])
		}
	}
	a.printTable(t)
	return nil
}

func (a *app) factUpdateCmd() *cobra.Command {
	cmd := newCmd("", "update ID TEXT… | update ID -", "Change the text of a fact", `
memdbctl fact update 7c9e6679-7425-40de-944b-e07fc1f90ae7 "User lives in Ghent"`)
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) < 2 {
			return usagef(cmd, "it takes an ID and a text, and got %s", count(len(args), "argument", "arguments"))
		}
		return nil
	}
	var scope memory.Scope
	scopeFlags(cmd, &scope)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		text, err := a.readText(ctx, args[1:])
		if err != nil {
			return err
		}
		return a.withFacts(ctx, a.use, func(f *facts.Facts) error {
			item, err := f.Update(ctx, scope, args[0], text)
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(item)
			}
			a.printf("updated %s\n", escape(item.ID))
			return nil
		})
	}
	return cmd
}

func (a *app) factDeleteCmd() *cobra.Command {
	cmd := newCmd("", "delete ID", "Delete a fact; its history stays", "\nmemdbctl fact delete 7c9e6679-7425-40de-944b-e07fc1f90ae7")
	cmd.Args = exactly(1, "one ID")
	var scope memory.Scope
	scopeFlags(cmd, &scope)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		return a.withFacts(ctx, a.use, func(f *facts.Facts) error {
			if err := f.Delete(ctx, scope, args[0]); err != nil {
				return err
			}
			return a.printDeleted(1)
		})
	}
	return cmd
}

func (a *app) factDeleteAllCmd() *cobra.Command {
	cmd := newCmd("", "delete-all", "Delete the facts of a scope; their history stays", "\nmemdbctl fact delete-all --user ada --run 2026-11-20")
	cmd.Args = exactly(0, "no argument")
	var scope memory.Scope
	scopeFlags(cmd, &scope)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx := cmd.Context()
		return a.withFacts(ctx, a.use, func(f *facts.Facts) error {
			n, err := f.DeleteAll(ctx, scope)
			if err != nil {
				return err
			}
			return a.printDeleted(n)
		})
	}
	return cmd
}

func (a *app) factHistoryCmd() *cobra.Command {
	cmd := newCmd("", "history ID", "Show what happened to a fact, also to a deleted one", "\nmemdbctl fact history 7c9e6679-7425-40de-944b-e07fc1f90ae7 --json")
	cmd.Args = exactly(1, "one ID")
	var scope memory.Scope
	scopeFlags(cmd, &scope)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		return a.withFacts(ctx, a.read, func(f *facts.Facts) error {
			records, err := f.History(ctx, scope, args[0])
			if err != nil {
				return err
			}
			if len(records) == 0 {
				return noFact("history of "+args[0], "there never was such a fact, or a reset came after it")
			}
			return a.printRecords(records)
		})
	}
	return cmd
}

func (a *app) printRecords(records []facts.Record) error {
	t := a.rows("TIME", "EVENT", "TEXT")
	for _, r := range records {
		text := r.NewValue
		if text == nil {
			text = r.OldValue
		}
		if err := t.add(r, exchange.Time{Time: r.Timestamp}.String(), string(r.Event), *text); err != nil {
			return err
		}
	}
	return t.end()
}

func (a *app) factResetCmd() *cobra.Command {
	cmd := newCmd("", "reset --yes", "Delete the facts of everyone, with their history", "\nmemdbctl fact reset --yes")
	cmd.Long = `Delete the facts of everyone, the graph that was made of them, and their history, in
one commit. What else the database holds stays.`
	cmd.Args = exactly(0, "no argument")
	var yes bool
	cmd.Flags().BoolVar(&yes, "yes", false, "yes, of everyone")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if !yes {
			return usagef(cmd, "it deletes the facts of everyone in %s; say so with --yes", a.dir)
		}
		ctx := cmd.Context()
		return a.withFacts(ctx, a.use, func(f *facts.Facts) error {
			n, err := f.Reset(ctx)
			if err != nil {
				return err
			}
			return a.printDeleted(n)
		})
	}
	return cmd
}
