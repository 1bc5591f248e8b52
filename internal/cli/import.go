package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/exchange/move"
	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/memory"
)

const importExample = `
memdbctl import memories.jsonl
memdbctl import chat.jsonl --user ada --run 2026-11-20
memdbctl import agent_memory.json --into-user ada --into-agent researcher
memdbctl import log.jsonl --user ada --map text=body,created_at=meta.ts --dry-run
memdbctl import conversations.json --user ada --dry-run
memdbctl import conversations.json --user ada
memdbctl import ./notes --format markdown --user ada
memdbctl import table.csv --user ada --timezone Europe/Amsterdam
memdbctl import app.db --table notes --user ada
memdbctl import base.fbin --agent bench
zstd -dc memories.jsonl.zst | memdbctl import - --format jsonl --strict`

// The formats of an import.
const (
	formatJSONL = "jsonl"
	formatJSON  = "json"
	formatFbin  = string(exchange.RowsFloat32)
	formatU8bin = string(exchange.RowsUint8)
)

// ownFormats are those that memdb itself writes, and vectors; formatAuto is any.
var ownFormats = []string{formatJSONL, formatJSON, formatFbin, formatU8bin}

const formatAuto = "auto"

// formats are all that an import reads.
var formats = allFormats()

func allFormats() []string {
	all := append([]string{formatAuto}, ownFormats...)
	for _, f := range move.Formats() {
		if !slices.Contains(all, string(f)) {
			all = append(all, string(f))
		}
	}
	return all
}

// importing are the flags of an import.
type importing struct {
	exchange.Options
	format  string
	skipBad bool
	dryRun  bool
	table   string
	fields  move.Map
}

func (a *app) importCmd() *cobra.Command {
	cmd := newCmd(groupData, "import FILE | import -", "Store the memories of a file", importExample)
	cmd.Long = `Store the memories of a file: JSON lines or one JSON document, as export writes
them, or vectors. docs/exchange.md describes these forms, key by key.

It also reads what other programs keep, and tells by the content which of them it was:
conversations of ChatGPT and Claude, transcripts of Claude Code, Codex and Gemini CLI, lists
of messages of any provider, the memory.jsonl of the Model Context Protocol's memory
server, memories and history of mem0, the database of OpenFang, items of LangGraph's store,
lists and lines of JSON, CSV with a header, a folder of Markdown files, collections of Chroma
and Qdrant, and the tables of any SQLite file, of which --table names one. docs/moving.md says
what becomes of what. A record of JSON or CSV, or a row, becomes a memory by the usual names of
its keys, as text, content, role, timestamp and user_id; --map names others. Keys that have no
such name go to the metadata. What has no place is counted under "left out".

--user, --agent and --run fill what a record does not name. Records that name another owner
are stored for that one, and counted as "elsewhere". --force-scope stores everything for the
flags instead. --into-user and --into-agent store everything for one user or one agent,
whatever a record names; the rest stays as it is.

--dry-run does all that the import would do in a copy of the database, removes the copy, and
reports the same figures, with three samples of each kind and their owners.

Texts that are there already are stored again; a memory whose ID and content are
there already is left alone. Records without an ID get one that follows from their content,
so that an import which was interrupted can be run again, and a file that has grown, too.

At the end it links the new vectors into the index, on all processors, so that the
first search is as fast as any. Interrupted there, all vectors are stored and found,
and the rest is linked while the database is open the next time.

A record that can't be stored is skipped and named, and the exit code is then 1. It is 1, too,
if nothing was stored, unless all records were there already.`
	cmd.Args = exactly(1, "one file, or - for the input")
	cmd.ValidArgsFunction = nil // a file
	var o importing
	flags := cmd.Flags()
	flags.StringVar(&o.format, "format", formatAuto, "its form, which auto tells by its name and content: "+list(formats, "or"))
	flags.StringVar(&o.Scope.User, "user", "", "the user of records that name none")
	flags.StringVar(&o.Scope.Agent, "agent", "", "likewise the agent")
	flags.StringVar(&o.Scope.Run, "run", "", "likewise the run")
	flags.BoolVar(&o.ForceScope, "force-scope", false, "store everything for --user and --agent, and in --run, whatever a record names")
	flags.StringVar(&o.IntoUser, "into-user", "", "the user that everything is stored for, whatever user a record names")
	flags.StringVar(&o.IntoAgent, "into-agent", "", "the agent that everything is stored for, whatever agent a record names")
	var pairs []string
	flags.StringSliceVar(&pairs, "map", nil, "`FIELD=KEY` pairs: the key of a record that has a field of a memory, with dots into objects, as text=body,created_at=meta.ts")
	flags.StringVar(&o.table, "table", "", "the `NAME` of the table whose rows are imported from a SQLite file")
	flags.BoolVar(&o.Upsert, "upsert", false, "change the memories whose IDs are there with other content")
	flags.BoolVar(&o.Strict, "strict", false, "stop at the first record that can't be stored, or line of memdb's own with an unknown key")
	flags.BoolVar(&o.skipBad, "skip-bad", false, "exit with 0 although records were skipped")
	flags.BoolVar(&o.dryRun, "dry-run", false, "do all in a copy of the database, and report the figures with three samples of each kind; the database stays as it is")
	flags.BoolVar(&o.IgnoreUnknown, "ignore-unknown", false, "count unknown keys also under --strict; without it they are counted in any case")
	complete(cmd, "format", formats...)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !slices.Contains(formats, o.format) {
			return usagef(cmd, "--format %q: there are %s", o.format, list(formats, "and"))
		}
		if flags.Changed("into-agent") && (o.IntoAgent == "" || o.Scope.Agent != "") {
			return usagef(cmd, "--into-agent names one agent, instead of --agent")
		}
		if flags.Changed("into-user") && (o.IntoUser == "" || o.Scope.User != "") {
			return usagef(cmd, "--into-user names one user, instead of --user")
		}
		if o.ForceScope && o.Scope == (memory.Scope{}) {
			return usagef(cmd, "--force-scope needs --user, --agent or --run, where everything is to be")
		}
		var err error
		if o.fields, err = move.ParseMap(pairs); err != nil {
			return usagef(cmd, "--map: %v", err)
		}
		if flags.Changed("table") {
			if o.format != formatAuto && o.format != formatSQLite || o.table == "" {
				return usagef(cmd, "--table names a table of a SQLite file, without another --format")
			}
			o.format = formatSQLite
		}
		if o.Strict && o.skipBad {
			return usagef(cmd, "--strict and --skip-bad exclude each other")
		}
		return a.importFile(cmd, args[0], o)
	}
	return cmd
}

