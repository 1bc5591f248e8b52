package memory

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/policy"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// Syntax says how the text of a query is read.
type Syntax string

// The syntaxes.
const (
	// SyntaxPlain, or empty, takes the text as words: the quotes and dashes of
	// questions demand nothing.
	SyntaxPlain Syntax = "plain"
	// SyntaxOperators reads +word, -word, "a phrase", begin*, simil~, AND, OR and NOT.
	// What they demand holds for every hit, whatever has found it. No text is an
	// error: an operator that makes no sense where it stands is read as text.
	SyntaxOperators Syntax = "operators"
)

// Span is a part of a text: the bytes from Start up to but not including End.
type Span struct {
	// Start and End count bytes of the text, from 0 on.
	Start int `json:"start"`
	End   int `json:"end"`
}

// Highlight returns a text with a mark before and one after each span.
func Highlight(text string, spans []Span, before, after string) string {
	var b strings.Builder
	at := 0
	for _, s := range spans {
		if s.Start < at || s.End < s.Start || s.End > len(text) {
			continue
		}
		b.WriteString(text[at:s.Start] + before + text[s.Start:s.End] + after)
		at = s.End
	}
	return b.String() + text[at:]
}

// Profile names a way of ranking.
type Profile string

// The profiles. An empty one is ProfileBest. A text without words, of spaces or
// punctuation alone, finds nothing by itself, under any of them.
//
// A cosine is that of the query's and the memory's vector, -1 to 1. In spaces of
// another metric the profiles put in its place the dot product, at least -1 and at most 1, or
// 1/(1+d) for a distance of d; ProfileVector the dot product as it is, or the negated distance.
const (
	// ProfileBest ranks by what finds most of what questions ask for: BM25, to
	// which the memories that stand next to one in its run lend theirs at lower
	// weight, and a share of what its run has of the query, more for turns of those whom the
	// question is about, for answers, and for what fits its time; and, where the query has a
	// vector that was given or learned, how far the cosine stands out, by a weight that the
	// vectors of the space have earned: see [policy.Trust]. A memory without such a vector is
	// ranked by its text alone, and a cosine below the others' counts as 0: no signal takes
	// away what another has found.
	ProfileBest Profile = "best"
	// ProfileText ranks by BM25 over the indexed text. Only memories that have a
	// word of the query are hits.
	ProfileText Profile = "text"
	// ProfileVector ranks by the cosine. Memories without a vector are no hits.
	ProfileVector Profile = "vector"
	// ProfileHybrid ranks by 50% cosine, 25% share of the query's keywords that
	// were found, 10% recency with a half-life of a week, 10% importance and 5%
	// confidence. A missing signal counts as 0, a cosine below 0 against the
	// memory.
	ProfileHybrid Profile = "hybrid"
	// ProfileSubstrate ranks the memories that have a word of the query by 60% BM25, as
	// a share of the best match's, 15% recency with a half-life of a week, 15% frequency of
	// access, which fades by 5% a day since the last one, and 10% importance, which fades in
	// the same way; where the query has a vector that was given or learned, also by how far
	// the cosine stands out, with a weight that the vectors have earned. See
	// [policy.Substrate] and [policy.Trust].
	ProfileSubstrate Profile = "substrate"
)

