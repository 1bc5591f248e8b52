package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/api"
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
	return withVerbs(cmd, slices.Concat(a.graphRecords(), a.graphQueries(), a.graphMore())...)
}

// graphRecords are the commands about single entities and relations.
func (a *app) graphRecords() []*cobra.Command {
	return []*cobra.Command{
		a.graphAddCmd(), a.graphRelateCmd(),
		opCmd(a, api.GraphEnd, shown[api.GraphEndRequest, api.RelationEnded]{
			help: help{example: "\nmemdbctl graph end alice works_on memdb --agent a"},
			show: func(*api.GraphEndRequest, api.RelationEnded) { a.printf("ended 1\n") },
		}),
		opCmd(a, api.GraphGet, shown[api.GraphGetRequest, graph.EntityLine]{
			help: help{example: "\nmemdbctl graph get alice --agent a --json"}, show: func(_ *api.GraphGetRequest, l graph.EntityLine) { a.printEntity(&l) },
			end: func(l graph.EntityLine) error {
				if len(l.Relations) == graph.ShownRelations {
					a.note("%s is shown with %s relations at most; export has them all", escape(l.ID), number(graph.ShownRelations))
				}
				return nil
			},
		}),
		listCmd(a, api.GraphList, listShown[api.GraphListRequest, graph.FoundLine]{
			help:    help{example: "\nmemdbctl graph list --agent a\nmemdbctl graph list --type person --name-prefix al --agent a --json"},
			columns: columns[api.GraphListRequest]("ID", "TYPE", "NAME"), cells: entityCells,
		}),
		opCmd(a, api.GraphDelete, shown[api.GraphEntity, api.EntityDeleted]{
			help: help{example: "\nmemdbctl graph delete alice --agent a"},
			show: func(_ *api.GraphEntity, d api.EntityDeleted) {
				a.printf("deleted %s, %s and %s\n", count(d.Deleted.Entities, "entity", "entities"),
					count(d.Deleted.Relations, "relation", "relations"), count(d.Deleted.Links, "link", "links"))
			},
		}),
	}
}

// graphQueries are the commands that walk the graph.
func (a *app) graphQueries() []*cobra.Command {
	return []*cobra.Command{
		listCmd(a, api.GraphQuery, listShown[api.GraphQueryRequest, graph.FoundLine]{
			help:    help{example: "\nmemdbctl graph query alice --agent a\nmemdbctl graph query alice --depth 3 --agent a --json"},
			columns: columns[api.GraphQueryRequest]("DEPTH", "ID", "TYPE", "NAME"), cells: reachedCells,
		}),
		listCmd(a, api.GraphFind, listShown[api.GraphFindRequest, graph.FoundLine]{
			help:    help{example: "\nmemdbctl graph find alice --relation works_on --agent a\nmemdbctl graph find memdb --relation inverse:works_on --hops 2 --agent a"},
			columns: columns[api.GraphFindRequest]("DEPTH", "ID", "TYPE", "NAME"), cells: reachedCells,
		}),
		listCmd(a, api.GraphMatch, listShown[api.GraphMatchRequest, graph.MatchLine]{
			help:    help{example: "\nmemdbctl graph match --from-type person --relation works_for --to-name OpenAI --agent a"},
			columns: columns[api.GraphMatchRequest]("FROM", "RELATION", "TO"), rows: matchRows,
		}),
		listCmd(a, api.GraphPath, listShown[api.GraphPathRequest, api.GraphHop]{
			help: help{example: "\nmemdbctl graph path alice memdb --agent a"}, columns: columns[api.GraphPathRequest]("FROM", "RELATION", "TO"),
			cells: func(h api.GraphHop) []any { return []any{h.From, h.Relation, h.To} },
		}),
		listCmd(a, api.GraphRank, listShown[api.GraphRankRequest, api.RankedEntity]{
			help: help{example: "\nmemdbctl graph rank alice memdb --agent a"}, columns: columns[api.GraphRankRequest]("RANK", "ID"),
			cells: func(e api.RankedEntity) []any { return []any{strconv.FormatFloat(e.Rank, 'f', 4, 64), e.ID} },
		}),
		listCmd(a, api.GraphComponents, listShown[api.GraphWhole, api.GraphComponent]{
			help: help{example: "\nmemdbctl graph components --agent a"}, columns: columns[api.GraphWhole]("SIZE", "FIRST"),
			cells: func(c api.GraphComponent) []any { return []any{c.Size, c.First} },
		}),
	}
}

