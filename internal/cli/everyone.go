package cli

import (
	"errors"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// questionJSON is a query as a server is asked it over all of its databases.
type questionJSON struct {
	Query     string         `json:"query,omitempty"`
	Embedding []float32      `json:"embedding,omitempty"`
	User      string         `json:"user,omitempty"`
	Agent     string         `json:"agent,omitempty"`
	Run       string         `json:"run,omitempty"`
	Scopes    []memory.Scope `json:"scopes,omitempty"`
	AllScopes bool           `json:"all_scopes,omitempty"`
	Filter    filter.Filter  `json:"filter,omitempty"`
	Limit     int            `json:"limit,omitempty"`
	MinScore  float64        `json:"min_score,omitempty"`
	Profile   memory.Profile `json:"profile,omitempty"`
	Syntax    memory.Syntax  `json:"syntax,omitempty"`
	Graph     float64        `json:"graph,omitempty"`
	Highlight bool           `json:"highlight,omitempty"`
	Explain   bool           `json:"explain,omitempty"`
	NoTouch   bool           `json:"no_touch,omitempty"`
	Vectors   bool           `json:"vectors,omitempty"`
	Tokens    int            `json:"tokens,omitempty"`
}

// recallEveryone has a server answer a query from all of its databases as one.
func (a *app) recallEveryone(cmd *cobra.Command, q *memory.Query) error {
	n, err := a.node(cmd)
	if err != nil {
		return err
	}
	var found foundHits
	err = n.call(cmd.Context(), http.MethodPost, nativePath+"/recall", noShard, questionJSON{
		Query: q.Text, Embedding: q.Embedding, User: q.Scope.User, Agent: q.Scope.Agent, Run: q.Scope.Run,
		Scopes: q.Scopes, AllScopes: q.AllScopes, Filter: q.Filter, Limit: q.Limit, MinScore: q.MinScore, Profile: q.Profile,
		Syntax: q.Syntax, Graph: q.Graph, Highlight: q.Highlight, Explain: q.Explain, NoTouch: q.NoTouch,
		Vectors: q.WithVectors, Tokens: q.Tokens,
	}, &found)
	if err != nil {
		return err
	}
	lost := unreadable{n: found.Unreadable, first: errors.New("a database of the server has lost it")}
	if err := a.printAnswer(&found); err != nil {
		return err
	}
	return a.endUnreadable(&lost)
}
