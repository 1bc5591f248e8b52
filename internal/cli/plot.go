package cli

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/memory"
)

const plotExample = `
memdbctl plot growth --svg growth.svg
memdbctl plot ageing
memdbctl plot session monday --agent support --svg -`

func (a *app) plotCmd() *cobra.Command {
	cmd := newCmd(groupDatabase, "plot", "Draw what the database holds and does as a picture", plotExample)
	cmd.Long = `Draw what the database holds and does as a picture: one SVG file, which needs nothing else
and can be read on a light and on a dark page. Without --svg the figures are printed.
Nothing is changed, and no recall is counted.`
	return withVerbs(cmd, a.plotGrowthCmd(), a.plotLatencyCmd(), a.plotAgeingCmd(), a.plotGraphCmd(), a.plotSessionCmd())
}

// picture is what a verb draws, and the same as figures.
type picture interface {
	WriteSVG(io.Writer) error
}

// plotFlags say where a picture goes.
type plotFlags struct {
	file  string
	force bool
}

func (f *plotFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.file, "svg", "", "write the picture to this `file`, - for the output")
	cmd.Flags().BoolVar(&f.force, "force", false, "replace a file that is there")
}

// draw writes a picture where it is to go, and says so. Where none was asked for, it prints rows.
func (a *app) draw(ctx context.Context, f *plotFlags, p picture, rows func() error) error {
	if f.file == "" {
		return rows()
	}
	if f.file == "-" || a.isOutput(f.file) {
		return p.WriteSVG(a.stdout)
	}
	target, err := a.createFile(ctx, f.file, f.force)
	if err != nil {
		return err
	}
	if err := target.end(p.WriteSVG(target)); err != nil {
		return err
	}
	if a.json {
		return a.printJSON(map[string]any{"file": f.file})
	}
	a.printf("drew %s\n", escape(f.file))
	return nil
}

func (a *app) plotGrowthCmd() *cobra.Command {
	cmd := newCmd("", "growth", "Draw how many memories there are, by when they were created", "memdbctl plot growth --svg growth.svg\nmemdbctl plot growth --user ada\nmemdbctl plot growth --by stored")
	cmd.Long = `Draw how many of the memories that live now there were at each time: by when they say that
they were created, all and those of each kind; or with --by stored by the log of the commits,
which says when this database was written to, as far back as it is kept.`
	cmd.Args = exactly(0, "no argument")
	var f plotFlags
	var s memory.Scope
	scopeFlags(cmd, &s)
	by := byCreated
	cmd.Flags().StringVar(&by, "by", by, "which time: created or stored")
	complete(cmd, "by", byCreated, byStored)
	f.add(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx := cmd.Context()
		switch {
		case by != byCreated && by != byStored:
			return usagef(cmd, "--by %q: give created or stored", by)
		case by == byStored && s != memory.Scope{}:
			return usagef(cmd, "--by stored is about the whole database, without --user, --agent and --run")
		}
		return a.read(ctx, func(db *engine.DB) error {
			if by == byStored {
				g, err := storedBy(ctx, db, a.now())
				if err != nil {
					return err
				}
				return a.draw(ctx, &f, g.chart(), func() error { return a.printStoredBy(g) })
			}
			g, err := grown(ctx, db, s)
			if err != nil {
				return err
			}
			return a.draw(ctx, &f, g.chart(), func() error { return a.printGrown(g) })
		})
	}
	return cmd
}

// The values of --by.
const (
	byCreated = "created"
	byStored  = "stored"
)

// Bounds of --queries.
const (
	defaultQueries = 200
	mostQueries    = 10_000
)

func (a *app) plotLatencyCmd() *cobra.Command {
	cmd := newCmd("", "latency", "Draw how long recalls take on this database", "memdbctl plot latency --svg latency.svg\nmemdbctl plot latency --queries 1000 --json")
	cmd.Long = `Draw how long recalls take on this database and this machine. The queries are the first words
of texts that it holds, chosen evenly, each asked within the user, agent and run of its
memory: by the words alone, and by all that ranks without a model being called.`
	cmd.Args = exactly(0, "no argument")
	var f plotFlags
	queries := defaultQueries
	cmd.Flags().IntVar(&queries, "queries", queries, "how many texts are asked for")
	f.add(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if queries < 1 || queries > mostQueries {
			return usagef(cmd, "--queries is 1 to %d", mostQueries)
		}
		ctx := cmd.Context()
		return a.read(ctx, func(db *engine.DB) error {
			l, err := recalled(ctx, db, queries)
			if err != nil {
				return err
			}
			return a.draw(ctx, &f, l.chart(), func() error { return a.printRecalled(l) })
		})
	}
	return cmd
}