// graphMore are the commands about the graph as a whole, and about entities that are the same.
func (a *app) graphMore() []*cobra.Command {
	return []*cobra.Command{
		a.graphLinkCmd(),
		opCmd(a, api.GraphStats, shown[api.Owner, graph.Stats]{
			help: help{example: "\nmemdbctl graph stats --agent a"}, show: func(_ *api.Owner, s graph.Stats) { a.printGraphStats(s) },
		}),
		listCmd(a, api.GraphLookup, listShown[api.GraphLookupRequest, api.NamedEntity]{
			help:    help{example: "\nmemdbctl graph lookup 'alise jonson' --agent a\nmemdbctl graph lookup johnson --type person --limit 3 --agent a --json"},
			columns: columns[api.GraphLookupRequest]("SCORE", "ID", "TYPE", "NAME"),
			cells:   func(n api.NamedEntity) []any { return []any{shownScore(n.Score), n.ID, n.EntityType, n.Matched} },
		}),
		listCmd(a, api.GraphDegrees, listShown[api.GraphDegreesRequest, graph.Degree]{
			help:    help{example: "\nmemdbctl graph degrees --agent a\nmemdbctl graph degrees --type person --relation knows --agent a"},
			columns: columns[api.GraphDegreesRequest]("OUT", "IN", "ID"),
			cells:   func(d graph.Degree) []any { return []any{d.Out, d.In, d.ID} },
		}),
		listCmd(a, api.GraphCounts, listShown[api.GraphWhole, api.GraphTypeCount]{
			help: help{example: "\nmemdbctl graph counts --agent a"}, columns: columns[api.GraphWhole]("COUNT", "OF", "TYPE"),
			cells: func(c api.GraphTypeCount) []any { return []any{c.Count, c.Of, c.Type} },
		}),
		a.graphShowCmd(), a.graphExtractCmd(),
		opCmd(a, api.GraphMerge, shown[api.GraphMergeRequest, graph.Merged]{
			help: help{
				long: `Merge the entity B into A. The relations of B become those of A; its name and aliases
become aliases of A; its properties fill in those that A lacks; its links to memories move.
As of earlier LSNs both are what they were. unmerge B undoes it.`,
				example: "\nmemdbctl graph merge alice alice-johnson --agent a",
			},
			show: printMerged[api.GraphMergeRequest](a, "merged"),
		}),
		opCmd(a, api.GraphUnmerge, shown[api.GraphEntity, graph.Merged]{
			help: help{example: "\nmemdbctl graph unmerge alice-johnson --agent a"}, show: printMerged[api.GraphEntity](a, "restored"),
		}),
		listCmd(a, api.GraphDuplicates, listShown[api.GraphDuplicatesRequest, graph.Duplicate]{
			help:    help{example: "\nmemdbctl graph duplicates --agent a\nmemdbctl graph duplicates --min-score 0.8 --agent a --json"},
			columns: columns[api.GraphDuplicatesRequest]("SCORE", "A", "B", "WHY"),
			cells:   func(d graph.Duplicate) []any { return []any{shownScore(d.Score), d.A, d.B, strings.Join(d.Why, ", ")} },
		}),
		a.graphImportCmd(), a.graphExportCmd(),
	}
}

func shownScore(score float64) string { return strconv.FormatFloat(score, 'f', 2, 64) }

func entityCells(l graph.FoundLine) []any { return []any{l.ID, l.EntityType, l.Name} }

func reachedCells(l graph.FoundLine) []any {
	return append([]any{strconv.Itoa(*l.Depth)}, entityCells(l)...)
}

func matchRows(l graph.MatchLine) (rows [][]any) {
	path := l.Relations
	if len(path) == 0 {
		path = []graph.RelationLine{l.Relation}
	}
	at := cmp.Or(l.From.ID, path[0].From)
	for _, r := range path {
		if r.From != at { // the path goes against it
			r.From, r.Relation, r.To = r.To, graph.InversePrefix+r.Relation, r.From
		}
		at = r.To
		rows = append(rows, []any{r.From, r.Relation, r.To})
	}
	return rows
}

