package graph

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// State says which state of the graph a query sees, and how much it may look at. The zero
// State is the newest one.
type State struct {
	// AsOf is an LSN: the query sees what was recorded then, but not what was deleted since.
	AsOf uint64
	// ValidAt keeps the relations that were true at a time. Zero: any.
	ValidAt time.Time
	// MaxNodes and MaxEdges bound what the query looks at. 0: a million entities and ten
	// million relations.
	MaxNodes, MaxEdges int
}

const (
	defaultNodes = 1_000_000
	defaultEdges = 10_000_000
)

// Plan says how a query was answered.
type Plan struct {
	// Source is "memory" or "keys", and Why says why it was not memory.
	Source string `json:"source"`
	Why    string `json:"why,omitzero"`
	// Nodes and Edges are how many entities and relations were looked at.
	Nodes int `json:"nodes"`
	Edges int `json:"edges"`
	// Limit is what ended the query before it was through: "results", "nodes", "edges" or
	// "time"; empty: nothing did. The time is that of the context's deadline.
	Limit string `json:"limit,omitzero"`
}

// walk is a query that goes along relations.
type walk struct {
	source
	ctx                context.Context
	reader             *reader
	plan               Plan
	maxNodes, maxEdges int
	worked             int // since the beginning, in relations
}

const (
	// looks is how many relations a walk goes through between two looks at its context: some
	// microseconds in RAM, a millisecond by keys.
	looks = 1 << 12
	// nodeWork is how many relations an entity counts for: by keys it is a record that is read.
	nodeWork = 1 << 6
)

// node counts an entity, and returns kv.ErrStop at the limit or the deadline.
func (w *walk) node() error {
	if w.plan.Nodes == w.maxNodes {
		return w.stop("nodes")
	}
	w.plan.Nodes++
	return w.work(nodeWork)
}

// read counts relations, and returns kv.ErrStop at the limit or the deadline.
func (w *walk) read(edges int) error {
	if w.plan.Edges+edges > w.maxEdges {
		w.plan.Edges = w.maxEdges
		return w.stop("edges")
	}
	w.plan.Edges += edges
	return w.work(edges)
}

// work looks at the context now and then, and returns kv.ErrStop at its deadline.
func (w *walk) work(n int) error {
	before := w.worked
	w.worked += n
	if before/looks == w.worked/looks {
		return nil
	}
	return w.look()
}

// look returns kv.ErrStop at the deadline.
func (w *walk) look() error {
	err := w.ctx.Err()
	if errors.Is(err, context.DeadlineExceeded) {
		return w.stop("time")
	}
	return err
}

func (w *walk) stop(limit string) error {
	w.plan.Limit = limit
	return kv.ErrStop
}

// next are the edges of an entity, counted. Where they are more than the walk may look at, they
// are those up to the limit, with kv.ErrStop. They are valid until the next call.
func (w *walk) next(num uint32, dir Direction, typ uint32) ([]edge, error) {
	if byKeys, ok := w.source.(*keys); ok {
		byKeys.most, byKeys.look = max(1, w.maxEdges-w.plan.Edges), w.look
	}
	edges, err := w.edges(num, dir, typ)
	if err != nil {
		return nil, err
	}
	return w.within(edges)
}

// within counts edges, and cuts them off at the limit.
func (w *walk) within(edges []edge) ([]edge, error) {
	room := w.maxEdges - w.plan.Edges
	err := w.read(len(edges))
	return edges[:min(len(edges), room)], err
}

