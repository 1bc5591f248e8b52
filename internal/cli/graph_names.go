package cli

import (
	"strconv"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/memory"
)

const graphLookupExample = `
memdbctl graph lookup 'alise jonson' --agent a
memdbctl graph lookup johnson --type person --limit 3 --agent a --json`

func (a *app) graphLookupCmd() *cobra.Command {
	cmd := newCmd("", "lookup NAME", "Show the entities with a name or an alias like one, slips of the pen too", graphLookupExample)
	cmd.Args = exactly(1, "one name")
	var owner memory.Owner
	var o graph.LookupOptions
	ownerFlags(cmd, &owner)
	cmd.Flags().StringVar(&o.Type, "type", "", "of this type")
	cmd.Flags().IntVar(&o.Limit, "limit", 10, limitHelp)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if o.Limit < 1 {
			return usagef(cmd, "--limit is at least 1")
		}
		ctx := cmd.Context()
		return a.read(ctx, func(db *engine.DB) error {
			l, err := db.Graph().Lookup(ctx, owner, args[0], o)
			if err != nil {
				return err
			}
			if err := a.noteLimit(l.Plan, len(l.Named)); err != nil {
				return err
			}
			t := a.rows("SCORE", "ID", "TYPE", "NAME")
			for _, n := range l.Named {
				if err := t.add(map[string]any{"id": n.ID, "entity_type": n.Type, "name": n.Name, "matched": n.Matched, "score": n.Score}, strconv.FormatFloat(n.Score, 'f', 2, 64), n.ID, n.Type, n.Matched); err != nil {
					return err
				}
			}
			return t.end()
		})
	}
	return cmd
}

const graphDegreesExample = `
memdbctl graph degrees --agent a
memdbctl graph degrees --type person --relation knows --agent a`

func (a *app) graphDegreesCmd() *cobra.Command {
	cmd := newCmd("", "degrees", "Show the entities that have the most relations", graphDegreesExample)
	cmd.Args = exactly(0, "no argument")
	var owner memory.Owner
	var o graph.DegreeOptions
	ownerFlags(cmd, &owner)
	cmd.Flags().StringVar(&o.Type, "type", "", "entities of this type")
	cmd.Flags().StringVar(&o.Relation, "relation", "", "relations of this `type`")
	cmd.Flags().IntVar(&o.Limit, "limit", 10, limitHelp)
	a.stateFlags(cmd, &o.State)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if o.Limit < 1 {
			return usagef(cmd, "--limit is at least 1")
		}
		ctx := cmd.Context()
		return a.read(ctx, func(db *engine.DB) error {
			d, err := db.Graph().Degrees(ctx, owner, o)
			if err != nil {
				return err
			}
			if err := a.noteLimit(d.Plan, len(d.Degrees)); err != nil {
				return err
			}
			t := a.rows("OUT", "IN", "ID")
			for _, e := range d.Degrees {
				if err := t.add(e, e.Out, e.In, e.ID); err != nil {
					return err
				}
			}
			return t.end()
		})
	}
	return cmd
}

const graphCountsExample = `
memdbctl graph counts --agent a`

func (a *app) graphCountsCmd() *cobra.Command {
	cmd := newCmd("", "counts", "Show how many entities and relations there are of each type", graphCountsExample)
	cmd.Args = exactly(0, "no argument")
	var owner memory.Owner
	var s graph.State
	ownerFlags(cmd, &owner)
	a.stateFlags(cmd, &s)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx := cmd.Context()
		return a.read(ctx, func(db *engine.DB) error {
			c, err := db.Graph().Counts(ctx, owner, s)
			if err != nil {
				return err
			}
			if err := a.noteLimit(c.Plan, len(c.Entities)); err != nil {
				return err
			}
			t := a.rows("COUNT", "OF", "TYPE")
			for _, of := range []struct {
				what   string
				counts []graph.TypeCount
			}{{graph.TypeEntity, c.Entities}, {graph.TypeRelation, c.Relations}} {
				for _, n := range of.counts {
					if err := t.add(map[string]any{"of": of.what, "type": n.Type, "count": n.Count}, n.Count, of.what, n.Type); err != nil {
						return err
					}
				}
			}
			return t.end()
		})
	}
	return cmd
}
