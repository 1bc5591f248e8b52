package graph

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// Path is a way from one entity to another of the fewest relations.
type Path struct {
	// Hops are its relations in their order; those that are gone along backwards have a
	// type of "inverse:T". There are none from an entity to itself.
	Hops []Hop
	// Found: there is a way.
	Found bool
	Plan  Plan
}

// came is how a walk has come to an entity: from another, along a relation.
type came struct {
	from, typ uint32
	dir       Direction
}

// Path returns a shortest way between two entities along relations in both directions. Of
// several it is the one that a breadth-first query discovers first.
func (g Graph) Path(ctx context.Context, o scope.Owner, from, to string, s State) (p Path, err error) {
	doing := fmt.Sprintf("find a path from %q to %q", valid.Short(from), valid.Short(to))
	for _, id := range []string{from, to} {
		if err := checkID(doing, "entity ID", id); err != nil {
			return Path{}, err
		}
	}
	plan, err := g.walk(ctx, doing, o, s, func(w *walk) error {
		start, err := w.start(from)
		if err != nil {
			return err
		}
		end, err := w.start(to)
		if err != nil || start == 0 || end == 0 {
			return err
		}
		back, err := w.search(start, end)
		if err != nil {
			return err
		}
		if _, p.Found = back[end]; p.Found {
			p.Hops, err = w.hops(back, start, end)
		}
		return err
	})
	if err != nil {
		return Path{}, err
	}
	p.Plan = plan
	return p, nil
}

// search is how each entity is reached from one, until another is.
func (w *walk) search(start, end uint32) (map[uint32]came, error) {
	back := map[uint32]came{start: {}}
	if err := w.node(); err != nil {
		return nil, err
	}
	for queue := []uint32{start}; len(queue) > 0 && back[end] == (came{}) && start != end; queue = queue[1:] {
		for _, dir := range []Direction{Out, In} {
			edges, err := w.next(queue[0], dir, 0)
			if err != nil {
				return nil, err
			}
			for _, e := range edges {
				if _, known := back[e.other]; known {
					continue
				}
				_, there, err := w.is(e.other)
				if err != nil {
					return nil, err
				}
				if !there {
					continue
				}
				if err := w.node(); err != nil {
					return nil, err
				}
				back[e.other] = came{queue[0], e.typ, dir}
				queue = append(queue, e.other)
			}
		}
	}
	return back, nil
}

// hops is the way back from the end, turned.
func (w *walk) hops(back map[uint32]came, start, end uint32) (all []Hop, err error) {
	for at := end; at != start; at = back[at].from {
		c := back[at]
		h := Hop{}
		if h.From, err = w.id(c.from); err != nil {
			return nil, err
		}
		if h.To, err = w.id(at); err != nil {
			return nil, err
		}
		if h.Type, err = w.reader.typeName(classRelation, c.typ); err != nil {
			return nil, err
		}
		if c.dir == In {
			h.Type = InversePrefix + h.Type
		}
		all = append(all, h)
	}
	slices.Reverse(all)
	return all, nil
}

// Ranked is an entity with its rank.
type Ranked struct {
	// ID is the entity's, Rank its share of all rank.
	ID   string
	Rank float64
}

// RankOptions changes what Rank does.
type RankOptions struct {
	// Limit bounds the answer. 0: 10.
	Limit int
	State
}

// Ranks is the answer of Rank.
type Ranks struct {
	// Ranked are the entities, those of the highest rank first; Plan says whether all was looked at.
	Ranked []Ranked
	Plan   Plan
}

const (
	// damping is the share of a rank that goes on to the neighbours; the rest goes back to
	// the seeds.
	damping = 0.85
	// rankRounds bounds the rounds of a ranking, and rankChange ends it: the sum of what a
	// round has changed.
	rankRounds = 50
	rankChange = 1e-6
	// usualRanks is how many entities Rank returns where the caller names no limit.
	usualRanks = 10
)

