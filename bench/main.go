// Bench runs whole-database workloads: memdb and its peers take turns at the same
// work in one process on one core, and a table shows the medians, their spread
// and how the peers compare.
//
//	go -C bench run . -list
//	go -C bench run . locomo ingest -rounds 3 -json results.jsonl
//
// With -report the results go to one file, with the machine and the commit; two of these are set
// side by side, and a row that became slower by more than the rounds differ is a failure. A second
// run adds its rounds, so that two versions can take turns:
//
//	go -C bench run . scale -n 100000 -vectors -rounds 1 -report NEW.json
//	go -C bench run . compare OLD.json NEW.json
//
// The report is written after each round, so that a run which is interrupted leaves what it has
// shown. At its end a run draws what it showed as charts, into the folder that -dir names; charts
// draws those of a report, and so made those of docs/charts:
//
//	go -C bench run . charts reports/charts.json ../docs/charts
//
// Data sets are looked for in the folder that -data or MEMDB_DATA names; data lists them with
// their sources, terms and checksums. A set that is not there is made up, and the table and the
// report say so. A peer that is not there is skipped by name. SQLite in C takes part with -tags
// sqlite_fts5:
//
//	go -C bench run -tags sqlite_fts5 . ingest
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/seed-7aedc3ff/memdb/bench/harness"
)

// workloads lists what can be run, in the order of -list.
func workloads() []*harness.Workload {
	return []*harness.Workload{
		locomo(), ablation(), embedders(), chats(), ir(), languages(), short(), mixed(), ingest(), store(), oneFile(), scale(), decay(), caps(), plateau(), textQueries(),
		textGrowth(), vectors(), vectorsHard(), vectorGrowth(), ownerGrowth(), filtered(), graphs(), graphRecall(), talks(), serve(),
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if spec := os.Getenv(harness.ChildVariable); spec != "" {
		if err := harness.Child(ctx, workloads(), spec, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if spec := os.Getenv(scaleVariable); spec != "" {
		if err := scaleChild(ctx, spec); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// command is a parsed command line.
type command struct {
	env      harness.Env
	jsonFile string
	report   string
	args     []string
	list     bool
	chosen   []*harness.Workload
}

// verbs are what the program does beside running workloads.
var verbs = map[string]func(args []string, stdout, stderr io.Writer) int{
	"charts":  drawCharts,
	"compare": compare,
	"data":    showData,
	"figures": printFigures,
}

// errUsage is wrapped by errors of the command line.
var errUsage = errors.New("usage")

// run is the program: it returns the exit code, 0 for done or skipped, 1 for
// failed, 2 for a command line that it does not understand.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 {
		if verb, ok := verbs[args[0]]; ok {
			return verb(args[1:], stdout, stderr)
		}
	}
	c, err := parse(args, stdout)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "bench: %v\n", err)
		return 2
	case c.list:
		list(stdout)
		return 0
	}
	c.env.Log = stderr
	if err := c.run(ctx, stdout); err != nil {
		fmt.Fprintf(stderr, "bench: %v\n", err)
		return 1
	}
	return 0
}

func list(out io.Writer) {
	for _, w := range workloads() {
		fmt.Fprintf(out, "%-11s %s\n", w.Name, w.Summary)
	}
}

// parse reads flags and workloads in any order.
func parse(args []string, help io.Writer) (*command, error) {
	c := &command{env: harness.Env{Pin: true}, args: args}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&c.env.Data, "data", "", "`folder` of the data sets (default $MEMDB_DATA)")
	flags.StringVar(&c.env.Dir, "dir", "", "`folder` for charts and for the databases, on the disk to be measured (default bench/out)")
	flags.StringVar(&c.jsonFile, "json", "", "also write the results to a `file`, a JSON object a line")
	flags.StringVar(&c.report, "report", "", "also write the results to a `file` with machine and commit, for compare; rounds of the same commit are added")
	flags.IntVar(&c.env.Rounds, "rounds", 5, "rounds that count")
	flags.IntVar(&c.env.N, "n", 0, "documents to ingest, or vectors of a set (default: the workload's own)")
	flags.Float64Var(&c.env.Seconds, "seconds", 0, "how long a measurement by time lasts (default: the workload's own)")
	flags.BoolVar(&c.env.Vectors, "vectors", false, "scale: with a vector of 384 dimensions for each memory")
	flags.BoolVar(&c.env.Pin, "pin", true, "measure on one core")
	flags.IntVar(&c.env.Core, "core", -1, "core to measure on (default: the last)")
	flags.BoolVar(&c.list, "list", false, "list the workloads")
	only := flags.String("only", "", "contestants to run beside memdb, as a regular `expression`")
	flags.Usage = func() {
		fmt.Fprintln(help, "usage: go -C bench run . WORKLOAD… [flags]")
		fmt.Fprintln(help, "       go -C bench run . compare OLD.json NEW.json")
		fmt.Fprintln(help, "       go -C bench run . charts REPORT.json FOLDER   draws what a report has as SVG")
		fmt.Fprintln(help, "       go -C bench run . data [FOLDER]               lists the data sets, and what the folder has of them")
		list(help)
		flags.SetOutput(help)
		flags.PrintDefaults()
	}
	var names []string
	for rest := args; ; {
		if err := flags.Parse(rest); err != nil {
			if errors.Is(err, flag.ErrHelp) {
				return nil, err
			}
			return nil, fmt.Errorf("%w: %w; see -h", errUsage, err)
		}
		if flags.NArg() == 0 {
			break
		}
		names = append(names, flags.Arg(0))
		rest = flags.Args()[1:]
	}
	return c, c.complete(names, *only)
}

