package cli

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/memory"
)

const graphShowExample = `
memdbctl graph show alice --svg alice.svg --agent a
memdbctl graph show alice --svg - --depth 2 --agent a > alice.svg`

func (a *app) graphShowCmd() *cobra.Command {
	cmd := newCmd("", "show ID --svg FILE", "Draw the neighbourhood of an entity as a picture", graphShowExample)
	cmd.Args = exactly(1, "one ID")
	var owner memory.Owner
	var o graph.PictureOptions
	var file string
	var force bool
	ownerFlags(cmd, &owner)
	cmd.Flags().StringVar(&file, "svg", "", "write the picture to this `file`, - for the output")
	cmd.Flags().BoolVar(&force, "force", false, "replace a file that is there")
	cmd.Flags().IntVar(&o.Depth, "depth", 1, "so many relations away at most")
	cmd.Flags().IntVar(&o.Entities, "limit", 40, "maximum number of entities, up to 500")
	a.stateFlags(cmd, &o.State)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if file == "" {
			return usagef(cmd, "it takes --svg FILE")
		}
		if o.Depth < 1 || o.Entities < 1 || o.Entities > graph.MaxPicture {
			return usagef(cmd, "--depth is at least 1, and --limit 1 to %d", graph.MaxPicture)
		}
		ctx := cmd.Context()
		return a.read(ctx, func(db *engine.DB) error {
			draw := func(w io.Writer) (graph.Drawn, error) { return db.Graph().Picture(ctx, owner, args[0], w, o) }
			if file == "-" || a.isOutput(file) {
				_, err := draw(a.stdout)
				return err
			}
			target, err := a.createFile(ctx, file, force)
			if err != nil {
				return err
			}
			d, err := draw(target)
			if err = target.end(err); err != nil {
				return err
			}
			if a.json {
				return a.printJSON(map[string]any{"file": file, "entities": d.Entities, "relations": d.Relations, "limit": d.Plan.Limit})
			}
			a.printf("drew %s and %s in %s\n", count(d.Entities, "entity", "entities"), count(d.Relations, "relation", "relations"), escape(file))
			return nil
		})
	}
	return cmd
}
