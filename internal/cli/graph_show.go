package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/api"
)

const graphShowExample = `
memdbctl graph show alice --svg alice.svg --agent a
memdbctl graph show alice --svg - --depth 2 --agent a > alice.svg`

func (a *app) graphShowCmd() *cobra.Command {
	op, q := api.GraphShow, new(api.GraphShowRequest)
	var file string
	var force bool
	cmd := a.operation(&op.Operation, op.Fields(), q, help{example: graphShowExample, asks: true}, func(ctx context.Context, c *caller) error {
		if file == "-" || a.isOutput(file) {
			_, err := runStream(ctx, c, op, q, a.stdout)
			return err
		}
		target, err := a.createFile(ctx, file, force)
		if err != nil {
			return err
		}
		d, err := runStream(ctx, c, op, q, target)
		if err = target.end(err); err != nil {
			return err
		}
		if a.json {
			return a.printJSON(map[string]any{"file": file, "entities": d.Entities, "relations": d.Relations, "limit": d.Plan.Limit})
		}
		a.printf("drew %s and %s in %s\n", count(d.Entities, "entity", "entities"), count(d.Relations, "relation", "relations"), escape(file))
		return nil
	})
	cmd.Use += " --svg FILE"
	cmd.Flags().StringVar(&file, "svg", "", "write the picture to this `file`, - for the output")
	cmd.Flags().BoolVar(&force, "force", false, "replace a file that is there")
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		if file == "" {
			return usagef(cmd, "it takes --svg FILE")
		}
		return nil
	}
	return cmd
}
