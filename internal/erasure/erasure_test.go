package erasure

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/internal/records"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/internal/state/statetest"
	"github.com/seed-7aedc3ff/memdb/invindex"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// world is a store of records, names and ends, without tables: nothing in it lives.
type world struct {
	t      *testing.T
	values statetest.Values
	tables *state.Tables
	owners map[scope.Owner]uint32
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return &world{t: t, values: statetest.Values{}, tables: &statetest.New(t).Tables, owners: map[scope.Owner]uint32{}}
}

func (w *world) keys() *layout.Keys { return w.tables.NewestKeys.Load() }

// state is what an erasure reads.
func (w *world) state() *State {
	s := &state.State{Tables: w.tables, LSN: 100, Now: 1000, Reader: w.values, Keys: w.keys(), Index: w.tables.NewestIndex.Load()}
	return &State{
		View:  records.View{State: s, Seen: &records.Seen{}},
		Lines: func(memory.Scope, func(error), func(part.Line) error) error { return nil },
	}
}

// number is that of an owner.
func (w *world) number(o scope.Owner) uint32 {
	n, known := w.owners[o]
	if !known {
		n = uint32(len(w.owners) + 1)
		w.owners[o] = n
		key := w.keys().Name(layout.NameOwner, scope.Key(o))
		w.values[string(key)] = layout.EncodeName(key, n, scope.Key(o), nil)
	}
	return n
}

// add writes a version of a memory.
func (w *world) add(seq, born uint64, r layout.Record) {
	owner := w.number(r.Scope.Owner())
	w.values[string(w.keys().Record(layout.Version{Owner: owner, Seq: seq, Born: born}))] = r.Append(nil)
	w.values[string(w.keys().ID(r.ID, owner, seq))] = nil
}

// end writes the end of a memory.
func (w *world) end(o scope.Owner, seq, lsn uint64, why layout.Cause) {
	d := layout.Death{At: 5, Born: 1, Cause: why}
	w.values[string(w.keys().History(w.number(o), seq, lsn, 0))] = d.Encode()
}

var ada, bob = memory.Scope{User: "ada"}, memory.Scope{User: "bob", Agent: "helper"}

// TestQuery verifies which owners a query means, and which queries are refused.
func TestQuery(t *testing.T) {
	for _, c := range []struct {
		q    Query
		want []scope.Owner
	}{
		{Query{User: "ada"}, []scope.Owner{{User: "ada"}, {User: "ada", Agent: "helper"}}},
		{Query{Agent: "helper"}, []scope.Owner{{User: "ada", Agent: "helper"}, {Agent: "helper"}}},
		{Query{User: "ada", Agent: "helper"}, []scope.Owner{{User: "ada", Agent: "helper"}}},
	} {
		var got []scope.Owner
		for _, o := range []scope.Owner{{User: "ada"}, {User: "ada", Agent: "helper"}, {Agent: "helper"}, {User: "bob"}} {
			if c.q.Means(o) {
				got = append(got, o)
			}
		}
		if err := c.q.Check(); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%+v means %v, %v", c.q, got, err)
		}
		if f := c.q.Fingerprint(); f == 0 || f != c.q.Fingerprint() {
			t.Errorf("%+v has the fingerprint %d", c.q, f)
		}
	}
	for _, q := range []Query{{}, {ID: "a"}, {User: "ada", ID: "\x00"}} {
		if err := q.Check(); !errors.Is(err, fault.ErrInvalid) {
			t.Errorf("%+v: %v", q, err)
		}
	}
}

