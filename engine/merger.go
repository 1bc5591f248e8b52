package engine

import (
	"io"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/part"
)

// merger folds access statistics, and the values of parts that merge.
func (db *DB) merger() *pebble.Merger {
	folders := map[byte]part.Folder{}
	for _, p := range db.parts {
		if f, ok := p.(part.Folder); ok {
			for _, k := range p.Kinds() {
				folders[byte(k)] = f
			}
		}
	}
	return &pebble.Merger{Name: layout.StatsMergerName, Merge: func(key, stored []byte) (pebble.ValueMerger, error) {
		f := &sealedFold{key: slices.Clone(key), begin: foldAccess}
		if of := folders[key[0]]; of != nil {
			f.begin = func(key, value []byte) (pebble.ValueMerger, error) {
				return &partFold{of, slices.Clone(key), slices.Clone(value)}, nil
			}
		}
		return f, f.MergeNewer(stored)
	}}
}

// foldAccess begins to fold the access statistics of a memory.
func foldAccess(_, value []byte) (pebble.ValueMerger, error) {
	return layout.NewAccessFold(value), nil
}

// sealedFold folds the values of stored operands, and seals what comes out.
type sealedFold struct {
	key   []byte
	begin pebble.Merge
	of    pebble.ValueMerger // nil before the first value
	// bad is a damaged operand. It is what comes out, so that the damage stays visible: a
	// compaction must not fail.
	bad []byte
}

func (f *sealedFold) MergeNewer(stored []byte) error {
	return f.add(stored, func(v []byte) error { return f.of.MergeNewer(v) })
}

func (f *sealedFold) MergeOlder(stored []byte) error {
	return f.add(stored, func(v []byte) error { return f.of.MergeOlder(v) })
}

func (f *sealedFold) add(stored []byte, merge func([]byte) error) error {
	value, err := layout.Unseal(f.key, stored)
	switch {
	case err != nil:
		f.bad = slices.Clone(stored)
		return nil
	case f.of == nil:
		f.of, err = f.begin(f.key, value)
		return err
	}
	return merge(value)
}

func (f *sealedFold) Finish(includesBase bool) ([]byte, io.Closer, error) {
	if f.bad != nil {
		return f.bad, nil, nil
	}
	value, closer, err := f.of.Finish(includesBase)
	return layout.Seal(f.key, value), closer, err
}

// partFold folds the operands of one key.
type partFold struct {
	part.Folder
	key, value []byte
}

func (f *partFold) MergeNewer(value []byte) error {
	f.value = f.Fold(f.key, f.value, value)
	return nil
}

func (f *partFold) MergeOlder(value []byte) error {
	f.value = f.Fold(f.key, value, f.value)
	return nil
}

func (f *partFold) Finish(bool) ([]byte, io.Closer, error) { return f.value, nil, nil }
