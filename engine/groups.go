package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
)

// Group says by what memories are counted.
type Group string

// The groups.
const (
	GroupUser  Group = "user"
	GroupAgent Group = "agent"
	GroupOwner Group = "owner" // exact pairs of user and agent
	GroupRun   Group = "run"   // runs of exact pairs of user and agent
)

// GroupQuery asks which users, agents, owners or runs have memories, and how many.
type GroupQuery struct {
	Scope
	// AllScopes counts every owner's memories: for administration only.
	AllScopes bool
	// By is what they are counted by; empty is GroupOwner.
	By Group
}

// GroupSize is a group of memories.
type GroupSize struct {
	// Scope has the fields of the group; an empty one of them means none, never any.
	Scope
	Memories int `json:"memories"`
	// First and Last are when the earliest and the latest of them were created.
	First time.Time `json:"first_created_at"`
	Last  time.Time `json:"last_created_at"`
}

const doingGroups = "count memories by group"

// Groups counts the memories of a scope by user, agent, owner or run, in the order of those
// names. It looks at every memory of the scope.
func (m Memories) Groups(ctx context.Context, q GroupQuery) (sizes []GroupSize, err error) {
	if err := checkScope(doingGroups, q.Scope, q.AllScopes); err != nil {
		return nil, err
	}
	switch q.By {
	case "":
		q.By = GroupOwner
	case GroupUser, GroupAgent, GroupOwner, GroupRun:
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

func (tx *Tx) groups(ctx context.Context, q *GroupQuery) ([]GroupSize, error) {
	docs, err := tx.selected(ctx, q.Scope, q.AllScopes, nil)
	if err != nil {
		return nil, err
	}
	counts, looked := map[homeNumbers]*homeCount{}, 0
	for it := docs.Iterator(); it.HasNext(); {
		if looked++; looked%cancelEvery == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		doc := it.Next()
		row := tx.db.docs.Row(doc)
		at := homeNumbers{row.Owner, row.Run}
		if q.By != GroupRun {
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
func (tx *Tx) named(counts map[homeNumbers]*homeCount, by Group) ([]GroupSize, error) {
	groups := map[Scope]*GroupSize{}
	for _, c := range counts {
		rec, err := tx.record(tx.db.docs.Row(c.doc).Version)
		if err != nil {
			return nil, err
		}
		s := rec.Scope
		switch by {
		case GroupUser:
			s = Scope{User: s.User}
		case GroupAgent:
			s = Scope{Agent: s.Agent}
		case GroupOwner:
			s.Run = ""
		case GroupRun:
		}
		first, last := clock.FromMillis(c.first), clock.FromMillis(c.last)
		g := groups[s]
		if g == nil {
			g = &GroupSize{Scope: s, First: first, Last: last}
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
	sizes := make([]GroupSize, 0, len(groups))
	for _, g := range groups {
		sizes = append(sizes, *g)
	}
	slices.SortFunc(sizes, func(a, b GroupSize) int {
		return cmp.Or(cmp.Compare(a.User, b.User), cmp.Compare(a.Agent, b.Agent), cmp.Compare(a.Run, b.Run))
	})
	return sizes, nil
}
