package exchange

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// ExportOptions choose what is exported. nil is everything.
type ExportOptions struct {
	// Scope and Filter choose memories with their histories. A scope also chooses
	// histories of memories that are gone, and entries by their owner; with a run or
	// a filter, which entries do not have, none is exported.
	Scope  memory.Scope
	Filter filter.Filter
	// Document writes one JSON document, a list of what are lines otherwise.
	Document bool
	// Ahead is called before anything is written, with the state that is exported. nil: it is not.
	Ahead func(context.Context, *engine.Tx) error
	// Progress is called every so many lines.
	Progress func(ExportReport)
}

// ExportReport tells what was exported.
type ExportReport struct {
	// Memories is how many were written.
	Memories int
	Events   int // of histories
	// Lines are those about things beside the memories, by their type.
	Lines map[string]int
	// Lost is how many things, such as a memory, a vector, a history, an entry or a whole range of
	// keys, could not be read, and are not in the export; Problems are the errors of the first
	// hundred.
	Lost     int
	Problems []error
}

const mostProblems = 100

func (r *ExportReport) lose(err error) {
	if r.Lost++; r.Lost <= mostProblems {
		r.Problems = append(r.Problems, err)
	}
}

const (
	// exportPage is how many memories are read at a time.
	exportPage = 5_000
	// progressEvery is how many lines lie between two calls of Progress.
	progressEvery = 1_000
	// embeddingSpace is the space of the key "embedding".
	embeddingSpace = "default"
)

// exporter writes one export.
type exporter struct {
	out     *bufio.Writer
	enc     *json.Encoder
	opts    ExportOptions
	spaces  map[string]engine.SpaceInfo // those that have no line yet
	report  ExportReport
	written int // lines of all types
}

// encode writes a line, or an item of the document: nothing else writes to the output.
func (x *exporter) encode(v any) error {
	if x.opts.Document {
		before := byte(',')
		if x.written == 0 {
			before = '['
		}
		if err := x.out.WriteByte(before); err != nil {
			return err
		}
	}
	x.written++
	return x.enc.Encode(v)
}

// end ends the output.
func (x *exporter) end() error {
	if x.opts.Document {
		last := "]\n"
		if x.written == 0 {
			last = "[]\n"
		}
		if _, err := x.out.WriteString(last); err != nil {
			return err
		}
	}
	return x.out.Flush()
}

// Export writes memories as lines of JSON in the order of their Seq, with their
// vectors, access statistics and, right before each, its history; among them, in
// their order, the histories of those that are gone; before them the manifests of
// agents, and behind them all else that is kept beside memories. A whole export begins with lines about the database and its
// vector spaces; in that of a part each space stands before its first vector. All is
// of one state, whatever is written meanwhile. ImportJSONL reads it back, and what
// that makes exports to the same bytes. What a change of the model has put beside the default
// space is left out, but for memories without a text: it can be made again, and a copy in which
// texts are edited would take it for the vectors of those. IDs of events, seqs, LSNs and versions of
// entries are left out: every database gives them out by itself. Of a memory that
// has expired only the history is exported. What is damaged is left out, and counted in the
// report.
func Export(ctx context.Context, db *engine.DB, w io.Writer, o *ExportOptions) (ExportReport, error) {
	x := &exporter{out: bufio.NewWriter(w), report: ExportReport{Lines: map[string]int{}}}
	if o != nil {
		x.opts = *o
	}
	x.enc = json.NewEncoder(x.out)
	x.enc.SetEscapeHTML(false)
	err := db.View(ctx, func(tx *engine.Tx) error {
		if x.opts.Ahead != nil {
			if err := x.opts.Ahead(ctx, tx); err != nil {
				return err
			}
		}
		if err := x.head(ctx, db); err != nil {
			return err
		}
		if x.opts.Filter == nil {
			if err := tx.LinesAhead(x.opts.Scope, x.report.lose, x.other); err != nil {
				return err
			}
		}
		if err := x.memories(ctx, tx); err != nil || x.opts.Filter != nil || x.opts.Scope.Run != "" {
			return err
		}
		return tx.Lines(x.opts.Scope, x.report.lose, x.other)
	})
	if err == nil {
		err = x.end()
	}
	return x.report, err
}

