package exchange

import (
	"bufio"
	"context"
	"encoding/json"
	"io"

	"github.com/seed-7aedc3ff/memdb/engine"
)

// ExportOptions choose what is exported. nil is everything.
type ExportOptions struct {
	// Scope and Filter choose memories; with either, no entries are exported.
	Scope  engine.Scope
	Filter engine.Filter
	// Progress is called every so many lines.
	Progress func(ExportReport)
}

// ExportReport tells what was exported.
type ExportReport struct {
	Memories int
	Entries  int
}

const (
	// exportPage is how many memories are read at a time.
	exportPage = 5_000
	// progressEvery is how many lines lie between two calls of Progress.
	progressEvery = 1_000
)

// exporter writes one export.
type exporter struct {
	out    *bufio.Writer
	enc    *json.Encoder
	opts   ExportOptions
	report ExportReport
}

// Export writes memories as lines of JSON in the order of their Seq, with their
// vectors and access statistics, and behind them the entries of the key-value
// store: all of one state, whatever is written meanwhile. ImportJSONL reads them
// back. What it leaves out are seq and version, which every database gives out by
// itself, and the history.
func Export(ctx context.Context, db *engine.DB, w io.Writer, o *ExportOptions) (ExportReport, error) {
	x := &exporter{out: bufio.NewWriter(w)}
	if o != nil {
		x.opts = *o
	}
	x.enc = json.NewEncoder(x.out)
	x.enc.SetEscapeHTML(false)
	err := db.View(ctx, func(tx *engine.Tx) error {
		if err := x.memories(ctx, tx); err != nil {
			return err
		}
		if x.opts.Scope != (engine.Scope{}) || x.opts.Filter != nil {
			return nil
		}
		return x.entries(ctx, tx)
	})
	if err == nil {
		err = x.out.Flush()
	}
	return x.report, err
}

func (x *exporter) memories(ctx context.Context, tx *engine.Tx) error {
	q := engine.ListQuery{
		Scope: x.opts.Scope, AllScopes: x.opts.Scope == (engine.Scope{}), Filter: x.opts.Filter,
		Limit: exportPage, WithVectors: true,
	}
	for m, err := range tx.Memories().All(ctx, q) {
		if err != nil {
			return err
		}
		r := NewRecord(m)
		r.Seq = 0
		if err := x.line(r, &x.report.Memories); err != nil {
			return err
		}
	}
	return nil
}

func (x *exporter) entries(ctx context.Context, tx *engine.Tx) error {
	owners, err := tx.KV().Owners(ctx)
	if err != nil {
		return err
	}
	for _, o := range owners {
		for e, err := range tx.KV().All(ctx, engine.KVQuery{Owner: o, Limit: exportPage}) {
			if err != nil {
				return err
			}
			line := NewEntry(e)
			line.Version = 0
			if err := x.line(line, &x.report.Entries); err != nil {
				return err
			}
		}
	}
	return nil
}

func (x *exporter) line(v any, count *int) error {
	if err := x.enc.Encode(v); err != nil {
		return err
	}
	*count++
	if n := x.report.Memories + x.report.Entries; n%progressEvery == 0 && x.opts.Progress != nil {
		x.opts.Progress(x.report)
	}
	return nil
}
