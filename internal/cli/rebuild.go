package cli

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/exchange"
)

const rebuildExample = `
memdbctl rebuild text
memdbctl rebuild vectors --db ./locomo.data
memdbctl rebuild all --json`

// rebuildable are the indexes that rebuild takes, without all.
var rebuildable = []string{engine.IndexText, engine.IndexVectors, engine.IndexGraph}

func (a *app) rebuildCmd() *cobra.Command {
	cmd := newCmd(groupDatabase, "rebuild INDEX", "Rebuild an index from what is stored", rebuildExample)
	cmd.Long = `Rebuild an index from what is stored, beside programs that use the database: after
check has named it as a remedy, or after an upgrade that splits text into other words.

  text     the index of words and filters, from the memories; the new one replaces
           the old one in one commit
  vectors  the index of each vector space, from the vectors; it takes as much memory
           again until the new one takes the place of the old, and of its snapshot
  graph    the keys by which entities and relations are found, and their counts, in small
           commits; keys that lead to nothing are removed
  all      these three, one after the other

Interrupted, it leaves what is found as it was, or better; the next call begins again.`
	names := append(slices.Clone(rebuildable), engine.IndexAll)
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 || !slices.Contains(names, args[0]) {
			return usagef(cmd, "it takes the name of an index: text, vectors, graph or all")
		}
		return nil
	}
	cmd.ValidArgs = names
	cmd.ValidArgsFunction = nil
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		indexes := args
		if args[0] == engine.IndexAll {
			indexes = rebuildable
		}
		return a.use(ctx, func(db *engine.DB) error {
			for _, index := range indexes {
				if err := a.rebuild(ctx, db, index); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return cmd
}

func (a *app) rebuild(ctx context.Context, db *engine.DB, index string) error {
	r := exchange.Rebuilt{Index: index}
	count := r.Count()
	*count = new(int64)
	bar := &progress{app: a}
	err := db.Rebuild(ctx, index, func(done, of int64) {
		**count = done
		if of > 0 {
			bar.say("rebuild %s: %s of %s", index, number(done), number(of))
		} else {
			bar.say("rebuild %s: %s looked at", index, number(done))
		}
	})
	bar.clear()
	if err != nil {
		return err
	}
	return a.printRebuilt(&r)
}

func (a *app) printRebuilt(r *exchange.Rebuilt) error {
	if a.json {
		return a.printJSON(r)
	}
	one, many := "document", "documents"
	switch r.Index {
	case engine.IndexVectors:
		one, many = "vector", "vectors"
	case engine.IndexGraph:
		one, many = "key", "keys"
	}
	a.printf("rebuilt %s: %s\n", r.Index, count(**r.Count(), one, many))
	return nil
}
