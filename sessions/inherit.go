package sessions

import (
	"bytes"
	"cmp"
	"context"

	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/part"
)

// A message refers to its memory for its text, also to one that is gone, as long as the history
// of that has it. What was said stays said when memories age: before a history goes, the
// messages take its text in. Where it was merged into another memory, which that history tells,
// they refer to that one from then on.

const (
	doingInherit = "keep the texts of messages"
	// inheritItems and inheritBytes bound what one commit writes: other writers wait for it.
	inheritItems = 1000
	inheritBytes = 4 << 20
)

// Inherit has all messages of an owner that refer to memories for their texts, by Seq, carry
// these texts themselves, in every state and content. It returns once no message is left that
// needs one of them: a repair that has read such a message before is refused, and reads anew.
func (*Part) Inherit(ctx context.Context, r part.Runner, owner uint32, texts map[uint64]string) error {
	for again := true; again; {
		again = false
		var from []byte
		for more := true; more; {
			var keys [][]byte
			err := r.View(ctx, doingInherit, func(v part.View) (err error) {
				keys, from, err = heirs(ctx, v, owner, texts, from)
				return err
			})
			if err != nil {
				return err
			}
			more = from != nil
			if len(keys) == 0 {
				continue
			}
			again = true
			err = r.Update(ctx, doingInherit, func(t part.Tx) error { return inherit(t, keys, texts) })
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// heirs are the keys of messages from a key on that need one of the texts, as many as one commit
// may write; next is where to go on, nil at the end.
func heirs(ctx context.Context, v part.View, owner uint32, texts map[uint64]string, from []byte) (keys [][]byte, next []byte, err error) {
	lower, upper := span(place{owner: owner}.key(v, kindMessage, 0)[:keyHeader+numberSize])
	if from != nil {
		lower = from
	}
	size, into := 0, survivors(v, owner)
	err = v.Scan(lower, upper, func(key, b []byte) error {
		m, err := decodeMessage(b)
		if err != nil {
			return nil // which check reports
		}
		n, err := m.inherit(texts, into)
		if n == 0 || err != nil {
			return cmp.Or(err, ctx.Err())
		}
		if size += len(b) + n; len(keys) > 0 && size > inheritBytes || len(keys) == inheritItems {
			next = bytes.Clone(key)
			return kv.ErrStop
		}
		keys = append(keys, bytes.Clone(key))
		return ctx.Err()
	})
	return keys, next, err
}

// survivors returns a look for the memory that one of an owner was merged into, which looks once
// for each.
func survivors(v part.View, owner uint32) func(seq uint64) (part.Memory, error) {
	known := map[uint64]part.Memory{}
	return func(seq uint64) (part.Memory, error) {
		into, seen := known[seq]
		if seen {
			return into, nil
		}
		into, _, err := v.Survivor(owner, seq)
		known[seq] = into
		return into, err
	}
}

// inherit gives texts to the pieces of a message that refer to them, and leads these to the
// survivor where there is one. It returns about how many bytes that adds, 0 where nothing changes.
func (m *Message) inherit(texts map[uint64]string, survivor func(seq uint64) (part.Memory, error)) (n int, err error) {
	for i := range m.pieces {
		p := &m.pieces[i]
		text, dies := texts[p.seq]
		if p.seq == 0 || !dies {
			continue
		}
		if p.text == "" && !p.quiet && text != "" {
			p.text = text
			n += len(text)
		}
		into, err := survivor(p.seq)
		if err != nil {
			return n, err
		}
		if into.Seq != 0 {
			p.seq, p.id = into.Seq, into.ID
			n += len(into.ID)
		}
	}
	return n, nil
}

// inherit writes the messages of keys with their texts, each in its place: it says what it said
// in every state. A session that shows one has another version then.
func inherit(t part.Tx, keys [][]byte, texts map[uint64]string) error {
	if len(keys) == 0 {
		return nil
	}
	of, _ := parsePlace(keys[0])
	values, size, into := make([][]byte, len(keys)), 0, survivors(t, of.owner)
	for i, key := range keys {
		b, found, err := t.Get(key)
		if err != nil {
			return err
		}
		if !found {
			continue // removed since
		}
		m, err := decodeMessage(b)
		if err != nil {
			return err
		}
		n, err := m.inherit(texts, into)
		if err != nil {
			return err
		}
		if n > 0 {
			values[i] = encodeMessage(m)
			size += len(values[i]) + messageBytes + stateBytes
		}
	}
	if err := t.NeedToFree(doingInherit, size); err != nil {
		return err
	}
	for i, key := range keys {
		if values[i] == nil {
			continue
		}
		p, _ := parsePlace(key)
		content, position, _, ok := parseItem(key)
		if !ok {
			return layout.BadKey("message", key)
		}
		if err := t.Set(key, values[i]); err != nil {
			return err
		}
		t.Log(opWrite, logged(p, numbers(content, position, 1)))
		if err := renew(t, p, content); err != nil {
			return err
		}
	}
	return nil
}

// renew gives a session that shows a content the version of this commit.
func renew(t part.Tx, p place, content uint32) error {
	h, err := stored(t, p)
	if err != nil || h == nil || !h.live() || h.content != content || h.version == t.LSN() {
		return err
	}
	h.version = t.LSN()
	return t.Set(p.head(t), h.encode(nil))
}