// Query asks for the memories that fit a text, a vector, or both.
type Query struct {
	Scope
	// Scopes are searched as one, in place of Scope: at most MaxScopes. A memory in
	// several of them is found once.
	Scopes []Scope
	// AllScopes searches every owner's memories: for administration only. No scope is
	// given beside it.
	AllScopes bool
	Text      string
	// Embedding is the query's vector in Space. Where it is missing, the
	// database's embedder makes it of Text.
	Embedding []float32
	// Space names the vector space, one that exists where the query has an Embedding; empty is "default", or the built-in lexical
	// space for memories without a vector.
	Space string
	// Filter chooses which memories may be hits; nil is all.
	Filter filter.Filter
	// Syntax says how Text is read.
	Syntax Syntax
	// Limit is the number of hits: 0 is 10, at most MaxLimit.
	Limit   int
	Profile Profile
	// MinScore leaves out hits of a lower score: 0 leaves out none. What a score means
	// depends on the profile: only those of cosines compare from one query to another.
	MinScore float64
	// AsOf is the LSN of a past state to search, of those that are retained: see
	// Options.Retain. 0 is the newest state. Access counts and times are the
	// newest, and what has expired by now is gone from past states, too. A state
	// of before the database was opened, and in an Update any, is ErrNotRetained
	// or ErrInvalid.
	AsOf uint64
	// Exact scores every memory in scope by its vector, whatever that takes. Without
	// it, scopes of more than 20,000 memories are searched by a graph, which may
	// miss some of the closest; scores are exact either way.
	Exact bool
	// Highlight fills Hit.Spans.
	Highlight bool
	// Explain fills Result.Plan.
	Explain bool
	// Graph is the weight of the owner's graph, 0 to 1, for ProfileBest: what the memories
	// that are linked to entities which the text names, or which lie near those, get beside
	// the score of their texts and vectors, and they are hits though their texts have no word
	// of it. 0 leaves the graph alone; policy.GraphWeight is a weight to begin with.
	Graph float64
	// OnlyWords finds only memories that have words of the text. Without it, the profiles
	// best, text and substrate also take words of memories that are near those of the text
	// that no memory in scope has, and near any where fewer memories than Limit have them.
	// What has only these stands behind all else, and Hit.Near says so; Plan.Near lists the
	// words. A text with operators, or with a vector, does without.
	OnlyWords bool
	// Statistics are those of all that the query means, where the database has a part of it: see
	// Statistics. nil: the database has all of it.
	Statistics *Statistics
	// Ranking leaves out parts of the ranking, for measurements of what each gains. The zero Ranking
	// has them all.
	Ranking policy.Ranking
	// Tokens is how many tokens the hits may have together, for a prompt: 0 is no bound. Hits
	// that are worth it are given whole, the best first, without those that repeat another one,
	// and a short answer with the question before it (Hit.Asked). Limit is 100 then, unless it is
	// given.
	Tokens int
	// Count counts the tokens of a text; nil: a token for each four bytes, rounded up. The module
	// tokens of this repository has the counts of OpenAI's models.
	Count func(string) int
	// Rerank, if there is one, puts the hits into another order: it returns their places in it,
	// the best first, and those that it leaves out follow. It is given RerankWithin, 0 is
	// [RerankWithin]; where it fails or takes longer the order stays, and Result.Unranked says
	// why. It runs in a goroutine of its own, is not to change the hits, and scores stay as they
	// are.
	Rerank       func(ctx context.Context, query string, hits []Hit) (order []int, err error)
	RerankWithin time.Duration
	// NoTouch leaves access counts and times as they are.
	NoTouch bool
	// WithVectors also reads the vectors of the hits.
	WithVectors bool
	// Lost is called with each error of what is damaged and would have a part in the answer,
	// which is found without it: a memory, or a vector. nil: the first one ends the recall.
	Lost func(error)
}

// Signals are the weighted parts of a score, which is their sum. For the profile
// text only BM25 is set, for vector only Cosine.
type Signals struct {
	// Cosine is what stands for it in the profile, in spaces of another metric too.
	Cosine   float64 `json:"cosine"`
	Keywords float64 `json:"keywords"`
	BM25     float64 `json:"bm25"`
	// Neighbours is what the memories next to it in its run add to BM25.
	Neighbours float64 `json:"neighbours"`
	// Session is what its run adds: how much of the query is said in it.
	Session float64 `json:"session"`
	// SecondLook is what the terms of the first hits add, among memories of no run.
	SecondLook float64 `json:"second_look"`
	Recency    float64 `json:"recency"`
	// Access is the part of the frequency of access.
	Access     float64 `json:"access"`
	Importance float64 `json:"importance"`
	Confidence float64 `json:"confidence"`
	// Graph is what entities that the query names, and those near them, say for the memory.
	Graph float64 `json:"graph"`
	// Fact is what lifts a fact above an older message that says no more of what was asked.
	Fact float64 `json:"fact"`
}

// Each calls visit with each part, by its name in JSON.
func (p Signals) Each(visit func(name string, value float64)) {
	visit("cosine", p.Cosine)
	visit("keywords", p.Keywords)
	visit("bm25", p.BM25)
	visit("neighbours", p.Neighbours)
	visit("session", p.Session)
	visit("second_look", p.SecondLook)
	visit("recency", p.Recency)
	visit("access", p.Access)
	visit("importance", p.Importance)
	visit("confidence", p.Confidence)
	visit("graph", p.Graph)
	visit("fact", p.Fact)
}

