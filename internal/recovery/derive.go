package recovery

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/seed-7aedc3ff/memdb/hnsw"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/store"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// Some keys of the store say what all others are read by: the generations of keys, and the
// numbers that were given out. Where they cannot be read, they follow from the keys that are
// there.

// LoadGenerations reads the table of generations into ks, which a new database gets here. Every key
// depends on it, so a database that has data and no table is damaged.
func (l *Losses) LoadGenerations(s *store.Store, ks *layout.Keys, readOnly bool) error {
	b, closer, err := s.Get(layout.GenerationsKey)
	missing := errors.Is(err, kv.ErrNotFound)
	if missing {
		var any bool
		if any, err = holds(s); any {
			err = cmp.Or(err, error(&fault.Error{Kind: fault.ErrCorrupt, What: "read the generations", Why: "they are missing"}))
		}
	} else if err == nil {
		err = errors.Join(ks.DecodeGenerations(b), closer.Close())
	}
	switch {
	case store.Unreadable(err):
		l.Lost("the generations of keys", err)
		if err := deriveGenerations(s, ks); err != nil {
			return err
		}
	case err != nil || !missing:
		return err
	default:
		ks.FirstGenerations()
	}
	if readOnly {
		return nil
	}
	return s.Set(layout.GenerationsKey, ks.EncodeGenerations(), pebble.Sync)
}

// holds reports whether the store has a key.
func holds(s *store.Store) (bool, error) {
	it, err := s.Iter(nil, nil)
	if err != nil {
		return false, err
	}
	any := it.First()
	return any, errors.Join(it.Error(), it.Close())
}

// deriveGenerations takes the lowest generation that each kind has keys of: while keys are
// written anew, the next generation lies beside it and is not whole.
func deriveGenerations(s *store.Store, ks *layout.Keys) error {
	ks.FirstGenerations()
	for _, kind := range ks.Kinds() {
		it, err := s.Iter([]byte{kind}, []byte{kind + 1})
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
	return nil
}

// mostLost is how many commits, memories and names a block of the log that cannot be read may
// have told of. Numbers are skipped, which nobody misses.
const mostLost = 1 << 16

// Log is what the newest record of the log says: the LSN, and the numbers that were given out.
type Log struct {
	LSN  uint64
	Next layout.Counters
}

// DeriveLog finds what numbers were given out from what has them. scan visits the keys of a kind that can be read;
// maxDocs bounds the numbers of documents.
func (w *Log) DeriveLog(maxDocs uint32, scan func(kind byte, visit func(key, value []byte) error) error) error {
	for _, of := range []struct {
		kind  byte
		visit func(key, value []byte) error
	}{
		{layout.KindLog, func(key, value []byte) error { // first: its numbers rise
			if lsn, ok := layout.ParseLSNKey(key); ok {
				w.LSN = max(w.LSN, lsn)
			}
			if next, err := layout.DecodeLogHead(value); err == nil && next.Doc <= maxDocs {
				w.Next = next
			}
			return nil
		}},
		{layout.KindRecord, func(key, _ []byte) error {
			v, _ := layout.ParseRecordKey(key)
			w.LSN, w.Next.Seq = max(w.LSN, v.Born), max(w.Next.Seq, v.Seq)
			return nil
		}},
		{layout.KindHistory, func(key, _ []byte) error {
			lsn, _, _ := layout.ParseHistoryKey(key)
			w.LSN = max(w.LSN, lsn)
			return nil
		}},
		{layout.KindName, func(key, value []byte) error {
			if num, _, _, err := layout.DecodeName(key, value); err == nil && len(key) > layout.KeyHeader && key[layout.KeyHeader] < byte(layout.NameClasses) {
				n := &w.Next.Names[key[layout.KeyHeader]]
				*n = max(*n, num)
			}
			return nil
		}},
		{layout.KindForward, func(key, _ []byte) error { return w.raiseDoc(maxDocs, key, 1, layout.ParseDocKey) }},
		{layout.KindTombstone, func(key, _ []byte) error { return w.raiseDoc(maxDocs, key, 1, layout.ParseDocKey) }},
		{layout.KindRows, func(key, _ []byte) error { return w.raiseDoc(maxDocs, key, layout.RowsOfPage, layout.ParseRowsKey) }},
	} {
		if err := scan(of.kind, of.visit); err != nil {
			return err
		}
	}
	w.LSN, w.Next.Seq = w.LSN+mostLost, w.Next.Seq+mostLost
	for class := layout.NameUser; class < layout.NameSpace; class++ {
		w.Next.Names[class] += mostLost
	}
	w.Next.Names[layout.NameSpace]++
	return nil
}

// raiseDoc takes over that documents have numbers: the next ones begin a chunk, which nothing
// that cannot be read has a part in.
func (w *Log) raiseDoc(maxDocs uint32, key []byte, docs uint32, parse func([]byte) (uint32, bool)) error {
	doc, ok := parse(key)
	if last := uint64(doc) + uint64(docs) - 1; ok && last >= uint64(w.Next.Doc) && last < uint64(maxDocs) {
		w.Next.Doc = min((uint32(last>>16)+1)<<16, maxDocs)
	}
	return nil
}

// DeriveSpaces makes the vector spaces that have vectors and whose names cannot be read: the one
// of memories' own embeddings has a name that is known, another is called by its number. How
// their vectors are compared is not known any more.
func (l *Losses) DeriveSpaces(st *State) error {
	if l.n == 0 && st.Name == nil {
		return nil
	}
	st.Lose = func(err error) { l.Lost("a vector", err) }
	lower, upper := st.Keys.Span(layout.KindVector)
	return st.Part.Hop(lower, upper, func(key, value []byte) ([]byte, error) {
		if _, ok := layout.ParseVectorKey(key); !ok {
			return nil, layout.BadKey("vector", key)
		}
		num := binary.BigEndian.Uint16(key[layout.KeyHeader:])
		next := layout.PrefixEnd(st.Keys.Vectors(num))
		if st.Spaces.Numbered(num) != nil {
			return next, nil
		}
		name := memory.DefaultSpace
		if st.Spaces.Named(name) != nil {
			name = fmt.Sprintf("recovered-%d", num)
		}
		s, err := st.Spaces.New(num, name, len(value)/4, hnsw.Cosine, "")
		if err != nil {
			return nil, &fault.Error{Kind: fault.ErrCorrupt, What: "read a vector", Why: err.Error()} // the next one may be whole
		}
		l.Lost("the name and the metric of a vector space", &fault.Error{Kind: fault.ErrCorrupt, What: "read the vector spaces", Why: fmt.Sprintf("that of number %d is called %s from now on, and compared by cosine", num, name)})
		st.Spaces.Add(s)
		return next, nil
	})
}
