package engine

import (
	"encoding/binary"
	"fmt"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/store"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
)

// renamed reports whether a change of a memory makes it a note of another name.
func (p *prepared) renamed(old *layout.Record) bool {
	return kindNames[p.rec.Kind] == KindNote && p.rec.Name != "" && (p.rec.Name != old.Name || p.rec.Kind != old.Kind)
}

// nameFree refuses a note whose name another note of its owner has, since a name
// addresses one. self is the Seq of the memory that changes, 0 of a new one.
func (tx *Tx) nameFree(p *prepared, owner uint32, self uint64) error {
	d, ok := p.dedupKey(tx.keys, owner, 0)
	if !ok || d.Class != layout.DedupNote || tx.db.dedup == DedupNone {
		return nil
	}
	prefix := tx.keys.DedupPrefix(d)
	if !tx.db.writer.written.mayHold(tx.keys.DedupAnyRun(d)) {
		return nil
	}
	doing := fmt.Sprintf("name a note %q", valid.Short(p.rec.Name))
	err := kv.Scan(tx.reader, prefix, layout.PrefixEnd(prefix), func(key, _ []byte) error {
		seq := binary.BigEndian.Uint64(key[len(prefix):])
		l, alive := tx.at(seq)
		if seq == self || !alive || l.expired(tx.now) {
			return nil
		}
		old, err := tx.record(l.Version)
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