// TestFind verifies what queries find, and how much they count.
func TestFind(t *testing.T) {
	w := newWorld(t)
	w.add(1, 1, layout.Record{ID: "a", Scope: ada, Text: "tea"})
	w.add(1, 2, layout.Record{ID: "a", Scope: ada, Text: "coffee"})
	w.add(2, 3, layout.Record{ID: "b", Scope: ada, Text: "milk"})
	w.add(3, 4, layout.Record{ID: "a", Scope: bob, Text: "wine"})
	w.end(ada.Owner(), 1, 5, layout.Cause{})
	for _, c := range []struct {
		q          Query
		memories   int64
		versions   int64
		events     int64
		want       error
		wantInText string
	}{
		{Query{User: "ada"}, 2, 3, 1, nil, ""},
		{Query{User: "ada", ID: "a"}, 1, 2, 1, nil, ""},
		{Query{Agent: "helper"}, 1, 1, 0, nil, ""},
		{Query{User: "nobody"}, 0, 0, 0, fault.ErrNotFound, `user "nobody"`},
		{Query{Agent: "nobody"}, 0, 0, 0, fault.ErrNotFound, `agent "nobody"`},
		{Query{User: "ada", Agent: "x"}, 0, 0, 0, fault.ErrNotFound, `user "ada" and agent "x"`},
		{Query{User: "ada", ID: "none"}, 0, 0, 0, fault.ErrNotFound, `memory "none"`},
	} {
		st := w.state()
		e, err := st.Find(t.Context(), &c.q)
		if c.want != nil {
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.wantInText) {
				t.Errorf("%+v: %v", c.q, err)
			}
			continue
		}
		if err == nil {
			err = st.Count(t.Context(), e)
		}
		if err != nil || e.Gone.Memories != c.memories || e.Gone.Versions != c.versions || e.Gone.Events != c.events {
			t.Errorf("%+v: %+v, %v", c.q, e.Gone, err)
			continue
		}
		again, err := layout.DecodeErasure(e.Encode())
		if err != nil {
			t.Error(err)
			continue
		}
		if of := New(*again); of.Gone != e.Gone || of.All() != (c.q.ID == "") || of.Has(9, 1) || !of.HasOwner(e.Owners[0]) {
			t.Errorf("%+v is read as %+v", e, of)
		}
	}
	w.add(9, 9, layout.Record{ID: "a", Scope: ada, Text: "stored again after its end"})
	if e, err := w.state().Find(t.Context(), &Query{User: "ada", ID: "a"}); err != nil || !slices.Equal(e.Seqs, []uint64{1, 9}) {
		t.Errorf("an ID that was given twice: %+v, %v", e, err)
	}
	w.add(4, 6, layout.Record{ID: "b", Scope: memory.Scope{User: "ada", Agent: "helper"}, Text: "juice"})
	if _, err := w.state().Find(t.Context(), &Query{User: "ada", ID: "b"}); !errors.Is(err, fault.ErrAmbiguous) {
		t.Errorf("an ID of two owners: %v", err)
	}
}

// TestFollow verifies that an erasure follows what was merged into an erased memory, and what names one as its source.
func TestFollow(t *testing.T) {
	w := newWorld(t)
	w.add(1, 1, layout.Record{ID: "a", Scope: ada, Text: "tea"})
	w.add(2, 2, layout.Record{ID: "merged", Scope: ada, Text: "tea, too"})
	w.end(ada.Owner(), 2, 7, layout.Cause{Into: 1})
	w.add(3, 3, layout.Record{ID: "derived", Scope: ada, Source: "merged", Text: "it drinks tea"})
	w.add(4, 4, layout.Record{ID: "elsewhere", Scope: ada, Text: "tea from afar"})
	w.end(ada.Owner(), 4, 8, layout.Cause{IntoID: "derived"})
	w.add(5, 5, layout.Record{ID: "other", Scope: ada, Text: "milk"})
	w.add(6, 6, layout.Record{ID: "foreign", Scope: bob, Source: "a", Text: "tea of another owner"})
	st := w.state()
	e, err := st.Find(t.Context(), &Query{User: "ada", ID: "a"})
	if err == nil {
		err = st.Follow(t.Context(), e)
	}
	if err != nil || !slices.Equal(e.Seqs, []uint64{1, 2, 3, 4}) || !slices.Equal(e.Commits, []uint64{1, 2, 3, 4, 7, 8}) {
		t.Errorf("memories %d, commits %d, %v", e.Seqs, e.Commits, err)
	}
	under := New(layout.Erasure{Owners: e.Owners, Seqs: []uint64{5}})
	if both := under.With(e); !slices.Equal(both.Seqs, []uint64{1, 2, 3, 4, 5}) || !both.Has(e.Owners[0], 5) {
		t.Errorf("under the lock: %d", both.Seqs)
	}
}

// logRecord is a record of the log with some changes.
func logRecord(changes ...[]byte) []byte {
	return append(layout.AppendLogHead(nil, 1000, &layout.Counters{}, uint32(len(changes))), slices.Concat(changes...)...)
}

