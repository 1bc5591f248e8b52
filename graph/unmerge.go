package graph

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// Unmerge undoes a merge: gone is there again, with the relations and the links that it
// had, and the entity that it was merged into is what it was before. What has changed
// since stays: an alias or a property that was put since stays with the entity that was
// kept, a relation that came from gone and was changed goes back as it is now, and one that
// was ended stays ended.
//
// ErrNotFound: no entity of this ID is merged into another. ErrConflict: that one, or the
// other end of a relation, was merged since, which is to be undone first.
func (g Graph) Unmerge(ctx context.Context, o scope.Owner, gone string) (m Merged, err error) {
	doing := fmt.Sprintf("undo the merge of the entity %q", valid.Short(gone))
	if err := checkID(doing, "entity ID", gone); err != nil {
		return Merged{}, err
	}
	if err := scope.Check(doing, o.Scope()); err != nil {
		return Merged{}, err
	}
	err = g.run.Update(ctx, doing, func(t part.Tx) error {
		e, err := newEditor(t, g.part, doing, o)
		if err != nil {
			return err
		}
		m, err = e.unmerge(gone)
		return err
	})
	if err != nil {
		return Merged{}, err
	}
	return m, nil
}

func (e *editor) unmerge(gone string) (Merged, error) {
	b, a, err := e.mergedPair(gone)
	if err != nil {
		return Merged{}, err
	}
	merged := b.old.born
	before, after := reader{View: e.t, owner: e.reader.owner, asOf: merged - 1}, reader{View: e.t, owner: e.reader.owner, asOf: merged}
	was, err := before.node(b.number)
	if err != nil || was == nil {
		return Merged{}, cmp.Or(err, missing("superseded version of the entity", b.number))
	}
	restored := *was
	restored.born = e.t.LSN()
	b.now = &restored
	e.own.entities++
	e.joined = &joint{op: opUnmerge, into: a.number, gone: b.number, from: a.number, to: b.number}
	if err := e.partAgain(a, &before, &after); err != nil {
		return Merged{}, err
	}
	if err := e.giveBack(b.number, a.number, merged); err != nil {
		return Merged{}, err
	}
	if e.joined.links, err = e.linksBack(a.number, b.number); err != nil {
		return Merged{}, err
	}
	m := Merged{ID: gone, Links: len(e.joined.links), LSN: e.t.LSN()}
	for _, ch := range e.list {
		if ch.from == b.number || ch.to == b.number {
			m.Relations++
		}
	}
	_, err = e.flush()
	return m, err
}

// mergedPair are an entity that was merged, and the one that it was merged into.
func (e *editor) mergedPair(gone string) (b, a *subject, err error) {
	none := &fault.Error{Kind: fault.ErrNotFound, What: e.doing, Why: "no entity of this ID is merged into another", Do: "check the ID and the owner"}
	if e.fresh {
		return nil, nil, none
	}
	num, err := e.reader.number(gone)
	if err != nil || num == 0 {
		return nil, nil, cmp.Or[error](err, none)
	}
	if b, err = e.subject(gone); err != nil {
		return nil, nil, err
	}
	if err = e.load(b); err != nil || b.old.into == 0 {
		return nil, nil, cmp.Or[error](err, none)
	}
	n, err := e.reader.current(b.old.into)
	if err != nil || n == nil {
		return nil, nil, cmp.Or(err, missing("entity", b.old.into))
	}
	if a, err = e.subject(n.id); err != nil {
		return nil, nil, err
	}
	if err = e.load(a); err == nil && a.old.into != 0 {
		err = e.mergedSince(n.id)
	}
	return b, a, cmp.Or(err, e.settled(b.old.born))
}

func (e *editor) mergedSince(id string) error {
	return &fault.Error{
		Kind: fault.ErrConflict, What: e.doing, Why: fmt.Sprintf("the entity %q was merged into another since", valid.Short(id)),
		Do: "undo that merge first",
	}
}

// partAgain takes from an entity what a merge has given it, and leaves what was put since.
func (e *editor) partAgain(a *subject, before, after *reader) error {
	was, err := before.node(a.number)
	if err != nil {
		return err
	}
	became, err := after.node(a.number)
	if err != nil || was == nil || became == nil || sameNode(was, became) {
		return err
	}
	n := *a.old
	if n.typ == became.typ {
		n.typ = was.typ
	}
	if n.name == became.name {
		n.name = was.name
	}
	n.aliases = slices.DeleteFunc(slices.Clone(n.aliases), func(s string) bool {
		return slices.Contains(became.aliases, s) && !slices.Contains(was.aliases, s)
	})
	if n.properties, err = partedProperties(was.properties, became.properties, n.properties); err != nil {
		return err
	}
	if !sameNode(a.old, &n) {
		n.born, n.updated = e.t.LSN(), e.t.Now()
		a.now = &n
	}
	return nil
}

