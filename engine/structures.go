package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/internal/store"
)

// The tables of the store hold all structures side by side, compressed. What each takes of them
// follows from its keys and values: those of small tables are read, and those of large ones are
// measured by the index of each table, to a block of it.

// structureScan is how many bytes of tables are read to tell what takes them: a fraction of a second.
const structureScan = 32 << 20

// structureSpan is a range of keys, and what is there.
type structureSpan struct {
	name         string
	lower, upper []byte
	weight       uint64
}

// The structures of the store that are no part. The names of the files are those of Stats.Structures.
var memoryStructures = []struct {
	name  string
	kinds []byte
}{
	{"records", []byte{layout.KindRecord}},
	{"vectors", []byte{layout.KindVector, layout.KindPending}},
	{"text", []byte{layout.KindText, layout.KindForward, layout.KindRows, layout.KindTombstone}},
	{"history", []byte{layout.KindHistory, layout.KindRange}},
	{"log", []byte{layout.KindLog}},
	{"names", []byte{layout.KindID, layout.KindDedup, layout.KindName}},
	{"accesses", []byte{layout.KindStats}},
}

// AddStructures divides the bytes of the files among what they hold, in s.Structures, whose sum is
// s.DiskBytes: "records", "vectors", "text" (the index of words and filters), "history", "log" (of
// commits), "names" (IDs, and what finds duplicates), "accesses", each part by its name, "trash";
// "store_logs", which are commits that no table has yet, "snapshots" (of vectors), and "other", the
// rest. Facts, and the memories that messages refer to, are records. The bytes of the tables are
// divided by the keys and values in them; those of more than 32 MiB of tables by blocks of up to
// 32 KiB, without reading these. One file is divided as tables are.
func (db *DB) AddStructures(ctx context.Context, s *Stats) error {
	f := s.Files
	f.Tables += f.File // which has what tables have, packed
	out := map[string]int64{"store_logs": f.Logs, "snapshots": f.Snapshots}
	var spans []structureSpan
	err := db.view(ctx, nil, func(tx *Tx) (err error) {
		if spans = tx.structureSpans(); f.Tables <= structureScan {
			if err = tx.readSpans(ctx, spans); !store.Unreadable(err) {
				return err
			}
		}
		return tx.measureSpans(spans)
	})
	if err != nil {
		return fault.Within("measure the structures", err)
	}
	sum, left := uint64(0), f.Tables
	for _, s := range spans {
		sum += s.weight
	}
	for _, s := range spans {
		n := int64(0)
		if sum > 0 {
			hi, lo := bits.Mul64(uint64(f.Tables), s.weight)
			quo, _ := bits.Div64(hi, lo, sum)
			n = int64(quo)
		}
		out[s.name] += n
		left -= n
	}
	out["other"] += f.Other + left
	s.Structures = out
	return nil
}

// structureSpans are the ranges of all structures, in the order of their keys.
func (tx *Tx) structureSpans() (spans []structureSpan) {
	add := func(name string, lower, upper []byte) {
		spans = append(spans, structureSpan{name: name, lower: lower, upper: upper})
	}
	kind := func(name string, k byte) { add(name, []byte{k}, layout.PrefixEnd([]byte{k})) }
	named := map[byte]bool{}
	for _, m := range memoryStructures {
		for _, k := range m.kinds {
			kind(m.name, k)
			named[k] = true
		}
	}
	for _, p := range tx.db.parts {
		for _, k := range p.Kinds() {
			named[byte(k)] = true
			d, ok := p.(part.Divided)
			if !ok {
				kind(p.Name(), byte(k))
				continue
			}
			lower := []byte{byte(k)}
			for _, section := range d.Divisions((*partTx)(tx), k) {
				add(p.Name(), lower, section.Lower)
				add(section.Name, section.Lower, section.Upper)
				lower = section.Upper
			}
			add(p.Name(), lower, layout.PrefixEnd([]byte{byte(k)}))
		}
	}
	for k := range 256 {
		if !named[byte(k)] {
			kind("other", byte(k))
		}
	}
	slices.SortFunc(spans, func(a, b structureSpan) int { return slices.Compare(a.lower, b.lower) })
	return spans
}

// readSpans weighs ranges by their keys and values.
func (tx *Tx) readSpans(ctx context.Context, spans []structureSpan) error {
	n := 0
	for i := range spans {
		err := kv.Scan(tx.state.Reader, spans[i].lower, spans[i].upper, func(key, value []byte) error {
			spans[i].weight += uint64(len(key) + len(value))
			if n++; n%state.CancelEvery == 0 {
				return ctx.Err()
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("read the %s: %w", spans[i].name, err)
		}
	}
	return nil
}

// measureSpans weighs ranges by the tables up to the end of each, less those up to its beginning.
// A range without a key takes nothing.
func (tx *Tx) measureSpans(spans []structureSpan) error {
	before := uint64(0)
	for i := range spans {
		end := cmp.Or(string(spans[i].upper), "\xff\xff")
		upTo, err := tx.db.store.EstimateDiskUsage([]byte{0}, []byte(end))
		if err != nil {
			return err
		}
		err = kv.Scan(tx.state.Reader, spans[i].lower, spans[i].upper, func(_, _ []byte) error { return kv.ErrStop })
		switch {
		case err == nil || upTo <= before:
		case errors.Is(err, kv.ErrStop) || store.Unreadable(err):
			spans[i].weight, before = upTo-before, upTo
		default:
			return err
		}
	}
	return nil
}
