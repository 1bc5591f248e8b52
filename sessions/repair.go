package sessions

import (
	"context"
	"errors"
	"math"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// Repaired is what Repair has found and done.
type Repaired struct {
	// Repaired: something was fixed, or in a dry run would be.
	Repaired   bool        `json:"repaired"`
	TotalFixes int         `json:"total_fixes"`
	Stats      RepairStats `json:"stats"`
}

// repairTries is how often a repair is begun anew where the session was changed meanwhile.
const repairTries = 4

// Repair mends what a session holds: see PlanRepair. A dry run changes nothing. The messages
// from before are kept until the next save, repair or delete, see UndoRepair. A repair that
// finds nothing to fix changes nothing. ErrNotFound where there is no such session. It holds
// the session in memory, and a long one is written aside and shown by one commit.
func (s Sessions) Repair(ctx context.Context, o scope.Owner, name string, dryRun bool) (Repaired, error) {
	doing := named("repair", name)
	if err := checkName(doing, o, name); err != nil {
		return Repaired{}, err
	}
	var err error
	for range repairTries {
		var out Repaired
		w := &rewriting{doing: doing, owner: o, name: name, keep: true}
		if out, err = s.plan(ctx, doing, w); err != nil || dryRun || !out.Repaired {
			return out, err
		}
		if err = w.run(ctx, s.run); err == nil {
			return out, nil
		}
		if !errors.Is(err, fault.ErrConflict) {
			break
		}
	}
	return Repaired{}, err
}

// plan reads a session, and fills in what is to be written.
func (s Sessions) plan(ctx context.Context, doing string, w *rewriting) (out Repaired, err error) {
	err = s.run.View(ctx, doing, func(v part.View) error {
		p, h, err := find(v, doing, w.owner, w.name)
		if err != nil {
			return err
		}
		var items []Item
		err = eachItem(v, p, h, func(i Item) error {
			items = append(items, i)
			return ctx.Err()
		})
		if err != nil {
			return err
		}
		for _, i := range items {
			if i.Message == nil {
				continue
			}
			if err := resolve(v, h.of, p, i.Message); err != nil {
				return err
			}
		}
		version := h.version
		w.ifVersion = &version
		w.items, out.Stats = PlanRepair(items)
		out.TotalFixes = out.Stats.Fixes()
		out.Repaired = out.TotalFixes > 0
		return nil
	})
	return out, err
}

// UndoRepair has a session show again what it held before the last repair. ErrNotFound
// where there is none to undo; ErrConflict where something was appended since, which would
// be lost.
func (s Sessions) UndoRepair(ctx context.Context, o scope.Owner, name string) error {
	doing := named("undo the repair of", name)
	if err := checkName(doing, o, name); err != nil {
		return err
	}
	return s.run.Append(ctx, doing, 2*stateBytes+MaxMetadata, func(t part.Tx) error {
		if err := t.Need(doing, 2*stateBytes+MaxMetadata); err != nil {
			return err
		}
		c, err := beginKnown(t, doing, o, name)
		if err != nil {
			return err
		}
		if c.undo.content == noContent {
			return &fault.Error{Kind: fault.ErrNotFound, What: doing, Why: "no repair was made, or the session was saved since", Do: "there is nothing to undo"}
		}
		if c.next != c.undo.repaired || c.markers != c.undo.markers {
			return &fault.Error{Kind: fault.ErrConflict, What: doing, Why: "it was appended to or compacted since", Do: "read it, undo nothing, or save what it should hold"}
		}
		metadata, err := c.metadata()
		if err != nil {
			return err
		}
		if err := c.later(c.content, math.MaxUint32); err != nil {
			return err
		}
		c.content, c.first, c.next, c.undo = c.undo.content, c.undo.first, c.undo.next, undo{}
		c.updated = max(c.updated, c.Now())
		return c.saveState(metadata)
	})
}
