package cli

import (
	"cmp"
	"context"
	"encoding/csv"
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
	format     string
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
	flags.BoolVar(&l.AllScopes, "all-scopes", false, "of everyone, for administration")
	filterFlag(cmd, &l.Filter)
	flags.IntVar(&l.Limit, "limit", 100, "at most so many, up to "+number(memory.MaxLimit))
	flags.BoolVar(&l.all, "all", false, "all of them, page after page")
	flags.BoolVar(&l.count, "count", false, "their number alone")
	flags.StringVar(&l.OrderBy, "order-by", "", "by this `field`, as a filter names it (default the order of storing)")
	flags.BoolVar(&l.Descending, "descending", false, "the last first")
	flags.StringVar(&l.Cursor, "after", "", "the page that follows another one, by the `cursor` that it ended with")
	vectorsFlag(cmd, &l.WithVectors)
	flags.StringVar(&l.format, "format", "", "csv: comma-separated values under a header (RFC 4180), without vectors; a text that begins with =, +, -, @, a tab or a carriage return gets a ' before it, so that no spreadsheet computes it")
	complete(cmd, "format", formatCSV)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := a.checkListing(cmd, &l); err != nil {
			return err
		}
		withNone(cmd, &l.Filter)
		ctx := cmd.Context()
		return a.read(ctx, func(db *engine.DB) error { return a.list(ctx, db, &l) })
	}
	return cmd
}

// checkListing refuses flags that contradict each other.
func (a *app) checkListing(cmd *cobra.Command, l *listing) error {
	if l.format != "" && l.format != formatCSV {
		return usagef(cmd, "--format %q: it is not csv", l.format)
	}
	for _, c := range []struct {
		both   bool
		a, b   string
		reason string
	}{
		{l.all && cmd.Flags().Changed("limit"), "all", "limit", "all are listed, or so many"},
		{l.count && l.all, "count", "all", "all are counted"},
		{l.count && cmd.Flags().Changed("limit"), "count", "limit", "all are counted"},
		{l.count && l.Cursor != "", "count", "after", "all are counted"},
		{l.count && l.format != "", "count", "format", "a number has no columns"},
		{a.json && l.format != "", "json", "format", "one form at a time"},
		{l.WithVectors && l.format != "", "vectors", "format", "vectors are printed in JSON alone"},
	} {
		if c.both {
			return usagef(cmd, "--%s and --%s exclude each other: %s", c.a, c.b, c.reason)
		}
	}
	return checkLimit(cmd, l.Limit)
}

func (a *app) list(ctx context.Context, db *engine.DB, l *listing) error {
	switch {
	case l.count:
		n, err := db.Memories().Count(ctx, l.ListQuery)
		if err != nil {
			return err
		}
		if a.json {
			return a.printJSON(map[string]int{"count": n})
		}
		a.printf("%d\n", n)
		return nil
	case l.all:
		l.Limit = memory.MaxLimit
	}
	var lost unreadable
	l.Lost = lost.lost
	for first := true; ; first = false {
		page, err := db.Memories().List(ctx, l.ListQuery)
		if err != nil {
			return err
		}
		if l.format == formatCSV {
			err = a.printCSV(page, first)
		} else {
			err = a.printPage(page, l.WithVectors)
		}
		switch {
		case err != nil:
			return err
		case page.Next == "":
			return a.endUnreadable(&lost)
		case !l.all:
			return cmp.Or(a.printNext(page.Next), a.endUnreadable(&lost))
		}
		l.Cursor = page.Next
	}
}

// checkLimit refuses what the engine would, and a zero, which is the engine's
// word for its default.
func checkLimit(cmd *cobra.Command, limit int) error {
	if limit < 1 || limit > memory.MaxLimit {
		return usagef(cmd, "--limit %d: it is not within 1 and %s", limit, number(memory.MaxLimit))
	}
	return nil
}

func (a *app) printPage(page memory.Page, vectors bool) error {
	t := &table{header: []string{"SEQ", "ID", "ROLE", "TEXT"}}
	for _, m := range page.Memories {
		if a.json {
			if err := a.printJSON(exchange.Show(m, vectors)); err != nil {
				return err
			}
			continue
		}
		t.add(strconv.FormatUint(m.Seq, 10), m.ID, string(m.Role), m.Text)
	}
	if len(t.rows) > 0 {
		a.printTable(t)
	}
	return nil
}

// printCSV prints a page as comma-separated values, the first one under a header.
func (a *app) printCSV(page memory.Page, first bool) error {
	w := csv.NewWriter(a.stdout)
	if first {
		_ = w.Write([]string{ // what fails is told by Error
			"seq", "id", "user", "agent", "run", "role", "kind", "source", "name", "text", "metadata",
			"importance", "confidence", "created_at", "updated_at",
		})
	}
	for _, m := range page.Memories {
		metadata := ""
		if len(m.Metadata) > 0 {
			metadata = compactJSON(m.Metadata)
		}
		_ = w.Write([]string{
			strconv.FormatUint(m.Seq, 10), cell(m.ID), cell(m.User), cell(m.Agent), cell(m.Run), string(m.Role), string(m.Kind), string(m.Source),
			cell(m.Name), cell(m.Text), cell(metadata),
			digits(m.Importance), digits(m.Confidence), m.CreatedAt.Format(time.RFC3339Nano), m.UpdatedAt.Format(time.RFC3339Nano),
		})
	}
	w.Flush()
	if err := w.Error(); err != nil {
		return outputError(err)
	}
	return nil
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
