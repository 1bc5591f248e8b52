package facts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// SearchOptions changes what Search finds. nil is the default.
type SearchOptions struct {
	// Limit is the number of facts: 0 is DefaultLimit, at most memory.MaxLimit.
	Limit int
	// Filter chooses which facts may be found.
	Filter filter.Filter
	// After is Found.Next of the page before, for GetAll. A search has one page.
	After string
}

// Found is the answer of Search and of GetAll.
type Found struct {
	// Results are the facts.
	Results []Item
	// Relations are those of the graph around the entities that the query names.
	Relations []Relation
	// Degraded tells what was done in a lesser way.
	Degraded []Degradation
	// Next is where GetAll goes on: After of the next page, empty where none follows.
	Next    string
	version Version
}

// MarshalJSON writes the answer in the version of the configuration.
func (f Found) MarshalJSON() ([]byte, error) {
	return marshalReply(f.version, f.Results, f.Relations, f.Degraded)
}

const (
	doingSearch = "search facts"
	doingList   = "list facts"
)

// Search finds the facts of a scope that fit a query best, in descending order of score:
// see Item.Score. Those without anything in common with the query are not found. Where
// the query cannot be embedded, the words alone count. ErrScope without a scope;
// ErrInvalid for an empty query, a limit or a filter that cannot be.
func (f *Facts) Search(ctx context.Context, s scope.Scope, query string, o *SearchOptions) (Found, error) {
	if o == nil {
		o = &SearchOptions{}
	}
	limit, err := f.checkQuery(doingSearch, s, o.Limit, o.Filter)
	if err != nil {
		return Found{}, err
	}
	if query == "" {
		return Found{}, invalid(doingSearch, "the query is empty", "give some words, or list the facts")
	}
	answer := Found{version: f.Version}
	vec, err := f.embedOne(ctx, query)
	if err != nil {
		if ctx.Err() != nil {
			return Found{}, ctx.Err()
		}
		answer.Degraded = append(answer.Degraded, degradation(StepEmbedding, "", "the words of the query alone were looked for: "+err.Error(), err))
	}
	found, err := f.rank(ctx, f.DB.Memories(), s, query, vec, limit, within(s, f.ExactReads, o.Filter))
	if err != nil {
		return Found{}, err
	}
	if f.Graph {
		found, answer.Relations, err = f.searchGraph(ctx, s, query, found, o.Filter)
		if ctx.Err() != nil {
			return Found{}, ctx.Err()
		}
		if err != nil {
			answer.Degraded = append(answer.Degraded, degradation(StepGraph, "", err.Error(), err))
		}
	}
	f.tell(answer.Degraded)
	for i := range found[:min(len(found), limit)] {
		item := newItem(&found[i].Memory)
		item.Score = &found[i].score
		answer.Results = append(answer.Results, item)
	}
	return answer, nil
}

func (f *Facts) checkQuery(doing string, s scope.Scope, limit int, also filter.Filter) (int, error) {
	if err := checkScope(doing, s); err != nil {
		return 0, err
	}
	if limit < 0 || limit > memory.MaxLimit {
		return 0, invalid(doing, fmt.Sprintf("the limit is %d", limit), fmt.Sprintf("give 1 to %d, or 0 for %d", memory.MaxLimit, DefaultLimit))
	}
	if limit == 0 {
		limit = DefaultLimit
	}
	return limit, filter.Check(also)
}

// GetAll lists facts of a scope by the order of their first storing, a page at a time.
func (f *Facts) GetAll(ctx context.Context, s scope.Scope, o *SearchOptions) (Found, error) {
	if o == nil {
		o = &SearchOptions{}
	}
	limit, err := f.checkQuery(doingList, s, o.Limit, o.Filter)
	if err != nil {
		return Found{}, err
	}
	page, err := f.DB.Memories().List(ctx, memory.ListQuery{Scope: s, Filter: within(s, f.ExactReads, o.Filter), Limit: limit, Cursor: o.After})
	if err != nil {
		return Found{}, err
	}
	answer := Found{Next: page.Next, version: f.Version}
	for i := range page.Memories {
		answer.Results = append(answer.Results, newItem(&page.Memories[i]))
	}
	return answer, nil
}

// Get returns the fact of an ID, nil where there is none. An empty scope finds it in any
// scope, so a program that serves several users gives one; ErrAmbiguous where several
// owners have one of this ID.
func (f *Facts) Get(ctx context.Context, s scope.Scope, id string) (*Item, error) {
	m, err := f.get(ctx, f.DB.Memories(), "get a fact", s, id)
	if errors.Is(err, memory.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return new(newItem(&m)), nil
}

// get finds a memory that is a fact. ErrNotFound where there is none.
func (f *Facts) get(ctx context.Context, memories engine.Memories, doing string, s scope.Scope, id string) (memory.Memory, error) {
	m, err := memories.Get(ctx, s, id)
	if err == nil && (m.Kind != memory.KindFact || !f.visible(s, m.Scope)) {
		return memory.Memory{}, notFound(doing)
	}
	return m, err
}

// visible reports whether a call with scope s sees a fact of another, as far as
// ExactReads tells.
func (f *Facts) visible(s, of scope.Scope) bool {
	return !f.ExactReads || s == (scope.Scope{}) || s == of
}

// Record is an entry of the history of a fact.
type Record struct {
	// ID is that of the event, MemoryID that of the fact.
	ID        string    `json:"id"`
	MemoryID  string    `json:"memory_id"`
	Event     Event     `json:"event"`     // ADD, UPDATE or DELETE
	OldValue  *string   `json:"old_value"` // nil for an ADD
	NewValue  *string   `json:"new_value"` // nil for a DELETE
	Timestamp time.Time `json:"timestamp"`
	IsDeleted bool      `json:"is_deleted"`
	scopeJSON
}

// MarshalJSON writes the record with its time in milliseconds, UTC.
func (r Record) MarshalJSON() ([]byte, error) {
	type plain Record
	return json.Marshal(struct {
		plain
		Timestamp clock.Instant `json:"timestamp"`
	}{plain(r), clock.Instant{Time: r.Timestamp}})
}

// History lists what happened to the text of a fact, oldest first, also after it was
// deleted. It is empty where there never was such a fact, or a Reset came after it. The
// scope is as in Get.
func (f *Facts) History(ctx context.Context, s scope.Scope, id string) (records []Record, err error) {
	entries, err := f.DB.Memories().History(ctx, s, id)
	if errors.Is(err, memory.ErrNotFound) {
		return []Record{}, nil
	}
	if err != nil {
		return nil, err
	}
	ended, err := f.endedByReset(ctx, entries)
	if err != nil {
		return nil, err
	}
	records = []Record{}
	for _, e := range entries {
		same := e.Event == memory.EventUpdate && e.OldText != nil && e.NewText != nil && *e.OldText == *e.NewText
		if e.Kind != memory.KindFact || ended[e.Seq] || same || !f.visible(s, e.Scope) {
			continue
		}
		records = append(records, Record{
			e.ID, e.MemoryID, Event(e.Event), e.OldText, e.NewText, e.Time, e.IsDeleted, scopeOf(e.Scope),
		})
	}
	return records, nil
}