// complete checks what was given and fills in the defaults.
func (c *command) complete(names []string, only string) (err error) {
	if c.list {
		return nil
	}
	if c.chosen, err = choose(names); err != nil {
		return err
	}
	if c.env.Rounds < 1 || c.env.N < 0 || c.env.Seconds < 0 {
		return fmt.Errorf("%w: -rounds must be at least 1, -n and -seconds at least 0", errUsage)
	}
	if only != "" {
		if c.env.Only, err = regexp.Compile(only); err != nil {
			return fmt.Errorf("%w: -only: %w", errUsage, err)
		}
	}
	if c.env.Data == "" {
		c.env.Data = os.Getenv("MEMDB_DATA")
	}
	if c.env.Dir == "" {
		c.env.Dir = filepath.Join(repository(), "bench", "out")
	}
	c.env.Out = c.env.Dir
	c.env.Made = filepath.Join(c.env.Dir, "made-up")
	return nil
}

// choose finds workloads by name.
func choose(names []string) ([]*harness.Workload, error) {
	known := map[string]*harness.Workload{}
	var all []string
	for _, w := range workloads() {
		known[w.Name] = w
		all = append(all, w.Name)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%w: name a workload: %s", errUsage, strings.Join(all, ", "))
	}
	var chosen []*harness.Workload
	for _, name := range names {
		w, ok := known[name]
		if !ok {
			return nil, fmt.Errorf("%w: no workload %q; there are: %s", errUsage, name, strings.Join(all, ", "))
		}
		chosen = append(chosen, w)
	}
	return chosen, nil
}

// repository is the folder of the root module above the working folder, or the
// working folder itself where there is none.
func repository() string {
	const root = "module github.com/seed-7aedc3ff/memdb\n"
	dir, err := os.Getwd()
	if err != nil {
		return "."
	}
	for at := dir; ; at = filepath.Dir(at) {
		if text, err := os.ReadFile(filepath.Join(at, "go.mod")); err == nil && strings.HasPrefix(string(text), root) {
			return at
		}
		if at == filepath.Dir(at) {
			return dir
		}
	}
}