// printMerged shows what a merge, or the undoing of one, has moved.
func printMerged[Q any](a *app, did string) func(*Q, graph.Merged) {
	return func(_ *Q, m graph.Merged) {
		a.printf("%s %s with %s and %s\n", did, escape(m.ID), count(m.Relations, "relation", "relations"), count(m.Links, "link", "links"))
	}
}

const graphAddExample = `
memdbctl graph add '{"id":"alice","type":"person","properties":{"role":"engineer"}}' --agent a
jq .alice people.json | memdbctl graph add - --agent a`

func (a *app) graphAddCmd() *cobra.Command {
	return opCmd(a, api.GraphAdd, shown[api.GraphAddRequest, graph.Added]{
		help: help{
			long: `Add an entity with relations from it, or update the one that has its ID. Its type is
under "entity_type" or "type". Properties are merged: null removes one. Aliases and
relations are added, and what is not named stays. A relation may go to an entity that
comes later.`,
			example: graphAddExample,
		},
		show: func(_ *api.GraphAddRequest, e graph.Added) {
			a.printf("stored %s with %s\n", escape(e.ID), count(e.Relations, "relation", "relations"))
			a.noteWaiting(e.WaitsFor)
		},
	})
}

const graphRelateExample = `
memdbctl graph relate alice works_on memdb --agent a
memdbctl graph relate alice works_at acme --from 2020-01-01 --to 2024-06-30 --agent a`

func (a *app) graphRelateCmd() *cobra.Command {
	return opCmd(a, api.GraphRelate, shown[api.GraphRelateRequest, graph.Related]{
		help: help{
			long: `Add a relation from one entity to another, or update the one that has its ID or its
triple. An end may come later: the answer says which one is not there yet ("waits_for"), and
no query shows the relation until it is. --strict refuses that. The ID of an entity that was
merged leads to the one that it was merged into.`,
			example: graphRelateExample,
		},
		show: func(_ *api.GraphRelateRequest, r graph.Related) {
			a.printf("stored %s\n", escape(r.ID))
			a.noteWaiting(r.WaitsFor)
		},
	})
}

// noteWaiting says which ends of relations are not there yet.
func (a *app) noteWaiting(ids []string) {
	for _, id := range ids {
		a.note("%s is not there yet: its relations are seen once it is added", escape(id))
	}
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

func (a *app) printGraphStats(s graph.Stats) {
	t := &table{header: []string{"", ""}, whole: true}
	t.add("entities", number(s.Entities))
	t.add("relations", number(s.Relations))
	t.add("links", number(s.Links))
	t.add("entity_types", number(s.EntityTypes))
	t.add("relation_types", number(s.RelationTypes))
	a.printTable(t)
}

const graphLinkExample = `
memdbctl graph link alice 0190c1a2-5e0c-4f6e-8a4b-3f0e6a0b9d11 --agent a
memdbctl graph link alice 0190c1a2-5e0c-4f6e-8a4b-3f0e6a0b9d11 --remove --agent a`

// graphLinkCmd is one command for two operations.
func (a *app) graphLinkCmd() *cobra.Command {
	var remove bool
	either := *api.GraphLink
	either.Summary = "Link an entity to a memory of its owner, or remove the link"
	either.As = func(q *api.GraphLinkRequest) api.Call[api.OpRun[api.MemoryLink]] {
		if remove {
			return api.GraphUnlink.Call(q)
		}
		return api.GraphLink.Call(q)
	}
	cmd := opCmd(a, &either, shown[api.GraphLinkRequest, api.MemoryLink]{
		help: help{example: graphLinkExample},
		refuse: func(q *api.GraphLinkRequest, l api.MemoryLink) error {
			if l.Linked || l.Changed {
				return nil
			}
			return &memory.Error{
				Kind: memory.ErrNotFound, What: fmt.Sprintf("unlink %.80q from memory %.80q", q.ID, q.Memory), Why: "there is no such link",
				Do: "check both IDs; memdbctl graph get shows the links of an entity",
			}
		},
		show: func(_ *api.GraphLinkRequest, l api.MemoryLink) {
			a.printf("%s\n", map[bool]string{true: "linked", false: "unlinked"}[l.Linked])
		},
	})
	cmd.Flags().BoolVar(&remove, "remove", false, "remove the link")
	return cmd
}

// took is the time since a start, in seconds.
func (a *app) took(start time.Time) float64 { return a.now().Sub(start).Seconds() }
