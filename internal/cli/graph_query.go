package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/memory"
)

const graphQueryExample = `
memdbctl graph query alice --agent a
memdbctl graph query alice --depth 3 --agent a --json`

func (a *app) graphQueryCmd() *cobra.Command {
	cmd := newCmd("", "query ID", "Show the entities around one, breadth first in both directions", graphQueryExample)
	cmd.Args = exactly(1, "one ID")
	var owner memory.Owner
	var s graph.State
	var depth int
	ownerFlags(cmd, &owner)
	cmd.Flags().IntVar(&depth, "depth", graph.DefaultDepth, "so many relations away at most")
	a.stateFlags(cmd, &s)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if depth < 0 {
			return usagef(cmd, "--depth %d: it is negative", depth)
		}
		ctx := cmd.Context()
		return a.read(ctx, func(db *engine.DB) error {
			w, err := db.Graph().Query(ctx, owner, args[0], depth, s)
			if err != nil {
				return err
			}
			return a.printWalk(ctx, db, owner, w, s)
		})
	}
	return cmd
}

// printWalk prints what a query has reached.
func (a *app) printWalk(ctx context.Context, db *engine.DB, o memory.Owner, w graph.Walk, s graph.State) error {
	if err := a.printFound(ctx, db, o, w.Found, s, true); err != nil {
		return err
	}
	return a.noteLimit(w.Plan, len(w.Found))
}

const graphFindExample = `
memdbctl graph find alice --relation works_on --agent a
memdbctl graph find memdb --relation inverse:works_on --hops 2 --agent a`

func (a *app) graphFindCmd() *cobra.Command {
	cmd := newCmd("", "find ID", "Show the entities that one has relations to", graphFindExample)
	cmd.Args = exactly(1, "one ID")
	var owner memory.Owner
	var f graph.FindOptions
	ownerFlags(cmd, &owner)
	cmd.Flags().StringVar(&f.Relation, "relation", "", "along relations of this `type`; inverse:T goes along those of type T backwards")
	cmd.Flags().IntVar(&f.Hops, "hops", 1, "so many relations away at most")
	cmd.Flags().IntVar(&f.Limit, "limit", 0, limitHelp+" (0: all)")
	a.stateFlags(cmd, &f.State)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if f.Hops < 1 || f.Limit < 0 {
			return usagef(cmd, "--hops is at least 1, and --limit 0 or more")
		}
		ctx := cmd.Context()
		return a.read(ctx, func(db *engine.DB) error {
			w, err := db.Graph().Find(ctx, owner, args[0], f)
			if err != nil {
				return err
			}
			return a.printWalk(ctx, db, owner, w, f.State)
		})
	}
	return cmd
}

const graphMatchExample = `
memdbctl graph match --from-type person --relation works_for --to-name OpenAI --agent a`

func (a *app) graphMatchCmd() *cobra.Command {
	cmd := newCmd("", "match", "Show the ways that fit a pattern: (type or name) -[relation]-> (type or name)", graphMatchExample)
	cmd.Args = exactly(0, "no argument")
	var owner memory.Owner
	var p graph.Pattern
	ownerFlags(cmd, &owner)
	flags := cmd.Flags()
	flags.StringVar(&p.From.Type, "from-type", "", "it begins with an entity of this type")
	flags.StringVar(&p.From.Name, "from-name", "", "it begins with an entity of this name or alias")
	flags.StringVar(&p.Relation, "relation", "", "along relations of this `type`; inverse:T goes along those of type T backwards")
	flags.StringVar(&p.To.Type, "to-type", "", "it ends with an entity of this type")
	flags.StringVar(&p.To.Name, "to-name", "", "it ends with an entity of this name or alias")
	flags.IntVar(&p.Hops, "hops", 1, "so many relations at most, up to 3")
	flags.IntVar(&p.Limit, "limit", 0, limitHelp+" (0: all)")
	a.stateFlags(cmd, &p.State)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if p.Hops < 1 || p.Hops > graph.MaxHops || p.Limit < 0 {
			return usagef(cmd, "--hops is 1 to %d, and --limit 0 or more", graph.MaxHops)
		}
		ctx := cmd.Context()
		return a.read(ctx, func(db *engine.DB) error {
			m, err := db.Graph().Match(ctx, owner, p)
			if err != nil {
				return err
			}
			w := &graph.Matcher{Graph: db.Graph(), Owner: owner, State: p.State}
			if err := a.printMatches(ctx, w, m.Matches); err != nil {
				return err
			}
			return a.noteLimit(m.Plan, len(m.Matches))
		})
	}
	return cmd
}

// printMatches prints matches, in JSON with the records of their ends and relations.
func (a *app) printMatches(ctx context.Context, w *graph.Matcher, all []graph.Match) error {
	t := a.rows("FROM", "RELATION", "TO")
	for _, m := range all {
		if a.json {
			line, err := w.Line(ctx, m)
			if err == nil {
				err = t.add(line)
			}
			if err != nil {
				return err
			}
			continue
		}
		for _, h := range m {
			if err := t.add(nil, h.From, h.Type, h.To); err != nil {
				return err
			}
		}
	}
	return t.end()
}