// Rank returns the entities that lie the nearest to some, those too, by personalised
// PageRank along relations in both directions (Page et al. 1999, The PageRank Citation
// Ranking, section 6): how often somebody is at an entity who starts at one of the seeds,
// goes along relations by chance, and begins anew in 15 of 100 steps. The ranks of all
// entities add up to 1. Seeds that are not there count for nothing.
func (g Graph) Rank(ctx context.Context, o scope.Owner, seeds []string, opts RankOptions) (Ranks, error) {
	const doing = "rank entities"
	if len(seeds) == 0 || opts.Limit < 0 {
		return Ranks{}, fault.Invalid(doing, "it has no seed, or a negative limit", "name the entities to begin with")
	}
	var all []Ranked
	plan, err := g.walk(ctx, doing, o, opts.State, func(w *walk) error {
		var from []uint32
		for _, id := range seeds {
			num, err := w.start(id)
			if err != nil {
				return err
			}
			if num != 0 && !slices.Contains(from, num) {
				from = append(from, num)
			}
		}
		if len(from) == 0 {
			return nil
		}
		r := &ranking{walk: w, seeds: from}
		ranks, err := r.run()
		if err != nil {
			return err
		}
		if all, err = w.best(ranks, cmp.Or(opts.Limit, usualRanks)); err == nil && r.cut {
			err = kv.ErrStop
		}
		return err
	})
	if err != nil {
		return Ranks{}, err
	}
	return Ranks{all, plan}, nil
}

// ranking makes the ranks of the entities that can be reached from some. It reads the relations
// of an entity once, in the round in which the entity first has rank to pass on.
type ranking struct {
	*walk
	seeds []uint32
	// order is the entities as they were discovered, so that sums are always made in one
	// order, and at is where each is in it. now and next are their ranks before and after a round.
	order     []uint32
	at        map[uint32]int
	now, next []float64
	// around has the neighbours of an entity, by places in order, and edges those of all.
	around []neighbourhood
	edges  []int
	cut    bool // a limit has ended the reading: what is not read passes its rank back to the seeds
}

// neighbourhood is where the neighbours of an entity lie.
type neighbourhood struct {
	from, to int
	read     bool
}

// run returns the ranks by number. Where a limit or the deadline ends the reading, they are those
// among what was read.
func (r *ranking) run() (map[uint32]float64, error) {
	r.at = map[uint32]int{}
	for _, s := range r.seeds {
		r.discover(s)
	}
	for i := range r.seeds {
		r.now[i] = 1 / float64(len(r.seeds))
	}
	for range rankRounds {
		change, err := r.round()
		if err != nil {
			return nil, err
		}
		if change < rankChange || r.plan.Limit == "time" {
			break
		}
	}
	ranks := make(map[uint32]float64, len(r.order))
	for i, num := range r.order {
		ranks[num] = r.now[i]
	}
	return ranks, nil
}

// discover is the place of an entity, a new one for one that was not seen.
func (r *ranking) discover(num uint32) int {
	i, known := r.at[num]
	if !known {
		i = len(r.order)
		r.at[num] = i
		r.order = append(r.order, num)
		r.now, r.next = append(r.now, 0), append(r.next, 0)
		r.around = append(r.around, neighbourhood{})
	}
	return i
}

// round passes the ranks on once, and returns the sum of what that has changed.
func (r *ranking) round() (change float64, err error) {
	clear(r.next)
	begin := func(share float64) {
		for i := range r.seeds {
			r.next[i] += share / float64(len(r.seeds))
		}
	}
	begin(1 - damping)
	for i := 0; i < len(r.order); i++ { // it grows
		share := damping * r.now[i]
		if share == 0 {
			continue
		}
		if !r.around[i].read && !r.cut {
			if err := r.read(i); err != nil {
				return 0, err
			}
		}
		around := r.edges[r.around[i].from:r.around[i].to]
		if len(around) == 0 { // it begins anew
			begin(share)
			continue
		}
		for _, to := range around {
			r.next[to] += share / float64(len(around))
		}
		if err := r.went(len(around)); err != nil {
			return 0, err
		}
	}
	for i := range r.order {
		change += math.Abs(r.next[i] - r.now[i])
	}
	r.now, r.next = r.next, r.now
	return change, nil
}