// Hit is a memory that was found.
type Hit struct {
	Memory
	// Score is what the profile ranks by, and Parts what it consists of.
	Score float64 `json:"score"`
	Parts Signals `json:"parts"`
	// Near: it has none of the query's words, but words near them; see Query.OnlyWords. Such hits stand behind all
	// others.
	Near bool `json:"near,omitempty"`
	// Alike is the score by near words alone of a hit that is Near, where the query has Statistics: of those with the same
	// Score, which is at most that of the hits before them, the higher comes first.
	Alike float64 `json:"alike,omitempty"`
	// Spans are where Text has what the query looks for, in ascending order, with
	// Query.Highlight.
	Spans []Span `json:"spans,omitempty"`
	// Asked is the turn before it in its run, which it answers, with Query.Tokens.
	Asked *Memory `json:"asked,omitempty"`
}

// Result is the answer to a Query: hits in descending order of score, equal
// scores in ascending order of Seq.
type Result struct {
	// Hits are the memories that were found, the best first.
	Hits []Hit
	Plan *Plan // nil without Explain
	// Unembedded says why the query has no vector that compares with those of the memories, so
	// that its text alone ranked. Empty where it has one, or needs none.
	Unembedded string
	// Unranked says why Query.Rerank did not rank.
	Unranked string
	// Tokens is how many the hits have, and the questions before them, with Query.Tokens.
	Tokens int
	// Unreadable is how many damages of the database are known, 0 where it is whole: memories that
	// fit may be missing.
	Unreadable int
}

// Plan tells how an answer was found.
type Plan struct {
	// Profile is the way of ranking, LSN the state that was searched.
	Profile Profile `json:"profile"`
	LSN     uint64  `json:"lsn"`
	// InScope is the number of memories that scope and filter left.
	InScope int `json:"in_scope"`
	// Candidates is the number of memories that were scored by every signal.
	Candidates int `json:"candidates"`
	// Rescored is the number of memories whose vector was read, since the codes of
	// vectors in memory left open whether they are among the best. Of a search by
	// graph they are not counted.
	Rescored int `json:"rescored,omitempty"`
	// Exhaustive: every memory in scope was a candidate.
	Exhaustive bool `json:"exhaustive"`
	// Speaker is who the question is about, by its name; empty where it names none of those
	// who speak in scope, or several. Role is whose turns it is about without a name: the
	// user's, where it says "I", or the assistant's, where it asks what "you" said.
	Speaker string `json:"speaker,omitempty"`
	Role    Role   `json:"role,omitempty"`
	// When says that the question asks for a time; From and To are the days that it names,
	// up to but not including To, as RFC 3339.
	When bool      `json:"when,omitempty"`
	From time.Time `json:"from,omitzero"`
	To   time.Time `json:"to,omitzero"`
	// Graph says what the graphs of the owners gave, of those where the text names an entity.
	// GraphWhy is why they were not asked although Query.Graph is set.
	Graph    []GraphPlan `json:"graph,omitempty"`
	GraphWhy string      `json:"graph_why,omitempty"`
	// SecondLook are the terms of the first hits for which matches were scored again,
	// none where a first hit has all terms of the query.
	SecondLook []string `json:"second_look,omitempty"`
	// Approximate: vectors were searched by their graph, or by one bit a component first.
	Approximate bool `json:"approximate,omitempty"`
	// VectorMiss is the chance at most that the search of vectors has missed a certain one of
	// the nearest, where it is known: where all were compared by their bits. VectorUnsure: a
	// walk over the graph ended although it could not tell whether there are nearer ones.
	VectorMiss   float64  `json:"vector_miss,omitempty"`
	VectorUnsure bool     `json:"vector_unsure,omitempty"`
	Terms        []string `json:"terms,omitempty"`
	// Near are the words near those of the query that memories were found by, or counted
	// more for: see Query.OnlyWords.
	Near []string `json:"near,omitempty"`
	// Languages are those besides English in which the words of the query were read, as codes
	// of ISO 639-1: those that memories of the scope are in, and for memories of one to three
	// words the one that the query is in; "und" for all that are written in Latin letters.
	Languages []string `json:"languages,omitempty"`
	// Vector is the space that was searched, empty for none.
	Vector string `json:"vector,omitempty"`
	// Trust is what the vector counted for, under ProfileBest.
	Trust *Trust `json:"trust,omitempty"`
	// Unembedded is that of the Result.
	Unembedded string  `json:"unembedded,omitempty"`
	Stages     []Stage `json:"stages"`
}

