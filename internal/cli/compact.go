package cli

import (
	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/exchange"
)

const compactExample = `
memdbctl compact
memdbctl compact --db ./locomo.data --json`

func (a *app) compactCmd() *cobra.Command {
	cmd := newCmd(groupDatabase, "compact", "Give room on the disk back now", compactExample)
	cmd.Long = `Give room on the disk back now: remove the histories and log records that the policy
does not keep any longer, and rewrite the store without what was deleted or written over.
The database does the same by itself while it is open, once much is dead. It takes as long
as to read and write the whole store.`
	cmd.Args = exactly(0, "no argument")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx := cmd.Context()
		return a.use(ctx, func(db *engine.DB) error {
			var c engine.Compacted
			err := a.during("compact", func() (err error) {
				c, err = db.Compact(ctx)
				return err
			})
			if err != nil {
				return err
			}
			return a.printCompacted(c)
		})
	}
	return cmd
}

func (a *app) printCompacted(c engine.Compacted) error {
	if a.json {
		return a.printJSON(exchange.NewCompacted(c))
	}
	a.printf("compacted: %s bytes on the disk, before %s\n", number(c.DiskBytesAfter), number(c.DiskBytesBefore))
	return nil
}
