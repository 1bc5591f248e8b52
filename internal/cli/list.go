package cli

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

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
	memory.ListQuery
	all, count bool
}

const formatCSV = "csv"

func (a *app) listCmd() *cobra.Command {
	cmd := newCmd(groupMemories, "list", "List memories in an order, a page at a time", listExample)
	cmd.Long = `List memories in an order, a page at a time, or with --all in one go. Where more
follow, a page ends with the cursor for --after on the error stream: in words, and
with --json as {"next":CURSOR}. The output itself is memories and nothing else.

--count prints how many memories there are instead: a number, and with --json
{"count":N}.`
	cmd.Args = exactly(0, "no argument")
	var l listing
	scopeFlags(cmd, &l.Scope)
	markNone(cmd)
	flags := cmd.Flags()
	flags.BoolVar(&l.AllScopes, "all-scopes", false, everyoneHelp)
	filterFlag(cmd, &l.Filter)
	flags.IntVar(&l.Limit, "limit", 100, limitHelp+", up to "+number(memory.MaxLimit))
	flags.BoolVar(&l.all, "all", false, "all of them, page after page")
	flags.BoolVar(&l.count, "count", false, "their number alone")
	flags.StringVar(&l.OrderBy, "order-by", "", "by this `field`, as a filter names it (default the order of storing)")
	flags.BoolVar(&l.Descending, "descending", false, "the last first")
	flags.StringVar(&l.Cursor, "after", "", "the page that follows another one, by the `cursor` that it ended with")
	vectorsFlag(cmd, &l.WithVectors)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := a.checkListing(cmd, &l); err != nil {
			return err
		}
		withNone(cmd, &l.Filter)
		if a.everyone {
			return a.listEveryone(cmd, &l)
		}
		ctx := cmd.Context()
		return a.read(ctx, func(db *engine.DB) error { return a.list(ctx, db, &l) })
	}
	return cmd
}

// checkListing refuses flags that contradict each other.
func (a *app) checkListing(cmd *cobra.Command, l *listing) error {
	for _, c := range []struct {
		both   bool
		a, b   string
		reason string
	}{
		{l.all && cmd.Flags().Changed("limit"), "all", "limit", "all are listed, or so many"},
		{l.count && l.all, "count", "all", "all are counted"},
		{l.count && cmd.Flags().Changed("limit"), "count", "limit", "all are counted"},
		{l.count && l.Cursor != "", "count", "after", "all are counted"},
		{l.count && a.format == formatCSV, "count", "format", "a number has no columns"},
		{l.WithVectors && a.format == formatCSV, "vectors", "format", "vectors are printed in JSON alone"},
	} {
		if c.both {
			return usagef(cmd, "--%s and --%s exclude each other: %s", c.a, c.b, c.reason)
		}
	}
	return checkLimit(cmd, l.Limit)
}

func (a *app) list(ctx context.Context, db *engine.DB, l *listing) error {
	if _, err := a.warnFields(ctx, db, asked{scope: l.Scope, all: l.AllScopes}, l.Filter, l.OrderBy); err != nil {
		return err
	}
	switch {
	case l.count:
		n, err := db.Memories().Count(ctx, l.ListQuery)
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
		page, err := db.Memories().List(ctx, l.ListQuery)
		if err != nil {
			return err
		}
		shown := make([]exchange.Record, len(page.Memories))
		for i, m := range page.Memories {
			shown[i] = exchange.Show(m, l.WithVectors)
		}
		err = t.addPage(shown)
		switch {
		case err != nil:
			return err
		case page.Next == "":
			return nil
		case !l.all:
			return a.printNext(page.Next)
		}
		l.Cursor = page.Next
	}
}

func (a *app) printCount(n int) error {
	if a.json {
		return a.printJSON(map[string]int{"count": n})
	}
	a.printf("%d\n", n)
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

// addPage prints a page of memories.
func (r *rows) addPage(page []exchange.Record) error {
	for i := range page {
		m := &page[i]
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
		if err := r.addOf(memory.Scope{User: m.User, Agent: m.Agent, Run: m.Run}, m, cells...); err != nil {
			return err
		}
	}
	return r.end()
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
