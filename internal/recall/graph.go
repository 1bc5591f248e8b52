package recall

import (
	"context"
	"maps"
	"slices"

	"github.com/seed-7aedc3ff/memdb/internal/doctable"
	"github.com/seed-7aedc3ff/memdb/internal/store"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/mention"
	"github.com/seed-7aedc3ff/memdb/policy"
)

// mostGraphs bounds the owners whose graphs one recall looks at.
const mostGraphs = 8

// withGraph adds to the matches what the graph finds: the memories that are linked to the
// entities that the query names, and to those near them.
func (r *recalling) withGraph(ctx context.Context, m *matches) error {
	if r.q.Graph == 0 || r.q.Text == "" || r.set.IsEmpty() {
		return nil
	}
	if r.st.Past {
		r.plan.GraphWhy = "links to memories are not kept as of an LSN"
		return nil
	}
	owners, err := r.graphOwners(m)
	if err != nil {
		return err
	}
	said, err := mention.Rules{}.Extract(ctx, r.q.Text) // dates have other names than they are written by
	if err != nil {
		return err
	}
	var names []string
	for _, e := range said.Entities {
		names = append(names, e.Name)
	}
	given := map[uint32]float64{} // by document: 1 - what the graph says for it
	for _, o := range owners {
		if err := r.nearIn(ctx, o, names, given); err != nil {
			return err
		}
	}
	if m.lean != nil {
		docs := slices.Sorted(maps.Keys(given))
		others, err := r.others(ctx, m.lean, docs)
		if err != nil {
			return err
		}
		for i, doc := range docs {
			if others[i] {
				given[doc] = 1 - policy.OtherSpeaker*(1-given[doc])
			}
		}
	}
	m.join(given)
	r.stage("graph")
	return nil
}

// graphOwners are the owners whose graphs may say something: the one that the scope names, and
// those of what the text has found.
func (r *recalling) graphOwners(m *matches) (owners []graphOwner, err error) {
	scopes := r.q.Scopes
	if len(scopes) == 0 {
		scopes = []memory.Scope{r.q.Scope}
	}
	whole := !r.q.AllScopes
	for _, s := range scopes {
		whole = whole && s.User != "" && s.Agent != ""
		if s.Owner() == (memory.Owner{}) {
			continue
		}
		num, known, err := r.host.View().Owner(s.Owner())
		if err != nil {
			return nil, err
		}
		if known {
			owners = addOwner(owners, graphOwner{num, s.Owner().Scope(), 0})
		}
	}
	if whole {
		return owners, nil
	}
	for _, doc := range m.docs { // in the order of the documents
		owners = addOwner(owners, graphOwner{number: r.st.Docs.Row(doc).Owner, doc: doc})
	}
	return owners, nil
}

// graphOwner is an owner whose graph is looked at: by its name, or by a document of it.
type graphOwner struct {
	number uint32
	scope  memory.Scope
	doc    uint32
}

func addOwner(owners []graphOwner, o graphOwner) []graphOwner {
	if len(owners) == mostGraphs || slices.ContainsFunc(owners, func(have graphOwner) bool { return have.number == o.number }) {
		return owners
	}
	return append(owners, o)
}

// nearIn takes in what the graph of one owner says.
func (r *recalling) nearIn(ctx context.Context, owner graphOwner, names []string, given map[uint32]float64) error {
	all, plan, err := r.host.Graph().Near(ctx, r.host.View(), owner.number, r.q.Text, names)
	if err != nil {
		return store.Error(doingRecall, err)
	}
	if len(plan.Named) == 0 {
		return nil
	}
	if r.q.Explain {
		if owner.scope == (memory.Scope{}) {
			rec, err := r.st.Record(r.st.Docs.Row(owner.doc).Version)
			if err != nil {
				return err
			}
			owner.scope = rec.Scope.Owner().Scope()
		}
		r.plan.Graph = append(r.plan.Graph, memory.GraphPlan{
			Scope: owner.scope, Named: plan.Named, Like: plan.Like, Entities: plan.Entities, Memories: plan.Memories,
			Source: plan.Source, Why: plan.Why,
		})
	}
	most := all[0].Rank
	var docs []uint32
	for i := range all {
		docs = docs[:0]
		for _, seq := range all[i].Seqs {
			if doc := r.st.Docs.At(seq, r.st.LSN); doc != doctable.None && r.set.Contains(doc) {
				docs = append(docs, doc)
			}
		}
		weight := policy.FromEntity(all[i].Rank/most, len(docs), r.in.N)
		for _, doc := range docs {
			rest, known := given[doc]
			if !known {
				rest = 1
			}
			given[doc] = rest * (1 - weight)
		}
	}
	return nil
}

// join gives the matches what the graph says for them, and adds those that it alone has found.
func (m *matches) join(given map[uint32]float64) {
	m.graph = make([]float64, len(m.docs), len(m.docs)+len(given))
	for i, doc := range m.docs {
		if rest, found := given[doc]; found {
			m.graph[i] = 1 - rest
			delete(given, doc)
		}
	}
	for doc, rest := range given { // matches are in no order
		m.docs, m.own, m.lent = append(m.docs, doc), append(m.own, 0), append(m.lent, 0)
		m.session, m.second = append(m.session, 0), append(m.second, 0)
		m.graph = append(m.graph, 1-rest)
	}
}
