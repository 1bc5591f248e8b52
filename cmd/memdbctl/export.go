package main

import (
	"context"
	"errors"
	"os"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/exchange"
)

const exportExample = `
memdbctl export memories.jsonl
memdbctl export ada.jsonl --user ada
memdbctl export notes.jsonl --filter 'kind = note'`

func (a *app) exportCmd() *cobra.Command {
	cmd := newCmd(groupData, "export FILE | export -", "Write memories, keys and values to a file", exportExample)
	cmd.Long = `Write everything to a file as JSON lines, which import reads back: memories in
the order of storing, with vectors, access statistics and history, also that of
deleted ones, then keys and values. A scope chooses memories, and keys and values by
their owner; with a run or a filter, which they do not have, they are left out.`
	cmd.Args = exactly(1, "one file, or - for the output")
	var (
		opts  exchange.ExportOptions
		force bool
	)
	scopeFlags(cmd, &opts.Scope)
	filterFlag(cmd, &opts.Filter)
	cmd.Flags().BoolVar(&force, "force", false, "replace a file that is there")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		return a.read(ctx, func(db *engine.DB) error {
			bar := &progress{app: a}
			defer bar.clear()
			opts.Progress = func(r exchange.ExportReport) {
				bar.say("%s: %s exported", args[0], count(r.Memories, "memory", "memories"))
			}
			if args[0] == "-" {
				_, err := exchange.Export(ctx, db, a.stdout, &opts)
				return err
			}
			return a.exportFile(ctx, db, args[0], force, &opts)
		})
	}
	return cmd
}

// exportFile writes beside the file and renames at the end, so that there is never
// half an export under its name.
func (a *app) exportFile(ctx context.Context, db *engine.DB, name string, force bool, opts *exchange.ExportOptions) error {
	const doing = "export to "
	switch info, err := os.Stat(name); {
	case name == "":
		return &engine.Error{Kind: engine.ErrInvalid, What: "export", Why: "the name of the file is empty", Do: "give one, or - for the output"}
	case err == nil && info.IsDir():
		return &engine.Error{Kind: engine.ErrInvalid, What: doing + name, Why: "it is a folder", Do: "name a file"}
	case err == nil && !force:
		return &engine.Error{Kind: engine.ErrExists, What: doing + name, Why: "the file is there", Do: "name another file, or replace it with --force"}
	}
	temp := name + ".part"
	file, err := os.Create(temp)
	if err != nil {
		return err
	}
	report, err := exchange.Export(ctx, db, file, opts)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(temp, name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	return a.printExported(report)
}

// exportedJSON is the result of an export.
type exportedJSON struct {
	Memories int `json:"memories"`
	Events   int `json:"events"`
	Entries  int `json:"entries"`
}

func (a *app) printExported(r exchange.ExportReport) error {
	if a.json {
		return a.printJSON(exportedJSON(r))
	}
	a.printf("exported %s, %s of histories and %s\n", count(r.Memories, "memory", "memories"), count(r.Events, "event", "events"), count(r.Entries, "key", "keys"))
	return nil
}