// head begins a whole export with what the data was kept in: the database and its
// vector spaces.
func (x *exporter) head(ctx context.Context, db *engine.DB) error {
	stats, err := db.Stats(ctx)
	if err != nil {
		return err
	}
	x.spaces = make(map[string]engine.SpaceInfo, len(stats.Spaces))
	for _, s := range stats.Spaces {
		x.spaces[s.Name] = s
	}
	if x.opts.Scope != (memory.Scope{}) || x.opts.Filter != nil {
		return nil
	}
	if err := x.encode(NewDatabase(db.Settings())); err != nil {
		return err
	}
	names := slices.Collect(maps.Keys(x.spaces))
	return x.space(slices.DeleteFunc(names, isBeside))
}

// space writes the lines of spaces that have none yet.
func (x *exporter) space(names []string) error {
	slices.Sort(names)
	for _, name := range names {
		s, ok := x.spaces[name]
		if !ok {
			continue
		}
		delete(x.spaces, name)
		if err := x.encode(NewSpace(s)); err != nil {
			return err
		}
	}
	return nil
}

// isBeside reports whether a space is one of a change of the model: Reembed fills it, or a
// switch has put the vectors of before there. It can be filled again from the texts, by the
// model of its name.
func isBeside(space string) bool { return strings.HasPrefix(space, engine.BesidePrefix) }

// withoutBeside takes the vectors out of a memory with a text that are in such spaces. In a
// memory without a text they are all that there is, and stay.
func withoutBeside(m *memory.Memory) {
	if m.Text != "" {
		maps.DeleteFunc(m.Vectors, func(space string, _ []float32) bool { return isBeside(space) })
	}
}

// spacesOf names the spaces of a memory's vectors.
func spacesOf(m *memory.Memory) []string {
	var names []string
	if m.Embedding != nil {
		names = append(names, embeddingSpace)
	}
	return slices.AppendSeq(names, maps.Keys(m.Vectors))
}

func (x *exporter) memories(ctx context.Context, tx *engine.Tx) error {
	all := x.opts.Scope == (memory.Scope{})
	next, stop := iter.Pull2(tx.Memories().Histories(ctx, memory.HistoryQuery{Scope: x.opts.Scope, AllScopes: all, Lost: x.report.lose}))
	defer stop()
	h := &histories{next: next}
	if err := h.advance(); err != nil {
		return err
	}
	q := memory.ListQuery{Scope: x.opts.Scope, AllScopes: all, Filter: x.opts.Filter, Limit: exportPage, WithVectors: true, Lost: x.report.lose}
	for m, err := range tx.Memories().All(ctx, q) {
		if err == nil {
			withoutBeside(&m)
			err = x.space(spacesOf(&m)) // before the history, which stays by its memory
		}
		if err == nil {
			err = x.past(h, m.Seq)
		}
		if err != nil {
			return err
		}
		r := NewRecord(m)
		r.Seq, r.StoredConfidence, r.DecayedImportance = 0, nil, nil // they follow from what is there, and from the clock
		if err := x.line(r, &x.report.Memories); err != nil {
			return err
		}
	}
	return x.past(h, math.MaxUint64)
}

// histories are those that are still to be written.
type histories struct {
	next  func() ([]memory.HistoryEntry, error, bool)
	first []memory.HistoryEntry // nil: no more
}

func (h *histories) advance() (err error) {
	h.first, err, _ = h.next()
	return err
}

// past writes the histories up to a memory: of those that are gone, and its own. A
// filter is one of memories, so that those which are gone do not pass it.
func (x *exporter) past(h *histories, seq uint64) error {
	for h.first != nil && h.first[0].Seq <= seq {
		if x.opts.Filter == nil || h.first[0].Seq == seq {
			for _, e := range h.first {
				if err := x.line(NewEvent(e), &x.report.Events); err != nil {
					return err
				}
			}
		}
		if err := h.advance(); err != nil {
			return err
		}
	}
	return nil
}

// other writes a line about something beside the memories.
func (x *exporter) other(l engine.Line) error {
	n := x.report.Lines[l.Type()]
	err := x.line(l, &n)
	x.report.Lines[l.Type()] = n
	return err
}

func (x *exporter) line(v any, count *int) error {
	if err := x.encode(v); err != nil {
		return err
	}
	*count++
	if x.written%progressEvery == 0 && x.opts.Progress != nil {
		x.opts.Progress(x.report)
	}
	return nil
}
