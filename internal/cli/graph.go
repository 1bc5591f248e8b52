package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/memory"
)

const graphExample = `
memdbctl graph add '{"id":"alice","type":"person","relations":[{"target":"memdb","type":"works_on"}]}' --agent a
memdbctl graph relate alice knows bob --agent a
memdbctl graph query alice --depth 3 --agent a
memdbctl graph match --from-type person --relation works_on --agent a`

func (a *app) graphCmd() *cobra.Command {
	cmd := newCmd(groupMemories, "graph", "Keep entities and the relations between them, for a user or an agent", graphExample)
	return withVerbs(
		cmd,
		a.graphAddCmd(), a.graphRelateCmd(), a.graphEndCmd(), a.graphGetCmd(), a.graphListCmd(), a.graphDeleteCmd(),
		a.graphQueryCmd(), a.graphFindCmd(), a.graphMatchCmd(), a.graphPathCmd(), a.graphRankCmd(), a.graphComponentsCmd(), a.graphLinkCmd(), a.graphStatsCmd(),
		a.graphLookupCmd(), a.graphDegreesCmd(), a.graphCountsCmd(), a.graphShowCmd(),
		a.graphExtractCmd(), a.graphMergeCmd(), a.graphUnmergeCmd(), a.graphDuplicatesCmd(), a.graphImportCmd(), a.graphExportCmd(),
	)
}

// checkOwner refuses a call without an owner, before a database is made.
func checkOwner(doing string, o memory.Owner) error {
	if o == (memory.Owner{}) {
		return &memory.Error{Kind: memory.ErrScope, What: doing}
	}
	return nil
}

// stateFlags are --as-of and --at.
func (a *app) stateFlags(cmd *cobra.Command, s *graph.State) {
	cmd.Flags().Uint64Var(&s.AsOf, "as-of", 0, "as it was recorded at this `LSN` (default now)")
	cmd.Flags().Func("at", "only relations that were true at this `time`", a.timeFlag(&s.ValidAt))
	cmd.Flags().IntVar(&s.MaxNodes, "max-nodes", 0, "look at no more entities (default 1,000,000)")
	cmd.Flags().IntVar(&s.MaxEdges, "max-edges", 0, "look at no more relations (default 10,000,000)")
}

const graphAddExample = `
memdbctl graph add '{"id":"alice","type":"person","properties":{"role":"engineer"}}' --agent a
jq .alice people.json | memdbctl graph add - --agent a`

func (a *app) graphAddCmd() *cobra.Command {
	cmd := newCmd("", "add JSON | add -", "Add an entity, or change the one with its ID", graphAddExample)
	cmd.Long = `Add an entity with relations from it, or change the one that has its ID. Its type is
under "entity_type" or "type". Properties are merged: null removes one. Aliases and
relations are added, and what is not named stays. A relation may go to an entity that
comes later.`
	cmd.Args = exactly(1, "an entity in JSON")
	var owner memory.Owner
	var opts graph.Options
	ownerFlags(cmd, &owner)
	cmd.Flags().BoolVar(&opts.Strict, "strict", false, "refuse relations to entities that are not there")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		if err := checkOwner("add an entity", owner); err != nil {
			return err
		}
		var given graph.Given
		if err := a.readObject(cmd, args[0], &given); err != nil {
			return err
		}
		batch, err := given.Batch()
		if err != nil {
			return err
		}
		return a.create(ctx, nil, func(db *engine.DB) error {
			w, err := db.Graph().Write(ctx, owner, batch, &opts)
			if err != nil {
				return err
			}
			added := graph.NewAdded(w)
			if a.json {
				return a.printJSON(added)
			}
			a.printf("stored %s with %s\n", escape(added.ID), count(added.Relations, "relation", "relations"))
			a.noteWaiting(added.WaitsFor)
			return nil
		})
	}
	return cmd
}

// maxObject bounds an entity in JSON.
const maxObject = 8 << 20

