package cli

import (
	"encoding/csv"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/memory"
)

// formatTable is the form for people, beside formatJSON and formatCSV.
const formatTable = "table"

// rowVerbs are the verbs that print rows and nothing else, and so may print comma-separated values.
var rowVerbs = []string{
	"list", "groups", "recall", "history", "kv list", "session list", "note list", "note search",
	"graph list", "graph query", "graph find", "graph match", "graph path", "graph rank", "graph components", "graph duplicates",
	"graph lookup", "graph degrees", "graph counts", "usage by", "usage rank", "usage budget list", "agent list", "user list",
	"fact search", "fact list", "fact history", "backup list",
}

// formatFlag is --format of verbs that have none of their own.
func (a *app) formatFlag(cmd *cobra.Command) {
	cmd.PersistentFlags().StringVar(&a.format, "format", "", "table, json or csv (of lists: comma-separated values under a header, RFC 4180)")
	complete(cmd, "format", formatTable, formatJSON, formatCSV)
}

// checkFormat takes --format: json is what --json is.
func (a *app) checkFormat(cmd *cobra.Command) error {
	switch a.format {
	case "", formatTable:
		if a.format != "" && a.json && cmd.Flags().Changed("json") {
			return usagef(cmd, "--json and --format exclude each other: one form at a time")
		}
	case formatJSON:
		a.json = true
	case formatCSV:
		switch {
		case a.json:
			return usagef(cmd, "--json and --format exclude each other: one form at a time")
		case !slices.Contains(rowVerbs, verbOf(cmd)):
			return usagef(cmd, "--format csv: it prints no rows; there are table and json")
		}
	default:
		return usagef(cmd, "--format %q: there are table, json and csv", a.format)
	}
	return nil
}

// rows is a list that a verb prints: a table for people, an object a line with --json, or
// comma-separated values. Every verb that prints a list prints it by this.
type rows struct {
	*app
	shown table // for people
	csv   *csv.Writer
	// owner is before which column those of the owner of a row are, 0 where there are none, and wide
	// whether they are there in any case.
	owner int
	wide  bool
}

// ownerColumns are the parts of a scope.
var ownerColumns = []string{"USER", "AGENT", "RUN"}

// ownedRows begins a list whose rows may belong to several scopes: of everyone's or of several scopes
// where wide is set. The columns of the owner stand before that of a number. A table on a terminal has
// those that tell rows apart; without a terminal they are there where the list is wide.
func (a *app) ownedRows(wide bool, before int, header ...string) *rows {
	if !wide && (a.outWidth == 0 || a.json || a.format == formatCSV) {
		return a.rows(header...)
	}
	r := a.rows(slices.Insert(header, before, ownerColumns...)...)
	r.owner, r.wide = before, wide
	return r
}

// addOf adds a row that belongs to a scope.
func (r *rows) addOf(s memory.Scope, line any, cells ...any) error {
	if r.owner > 0 {
		cells = slices.Insert(cells, r.owner, any(s.User), any(s.Agent), any(s.Run))
	}
	return r.add(line, cells...)
}

// dropOwners returns a table without the columns of the owner that are the same in all rows, or, in a
// wide list, empty in all.
func (r *rows) dropOwners(t table) table {
	for i := r.owner + len(ownerColumns) - 1; i >= r.owner; i-- {
		first := t.rows[0][i]
		same := !slices.ContainsFunc(t.rows, func(row []string) bool { return row[i] != first })
		if !same || r.wide && first != "" {
			continue
		}
		t.header = slices.Delete(slices.Clone(t.header), i, i+1)
		for j, row := range t.rows {
			t.rows[j] = slices.Delete(row, i, i+1)
		}
	}
	return t
}

// rows begins a list with the names of its columns. With --json and for csv it is printed as it
// comes, and otherwise at its end.
func (a *app) rows(header ...string) *rows {
	r := &rows{app: a, shown: table{header: header}}
	if a.format == formatCSV && !a.json {
		r.csv = csv.NewWriter(a.stdout)
		names := make([]string, len(header))
		for i, name := range header {
			names[i] = strings.ReplaceAll(strings.ToLower(name), " ", "_")
		}
		_ = r.csv.Write(names) // what fails is told by Error
	}
	return r
}

// add adds a row: the object of --json, and the cells of the columns, which are texts or integers.
func (r *rows) add(line any, cells ...any) error {
	switch {
	case r.json:
		return r.printJSON(line)
	case r.csv != nil:
		out := make([]string, len(cells))
		for i, c := range cells {
			out[i] = csvCell(c)
		}
		_ = r.csv.Write(out) // likewise
		return r.csvError()
	}
	out := make([]string, len(cells))
	for i, c := range cells {
		if out[i] = plainCell(c); r.outWidth > 0 {
			out[i] = readableCell(c)
		}
	}
	r.shown.add(out...)
	return nil
}

// readableCell is a cell for people, with the thousands of a number apart.
func readableCell(c any) string {
	switch c := c.(type) {
	case int:
		return number(c)
	case int64:
		return number(c)
	case uint64:
		return number(c)
	}
	return plainCell(c)
}

// plainCell is a cell for programs.
func plainCell(c any) string {
	switch c := c.(type) {
	case int:
		return strconv.Itoa(c)
	case int64:
		return strconv.FormatInt(c, 10)
	case uint64:
		return strconv.FormatUint(c, 10)
	case string:
		return c
	}
	return compactJSON(c)
}

// csvCell is a cell of comma-separated values.
func csvCell(c any) string {
	if text, ok := c.(string); ok {
		return cell(text)
	}
	return plainCell(c)
}

func (r *rows) csvError() error {
	if err := r.csv.Error(); err != nil {
		return outputError(err)
	}
	return nil
}

// end prints what is not printed yet. A list of several pages ends with each.
func (r *rows) end() error {
	switch {
	case r.csv != nil:
		r.csv.Flush()
		return r.csvError()
	case len(r.shown.rows) > 0:
		shown := r.shown
		if r.owner > 0 && r.outWidth > 0 {
			shown = r.dropOwners(shown)
		}
		r.printTable(&shown)
		r.shown.rows, r.shown.notes = nil, nil
	}
	return nil
}

// printNext tells on the error stream how a list goes on.
func (a *app) printNext(after string) error {
	if a.json {
		_, err := fmt.Fprintf(a.err, "{\"next\":%q}\n", after)
		return err
	}
	a.note("there are more; go on with --after %s", after)
	return nil
}
