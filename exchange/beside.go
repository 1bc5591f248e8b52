package exchange

import (
	"cmp"
	"context"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// typeAgent is the type of a line with the manifest of an agent.
const typeAgent = "agent"

// line takes a line about something that is no memory.
func (b *batch) line(ctx context.Context, at LineError, l engine.Line, size int) error {
	owner := l.Owner()
	of := b.opts.Place(owner.Scope()).Owner()
	if l.Type() == typeAgent { // which is nobody's
		of = scope.Owner{Agent: cmp.Or(of.Agent, owner.Agent)}
	}
	if of != owner || b.opts.IntoAgent != "" {
		l.SetOwner(of)
	}
	b.kind(l.Type(), of, func() any { return l })
	b.occurs(l)
	if err := b.gone(ctx); err != nil {
		return err
	}
	if err := b.make(ctx, size, len(b.lives) > 0); err != nil {
		return err
	}
	b.agents = b.agents || l.Type() == typeAgent
	b.lines, b.linesAt = append(b.lines, l), append(b.linesAt, at)
	return b.took(ctx, size)
}

// put stores lines in one commit. What is there and the same is left alone; what differs
// is an error, or replaced under Upsert. Under Strict the first error ends it, after a
// commit of those before.
func (b *batch) put(ctx context.Context, lines []engine.Line, at []LineError) error {
	stored := make([]memory.Stored, 0, len(lines))
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
		if err := b.count(at[i], lines[i].Type(), s); err != nil {
			return err
		}
		if owner := lines[i].Owner(); s.Err == nil && owner != (scope.Owner{}) {
			if lines[i].Type() == typeAgent {
				owner.User = b.opts.Scope.User
			}
			b.opts.elsewhere(b.report.Elsewhere, owner.Scope())
		}
	}
	return nil
}