// run runs the chosen workloads in a folder of its own, which it removes.
func (c *command) run(ctx context.Context, stdout io.Writer) (err error) {
	if err := os.MkdirAll(c.env.Dir, 0o755); err != nil {
		return err
	}
	if c.env.Dir, err = os.MkdirTemp(c.env.Dir, "run-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(c.env.Dir)) }()
	report, err := c.openReport()
	if err != nil {
		return err
	}
	if c.jsonFile == "" {
		err = c.all(ctx, stdout, io.Discard, report)
	} else {
		record, err2 := os.Create(c.jsonFile)
		if err2 != nil {
			return err2
		}
		err = errors.Join(c.all(ctx, stdout, record, report), record.Close())
	}
	report.Partial = ctx.Err() != nil
	c.noteMadeUp(report)
	charts, err2 := writeCharts(report, c.env.Out)
	for _, name := range charts {
		fmt.Fprintf(stdout, "chart: %s\n", filepath.Join(c.env.Out, name))
	}
	return errors.Join(err, err2, c.writeReport(report))
}

// asked is a command line without the places of files, which are nobody else's.
func asked(args []string) string {
	var kept []string
	for i := 0; i < len(args); i++ {
		name, _, joined := strings.Cut(strings.TrimLeft(args[i], "-"), "=")
		if strings.HasPrefix(args[i], "-") && slices.Contains([]string{"data", "dir", "json", "report"}, name) {
			if !joined {
				i++
			}
			continue
		}
		kept = append(kept, args[i])
	}
	return strings.Join(kept, " ")
}

// openReport begins a report, or goes on with one of the same commit: so two versions are
// measured in turns.
func (c *command) openReport() (*harness.Report, error) {
	report := &harness.Report{
		Commit: harness.Commit(repository()), Machine: harness.ThisMachine(), Versions: harness.Versions(),
		Command: asked(c.args),
	}
	if c.report == "" {
		return report, nil
	}
	earlier, err := readReport(c.report)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return report, nil
	case err != nil:
		return nil, fmt.Errorf("adding to %s: %w", c.report, err)
	case !earlier.Continues(report):
		return nil, fmt.Errorf("adding to %s: it is of commit %s on %s: name another file", c.report, earlier.Commit, earlier.Machine)
	}
	if !slices.Contains(strings.Split(earlier.Command, "; "), report.Command) {
		earlier.Command += "; " + report.Command
	}
	return earlier, nil
}

// noteMadeUp adds to a report the sets that have stood in for real ones in this run.
func (c *command) noteMadeUp(report *harness.Report) {
	report.MadeUp = slices.Compact(slices.Sorted(slices.Values(slices.Concat(report.MadeUp, c.env.MadeUp()))))
}

// writeReport writes the report, if one was asked for, in place of the one before.
func (c *command) writeReport(report *harness.Report) error {
	if c.report == "" {
		return nil
	}
	c.noteMadeUp(report)
	part := c.report + ".part"
	file, err := os.Create(part)
	if err != nil {
		return err
	}
	if err := errors.Join(report.Write(file), file.Close()); err != nil {
		return err
	}
	return os.Rename(part, c.report)
}

// all runs the chosen workloads, and goes on where one fails.
func (c *command) all(ctx context.Context, stdout, record io.Writer, report *harness.Report) error {
	var failed []error
	for _, w := range c.chosen {
		if err := c.one(ctx, w, stdout, record, report); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", w.Name, err))
		}
	}
	return errors.Join(failed...)
}

// one runs a workload and writes what it showed.
func (c *command) one(ctx context.Context, w *harness.Workload, stdout, record io.Writer, report *harness.Report) error {
	c.env.Progress = func(results []*harness.Result) error { return c.writeReport(report.With(results)) }
	results, err := harness.Run(ctx, w, &c.env)
	if errors.Is(err, harness.ErrMissing) {
		_, err := fmt.Fprintf(stdout, "%s skipped: %s\n", w.Name, harness.Lacking(err))
		return err
	}
	if results == nil {
		return err
	}
	report.Add(results)
	if err := errors.Join(err, harness.WriteTable(stdout, w, &c.env, results), harness.WriteJSON(record, w, results)); err != nil {
		return err
	}
	for _, r := range results {
		if r.Err != nil {
			return fmt.Errorf("%s: %w", r.Contestant, r.Err)
		}
	}
	return nil
}
