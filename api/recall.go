package api

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// FilterJSON is a filter in a body: a JSON string with its text, or its JSON.
type FilterJSON []byte

// MarshalJSON writes the filter as it is.
func (f FilterJSON) MarshalJSON() ([]byte, error) { return json.RawMessage(f).MarshalJSON() }

// UnmarshalJSON keeps the filter as it is.
func (f *FilterJSON) UnmarshalJSON(b []byte) error {
	*f = slices.Clone(b)
	return nil
}

// Parse reads the filter, nil for none.
func (f FilterJSON) Parse(ctx context.Context) (filter.Filter, error) {
	text := []byte(f)
	if len(text) == 0 || string(text) == "null" {
		return nil, nil
	}
	if text[0] == '"' {
		var words string
		if err := exchange.Decode(text, &words); err != nil {
			return nil, invalid("read the filter", err.Error(), "")
		}
		text = []byte(words)
	}
	return filter.Parse(ctx, text)
}

// Question is what memories are asked.
type Question struct {
	Query     string          `json:"query" arg:"[QUERY]..." help:"the text"`
	Embedding exchange.Vector `json:"embedding" help:"the vector of the query, a list of numbers"`
	Space     string          `json:"space"`
	// User, Agent and Run say of whom; a user or an agent that is empty means none. Scopes are
	// searched as one, in their place.
	User      *string                       `json:"user" unit:"user" help:"ID of the user who owns it"`
	Agent     *string                       `json:"agent" unit:"agent" help:"ID of the agent that owns it"`
	Run       *string                       `json:"run" unit:"run" help:"ID of its run, the session it belongs to"`
	Scopes    exchange.Strict[memory.Scope] `json:"scopes" flag:"scope" help:"of this scope, an object; can be repeated: several are searched as one"`
	AllScopes bool                          `json:"all_scopes" help:"all users and agents, for administrators"`
	Filter    FilterJSON                    `json:"filter" help:"only memories that match this filter, such as \"role = user\", or JSON"`
	Limit     *int                          `json:"limit" min:"1" max:"10000" help:"the largest number of results, up to 10,000; the default is 10"`
	MinScore  float64                       `json:"min_score" unit:"score" help:"only hits of this score at least, as the profile counts it; the default is all"`
	Profile   memory.Profile                `json:"profile" enum:"best,text,vector,hybrid,substrate" help:"how to rank: best, the default, text, vector, hybrid or substrate"`
	Syntax    memory.Syntax                 `json:"syntax" enum:"plain,operators" help:"how to read the text: plain, the default, or operators (+word -word \"a phrase\" begin* simil~ AND OR NOT)"`
	Graph     float64                       `json:"graph" unit:"weight" help:"use the graph, with this weight up to 1; without a value: 0.05"`
	AsOf      uint64                        `json:"as_of"`
	Exact     bool                          `json:"exact"`
	Highlight bool                          `json:"highlight" help:"mark what the query looks for «so»; with --json its spans in bytes"`
	Explain   bool                          `json:"explain" help:"show the parts of each score and the plan"`
	NoTouch   bool                          `json:"no_touch" help:"leave access counts and times alone"`
	Vectors   bool                          `json:"vectors" help:"add the vectors"`
	OnlyWords bool                          `json:"only_words"`
	// Tokens is how many tokens the hits may have together, at four bytes each.
	Tokens int `json:"tokens" min:"1" help:"as many as make up so many tokens, at four bytes each, none that repeats another; short answers with their questions"`
	// Parts is for databases that answer together.
	Parts *Parts `json:"parts,omitempty" openapi:"-"`
	// Within are the scopes that the caller may see of those that are named; nil: it may see all of them.
	Within []memory.Scope `json:"-"`
}

// QuestionOf implements Asking.
func (q *Question) QuestionOf() *Question { return q }

// Asking is a request with a question.
type Asking interface {
	// QuestionOf returns the question, whose Within its caller sets.
	QuestionOf() *Question
}

// Check implements Checked.
func (q *Question) Check() error {
	_, _, err := q.Named("recall")
	return err
}

// Named returns the scopes that the question names, and what their owners lack. No scope is named by an empty one.
func (q *Question) Named(doing string) ([]memory.Scope, memory.Lack, error) {
	value := func(s *string) string {
		if s == nil {
			return ""
		}
		return *s
	}
	one := memory.Scope{User: value(q.User), Agent: value(q.Agent), Run: value(q.Run)}
	named := q.User != nil || q.Agent != nil || q.Run != nil
	lack := memory.Lack{User: q.User != nil && one.User == "", Agent: q.Agent != nil && one.Agent == ""}
	switch {
	case len(q.Scopes) > 0 && (named || q.AllScopes), q.AllScopes && named:
		return nil, lack, invalid(doing, "scopes and all_scopes stand alone: not with user, agent, run or each other", "")
	case len(q.Scopes) > memory.MaxScopes:
		return nil, lack, invalid(doing, "there are too many scopes", "")
	case q.Run != nil && one.Run == "":
		return nil, lack, invalid(doing, "the run is empty", "leave it out")
	case len(q.Scopes) > 0:
		return q.Scopes, lack, nil
	case (lack.User || lack.Agent) && one.User == "" && one.Agent == "":
		return nil, lack, &memory.Error{Kind: memory.ErrScope, What: doing, Why: "a user or an agent is empty, and the other one names nobody", Do: "name one of the two"}
	}
	return []memory.Scope{one}, lack, nil
}

