package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/memory"
)

const checkExample = `
memdbctl check
memdbctl check --deep
memdbctl check --db ./locomo.data --json`

func (a *app) checkCmd() *cobra.Command {
	cmd := newCmd(groupDatabase, "check", "Verify that the database is whole and its indexes fit its memories", checkExample)
	cmd.Args = exactly(0, "no argument")
	deep := cmd.Flags().Bool("deep", false, "also search a sample of each space's vectors by its index and exactly, and print the recall")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx := cmd.Context()
		var report engine.Report
		err := a.read(ctx, func(db *engine.DB) error {
			look := db.Check
			if *deep {
				look = db.CheckDeep
			}
			return a.during("check", func() (err error) {
				report, err = look(ctx)
				return err
			})
		})
		if errors.Is(err, memory.ErrCorrupt) {
			// So damaged that it can't be opened or read through.
			report.OK = false
			report.Problems = append(report.Problems, engine.NewProblem(err))
		} else if err != nil {
			return err
		}
		return a.printCheck(report)
	}
	return cmd
}

// askedFor says what the queries of a kind ask for.
var askedFor = map[string]string{
	"stored": "stored vectors", "away": "vectors away from all", "between": "vectors between two", "rare": "the rarest vectors",
}

func (a *app) printCheck(r engine.Report) error {
	if a.json {
		if r.Problems == nil {
			r.Problems = []engine.Problem{}
		}
		if err := a.printJSON(r); err != nil {
			return err
		}
	} else {
		for _, p := range r.Problems {
			a.printf("%s\n", escape(fmt.Sprintf("%s (remedy: %s)", p.What, p.Remedy)))
		}
		for _, s := range r.Spaces {
			a.printf("space %s: recall@10 %.3f of %s\n", escape(s.Name), s.Recall, count(s.Sampled, "vector", "vectors"))
			for _, r := range s.Asked {
				if r.Sampled == 0 {
					continue
				}
				a.printf("  asked for %s: recall@10 %.3f, the closest first %.3f, of %s\n", askedFor[r.Kind], r.Recall, r.First, count(r.Sampled, "query", "queries"))
			}
		}
		if r.Erasing {
			a.printf("an erasure has begun and is not done: the next command that writes goes on with it, as memdbctl compact does\n")
		}
		if r.OK {
			a.printf("ok, %s\n", count(r.Memories, "memory", "memories"))
		}
	}
	if !r.OK {
		return &exitError{code: exitDamaged, err: errors.New("check: the database is damaged; where the remedy is rebuild text, run that; else restore a backup, or make a new database of all that is whole: memdbctl rescue")}
	}
	return nil
}
