package usage

import (
	"cmp"
	"context"
	"encoding/binary"
	"slices"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// Query chooses records. Each field that is set narrows it; the zero Query is all records of
// all owners, for administration.
type Query struct {
	scope.Owner
	// Model is that of the records; empty: any.
	Model string
	// Since and Until bound the time of the calls: Since is included, Until is not.
	Since, Until time.Time
}

// By is what records are grouped by.
type By string

// The groups of records.
const (
	ByAgent By = "agent"
	ByModel By = "model"
	ByDay   By = "day" // in UTC
)

// Group is the totals of an agent, of a model or of a day.
type Group struct {
	// Name is the agent, the model, or the day as 2026-01-02.
	Name string
	Totals
}

// end is after every time that a record can have.
const end = 253402300800000 // the year 10000

func (q *Query) check(doing string) (since, until uint64, err error) {
	if q.Owner != (scope.Owner{}) {
		if err := scope.Check(doing, q.Scope()); err != nil {
			return 0, 0, err
		}
	}
	if err := valid.Word(doing, "model", q.Model); err != nil {
		return 0, 0, err
	}
	for _, t := range []time.Time{q.Since, q.Until} {
		if err := checkTime(doing, t); err != nil {
			return 0, 0, err
		}
	}
	since, until = 0, end
	if !q.Since.IsZero() {
		since = uint64(q.Since.UnixMilli())
	}
	if !q.Until.IsZero() {
		until = uint64(q.Until.UnixMilli())
	}
	if since > until {
		return 0, 0, fault.Invalid(doing, "since is after until", "swap them")
	}
	return since, until, nil
}

func (q *Query) model() model {
	if q.Model == "" {
		return model{}
	}
	return modelOf(q.Model)
}

// Total sums the records of a query. Of an owner it takes O(log n) reads, for n the range of
// time.
func (u Usage) Total(ctx context.Context, q Query) (s Totals, err error) {
	const doing = "sum the usage"
	err = u.each(ctx, doing, &q, func(r *ranged) error {
		part, err := r.sum(q.model())
		s.add(part)
		return err
	})
	if err != nil {
		return Totals{}, err
	}
	return s, nil
}

// By sums the records of a query by agent, model or day, in the order of the names. A group
// without records is left out.
func (u Usage) By(ctx context.Context, by By, q Query) ([]Group, error) {
	doing := "sum the usage by " + valid.Short(string(by))
	groups := map[string]*Totals{}
	add := func(name string, s Totals) {
		if s.Records == 0 {
			return
		}
		if groups[name] == nil {
			groups[name] = &Totals{}
		}
		groups[name].add(s)
	}
	var of func(r *ranged) error
	switch by {
	case ByAgent:
		of = func(r *ranged) error {
			s, err := r.sum(q.model())
			add(r.home.owner.Agent, s)
			return err
		}
	case ByModel:
		of = func(r *ranged) error {
			return r.eachModel(func(m model, name string) error {
				if q.Model != "" && q.Model != name {
					return nil
				}
				s, err := r.sum(m)
				add(name, s)
				return err
			})
		}
	case ByDay:
		of = func(r *ranged) error { return r.eachDay(q.model(), add) }
	default:
		return nil, fault.Invalid(doing, "there is no such group", "give agent, model or day")
	}
	if err := u.each(ctx, doing, &q, of); err != nil {
		return nil, err
	}
	sums := make([]Group, 0, len(groups))
	for name, s := range groups {
		sums = append(sums, Group{name, *s})
	}
	slices.SortFunc(sums, func(a, b Group) int { return cmp.Compare(a.Name, b.Name) })
	return sums, nil
}

// Ranked is an agent in a ranking.
type Ranked struct {
	// AgentID is the agent's ID.
	AgentID     string `json:"agent_id"`
	Name        string `json:"name"` // that of its manifest, else the ID
	Cost        USD    `json:"cost_usd"`
	TotalTokens int64  `json:"total_tokens"`
}

// Rank lists agents by their cost, the most expensive one first, and those of the same cost
// by their IDs. Records without an agent are left out.
func (u Usage) Rank(ctx context.Context, q Query) ([]Ranked, error) {
	const doing = "rank agents by cost"
	var ranking []Ranked
	groups, err := u.By(ctx, ByAgent, q)
	if err != nil {
		return nil, err
	}
	err = u.view(ctx, doing, func(v part.View) error {
		for _, g := range groups {
			if g.Name == "" {
				continue
			}
			r := Ranked{AgentID: g.Name, Name: g.Name, Cost: g.Cost, TotalTokens: g.TotalTokens}
			a, found, err := agentOf(v, g.Name)
			if err != nil {
				return err
			}
			if found && a.Name != "" {
				r.Name = a.Name
			}
			ranking = append(ranking, r)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(ranking, func(a, b Ranked) int {
		return cmp.Or(b.Cost.Cmp(a.Cost), cmp.Compare(a.AgentID, b.AgentID))
	})
	return ranking, nil
}

// each calls visit with the range of a query, of each owner that the query has.
func (u Usage) each(ctx context.Context, doing string, q *Query, visit func(*ranged) error) error {
	since, until, err := q.check(doing)
	if err != nil {
		return err
	}
	return u.view(ctx, doing, func(v part.View) error {
		if err := current(v, doing); err != nil {
			return err
		}
		return eachHome(v, func(owner uint32, h home) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			if !scope.Contains(q.Scope(), h.owner.Scope()) {
				return nil
			}
			r := &ranged{v, owner, h, since, until}
			if err := r.retained(doing); err != nil {
				return err
			}
			return visit(r)
		})
	})
}

// ranged is a range of an owner's time, in Unix milliseconds.
type ranged struct {
	v            part.View
	owner        uint32
	home         home
	since, until uint64
}

// retained refuses a range that begins or ends within a day that was rolled up.
func (r *ranged) retained(doing string) error {
	for _, ms := range []uint64{r.since, r.until} {
		if ms < r.home.floor && ms%day != 0 {
			return &fault.Error{
				Kind: fault.ErrNotRetained, What: doing, Why: "it begins or ends within a day of which only the totals are left",
				Do: "give whole days, in UTC",
			}
		}
	}
	return nil
}

// sum is the totals of the range.
func (r *ranged) sum(m model) (Totals, error) {
	if r.since == 0 && r.until == end {
		return sumAt(r.v, r.owner, forever, m, 0)
	}
	var s Totals
	return s, r.within(&s, days1024, m, r.since, r.until)
}

// within adds the totals of [since, until): of the buckets of a level that lie in it, and
// of what is left at both ends by the narrower levels.
func (r *ranged) within(s *Totals, l level, m model, since, until uint64) error {
	width := widths[l]
	first, last := (since+width-1)/width, until/width
	if first >= last {
		return r.narrower(s, l, m, since, until)
	}
	err := r.v.Scan(sumKey(r.v, r.owner, l, m, first), sumKey(r.v, r.owner, l, m, last), func(_, value []byte) error {
		of, err := decodeTotals(value)
		s.add(of)
		return err
	})
	if err == nil {
		err = r.narrower(s, l, m, since, first*width)
	}
	if err == nil {
		err = r.narrower(s, l, m, last*width, until)
	}
	return err
}

func (r *ranged) narrower(s *Totals, l level, m model, since, until uint64) error {
	switch {
	case since >= until:
		return nil
	case l > seconds:
		return r.within(s, l-1, m, since, until)
	}
	return r.v.Scan(recordKey(r.v, r.owner, since, 0), recordKey(r.v, r.owner, until, 0), func(key, value []byte) error {
		_, ms, number, ok := parseRecordKey(key)
		if !ok {
			return layout.BadKey("usage record", key)
		}
		rec, err := decodeRecord(ms, number, value)
		if err == nil && (m == model{} || m == modelOf(rec.Model)) {
			s.add(rec.totals())
		}
		return err
	})
}

// eachModel calls visit with the models of the owner.
func (r *ranged) eachModel(visit func(m model, name string) error) error {
	lower, upper := span(r.v, kindModel, r.owner)
	return r.v.Scan(lower, upper, func(key, value []byte) error {
		return visit(model(key[keyHeader+ownerSize:]), string(value))
	})
}

// eachDay calls add with each day of the range that has records.
func (r *ranged) eachDay(m model, add func(name string, s Totals)) error {
	lower := sumKey(r.v, r.owner, days, m, r.since/day)
	upper := sumKey(r.v, r.owner, days, m, (r.until+day-1)/day)
	return r.v.Scan(lower, upper, func(key, value []byte) error {
		begin := binary.BigEndian.Uint64(key[len(key)-8:]) * day
		s, err := decodeTotals(value)
		if begin < r.since || begin+day > r.until {
			s = Totals{}
			err = r.within(&s, hours, m, max(begin, r.since), min(begin+day, r.until))
		}
		add(time.UnixMilli(int64(begin)).UTC().Format(time.DateOnly), s)
		return err
	})
}
