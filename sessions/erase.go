package sessions

import (
	"bytes"
	"context"

	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/part"
)

const doingErase = "take what is erased out of messages"

// erased says which memories are: by Seq, and by the IDs that they had.
type erased struct {
	seqs map[uint64]bool
	ids  map[string]bool
}

// EraseMemories takes memories of an owner out of its messages, in every state and content: pieces
// that refer to one lose the reference and the text, and the message its parts, which may say the
// same. Markers lose the name of an archive. It may come again.
func (*Part) EraseMemories(ctx context.Context, r part.Runner, owner uint32, seqs map[uint64]bool, ids map[string]bool) error {
	of := erased{seqs, ids}
	for _, kind := range []byte{kindMessage, kindMarker} {
		var from []byte
		for more := true; more; {
			var keys [][]byte
			err := r.View(ctx, doingErase, func(v part.View) (err error) {
				keys, from, err = of.find(ctx, v, kind, owner, from)
				return err
			})
			if err == nil && len(keys) > 0 {
				err = r.Update(ctx, doingErase, func(t part.Tx) error { return of.rewrite(t, keys) })
			}
			if err != nil {
				return err
			}
			more = from != nil
		}
	}
	return nil
}

// Summarised says which archives were made of some memories of an owner.
type Summarised struct {
	// Archives are the IDs of those whose markers stand behind a message that refers to one.
	Archives map[string]bool
	// Whole are the runs whose sessions have all their messages: an archive that is not among
	// Archives was made of others.
	Whole map[string]bool
}

// SummarisedOf finds the archives that were made of some memories of an owner.
func SummarisedOf(v part.View, owner uint32, seqs map[uint64]bool, ids map[string]bool) (s Summarised, err error) {
	s = Summarised{map[string]bool{}, map[string]bool{}}
	lower, upper := span(place{owner: owner}.key(v, kindSession, 0)[:keyHeader+numberSize])
	err = v.Scan(lower, upper, func(_, b []byte) error {
		h, err := decodeHead(b)
		if err == nil && h.first == 0 && h.contents <= 1 && h.live() {
			s.Whole[h.name] = true
		}
		return nil // what cannot be read, check reports
	})
	if err != nil {
		return s, err
	}
	type content struct{ run, content uint32 }
	said := map[content]uint32{} // the first position of each that refers to one
	of := erased{seqs, ids}
	lower, upper = span(place{owner: owner}.key(v, kindMessage, 0)[:keyHeader+numberSize])
	err = v.Scan(lower, upper, func(key, b []byte) error {
		without, err := of.without(key, b)
		number, position, _, ok := parseItem(key)
		if err != nil || without == nil || !ok {
			return nil
		}
		p, _ := parsePlace(key)
		at := content{p.run, number}
		if first, known := said[at]; !known || position < first {
			said[at] = position
		}
		return nil
	})
	if err != nil {
		return s, err
	}
	lower, upper = span(place{owner: owner}.key(v, kindMarker, 0)[:keyHeader+numberSize])
	return s, v.Scan(lower, upper, func(key, b []byte) error {
		number, position, _, ok := parseItem(key)
		if !ok {
			return nil
		}
		p, _ := parsePlace(key)
		if first, known := said[content{p.run, number}]; known && first < position {
			if m, err := decodeMarker(b); err == nil {
				s.Archives[m.ArchiveID] = true
			}
		}
		return nil
	})
}

// find are the keys of a kind from one on that have something of what is erased, as many as one
// commit may write; next is where to go on, nil at the end.
func (e *erased) find(ctx context.Context, v part.View, kind byte, owner uint32, from []byte) (keys [][]byte, next []byte, err error) {
	lower, upper := span(place{owner: owner}.key(v, kind, 0)[:keyHeader+numberSize])
	if from != nil {
		lower = from
	}
	size := 0
	err = v.Scan(lower, upper, func(key, b []byte) error {
		without, err := e.without(key, b)
		if err != nil || without == nil {
			return ctx.Err() // what cannot be read, check reports
		}
		if size += len(b); len(keys) > 0 && size > inheritBytes || len(keys) == inheritItems {
			next = bytes.Clone(key)
			return kv.ErrStop
		}
		keys = append(keys, bytes.Clone(key))
		return ctx.Err()
	})
	return keys, next, err
}

// without is a message or a marker without what is erased, nil where it has nothing of it.
func (e *erased) without(key, b []byte) ([]byte, error) {
	if key[0] == kindMarker {
		m, err := decodeMarker(b)
		if err != nil || !e.ids[m.ArchiveID] {
			return nil, err
		}
		m.ArchiveID, m.ArchiveName = "", ""
		return m.encode(), nil
	}
	m, err := decodeMessage(b)
	if err != nil {
		return nil, err
	}
	has := false
	for i := range m.pieces {
		p := &m.pieces[i]
		if e.seqs[p.seq] && p.seq != 0 || e.ids[p.id] && p.id != "" {
			p.seq, p.id, p.text, has = 0, "", "", true
		}
	}
	if !has {
		return nil, nil
	}
	m.Parts, m.ToolCalls, m.Extra = nil, nil, nil
	return encodeMessage(m), nil
}

// rewrite writes messages and markers in their places. A session that shows one has another
// version then.
func (e *erased) rewrite(t part.Tx, keys [][]byte) error {
	for _, key := range keys {
		b, found, err := t.Get(key)
		if err != nil {
			return err
		}
		if !found {
			continue // removed since
		}
		value, err := e.without(key, b)
		if err != nil || value == nil {
			return err
		}
		if err := t.NeedToFree(doingErase, len(value)+messageBytes+stateBytes); err != nil {
			return err
		}
		p, _ := parsePlace(key)
		content, position, _, ok := parseItem(key)
		if !ok {
			return layout.BadKey("message", key)
		}
		if err := t.Set(key, value); err != nil {
			return err
		}
		t.Log(opWrite, logged(p, numbers(content, position, 1)))
		if err := renew(t, p, content); err != nil {
			return err
		}
	}
	return nil
}

// EachRun visits the numbers of the runs that have a session, some more than once.
func EachRun(v part.View, visit func(run uint32)) error {
	lower := v.Key(kindSession, 0)
	return v.Scan(lower, layout.PrefixEnd(lower), func(key, _ []byte) error {
		if p, ok := parsePlace(key); ok {
			visit(p.run)
		}
		return nil
	})
}
