package graph

import (
	"github.com/seed-7aedc3ff/memdb/internal/codec"
	"github.com/seed-7aedc3ff/memdb/internal/part"
)

var _ part.Teller = (*Part)(nil)

// relationWords are the operations on one relation, which the body names by its numbers.
var relationWords = map[part.Op]string{
	opEnd: "relation_end", opUnrelate: "relation_delete", opPast: "relation_past", opSay: "relation_say", opUnsay: "relation_unsay",
}

// linkWords are the operations on a link of an entity to a memory.
var linkWords = map[part.Op]string{opLink: "link", opMention: "link", opUnlink: "unlink"}

// Tell reads a change of the graph out of the log. Ends of relations are told by the IDs that their
// numbers have; one that was deleted since is unknown.
func (p *Part) Tell(op part.Op, body *codec.Reader) part.Telling {
	owner := body.Uint32()
	switch op {
	case opEntity:
		return tellEntity(owner, body)
	case opRelations:
		return tellRelations(owner, body)
	case opDelete, opDeleted:
		told := part.Told{Op: "entity_delete", Owner: owner, Unresolved: op == opDelete}
		body.Uint32()
		if op == opDeleted {
			told.ID = body.String()
		}
		return tell(told)
	case opDeleteAll:
		return tell(part.Told{Op: "graph_delete_all", Owner: owner})
	case opMerge, opUnmerge, opMerged:
		return tellMerge(op, owner, body)
	case opEnd, opUnrelate, opPast, opSay, opUnsay:
		return tellRelation(op, owner, body)
	case opLink, opMention, opUnlink:
		return tellLink(op, owner, body)
	case opType:
		body.Byte()
		body.Uint32()
		body.Bytes()
	case opClean:
		body.Uint32()
	case opKeep:
		body.Uvarint()
	}
	return nil
}

// tell tells of what the body says whole.
func tell(told part.Told) part.Telling {
	return func(part.View, part.Commit) ([]part.Told, error) { return []part.Told{told}, nil }
}

// teller names what the log has as numbers, for one owner.
type teller struct {
	reader
	own  owned
	gone bool              // the graph was deleted after the change that is told
	ids  map[uint32]string // of entities, by number; empty for one that is gone
}

func newTeller(v part.View, owner uint32, of part.Commit) (t *teller, err error) {
	t = &teller{reader: reader{View: v, owner: owner}, ids: map[uint32]string{}}
	if t.own, err = t.owned(); err != nil {
		return t, err
	}
	if t.gone = t.own.lastEntity == 0 || of.LSN < t.own.born; t.gone {
		t.own.Owner, _, err = v.OwnerOf(owner)
	}
	return t, err
}

// id is the ID of an entity, empty where it is gone.
func (t *teller) id(num uint32) (string, error) {
	id, known := t.ids[num]
	if known || t.gone {
		return id, nil
	}
	n, err := t.current(num)
	if err != nil {
		return "", err
	}
	if n != nil {
		id = n.id
	}
	t.ids[num] = id
	return id, nil
}

// relation is a relation with the names of its numbers, as far as they are known.
func (t *teller) relation(a arc, of *tie) (l RelationLine, whole bool, err error) {
	from, err := t.id(a.from)
	if err != nil {
		return l, false, err
	}
	to, err := t.id(a.to)
	if err != nil {
		return l, false, err
	}
	typ := ""
	if whole = from != "" && to != ""; !t.gone {
		if typ, err = t.typeName(classRelation, a.typ); err != nil {
			return l, false, err
		}
	}
	l = NewRelationLine(of.relation(t.own.Owner, from, typ, to))
	if !whole && of.id == "" {
		l.ID = "" // it follows from what is not known
	}
	return l, whole, nil
}

func tellEntity(owner uint32, body *codec.Reader) part.Telling {
	body.Uint32()
	value := body.Bytes()
	return func(v part.View, of part.Commit) ([]part.Told, error) {
		n, err := decodeNode(value)
		if err != nil || n.forward { // of a forward reference nobody sees anything
			return nil, err
		}
		t, err := newTeller(v, owner, of)
		if err != nil {
			return nil, err
		}
		told := part.Told{Op: "entity_put", Owner: owner, ID: n.id, Unresolved: t.gone}
		if t.gone {
			n.typ = 0
		}
		e, err := t.entity(t.own.Owner, &n)
		if err != nil {
			return nil, err
		}
		told.After = NewEntityLine(e)
		return []part.Told{told}, nil
	}
}

