package graph

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
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
	u, err := e.reader.undoing(b.number, b.old)
	if err != nil {
		return Merged{}, err
	}
	restored := u.was
	restored.first, restored.born = b.old.first, e.t.LSN()
	b.now = &restored
	e.own.entities++
	e.joined = &joint{op: opUnmerge, into: a.number, gone: b.number, from: a.number, to: b.number}
	if err := e.partAgain(a, u.before, u.after); err != nil {
		return Merged{}, err
	}
	for i := range u.ended {
		if err := e.giveBack(u, &u.ended[i], b.number, a.number); err != nil {
			return Merged{}, err
		}
	}
	if e.joined.links, err = e.linksBack(a.number, u.links); err != nil {
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
		return nil, nil, cmp.Or(err, missing("entity", b.old.into, entityKey(e.t, e.reader.owner, b.old.into)))
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
// was and became are the entity before and after the merge, nil where that has not changed it.
func (e *editor) partAgain(a *subject, was, became *node) (err error) {
	if was == nil || became == nil {
		return nil
	}
	n := *a.old
	if n.typ == became.typ {
		n.typ = was.typ
	}
	if n.name == became.name {
		n.name = was.name
	}
	if n.extracted == became.extracted {
		n.extracted = was.extracted
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

// giveBack gives an entity a relation back that a merge has taken from it.
func (e *editor) giveBack(u *undoing, t *endedTie, gone, into uint32) error {
	if other := t.other(gone); other != 0 && other != into {
		n, err := e.reader.current(other)
		if err != nil || n == nil {
			return err // it is deleted
		}
		blocked, err := e.reader.blocks(u, t, other, n)
		if err != nil {
			return err
		}
		if blocked {
			return e.mergedSince(n.id)
		}
	}
	back := &change{arc: t.arc, now: t.tie}
	back.now.born, back.now.died, back.now.diedAt = e.t.LSN(), 0, 0
	moved := t.replaced(gone, into)
	if free, err := e.idFree(t.id, moved); err != nil || !free {
		return err
	}
	if there, err := exists(e.t, outKey(e.t, e.reader.owner, t.arc)); err != nil {
		return err
	} else if there { // put again since
		back = nil
	}
	if t.between(into, gone) {
		e.add(back)
		return nil
	}
	now, err := e.reader.versionAt(moved, e.t.LSN())
	if err != nil {
		return err
	}
	switch had := t.had; {
	case had == nil && now == nil: // ended since
	case had == nil:
		e.joined.ended = append(e.joined.ended, &change{arc: moved, old: now})
		if back != nil {
			back.now.properties, back.now.from, back.now.to = now.properties, now.from, now.to
		}
		e.add(back)
	case now != nil && now.born == t.made:
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
	have, found, err := e.reader.holder(id)
	return err == nil && (!found || have == moved), err
}

// linksBack are the links that a merge has moved, as far as they are still there.
func (e *editor) linksBack(into uint32, links []movedLink) (all []movedLink, err error) {
	for _, l := range links {
		time, there, err := e.t.Get(linkKey(e.t, e.reader.owner, into, l.seq))
		if err != nil {
			return nil, err
		}
		if there {
			l.time = time
			all = append(all, l)
		}
	}
	return all, nil
}
