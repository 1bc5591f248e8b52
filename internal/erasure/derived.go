package erasure

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/internal/records"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/sessions"
)

// The erasure of a memory also erases the memories that have its text or were made of it: those that
// were merged into it, those that name it as their source, and summaries of sessions that have its
// message. An extract, whose sentences show where they come from, is stored again without the
// erased sentences; any other summary is deleted.

// derivedFrom finds the memories that an erasure follows.
type derivedFrom struct {
	st *State
	e  *Erasure
	// ids and runs are the IDs and the runs of the erased memories.
	ids  map[string]bool
	runs map[string]bool
	// merged are the memories that were merged into others and do not live, by the Seq and by the ID of
	// the other.
	merged   map[uint64][]uint64
	mergedID map[string][]uint64
	into     map[uint64]uint64
	archives []archiveOf
}

type archiveOf struct {
	seq     uint64
	id, run string
}

// Follow adds to an erasure of memories what derives from them.
func (st *State) Follow(ctx context.Context, e *Erasure) error {
	if e.seqs == nil {
		return nil // all of theirs goes
	}
	d := &derivedFrom{
		st: st, e: e, ids: map[string]bool{}, runs: map[string]bool{},
		merged: map[uint64][]uint64{}, mergedID: map[string][]uint64{}, into: map[uint64]uint64{},
	}
	for _, seq := range e.Seqs {
		if err := d.know(seq); err != nil {
			return err
		}
	}
	if err := d.readMerges(ctx); err != nil {
		return err
	}
	if err := d.grow(ctx); err != nil {
		return err
	}
	if err := d.followSummaries(); err != nil {
		return err
	}
	if err := d.grow(ctx); err != nil {
		return err
	}
	for _, seq := range e.Seqs {
		if err := d.survivor(seq); err != nil {
			return err
		}
	}
	slices.Sort(e.Seqs)
	slices.Sort(e.Commits)
	e.Commits = slices.Compact(e.Commits)
	return nil
}

// add has a memory erased, too, and reports whether it was not yet.
func (d *derivedFrom) add(seq uint64) (bool, error) {
	if d.e.seqs[seq] {
		return false, nil
	}
	d.e.seqs[seq], d.e.Seqs = true, append(d.e.Seqs, seq)
	return true, d.know(seq)
}

// know reads what finds others of a memory that is erased: its IDs, its runs, and the commits that
// changed it.
func (d *derivedFrom) know(seq uint64) error {
	for _, owner := range d.e.Owners {
		err := d.st.eachVersion(owner, seq, func(v layout.Version, rec *layout.Record) {
			d.ids[rec.ID], d.runs[rec.Scope.Run] = true, true
			d.e.Commits = append(d.e.Commits, v.Born)
		})
		if err != nil {
			return err
		}
		deaths, err := d.st.Deaths(owner, seq)
		if err != nil {
			return err
		}
		for i := range deaths {
			d.e.Commits = append(d.e.Commits, deaths[i].Where.Born)
		}
	}
	return nil
}

// eachVersion visits the versions of a memory. What cannot be read, check reports.
func (st *State) eachVersion(owner uint32, seq uint64, visit func(layout.Version, *layout.Record)) error {
	prefix := st.Keys.Records(owner, seq)
	return kv.Scan(st.Reader, prefix, layout.PrefixEnd(prefix), func(key, value []byte) error {
		v, ok := layout.ParseRecordKey(key)
		if rec, err := layout.DecodeRecord(value); ok && err == nil {
			visit(v, rec)
		}
		return nil
	})
}

