package mem0

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/seed-7aedc3ff/memdb/memory"
)

const (
	// topK and topKOpen are how many memories a search of the platform and one of the open server
	// find where they are not told, and maxTopK how many at most.
	topK     = 10
	topKOpen = 20
	maxTopK  = 1000
	// defaultThreshold is the score that is asked for where a request says none.
	defaultThreshold = 0.1
	// wider is how many times more hits are read than are asked for: the database ranks by age and
	// importance, too, so that its best are not quite those of the score.
	wider = 4
	// cosineWeight and wordsWeight are the weights of the parts of a score in memory.ProfileHybrid,
	// which the score of mem0 is made of.
	cosineWeight, wordsWeight = 0.5, 0.25
	// byWords is how much of a score words alone can make.
	byWords = 0.5
)

// searching is the body of a search, of all kinds of clients.
type searching struct {
	Query string `json:"query"`
	TopK  *int   `json:"top_k"`
	Limit *int   `json:"limit"`
	// Threshold bounds the score from below.
	Threshold     *float64        `json:"threshold"`
	Format        string          `json:"output_format"`
	ReferenceDate json.RawMessage `json:"reference_date"`
	Rerank        bool            `json:"rerank"`
	listing
}

// score is that of a hit, 0 to 1: 1 − (1−c)(1−w/2), where c is the cosine and w the share of the
// query's words that the memory has.
func score(h *memory.Hit) float64 {
	c := min(max(h.Parts.Cosine/cosineWeight, 0), 1)
	w := min(max(h.Parts.Keywords/wordsWeight, 0), 1)
	return 1 - (1-c)*(1-byWords*w)
}

// search finds the memories that fit a query best, in the order of their scores.
func (c *call) search(s *searching, top int) ([]item, error) {
	if strings.TrimSpace(s.Query) == "" {
		return nil, c.lacks("query", "it is required")
	}
	k := s.TopK
	if k == nil {
		k = s.Limit
	}
	top, err := bounded("top_k", k, top, 1, maxTopK)
	if err != nil {
		return nil, err
	}
	least := defaultThreshold
	if s.Threshold != nil {
		if least = *s.Threshold; least < 0 || least > 1 {
			return nil, invalid("search memories", "the threshold is not within 0 to 1", "")
		}
	}
	if isSet(s.ReferenceDate) {
		c.note("reference_date has no effect here")
	}
	if s.Rerank {
		c.note("rerank has no effect here")
	}
	w, err := s.wanted()
	if err != nil {
		return nil, err
	}
	sel, err := c.selected(w, s.Expired)
	if err != nil || sel.none {
		return []item{}, err
	}
	r, err := c.DB.Memories().Recall(c.Context(), memory.Query{
		Scopes: sel.scopes, AllScopes: sel.everyone(), Text: s.Query, Filter: sel.filter,
		Profile: memory.ProfileHybrid, Limit: min(max(wider*top, defaultPage), memory.MaxLimit), NoTouch: true,
	})
	if err != nil {
		return nil, err
	}
	if r.Unembedded != "" {
		c.note("the words of the query alone were looked for: %s", r.Unembedded)
	}
	list := []item{}
	for i := range r.Hits {
		if n := score(&r.Hits[i]); n >= least && n > 0 {
			it := newItem(&r.Hits[i].Memory)
			it.Score = &n
			list = append(list, it)
		}
	}
	slices.SortStableFunc(list, func(a, b item) int { return cmp.Compare(*b.Score, *a.Score) })
	return list[:min(len(list), top)], nil
}

// searchBody searches for what the body says, and returns items with the fields that it names.
func (c *call) searchBody(s *searching, top int) ([]any, error) {
	if err := c.DecodeLoose(s); err != nil {
		return nil, err
	}
	found, err := c.search(s, top)
	if err != nil {
		return nil, err
	}
	list := make([]any, len(found))
	for i, it := range found {
		if it.User == nil && c.form != open {
			it.User = new(string) // a text in the answers of the platform's searches
		}
		if list[i], err = only(it, s.Fields); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// searchV3 answers results. Entities stand within the filters.
func searchV3(c *call) error {
	var s searching
	list, err := c.searchBody(&s, topK)
	if err == nil && s.named != (named{}) {
		err = invalid("search memories", "user_id, agent_id, app_id and run_id stand beside the filters", "put them into filters")
	}
	if err != nil {
		return err
	}
	return c.Reply(http.StatusOK, map[string]any{"results": list})
}

// searchV2 answers a list.
func searchV2(c *call) error {
	var s searching
	list, err := c.searchBody(&s, topK)
	if err != nil {
		return err
	}
	return c.Reply(http.StatusOK, list)
}

// searchV1 answers a list, or results where the newer form is asked for.
func searchV1(c *call) error {
	var s searching
	list, err := c.searchBody(&s, topK)
	if err != nil {
		return err
	}
	if s.Format == "v1.1" || c.form == wrapper {
		return c.Reply(http.StatusOK, map[string]any{"results": list, "relations": []any{}})
	}
	return c.Reply(http.StatusOK, list)
}

// searchOpen answers results.
func searchOpen(c *call) error {
	var s searching
	list, err := c.searchBody(&s, topKOpen)
	if err != nil {
		return err
	}
	return c.Reply(http.StatusOK, map[string]any{"results": list, "relations": []any{}})
}

// searchByQuery answers the wrapper, which asks by the query of the address.
func searchByQuery(c *call) error {
	l, err := c.listingIn()
	if err != nil {
		return err
	}
	q := c.R.URL.Query()
	s := searching{Query: cmp.Or(q.Get("q"), q.Get("query")), listing: *l}
	if s.Limit, err = c.number("limit"); err != nil {
		return err
	}
	if s.Filters = json.RawMessage(q.Get("filters")); len(s.Filters) > 0 && !json.Valid(s.Filters) {
		return badFilter("they are no JSON", `write them as {"user_id":"alice"}`)
	}
	none := 0.0
	s.Threshold = &none
	found, err := c.search(&s, defaultPage)
	if err != nil {
		return err
	}
	return c.Reply(http.StatusOK, map[string]any{"results": found})
}
