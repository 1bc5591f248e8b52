package main

import (
	"strconv"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/engine"
)

const listExample = `
memdbctl list --user ada
memdbctl list --agent planner --filter 'role = assistant and created_at >= 2026-01-01' --limit 1000 --json
memdbctl list --all-scopes --order-by created_at --descending --limit 20`

func (a *app) listCmd() *cobra.Command {
	cmd := newCmd(groupMemories, "list", "List memories in an order, a page at a time", listExample)
	cmd.Long = `List memories in an order, a page at a time. Where more follow, a page ends with
the cursor for --after on the error stream: in words, and with --json as
{"next":CURSOR}. The output itself is memories and nothing else.`
	cmd.Args = exactly(0, "no argument")
	var q engine.ListQuery
	scopeFlags(cmd, &q.Scope)
	flags := cmd.Flags()
	flags.BoolVar(&q.AllScopes, "all-scopes", false, "of everyone, for administration")
	filterFlag(cmd, &q.Filter)
	flags.IntVar(&q.Limit, "limit", 100, "at most so many, up to "+number(engine.MaxLimit))
	flags.StringVar(&q.OrderBy, "order-by", "", "by this `field`, as a filter names it (default the order of storing)")
	flags.BoolVar(&q.Descending, "descending", false, "the last first")
	flags.StringVar(&q.Cursor, "after", "", "the page that follows another one, by the `cursor` that it ended with")
	vectorsFlag(cmd, &q.WithVectors)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := checkLimit(cmd, q.Limit); err != nil {
			return err
		}
		ctx := cmd.Context()
		return a.read(ctx, func(db *engine.DB) error {
			page, err := db.Memories().List(ctx, q)
			if err != nil {
				return err
			}
			return a.printPage(page, q.WithVectors)
		})
	}
	return cmd
}

// checkLimit refuses what the engine would, and a zero, which is the engine's
// word for its default.
func checkLimit(cmd *cobra.Command, limit int) error {
	if limit < 1 || limit > engine.MaxLimit {
		return usagef(cmd, "--limit %d: it is not within 1 and %s", limit, number(engine.MaxLimit))
	}
	return nil
}

func (a *app) printPage(page engine.Page, vectors bool) error {
	t := &table{header: []string{"SEQ", "ID", "ROLE", "TEXT"}}
	for _, m := range page.Memories {
		if a.json {
			if err := a.printJSON(record(m, vectors)); err != nil {
				return err
			}
			continue
		}
		t.add(strconv.FormatUint(m.Seq, 10), m.ID, string(m.Role), m.Text)
	}
	if len(t.rows) > 0 {
		a.printTable(t)
	}
	if page.Next == "" {
		return nil
	}
	return a.printNext(page.Next)
}