// loggedTie is a relation as the log has it; the value is empty where it says no more than the
// triple.
type loggedTie struct {
	arc
	value []byte
}

func tellRelations(owner uint32, body *codec.Reader) part.Telling {
	var all []loggedTie
	for range body.Count() {
		l := loggedTie{arc{body.Uint32(), body.Uint32(), body.Uint32(), body.Uint32()}, body.Bytes()}
		if body.Err() != nil {
			return nil
		}
		all = append(all, l)
	}
	return func(v part.View, of part.Commit) ([]part.Told, error) {
		t, err := newTeller(v, owner, of)
		if err != nil {
			return nil, err
		}
		told := make([]part.Told, len(all))
		for i, l := range all {
			now := tie{born: of.LSN, created: of.Time}
			if len(l.value) > 0 {
				if now, err = decodeTie(l.value); err != nil {
					return nil, err
				}
			}
			line, whole, err := t.relation(l.arc, &now)
			if err != nil {
				return nil, err
			}
			told[i] = part.Told{Op: "relation_put", Owner: owner, ID: line.ID, After: line, Unresolved: !whole}
		}
		return told, nil
	}
}

// tellRelation tells of one relation. What it was is read where it still lies.
func tellRelation(op part.Op, owner uint32, body *codec.Reader) part.Telling {
	named := body.Take(arcSize + numSize)
	told := part.Told{Op: relationWords[op], Owner: owner}
	var value []byte
	switch op {
	case opPast:
		value = body.Bytes()
	case opSay, opUnsay:
		told.Seq = body.Uvarint()
	}
	return func(v part.View, of part.Commit) ([]part.Told, error) {
		a, err := decodeArc(named)
		if err != nil {
			return nil, err
		}
		t, err := newTeller(v, owner, of)
		if err != nil {
			return nil, err
		}
		was := &tie{}
		switch op {
		case opPast:
			*was, err = decodeTie(value)
		case opEnd:
			was, err = t.ended(a, of.LSN)
		}
		if err != nil {
			return nil, err
		}
		line, whole, err := t.relation(a, was)
		if err != nil {
			return nil, err
		}
		told := told
		told.ID, told.Unresolved = line.ID, !whole
		if op == opPast {
			told.After = line
		} else {
			told.Before = line
		}
		return []part.Told{told}, nil
	}
}

// ended is the version of a relation that ended at an LSN, or what the triple says of it.
func (t *teller) ended(a arc, lsn uint64) (*tie, error) {
	if t.gone {
		return &tie{}, nil
	}
	was, err := t.versionAt(a, lsn-1)
	if was == nil {
		was = &tie{}
	}
	return was, err
}

func tellLink(op part.Op, owner uint32, body *codec.Reader) part.Telling {
	told := part.Told{Op: linkWords[op], Owner: owner}
	num := body.Uint32()
	told.Seq = body.Uvarint()
	if op == opMention {
		told.Reason = "mentioned"
	}
	return func(v part.View, of part.Commit) ([]part.Told, error) {
		t, err := newTeller(v, owner, of)
		if err != nil {
			return nil, err
		}
		told := told
		told.ID, err = t.id(num)
		told.Unresolved = told.ID == ""
		return []part.Told{told}, err
	}
}

// tellMerge tells of a merge, or of its undoing. What it changed of relations and of the entity that
// stays are changes of their own.
func tellMerge(op part.Op, owner uint32, body *codec.Reader) part.Telling {
	into, num := body.Uint32(), body.Uint32()
	if op == opMerged {
		body.Bytes()
	} else {
		body.Take((arcSize + numSize) * body.Count())
		body.Byte()
		for range body.Count() {
			body.Uvarint()
			body.Byte()
		}
	}
	word := "entity_merge"
	if op == opUnmerge {
		word = "entity_unmerge"
	}
	return func(v part.View, of part.Commit) ([]part.Told, error) {
		t, err := newTeller(v, owner, of)
		if err != nil {
			return nil, err
		}
		told := part.Told{Op: word, Owner: owner}
		if told.ID, err = t.id(num); err == nil {
			told.Into, err = t.id(into)
		}
		told.Unresolved = told.ID == "" || told.Into == ""
		return []part.Told{told}, err
	}
}