// readObject reads the JSON object that the argument is, or that the input is for "-".
func (a *app) readObject(cmd *cobra.Command, arg string, to any) error {
	named := fmt.Sprintf("%q", cut(arg, 60))
	if arg == "-" {
		named = "the input"
		var err error
		if arg, err = a.readBounded(cmd.Context(), "the entity", maxObject, "split it"); err != nil {
			return err
		}
	}
	d := json.NewDecoder(bytes.NewReader([]byte(arg)))
	d.DisallowUnknownFields()
	err := d.Decode(to)
	if err == nil {
		if _, more := d.Token(); more != io.EOF {
			err = fmt.Errorf("more follows")
		}
	}
	if err != nil {
		return usagef(cmd, "%s is no JSON object of an entity: %v", named, err)
	}
	return nil
}

const graphRelateExample = `
memdbctl graph relate alice works_on memdb --agent a
memdbctl graph relate alice works_at acme --from 2020-01-01 --to 2024-06-30 --agent a`

func (a *app) graphRelateCmd() *cobra.Command {
	cmd := newCmd("", "relate FROM TYPE TO", "Add a relation, or change the one with its ID or triple", graphRelateExample)
	cmd.Long = `Add a relation from one entity to another, or change the one that has its ID or its
triple. An end may come later: the answer says which one is not there yet ("waits_for"), and
no query shows the relation until it is. --strict refuses that. The ID of an entity that was
merged leads to the one that it was merged into.`
	cmd.Args = exactly(3, "an entity, a type and an entity")
	var owner memory.Owner
	var opts graph.Options
	var r graph.Relation
	ownerFlags(cmd, &owner)
	flags := cmd.Flags()
	flags.StringVar(&r.ID, "id", "", "its ID; without it, the triple names it")
	flags.Func("properties", "facts about it, a `JSON` object", func(s string) error {
		r.Properties = json.RawMessage(s)
		if !json.Valid(r.Properties) {
			return fmt.Errorf("it is no JSON")
		}
		return nil
	})
	flags.Func("from", "it is so from this `time` on", a.timeFlag(&r.ValidFrom))
	flags.Func("to", "and up to this `time`", a.timeFlag(&r.ValidTo))
	flags.BoolVar(&opts.Strict, "strict", false, "refuse ends that are not there")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		r.From, r.Type, r.To = args[0], args[1], args[2]
		if err := checkOwner("relate", owner); err != nil {
			return err
		}
		return a.create(ctx, nil, func(db *engine.DB) error {
			s, err := db.Graph().Relate(ctx, owner, r, &opts)
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(graph.NewRelated(s))
			}
			a.printf("stored %s\n", escape(s.ID))
			a.noteWaiting(s.WaitsFor)
			return nil
		})
	}
	return cmd
}

// noteWaiting says which ends of relations are not there yet.
func (a *app) noteWaiting(ids []string) {
	for _, id := range ids {
		a.note("%s is not there yet: its relations are seen once it is added", escape(id))
	}
}

const graphEndExample = `
memdbctl graph end alice works_on memdb --agent a`

func (a *app) graphEndCmd() *cobra.Command {
	cmd := newCmd("", "end FROM TYPE TO", "End a relation; it is still there as of earlier LSNs", graphEndExample)
	cmd.Args = exactly(3, "an entity, a type and an entity")
	var owner memory.Owner
	var id string
	ownerFlags(cmd, &owner)
	cmd.Flags().StringVar(&id, "id", "", "its ID; without it, the triple names it")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		return a.use(ctx, func(db *engine.DB) error {
			if err := db.Graph().End(ctx, owner, args[0], args[1], args[2], id); err != nil {
				return err
			}
			if a.json {
				return a.printJSON(map[string]int{"ended": 1})
			}
			a.printf("ended 1\n")
			return nil
		})
	}
	return cmd
}

const graphGetExample = `
memdbctl graph get alice --agent a --json`

func (a *app) graphGetCmd() *cobra.Command {
	cmd := newCmd("", "get ID", "Show an entity and its relations", graphGetExample)
	cmd.Args = exactly(1, "one ID")
	var owner memory.Owner
	var s graph.State
	ownerFlags(cmd, &owner)
	a.stateFlags(cmd, &s)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		return a.read(ctx, func(db *engine.DB) error {
			g := db.Graph()
			if _, err := g.Get(ctx, owner, args[0], s.AsOf); err != nil {
				return err
			}
			lines, more, err := g.Describe(ctx, owner, args[:1], graph.ShownRelations, s)
			if err != nil || len(lines) == 0 {
				return err
			}
			if more[0] {
				a.note("%s has more than %s relations; export has them all", args[0], number(graph.ShownRelations))
			}
			if a.json {
				return a.printJSON(lines[0])
			}
			a.printEntity(&lines[0])
			return nil
		})
	}
	return cmd
}

