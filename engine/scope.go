package engine

import (
	"context"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/seed-7aedc3ff/memdb/invindex"
)

// cancelEvery is how many documents a loop handles between looks at its context.
const cancelEvery = 1 << 14

// inScope is the set of documents that are visible and in a scope, or in any
// where all is set.
func (tx *Tx) inScope(ctx context.Context, s Scope, all bool) (*roaring.Bitmap, error) {
	set, err := tx.scopeSet(s)
	if err != nil {
		return nil, err
	}
	if set == nil {
		if !all {
			return roaring.New(), nil
		}
		set = roaring.New()
		set.AddRange(0, uint64(tx.mark))
	}
	return tx.onlyVisible(ctx, set)
}

// scopeSet intersects the postings of the given fields; nil without any.
func (tx *Tx) scopeSet(s Scope) (*roaring.Bitmap, error) {
	var set *roaring.Bitmap
	for _, f := range []struct {
		field uint16
		class nameClass
		name  string
	}{{fieldRun, nameRun, s.Run}, {fieldUser, nameUser, s.User}, {fieldAgent, nameAgent, s.Agent}} {
		if f.name == "" {
			continue
		}
		num, ok, err := tx.lookup(nameKey{f.class, f.name})
		if err != nil {
			return nil, err
		}
		if !ok {
			return roaring.New(), nil
		}
		set = intersect(set, tx.db.text.Lookup(tx.snapshot(), invindex.Value{Field: f.field, Key: numberValue(num)}))
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

func (tx *Tx) snapshot() invindex.Snapshot { return invindex.Snapshot{Docs: tx.mark} }

// onlyVisible removes what is not born, dead or expired.
func (tx *Tx) onlyVisible(ctx context.Context, set *roaring.Bitmap) (*roaring.Bitmap, error) {
	var out []uint32
	n := 0
	it := set.Iterator()
	for it.HasNext() {
		doc := it.Next()
		if n++; n%cancelEvery == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if r := tx.db.docs.row(doc); !r.visible(tx.lsn) || r.expires != 0 && r.expires <= tx.now {
			out = append(out, doc)
		}
	}
	if len(out) > 0 {
		set.AndNot(roaring.BitmapOf(out...))
	}
	return set, nil
}