func (a *app) plotAgeingCmd() *cobra.Command {
	cmd := newCmd("", "ageing", "Draw what the next eviction would take, by age", "memdbctl plot ageing --svg ageing.svg\nmemdbctl plot ageing --user ada --json")
	cmd.Long = `Draw the memories by their age, and which of them the next eviction would take by the policy
and why. Nothing is evicted: evict --dry-run names them one by one.`
	cmd.Args = exactly(0, "no argument")
	var f plotFlags
	var s memory.Scope
	ownerScope(cmd, &s)
	f.add(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx := cmd.Context()
		return a.read(ctx, func(db *engine.DB) error {
			g, err := agedBy(ctx, db, s, a.now())
			if err != nil {
				return err
			}
			return a.draw(ctx, &f, g.chart(), func() error { return a.printAged(g) })
		})
	}
	return cmd
}

func (a *app) plotGraphCmd() *cobra.Command {
	cmd := newCmd("", "graph ID", "Draw the neighbourhood of an entity", "memdbctl plot graph alice --agent a --svg alice.svg\nmemdbctl plot graph alice --agent a --depth 2 --svg -")
	cmd.Long = `Draw the neighbourhood of an entity, as graph show does. Without --svg only how many
entities and relations there are to draw is printed.`
	cmd.Args = exactly(1, "one ID")
	var f plotFlags
	var owner memory.Owner
	var o graph.PictureOptions
	ownerFlags(cmd, &owner)
	cmd.Flags().IntVar(&o.Depth, "depth", 1, "so many relations away at most")
	cmd.Flags().IntVar(&o.Entities, "limit", 40, "maximum number of entities, up to 500")
	f.add(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if o.Depth < 1 || o.Entities < 1 || o.Entities > graph.MaxPicture {
			return usagef(cmd, "--depth is at least 1, and --limit 1 to %d", graph.MaxPicture)
		}
		ctx := cmd.Context()
		return a.read(ctx, func(db *engine.DB) error {
			p := graphPicture(func(w io.Writer) (graph.Drawn, error) { return db.Graph().Picture(ctx, owner, args[0], w, o) })
			return a.draw(ctx, &f, p, func() error {
				d, err := p(io.Discard)
				if err != nil {
					return err
				}
				if a.json {
					return a.printJSON(map[string]any{"entities": d.Entities, "relations": d.Relations, "limit": d.Plan.Limit})
				}
				a.printf("%s and %s around %s\n", count(d.Entities, "entity", "entities"), count(d.Relations, "relation", "relations"), escape(args[0]))
				return nil
			})
		})
	}
	return cmd
}

// graphPicture draws a neighbourhood.
type graphPicture func(io.Writer) (graph.Drawn, error)

// WriteSVG implements picture.
func (p graphPicture) WriteSVG(w io.Writer) error {
	_, err := p(w)
	return err
}

func (a *app) plotSessionCmd() *cobra.Command {
	cmd := newCmd("", "session RUN", "Draw the messages of a session and its markers", "memdbctl plot session monday --agent support --svg monday.svg\nmemdbctl plot session monday --agent support --json")
	cmd.Long = `Draw the messages of a session in their order, as long as their texts are, and the markers
behind which older ones are summarised. Of a session with more than 5,000 messages the newest
are drawn.`
	cmd.Args = exactly(1, "one session")
	var f plotFlags
	var owner memory.Owner
	ownerFlags(cmd, &owner)
	f.add(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		return a.read(ctx, func(db *engine.DB) error {
			t, err := talkOf(ctx, db, owner, args[0])
			if err != nil {
				return noSession("plot", args[0], err)
			}
			return a.draw(ctx, &f, t.chart(), func() error { return a.printTalk(t) })
		})
	}
	return cmd
}
