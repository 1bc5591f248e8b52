package cli

import (
	"cmp"
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/api"
	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/memory"
)

const listExample = `
memdbctl list --user ada
memdbctl list --agent planner --filter 'role = assistant and created_at >= 2026-01-01' --limit 1000 --json
memdbctl list --all-scopes --order-by created_at --descending --limit 20
memdbctl list --user ada --count
memdbctl list --user ada --all --format csv >ada.csv`

// listing is what list was asked for.
type listing struct {
	api.MemoryListRequest
	all, count bool
}

const formatCSV = "csv"

const listLong = `List memories in an order, a page at a time, or with --all in one go. Where more
follow, a page ends with the cursor for --after on the error stream: in words, and
with --json as {"next":CURSOR}. The output itself is memories and nothing else.

--count prints how many memories there are instead: a number, and with --json
{"count":N}.`

// listCmd is one command for two operations.
func (a *app) listCmd() *cobra.Command {
	var l listing
	op := api.MemoryList.Operation
	op.Summary = "List memories in an order, a page at a time"
	var cmd *cobra.Command
	cmd = a.operation(&op, api.MemoryList.Fields(), &l.MemoryListRequest, help{long: listLong, example: listExample, group: groupMemories}, func(ctx context.Context, c *caller) error {
		if a.everyone {
			return a.listEveryone(cmd, &l)
		}
		return a.list(ctx, c.db, &l)
	})
	cmd.Flags().BoolVar(&l.all, "all", false, "all of them, page after page")
	cmd.Flags().BoolVar(&l.count, "count", false, "their number alone")
	alsoCheck(cmd, func([]string) error { return a.checkListing(cmd, &l) })
	return cmd
}

// alsoCheck has a command refuse what check refuses, before it counts the arguments.
func alsoCheck(cmd *cobra.Command, check func(args []string) error) {
	first := cmd.Args
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		return cmp.Or(check(args), first(cmd, args))
	}
}

// checkListing refuses flags that contradict each other.
func (a *app) checkListing(cmd *cobra.Command, l *listing) error {
	given := cmd.Flags().Changed
	for _, c := range []struct {
		both   bool
		a, b   string
		reason string
	}{
		{l.all && given("limit"), "all", "limit", "all are listed, or so many"},
		{l.count && l.all, "count", "all", "all are counted"},
		{l.count && given("limit"), "count", "limit", "all are counted"},
		{l.count && given("after"), "count", "after", "all are counted"},
		{l.count && a.format == formatCSV, "count", "format", "a number has no columns"},
		{l.Vectors && a.format == formatCSV, "vectors", "format", "vectors are printed in JSON alone"},
	} {
		if c.both {
			return usagef(cmd, "--%s and --%s exclude each other: %s", c.a, c.b, c.reason)
		}
	}
	return nil
}

func (a *app) list(ctx context.Context, db *engine.DB, l *listing) error {
	if _, err := a.warnFields(ctx, db, asked{scope: memory.Scope{User: l.User, Agent: l.Agent, Run: l.Run}, all: l.AllScopes}, l.Filter, l.OrderBy); err != nil {
		return err
	}
	switch {
	case l.count:
		n, err := api.MemoryCount.Run(ctx, db, &l.Selection)
		if err != nil {
			return err
		}
		return a.printCount(n)
	case l.all:
		l.Limit = memory.MaxLimit
	}
	l.Lost = a.unreadable.lost
	t := a.memoryRows(l.AllScopes)
	for {
		end, err := api.MemoryList.Run(ctx, db, &l.MemoryListRequest, t.addMemory)
		if err == nil {
			err = t.end()
		}
		switch {
		case err != nil:
			return err
		case end.Next == "":
			return nil
		case !l.all:
			return a.printNext(end.Next)
		}
		l.After = end.Next
	}
}

func (a *app) printCount(n api.MemoryCounted) error {
	if a.json {
		return a.printJSON(n)
	}
	a.printf("%d\n", n.Count)
	return nil
}

// checkLimit refuses what the engine would, and a zero, which is the engine's
// word for its default.
func checkLimit(cmd *cobra.Command, limit int) error {
	if limit < 1 || limit > memory.MaxLimit {
		return usagef(cmd, "--limit %d: it is not within 1 and %s", limit, number(memory.MaxLimit))
	}
	return nil
}

// memoryRows begins a list of memories, of which comma-separated values have more.
func (a *app) memoryRows(wide bool) *rows {
	if a.format == formatCSV {
		return a.rows("SEQ", "ID", "USER", "AGENT", "RUN", "ROLE", "KIND", "SOURCE", "NAME", "TEXT", "METADATA", "IMPORTANCE", "CONFIDENCE", "CREATED_AT", "UPDATED_AT")
	}
	return a.ownedRows(wide, 2, "SEQ", "ID", "ROLE", "TEXT")
}

// addMemory adds a memory to the list.
func (r *rows) addMemory(m exchange.Record) error {
	cells := []any{strconv.FormatUint(m.Seq, 10), m.ID, string(m.Role), m.Text}
	if r.csv != nil {
		metadata := ""
		if len(m.Metadata) > 0 {
			metadata = compactJSON(m.Metadata)
		}
		cells = []any{
			m.Seq, m.ID, m.User, m.Agent, m.Run, string(m.Role), string(m.Kind), string(m.Source), m.Name, m.Text, metadata,
			digits(m.Importance), digits(m.Confidence), m.CreatedAt.Format(time.RFC3339Nano), m.UpdatedAt.Format(time.RFC3339Nano),
		}
	}
	return r.addOf(memory.Scope{User: m.User, Agent: m.Agent, Run: m.Run}, m, cells...)
}

// formulaStarts are the characters with which spreadsheets take a cell for a formula.
const formulaStarts = "=+-@\t\r"

// cell is a text as a cell of comma-separated values. One that a spreadsheet would take for a
// formula, and compute, is quoted as text by a ' before it.
func cell(text string) string {
	if text != "" && strings.IndexByte(formulaStarts, text[0]) >= 0 {
		return "'" + text
	}
	return text
}

// digits is a number with all of its digits, empty for none.
func digits(f *float64) string {
	if f == nil {
		return ""
	}
	return strconv.FormatFloat(*f, 'g', -1, 64)
}
