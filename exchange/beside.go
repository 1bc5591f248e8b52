package exchange

import (
	"context"

	"github.com/seed-7aedc3ff/memdb/engine"
)

// line takes a line about something that is no memory.
func (b *batch) line(ctx context.Context, at LineError, l engine.Line, size int) error {
	if l.Owner() == (engine.Owner{}) {
		l.SetOwner(b.opts.Scope.Owner())
	}
	if err := b.gone(ctx); err != nil {
		return err
	}
	if err := b.make(ctx, size, len(b.lives) > 0); err != nil {
		return err
	}
	b.lines, b.linesAt = append(b.lines, l), append(b.linesAt, at)
	return b.took(ctx, size)
}

// put stores lines in one commit. What is there and the same is left alone; what differs
// is an error, or replaced under Upsert. Under Strict the first error ends it, after a
// commit of those before.
func (b *batch) put(ctx context.Context, lines []engine.Line, at []LineError) error {
	stored := make([]engine.Stored, 0, len(lines))
	err := b.db.Update(ctx, func(tx *engine.Tx) error {
		for _, l := range lines {
			s, err := tx.StoreLine(l, b.opts.Upsert)
			if err != nil && !isOfOneMemory(err) {
				return err
			}
			s.Err = err
			stored = append(stored, s)
			if err != nil && b.opts.Strict {
				break
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i, s := range stored {
		if err := b.count(at[i], s); err != nil {
			return err
		}
	}
	return nil
}