// readMerges reads which memories of the owners were merged into others.
func (d *derivedFrom) readMerges(ctx context.Context) error {
	for _, owner := range d.e.Owners {
		prefix := binary.BigEndian.AppendUint32(d.st.Keys.Header(layout.KindHistory, 4), owner)
		err := kv.Scan(d.st.Reader, prefix, layout.PrefixEnd(prefix), func(key, value []byte) error {
			death, err := layout.DecodeDeath(value)
			if _, _, ok := layout.ParseHistoryKey(key); err != nil || !ok || death.Into == 0 && death.IntoID == "" {
				return ctx.Err()
			}
			_, seq := layout.HistoryOf(key)
			d.mergedAway(seq, death.Cause)
			return ctx.Err()
		})
		if err != nil {
			return err
		}
	}
	lower, upper := d.st.Keys.Span(layout.KindRange) // deaths that have no entry yet
	return kv.Scan(d.st.Reader, lower, upper, func(key, value []byte) error {
		of, err := layout.DecodeRange(d.st.Keys, key, value)
		if err != nil {
			return ctx.Err() // what cannot be read, check reports
		}
		for doc := range of.Into {
			if r := d.st.Docs.Row(doc); r != nil && r.Died.Load() == of.LSN && d.e.owners[r.Owner] {
				d.mergedAway(r.Seq, of.CauseOf(doc))
			}
		}
		return ctx.Err()
	})
}

// mergedAway notes that a memory was merged into another, unless that was undone and it is a memory of
// its own.
func (d *derivedFrom) mergedAway(seq uint64, why layout.Cause) {
	if _, lives := d.st.At(seq); lives {
		return
	}
	if why.Into == 0 {
		d.mergedID[why.IntoID] = append(d.mergedID[why.IntoID], seq)
		return
	}
	d.merged[why.Into] = append(d.merged[why.Into], seq)
	d.into[seq] = why.Into
}

// grow adds what was merged into erased memories and what has one as its source, until there is no
// more of them.
func (d *derivedFrom) grow(ctx context.Context) error {
	for more := true; more; {
		for i := 0; i < len(d.e.Seqs); i++ { // it grows
			for _, seq := range d.merged[d.e.Seqs[i]] {
				if _, err := d.add(seq); err != nil {
					return err
				}
			}
		}
		for id := range d.ids {
			for _, seq := range d.mergedID[id] {
				if _, err := d.add(seq); err != nil {
					return err
				}
			}
			delete(d.mergedID, id)
		}
		sourced, err := d.scan(ctx)
		if err != nil {
			return err
		}
		more = false
		for _, seq := range sourced {
			fresh, err := d.add(seq)
			if err != nil {
				return err
			}
			more = more || fresh
		}
	}
	return nil
}

// scan reads the records of the owners: it returns the memories whose source is an erased one, and
// notes the archives.
func (d *derivedFrom) scan(ctx context.Context) (sourced []uint64, err error) {
	d.archives = d.archives[:0]
	lower, upper := d.st.Keys.Span(layout.KindRecord)
	return sourced, kv.Scan(d.st.Reader, lower, upper, func(key, value []byte) error {
		v, ok := layout.ParseRecordKey(key)
		if !ok || !d.e.owners[v.Owner] || d.e.seqs[v.Seq] {
			return ctx.Err()
		}
		rec, err := layout.DecodeRecord(value)
		if err != nil {
			return ctx.Err() // what cannot be read, check reports
		}
		if rec.Source != "" && d.ids[rec.Source] {
			sourced = append(sourced, v.Seq)
		}
		if state.Kinds[rec.Kind] == memory.KindArchive && rec.Scope.Run != "" {
			d.archives = append(d.archives, archiveOf{v.Seq, rec.ID, rec.Scope.Run})
		}
		return ctx.Err()
	})
}

// followSummaries adds the summaries that were made of erased messages.
func (d *derivedFrom) followSummaries() error {
	if !slices.ContainsFunc(d.archives, func(a archiveOf) bool { return d.runs[a.run] }) {
		return nil
	}
	texts, err := d.st.textsOf(d.e)
	if err != nil {
		return err
	}
	var of sessions.Summarised
	for _, owner := range d.e.Owners {
		if of, err = sessions.SummarisedOf(d.st.Part, owner, d.e.seqs, d.ids); err != nil {
			return err
		}
	}
	for _, a := range d.archives {
		if !d.runs[a.run] || d.e.seqs[a.seq] {
			continue
		}
		has, extract, err := d.summarises(a.seq, texts)
		if err != nil {
			return err
		}
		if extract && !has || !extract && !of.Archives[a.id] && of.Whole[a.run] {
			continue
		}
		if _, err := d.add(a.seq); err != nil {
			return err
		}
		what := Kept{What: fmt.Sprintf("archive %q", a.id), Why: "a summary of messages that are erased: it is deleted"}
		if extract {
			d.e.Archives = append(d.e.Archives, a.seq)
			what.Why = "a summary with sentences that are erased: it is stored again without them"
		}
		d.e.Report.Derived = append(d.e.Report.Derived, what)
	}
	return nil
}