// change is an operation with a body of uvarints.
func change(op layout.LogOp, body ...uint64) []byte {
	b := []byte{byte(op)}
	for _, u := range body {
		b = binary.AppendUvarint(b, u)
	}
	return b
}

// TestLog verifies that records of the log lose the changes of what is erased, and no others.
func TestLog(t *testing.T) {
	keys := newWorld(t).keys()
	erased := []byte{byte(layout.LogErased)}
	mine, other := change(layout.LogAdd, 3, 7, 1), change(layout.LogAdd, 4, 7, 1)
	touched := func(owners ...uint64) []byte {
		b := change(layout.LogTouch, uint64(len(owners)))
		for _, o := range owners {
			b = append(b, change(0, o, 7, 1, 2)[1:]...)
		}
		return b
	}
	owner := New(layout.Erasure{Owners: []uint32{3}})
	one := New(layout.Erasure{Owners: []uint32{3}, Seqs: []uint64{8}})
	for _, c := range []struct {
		what         string
		e            *Erasure
		record, want []byte
	}{
		{"one of two", owner, logRecord(mine, other), logRecord(erased, other)},
		{"nothing", owner, logRecord(other, other), nil},
		{"another memory of the owner", one, logRecord(mine), nil},
		{"all accesses", owner, logRecord(touched(3, 3)), logRecord(erased)},
		{"one of two accesses", owner, logRecord(touched(3, 4)), logRecord(touched(4))},
		{"no access", owner, logRecord(touched(4)), nil},
		{"what nobody can read", owner, logRecord([]byte{255, 1}), logRecord(erased)},
		{"no record at all", owner, []byte{}, nil},
		{"a mark of before", owner, logRecord(erased, other), nil},
	} {
		if got := c.e.WithoutMemories(c.record); string(got) != string(c.want) {
			t.Errorf("%s: %x, want %x", c.what, got, c.want)
		}
	}
	values := statetest.Values{}
	values[string(keys.LSN(layout.KindLog, 9))] = logRecord(mine, other)
	values[string(keys.LSN(layout.KindLog, 10))] = logRecord([]byte{255})
	var seen []byte
	err := ReadLog(t.Context(), values, keys, func(lsn uint64, changes []Change) {
		for i := range changes {
			seen = append(seen, byte(lsn), changes[i].Op())
		}
	})
	if err != nil || string(seen) != string([]byte{9, byte(layout.LogAdd), 9, byte(layout.LogAdd)}) {
		t.Errorf("read %x, %v", seen, err)
	}
	one.Traces = graph.NewTraces(map[string]bool{}).Encode()
	if err := one.TraceLog(t.Context(), values, keys); err != nil || one.Graph.Types() {
		t.Errorf("traces %+v, %v", one.Graph, err)
	}
	if err := one.TraceTypes(t.Context(), values, keys); err != nil {
		t.Error(err)
	}
	if got := one.WithoutTypes(logRecord(mine, other)); got != nil {
		t.Errorf("without types: %x", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := ReadLog(ctx, values, keys, func(uint64, []Change) {}); !errors.Is(err, context.Canceled) {
		t.Errorf("a call that has ended reads on: %v", err)
	}
}

// batch takes what is written to the reports.
type batch struct {
	records.Batch
	values statetest.Values
}

func (b batch) Set(key, value []byte) error { b.values[string(key)] = value; return nil }
func (b batch) Delete(key []byte) error     { delete(b.values, string(key)); return nil }

// TestReports verifies that the report of an erasure that nobody waited for is found by who asks for the same, that few
// are kept, and that a later erasure takes the names out of them.
func TestReports(t *testing.T) {
	w := newWorld(t)
	q := Query{User: "ada"}
	if _, ended, err := q.Ended(w.values); ended || err != nil {
		t.Errorf("before any: %v, %v", ended, err)
	}
	for lsn := range uint64(mostReports + 3) {
		of := New(layout.Erasure{LSN: lsn, Asked: q.Fingerprint()})
		value, err := of.Keep(w.values, Report{LSN: lsn, Left: []Kept{{What: `memory "b"`}}})
		if err != nil {
			t.Fatal(err)
		}
		w.values[string(layout.ErasedKey)] = value
	}
	if r, ended, err := q.Ended(w.values); err != nil || !ended || r.LSN != mostReports+2 {
		t.Errorf("%+v, %v, %v", r, ended, err)
	}
	if all, err := reports(w.values); err != nil || len(all) != mostReports {
		t.Errorf("%d are kept, %v", len(all), err)
	}
	wr := &records.Writer{View: w.state().View, Batch: batch{values: w.values}}
	if err := CloseReports(wr); err != nil {
		t.Fatal(err)
	}
	if r, _, err := q.Ended(w.values); err != nil || !slices.Equal(r.Left, []Kept{closedKept}) {
		t.Errorf("after a later erasure: %+v, %v", r, err)
	}
	w.values[string(layout.ErasedKey)] = []byte("{")
	if _, _, err := q.Ended(w.values); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("damaged: %v", err)
	}
	if err := CloseReports(wr); err != nil || w.values[string(layout.ErasedKey)] != nil {
		t.Errorf("damaged reports are kept: %v", err)
	}
}

// TestGather verifies which texts and names are searched for, and what is said of those that are found with others.
func TestGather(t *testing.T) {
	w := newWorld(t)
	w.add(1, 1, layout.Record{ID: "memory-one", Scope: ada, Text: "She prefers jasmine tea in the morning.", Name: "favourite-drink", Metadata: []byte(`{"city":["Timbuktu by the river"]}`)})
	w.add(2, 2, layout.Record{ID: "memory-two", Scope: ada, Text: "Somebody walks along the harbour every day."})
	st := w.state()
	e, err := st.Find(t.Context(), &Query{User: "ada"})
	if err == nil {
		err = st.Gather(t.Context(), e)
	}
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{"xx She prefers jasmine tea in the morning. xx": true, "favourite-drink": true, "Timbuktu by the river": true, "Somebody walks along the harbour every day.": true, "Nothing of that is in here at all.": false} {
		if got := e.passages.In([]byte(text)); got != want {
			t.Errorf("%q is searched for: %v", text, got)
		}
	}
	record := (&layout.Record{ID: "b", Scope: ada}).Append(nil)
	found := map[erasedPlace]int{}
	for _, key := range [][]byte{w.keys().Record(layout.Version{Owner: e.Owners[0], Seq: 9}), w.keys().Record(layout.Version{Owner: 77, Seq: 9}), {layout.KindLog}, {layout.KindName}, {layout.KindText}, {layout.KindText, 1}} {
		found[e.placeOf(nil, key, record)]++
	}
	base := func(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }
	var got []string
	for _, k := range keptIn(base, found, map[string]bool{"db/x": true, "db/y": true, "db/z.damaged": true}, map[string]bool{"db/y": true}, []string{"file q"}) {
		got = append(got, k.What)
	}
	want := []string{"changes in the log: 1", "keys of the index: 2", `memory "b"`, "memories of others: 1", "names: 1", "file db/x", "file q"}
	if !slices.Equal(got, want) {
		t.Errorf("left %q, want %q", got, want)
	}
	if names := OwnerNames([]layout.Name{{Class: layout.NameUser, Text: "ada"}, {Class: layout.NameOwner, Text: "x"}, {Class: layout.NameRun, Text: "r"}}); !slices.Equal(names, []string{"ada", "r"}) {
		t.Errorf("names %q", names)
	}
	interrupted := New(e.Erasure)
	if kept, err := interrupted.Search(t.Context(), nil, nil); err != nil || len(kept) != 1 || !strings.Contains(kept[0].Why, "its texts are gone") {
		t.Errorf("after an interruption: %+v, %v", kept, err)
	}
}

// TestFields verifies that metadata fields that no memory has are idle.
func TestFields(t *testing.T) {
	w := newWorld(t)
	w.tables.Fields.Add("city", 1)
	st := w.state()
	st.Postings = invindex.Snapshot{Reader: w.values}
	gone, err := st.idleFields(t.Context(), nil)
	if want := (layout.Name{Class: layout.NameField, Text: "city"}); err != nil || len(gone) != 1 || gone[0] != want || st.FieldsLeft(gone) != 0 || st.FieldsLeft(nil) != 1 {
		t.Errorf("%v, %v", gone, err)
	}
}
