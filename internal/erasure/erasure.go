// Package erasure removes every trace of a memory, an agent or a user from a database.
//
// An erasure writes first, in numbers, what it is going to do: see [layout.Erasure]. Then each step finds by itself what
// is left for it, so that a database that was killed goes on when it is opened. The steps read states and change keys;
// the engine runs them in their order, and waits for readers between them.
//
// [State.Find] finds what a query means, and [State.Follow] what derives from it. [Erasure.Delete] deletes what lives.
// [Erasure.LogWithout] takes it out of a record of the log, whose changes have no lengths. [State.IdleNames] are the
// names that nobody else has. [Erasure.Search] looks for the erased texts and names in all files at the end.
package erasure

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/seed-7aedc3ff/memdb/entries"
	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/needles"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/internal/records"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/scope"
	"github.com/seed-7aedc3ff/memdb/sessions"
	"github.com/seed-7aedc3ff/memdb/usage"
)

// Doing says in errors what is done.
const Doing = "erase"

// State is one state of the database as an erasure reads it.
type State struct {
	records.View
	Part part.View
	// Lines writes what a scope has beside memories, as an export has it; see engine.Tx.Lines.
	Lines func(s memory.Scope, lost func(error), yield func(part.Line) error) error
}

// Query says what is erased.
type Query struct {
	// User and Agent say whose: with a user alone all that it has, over all agents and without
	// one; with an agent alone all that it has, of every user and of none, with its manifest; with
	// both, what this pair has.
	User  string
	Agent string
	// ID is that of one memory of theirs, living or not; empty for everything.
	ID string
	// DryRun: nothing is erased; the report says how much there is.
	DryRun bool
}

// Erased is how much is gone with an erasure.
type Erased struct {
	// Memories are those that lived and those that had died; Versions are their records, and
	// Events their ends.
	Memories int64 `json:"memories"`
	Versions int64 `json:"versions"`
	Events   int64 `json:"events"`
	// Entries are those of the key-value store, Messages those of sessions, Entities and Relations
	// those of the graph, Usage calls of models.
	Entries   int64 `json:"entries"`
	Messages  int64 `json:"messages"`
	Entities  int64 `json:"entities"`
	Relations int64 `json:"relations"`
	Usage     int64 `json:"usage"`
	// Names are those of users, agents, runs and metadata fields that nothing else has.
	Names int64 `json:"names"`
}

func (e *Erased) all() []*int64 {
	return []*int64{&e.Memories, &e.Versions, &e.Events, &e.Entries, &e.Messages, &e.Entities, &e.Relations, &e.Usage, &e.Names}
}

// Kept is something that an erasure leaves, or does not reach.
type Kept struct {
	// What it is, and Why it stays or is not reached, each in a few words.
	What string `json:"what"`
	Why  string `json:"why"`
}

// Report is what an erasure has done.
type Report struct {
	// Erased is how much is gone.
	Erased Erased `json:"erased"`
	// RewrittenBytes are those of tables that were written anew. FilesRemoved counts the files of
	// before that are gone.
	RewrittenBytes int64 `json:"rewritten_bytes"`
	FilesRemoved   int   `json:"files_removed"`
	// Derived are the summaries that had something of the erased, and what became of each.
	Derived []Kept `json:"derived"`
	// Left is what stays in the folder: what a search of all files for the erased texts and names has
	// found with others. It is empty where the search found nothing. OutOfReach is what the database
	// cannot reach.
	Left       []Kept `json:"left"`
	OutOfReach []Kept `json:"out_of_reach"`
	// LSN is that of the commit that began it. Seconds is how long it took, since it was begun or
	// gone on with; 0 for a dry run.
	LSN     uint64  `json:"lsn"`
	Seconds float64 `json:"seconds"`
}

// Whose is what is erased: all that owners have or, where there are Seqs, these memories of theirs.
type Whose struct {
	owners map[uint32]bool
	seqs   map[uint64]bool
}

// Of are all that owners have.
func Of(owners map[uint32]bool) *Whose { return &Whose{owners: owners} }

// All reports whether all that the owners have is erased, and not only some memories.
func (w *Whose) All() bool { return w.seqs == nil }

// Sets are what is erased as sets, which nobody changes: owners and, unless all of theirs is, Seqs.
func (w *Whose) Sets() (owners map[uint32]bool, seqs map[uint64]bool) { return w.owners, w.seqs }

