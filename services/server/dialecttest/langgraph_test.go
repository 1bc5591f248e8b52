package dialecttest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/exchange/move"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// langItem is an item of LangGraph's store, as a dump of it has it.
type langItem struct {
	Namespace []string       `json:"namespace"`
	Key       string         `json:"key"`
	Value     map[string]any `json:"value"`
	CreatedAt time.Time      `json:"created_at"`
	UpdatedAt time.Time      `json:"updated_at"`
	TTL       *float64       `json:"ttl,omitempty"`
	Index     any            `json:"index,omitempty"`
}

func (i *langItem) ends() time.Time {
	if i.TTL == nil {
		return time.Time{}
	}
	return i.UpdatedAt.Add(time.Duration(*i.TTL * float64(time.Minute)))
}

// TestLangGraph verifies that items of a dump are answered as the product answers them: by key, by
// namespace, by fields, until their time to live ends.
func TestLangGraph(t *testing.T) {
	r, s := random(t), newSite(t)
	now := s.clock.Now()
	var all []langItem
	for n := range 30 {
		i := langItem{Key: fmt.Sprint("k", n), Value: map[string]any{"n": r.IntN(3), "text": fmt.Sprint("about bees ", n)}}
		for range 1 + r.IntN(3) {
			i.Namespace = append(i.Namespace, []string{"users", "ada", "plans"}[r.IntN(3)])
		}
		i.UpdatedAt = now.Add(-time.Duration(n) * time.Second).UTC()
		i.CreatedAt = i.UpdatedAt.Add(-time.Duration(r.IntN(1e6)) * time.Second)
		if r.IntN(2) == 0 {
			minutes := 1 + float64(r.IntN(4))
			i.TTL = &minutes
		}
		if r.IntN(3) == 0 {
			i.Index = false
		}
		all = append(all, i)
	}
	report, left := s.imports(move.LangGraph, toJSON(t, map[string]any{"items": all}), memory.Scope{})
	if report.Stored != len(all) || len(left) > 0 {
		t.Errorf("%+v, left out %v", report, left)
	}
	for range 4 {
		var want []any
		spaces := map[string][]string{}
		for _, i := range all {
			status := 200
			if ends := i.ends(); !ends.IsZero() && !ends.After(s.clock.Now()) {
				status = 404
			}
			got := s.ask(status, "GET /store/items?refresh_ttl=false&namespace="+strings.Join(i.Namespace, ".")+"&key="+i.Key, "")
			if status == 404 {
				continue
			}
			shown := map[string]any{"namespace": i.Namespace, "key": i.Key, "value": i.Value, "created_at": i.CreatedAt, "updated_at": i.UpdatedAt}
			same(t, i.Key, got, shown)
			if shown["score"] = nil; i.Namespace[0] == "users" && i.Value["n"] == 1 {
				want = append(want, shown)
			}
			spaces[strings.Join(i.Namespace, ".")] = i.Namespace
		}
		found := s.ask(200, "POST /store/items/search", `{"namespace_prefix":["users"],"filter":{"n":1},"limit":100,"refresh_ttl":false}`)
		if want == nil {
			want = []any{}
		}
		same(t, "search", at(found, "items"), want)
		var labels [][]string
		for _, space := range spaces {
			labels = append(labels, space)
		}
		slices.SortFunc(labels, slices.Compare[[]string])
		same(t, "namespaces", at(s.ask(200, "POST /store/namespaces", `{}`), "namespaces"), labels)
		s.clock.Advance(time.Minute)
	}
	meant := s.ask(200, "POST /store/items/search", `{"namespace_prefix":[],"query":"bees","limit":100,"refresh_ttl":false}`)
	for _, item := range at(meant, "items").([]any) {
		for _, i := range all {
			if i.Key == at(item, "key") && i.Index == false {
				t.Errorf("%s is not indexed, and a query finds it", i.Key)
			}
		}
	}
}

// TestLangGraphTwins verifies that an item is the same record whether it was imported or put, and
// that keys without a place are counted.
func TestLangGraphTwins(t *testing.T) {
	put, imported := newSite(t), newSite(t)
	body := `"namespace":["users","ada"],"key":"k","value":{"a":"text","b":["x"]},"index":["a"],"ttl":5`
	put.ask(204, "PUT /store/items", "{"+body+"}")
	at := put.clock.Now().UTC().Format(time.RFC3339Nano)
	_, left := imported.imports(move.LangGraph, fmt.Sprintf(`[{%s,"createdAt":%q,"updatedAt":%q,"score":0.5,"owner":"x"}]`, body, at, at), memory.Scope{})
	same(t, "left out", left, map[string]int{"score": 1, "owner": 1})
	of := func(s *site) memory.Memory {
		for m, err := range s.db.Memories().All(t.Context(), memory.ListQuery{AllScopes: true}) {
			if err == nil {
				m.Seq, m.NoteID = 0, 0
				return m
			}
		}
		return memory.Memory{}
	}
	same(t, "record", of(imported), of(put))
}
