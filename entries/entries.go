package entries

import (
	"encoding/binary"

	"github.com/seed-7aedc3ff/memdb/internal/codec"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/part"
)

// KV is the key-value store of a database: in a transaction, or with each call as a
// transaction of its own.
type KV struct{ run part.Runner }

// New is a KV whose calls a runner runs. Engine makes them: see its DB.KV and Tx.KV.
func New(r part.Runner) KV { return KV{r} }

// Part is the structure as the database sees it.
type Part struct{}

// Name is "entries".
func (Part) Name() string { return "entries" }

// Kinds are those of entries, of their order by expiry, and of owners that were deleted.
func (Part) Kinds() []part.Kind {
	return []part.Kind{kindEntry, kindExpiry, kindGone}
}

// Ops are those of a put, of deletes, and of the clean-up after them.
func (Part) Ops() []part.Op { return []part.Op{opPut, opDelete, opDeleteAll, opClean} }

// Figures are the number of entries. Expired entries count until they are removed.
func (Part) Figures(v part.View) (map[string]int64, error) {
	n := int64(0)
	err := eachOwner(v, func(owner uint32, _ *Entry) error {
		count, err := countOf(v, owner)
		n += count
		return err
	})
	return map[string]int64{"entries": n}, err
}

// countOf is how many entries an owner has. Without a counter, as in a database of layout 4
// or older, it counts the keys.
func countOf(v part.View, owner uint32) (int64, error) {
	n, known, err := v.Counter(kindEntry, owner)
	if known || err != nil {
		return n, err
	}
	lower, upper := ownerSpan(v, owner)
	err = v.Scan(lower, upper, func(_, _ []byte) error {
		n++
		return nil
	})
	return n, err
}

// ownerSpan is the range of the entries of an owner.
func ownerSpan(v part.View, owner uint32) (lower, upper []byte) {
	lower = entryKey(v, owner, "")
	return lower, entryKey(v, owner+1, "")
}

// count keeps the number of an owner's entries.
func count(t part.Tx, owner uint32, by int64) error {
	_, known, err := t.Counter(kindEntry, owner)
	if err == nil && !known {
		var before int64
		if before, err = countOf(t, owner); err == nil {
			err = t.Count(kindEntry, owner, before)
		}
	}
	if err != nil {
		return err
	}
	return t.Count(kindEntry, owner, by)
}

// stored is an entry that is there, expired or not.
func stored(v part.View, owner uint32, key string) (e Entry, found bool, err error) {
	b, found, err := v.Get(entryKey(v, owner, key))
	if err != nil || !found {
		return Entry{}, false, err
	}
	e, err = decodeEntry(key, b)
	return e, err == nil, err
}

// eachOwner calls visit with the first entry of each owner that can be read, in the order of
// the owners' numbers.
func eachOwner(v part.View, visit func(owner uint32, first *Entry) error) error {
	return v.Hop(v.Key(kindEntry, 0), append(v.Key(kindEntry, 1), 0xff, 0xff, 0xff, 0xff), func(key, value []byte) ([]byte, error) {
		owner, name, known := parseEntryKey(key)
		if !known {
			return nil, layout.BadKey("entry", key)
		}
		e, err := decodeEntry(name, value)
		if err != nil {
			return nil, err // the next one of the owner
		}
		return entryKey(v, owner+1, ""), visit(owner, &e)
	})
}

// logged is what the log says of a change: whose entry, under which key, and what
// follows.
func logged(owner uint32, key string, rest ...[]byte) []byte {
	b := codec.AppendBytes(binary.AppendUvarint(nil, uint64(owner)), key)
	for _, r := range rest {
		b = codec.AppendBytes(b, r)
	}
	return b
}