// list writes words as people do.
func list(words []string, and string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " " + and + " " + words[last]
}

func (a *app) importFile(cmd *cobra.Command, name string, o importing) error {
	ctx := cmd.Context()
	from, err := a.openMove(ctx, name, o.format)
	if err != nil {
		return err
	}
	defer done(from)
	if from.Reader != nil {
		// What can't be read makes no database.
		if _, err := from.Reader.Peek(1); err != nil && !errors.Is(err, io.EOF) {
			return inputError(name, err)
		}
	}
	if o.format == formatAuto {
		if o.format, err = from.guess(ctx, name); err != nil {
			return inputError(name, err)
		}
	}
	if !isVectors(o.format) {
		return a.moveIn(cmd, name, from, o)
	}
	in, file := from.Reader, from.file
	if len(o.fields) > 0 {
		return usagef(cmd, "--map has no effect on the format %s, whose keys are fixed", o.format)
	}
	if o.Scope == (memory.Scope{}) && o.IntoAgent == "" && o.IntoUser == "" {
		return usagef(cmd, "vectors have no owner; give --agent, --user or --run")
	}
	// What cannot be imported makes no database.
	if err := checkHead(in, exchange.Rows(o.format), sizeOf(file)); err != nil {
		return inputError(name, err)
	}
	job := &importJob{app: a, name: name, size: sizeOf(file), importing: o}
	return job.run(ctx, nil, func(db *engine.DB, o *exchange.Options) (exchange.Report, error) {
		return exchange.ImportVectors(ctx, db, in, exchange.Rows(job.importing.format), o)
	})
}

// An importJob is one import into a database.
type importJob struct {
	*app
	name string
	size int64 // of the input, 0 where it is not known
	importing
}

// run imports into the database, or under --dry-run into a copy of it, which is removed. A new database
// is made with the options.
func (j *importJob) run(ctx context.Context, o *engine.Options, load func(*engine.DB, *exchange.Options) (exchange.Report, error)) error {
	const samples = 3
	start := j.now()
	bar := &progress{app: j.app, name: filepath.Base(j.name), size: j.size, dry: j.dryRun}
	do := func(db *engine.DB) error {
		opts := j.Options
		opts.Progress = bar.show
		if j.dryRun {
			opts.Samples = samples
		}
		report, err := load(db, &opts)
		took := importTimes{storing: j.now().Sub(start)}
		if err == nil && !j.dryRun {
			took.linking, err = bar.link(ctx, db)
		}
		bar.clear()
		return j.printReport(importResult{report, j.importing.format, took}, err)
	}
	if !j.dryRun {
		return j.createAs(ctx, o, "", do)
	}
	return j.dry(ctx, o, do)
}