// read reads the neighbours of an entity. One that a limit cuts off has those up to it.
func (r *ranking) read(i int) error {
	all, stopped := r.walk.around(r.order[i])
	if err := r.ended(stopped); err != nil {
		return err
	}
	n := neighbourhood{from: len(r.edges), read: true}
	var full error // no further entity may be looked at
	for _, num := range all {
		_, known := r.at[num]
		if !known && full == nil {
			full = r.node()
		}
		if known || full == nil {
			r.edges = append(r.edges, r.discover(num))
		}
	}
	n.to = len(r.edges)
	r.around[i] = n
	return r.ended(full)
}

// went looks at the deadline now and then.
func (r *ranking) went(edges int) error { return r.ended(r.work(edges)) }

// ended notes that a limit has ended the reading.
func (r *ranking) ended(err error) error {
	if errors.Is(err, kv.ErrStop) {
		r.cut, err = true, nil
	}
	return err
}

// around are the entities at the other ends of an entity's relations, one for each: those up to
// a limit, with kv.ErrStop.
func (w *walk) around(num uint32) (all []uint32, err error) {
	for _, dir := range []Direction{Out, In} {
		edges, stopped := w.next(num, dir, 0)
		for _, e := range edges {
			_, there, err := w.is(e.other)
			if err != nil {
				return nil, err
			}
			if there {
				all = append(all, e.other)
			}
		}
		if stopped != nil {
			return all, stopped
		}
	}
	return all, nil
}

// best are the highest ranks, equal ones by the age of the entities.
func (w *walk) best(ranks map[uint32]float64, limit int) (all []Ranked, err error) {
	nums := make([]uint32, 0, len(ranks))
	for num := range ranks {
		nums = append(nums, num)
	}
	slices.SortFunc(nums, func(a, b uint32) int { return cmp.Or(cmp.Compare(ranks[b], ranks[a]), cmp.Compare(a, b)) })
	for _, num := range nums[:min(limit, len(nums))] {
		id, err := w.id(num)
		if err != nil {
			return nil, err
		}
		all = append(all, Ranked{id, ranks[num]})
	}
	return all, nil
}

// Component is a set of entities that are connected with each other and with no other.
type Component struct {
	// Size is how many entities it has.
	Size int
	// First is the oldest entity of it.
	First string
}

// Components is the answer of Components.
type Components struct {
	Components []Component // the largest first, then the oldest
	Plan       Plan
}

// Components returns the parts of the graph that no relation connects. Where a limit ends that,
// the size of the last part is how much of it was found.
func (g Graph) Components(ctx context.Context, o scope.Owner, s State) (Components, error) {
	var all []Component
	plan, err := g.walk(ctx, "find the components of the graph", o, s, func(w *walk) error {
		var nums []uint32
		if err := w.members(0, func(num uint32) error { nums = append(nums, num); return nil }); err != nil {
			return err
		}
		seen := newSet(w.last())
		for _, num := range nums {
			if !seen.add(num) {
				continue
			}
			size, stopped := w.flood(num, seen)
			if stopped != nil && !errors.Is(stopped, kv.ErrStop) {
				return stopped
			}
			id, err := w.id(num)
			if err != nil {
				return err
			}
			if all = append(all, Component{size, id}); stopped != nil {
				return stopped
			}
		}
		return nil
	})
	if err != nil {
		return Components{}, err
	}
	slices.SortStableFunc(all, func(a, b Component) int { return cmp.Compare(b.Size, a.Size) })
	return Components{all, plan}, nil
}

// flood counts what is connected with an entity that was seen, and has it seen.
func (w *walk) flood(start uint32, seen set) (size int, err error) {
	for queue := []uint32{start}; len(queue) > 0; queue = queue[1:] {
		size++
		if err := w.node(); err != nil {
			return size, err
		}
		around, err := w.around(queue[0])
		if err != nil {
			return size, err
		}
		for _, num := range around {
			if seen.add(num) {
				queue = append(queue, num)
			}
		}
	}
	return size, nil
}
