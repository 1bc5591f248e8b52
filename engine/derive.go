package engine

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/seed-7aedc3ff/memdb/hnsw"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/store"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// Some keys of the store say what all others are read by: the generations of keys, and the
// numbers that were given out. Where they cannot be read, they follow from the keys that are
// there.

// deriveGenerations takes the lowest generation that each kind has keys of: while keys are
// written anew, the next generation lies beside it and is not whole.
func (db *DB) deriveGenerations() error {
	ks := db.keys()
	ks.FirstGenerations()
	for _, kind := range ks.Kinds() {
		it, err := db.store.Iter([]byte{kind}, []byte{kind + 1})
		if err != nil {
			return err
		}
		if it.First() && len(it.Key()) >= layout.KeyHeader {
			ks.Gen[kind] = binary.BigEndian.Uint16(it.Key()[1:])
		}
		if err := errors.Join(it.Error(), it.Close()); err != nil && !store.Unreadable(err) {
			return err
		}
	}
	if db.readOnly {
		return nil
	}
	return db.store.Set(layout.GenerationsKey, ks.EncodeGenerations(), pebble.Sync)
}

// mostLost is how many commits, memories and names a block of the log that cannot be read may
// have told of. Numbers are skipped, which nobody misses.
const mostLost = 1 << 16

// deriveLog finds what numbers were given out from what has them.
func (db *DB) deriveLog() error {
	w := &db.writer
	w.applied, w.next = 0, layout.Counters{Doc: db.firstDoc}
	for _, of := range []struct {
		kind  byte
		visit func(key, value []byte) error
	}{
		{layout.KindLog, func(key, value []byte) error { // first: its numbers rise
			if lsn, ok := layout.ParseLSNKey(key); ok {
				w.applied = max(w.applied, lsn)
			}
			if end, err := decodeLogEnd(key, value); err == nil {
				w.next = end.next
			}
			return nil
		}},
		{layout.KindRecord, func(key, _ []byte) error {
			v, _ := layout.ParseRecordKey(key)
			w.applied, w.next.Seq = max(w.applied, v.Born), max(w.next.Seq, v.Seq)
			return nil
		}},
		{layout.KindHistory, func(key, _ []byte) error {
			lsn, _, _ := layout.ParseHistoryKey(key)
			w.applied = max(w.applied, lsn)
			return nil
		}},
		{layout.KindName, func(key, value []byte) error {
			if num, _, _, err := layout.DecodeName(key, value); err == nil && len(key) > layout.KeyHeader && key[layout.KeyHeader] < byte(layout.NameClasses) {
				n := &w.next.Names[key[layout.KeyHeader]]
				*n = max(*n, num)
			}
			return nil
		}},
		{layout.KindForward, func(key, _ []byte) error { return raiseDoc(w, key, 1, layout.ParseDocKey) }},
		{layout.KindTombstone, func(key, _ []byte) error { return raiseDoc(w, key, 1, layout.ParseDocKey) }},
		{layout.KindRows, func(key, _ []byte) error { return raiseDoc(w, key, layout.RowsOfPage, layout.ParseRowsKey) }},
	} {
		lower, upper := db.keys().Span(of.kind)
		if err := db.loadKeys("something that tells which numbers were given out", lower, upper, of.visit); err != nil {
			return err
		}
	}
	w.applied, w.next.Seq = w.applied+mostLost, w.next.Seq+mostLost
	for class := layout.NameUser; class < layout.NameSpace; class++ {
		w.next.Names[class] += mostLost
	}
	w.next.Names[layout.NameSpace]++
	return nil
}

// raiseDoc takes over that documents have numbers: the next ones begin a chunk, which nothing
// that cannot be read has a part in.
func raiseDoc(w *writer, key []byte, docs uint32, parse func([]byte) (uint32, bool)) error {
	doc, ok := parse(key)
	if last := uint64(doc) + uint64(docs) - 1; ok && last >= uint64(w.next.Doc) && last < MaxMemories {
		w.next.Doc = min((uint32(last>>16)+1)<<16, MaxMemories)
	}
	return nil
}

// deriveSpaces makes the vector spaces that have vectors and whose names cannot be read: the one
// of memories' own embeddings has a name that is known, another is called by its number. How
// their vectors are compared is not known any more.
func (db *DB) deriveSpaces() error {
	if db.opening.losses.n == 0 && !db.mends {
		return nil
	}
	tx := &Tx{db: db, state: db.stateOf(db.store, 0)}
	tx.state.Lose = func(err error) { db.lost("a vector", err) }
	lower, upper := db.keys().Span(layout.KindVector)
	return (*partTx)(tx).Hop(lower, upper, func(key, value []byte) ([]byte, error) {
		if _, ok := layout.ParseVectorKey(key); !ok {
			return nil, layout.BadKey("vector", key)
		}
		num := binary.BigEndian.Uint16(key[layout.KeyHeader:])
		next := layout.PrefixEnd(db.keys().Vectors(num))
		if db.spaces.Numbered(num) != nil {
			return next, nil
		}
		name := memory.DefaultSpace
		if db.spaces.Named(name) != nil {
			name = fmt.Sprintf("recovered-%d", num)
		}
		s, err := db.spaces.New(num, name, len(value)/4, hnsw.Cosine, "")
		if err != nil {
			return nil, &fault.Error{Kind: fault.ErrCorrupt, What: "read a vector", Why: err.Error()} // the next one may be whole
		}
		db.lost("the name and the metric of a vector space", &fault.Error{Kind: fault.ErrCorrupt, What: "read the vector spaces", Why: fmt.Sprintf("that of number %d is called %s from now on, and compared by cosine", num, name)})
		db.spaces.Add(s)
		return next, nil
	})
}
