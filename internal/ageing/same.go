package ageing

import (
	"context"
	"encoding/binary"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/zeebo/xxh3"

	"github.com/seed-7aedc3ff/memdb/internal/codec"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/policy"
)

// To find what says the same needs no index: of a group that has something new each text is read and
// brought into the form of policy.Saying, and equal forms meet in a table. A table holds 24 bytes a
// memory, of one group at a time.

// samePlan finds what says the same: of those that do, all go into the newest.
func (st *State) samePlan(ctx context.Context, f fresh) (plan []merge, err error) {
	for _, set := range f.groups {
		if set == nil || set.GetCardinality() < 2 {
			continue
		}
		alike, err := st.sayings(ctx, set)
		if err != nil {
			return nil, err
		}
		for _, docs := range alike {
			if len(docs) < 2 || !slices.ContainsFunc(docs, f.docs.Contains) {
				continue
			}
			some, err := st.sameOf(docs)
			if err != nil {
				return nil, err
			}
			plan = append(plan, some...)
		}
	}
	slices.SortFunc(plan, func(a, b merge) int { return compareSeq(&a.from, &b.from) })
	return plan, nil
}

// sayings are the documents of a set by a hash of what they say.
func (st *State) sayings(ctx context.Context, set *roaring.Bitmap) (map[xxh3.Uint128][]uint32, error) {
	by := make(map[xxh3.Uint128][]uint32, set.GetCardinality())
	n := 0
	for it := set.Iterator(); it.HasNext(); {
		if n++; n%state.CancelEvery == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		doc := it.Next()
		rec, err := st.Record(st.Docs.Row(doc).Version)
		if err != nil {
			return nil, err
		}
		if key := sameKey(rec); key != nil {
			h := xxh3.Hash128(key)
			by[h] = append(by[h], doc)
		}
	}
	return by, nil
}

// sameKey is equal for memories of a group that say the same, and nil for one that is not merged.
func sameKey(r *layout.Record) []byte {
	if apart(r) {
		return nil
	}
	form := policy.Saying(r.Text)
	if form == "" {
		return nil
	}
	b := append(make([]byte, 0, len(form)+len(r.Metadata)+64), r.Role, r.Kind)
	for _, s := range append([]string{form, r.Source, r.Name, string(r.Metadata)}, r.Aliases...) {
		b = codec.AppendBytes(b, s)
	}
	return binary.AppendVarint(binary.AppendVarint(b, r.Event), r.Expires)
}

// sameOf merges documents of a group with one hash, after a second look at what they say: who knows
// the hash can make two texts that share it.
func (st *State) sameOf(docs []uint32) (plan []merge, err error) {
	by := map[string][]*candidate{}
	for _, doc := range docs {
		row := st.Docs.Row(doc)
		rec, err := st.Record(row.Version)
		if err != nil {
			return nil, err
		}
		key := string(sameKey(rec))
		by[key] = append(by[key], &candidate{doc: doc, row: row, rec: rec})
	}
	for _, same := range by {
		slices.SortFunc(same, newer)
		for _, from := range same[1:] {
			plan = append(plan, st.planned(from, same[0], "edit", 1))
		}
	}
	return plan, nil
}
