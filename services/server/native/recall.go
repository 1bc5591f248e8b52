package native

import (
	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/services/server"
)

func recalls() []route {
	return []route{
		{at: "POST /recall", summary: "Find the memories that match a query, best first", body: question{}, reply: recalled{}, reads: true, merge: mergeRecall, handle: recall},
		{at: "POST /memories/{id}/why", summary: "Explain why a recall finds a memory or does not", body: question{}, reply: memory.Why{}, reads: true, handle: why},
	}
}

// question is what is asked of memories.
type question struct {
	Query     string          `json:"query"`
	Embedding exchange.Vector `json:"embedding"`
	Space     string          `json:"space"`
	// User, Agent and Run say of whom; a user or an agent that is empty means none. Scopes are
	// searched as one, in their place.
	User      *string              `json:"user"`
	Agent     *string              `json:"agent"`
	Run       *string              `json:"run"`
	Scopes    strict[memory.Scope] `json:"scopes"`
	AllScopes bool                 `json:"all_scopes"`
	// Filter is a text or an object.
	Filter    filterJSON     `json:"filter"`
	Limit     *int           `json:"limit"`
	MinScore  float64        `json:"min_score"`
	Profile   memory.Profile `json:"profile"`
	Syntax    memory.Syntax  `json:"syntax"`
	Graph     float64        `json:"graph"`
	AsOf      uint64         `json:"as_of"`
	Exact     bool           `json:"exact"`
	Highlight bool           `json:"highlight"`
	Explain   bool           `json:"explain"`
	NoTouch   bool           `json:"no_touch"`
	Vectors   bool           `json:"vectors"`
	OnlyWords bool           `json:"only_words"`
	// Tokens is how many tokens the hits may have together, at four bytes each.
	Tokens int `json:"tokens"`
	// Parts is for shards that answer together.
	Parts *ofParts `json:"parts,omitempty" openapi:"-"`
}

// filterJSON is a filter: a JSON string with its text, or its JSON.
type filterJSON raw

// UnmarshalJSON keeps the JSON.
func (f *filterJSON) UnmarshalJSON(b []byte) error { return (*raw)(f).UnmarshalJSON(b) }

// ofParts is what a shard is asked that has a part of the answer.
type ofParts struct {
	// Sum are the statistics of all shards, as far as they are known.
	Sum *memory.Statistics `json:"sum"`
	// Count asks for the statistics of the shard, in the place of hits.
	Count bool `json:"count"`
	// Embed has the first shard embed the query, if that has to be done.
	Embed bool `json:"embed,omitempty"`
	// Touch has the shard note that these memories were recalled, by their Seqs, in the place of hits.
	Touch []uint64 `json:"touch,omitempty"`
}

// round is what a shard has counted, and for the first one the vector of the query, where that is made of
// its text.
type round struct {
	memory.Statistics
	Embedding  exchange.Vector `json:"embedding,omitempty"`
	Space      string          `json:"space,omitempty"`
	Unembedded string          `json:"unembedded,omitempty"`
}

// recalled is what was found.
type recalled struct {
	Hits []exchange.Hit `json:"hits"`
	// Alike says of each hit of a part what near words give it, where they alone found it.
	Alike []float64 `json:"alike,omitempty" openapi:"-"`
	// Plan tells how, with explain.
	Plan *memory.Plan `json:"plan,omitempty"`
	// Unembedded says why the query has no vector.
	Unembedded string `json:"unembedded,omitempty"`
	// Unreadable is how much is damaged, and left out.
	Unreadable int `json:"unreadable,omitempty"`
	// Tokens is how many the hits have, where they are bounded.
	Tokens int `json:"tokens,omitempty"`
}

// query is what the engine is asked, and what it is asked for where the database has a part of the answer.
func (a *ask) query(doing string) (q memory.Query, of *ofParts, err error) {
	b, err := decoded[question](a)
	if err != nil {
		return q, nil, err
	}
	if b.Parts != nil && !a.Part() {
		return q, nil, invalid(doing, "parts is for the nodes of a cluster", "leave it out")
	}
	q, err = a.asking(doing, &b)
	return q, b.Parts, err
}

// asking is query without what shards tell each other.
func (a *ask) asking(doing string, b *question) (q memory.Query, err error) {
	q = memory.Query{
		Text: b.Query, Embedding: b.Embedding, Space: b.Space, MinScore: b.MinScore, Profile: b.Profile, Syntax: b.Syntax, Graph: b.Graph,
		AsOf: b.AsOf, Exact: b.Exact, Highlight: b.Highlight, Explain: b.Explain, NoTouch: b.NoTouch, WithVectors: b.Vectors,
		OnlyWords: b.OnlyWords, Tokens: b.Tokens,
	}
	if b.Limit != nil {
		if q.Limit = *b.Limit; q.Limit < 1 {
			return q, invalid(doing, "the limit is below 1", "leave it out, or give 1 or more")
		}
	}
	if b.Query == "" && len(b.Embedding) == 0 {
		return q, invalid(doing, "there is no query", "give query, embedding or both")
	}
	if q.Filter, err = b.filter(a); err != nil {
		return q, err
	}
	return q, a.fill(doing, b, &q)
}