// dry calls do with a copy of the database, or, where there is none, with a new one that is removed.
func (j *importJob) dry(ctx context.Context, o *engine.Options, do func(*engine.DB) error) error {
	there := j.exists() == nil
	if !there {
		if _, err := os.Stat(j.dir); err == nil { // opening says why it cannot become one
			names, err := os.ReadDir(j.dir)
			there = err != nil || len(names) > 0
		}
	}
	if !there {
		temp, err := os.MkdirTemp("", "memdb-dry-run-")
		if err != nil {
			return fmt.Errorf("make a folder for the trial: %w", err)
		}
		defer func() { _ = os.RemoveAll(temp) }()
		opts := engine.Options{Clock: j.now}
		if o != nil {
			opts.IndexedText, opts.Language = o.IndexedText, o.Language
		}
		if opts.MaxFileBytes, err = j.maxFile(); err != nil {
			return err
		}
		db, err := engine.Open(filepath.Join(temp, filepath.Base(j.dir)), &opts)
		if err != nil {
			return err
		}
		return errors.Join(do(db), db.Close())
	}
	return j.create(ctx, nil, func(db *engine.DB) error {
		err := db.Scratch(ctx, o, do)
		if errors.Is(err, memory.ErrMismatch) && o != nil { // it has other settings, and keeps them
			err = db.Scratch(ctx, nil, do)
		}
		return err
	})
}

// checkHead looks whether the input begins as a file of vectors does, and whether it is
// as long as that says. size is 0 where it is not known.
func checkHead(in *bufio.Reader, rows exchange.Rows, size int64) error {
	head, err := in.Peek(exchange.VectorHead)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	v, err := exchange.NewVectorReader(bytes.NewReader(head), rows)
	if err == nil && size > 0 {
		err = v.CheckSize(size)
	}
	return err
}

// sizeOf is the size of a file, 0 where it is not known.
func sizeOf(r io.Reader) int64 {
	if f, ok := r.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			return info.Size()
		}
	}
	return 0
}

// importTimes are how long an import took, and then the linking of its vectors.
type importTimes struct{ storing, linking time.Duration }

// importResult is what an import tells.
type importResult struct {
	exchange.Report
	format string
	took   importTimes
}

// printReport tells what was imported, also where it ended early.
func (j *importJob) printReport(r importResult, err error) error {
	j.warnSkipped(j.name, r.Report, err)
	for _, note := range r.Notes {
		j.warn("%s: %s", j.name, note)
	}
	failed := j.printFigures(&r)
	switch {
	case err != nil:
		return fmt.Errorf("import %s: %w", j.name, err)
	case failed != nil:
		return failed
	case r.storedNothing():
		return fmt.Errorf("import %s: %s", j.name, r.whyNothing())
	case r.Skipped > 0 && !j.skipBad:
		return fmt.Errorf("import %s: %s of %s records were skipped; mend them and import again, or accept it with --skip-bad",
			j.name, number(r.Skipped), number(r.Read))
	}
	return nil
}

// printFigures prints the report.
func (j *importJob) printFigures(r *importResult) error {
	seconds := r.took.storing.Seconds()
	if j.json {
		for _, s := range r.Samples {
			if err := j.printJSON(map[string]any{"kind": s.Kind, "whose": s.Whose(), "sample": s.Line}); err != nil {
				return err
			}
		}
		out := exchange.NewImported(r.Report, inWords)
		out.Format, out.Seconds, out.LinkSeconds = r.format, seconds, r.took.linking.Seconds()
		if j.dryRun {
			out.DryRun, out.Kinds = true, r.Kinds
		}
		return j.printJSON(out)
	}
	if j.dryRun {
		j.printSamples(r)
	}
	events := ""
	if r.Events > 0 {
		events = fmt.Sprintf(", %s events of histories", number(r.Events))
	}
	linked := ""
	if r.took.linking > 0 {
		linked = fmt.Sprintf(", vectors linked in %.1f s", r.took.linking.Seconds())
	}
	j.printf("read %s, stored %s, updated %s%s, unchanged %s, skipped %s%s in %.1f s (%s a second)%s\n",
		number(r.Read), number(r.Stored), number(r.Updated), r.kinds(), number(r.Unchanged), number(r.Skipped),
		events, seconds, number(int64(float64(r.Read)/max(seconds, 1e-3))), linked)
	j.printCounts("left out", r.LeftOut)
	j.printCounts("elsewhere", r.Elsewhere)
	if len(r.Mapped) > 0 {
		var parts []string
		for _, key := range slices.Sorted(maps.Keys(r.Mapped)) {
			parts = append(parts, escape(key)+" → "+escape(r.Mapped[key]))
		}
		j.printf("mapped: %s\n", strings.Join(parts, "; "))
	}
	if j.dryRun {
		j.printf("%s: this was a dry run, and nothing was stored\n", r.format)
	}
	return nil
}