// partedProperties are the properties of now, without what a merge has added to those of
// was and nobody has changed since.
func partedProperties(was, became, now []byte) ([]byte, error) {
	objects := make([]map[string]json.RawMessage, 3)
	for i, b := range [][]byte{was, became, now} {
		if len(b) == 0 {
			continue
		}
		if err := json.Unmarshal(b, &objects[i]); err != nil {
			return nil, err
		}
	}
	kept := map[string]json.RawMessage{}
	for k, v := range objects[2] {
		_, had := objects[0][k]
		given, merged := objects[1][k]
		if had || !merged || !bytes.Equal(given, v) {
			kept[k] = v
		}
	}
	b, err := json.Marshal(kept)
	if err != nil {
		return nil, err
	}
	return mergeProperties(nil, b)
}

// giveBack gives an entity the relations that a merge at an LSN has taken from it.
func (e *editor) giveBack(gone, into uint32, merged uint64) error {
	taken, err := e.endedAt(gone, merged)
	if err != nil {
		return err
	}
	for _, ch := range taken {
		if err := e.giveBackOne(ch, gone, into, merged); err != nil {
			return err
		}
	}
	return nil
}

func (e *editor) giveBackOne(ch *change, gone, into uint32, merged uint64) error {
	if other := ch.from ^ ch.to ^ gone; other != 0 && other != into {
		n, err := e.reader.current(other)
		if err != nil || n == nil {
			return err // it is deleted
		}
		if n.into != 0 && n.born > merged {
			return e.mergedSince(n.id)
		}
	}
	back := &change{arc: ch.arc, now: *ch.old}
	back.now.born, back.now.died, back.now.diedAt = e.t.LSN(), 0, 0
	moved := ch.replaced(gone, into)
	if free, err := e.idFree(ch.old.id, moved); err != nil || !free {
		return err
	}
	if there, err := exists(e.t, outKey(e.t, e.reader.owner, ch.arc)); err != nil {
		return err
	} else if there { // put again since
		back = nil
	}
	if ch.between(into, gone) {
		e.add(back)
		return nil
	}
	now, err := e.reader.versionAt(moved, e.t.LSN())
	if err != nil {
		return err
	}
	had, err := e.reader.versionAt(moved, merged-1)
	switch {
	case err != nil:
		return err
	case had == nil && now == nil: // ended since
	case had == nil:
		e.joined.ended = append(e.joined.ended, &change{arc: moved, old: now})
		if back != nil {
			back.now.properties, back.now.from, back.now.to = now.properties, now.from, now.to
		}
		e.add(back)
	case now != nil && now.born == merged:
		was := *had
		was.born, was.died, was.diedAt = e.t.LSN(), 0, 0
		e.add(&change{arc: moved, old: now, now: was})
		e.add(back)
	default:
		e.add(back)
	}
	return nil
}

// add has a relation written.
func (e *editor) add(ch *change) {
	if ch != nil {
		e.list = append(e.list, ch)
	}
}

// idFree reports whether the ID of a relation names one, or none, and no other.
func (e *editor) idFree(id string, moved arc) (bool, error) {
	if id == "" {
		return true, nil
	}
	b, found, err := e.t.Get(idKey(e.t, e.reader.owner, secGivenID, id))
	if err != nil || !found {
		return err == nil, err
	}
	have, err := decodeArc(b)
	return have == moved, err
}

// endedAt are the relations of an entity that ended at an LSN.
func (e *editor) endedAt(num uint32, lsn uint64) (all []*change, err error) {
	for _, sec := range []byte{secOldOut, secOldIn} {
		prefix := be32(section(e.t, kindArc, e.reader.owner, sec, numSize), num)
		err := each(e.t, prefix, func(key, value []byte) error {
			a, born, ok := parseArc(key)
			if !ok {
				return layout.BadKey("relation", key)
			}
			if sec == secOldIn {
				if a = a.reversed(); a.from == a.to {
					return nil
				}
				b, found, err := e.t.Get(oldArcKey(e.t, e.reader.owner, secOldOut, a, born))
				if err != nil || !found {
					return cmp.Or(err, missing("superseded relation to the entity", num))
				}
				value = b
			}
			t, err := decodeTie(value)
			if err == nil && t.died == lsn && t.born < lsn {
				all = append(all, &change{arc: a, old: &t})
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// linksBack are the links that a merge has moved, as far as they are still there.
func (e *editor) linksBack(into, gone uint32) (all []movedLink, err error) {
	b, found, err := e.t.Get(mergedKey(e.t, e.reader.owner, into, gone))
	if err != nil || !found {
		return nil, cmp.Or(err, missing("merge of the entity", gone))
	}
	links, err := decodeMoved(b)
	for _, l := range links {
		time, there, gerr := e.t.Get(linkKey(e.t, e.reader.owner, into, l.seq))
		if err = errors.Join(err, gerr); there {
			l.time = time
			all = append(all, l)
		}
	}
	return all, err
}
