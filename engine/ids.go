package engine

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/internal/store"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// claim is a memory that may have, or have had, an ID.
type claim struct {
	owner uint32
	seq   uint64
	// indexed tells that the ID index names it: it has the ID, or one of the same hash.
	indexed bool
}

// anyOwner stands for all of them: no owner has this number.
const anyOwner = 0

// living calls fn with the living memories of an owner that have an ID, or one of the same
// hash. Who has an ID got it after those that had it before, so that each owner's are
// asked from the newest on, and not all that there ever were.
func (tx *Tx) living(owner uint32, id string, fn func(c claim, l live, rec *layout.Record) error) error {
	ask := func(c claim) (has bool, err error) {
		l, alive := tx.at(c.seq)
		if !alive || l.Owner != c.owner {
			return false, nil
		}
		rec, err := tx.state.Record(l.Version)
		if err == nil {
			err = fn(c, l, rec)
		}
		return err == nil && rec.ID == id, err
	}
	ks := tx.state.Keys
	found := uint32(anyOwner) // the owner of the one that the ID says itself, if that has it
	if o, s, ok := ks.Cipher.Open(id); ok && s > 0 && (owner == anyOwner || owner == o) {
		has, err := ask(claim{owner: o, seq: s})
		if err != nil {
			return err
		}
		if has {
			found = o
		}
	}
	prefix := ks.IDs(id)
	if owner != anyOwner {
		prefix = binary.BigEndian.AppendUint32(prefix, owner)
		if found == owner || !tx.db.writer.written.mayHold(prefix) {
			return nil
		}
	}
	it, err := tx.state.Reader.Iter(prefix, layout.PrefixEnd(prefix))
	if err != nil {
		return err
	}
	for ok := it.Last(); ok && err == nil; {
		c := claim{indexed: true}
		if c.owner, c.seq, ok = layout.ParseIDKey(it.Key()); !ok {
			err = layout.BadKey("ID", it.Key())
			break
		}
		over := c.owner == found
		if !over {
			over, err = ask(c)
		}
		if !over && err == nil {
			over, err = tx.had(c, id)
		}
		if over {
			ok = it.SeekLT(binary.BigEndian.AppendUint32(ks.IDs(id), c.owner))
		} else {
			ok = it.Prev()
		}
	}
	return errors.Join(err, it.Error(), it.Close())
}

// had reports whether a memory that is dead had an ID, and lived when it had: of one that was
// restored after its death nothing follows for those that were here before it.
func (tx *Tx) had(c claim, id string) (bool, error) {
	prefix := tx.state.Keys.Records(c.owner, c.seq)
	it, err := tx.state.Reader.Iter(prefix, layout.PrefixEnd(prefix))
	if err != nil {
		return false, err
	}
	had := false
	if it.Last() {
		var value []byte
		var rec *layout.Record
		v, ok := layout.ParseRecordKey(it.Key())
		if !ok {
			err = layout.BadKey("record", it.Key())
		} else if value, err = it.ValueAndErr(); err == nil {
			rec, err = layout.DecodeRecord(value)
		}
		had = err == nil && rec.ID == id && rec.Flags&layout.FlagPast == 0 && v.Born <= tx.state.LSN
	}
	return had, errors.Join(err, it.Error(), it.Close())
}

// holders calls fn with the memories of an owner that may have or have had an ID, in the
// order of owner and Seq. An error of fn ends it.
func (tx *Tx) holders(owner uint32, id string, fn func(c claim) error) error {
	ks := tx.state.Keys
	var said *claim // what the ID says itself, until fn was called with it
	if o, s, ok := ks.Cipher.Open(id); ok && s > 0 && (owner == anyOwner || owner == o) {
		said = &claim{owner: o, seq: s}
	}
	prefix := ks.IDs(id)
	if owner != anyOwner {
		prefix = binary.BigEndian.AppendUint32(prefix, owner)
	}
	if owner == anyOwner || tx.db.writer.written.mayHold(prefix) {
		err := kv.Scan(tx.state.Reader, prefix, layout.PrefixEnd(prefix), func(key, _ []byte) error {
			h := claim{indexed: true}
			var ok bool
			if h.owner, h.seq, ok = layout.ParseIDKey(key); !ok {
				return layout.BadKey("ID", key)
			}
			if said != nil {
				switch order := cmp.Or(cmp.Compare(said.owner, h.owner), cmp.Compare(said.seq, h.seq)); {
				case order < 0:
					if err := fn(*said); err != nil {
						return err
					}
					said = nil
				case order == 0:
					said = nil
				}
			}
			return fn(h)
		})
		if err != nil {
			return err
		}
	}
	if said == nil {
		return nil
	}
	return fn(*said)
}

// renamed reports whether a change of a memory makes it a note of another name.
func (p *prepared) renamed(old *layout.Record) bool {
	return state.Kinds[p.rec.Kind] == memory.KindNote && p.rec.Name != "" && (p.rec.Name != old.Name || p.rec.Kind != old.Kind)
}

// nameFree refuses a note whose name another note of its owner has, since a name
// addresses one. self is the Seq of the memory that changes, 0 of a new one.
func (tx *Tx) nameFree(p *prepared, owner uint32, self uint64) error {
	d, ok := p.dedupKey(tx.state.Keys, owner, 0)
	if !ok || d.Class != layout.DedupNote || tx.db.dedup == DedupNone {
		return nil
	}
	prefix := tx.state.Keys.DedupPrefix(d)
	if !tx.db.writer.written.mayHold(tx.state.Keys.DedupAnyRun(d)) {
		return nil
	}
	doing := fmt.Sprintf("name a note %q", valid.Short(p.rec.Name))
	err := kv.Scan(tx.state.Reader, prefix, layout.PrefixEnd(prefix), func(key, _ []byte) error {
		seq := binary.BigEndian.Uint64(key[len(prefix):])
		l, alive := tx.at(seq)
		if seq == self || !alive || l.expired(tx.state.Now) {
			return nil
		}
		old, err := tx.state.Record(l.Version)
		if err != nil || !sameKeyed(d, &p.rec, old) {
			return err
		}
		return &fault.Error{
			Kind: fault.ErrExists, What: doing, Why: "memory " + valid.Short(old.ID) + " has that name",
			Do: "update or rename that one, or choose another name",
		}
	})
	return store.Error(doing, err)
}
