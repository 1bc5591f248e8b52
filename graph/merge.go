package graph

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// MaxMerge bounds the relations and the links that one merge moves, so that its commit is
// of bounded size.
const MaxMerge = 10_000

// Merged is what a merge, or the undoing of one, has moved.
type Merged struct {
	// ID is that of the entity that stays, or that is there again.
	ID        string `json:"id"`
	Relations int    `json:"relations"`
	Links     int    `json:"links"`
	LSN       uint64 `json:"lsn"`
}

// Merge says that two entities are one: into stays, and takes what gone has. It is one
// commit, which [Graph.Unmerge] undoes.
//
//   - The relations of gone, in both directions, become those of into. Where into has the
//     same triple, its properties go before and its time of validity stays. Relations
//     between the two end.
//   - The name of gone, or its ID where it has none, and its aliases become aliases of
//     into. Its properties fill in those that into lacks, and so does its type.
//   - Its links to memories move.
//
// Gone is a forward reference from then on, whose ID leads to into, and a put makes an entity
// of its own of it again, which ends what can be undone. As of earlier LSNs both are what
// they were. A delete of into deletes gone, too, from those states.
//
// ErrNotFound: one of them is not there. ErrInvalid: they are the same one, gone has more
// than MaxMerge relations and links, or the transaction has changed one of them before.
func (g Graph) Merge(ctx context.Context, o scope.Owner, into, gone string) (m Merged, err error) {
	doing := fmt.Sprintf("merge the entity %q into %q", valid.Short(gone), valid.Short(into))
	for _, id := range []string{into, gone} {
		if err := checkID(doing, "entity ID", id); err != nil {
			return Merged{}, err
		}
	}
	if into == gone {
		return Merged{}, fault.Invalid(doing, "they are the same entity", "name two")
	}
	if err := scope.Check(doing, o.Scope()); err != nil {
		return Merged{}, err
	}
	err = g.run.Update(ctx, doing, func(t part.Tx) error {
		m, err = g.part.merge(t, doing, o, into, gone)
		return err
	})
	if err != nil {
		return Merged{}, err
	}
	return m, nil
}

// joint is what a merge, or the undoing of one, changes beside entities and relations that
// are put.
type joint struct {
	op         part.Op
	into, gone uint32
	ended      []*change // relations that hold no longer
	links      []movedLink
	from, to   uint32 // whose links move
}

func (p *Part) merge(t part.Tx, doing string, o scope.Owner, into, gone string) (Merged, error) {
	e, err := newEditor(t, p, doing, o)
	if err != nil {
		return Merged{}, err
	}
	a, err := e.there(into)
	if err != nil {
		return Merged{}, err
	}
	b, err := e.there(gone)
	if err != nil {
		return Merged{}, err
	}
	e.joined = &joint{op: opMerge, into: a.number, gone: b.number, from: b.number, to: a.number}
	if e.joined.ended, err = e.heldBy(b.number); err != nil {
		return Merged{}, err
	}
	if e.joined.links, err = e.linksOf(b.number, a.number); err != nil {
		return Merged{}, err
	}
	if err := e.takeAll(e.joined.ended, b.number, a.number); err != nil {
		return Merged{}, err
	}
	if err := e.unite(a, b); err != nil {
		return Merged{}, err
	}
	b.now = &node{forward: true, id: gone, first: b.old.first, born: t.LSN(), into: a.number}
	e.own.entities--
	m := Merged{ID: into, Relations: len(e.list), Links: len(e.joined.links), LSN: t.LSN()}
	_, err = e.flush()
	return m, err
}

// there is an entity that is there, and that the transaction has not changed before: what
// can be undone is between two LSNs.
func (e *editor) there(id string) (*subject, error) {
	if e.fresh {
		return nil, notFound(e.doing, id)
	}
	num, err := e.reader.number(id)
	if err != nil || num == 0 {
		return nil, cmp.Or(err, notFound(e.doing, id))
	}
	s, err := e.subject(id)
	if err == nil {
		err = e.load(s)
	}
	switch {
	case err != nil:
		return nil, err
	case !s.real():
		return nil, notFound(e.doing, id)
	}
	return s, e.settled(s.old.born)
}

// settled refuses what the transaction has changed before.
func (e *editor) settled(born uint64) error {
	if born == e.t.LSN() {
		return fault.Invalid(e.doing, "the transaction has changed them before", "merge in a transaction of its own")
	}
	return nil
}