// Trust is what the vectors of a space count for: Weight for each standard deviation by which a
// cosine is above the mean of the scope's, from Floor of them on. See policy.Trust.
type Trust struct {
	// Weight is what one deviation counts for.
	Weight float64 `json:"weight"`
	// Mean and Deviation are those of the similarities of a sample of the scope.
	Mean      float64 `json:"mean"`
	Deviation float64 `json:"deviation"`
	// Floor is from how many deviations above the mean on a similarity counts.
	Floor float64 `json:"floor"`
}

// GraphPlan says what the graph of an owner gave a recall.
type GraphPlan struct {
	// Scope is the owner's.
	Scope Scope `json:"scope"`
	// Named are the IDs of the entities that the text names, in the order of the names.
	Named []string `json:"named"`
	// Like are those of them whose names the text has not, but others that are like them.
	Like []string `json:"like,omitzero"`
	// Entities is how many were ranked.
	Entities int `json:"entities"`
	// Memories is how many are linked to them.
	Memories int `json:"memories"`
	// Source is "memory" or "keys", and Why says why it was not memory.
	Source string `json:"source"`
	Why    string `json:"why,omitzero"`
}

// Stage is one step of a plan.
type Stage struct {
	// Name says what was done, Micros how many microseconds it took.
	Name   string `json:"name"`
	Micros int64  `json:"us"`
}

// defaultLimit is how many hits a query wants that does not say.
const defaultLimit = 10

// fillLimit is defaultLimit where the tokens of the hits are bounded.
const fillLimit = 100

// RerankWithin is how long Query.Rerank may take that does not say.
const RerankWithin = 2 * time.Second

// Complete checks a query by itself and fills in its defaults.
func (q *Query) Complete(doing string) error {
	if err := q.checkScopes(doing); err != nil {
		return err
	}
	if math.IsNaN(q.MinScore) {
		return fault.Invalid(doing, "its least score is no number", "give a number, or none")
	}
	limit := defaultLimit
	if q.Tokens > 0 {
		limit = fillLimit
	}
	if q.Tokens < 0 || q.RerankWithin < 0 {
		return fault.Invalid(doing, "its bound of tokens, or of the time to rank again, is negative", "give a positive one, or none")
	}
	var err error
	if q.Limit, err = valid.Limit(doing, q.Limit, limit); err != nil {
		return err
	}
	if err := CheckText(doing, q.Text); err != nil {
		return err
	}
	if q.Text == "" && q.Embedding == nil {
		return fault.Invalid(doing, "the query has neither a text nor an embedding", "give at least one of them, or list the memories")
	}
	if err := q.checkRanking(doing); err != nil {
		return err
	}
	if q.Statistics != nil {
		if err := q.checkParts(doing); err != nil {
			return err
		}
	}
	return filter.Check(q.Filter)
}

// checkScopes refuses a query that does not say, or says twice, whose memories it means.
func (q *Query) checkScopes(doing string) error {
	if len(q.Scopes) == 0 {
		return CheckScope(doing, q.Scope, q.AllScopes)
	}
	if q.Scope != (Scope{}) || q.AllScopes {
		return fault.Invalid(doing, "Scopes was given beside Scope or AllScopes", "give one of them")
	}
	if len(q.Scopes) > MaxScopes {
		return fault.Invalid(doing, fmt.Sprintf("it names %d scopes", len(q.Scopes)), fmt.Sprintf("name at most %d", MaxScopes))
	}
	for _, s := range q.Scopes {
		if err := scope.Check(doing, s); err != nil {
			return err
		}
	}
	return nil
}

// checkRanking checks how the query is read and ranked.
func (q *Query) checkRanking(doing string) error {
	switch q.Profile {
	case ProfileBest, ProfileText, ProfileVector, ProfileHybrid, ProfileSubstrate:
	case "":
		q.Profile = ProfileBest
	default:
		return fault.Invalid(doing, fmt.Sprintf("unknown profile %q", valid.Short(string(q.Profile))),
			"use best, text, vector, hybrid or substrate")
	}
	const weights = "give a weight from 0 to 1, and the profile best"
	switch {
	case math.IsNaN(q.Graph) || q.Graph < 0 || q.Graph > 1:
		return fault.Invalid(doing, "the weight of the graph is not from 0 to 1", weights)
	case q.Graph > 0 && q.Profile != ProfileBest:
		return fault.Invalid(doing, "the graph is a source of the profile best alone", weights)
	}
	switch q.Syntax {
	case "", SyntaxPlain, SyntaxOperators:
		return nil
	}
	return fault.Invalid(doing, "unknown syntax "+valid.Short(string(q.Syntax)), "use plain or operators")
}