// HasOwner reports whether something of an owner is erased.
func (w *Whose) HasOwner(owner uint32) bool { return w.owners[owner] }

// Has reports whether a memory is erased.
func (w *Whose) Has(owner uint32, seq uint64) bool {
	return w.owners[owner] && (w.seqs == nil || w.seqs[seq])
}

// Erasure is one that runs.
type Erasure struct {
	layout.Erasure
	Whose
	Gone   Erased        // how much
	Names  []scope.Owner // those that own it
	Report Report
	Stays  []Kept // memories that say the same
	// passages are the texts and names to search all files for at the end; nil if the program was
	// interrupted. GoneNames are the names of users, agents and runs among them.
	passages  *needles.Passages
	GoneNames []string
	Graph     *graph.Traces // what the log has of it in the graph, once that was read
}

// New is an erasure as it is stored.
func New(l layout.Erasure) *Erasure {
	e := &Erasure{Erasure: l, Whose: Whose{owners: map[uint32]bool{}}}
	for _, o := range l.Owners {
		e.owners[o] = true
	}
	for _, s := range l.Seqs {
		if e.seqs == nil {
			e.seqs = map[uint64]bool{}
		}
		e.seqs[s] = true
	}
	for i, n := range e.Gone.all() {
		if i < len(l.Counts) {
			*n = l.Counts[i]
		}
	}
	return e
}

// Encode is the erasure as it is stored.
func (e *Erasure) Encode() []byte {
	e.Counts = e.Counts[:0]
	for _, n := range e.Gone.all() {
		e.Counts = append(e.Counts, *n)
	}
	return e.Erasure.Encode()
}

// Check refuses a query that names nobody.
func (q *Query) Check() error {
	if q.User == "" && q.Agent == "" {
		return fault.Invalid(Doing, "it names neither a user nor an agent", "name whose it is")
	}
	if err := scope.Check(Doing, scope.Scope{User: q.User, Agent: q.Agent}); err != nil {
		return err
	}
	if q.ID == "" {
		return nil
	}
	return valid.Word(Doing, "ID", q.ID)
}

// Means reports whether an owner is one of those that the query names.
func (q *Query) Means(o scope.Owner) bool {
	return (q.User == "" || q.User == o.User) && (q.Agent == "" || q.Agent == o.Agent)
}

// what names what is erased in an error.
func (q *Query) what() string {
	switch {
	case q.ID != "":
		return fmt.Sprintf("memory %q", valid.Short(q.ID))
	case q.Agent == "":
		return fmt.Sprintf("user %q", valid.Short(q.User))
	case q.User == "":
		return fmt.Sprintf("agent %q", valid.Short(q.Agent))
	}
	return fmt.Sprintf("user %q and agent %q", valid.Short(q.User), valid.Short(q.Agent))
}

// With is an erasure under the lock, with what a View of shortly before has counted and found: nothing
// is merged or consolidated meanwhile.
func (e *Erasure) With(counted *Erasure) *Erasure {
	counted.Owners, counted.Names, counted.owners = e.Owners, e.Names, e.owners
	for _, seq := range e.Seqs {
		if !counted.seqs[seq] {
			counted.seqs[seq], counted.Seqs = true, append(counted.Seqs, seq)
		}
	}
	return counted
}

// AppendLog appends the operation of the erasure to a log record.
func (e *Erasure) AppendLog(b []byte) []byte {
	b = append(b, byte(layout.LogErase))
	b = binary.AppendUvarint(b, uint64(len(e.Seqs)))
	for _, seq := range e.Seqs {
		b = binary.AppendUvarint(b, seq)
	}
	b = binary.AppendUvarint(b, uint64(len(e.Owners)))
	for _, o := range e.Owners {
		b = binary.AppendUvarint(b, uint64(o))
	}
	return b
}

// Find finds what a query means.
func (st *State) Find(ctx context.Context, q *Query) (*Erasure, error) {
	names := map[uint32]scope.Owner{}
	err := st.EachOwner(ctx, func(number uint32, o scope.Owner) {
		if q.Means(o) {
			names[number] = o
		}
	})
	if err != nil {
		return nil, err
	}
	l := layout.Erasure{}
	if q.ID != "" {
		if l.Seqs, err = st.withID(q.ID, names); err != nil {
			return nil, err
		}
		if len(l.Seqs) == 0 {
			clear(names)
		}
	}
	if len(names) == 0 {
		return nil, &fault.Error{Kind: fault.ErrNotFound, What: Doing + ": there is no " + q.what(), Do: "check the names"}
	}
	for number := range names {
		l.Owners = append(l.Owners, number)
	}
	slices.Sort(l.Owners)
	e := New(l)
	for _, number := range l.Owners {
		e.Names = append(e.Names, names[number])
	}
	return e, nil
}

