package graph

import (
	"bytes"
	"encoding/binary"

	"github.com/seed-7aedc3ff/memdb/internal/codec"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// What a memory is the reason for goes in the commit in which the memory dies, or gets another
// text: its links, and the entities and relations that only texts were the reason for and that
// no other living memory tells of. A memory that goes to the trash leaves a record of what it
// had there, so that it can come back with it.

const (
	doingForget  = "take from the graph what a memory was the reason for"
	doingRestore = "give the graph back what a memory is the reason for"
)

// Forgotten says how a memory goes.
type Forgotten struct {
	// Keep: it goes to the trash, from where [Part.Restore] brings back what it had.
	Keep bool
	// Into is the Seq of the memory that it is merged into, 0 for none: its links, and what
	// its text tells of, lead to that one.
	Into uint64
	// TextOnly: the memory stays and has another text. Links that a caller has made stay.
	TextOnly bool
}

// held is what a memory has in the graph.
type held struct {
	links []heldLink
	said  []heldSaid
}

type heldLink struct {
	num   uint32
	value []byte
	moved bool // the memory that it was merged into had no such link
	node  node // the entity; in a record
}

type heldSaid struct {
	arc
	moved    bool
	from, to string // the IDs of the ends, and the relation, zero where it was not there; in a record
	tie      tie
}

// Empty reports whether no owner has a graph.
func (*Part) Empty(v part.View) (bool, error) {
	any, err := (&reader{View: v}).any(v.Key(kindGraph, 0))
	return !any, err
}

// HasMemories reports whether memories of an owner are linked to entities: fast, so that most
// owners are asked nothing more.
func (*Part) HasMemories(v part.View, owner uint32) (bool, error) {
	r := &reader{View: v, owner: owner}
	for _, sec := range []byte{secLinked, secSaidBy} {
		if any, err := r.any(section(v, kindGraph, owner, sec, 0)); err != nil || any {
			return any, err
		}
	}
	return false, nil
}

// Forget takes away what a memory was the reason for.
func (p *Part) Forget(t part.Tx, owner uint32, seq uint64, how Forgotten) error {
	r := &reader{View: t, owner: owner}
	h, err := r.heldOf(seq, how.TextOnly)
	if err != nil || len(h.links)+len(h.said) == 0 {
		return err
	}
	if how.Into != 0 {
		if err := h.moveTo(t, owner, how.Into); err != nil {
			return err
		}
	}
	if how.Keep {
		if err := r.keep(t, seq, how.Into, &h); err != nil {
			return err
		}
	}
	for i := range h.links {
		if err := setLink(t, doingForget, owner, h.links[i].num, seq, noLink, 0); err != nil {
			return err
		}
	}
	for i := range h.said {
		if err := unsay(t, doingForget, owner, h.said[i].arc, seq); err != nil {
			return err
		}
	}
	for i := range h.said {
		if err := p.dropUnsaid(t, doingForget, owner, h.said[i].arc); err != nil {
			return err
		}
	}
	for i := range h.links {
		if err := p.dropLoose(t, doingForget, owner, h.links[i].num); err != nil {
			return err
		}
	}
	return nil
}

// heldOf is what a memory has in the graph, or what of it its text is the reason for.
func (r *reader) heldOf(seq uint64, textOnly bool) (h held, err error) {
	arcs, err := r.saidBy(seq)
	if err != nil {
		return h, err
	}
	for _, a := range arcs {
		h.said = append(h.said, heldSaid{arc: a})
	}
	nums, err := r.linkedTo(seq)
	if err != nil {
		return h, err
	}
	for _, num := range nums {
		value, found, err := r.Get(linkKey(r, r.owner, num, seq))
		switch {
		case err != nil:
			return h, err
		case !found:
			return h, missing("link to the entity", num, linkKey(r, r.owner, num, seq))
		case !textOnly || byMention(value):
			h.links = append(h.links, heldLink{num: num, value: value})
		}
	}
	return h, nil
}

// moveTo has what a memory has lead to another, which it is merged into.
func (h *held) moveTo(t part.Tx, owner uint32, into uint64) error {
	for i := range h.links {
		l := &h.links[i]
		there, err := exists(t, linkKey(t, owner, l.num, into))
		if err != nil {
			return err
		}
		if l.moved = !there; there {
			continue
		}
		if err := copyLink(t, doingForget, owner, l.num, into, l.value); err != nil {
			return err
		}
	}
	for i := range h.said {
		s := &h.said[i]
		there, err := exists(t, saidKey(t, owner, s.arc, into))
		if err != nil {
			return err
		}
		if s.moved = !there; there {
			continue
		}
		if err := say(t, doingForget, owner, s.arc, into); err != nil {
			return err
		}
	}
	return nil
}

// copyLink makes a link with the value of another.
func copyLink(t part.Tx, doing string, owner, num uint32, seq uint64, value []byte) error {
	at, _ := binary.Varint(value)
	how := linkGiven
	if byMention(value) {
		how = linkMentioned
	}
	return setLink(t, doing, owner, num, seq, how, at)
}

func keptKey(v part.View, owner uint32, seq uint64) []byte {
	return be64(section(v, kindGraph, owner, secKept, seqSize), seq)
}

// keep writes the record of what a memory in the trash had.
func (r *reader) keep(t part.Tx, seq, into uint64, h *held) error {
	for i := range h.links {
		n, err := r.current(h.links[i].num)
		if err != nil {
			return err
		}
		if n.real() != nil {
			h.links[i].node = *n
		}
	}
	for i := range h.said {
		if err := r.nameSaid(&h.said[i]); err != nil {
			return err
		}
	}
	value := h.encode(into)
	if err := t.NeedToFree(doingForget, len(value)+100); err != nil { // what goes to the trash frees in the end
		return err
	}
	t.Log(opKeep, binary.AppendUvarint(numberValue(r.owner), seq))
	return t.Set(keptKey(t, r.owner, seq), value)
}

// nameSaid adds the IDs of its ends to a relation that a memory tells of, and what it says.
func (r *reader) nameSaid(s *heldSaid) error {
	for num, id := range map[uint32]*string{s.arc.from: &s.from, s.arc.to: &s.to} {
		n, err := r.current(num)
		if err != nil {
			return err
		}
		if n != nil {
			*id = n.id
		}
	}
	if s.arc.from == s.arc.to {
		s.to = s.from
	}
	froms, err := r.heirs(s.arc.from)
	if err != nil {
		return err
	}
	tos, err := r.heirs(s.arc.to)
	if err != nil {
		return err
	}
	now, err := r.holding(arc{from: froms[len(froms)-1], typ: s.typ, to: tos[len(tos)-1]})
	if now != nil {
		s.tie = *now
	}
	return err
}

const heldMoved = 1 << 0

// encode is the record of what a memory had.
func (h *held) encode(into uint64) []byte {
	b := binary.AppendUvarint([]byte{recordVersion}, into)
	flags := func(moved bool) byte {
		if moved {
			return heldMoved
		}
		return 0
	}
	b = binary.AppendUvarint(b, uint64(len(h.links)))
	for i := range h.links {
		l := &h.links[i]
		b = codec.AppendBytes(append(b, flags(l.moved)), l.node.encode())
		b = codec.AppendBytes(b, l.value)
	}
	b = binary.AppendUvarint(b, uint64(len(h.said)))
	for i := range h.said {
		s := &h.said[i]
		b = codec.AppendBytes(append(b, flags(s.moved)), s.from)
		b = codec.AppendBytes(binary.AppendUvarint(b, uint64(s.typ)), s.to)
		b = codec.AppendBytes(b, s.tie.encode(nil))
	}
	return b
}

func decodeHeld(b []byte) (h held, into uint64, err error) {
	r := codec.NewReader(b)
	version := r.Byte()
	into = r.Uvarint()
	for range r.Count() {
		l := heldLink{moved: r.Byte()&heldMoved != 0}
		if l.node, err = decodeNode(r.Bytes()); err != nil {
			return h, 0, err
		}
		l.value = bytes.Clone(r.Bytes())
		h.links = append(h.links, l)
	}
	for range r.Count() {
		s := heldSaid{moved: r.Byte()&heldMoved != 0, from: r.String()}
		s.typ, s.to = r.Uint32(), r.String()
		if s.tie, err = decodeTie(r.Bytes()); err != nil {
			return h, 0, err
		}
		h.said = append(h.said, s)
	}
	if r.Err() != nil || version != recordVersion {
		return h, 0, &fault.Error{Kind: fault.ErrCorrupt, What: "read what a memory in the trash had in the graph", Cause: r.Err(), Do: "run check"}
	}
	return h, into, nil
}

// Restore gives a memory that came back from the trash what it had: its links to what is there,
// and those entities and relations that only texts were the reason for.
func (p *Part) Restore(t part.Tx, o scope.Owner, owner uint32, seq uint64) error {
	b, found, err := t.Get(keptKey(t, owner, seq))
	if err != nil || !found {
		return err
	}
	h, into, err := decodeHeld(b)
	if err != nil {
		return err
	}
	e, err := newEditor(t, p, doingRestore, o)
	if err != nil {
		return err
	}
	for i := range h.links {
		l := &h.links[i]
		s, err := e.again(&l.node)
		if err != nil {
			return err
		}
		if l.num = 0; s != nil {
			l.num = s.number
		}
	}
	for i := range h.said {
		if err := e.sayAgain(&h.said[i]); err != nil {
			return err
		}
	}
	if _, err := e.flush(); err != nil {
		return err
	}
	if err := h.giveBack(t, owner, seq, into); err != nil {
		return err
	}
	return p.Unkeep(t, owner, seq)
}

// again is the entity of a record: it is there, or its number is given back to it, nil where a
// caller had put it and it was deleted since.
func (e *editor) again(n *node) (*subject, error) {
	if n.id == "" {
		return nil, nil
	}
	num, err := e.reader.number(n.id)
	if err != nil || num == 0 && !n.extracted {
		return nil, err
	}
	s, err := e.subject(n.id)
	if err != nil {
		return nil, err
	}
	if s, err = e.survivor(s, &Options{Strict: true}); err != nil || s.real() {
		return s, err
	}
	if !n.extracted {
		return nil, nil
	}
	now := *n
	now.first, now.born = e.t.LSN(), e.t.LSN()
	s.now, s.created = &now, true
	return s, nil
}

// sayAgain has a relation of a record there again, if its ends are. Otherwise it has no ends.
func (e *editor) sayAgain(s *heldSaid) error {
	typ := s.typ
	s.arc = arc{}
	var ends [2]uint32
	for i, id := range []string{s.from, s.to} {
		if sub := e.subjects[id]; sub == nil {
			if num, err := e.reader.number(id); err != nil || num == 0 {
				return err
			}
		}
		sub, err := e.subject(id)
		if err != nil {
			return err
		}
		if sub, err = e.survivor(sub, &Options{Strict: true}); err != nil || !sub.real() {
			return err
		}
		ends[i] = sub.number
	}
	a := arc{from: ends[0], typ: typ, to: ends[1]}
	ch := e.ties[a]
	if ch == nil {
		ch = &change{arc: a}
		if err := e.loadTies([]*change{ch}); err != nil {
			return err
		}
		if ch.old == nil && !s.tie.extracted {
			return nil // a caller had made it, and it was ended since
		}
		if ch.now = s.tie; ch.old != nil {
			ch.now = *ch.old
		} else {
			ch.now.born = e.t.LSN()
		}
		e.ties[a] = ch
		e.list = append(e.list, ch)
	}
	s.arc = a
	return nil
}

// giveBack makes the links of a record anew, and takes from the memory that it was merged into
// what that one had from it.
func (h *held) giveBack(t part.Tx, owner uint32, seq, into uint64) error {
	for i := range h.links {
		l := &h.links[i]
		if l.num == 0 {
			continue
		}
		if err := copyLink(t, doingRestore, owner, l.num, seq, l.value); err != nil {
			return err
		}
		if l.moved {
			if err := setLink(t, doingRestore, owner, l.num, into, noLink, 0); err != nil {
				return err
			}
		}
	}
	for i := range h.said {
		s := &h.said[i]
		if s.arc == (arc{}) {
			continue
		}
		if err := say(t, doingRestore, owner, s.arc, seq); err != nil {
			return err
		}
		if s.moved {
			if err := unsay(t, doingRestore, owner, s.arc, into); err != nil {
				return err
			}
		}
	}
	return nil
}

// Unkeep removes the record of what a memory had, which does not come back.
func (*Part) Unkeep(t part.Tx, owner uint32, seq uint64) error {
	key := keptKey(t, owner, seq)
	if there, err := exists(t, key); err != nil || !there {
		return err
	}
	t.Log(opKeep, binary.AppendUvarint(numberValue(owner), seq))
	return t.Delete(key)
}