// query is the question as the engine is asked it.
func (q *Question) query(ctx context.Context, doing string) (of memory.Query, err error) {
	of = memory.Query{
		Text: q.Query, Embedding: q.Embedding, Space: q.Space, AllScopes: q.AllScopes, MinScore: q.MinScore, Profile: q.Profile, Syntax: q.Syntax,
		Graph: q.Graph, AsOf: q.AsOf, Exact: q.Exact, Highlight: q.Highlight, Explain: q.Explain, NoTouch: q.NoTouch, WithVectors: q.Vectors,
		OnlyWords: q.OnlyWords, Tokens: q.Tokens,
	}
	if q.Limit != nil {
		if of.Limit = *q.Limit; of.Limit < 1 {
			return of, invalid(doing, "the limit is below 1", "leave it out, or give 1 or more")
		}
	}
	if q.Query == "" && len(q.Embedding) == 0 {
		return of, invalid(doing, "there is no query", "give query, embedding or both")
	}
	if of.Filter, err = q.Filter.Parse(ctx); err != nil {
		return of, err
	}
	scopes, lack, err := q.Named(doing)
	if err != nil {
		return of, err
	}
	if q.Within != nil {
		scopes = q.Within
	}
	if of.Filter = (&Scope{Lack: lack}).lacking(of.Filter); len(scopes) > 1 {
		of.Scopes = scopes
		return of, nil
	}
	of.Scope = scopes[0]
	return of, nil
}

// Parts is what a database is asked that has a part of the answer.
type Parts struct {
	// Sum are the statistics of all parts, as far as they are known.
	Sum *memory.Statistics `json:"sum"`
	// Count asks for the statistics of the part, in the place of hits.
	Count bool `json:"count"`
	// Embed has the query embedded, if that has to be done.
	Embed bool `json:"embed,omitempty"`
	// Touch has the database note that these memories were recalled, by their Seqs, in the place of hits.
	Touch []uint64 `json:"touch,omitempty"`
}

// RecallRequest asks for memories.
type RecallRequest struct {
	Question `body:"object"`
	Lossy
}

// Recalled is the reply of Recall.
type Recalled struct {
	// Hits are the memories, the best first.
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
	// Counted is what the database has counted, where its part was asked to.
	*Counted `openapi:"-"`
}

// Counted is what a part has counted, with the vector of the query where that was made of its text.
type Counted struct {
	memory.Statistics
	// Embedding is the vector of the query.
	Embedding exchange.Vector `json:"embedding,omitempty"`
	// Space is the name of the vector space that it is in.
	Space string `json:"space,omitempty"`
}

// Recall finds memories.
var Recall = &Op[RecallRequest, Recalled]{
	Operation: Operation{Name: "recall", Route: "POST /recall", Summary: "Find the memories that match a query, best first", Doing: "recall"},
	Run: func(ctx context.Context, db *engine.DB, q *RecallRequest) (Recalled, error) {
		out := Recalled{Hits: []exchange.Hit{}}
		of, err := q.query(ctx, "recall")
		if err != nil {
			return out, err
		}
		if q.Parts != nil {
			switch {
			case len(q.Parts.Touch) > memory.MaxLimit:
				return out, invalid("recall", "more were recalled than a recall gives", "")
			case q.Parts.Touch != nil:
				return out, db.Memories().Touch(ctx, q.Parts.Touch)
			case q.Parts.Count:
				return out, out.count(ctx, db, of, q.Parts)
			}
			of.Statistics = q.Parts.Sum
		}
		of.Lost = func(err error) {
			out.Unreadable++
			if q.Lost != nil {
				q.Lost(err)
			}
		}
		r, err := db.Memories().Recall(ctx, of)
		if err != nil {
			return out, err
		}
		out.Unreadable = max(out.Unreadable, r.Unreadable)
		for _, h := range r.Hits {
			out.Hits = append(out.Hits, exchange.NewHit(h, of))
			if q.Parts != nil {
				out.Alike = append(out.Alike, h.Alike)
			}
		}
		out.Plan, out.Unembedded, out.Tokens = r.Plan, r.Unembedded, r.Tokens
		return out, nil
	},
}

// count counts what a query meets in a part.
func (r *Recalled) count(ctx context.Context, db *engine.DB, q memory.Query, of *Parts) (err error) {
	r.Counted = &Counted{}
	if of.Embed && len(q.Embedding) == 0 {
		if r.Embedding, r.Space, r.Unembedded, err = db.Memories().Embedding(ctx, q); err != nil {
			return err
		}
		q.Embedding, q.Space = r.Embedding, r.Space
	}
	q.Statistics = of.Sum
	r.Statistics, err = db.Memories().Statistics(ctx, q)
	return err
}

// WhyRequest asks why a recall finds a memory.
type WhyRequest struct {
	ID       string `path:"id" arg:"ID" help:"the ID of the memory"`
	Question `body:"object"`
	Lossy
}

// Why explains a recall.
var Why = &Op[WhyRequest, memory.Why]{
	Operation: Operation{Name: "why", Route: "POST /memories/{id}/why", Summary: "Explain why a recall finds a memory or does not", Doing: "why"},
	Run: func(ctx context.Context, db *engine.DB, q *WhyRequest) (memory.Why, error) {
		of, err := q.query(ctx, "why")
		if err != nil {
			return memory.Why{}, err
		}
		if of.Lost = q.Lost; of.Lost == nil {
			of.Lost = func(error) {}
		}
		return db.Memories().Why(ctx, of, q.ID)
	},
}
