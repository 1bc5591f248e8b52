package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/selection"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/memory"
)

const doingGroups = "count memories by group"

// Groups counts the memories of a scope by user, agent, owner or run, in the order of those
// names. It looks at every memory of the scope.
func (m Memories) Groups(ctx context.Context, q memory.GroupQuery) (sizes []memory.GroupSize, err error) {
	if err := memory.CheckScope(doingGroups, q.Scope, q.AllScopes); err != nil {
		return nil, err
	}
	switch q.By {
	case "":
		q.By = memory.GroupOwner
	case memory.GroupUser, memory.GroupAgent, memory.GroupOwner, memory.GroupRun:
	default:
		return nil, fault.Invalid(doingGroups, fmt.Sprintf("unknown group %q", valid.Short(string(q.By))), "use user, agent, owner or run")
	}
	err = m.view(ctx, doingGroups, func(tx *Tx) error {
		if tx.writes != nil {
			if err := tx.materialise(); err != nil {
				return tx.breaks(err)
			}
		}
		sizes, err = tx.groups(ctx, &q)
		return err
	})
	return sizes, err
}

// homeNumbers say where the memories of a row belong.
type homeNumbers struct{ owner, run uint32 }

type homeCount struct {
	n           int
	first, last int64
	doc         uint32 // one of them
}

func (tx *Tx) groups(ctx context.Context, q *memory.GroupQuery) ([]memory.GroupSize, error) {
	docs, err := selection.Selected(ctx, &tx.state, q.Scope, q.AllScopes, nil)
	if err != nil {
		return nil, err
	}
	counts, looked := map[homeNumbers]*homeCount{}, 0
	for it := docs.Iterator(); it.HasNext(); {
		if looked++; looked%state.CancelEvery == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		doc := it.Next()
		row := tx.db.tables.Docs.Row(doc)
		at := homeNumbers{row.Owner, row.Run}
		if q.By != memory.GroupRun {
			at.run = 0
		}
		c := counts[at]
		if c == nil {
			c = &homeCount{first: row.Created, last: row.Created, doc: doc}
			counts[at] = c
		}
		c.n++
		c.first, c.last = min(c.first, row.Created), max(c.last, row.Created)
	}
	return tx.named(counts, q.By)
}

// named gives counted groups their names, which a record of each has.
func (tx *Tx) named(counts map[homeNumbers]*homeCount, by memory.Group) ([]memory.GroupSize, error) {
	groups := map[memory.Scope]*memory.GroupSize{}
	for _, c := range counts {
		rec, err := tx.state.Record(tx.db.tables.Docs.Row(c.doc).Version)
		if err != nil {
			return nil, err
		}
		s := rec.Scope
		switch by {
		case memory.GroupUser:
			s = memory.Scope{User: s.User}
		case memory.GroupAgent:
			s = memory.Scope{Agent: s.Agent}
		case memory.GroupOwner:
			s.Run = ""
		case memory.GroupRun:
		}
		first, last := clock.FromMillis(c.first), clock.FromMillis(c.last)
		g := groups[s]
		if g == nil {
			g = &memory.GroupSize{Scope: s, First: first, Last: last}
			groups[s] = g
		}
		g.Memories += c.n
		if first.Before(g.First) {
			g.First = first
		}
		if last.After(g.Last) {
			g.Last = last
		}
	}
	sizes := make([]memory.GroupSize, 0, len(groups))
	for _, g := range groups {
		sizes = append(sizes, *g)
	}
	slices.SortFunc(sizes, func(a, b memory.GroupSize) int {
		return cmp.Or(cmp.Compare(a.User, b.User), cmp.Compare(a.Agent, b.Agent), cmp.Compare(a.Run, b.Run))
	})
	return sizes, nil
}