// walk runs a query on an owner's graph. fn is not called where the owner has none.
func (g Graph) walk(ctx context.Context, doing string, o scope.Owner, s State, fn func(*walk) error) (Plan, error) {
	if s.MaxNodes < 0 || s.MaxEdges < 0 {
		return Plan{}, fault.Invalid(doing, "a limit is negative", "give a positive one, or 0")
	}
	if err := valid.Time(doing, "the time of validity", s.ValidAt); err != nil && !s.ValidAt.IsZero() {
		return Plan{}, err
	}
	plan := Plan{Source: "keys", Why: "the owner has no graph"}
	err := g.view(ctx, doing, o, s.AsOf, func(r *reader) error {
		own, err := r.owned()
		if err != nil || own.lastEntity == 0 {
			return err
		}
		w := &walk{ctx: ctx, reader: r, maxNodes: s.MaxNodes, maxEdges: s.MaxEdges}
		if w.maxNodes == 0 {
			w.maxNodes = defaultNodes
		}
		if w.maxEdges == 0 {
			w.maxEdges = defaultEdges
		}
		if w.source, w.plan.Why, err = g.part.source(r, &own, millis(s.ValidAt)); err != nil {
			return err
		}
		w.plan.Source = w.name()
		if err = fn(w); errors.Is(err, kv.ErrStop) {
			err = nil
		}
		plan = w.plan
		if _, byKeys := w.source.(*keys); byKeys {
			g.part.read(r.owner, plan.Edges)
		}
		return err
	})
	return plan, err
}

// start is the number of an entity that is there, 0 where it is not. The ID of one that was
// merged leads to the one that it was merged into.
func (w *walk) start(id string) (uint32, error) {
	num, err := w.reader.number(id)
	if err != nil || num == 0 {
		return 0, err
	}
	if _, there, err := w.is(num); err != nil || there {
		return num, err
	}
	num, n, err := w.reader.resolve(num)
	if err != nil || n == nil {
		return 0, err
	}
	return num, nil
}

// set is a set of numbers of entities.
type set []uint64

func newSet(highest uint32) set { return make(set, highest/64+1) }

// add reports whether the number was not in the set.
func (s set) add(num uint32) bool {
	word, bit := num/64, uint64(1)<<(num%64)
	if s[word]&bit != 0 {
		return false
	}
	s[word] |= bit
	return true
}

// has reports whether the number is in the set.
func (s set) has(num uint32) bool { return s[num/64]&(1<<(num%64)) != 0 }

// reached is an entity that a walk has come to.
type reached struct {
	num   uint32
	depth int32
}

// step is which relations a walk goes along.
type step struct {
	dir Direction
	typ uint32
}

// breadthFirst calls visit for the entities that are reached from one, itself first, in
// the order of their discovery, up to a depth.
func (w *walk) breadthFirst(start uint32, depth int, steps []step, visit func(reached) error) error {
	seen := newSet(w.last())
	seen.add(start)
	if err := w.node(); err != nil {
		return err
	}
	queue := []reached{{start, 0}}
	for head := 0; head < len(queue); head++ {
		at := queue[head]
		if err := visit(at); err != nil {
			return err
		}
		if int(at.depth) == depth {
			continue
		}
		for _, s := range steps {
			edges, err := w.next(at.num, s.dir, s.typ)
			if err != nil && !errors.Is(err, kv.ErrStop) {
				return err
			}
			for _, e := range edges {
				if !seen.add(e.other) {
					continue
				}
				_, there, err := w.is(e.other)
				if err != nil {
					return err
				}
				if !there {
					continue
				}
				if err := w.node(); err != nil {
					return finish(queue[head+1:], visit, err)
				}
				queue = append(queue, reached{e.other, at.depth + 1})
			}
			if err != nil {
				return finish(queue[head+1:], visit, err)
			}
		}
	}
	return nil
}

// finish visits what was discovered when a limit was hit.
func finish(queue []reached, visit func(reached) error, stopped error) error {
	for _, at := range queue {
		if err := visit(at); err != nil {
			return err
		}
	}
	return stopped
}

// Found is an entity that a query has reached.
type Found struct {
	// ID is the entity's.
	ID string
	// Depth is the least number of relations between the start and it.
	Depth int
}

// Walk is the answer of Query and Find.
type Walk struct {
	// Found are the entities in the order of their discovery, Plan says whether these are all.
	Found []Found
	Plan  Plan
}

