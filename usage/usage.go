package usage

import (
	"context"
	"encoding/binary"

	"github.com/seed-7aedc3ff/memdb/internal/codec"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/part"
)

// Usage is the usage, the budgets and the agents of a database: in a transaction, or with
// each call as a transaction of its own.
type Usage struct{ run part.Runner }

// New is a Usage whose calls a runner runs. Engine makes them: see its DB.Usage and Tx.Usage.
func New(r part.Runner) Usage { return Usage{r} }

// view reads the newest state. Sums are written over, so there is none of the past: times
// say what was so when.
func (u Usage) view(ctx context.Context, doing string, fn func(part.View) error) error {
	return u.run.View(ctx, doing, func(v part.View) error {
		if v.Past() {
			return &fault.Error{Kind: fault.ErrNotRetained, What: doing, Why: "usage keeps no past states", Do: "read the newest one, and give a range of time"}
		}
		return fn(v)
	})
}

// Part is the structure as the database sees it.
type Part struct{}

// Name is "usage".
func (Part) Name() string { return "usage" }

// Kinds are those of records, sums, models, owners with their budgets, and manifests.
func (Part) Kinds() []part.Kind {
	return []part.Kind{kindRecord, kindSum, kindModel, kindHome, kindAgent}
}

// Ops are those of every change.
func (Part) Ops() []part.Op {
	return []part.Op{opAdd, opDeleteAll, opBudget, opReserve, opRollUp, opAgent}
}

// Figures are the numbers of calls, as "usage", and of manifests, as "agents".
func (Part) Figures(v part.View) (map[string]int64, error) {
	calls, agents := int64(0), int64(0)
	err := eachHome(v, func(owner uint32, _ home) error {
		s, err := sumAt(v, owner, forever, model{}, 0)
		calls += s.Records
		return err
	})
	if err == nil {
		lower := v.Key(kindAgent, 0)
		err = v.Scan(lower, layout.PrefixEnd(lower), func(_, _ []byte) error { agents++; return nil })
	}
	return map[string]int64{"usage": calls, "agents": agents}, err
}

// DeleteOwner deletes the records, the budgets and the manifest of an owner.
func (Part) DeleteOwner(t part.Tx, owner uint32) (map[string]int64, error) {
	deleted := map[string]int64{"usage": 0}
	_, known, err := homeOf(t, owner)
	if err != nil {
		return nil, err
	}
	_, manifest, err := t.Get(agentKey(t, owner))
	if err != nil || !known && !manifest {
		return deleted, err
	}
	s, err := sumAt(t, owner, forever, model{}, 0)
	if err != nil {
		return nil, err
	}
	deleted["usage"] = s.Records
	if err := t.NeedToFree("delete the usage of an owner", 512); err != nil {
		return nil, err
	}
	for _, kind := range (Part{}).Kinds() {
		lower, upper := span(t, byte(kind), owner)
		if err := t.DeleteRange(lower, upper); err != nil {
			return nil, err
		}
	}
	for _, kind := range []byte{kindHome, kindAgent} {
		if err := recount(t, kind, owner, 0); err != nil {
			return nil, err
		}
	}
	t.Log(opDeleteAll, binary.AppendUvarint(nil, uint64(owner)))
	return deleted, nil
}

// current refuses a state of the past: sums are written over.
func current(v part.View, doing string) error {
	if !v.Past() {
		return nil
	}
	return &fault.Error{Kind: fault.ErrNotRetained, What: doing, Why: "the usage keeps no past states", Do: "read the newest one, and bound the time of the calls"}
}

// homeOf is what is known of an owner.
func homeOf(v part.View, owner uint32) (h home, known bool, err error) {
	b, known, err := v.Get(homeKey(v, owner))
	if err != nil || !known {
		return home{}, false, err
	}
	h, err = decodeHome(b)
	return h, err == nil, err
}

// eachHome calls visit with each owner, in the order of their numbers.
func eachHome(v part.View, visit func(owner uint32, h home) error) error {
	lower := v.Key(kindHome, 0)
	return v.Hop(lower, layout.PrefixEnd(lower), func(key, _ []byte) ([]byte, error) {
		owner, known := ownerOf(key)
		if !known {
			return nil, layout.BadKey("usage", key)
		}
		_, next := span(v, kindHome, owner)
		h, known, err := homeOf(v, owner)
		if err != nil {
			if err = v.Without(err); err == nil {
				h.owner, known, err = v.OwnerOf(owner)
			}
		}
		if err == nil && known {
			err = visit(owner, h)
		}
		return next, err
	})
}

// sumAt is one sum.
func sumAt(v part.View, owner uint32, l level, m model, bucket uint64) (Totals, error) {
	b, found, err := v.Get(sumKey(v, owner, l, m, bucket))
	if err != nil || !found {
		return Totals{}, err
	}
	return decodeTotals(b)
}

// recount keeps how many budgets (kindHome) or manifests (kindAgent) an owner has: by that a check
// finds that one is lost. Databases of layouts before 7 have no such counters until a change.
func recount(t part.Tx, kind byte, owner uint32, have int64) error {
	n, known, err := t.Counter(kind, owner)
	if err != nil || known && n == have {
		return err
	}
	return t.Count(kind, owner, have-n)
}

// logged is the body of a change in the log: whose it is, and what follows.
func logged(owner uint32, rest ...[]byte) []byte {
	b := binary.AppendUvarint(nil, uint64(owner))
	for _, r := range rest {
		b = codec.AppendBytes(b, r)
	}
	return b
}
