package cli

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/engine"
)

const rebuildExample = `
memdbctl rebuild text
memdbctl rebuild text --db ./locomo.data --json`

// rebuildable are the indexes that rebuild takes.
var rebuildable = []string{engine.IndexText}

func (a *app) rebuildCmd() *cobra.Command {
	cmd := newCmd(groupDatabase, "rebuild INDEX", "Make an index anew from the stored memories", rebuildExample)
	cmd.Long = `Make an index anew from the stored memories: after check has found it damaged, or
after an upgrade that splits text into other words. INDEX is text: the index of words
and filters. The new one takes the place of the old in one commit; interrupted, it
leaves everything as it was.`
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 || !slices.Contains(rebuildable, args[0]) {
			return usagef(cmd, "it takes the name of an index: %s", engine.IndexText)
		}
		return nil
	}
	cmd.ValidArgs = rebuildable
	cmd.ValidArgsFunction = nil
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		return a.use(ctx, func(db *engine.DB) error {
			bar := &progress{app: a}
			var documents int64
			err := db.Rebuild(ctx, args[0], func(done, of int64) {
				documents = done
				bar.say("rebuild %s: %s of %s documents", args[0], number(done), number(of))
			})
			bar.clear()
			if err != nil {
				return err
			}
			return a.printRebuilt(args[0], documents)
		})
	}
	return cmd
}

// rebuiltJSON is the result of a rebuild.
type rebuiltJSON struct {
	Index     string `json:"index"`
	Documents int64  `json:"documents"`
}

func (a *app) printRebuilt(index string, documents int64) error {
	if a.json {
		return a.printJSON(rebuiltJSON{index, documents})
	}
	a.printf("rebuilt %s: %s\n", index, count(documents, "document", "documents"))
	return nil
}
