package shipping

import (
	"context"
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/store"
	"github.com/seed-7aedc3ff/memdb/wal"
)

// partBytes is about the most that one part of a base has.
const partBytes = 1 << 20

// Base writes the whole of a snapshot in frames.
type Base struct {
	store *store.Store
	write func(*wal.Frame) error
	frame wal.Frame
	batch *pebble.Batch
}

// NewBase prepares a base of the state behind the batch of a number, whose newest commit is given.
func NewBase(s *store.Store, number uint64, newest store.Commit, write func(*wal.Frame) error) *Base {
	return &Base{
		store: s, write: write,
		frame: wal.Frame{Timeline: Timeline(s), Kind: wal.Base, First: number, Since: newest.LSN, LSN: newest.LSN, Time: newest.Time},
	}
}

// Write writes the parts of the base and its end, and returns the end.
func (b *Base) Write(ctx context.Context, snap store.Snapshot) (end wal.Frame, err error) {
	b.batch = b.store.NewBatch()
	defer func() { err = errors.Join(err, b.batch.Close()) }()
	it, err := snap.Iter(nil, nil)
	if err != nil {
		return b.frame, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for ok := it.First(); ok; ok = it.Next() {
		if string(it.Key()) == string(layout.NumberKey) {
			continue
		}
		value, err := it.ValueAndErr()
		if err != nil {
			return b.frame, err
		}
		if err := b.batch.Set(it.Key(), value, nil); err != nil {
			return b.frame, err
		}
		if b.batch.Len() >= partBytes {
			if err := b.part(ctx); err != nil {
				return b.frame, err
			}
		}
	}
	if err := it.Error(); err != nil {
		return b.frame, store.Error("read the database for a base of the archive", err)
	}
	number := store.EncodeNumber(b.frame.First, b.store.Timeline())
	if err := b.batch.Set(layout.NumberKey, number, nil); err != nil {
		return b.frame, err
	}
	if err := b.part(ctx); err != nil {
		return b.frame, err
	}
	b.frame.Kind, b.frame.Batches = wal.BaseEnd, nil
	return b.frame, b.write(&b.frame)
}

// part writes a part of the base.
func (b *Base) part(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	b.frame.Batches = [][]byte{b.batch.Repr()}
	if err := b.write(&b.frame); err != nil {
		return err
	}
	b.frame.Last++
	b.batch.Reset()
	return nil
}