// filter reads the filter: in words as a string, or in JSON.
func (b *question) filter(a *ask) (filter.Filter, error) {
	if len(b.Filter) == 0 || string(b.Filter) == "null" {
		return nil, nil
	}
	text := []byte(b.Filter)
	if text[0] == '"' {
		var words string
		if err := exchange.Decode(text, &words); err != nil {
			return nil, invalid("read the filter", err.Error(), "")
		}
		text = []byte(words)
	}
	return filter.Parse(a.Context(), text)
}

// fill says of whom is asked.
func (a *ask) fill(doing string, b *question, q *memory.Query) error {
	var asked []memory.Scope
	var lack memory.Lack
	one := memory.Scope{User: pointed(b.User), Agent: pointed(b.Agent), Run: pointed(b.Run)}
	named := b.User != nil || b.Agent != nil || b.Run != nil
	switch {
	case len(b.Scopes) > 0 && (named || b.AllScopes), b.AllScopes && named:
		return invalid(doing, "scopes and all_scopes stand alone: not with user, agent, run or each other", "")
	case len(b.Scopes) > memory.MaxScopes:
		return invalid(doing, "there are too many scopes", "")
	case b.AllScopes && !a.Admin():
		return server.Denied("all_scopes is for administrators")
	case b.Run != nil && *b.Run == "":
		return invalid(doing, "the run is empty", "leave it out")
	case len(b.Scopes) > 0:
		asked = b.Scopes
	default:
		asked = []memory.Scope{one}
		lack = memory.Lack{User: b.User != nil && one.User == "", Agent: b.Agent != nil && one.Agent == ""}
		if err := checkLack(doing, one, lack); err != nil {
			return err
		}
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
			case empty && !b.AllScopes:
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
	c := &choice{scopes: server.Widest(fit), lack: lack}
	if err := a.Reach(c.scopes, lack.User); err != nil {
		return err
	}
	if len(c.scopes) > 1 { // which the engine searches as one by itself
		q.Scopes = c.scopes
		c.scopes = []memory.Scope{{}}
		_, _, q.Filter = c.narrow(q.Filter)
		return nil
	}
	q.Scope, q.AllScopes, q.Filter = c.narrow(q.Filter)
	return nil
}

func pointed(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func recall(a *ask) error {
	q, of, err := a.query("recall")
	if err != nil {
		return err
	}
	if of != nil {
		switch {
		case len(of.Touch) > memory.MaxLimit:
			return invalid("recall", "more were recalled than a recall gives", "")
		case of.Touch != nil:
			return a.ok(struct{}{}, a.DB.Memories().Touch(a.Context(), of.Touch))
		case of.Count:
			return a.count(q, of)
		}
		q.Statistics = of.Sum
	}
	out := recalled{Hits: []exchange.Hit{}}
	q.Lost = func(error) { out.Unreadable++ }
	r, err := a.DB.Memories().Recall(a.Context(), q)
	if err != nil {
		return err
	}
	out.Unreadable = max(out.Unreadable, r.Unreadable)
	for _, h := range r.Hits {
		out.Hits = append(out.Hits, exchange.NewHit(h, q))
		if of != nil {
			out.Alike = append(out.Alike, h.Alike)
		}
	}
	out.Plan, out.Unembedded, out.Tokens = r.Plan, r.Unembedded, r.Tokens
	return a.ok(out, nil)
}

// count answers what the shard says in a round of statistics.
func (a *ask) count(q memory.Query, of *ofParts) (err error) {
	var out round
	if of.Embed && a.Shard() == 0 && len(q.Embedding) == 0 {
		if out.Embedding, out.Space, out.Unembedded, err = a.DB.Memories().Embedding(a.Context(), q); err != nil {
			return err
		}
		q.Embedding, q.Space = out.Embedding, out.Space
	}
	q.Statistics = of.Sum
	out.Statistics, err = a.DB.Memories().Statistics(a.Context(), q)
	return a.ok(out, err)
}

func why(a *ask) error {
	q, _, err := a.query("why")
	if err != nil {
		return err
	}
	q.Lost = func(error) {}
	w, err := a.DB.Memories().Why(a.Context(), q, a.id("id"))
	return a.ok(w, err)
}
