package engine

import (
	"context"
	"fmt"

	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
)

// maxProblems bounds a report: what is wrong a thousand times has one cause.
const maxProblems = 100

// Report is the result of a check.
type Report struct {
	OK       bool     `json:"ok"`
	Memories int      `json:"memories"`
	Problems []string `json:"problems"`
}

func (r *Report) problem(format string, args ...any) {
	if len(r.Problems) < maxProblems {
		r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
	}
}

// Check reads the whole store and compares each structure with the memories that
// it must follow from. It runs on one state, beside readers and writers, and
// reports damage as problems, not as an error.
func (db *DB) Check(ctx context.Context) (Report, error) {
	r := Report{Problems: []string{}}
	err := db.View(ctx, func(tx *Tx) error {
		c := &checker{tx: tx, ctx: ctx, report: &r, docs: map[uint32]bool{}, rows: map[uint32]*layout.Row{}, refs: map[layout.VectorKey]bool{}}
		if err := db.store.CheckLevels(nil); err != nil {
			r.problem("store: %v", err)
		}
		for _, step := range []struct {
			what string
			run  func() error
		}{
			{"sealed documents", c.sealed},
			{"memories", c.memories},
			{"IDs", c.ids},
			{"duplicates", c.dedup},
			{"documents", c.forward},
			{"vectors", c.vectors},
			{"statistics", c.stats},
			{"history", c.history},
			{"parts", c.parts},
			{"names", c.names},
			{"log", c.log},
		} {
			if err := step.run(); err != nil {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				r.problem("%s: %v", step.what, err)
			}
		}
		return nil
	})
	r.OK = err == nil && len(r.Problems) == 0
	return r, err
}

// checker is one running check.
type checker struct {
	tx     *Tx
	ctx    context.Context
	report *Report
	docs   map[uint32]bool           // documents of visible memories
	rows   map[uint32]*layout.Row    // documents of sealed chunks
	refs   map[layout.VectorKey]bool // vectors that records refer to
	seen   int
}

// scan visits the keys of a kind.
func (c *checker) scan(kind byte, visit func(key, value []byte) error) error {
	lower, upper := c.tx.keys.Span(kind)
	return kv.Scan(c.tx.reader, lower, upper, func(key, value []byte) error {
		if c.seen++; c.seen%1024 == 0 && c.ctx.Err() != nil {
			return c.ctx.Err()
		}
		return visit(key, value)
	})
}
