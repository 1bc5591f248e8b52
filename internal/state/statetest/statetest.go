// Package statetest fills states by hand, so that what stands on one is tested without a database.
package statetest

import (
	"io"
	"maps"
	"slices"
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/analysis"
	"github.com/seed-7aedc3ff/memdb/internal/doctable"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/scalar"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/invindex"
	"github.com/seed-7aedc3ff/memdb/policy"
)

// World has memories that a test adds. Each change is a commit.
type World struct {
	Tables state.Tables
	t      testing.TB
	keys   *layout.Keys
	values Values
	lsn    uint64
	names  uint32
}

// New has none yet.
func New(t testing.TB) *World {
	t.Helper()
	keys, err := layout.NewKeys(7)
	if err != nil {
		t.Fatal(err)
	}
	w := &World{t: t, keys: keys, values: Values{}}
	w.Tables.Names, w.Tables.Fields, w.Tables.Ageing = state.NewNames(), state.NewFields(), policy.NewPart()
	w.Tables.Words.Analyzer.Store(analysis.NewAuto())
	w.Tables.Words.Unit = 1
	w.Tables.NewestIndex.Store(invindex.New(invindex.Config{ScopeFields: []uint16{layout.FieldUser, layout.FieldAgent, layout.FieldRun}}))
	w.Tables.NewestKeys.Store(keys)
	w.Tables.Docs.Link(0, func() uint64 { return 0 })
	return w
}

// Add stores a memory, and returns its document.
func (w *World) Add(r layout.Record) uint32 {
	w.t.Helper()
	w.lsn++
	doc := w.Tables.Docs.Mark.Load()
	v := layout.Version{Seq: uint64(doc) + 1, Born: w.lsn, Owner: w.number(layout.NameOwner, r.Scope.User+"/"+r.Scope.Agent)}
	w.values[string(w.keys.Record(v))] = r.Append(nil)
	run := uint32(0)
	d := invindex.Doc{Numbered: true, Values: []invindex.Value{{Field: layout.FieldKind, Key: scalar.TextKey(string(state.Kinds[r.Kind]))}}}
	for _, n := range []struct {
		field uint16
		class layout.NameClass
		name  string
	}{{layout.FieldUser, layout.NameUser, r.Scope.User}, {layout.FieldAgent, layout.NameAgent, r.Scope.Agent}, {layout.FieldRun, layout.NameRun, r.Scope.Run}} {
		if n.name == "" {
			continue
		}
		num := w.number(n.class, n.name)
		if n.class == layout.NameRun {
			run = num
		}
		d.Values = append(d.Values, invindex.Value{Field: n.field, Key: layout.NumberValue(num)})
	}
	var bag analysis.Bag
	bag.Add(w.Tables.Words.Analyzer.Load(), r.Text, 1)
	bag.Each(func(term string, freq uint32) { d.Terms = append(d.Terms, invindex.Term{Text: term, Freq: freq}) })
	d.Length = bag.Length()
	if err := w.Tables.NewestIndex.Load().Add(doc, &d); err != nil {
		w.t.Fatal(err)
	}
	w.Tables.Docs.Add(doc, func(row *doctable.Row) {
		row.Version, row.Run = v, run
		row.Created, row.Importance, row.Confidence = r.Created, r.Importance, r.Confidence
		row.Expires.Store(r.Expires)
	})
	return doc
}

// Kill deletes the memory of a document.
func (w *World) Kill(doc uint32) {
	w.lsn++
	w.Tables.Docs.Kill(doc, w.lsn)
}

// State is the newest one, at a time in Unix milliseconds.
func (w *World) State(now int64) *state.State {
	s := &state.State{Tables: &w.Tables, LSN: w.lsn, Now: now, Reader: maps.Clone(w.values), Keys: w.keys, Index: w.Tables.NewestIndex.Load()}
	s.Postings = s.Index.Snapshot()
	s.Postings.Docs, s.Postings.Reader = w.Tables.Docs.Mark.Load(), s.Reader
	return s
}

func (w *World) number(class layout.NameClass, name string) uint32 {
	k := layout.Name{Class: class, Text: name}
	if num, ok := w.Tables.Names.Cached(k); ok {
		return num
	}
	w.names++
	w.Tables.Names.Remember(k, w.names)
	return w.names
}

// Values are a store in RAM.
type Values map[string][]byte

// Get is that of [kv.Reader].
func (v Values) Get(key []byte) ([]byte, io.Closer, error) {
	b, ok := v[string(key)]
	if !ok {
		return nil, nil, kv.ErrNotFound
	}
	return b, io.NopCloser(nil), nil
}

// Iter is that of [kv.Reader].
func (v Values) Iter(lower, upper []byte) (kv.Iterator, error) {
	it := &iterator{values: v, at: -1}
	for _, k := range slices.Sorted(maps.Keys(v)) {
		if k >= string(lower) && (upper == nil || k < string(upper)) {
			it.keys = append(it.keys, k)
		}
	}
	return it, nil
}

type iterator struct {
	values Values
	keys   []string
	at     int
}

func (it *iterator) to(i int) bool {
	it.at = min(max(i, -1), len(it.keys))
	return it.at >= 0 && it.at < len(it.keys)
}

// First and the rest are those of [kv.Iterator].
func (it *iterator) First() bool { return it.to(0) }

// Last moves to the last key.
func (it *iterator) Last() bool { return it.to(len(it.keys) - 1) }

// Next moves to the key after.
func (it *iterator) Next() bool { return it.to(it.at + 1) }

// Prev moves to the key before.
func (it *iterator) Prev() bool { return it.to(it.at - 1) }

// SeekGE moves to the first key from one on.
func (it *iterator) SeekGE(key []byte) bool {
	i, _ := slices.BinarySearch(it.keys, string(key))
	return it.to(i)
}

// SeekLT moves to the last key before one.
func (it *iterator) SeekLT(key []byte) bool {
	i, _ := slices.BinarySearch(it.keys, string(key))
	return it.to(i - 1)
}

// Key is the key that it stands at.
func (it *iterator) Key() []byte { return []byte(it.keys[it.at]) }

// ValueAndErr is the value of that.
func (it *iterator) ValueAndErr() ([]byte, error) { return it.values[it.keys[it.at]], nil }

// Error is nil: nothing fails.
func (it *iterator) Error() error { return nil }

// Close does nothing.
func (it *iterator) Close() error { return nil }
