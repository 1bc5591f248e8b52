package engine

import (
	"github.com/RoaringBitmap/roaring/v2"

	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/invindex"
)

// cancelEvery is how many documents a loop handles between looks at its context.
const cancelEvery = 1 << 14

// scopeSet intersects the postings of the given fields; nil without any.
func (tx *Tx) scopeSet(s Scope) (*roaring.Bitmap, error) {
	return tx.scopeSetIn(s, 0, invindex.MaxDoc+1)
}

// scopeSetIn is scopeSet for the documents from one up to, but not including, another.
func (tx *Tx) scopeSetIn(s Scope, from, to uint32) (*roaring.Bitmap, error) {
	var set *roaring.Bitmap
	for _, f := range []struct {
		field uint16
		class layout.NameClass
		name  string
	}{{fieldRun, layout.NameRun, s.Run}, {fieldUser, layout.NameUser, s.User}, {fieldAgent, layout.NameAgent, s.Agent}} {
		if f.name == "" {
			continue
		}
		num, ok, err := tx.lookup(layout.Name{Class: f.class, Text: f.name})
		if err != nil {
			return nil, err
		}
		if !ok {
			return roaring.New(), nil
		}
		with, err := tx.index.FindIn(tx.text, invindex.Value{Field: f.field, Key: numberValue(num)}, from, to)
		if err != nil {
			return nil, textError(readingFilters, err)
		}
		set = intersect(set, with)
	}
	return set, nil
}

func intersect(set, with *roaring.Bitmap) *roaring.Bitmap {
	if set == nil {
		return with
	}
	set.And(with)
	return set
}

// newestText is the state of the text index that an Update reads. The lock is
// held.
func (db *DB) newestText() invindex.Snapshot {
	s := db.text.Load().Snapshot()
	s.Docs, s.Reader = db.docs.Mark.Load(), db.store
	return s
}

// withValue is the set of documents with a filter value, visible or not.
func (tx *Tx) withValue(field uint16, key string) (*roaring.Bitmap, error) {
	set, err := tx.index.Find(tx.text, invindex.Value{Field: field, Key: key})
	return set, textError(readingFilters, err)
}

const readingFilters = "read the filter index"
