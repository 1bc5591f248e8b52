package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/entries"
	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/exchange/move"
	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/policy"
	"github.com/seed-7aedc3ff/memdb/usage"
)

const exportExample = `
memdbctl export memories.jsonl
memdbctl export ada.jsonl --user ada
memdbctl export agent_memory.json --format json --agent researcher
memdbctl export notes.jsonl --filter 'kind = note'
memdbctl export ./memories --format markdown --user ada
memdbctl export memories.db --format sqlite
memdbctl export memory.jsonl --format mcp --agent researcher`

func (a *app) exportCmd() *cobra.Command {
	cmd := newCmd(groupData, "export DEST | export -", "Write everything, or what a scope has, to a file", exportExample)
	cmd.Long = `Write everything to a file as JSON lines, which import reads back: the manifests of
agents, memories in the order of storing, with vectors, access statistics and history, also
that of deleted ones, and behind them keys and values, the policy, sessions with their
messages, entities and relations, budgets and usage. A scope chooses memories, and the rest
by its owner; with a run or a filter, which the rest does not have, it is left out.

With --format json the file is one JSON document: the list of what are lines otherwise.

Other forms are for people and for other programs, and docs/moving.md describes them. What has
no place in one is counted under "left out". markdown is a folder with a file for each memory,
whose names stay, so that it can be kept in git; --force brings a folder up to date that an
export has made. sqlite is a file with tables. mcp is the memory.jsonl of the Model Context
Protocol's memory server, with the graph of one owner.

The file is there when it is whole, and keeps the mode of the one that it replaces.
Of a link the file that it leads to is replaced. A pipe or a device is written as it
is.

What cannot be read is left out of the file, and told of with exit code 5; rescue makes a new
database without it.`
	cmd.Args = exactly(1, "one file, or - for the output")
	var (
		opts   exchange.ExportOptions
		force  bool
		format string
	)
	scopeFlags(cmd, &opts.Scope)
	filterFlag(cmd, &opts.Filter)
	cmd.Flags().StringVar(&format, "format", formatJSONL, list(exportFormats, "or"))
	complete(cmd, "format", exportFormats...)
	cmd.Flags().BoolVar(&force, "force", false, "replace a file that is there, or bring a folder up to date")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !slices.Contains(exportFormats, format) {
			return usagef(cmd, "--format %q: there are %s", format, list(exportFormats, "and"))
		}
		opts.Document = format == formatJSON
		ctx := cmd.Context()
		return a.read(ctx, func(db *engine.DB) error {
			if _, err := a.warnFields(ctx, db, asked{scope: opts.Scope, all: opts.Scope == (memory.Scope{})}, opts.Filter, ""); err != nil {
				return err
			}
			bar := &progress{app: a}
			defer bar.clear()
			opts.Progress = func(r exchange.ExportReport) {
				bar.say("%s: %s exported", args[0], count(r.Memories, "memory", "memories"))
			}
			if format != formatJSONL && format != formatJSON {
				return a.moveOut(ctx, db, args[0], &moving{format: format, force: force, opts: &opts})
			}
			if args[0] == "-" || a.isOutput(args[0]) {
				a.unreadable.unlined = true
				report, err := exchange.Export(ctx, db, a.stdout, &opts)
				return cmp.Or(err, lostError(report))
			}
			return a.exportFile(ctx, db, args[0], force, &opts)
		})
	}
	return cmd
}

func (a *app) exportFile(ctx context.Context, db *engine.DB, name string, force bool, opts *exchange.ExportOptions) error {
	file, err := a.createFile(ctx, name, force)
	if err != nil {
		return err
	}
	report, err := exchange.Export(ctx, db, file, opts)
	if err = file.end(err); err != nil {
		return err
	}
	return cmp.Or(a.printExported(report), lostError(report))
}

// exportFormats are the forms of an export.
var exportFormats = []string{formatJSONL, formatJSON, string(move.Markdown), formatSQLite, string(move.MCP)}

const formatSQLite = "sqlite"

// lostError says that an export lacks what is damaged, nil where it is whole.
func lostError(r exchange.ExportReport) error {
	if r.Lost == 0 {
		return nil
	}
	return &exitError{exitDamaged, fmt.Errorf("export: the file lacks %s that cannot be read, the first because of this: %w; run check, which names them",
		count(r.Lost, "thing", "things"), r.Problems[0])}
}

// isOutput reports whether a name is that of the pipe or device that the output goes
// to, as /dev/stdout. There, as for -, nothing may follow the export.
func (a *app) isOutput(name string) bool {
	file, ok := a.out.(*os.File)
	if !ok {
		return false
	}
	out, err := file.Stat()
	if err != nil || out.Mode().IsRegular() {
		return false
	}
	named, err := os.Stat(name)
	return err == nil && os.SameFile(out, named)
}

// lineNames are what people call the lines of a type that is not the word for them.
var lineNames = map[string][2]string{
	entries.TypeLine: {"key", "keys"}, graph.TypeEntity: {"entity", "entities"}, usage.TypeUsage: {"record of usage", "records of usage"},
	policy.TypeLine: {"policy", "policies"}, exchange.TypeMemory: {"memory", "memories"}, exchange.TypeHistory: {"event of a history", "events of histories"},
}

// countOf is a number of lines of a type, for people.
func countOf(typ string, n int) string {
	name, ok := lineNames[typ]
	if !ok {
		name = [2]string{typ, typ + "s"}
	}
	return count(n, name[0], name[1])
}

// memoriesFirst are types in their order, and that of memories before the others.
func memoriesFirst(counts map[string]int) []string {
	return slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		switch exchange.TypeMemory {
		case a:
			return -1
		case b:
			return 1
		}
		return cmp.Compare(a, b)
	})
}

func (a *app) printExported(r exchange.ExportReport) error {
	if a.json {
		return a.printJSON(exchange.NewExported(r))
	}
	parts := []string{
		count(r.Memories, "memory", "memories"), count(r.Events, "event", "events") + " of histories",
		count(r.Lines[entries.TypeLine], "key", "keys"),
	}
	for _, typ := range slices.Sorted(maps.Keys(r.Lines)) {
		if typ == entries.TypeLine {
			continue
		}
		parts = append(parts, countOf(typ, r.Lines[typ]))
	}
	a.printf("exported %s\n", list(parts, "and"))
	return nil
}