// heldBy are the relations of an entity in both directions, each once.
func (e *editor) heldBy(num uint32) (all []*change, err error) {
	for _, sec := range []byte{secOut, secIn} {
		lower, upper := span(be32(section(e.t, kindArc, e.reader.owner, sec, numSize), num))
		err := e.reader.arcs(sec, lower, upper, func(a arc, t *tie) error {
			if sec == secIn {
				if a = a.reversed(); a.from == a.to {
					return nil // it is known from its beginning
				}
			}
			other, err := e.reader.current(a.from ^ a.to ^ num)
			if err != nil || other == nil {
				return err // it went with its other end
			}
			all = append(all, &change{arc: a, old: t})
			return cmp.Or(e.settled(t.born), e.bounded(len(all)))
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (e *editor) bounded(n int) error {
	if n > MaxMerge {
		return fault.Invalid(e.doing, fmt.Sprintf("it has more than %d relations or links, the limit", MaxMerge), "merge the other one into it")
	}
	return nil
}

// linksOf are the links of an entity, and whether another has them, too.
func (e *editor) linksOf(num, other uint32) (all []movedLink, err error) {
	prefix := be32(section(e.t, kindGraph, e.reader.owner, secLink, numSize), num)
	err = each(e.t, prefix, func(key, value []byte) error {
		l := movedLink{seq: be64At(key, len(key)-seqSize), time: bytes.Clone(value)}
		all = append(all, l)
		return e.bounded(len(all))
	})
	for i := range all {
		if err == nil {
			all[i].had, err = exists(e.t, linkKey(e.t, e.reader.owner, other, all[i].seq))
		}
	}
	return all, err
}

// takeAll gives the relations of one entity to another.
func (e *editor) takeAll(held []*change, gone, into uint32) error {
	var taken []*tie
	for _, ch := range held {
		if ch.between(into, gone) {
			continue
		}
		e.list = append(e.list, &change{arc: ch.replaced(gone, into)})
		taken = append(taken, ch.old)
	}
	if err := e.loadTies(e.list); err != nil {
		return err
	}
	for i, ch := range e.list {
		t := taken[i]
		if ch.old == nil {
			ch.now = *t
			ch.now.born = e.t.LSN()
			continue
		}
		if err := e.settled(ch.old.born); err != nil {
			return err
		}
		ch.now = *ch.old
		filled, err := e.merged(t.properties, ch.old.properties)
		if err != nil {
			return err
		}
		ch.now.extracted = ch.old.extracted && t.extracted
		if ch.now.properties = filled; !ch.now.same(ch.old) {
			ch.now.born, ch.now.created = e.t.LSN(), e.t.Now()
		}
	}
	return nil
}

// unite is the entity that stays, with what the other one adds.
func (e *editor) unite(a, b *subject) (err error) {
	n := *a.old
	n.typ, n.extracted = cmp.Or(n.typ, b.old.typ), n.extracted && b.old.extracted
	names := append([]string{cmp.Or(b.old.calledBy(), b.id)}, b.old.aliases...)
	called := n.calledBy()
	names = slices.DeleteFunc(names, func(s string) bool { return s == called })
	if n.aliases, err = addAliases(e.doing, n.aliases, names); err != nil {
		return err
	}
	if n.properties, err = e.merged(b.old.properties, n.properties); err != nil {
		return err
	}
	if !sameNode(a.old, &n) {
		n.born, n.updated = e.t.LSN(), e.t.Now()
		a.now = &n
	}
	return nil
}

// flushJoint writes what a merge, or its undoing, does beside.
func (e *editor) flushJoint(staged *delta) error {
	j := e.joined
	if j == nil {
		return nil
	}
	owner := e.reader.owner
	logged := binary.AppendUvarint(binary.AppendUvarint(numberValue(owner), uint64(j.into)), uint64(j.gone))
	logged = binary.AppendUvarint(logged, uint64(len(j.ended)))
	for _, ch := range j.ended {
		if err := e.flushEnded(ch); err != nil {
			return err
		}
		logged = append(logged, encodeArc(ch.arc)...)
		staged.arcs = append(staged.arcs, arcDelta{arc: ch.arc, gone: true})
	}
	e.own.relations -= uint64(len(j.ended))
	for _, l := range j.links {
		if err := e.flushLink(j, l); err != nil {
			return err
		}
	}
	moved := encodeMoved(j.links)
	e.t.Log(j.op, append(logged, moved...))
	if j.op == opMerge {
		return e.t.Set(mergedKey(e.t, owner, j.into, j.gone), moved)
	}
	return nil
}

// flushEnded writes that a relation holds no longer.
func (e *editor) flushEnded(ch *change) error {
	owner := e.reader.owner
	err := cmp.Or(e.supersede(ch), e.t.Delete(outKey(e.t, owner, ch.arc)), e.t.Delete(inKey(e.t, owner, ch.arc)))
	if err == nil && ch.old.id != "" && !slices.ContainsFunc(e.list, func(to *change) bool { return to.number == ch.number }) {
		err = e.t.Delete(idKey(e.t, owner, secGivenID, ch.old.id))
	}
	return err
}

// flushLink moves a link. The entity that stays keeps one that it had, too.
func (e *editor) flushLink(j *joint, l movedLink) error {
	owner := e.reader.owner
	if j.op == opMerge || !l.had {
		if err := cmp.Or(e.t.Delete(linkKey(e.t, owner, j.from, l.seq)), e.t.Delete(linkedKey(e.t, owner, l.seq, j.from))); err != nil {
			return err
		}
	}
	if j.op == opMerge && l.had {
		return nil
	}
	return cmp.Or(e.t.Set(linkKey(e.t, owner, j.to, l.seq), l.time), e.t.Set(linkedKey(e.t, owner, l.seq, j.to), nil))
}
