package native

import (
	"github.com/seed-7aedc3ff/memdb/api"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/services/server"
)

func recalls() []route {
	return []route{mergedBy(mergeRecall, opRoute(api.Recall)), opRoute(api.Why)}
}

// within sets of whom is asked, by what the key may see.
func (a *ask) within(doing string, q *api.Question) error {
	if q.Parts != nil {
		if !a.Part() {
			return invalid(doing, "parts is for the nodes of a cluster", "leave it out")
		}
		q.Parts.Embed = q.Parts.Embed && a.Shard() == 0
	}
	if q.AllScopes && !a.Admin() {
		return server.Denied("all_scopes is for administrators")
	}
	asked, lack, err := q.Named(doing)
	if err != nil {
		return err
	}
	var fit []memory.Scope
	for _, s := range asked {
		of, err := a.Fit(s)
		if err != nil {
			return err
		}
		for _, s := range of {
			empty := s == (memory.Scope{})
			switch {
			case empty && !q.AllScopes:
				return &memory.Error{Kind: memory.ErrScope, What: doing, Why: "it names no user, agent or run", Do: "name one, or say all_scopes"}
			case lack.User && s.User != "" || lack.Agent && s.Agent != "":
			case q.Graph > 0 && a.sealed(s):
				return server.Denied("the key is one of a run, and the graph belongs to a user and an agent")
			default:
				fit = append(fit, s)
			}
		}
	}
	if len(fit) == 0 {
		return server.Denied("the key is bound to a user or an agent, and the call asks for what has none")
	}
	q.Within = server.Widest(fit)
	return a.Reach(q.Within, lack.User)
}
