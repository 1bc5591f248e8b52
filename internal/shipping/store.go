package shipping

import (
	"errors"

	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/store"
	"github.com/seed-7aedc3ff/memdb/wal"
)

// Keys are the keys of a database with a hash seed and kinds of keys beside those of memories, in the generations that a
// state has.
func Keys(r kv.Reader, seed uint64, beside ...byte) (*layout.Keys, error) {
	keys, err := layout.NewKeys(seed, beside...)
	if err != nil {
		return nil, err
	}
	table, closer, err := r.Get(layout.GenerationsKey)
	if err != nil {
		return nil, store.Error("read the generations", err)
	}
	return keys, errors.Join(keys.DecodeGenerations(table), closer.Close())
}

// Newest is the newest commit of a state, the zero commit if it has none.
func Newest(keys *layout.Keys, r kv.Reader) (c store.Commit, err error) {
	it, err := r.Iter(keys.Span(layout.KindLog))
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	if !it.Last() {
		return c, it.Error()
	}
	value, err := it.ValueAndErr()
	if err != nil {
		return c, err
	}
	c.LSN, _ = layout.ParseLSNKey(it.Key())
	c.Time = layout.LoggedTime(value)
	return c, nil
}

// Mark is the mark of a replicated log that a state has, the zero mark if it has none.
func Mark(r kv.Reader) (layout.LogMark, error) {
	b, closer, err := r.Get(layout.LogMarkKey)
	if errors.Is(err, kv.ErrNotFound) {
		return layout.LogMark{}, nil
	}
	if err != nil {
		return layout.LogMark{}, store.Error("read how far the log was applied", err)
	}
	m, err := layout.DecodeLogMark(b)
	return m, errors.Join(err, closer.Close())
}

// Timeline is the timeline of a store as its files have it.
func Timeline(s *store.Store) wal.Timeline { return wal.Timeline(s.Timeline()) }
