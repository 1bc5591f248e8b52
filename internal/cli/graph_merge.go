package cli

import (
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/memory"
)

const graphMergeExample = `
memdbctl graph merge alice alice-johnson --agent a`

func (a *app) graphMergeCmd() *cobra.Command {
	cmd := newCmd("", "merge A B", "Merge the entity B into A, which takes its relations, names and links", graphMergeExample)
	cmd.Long = `Merge the entity B into A. The relations of B become those of A; its name and aliases
become aliases of A; its properties fill in those that A lacks; its links to memories move.
As of earlier LSNs both are what they were. unmerge B undoes it.`
	cmd.Args = exactly(2, "two IDs")
	var owner memory.Owner
	ownerFlags(cmd, &owner)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.joinEntities(cmd.Context(), "merged", func(g graph.Graph) (graph.Merged, error) {
			return g.Merge(cmd.Context(), owner, args[0], args[1])
		})
	}
	return cmd
}

const graphUnmergeExample = `
memdbctl graph unmerge alice-johnson --agent a`

func (a *app) graphUnmergeCmd() *cobra.Command {
	cmd := newCmd("", "unmerge ID", "Undo the merge of an entity into another", graphUnmergeExample)
	cmd.Args = exactly(1, "one ID")
	var owner memory.Owner
	ownerFlags(cmd, &owner)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.joinEntities(cmd.Context(), "restored", func(g graph.Graph) (graph.Merged, error) {
			return g.Unmerge(cmd.Context(), owner, args[0])
		})
	}
	return cmd
}

// joinEntities prints what a merge, or the undoing of one, has moved.
func (a *app) joinEntities(ctx context.Context, did string, join func(graph.Graph) (graph.Merged, error)) error {
	return a.use(ctx, func(db *engine.DB) error {
		m, err := join(db.Graph())
		if err != nil {
			return err
		}
		if a.json {
			return a.printJSON(m)
		}
		a.printf("%s %s with %s and %s\n", did, escape(m.ID), count(m.Relations, "relation", "relations"), count(m.Links, "link", "links"))
		return nil
	})
}

const graphDuplicatesExample = `
memdbctl graph duplicates --agent a
memdbctl graph duplicates --min-score 0.8 --agent a --json`

func (a *app) graphDuplicatesCmd() *cobra.Command {
	cmd := newCmd("", "duplicates", "Show pairs of entities that may be one, by names, aliases and neighbours", graphDuplicatesExample)
	cmd.Args = exactly(0, "no argument")
	var owner memory.Owner
	var o graph.DuplicateOptions
	ownerFlags(cmd, &owner)
	cmd.Flags().IntVar(&o.Limit, "limit", 100, limitHelp)
	cmd.Flags().Float64Var(&o.MinScore, "min-score", 0.5, "of this score at least, up to 1")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if o.Limit < 1 || o.MinScore <= 0 || o.MinScore > 1 {
			return usagef(cmd, "--limit is at least 1, and --min-score above 0 and up to 1")
		}
		ctx := cmd.Context()
		return a.read(ctx, func(db *engine.DB) error {
			d, err := db.Graph().Duplicates(ctx, owner, o)
			if err != nil {
				return err
			}
			if err := a.noteLimit(d.Plan, len(d.Pairs)); err != nil {
				return err
			}
			t := a.rows("SCORE", "A", "B", "WHY")
			for _, p := range d.Pairs {
				if err := t.add(p, strconv.FormatFloat(p.Score, 'f', 2, 64), p.A, p.B, strings.Join(p.Why, ", ")); err != nil {
					return err
				}
			}
			return t.end()
		})
	}
	return cmd
}