func (a *app) printEntity(l *graph.EntityLine) {
	a.printf("%s\n", a.bold(escape(l.ID)))
	t := &table{header: []string{"", ""}, whole: true}
	for _, row := range [][2]string{
		{"type", l.EntityType},
		{"name", l.Name},
		{"properties", string(l.Properties)},
		{"created", l.CreatedAt.String()},
		{"updated", l.UpdatedAt.String()},
	} {
		if row[1] != "" && row[1] != "{}" {
			t.add(row[0], row[1])
		}
	}
	for _, alias := range l.Aliases {
		t.add("alias", alias)
	}
	for _, r := range l.Relations {
		t.add(r.Type, r.Target)
	}
	a.printTable(t)
}

const graphListExample = `
memdbctl graph list --agent a
memdbctl graph list --type person --name-prefix al --agent a --json`

func (a *app) graphListCmd() *cobra.Command {
	cmd := newCmd("", "list", "List entities", graphListExample)
	cmd.Args = exactly(0, "no argument")
	var q graph.ListQuery
	ownerFlags(cmd, &q.Owner)
	cmd.Flags().StringVar(&q.Type, "type", "", "of this type")
	cmd.Flags().StringVar(&q.NamePrefix, "name-prefix", "", "with a name or an alias that begins so")
	cmd.Flags().Uint64Var(&q.AsOf, "as-of", 0, "as it was recorded at this `LSN` (default now)")
	cmd.Flags().IntVar(&q.Limit, "limit", 100, limitHelp+", up to "+number(memory.MaxLimit))
	cmd.Flags().StringVar(&q.After, "after", "", "those behind a page, which named this `place`")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := checkLimit(cmd, q.Limit); err != nil {
			return err
		}
		ctx := cmd.Context()
		return a.read(ctx, func(db *engine.DB) error {
			page, err := db.Graph().List(ctx, q)
			if err != nil {
				return err
			}
			found := make([]graph.Found, len(page.Entities))
			for i, e := range page.Entities {
				found[i].ID = e.ID
			}
			if err := a.printFound(ctx, db, q.Owner, found, graph.State{AsOf: q.AsOf}, false); err != nil || page.Next == "" {
				return err
			}
			return a.printNext(page.Next)
		})
	}
	return cmd
}

// printFound prints entities, with their depths if they have some.
func (a *app) printFound(ctx context.Context, db *engine.DB, o memory.Owner, found []graph.Found, s graph.State, depths bool) error {
	header := []string{"ID", "TYPE", "NAME"}
	if depths {
		header = append([]string{"DEPTH"}, header...)
	}
	t := a.rows(header...)
	relations := 0
	if a.json {
		relations = graph.ListedRelations
	}
	err := db.Graph().EachFound(ctx, o, found, relations, s, func(l graph.EntityLine, d int) error {
		line, cells := graph.FoundLine{EntityLine: l}, []any{l.ID, l.EntityType, l.Name}
		if depths {
			line.Depth, cells = &d, append([]any{fmt.Sprint(d)}, cells...)
		}
		return t.add(line, cells...)
	})
	if err != nil {
		return err
	}
	return t.end()
}

const graphDeleteExample = `
memdbctl graph delete alice --agent a`

func (a *app) graphDeleteCmd() *cobra.Command {
	cmd := newCmd("", "delete ID", "Delete an entity with its relations and links", graphDeleteExample)
	cmd.Args = exactly(1, "one ID")
	var owner memory.Owner
	ownerFlags(cmd, &owner)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		return a.use(ctx, func(db *engine.DB) error {
			d, err := db.Graph().Delete(ctx, owner, args[0])
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(map[string]graph.Deleted{"deleted": d})
			}
			a.printf("deleted %s, %s and %s\n", count(d.Entities, "entity", "entities"),
				count(d.Relations, "relation", "relations"), count(d.Links, "link", "links"))
			return nil
		})
	}
	return cmd
}

// took is the time since a start, in seconds.
func (a *app) took(start time.Time) float64 { return a.now().Sub(start).Seconds() }
