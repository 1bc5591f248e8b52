package entries

import (
	"bytes"
	"context"
	"encoding/binary"
	"maps"
	"slices"

	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
)

// The entries of an owner are one range of keys, which goes at once. Its keys in the index
// by expiry lie between those of other owners. They stay, as keys without an entry, and a
// key of kindGone asks the worker to look for them; it goes when the worker has been
// through the index.

const doingSweep = "clean up after an owner of entries"

// DeleteOwner deletes the entries of an owner.
func (Part) DeleteOwner(t part.Tx, owner uint32) (map[string]int64, error) {
	n, err := countOf(t, owner)
	if err != nil || n == 0 {
		return map[string]int64{"entries": 0}, err
	}
	if err := t.NeedToFree("delete the entries of an owner", valid.MaxID); err != nil {
		return nil, err
	}
	lower, upper := ownerSpan(t, owner)
	if err := t.DeleteRange(lower, upper); err != nil {
		return nil, err
	}
	if err := count(t, owner, -n); err != nil {
		return nil, err
	}
	if err := t.Set(goneKey(t, owner), binary.BigEndian.AppendUint64(nil, t.LSN())); err != nil {
		return nil, err
	}
	t.Log(opDeleteAll, binary.AppendUvarint(nil, uint64(owner)))
	return map[string]int64{"entries": n}, nil
}

// goneOwners are the owners that the worker is to clean up after, each with the LSN of its
// deletion.
func goneOwners(v part.View) (map[uint32]uint64, error) {
	owners := map[uint32]uint64{}
	lower := v.Key(kindGone, 0)
	err := v.Scan(lower, layout.PrefixEnd(lower), func(key, value []byte) error {
		owner, ok := parseGoneKey(key)
		if !ok || len(value) != 8 {
			return layout.BadKey("deleted owner", key)
		}
		owners[owner] = binary.BigEndian.Uint64(value)
		return nil
	})
	return owners, err
}

// sweep removes the keys by expiry that deleted owners have left, a page of the index in
// each commit.
func sweep(ctx context.Context, r part.Runner) error {
	var gone map[uint32]uint64
	err := r.View(ctx, doingSweep, func(v part.View) (err error) {
		gone, err = goneOwners(v)
		return err
	})
	if err != nil || len(gone) == 0 {
		return err
	}
	for after := []byte(nil); ; {
		var strays []due
		err := r.View(ctx, doingSweep, func(v part.View) (err error) {
			strays, after, err = straysOf(v, gone, after)
			return err
		})
		if err == nil && len(strays) > 0 {
			err = r.Update(ctx, doingSweep, func(t part.Tx) error { return removeDue(t, strays) })
		}
		if err != nil {
			return err
		}
		if after == nil {
			break
		}
	}
	return r.Update(ctx, doingSweep, func(t part.Tx) error { return dropGone(t, gone) })
}

// dropGone says that nothing is left of some owners. One that was deleted again since is
// left for the next sweep.
func dropGone(t part.Tx, swept map[uint32]uint64) error {
	gone, err := goneOwners(t)
	if err != nil {
		return err
	}
	for _, owner := range slices.Sorted(maps.Keys(swept)) {
		if gone[owner] != swept[owner] {
			continue
		}
		if err := t.NeedToFree(doingSweep, len(goneKey(t, owner))); err != nil {
			return err
		}
		if err := t.Delete(goneKey(t, owner)); err != nil {
			return err
		}
		t.Log(opClean, binary.AppendUvarint(nil, uint64(owner)))
	}
	return nil
}

// straysOf reads a page of the index by expiry after a key, and returns those keys of some
// owners that have no entry, and where the next page begins: nil after the last one.
func straysOf(v part.View, owners map[uint32]uint64, after []byte) (strays []due, next []byte, err error) {
	lower := v.Key(kindExpiry, 0)
	upper := layout.PrefixEnd(lower)
	if after != nil {
		lower = append(bytes.Clone(after), 0)
	}
	read := 0
	err = v.Scan(lower, upper, func(key, _ []byte) error {
		d, err := parseDue(key)
		if err != nil {
			return err
		}
		if owners[d.owner] != 0 {
			e, found, err := stored(v, d.owner, d.key)
			if err != nil {
				return err
			}
			if !found || !d.of(&e) {
				strays = append(strays, d)
			}
		}
		if read++; read == expireBatch {
			next = bytes.Clone(key)
			return kv.ErrStop
		}
		return nil
	})
	return strays, next, err
}
