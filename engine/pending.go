package engine

import (
	"context"
	"errors"

	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/store"
)

const doingEmbed = "embed pending memories"

// waiting lists memories that are still to be embedded, with their texts.
func (tx *Tx) waiting(doing string, limit int) (waiting []live, texts []string, err error) {
	lower, upper := tx.keys.Span(layout.KindPending)
	err = kv.Scan(tx.reader, lower, upper, func(key, _ []byte) error {
		_, _, seq, ok := layout.ParsePendingKey(key)
		if !ok {
			return layout.BadKey("pending", key)
		}
		l, alive := tx.at(seq)
		if !alive {
			return nil // of a death range that is not cleaned up yet
		}
		rec, err := tx.record(l.Version)
		if err != nil {
			return err
		}
		waiting, texts = append(waiting, l), append(texts, rec.Text)
		if len(waiting) == limit {
			return kv.ErrStop
		}
		return nil
	})
	if errors.Is(err, kv.ErrStop) {
		err = nil
	}
	return waiting, texts, store.Error(doing, err)
}

// embedded gives memories the vectors of their texts, unless they have changed
// since.
func (tx *Tx) embedded(ctx context.Context, waiting []live, vecs [][]float32) (n int, err error) {
	for i, was := range waiting {
		l, alive := tx.at(was.Seq)
		if !alive || l.Version != was.Version {
			continue
		}
		rec, err := tx.record(l.Version)
		if err != nil {
			return n, err
		}
		p := &prepared{rec: *rec, vectors: map[string][]float32{defaultSpace: vecs[i]}}
		p.rec.Vectors = nil
		p.rec.Flags = p.rec.Flags&^layout.FlagPending | layout.FlagEmbedded
		if err := tx.db.analyse(ctx, p); err != nil {
			return n, err
		}
		if err := tx.room(doingEmbed, p.size()); err != nil {
			if n > 0 {
				return n, nil // the others are for the next call
			}
			return 0, err
		}
		if err := tx.fits(doingEmbed, p.vectors); err != nil {
			return n, err
		}
		if err := tx.replace(p, rec, l); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}
