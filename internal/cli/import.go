package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
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
	"github.com/seed-7aedc3ff/memdb/internal/ctxio"
	"github.com/seed-7aedc3ff/memdb/memory"
)

const importExample = `
memdbctl import memories.jsonl
memdbctl import chat.jsonl --user ada --run 2026-11-20
memdbctl import agent_memory.json --into-agent researcher
memdbctl import locomo10.json --format locomo --db ./locomo.data
memdbctl import conversations.json --user ada --dry-run
memdbctl import conversations.json --user ada
memdbctl import ./notes --format markdown --user ada
memdbctl import table.csv --user ada --timezone Europe/Amsterdam
memdbctl import base.fbin --agent bench
zstd -dc memories.jsonl.zst | memdbctl import - --format jsonl --strict`

// The formats of an import.
const (
	formatJSONL  = "jsonl"
	formatJSON   = "json"
	formatLocomo = "locomo"
	formatFbin   = string(exchange.RowsFloat32)
	formatU8bin  = string(exchange.RowsUint8)
)

// ownFormats are those that memdb itself or its benchmarks write; formatAuto is any.
var ownFormats = []string{formatJSONL, formatJSON, formatLocomo, formatFbin, formatU8bin}

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
	zone    *time.Location
}

func (a *app) importCmd() *cobra.Command {
	cmd := newCmd(groupData, "import FILE | import -", "Store the memories of a file", importExample)
	cmd.Long = `Store the memories of a file: JSON lines or one JSON document, as export writes
them, conversations of the LoCoMo benchmark, or vectors. docs/exchange.md describes these
forms, key by key.

It also reads what other programs keep, and tells by the content which of them it was:
conversations of ChatGPT and Claude, the memory.jsonl of the Model Context Protocol's memory
server, memories and history of mem0, the database of OpenFang, items of LangGraph's store,
lists of JSON, CSV with a header, a folder of Markdown files, and collections of Chroma and
Qdrant. docs/moving.md says what becomes of what. What has no place here is counted under
"left out". With --dry-run nothing is stored: it counts what there is and shows three of each
kind.

With --into-agent all is stored for one agent, whatever agent a record names; users and
runs stay as they are. The agent keeps its manifest, or gets the first that is read.

Texts that are there already are stored again; a memory whose ID and content are
there already is left alone. Lines of a file that have no IDs get some that follow
from its content, so that an import which was interrupted can be run again.

At the end it links the new vectors into the index, on all processors, so that the
first search is as fast as any. Interrupted there, all vectors are stored and found,
and the rest is linked while the database is open the next time.

A record that can't be stored is skipped and named, and the exit code is then 1.`
	cmd.Args = exactly(1, "one file, or - for the input")
	cmd.ValidArgsFunction = nil // a file
	var o importing
	flags := cmd.Flags()
	flags.StringVar(&o.format, "format", formatAuto, "its form, which auto tells by its name and content: "+list(formats, "or"))
	flags.StringVar(&o.Scope.User, "user", "", "the user of records that name no user, agent or run")
	flags.StringVar(&o.Scope.Agent, "agent", "", "likewise the agent")
	flags.StringVar(&o.Scope.Run, "run", "", "likewise the run")
	flags.StringVar(&o.IntoAgent, "into-agent", "", "the agent that everything is stored for, whatever agent a record names")
	flags.BoolVar(&o.Upsert, "upsert", false, "change the memories whose IDs are there with other content")
	flags.BoolVar(&o.Strict, "strict", false, "stop at the first record that can't be stored, instead of skipping it")
	flags.BoolVar(&o.skipBad, "skip-bad", false, "exit with 0 although records were skipped")
	flags.BoolVar(&o.dryRun, "dry-run", false, "store nothing: count what there is, and show three of each kind")
	flags.Func("timezone", "the `zone` of times that name none, as Europe/Amsterdam or +02:00 (default UTC)", func(s string) (err error) {
		o.zone, err = parseZone(s)
		return err
	})
	flags.BoolVar(&o.IgnoreUnknown, "ignore-unknown", false, "leave out keys that are not known, instead of skipping the record")
	complete(cmd, "format", formats...)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !slices.Contains(formats, o.format) {
			return usagef(cmd, "--format %q: there are %s", o.format, list(formats, "and"))
		}
		if flags.Changed("into-agent") && (o.IntoAgent == "" || o.Scope.Agent != "") {
			return usagef(cmd, "--into-agent names one agent, instead of --agent")
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
	in, file := from.Reader, from.file
	if in != nil {
		// What can't be read makes no database.
		if _, err := in.Peek(1); err != nil && !errors.Is(err, io.EOF) {
			return inputError(name, err)
		}
	}
	if o.format == formatAuto {
		if o.format, err = from.guess(name); err != nil {
			return inputError(name, err)
		}
	}
	if !from.isOwn(o.format) {
		return a.moveIn(cmd, name, from, o)
	}
	if (o.format == formatFbin || o.format == formatU8bin) && o.Scope == (memory.Scope{}) && o.IntoAgent == "" {
		return usagef(cmd, "vectors have no owner; give --agent, --user or --run")
	}
	whole, err := o.look(ctx, file, in)
	if err != nil {
		return inputError(name, err)
	}
	if o.dryRun {
		return a.preview(ctx, name, ownItems(whole, o.format), &o, nil)
	}
	start := a.now()
	bar := &progress{app: a, name: filepath.Base(name), size: sizeOf(file)}
	o.Progress = bar.show
	load := func(db *engine.DB) error {
		report, err := read(ctx, db, whole, &o)
		took := importTimes{storing: a.now().Sub(start)}
		if err == nil {
			took.linking, err = bar.link(ctx, db)
		}
		bar.clear()
		return a.printReport(name, importResult{Report: report, format: o.format, took: took}, o.skipBad, err)
	}
	switch o.format {
	case formatLocomo:
		options := &engine.Options{IndexedText: exchange.LocomoIndexedText()}
		return a.createAs(ctx, options, "speaker, caption and date", load)
	case formatJSONL, formatJSON:
		// Another database keeps its own settings, and the report says what differs.
		if d := headOf(in); d != nil {
			return a.createAs(ctx, d.Options(), "", load)
		}
	}
	return a.create(ctx, nil, load)
}

// look refuses what cannot be imported, before a database is made of it, and returns
// the input as if it had not been looked at.
func (o *importing) look(ctx context.Context, file io.Reader, in *bufio.Reader) (io.Reader, error) {
	switch o.format {
	case formatLocomo:
		return firstConversation(in)
	case formatJSONL, formatJSON:
		head, _ := in.Peek(exchange.TextHead) // an error comes again when the file is read
		if err := exchange.CheckText(head); err != nil {
			return nil, err
		}
		var err error
		o.Origin, err = originOf(ctx, file, in)
		return in, err
	}
	return in, checkHead(in, exchange.Rows(o.format), sizeOf(file))
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

// firstConversation reads the first conversation of a file of LoCoMo, which tells that
// it is one.
func firstConversation(in io.Reader) (io.Reader, error) {
	var head bytes.Buffer
	for _, err := range exchange.ReadLocomo(io.TeeReader(in, &head)) {
		return io.MultiReader(&head, in), err
	}
	return nil, errors.New("it holds no conversation")
}

// read imports in a format.
func read(ctx context.Context, db *engine.DB, in io.Reader, o *importing) (exchange.Report, error) {
	switch o.format {
	case formatLocomo:
		return exchange.ImportLocomo(ctx, db, in, &o.Options)
	case formatJSONL:
		return exchange.ImportJSONL(ctx, db, in, &o.Options)
	case formatJSON:
		return exchange.ImportJSON(ctx, db, in, &o.Options)
	default:
		return exchange.ImportVectors(ctx, db, in, exchange.Rows(o.format), &o.Options)
	}
}

// originOf names a file by its content, and goes back to its begin. Another input
// has no name: it can be read only once.
func originOf(ctx context.Context, r io.Reader, in *bufio.Reader) (string, error) {
	f, ok := r.(*os.File)
	if !ok || sizeOf(r) == 0 {
		return "", nil
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	origin, err := exchange.Fingerprint(ctxio.Reader(ctx, f))
	if err != nil {
		return "", err
	}
	_, err = f.Seek(0, io.SeekStart)
	in.Reset(f)
	return origin, err
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
	left   map[string]int // what was left out, nil for memdb's own forms
	took   importTimes
}

// printReport tells what was imported, also where it ended early.
func (a *app) printReport(name string, r importResult, skipBad bool, err error) error {
	a.warnSkipped(name, r.Report, err)
	for _, note := range r.Notes {
		a.warn("%s: %s", name, note)
	}
	seconds := r.took.storing.Seconds()
	if a.json {
		out := exchange.NewImported(r.Report, inWords)
		out.Format, out.LeftOut = r.format, r.left
		out.Seconds, out.LinkSeconds = seconds, r.took.linking.Seconds()
		if out.LeftOut == nil {
			out.LeftOut = map[string]int{}
		}
		if failed := a.printJSON(out); err == nil {
			err = failed
		}
	} else {
		events := ""
		if r.Events > 0 {
			events = fmt.Sprintf(", %s events of histories", number(r.Events))
		}
		linked := ""
		if r.took.linking > 0 {
			linked = fmt.Sprintf(", vectors linked in %.1f s", r.took.linking.Seconds())
		}
		a.printf("read %s, stored %s, updated %s%s, unchanged %s, skipped %s%s in %.1f s (%s a second)%s\n",
			number(r.Read), number(r.Stored), number(r.Updated), r.kinds(), number(r.Unchanged), number(r.Skipped),
			events, seconds, number(int64(float64(r.Read)/max(seconds, 1e-3))), linked)
		a.printLeft(r.left)
	}
	switch {
	case err != nil:
		return fmt.Errorf("import %s: %w", name, err)
	case r.Skipped > 0 && r.Skipped == r.Read:
		return fmt.Errorf("import %s: nothing in it could be stored; check its --format", name)
	case r.Skipped > 0 && !skipBad:
		return fmt.Errorf("import %s: %s of %s records were skipped; mend them and import again, or accept it with --skip-bad",
			name, number(r.Skipped), number(r.Read))
	}
	return nil
}

// kinds says of what kinds the records are that were stored, where there are several.
func (r *importResult) kinds() string {
	if r.left == nil && r.Imported[graph.TypeEntity] == 0 {
		return ""
	}
	var parts []string
	for _, typ := range memoriesFirst(r.Imported) {
		if r.left == nil && typ != graph.TypeEntity && typ != exchange.TypeMemory {
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
	shown time.Time
}

// progressEvery is how often the line changes.
const progressEvery = 100 * time.Millisecond

func (p *progress) show(r exchange.Report) {
	if p.size > 0 {
		p.say("%s: %d%%, %s stored", p.name, 100*r.Bytes/p.size, number(r.Stored))
	} else {
		p.say("%s: %s stored", p.name, number(r.Stored))
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
