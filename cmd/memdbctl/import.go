package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/exchange"
)

const importExample = `
memdbctl import memories.jsonl
memdbctl import locomo10.json --format locomo --db ./locomo.data
zstd -dc memories.jsonl.zst | memdbctl import - --format jsonl --strict`

// The formats of an import.
const (
	formatJSONL  = "jsonl"
	formatLocomo = "locomo"
)

func (a *app) importCmd() *cobra.Command {
	cmd := newCmd(groupData, "import FILE | import -", "Store the memories of a file", importExample)
	cmd.Long = `Store the memories of a file: JSON lines, or conversations of the LoCoMo
benchmark. Texts that are there already are stored again; a memory whose ID and
content are there already is left alone.`
	cmd.Args = exactly(1, "one file, or - for the input")
	cmd.ValidArgsFunction = nil // a file
	var (
		format string
		opts   exchange.Options
	)
	flags := cmd.Flags()
	flags.StringVar(&format, "format", "", "jsonl or locomo (default by the file's first character)")
	flags.BoolVar(&opts.Strict, "strict", false, "stop at the first record that can't be stored, instead of skipping it")
	flags.BoolVar(&opts.Upsert, "upsert", false, "change the memories whose IDs are there with other content")
	complete(cmd, "format", formatJSONL, formatLocomo)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if format != "" && format != formatJSONL && format != formatLocomo {
			return usagef(cmd, "--format %q: there are %s and %s", format, formatJSONL, formatLocomo)
		}
		return a.importFile(cmd.Context(), args[0], format, opts)
	}
	return cmd
}

func (a *app) importFile(ctx context.Context, name, format string, opts exchange.Options) error {
	file, err := a.openInput(ctx, name)
	if err != nil {
		return err
	}
	defer done(file)
	in := bufio.NewReader(file)
	// What can't be read makes no database.
	if _, err := in.Peek(1); err != nil && !errors.Is(err, io.EOF) {
		return inputError(name, err)
	}
	if format == "" {
		format = guessFormat(in)
	}
	start := a.now()
	bar := &progress{app: a, name: filepath.Base(name), size: sizeOf(file)}
	opts.Progress = bar.show
	load := func(db *engine.DB) error {
		read := exchange.ImportJSONL
		if format == formatLocomo {
			read = exchange.ImportLocomo
		}
		report, err := read(ctx, db, in, &opts)
		bar.clear()
		return a.printReport(name, report, a.now().Sub(start), err)
	}
	if format == formatLocomo {
		return a.createIndexing(ctx, exchange.LocomoIndexedText(), "speaker, caption and date", load)
	}
	return a.create(ctx, nil, load)
}

// maxBlank is how far the first character of a file is looked for.
const maxBlank = 512

// guessFormat looks at the first character that is not blank: LoCoMo's file is
// a list. It reads no further than that, since a pipe may have no more for now.
func guessFormat(in *bufio.Reader) string {
	for n := 1; n <= maxBlank; n++ {
		head, err := in.Peek(n) // an error comes again when the file is read
		if err != nil {
			break
		}
		switch c := head[n-1]; {
		case c == '[':
			return formatLocomo
		case !strings.ContainsRune(" \t\r\n", rune(c)) && !strings.HasPrefix("\ufeff", string(head)):
			return formatJSONL
		}
	}
	return formatJSONL
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

// reportJSON is the result of an import.
type reportJSON struct {
	Read      int         `json:"read"`
	Stored    int         `json:"stored"`
	Updated   int         `json:"updated"`
	Unchanged int         `json:"unchanged"`
	Skipped   int         `json:"skipped"`
	Errors    []errorJSON `json:"errors"`
	Seconds   float64     `json:"seconds"`
}

type errorJSON struct {
	Line  int    `json:"line,omitempty"`
	ID    string `json:"id,omitempty"`
	Error string `json:"error"`
}

// printReport tells what was imported, also where it ended early.
func (a *app) printReport(name string, r exchange.Report, took time.Duration, err error) error {
	a.warnSkipped(name, r, err)
	seconds := took.Seconds()
	if a.json {
		out := reportJSON{r.Read, r.Stored, r.Updated, r.Unchanged, r.Skipped, []errorJSON{}, seconds}
		for _, e := range r.Errors {
			out.Errors = append(out.Errors, errorJSON{e.Line, e.ID, e.Err.Error()})
		}
		if failed := a.printJSON(out); err == nil {
			err = failed
		}
	} else {
		a.printf("read %s, stored %s, updated %s, unchanged %s, skipped %s in %.1f s (%s a second)\n",
			number(r.Read), number(r.Stored), number(r.Updated), number(r.Unchanged), number(r.Skipped),
			seconds, number(int64(float64(r.Read)/max(seconds, 1e-3))))
	}
	switch {
	case err != nil:
		return fmt.Errorf("import %s: %w", name, err)
	case r.Skipped > 0 && r.Skipped == r.Read:
		return fmt.Errorf("import %s: nothing in it could be stored; check its --format", name)
	}
	return nil
}

// warnSkipped says why records were skipped. The one that err is comes at the
// end, as the error.
func (a *app) warnSkipped(name string, r exchange.Report, err error) {
	shown := r.Errors
	if err != nil && len(shown) > 0 && err.Error() == shown[len(shown)-1].Error() {
		shown = shown[:len(shown)-1]
	}
	for _, e := range shown {
		a.warn("%s: %v", name, e)
	}
	if more := r.Skipped - len(r.Errors); more > 0 {
		a.warn("%s: and %s more were skipped", name, number(more))
	}
}

// progress is a line on the terminal that tells how far an import is.
type progress struct {
	*app
	name  string
	size  int64
	shown time.Time
}

// progressEvery is how often the line changes.
const progressEvery = 100 * time.Millisecond

func (p *progress) show(r exchange.Report) {
	if p.errWidth == 0 || p.quiet || p.now().Sub(p.shown) < progressEvery {
		return
	}
	p.shown = p.now()
	line := fmt.Sprintf("%s: %s stored", p.name, number(r.Stored))
	if p.size > 0 {
		line = fmt.Sprintf("%s: %d%%, %s stored", p.name, 100*r.Bytes/p.size, number(r.Stored))
	}
	// A line that is as wide as the terminal would wrap.
	fmt.Fprintf(p.err, "\r%s\x1b[K", cut(escape(line), p.errWidth-1))
}

func (p *progress) clear() {
	if !p.shown.IsZero() {
		fmt.Fprint(p.err, "\r\x1b[K")
	}
}