// DefaultDepth is the depth of a query that names none.
const DefaultDepth = 2

// Query returns the entities around one, itself first, in the order of their discovery:
// breadth first, along relations in both directions, up to a depth. Depth 0 is the start
// alone. An unknown start gives nothing. The neighbours of an entity come by type and age:
// first those that it has relations to, then those that have relations to it.
func (g Graph) Query(ctx context.Context, o scope.Owner, id string, depth int, s State) (Walk, error) {
	doing := fmt.Sprintf("query the graph from %q", valid.Short(id))
	if err := checkID(doing, "entity ID", id); err != nil {
		return Walk{}, err
	}
	if depth < 0 {
		return Walk{}, fault.Invalid(doing, fmt.Sprintf("the depth is %d", depth), "give 0 or more")
	}
	var found []Found
	plan, err := g.walk(ctx, doing, o, s, func(w *walk) error {
		start, err := w.start(id)
		if err != nil || start == 0 {
			return err
		}
		return w.breadthFirst(start, depth, []step{{dir: Out}, {dir: In}}, func(r reached) error {
			id, err := w.id(r.num)
			found = append(found, Found{id, int(r.depth)})
			return err
		})
	})
	if err != nil {
		return Walk{}, err
	}
	return Walk{found, plan}, nil
}

// FindOptions changes what Find looks for.
type FindOptions struct {
	// Relation is the type of the relations to go along, "inverse:T" for those of type T
	// backwards; empty: all that come from an entity.
	Relation string
	// Hops is the number of relations to go along at most. 0: 1.
	Hops int
	// Limit bounds the answer. 0: all.
	Limit int
	State
}

// Find returns the entities that are related to one, without itself: those that it has
// relations to, those that these have relations to, and so on.
func (g Graph) Find(ctx context.Context, o scope.Owner, id string, f FindOptions) (Walk, error) {
	doing := fmt.Sprintf("find what is related to %q", valid.Short(id))
	if err := checkID(doing, "entity ID", id); err != nil {
		return Walk{}, err
	}
	if f.Hops < 0 || f.Limit < 0 {
		return Walk{}, fault.Invalid(doing, "hops or limit is negative", "give 0 or more")
	}
	if f.Hops == 0 {
		f.Hops = 1
	}
	var found []Found
	plan, err := g.walk(ctx, doing, o, f.State, func(w *walk) error {
		start, err := w.start(id)
		if err != nil || start == 0 {
			return err
		}
		along, known, err := w.along(f.Relation)
		if err != nil || !known {
			return err
		}
		return w.breadthFirst(start, f.Hops, []step{along}, func(r reached) error {
			switch {
			case r.depth == 0:
				return nil
			case f.Limit > 0 && len(found) == f.Limit:
				return w.stop("results")
			}
			id, err := w.id(r.num)
			found = append(found, Found{id, int(r.depth)})
			return err
		})
	})
	if err != nil {
		return Walk{}, err
	}
	return Walk{found, plan}, nil
}

// typeNumber is the number of a type, 0 for one that nothing has.
func (w *walk) typeNumber(class byte, name string) (uint32, error) {
	if m, resident := w.source.(*memory); resident {
		if num := m.named.numbers[class][name]; num != 0 {
			return num, nil
		}
	}
	return w.reader.typeNumber(class, name)
}

// typeName is the name of a type.
func (w *walk) typeName(class byte, num uint32) (string, error) {
	if m, resident := w.source.(*memory); resident {
		if name, known := m.named.texts[class][num]; known {
			return name, nil
		}
	}
	return w.reader.typeName(class, num)
}

// along is the step that a type of relation names, and whether there is such a type.
func (w *walk) along(relation string) (s step, known bool, err error) {
	typ, swap := forwardType(relation)
	s.dir = Out
	if swap {
		s.dir = In
	}
	if typ == "" {
		return s, true, nil
	}
	s.typ, err = w.typeNumber(classRelation, typ)
	return s, s.typ != 0, err
}