// withID are the memories that have or had an ID, of one of some owners, which alone stays.
func (st *State) withID(id string, names map[uint32]scope.Owner) (seqs []uint64, err error) {
	of := map[uint32]bool{}
	err = st.Holders(records.AnyOwner, id, func(c records.Claim) error {
		if _, ours := names[c.Owner]; !ours || slices.Contains(seqs, c.Seq) {
			return nil
		}
		prefix := st.Keys.Records(c.Owner, c.Seq)
		err := kv.Scan(st.Reader, prefix, layout.PrefixEnd(prefix), func(_, value []byte) error {
			rec, err := layout.DecodeRecord(value)
			if err != nil || rec.ID != id { // what cannot be read, check tells
				return nil
			}
			seqs, of[c.Owner] = append(seqs, c.Seq), true
			return kv.ErrStop // of this memory: others may have had the ID, too
		})
		if errors.Is(err, kv.ErrStop) {
			err = nil
		}
		return err
	})
	if err == nil && len(of) > 1 {
		err = records.Ambiguous(fmt.Sprintf("erase memory %q", valid.Short(id)), len(of))
	}
	for number := range names {
		if !of[number] {
			delete(names, number)
		}
	}
	slices.Sort(seqs)
	return seqs, err
}

// Count counts what there is.
func (st *State) Count(ctx context.Context, e *Erasure) error {
	n := &e.Gone
	last := records.Home{}
	for _, span := range e.RecordSpans(st.Keys) {
		err := kv.Scan(st.Reader, span[0], span[1], func(key, _ []byte) error {
			v, ok := layout.ParseRecordKey(key)
			if !ok || !e.Has(v.Owner, v.Seq) {
				return ctx.Err()
			}
			n.Versions++
			if at := (records.Home{Seq: v.Seq, Owner: v.Owner}); at != last {
				n.Memories++
				last = at
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	for _, lower := range e.OwnedKeys(st.Keys, layout.KindHistory) {
		err := kv.Scan(st.Reader, lower, layout.PrefixEnd(lower), func(_, _ []byte) error {
			n.Events++
			return ctx.Err()
		})
		if err != nil {
			return err
		}
	}
	if e.seqs != nil {
		return nil
	}
	for _, o := range e.Names {
		count := func(l part.Line) error {
			if l.Owner() == o {
				n.count(l)
			}
			return ctx.Err()
		}
		if err := st.Lines(o.Scope(), nil, count); err != nil {
			return err
		}
	}
	return nil
}

// count counts a line of an export.
func (e *Erased) count(l part.Line) {
	switch l.Type() {
	case entries.TypeLine:
		e.Entries++
	case sessions.TypeMessage:
		e.Messages++
	case graph.TypeEntity:
		e.Entities++
	case graph.TypeRelation:
		e.Relations++
	case usage.TypeUsage:
		calls := int64(1)
		if of, ok := l.(interface{ Count() int64 }); ok {
			calls = of.Count()
		}
		e.Usage += calls
	}
}

// RecordSpans are where the records of what is erased lie.
func (e *Erasure) RecordSpans(keys *layout.Keys) (spans [][2][]byte) {
	if e.seqs == nil {
		lower, upper := keys.Span(layout.KindRecord)
		return append(spans, [2][]byte{lower, upper})
	}
	for _, owner := range e.Owners {
		for _, seq := range e.Seqs {
			prefix := keys.Records(owner, seq)
			spans = append(spans, [2][]byte{prefix, layout.PrefixEnd(prefix)})
		}
	}
	return spans
}

// OwnedKeys are the prefixes of the keys of a kind whose keys begin with the owner and the Seq.
func (e *Erasure) OwnedKeys(keys *layout.Keys, kind byte) (prefixes [][]byte) {
	for _, owner := range e.Owners {
		k := binary.BigEndian.AppendUint32(keys.Header(kind, 12), owner)
		if e.seqs == nil {
			prefixes = append(prefixes, k)
		}
		for _, seq := range e.Seqs {
			prefixes = append(prefixes, binary.BigEndian.AppendUint64(slices.Clone(k), seq))
		}
	}
	return prefixes
}
