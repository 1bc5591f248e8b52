package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/wal"
)

func (a *app) logCmd() *cobra.Command {
	cmd := newCmd(groupDatabase, "log", "Read what was written, in its order", "memdbctl log tail --from 100\nmemdbctl log tail --follow --json")
	return withVerbs(cmd, a.logTailCmd())
}

const logTailExample = `
memdbctl log tail
memdbctl log tail --from 1200 --limit 50 --json
memdbctl log tail --follow --user ada`

func (a *app) logTailCmd() *cobra.Command {
	cmd := newCmd("", "tail", "List the changes of the log of commits, with their values", logTailExample)
	cmd.Long = `List the changes of the log of commits in the order in which they were written, each
with what it changed before and after. --from begins with the commit of an LSN; without
it the log begins with the oldest commit that it has. An LSN that is not reached yet is
waited for with --follow, and else nothing is listed.

--follow goes on with what is committed, until Ctrl-C. A program that holds the database
can let memdbctl in (docs/cli.md); without one nobody writes while memdbctl reads.

Where the log does not go back to --from, since the policy keeps it for a time (log_ms),
the exit code is 1, and the message names the oldest commit that is left.`
	cmd.Args = exactly(0, "no argument")
	var o engine.ChangesOptions
	var from uint64
	var limit int
	scopeFlags(cmd, &o.Scope)
	flags := cmd.Flags()
	flags.Uint64Var(&from, "from", 0, "the `LSN` of the first commit; 0: the oldest that the log has")
	flags.IntVar(&limit, "limit", 0, "list no more than so many changes; 0: all")
	flags.BoolVar(&o.Follow, "follow", false, "go on with what is committed later, until Ctrl-C")
	flags.BoolVar(&o.WithAccesses, "accesses", false, "also how often recalls have found each memory")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		a.follows = o.Follow
		if limit < 0 {
			return usagef(cmd, "--limit %d: it is negative", limit)
		}
		ctx := cmd.Context()
		return a.read(ctx, func(db *engine.DB) error { return a.tail(ctx, db, from, limit, &o) })
	}
	return cmd
}

// tail prints changes. A reader that follows has each at once.
func (a *app) tail(ctx context.Context, db *engine.DB, from uint64, limit int, o *engine.ChangesOptions) error {
	n := 0
	for c, err := range db.Changes(ctx, from, o) {
		if err != nil && o.Follow && ctx.Err() != nil {
			return nil // that is how it ends
		}
		if err == nil {
			err = a.printChange(&c)
		}
		if err == nil && o.Follow {
			if err = a.stdout.Flush(); err != nil {
				err = outputError(err)
			}
		}
		if n++; err != nil || n == limit {
			return err
		}
	}
	return nil
}

// shownText bounds how much of a text a change shows to a person.
const shownText = 60

func (a *app) printChange(c *wal.Change) error {
	if a.json {
		return a.printJSON(c)
	}
	thing := c.ID
	if thing == "" && c.Seq != 0 {
		thing = "number " + strconv.FormatUint(c.Seq, 10)
	}
	cells := []string{fmt.Sprintf("%d.%d", c.LSN, c.Number), exchange.Time{Time: c.Time}.String(), string(c.Op), strings.Join(scopeText(c.Scope), " "), thing, c.Reason, ""}
	for _, v := range []any{c.Before, c.After} {
		if m, ok := v.(*memory.Memory); ok {
			cells[len(cells)-1] = cut(m.Text, shownText)
		}
	}
	if c.Unresolved {
		cells = append(cells, "(the rest is not kept)")
	}
	for i := range cells {
		cells[i] = escape(cells[i])
	}
	a.printf("%s\n", strings.TrimRight(strings.Join(cells, "\t"), "\t"))
	return nil
}