// summarises reports whether a version of an archive has a sentence of some texts, and whether all
// of its versions are extracts.
func (d *derivedFrom) summarises(seq uint64, texts []string) (has, extract bool, err error) {
	extract = true
	for _, owner := range d.e.Owners {
		err := d.st.eachVersion(owner, seq, func(_ layout.Version, rec *layout.Record) {
			rest, is := sessions.Without(rec.Text, texts)
			has, extract = has || is && rest != rec.Text, extract && is
		})
		if err != nil {
			return false, false, err
		}
	}
	return has, extract, nil
}

// textsOf are the texts of all versions of the memories that an erasure erases, but for summaries that
// are stored again.
func (st *State) textsOf(e *Erasure) (texts []string, err error) {
	for _, seq := range e.Seqs {
		if slices.Contains(e.Archives, seq) {
			continue
		}
		for _, owner := range e.Owners {
			err := st.eachVersion(owner, seq, func(_ layout.Version, rec *layout.Record) { texts = append(texts, rec.Text) })
			if err != nil {
				return nil, err
			}
		}
	}
	return texts, nil
}

// survivor reports the memory that an erased one was merged into, and that stays.
func (d *derivedFrom) survivor(seq uint64) error {
	into := d.into[seq]
	l, lives := d.st.At(into)
	if into == 0 || !lives || d.e.seqs[into] {
		return nil
	}
	rec, err := d.st.Record(l.Version)
	if err != nil {
		return err
	}
	d.e.Stays = append(d.e.Stays, Kept{What: fmt.Sprintf("memory %q", rec.ID), Why: "an erased memory that said the same was merged into it: erase it, too"})
	return nil
}

// graphSizes are how many entities and relations the owners of an erasure have.
func (st *State) graphSizes(e *Erasure) (entities, relations int64, err error) {
	for _, owner := range e.Owners {
		n, m, err := graph.Sizes(st.Part, owner)
		if err != nil {
			return 0, 0, err
		}
		entities, relations = entities+n, relations+m
	}
	return entities, relations, nil
}

// Delete deletes the memories of an erasure that live, and stores the summaries again that
// have more than theirs.
func (e *Erasure) Delete(st *State, w *records.Writer, t part.Tx) error {
	texts, err := st.textsOf(e)
	if err != nil {
		return err
	}
	entities, relations, err := st.graphSizes(e)
	if err != nil {
		return err
	}
	var again []part.NewMemory
	for _, seq := range e.Seqs {
		l, lives := st.At(seq)
		if !lives || !e.owners[l.Owner] {
			continue
		}
		rec, err := st.Record(l.Version)
		if err != nil {
			return err
		}
		if rest, extract := sessions.Without(rec.Text, texts); extract && rest != "" && slices.Contains(e.Archives, seq) {
			again = append(again, part.NewMemory{
				Scope: rec.Scope, ID: rec.ID, Role: string(state.Roles[rec.Role]), Kind: string(state.Kinds[rec.Kind]), Name: rec.Name,
				Text: rest, Created: rec.Created, Importance: &rec.Importance, Pinned: rec.Flags&layout.FlagPinned != 0,
			})
		}
		if err := w.Remove(l, rec); err != nil {
			return err
		}
	}
	entitiesNow, relationsNow, err := st.graphSizes(e)
	if err != nil {
		return err
	}
	e.Gone.Entities, e.Gone.Relations = e.Gone.Entities+entities-entitiesNow, e.Gone.Relations+relations-relationsNow
	for i := range again {
		if _, err := t.StoreNew(again[i]); err != nil {
			return err
		}
	}
	return nil
}