// storedNothing reports whether the database has nothing of the input, now or before.
func (r *importResult) storedNothing() bool {
	return r.Stored+r.Updated+r.Unchanged+r.Events == 0 && r.Kinds[exchange.TypeHistory]+r.Kinds[exchange.TypeSpace] == 0
}

// whyNothing says why nothing was stored, and what to try.
func (r *importResult) whyNothing() string {
	switch {
	case r.Skipped > 0:
		return "nothing in it could be stored; check its --format"
	case len(r.LeftOut) > 0:
		return fmt.Sprintf("nothing was stored: all that it holds was left out; it was read as %s, check its --format", r.format)
	}
	return fmt.Sprintf("nothing was stored: it holds no record; it was read as %s, check its --format", r.format)
}

// kinds says of what kinds the records are that were stored, where there are several.
func (r *importResult) kinds() string {
	own := slices.Contains(ownFormats, r.format)
	if own && r.Imported[graph.TypeEntity] == 0 {
		return ""
	}
	var parts []string
	for _, typ := range memoriesFirst(r.Imported) {
		if own && typ != graph.TypeEntity && typ != exchange.TypeMemory {
			continue
		}
		parts = append(parts, countOf(typ, r.Imported[typ]))
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

// warnSkipped says why records were skipped. The one that err is comes at the
// end, as the error.
func (a *app) warnSkipped(name string, r exchange.Report, err error) {
	shown := r.Errors
	if err != nil && len(shown) > 0 && err.Error() == shown[len(shown)-1].Error() {
		shown = shown[:len(shown)-1]
	}
	for _, e := range shown {
		if scope, ok := errors.AsType[*memory.Error](e.Err); ok && errors.Is(scope, memory.ErrScope) {
			scope.Do = "name its user, agent or run, or give --user, --agent or --run for all that have none"
		}
		a.warn("%s: %s", name, inWords(e))
	}
	if more := r.Skipped - len(r.Errors); more > 0 {
		a.warn("%s: and %s more were skipped", name, number(more))
	}
}

// progress is a line on a terminal that says how far the work is. There is none with --quiet or --json.
type progress struct {
	*app
	name  string
	size  int64
	dry   bool // nothing is stored
	shown time.Time
}

// progressEvery is how often the line changes.
const progressEvery = 100 * time.Millisecond

func (p *progress) show(r exchange.Report) {
	done, n := "stored", r.Stored
	if p.dry {
		done, n = "tried", r.Read
	}
	if p.size > 0 {
		p.say("%s: %d%%, %s %s", p.name, 100*r.Bytes/p.size, number(n), done)
	} else {
		p.say("%s: %s %s", p.name, number(n), done)
	}
}

// link waits until the vectors are linked, and tells how far that is. It returns how
// long it took, 0 where there was next to nothing to do.
func (p *progress) link(ctx context.Context, db *engine.DB) (took time.Duration, err error) {
	began := p.now()
	done := make(chan error, 1)
	go func() { done <- db.WaitIndexed(ctx) }()
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			if took > 0 {
				took = p.now().Sub(began)
			}
			return took, err
		case <-tick.C:
		}
		took = p.now().Sub(began)
		stats, err := db.Stats(ctx)
		if err != nil {
			return took, errors.Join(<-done, err)
		}
		var linked int64
		for _, s := range stats.Spaces {
			linked += s.Linked
		}
		p.say("%s: linking, %s of %s vectors", p.name, number(linked), number(stats.Vectors))
	}
}

func (p *progress) say(format string, args ...any) {
	if p.errWidth == 0 || p.quiet || p.json || p.now().Sub(p.shown) < progressEvery {
		return
	}
	p.shown = p.now()
	line := fmt.Sprintf(format, args...)
	// A line that is as wide as the terminal would wrap.
	fmt.Fprintf(p.err, "\r%s\x1b[K", cut(escape(line), p.errWidth-1))
}

func (p *progress) clear() {
	if !p.shown.IsZero() {
		fmt.Fprint(p.err, "\r\x1b[K")
	}
}
