package cli

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/memory"
)

const graphPathExample = `
memdbctl graph path alice memdb --agent a`

func (a *app) graphPathCmd() *cobra.Command {
	cmd := newCmd("", "path FROM TO", "Show a shortest way between two entities, in both directions", graphPathExample)
	cmd.Args = exactly(2, "two IDs")
	var owner memory.Owner
	var s graph.State
	ownerFlags(cmd, &owner)
	a.stateFlags(cmd, &s)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		return a.read(ctx, func(db *engine.DB) error {
			p, err := db.Graph().Path(ctx, owner, args[0], args[1], s)
			if err != nil {
				return err
			}
			if !p.Found {
				if err := a.noteLimit(p.Plan, 0); err != nil {
					return err
				}
				return &memory.Error{Kind: memory.ErrNotFound, What: "find a path", Why: "no relations lead from the one to the other", Do: "check the IDs and the owner"}
			}
			t := a.rows("FROM", "RELATION", "TO")
			for _, h := range p.Hops {
				if err := t.add(map[string]string{"from": h.From, "relation": h.Type, "to": h.To}, h.From, h.Type, h.To); err != nil {
					return err
				}
			}
			return t.end()
		})
	}
	return cmd
}

const graphRankExample = `
memdbctl graph rank alice memdb --agent a`

func (a *app) graphRankCmd() *cobra.Command {
	cmd := newCmd("", "rank ID…", "Show the entities nearest to some, by personalised PageRank", graphRankExample)
	cmd.Args = cobra.MinimumNArgs(1)
	var owner memory.Owner
	var o graph.RankOptions
	ownerFlags(cmd, &owner)
	cmd.Flags().IntVar(&o.Limit, "limit", 10, limitHelp)
	a.stateFlags(cmd, &o.State)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if o.Limit < 1 {
			return usagef(cmd, "--limit is at least 1")
		}
		ctx := cmd.Context()
		return a.read(ctx, func(db *engine.DB) error {
			r, err := db.Graph().Rank(ctx, owner, args, o)
			if err != nil {
				return err
			}
			if err := a.noteLimit(r.Plan, len(r.Ranked)); err != nil {
				return err
			}
			t := a.rows("RANK", "ID")
			for _, e := range r.Ranked {
				if err := t.add(map[string]any{"id": e.ID, "rank": e.Rank}, strconv.FormatFloat(e.Rank, 'f', 4, 64), e.ID); err != nil {
					return err
				}
			}
			return t.end()
		})
	}
	return cmd
}

const graphComponentsExample = `
memdbctl graph components --agent a`

func (a *app) graphComponentsCmd() *cobra.Command {
	cmd := newCmd("", "components", "Show the parts of the graph that no relation connects", graphComponentsExample)
	cmd.Args = exactly(0, "no argument")
	var owner memory.Owner
	var s graph.State
	ownerFlags(cmd, &owner)
	a.stateFlags(cmd, &s)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx := cmd.Context()
		return a.read(ctx, func(db *engine.DB) error {
			c, err := db.Graph().Components(ctx, owner, s)
			if err != nil {
				return err
			}
			if err := a.noteLimit(c.Plan, len(c.Components)); err != nil {
				return err
			}
			t := a.rows("SIZE", "FIRST")
			for _, part := range c.Components {
				if err := t.add(map[string]any{"size": part.Size, "first": part.First}, part.Size, part.First); err != nil {
					return err
				}
			}
			return t.end()
		})
	}
	return cmd
}

const graphLinkExample = `
memdbctl graph link alice 0190c1a2-5e0c-4f6e-8a4b-3f0e6a0b9d11 --agent a
memdbctl graph link alice 0190c1a2-5e0c-4f6e-8a4b-3f0e6a0b9d11 --remove --agent a`

func (a *app) graphLinkCmd() *cobra.Command {
	cmd := newCmd("", "link ENTITY MEMORY", "Link an entity to a memory of its owner, or remove the link", graphLinkExample)
	cmd.Args = exactly(2, "an entity and a memory")
	var owner memory.Owner
	var remove bool
	ownerFlags(cmd, &owner)
	cmd.Flags().BoolVar(&remove, "remove", false, "remove the link")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		return a.use(ctx, func(db *engine.DB) error {
			change := db.Graph().Link
			if remove {
				change = db.Graph().Unlink
			}
			changed, err := change(ctx, owner, args[0], args[1])
			if err != nil {
				return err
			}
			if remove && !changed {
				return &memory.Error{
					Kind: memory.ErrNotFound, What: fmt.Sprintf("unlink %.80q from memory %.80q", args[0], args[1]), Why: "there is no such link",
					Do: "check both IDs; memdbctl graph get shows the links of an entity",
				}
			}
			if a.json {
				return a.printJSON(map[string]bool{"linked": !remove, "changed": changed})
			}
			a.printf("%s\n", map[bool]string{false: "linked", true: "unlinked"}[remove])
			return nil
		})
	}
	return cmd
}

const graphStatsExample = `
memdbctl graph stats --agent a`

func (a *app) graphStatsCmd() *cobra.Command {
	cmd := newCmd("", "stats", "Show how much a graph holds", graphStatsExample)
	cmd.Args = exactly(0, "no argument")
	var owner memory.Owner
	ownerFlags(cmd, &owner)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx := cmd.Context()
		return a.read(ctx, func(db *engine.DB) error {
			s, err := db.Graph().Stats(ctx, owner)
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(s)
			}
			t := &table{header: []string{"", ""}, whole: true}
			t.add("entities", number(s.Entities))
			t.add("relations", number(s.Relations))
			t.add("links", number(s.Links))
			t.add("entity_types", number(s.EntityTypes))
			t.add("relation_types", number(s.RelationTypes))
			a.printTable(t)
			return nil
		})
	}
	return cmd
}
