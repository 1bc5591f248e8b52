package mem0

import (
	"context"
	"iter"
	"net/http"
	"slices"
	"time"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/exchange/products"
	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/internal/scalar"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/services/server"
)

// named are the entities that a body or a query names beside filters.
type named struct {
	User  *string `json:"user_id"`
	Agent *string `json:"agent_id"`
	App   *string `json:"app_id"`
	Run   *string `json:"run_id"`
}

// scope is what they are to memdb.
func (n named) scope() memory.Scope {
	return memory.Scope{User: value(n.User), Agent: value(n.Agent), Run: value(n.Run)}
}

func value(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// wanted is what they ask for: an ID, or * for any that there is.
func (n named) wanted() (wanted, error) {
	w := anything()
	for _, f := range []struct {
		field string
		id    *string
	}{{"user_id", n.User}, {"agent_id", n.Agent}, {"app_id", n.App}, {"run_id", n.Run}} {
		if value(f.id) == "" {
			continue
		}
		v, err := condition(f.field, "eq", *f.id)
		if err != nil {
			return w, err
		}
		w = w.and(v)
	}
	return w, nil
}

// namedIn are the entities that the query of the address names.
func (c *call) namedIn() named {
	q := c.R.URL.Query()
	of := func(name string) *string {
		if id := q.Get(name); id != "" {
			return &id
		}
		return nil
	}
	return named{of("user_id"), of("agent_id"), of("app_id"), of("run_id")}
}

// selection are the memories that a request means: facts of these scopes for which a filter holds.
type selection struct {
	db     *engine.DB
	scopes []memory.Scope // none: everybody's
	none   bool           // there can be no such memory
	filter filter.Filter
}

// selected are the memories that are asked for, within what the key sees. It is an error where
// they would be everybody's without the request saying so.
func (c *call) selected(w wanted, expired bool) (*selection, error) {
	s := &selection{none: len(w.scopes) == 0, filter: filter.And(filter.Eq("kind", string(memory.KindFact)), w.filter)}
	if !expired {
		s.filter = filter.And(s.filter, c.unexpired())
	}
	for _, asked := range w.scopes {
		fit, err := c.Scopes(asked)
		if err != nil {
			return nil, err
		}
		for _, f := range fit {
			switch {
			case f == (memory.Scope{}) && !w.named:
				return nil, &server.Failure{Status: http.StatusBadRequest, Code: "scope", Message: errNoEntity.Error(), Err: errNoEntity}
			case !slices.Contains(s.scopes, f):
				s.scopes = append(s.scopes, f)
			}
		}
	}
	s.db = c.DB
	switch {
	case slices.Contains(s.scopes, memory.Scope{}):
		s.scopes = nil
	case len(s.scopes) > memory.MaxScopes:
		return nil, badFilter("they name too many users, agents and runs at once", "ask for fewer")
	}
	return s, nil
}

// unexpired holds for memories whose date of expiry has not passed.
func (c *call) unexpired() filter.Filter {
	return filter.Not(filter.Lt(own+products.Mem0Expiration, c.Now().UTC().Format(dateForm)))
}

// everyone reports whether the selection is not bound to scopes.
func (s *selection) everyone() bool { return len(s.scopes) == 0 }

// all iterates over the memories, the newest first, each once.
func (s *selection) all(ctx context.Context, tx *engine.Tx) iter.Seq2[memory.Memory, error] {
	list := func(of memory.Scope) iter.Seq2[memory.Memory, error] {
		return tx.Memories().All(ctx, memory.ListQuery{Scope: of, AllScopes: s.everyone(), Filter: s.filter, Descending: true})
	}
	switch {
	case s.none:
		return func(func(memory.Memory, error) bool) {}
	case s.everyone():
		return list(memory.Scope{})
	case len(s.scopes) == 1:
		return list(s.scopes[0])
	}
	return func(yield func(memory.Memory, error) bool) { merge(s.scopes, list, yield) }
}

// merge joins lists in descending order of Seq. What is in several comes once.
func merge(scopes []memory.Scope, list func(memory.Scope) iter.Seq2[memory.Memory, error], yield func(memory.Memory, error) bool) {
	type source struct {
		next func() (memory.Memory, error, bool)
		head memory.Memory
	}
	var sources []*source
	for _, of := range scopes {
		next, stop := iter.Pull2(list(of))
		defer stop()
		sources = append(sources, &source{next: next})
	}
	advance := func(o *source) (more bool, err error) {
		o.head, err, more = o.next()
		return more, err
	}
	open := sources[:0]
	for _, o := range sources {
		more, err := advance(o)
		if err != nil {
			yield(memory.Memory{}, err)
			return
		}
		if more {
			open = append(open, o)
		}
	}
	for last := uint64(0); len(open) > 0; {
		at := 0
		for i := range open {
			if open[i].head.Seq > open[at].head.Seq {
				at = i
			}
		}
		m := open[at].head
		if m.Seq != last && !yield(m, nil) {
			return
		}
		last = m.Seq
		more, err := advance(open[at])
		if err != nil {
			yield(memory.Memory{}, err)
			return
		}
		if !more {
			open = slices.Delete(open, at, at+1)
		}
	}
}

// page is a part of a selection, and how many memories all of it has.
type page struct {
	memories []memory.Memory
	count    int
}

// page reads memories from the one of a number on.
func (s *selection) page(ctx context.Context, from, size int) (p page, err error) {
	err = s.db.View(ctx, func(tx *engine.Tx) error {
		p = page{}
		if len(s.scopes) <= 1 && !s.none {
			of := memory.Scope{}
			if !s.everyone() {
				of = s.scopes[0]
			}
			var err error
			if p.count, err = tx.Memories().Count(ctx, memory.ListQuery{Scope: of, AllScopes: s.everyone(), Filter: s.filter}); err != nil || p.count <= from {
				return err
			}
		}
		n := 0
		for m, err := range s.all(ctx, tx) {
			if err != nil {
				return err
			}
			if n >= from && len(p.memories) < size {
				p.memories = append(p.memories, m)
			}
			if n++; n >= from+size && p.count > 0 {
				return nil
			}
		}
		p.count = max(p.count, n)
		return nil
	})
	return p, err
}

// day reads a day of the address or of a body, and returns when it begins.
func day(what, text string) (time.Time, error) {
	m, err := scalar.Read(text)
	if err != nil || m.Format(dateForm) != text { // which is also how it is stored
		return time.Time{}, invalid("read "+what, "it is no day", "write it as 2026-01-31")
	}
	return m.Time, nil
}
