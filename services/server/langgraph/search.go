package langgraph

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/services/server"
)

// wanted are the conditions on fields of values.
func wanted(fields map[string]any) (all []filter.Filter, err error) {
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		at := field + exchange.LangGraphValue + "." + name
		ops, isOps := fields[name].(map[string]any)
		if !isOps {
			ops = map[string]any{"$eq": fields[name]}
		}
		for op, value := range ops {
			compare, known := map[string]func(string, any) filter.Filter{
				"$eq": filter.Eq, "$ne": filter.Ne, "$gt": filter.Gt, "$gte": filter.Gte, "$lt": filter.Lt, "$lte": filter.Lte,
			}[op]
			if !known {
				return nil, invalid("filter: %.40q is no operator; use $eq, $ne, $gt, $gte, $lt, $lte", op)
			}
			switch value.(type) {
			case map[string]any, []any:
				return nil, invalid("filter: %.80q is compared with an object or a list; give a text, a number, a boolean or null", name)
			}
			all = append(all, compare(at, value))
		}
	}
	return all, nil
}

// scored is an item that a search has found.
type scored struct {
	item
	Score *float64 `json:"score"`
}

func checkWindow(limit, offset int) error {
	if limit < 1 || offset < 0 || limit > maxWindow-offset {
		return invalid("limit and offset: give a limit of 1 or more and an offset of 0 or more, together at most %d", maxWindow)
	}
	return nil
}

func (s *store) search(c *server.Call) error {
	body := struct {
		Prefix  []string        `json:"namespace_prefix"`
		Filter  exchange.Object `json:"filter"`
		Limit   int             `json:"limit"`
		Offset  int             `json:"offset"`
		Query   *string         `json:"query"`
		Refresh *bool           `json:"refresh_ttl"`
	}{Limit: 10}
	if err := c.Decode(&body); err != nil {
		return err
	}
	of, err := s.scope(c)
	if err == nil {
		err = checked(exchange.CheckLabels(body.Prefix, false))
	}
	if err == nil {
		err = checkWindow(body.Limit, body.Offset)
	}
	if err != nil {
		return err
	}
	fields, err := wanted(body.Filter)
	if err != nil {
		return err
	}
	which := append(items(of, body.Prefix), fields...)
	var hits []memory.Hit
	meant := body.Query != nil && strings.TrimSpace(*body.Query) != ""
	if meant {
		q := memory.Query{Scope: of, Text: *body.Query, Filter: filter.And(append(which, filter.Eq(field+exchange.LangGraphIndexed, true))...), Limit: body.Offset + body.Limit}
		result, err := c.DB.Memories().Recall(c.Context(), q)
		if err != nil {
			return err
		}
		hits = result.Hits[min(body.Offset, len(result.Hits)):]
	} else if hits, err = newest(c, of, filter.And(which...), body.Offset, body.Limit); err != nil {
		return err
	}
	found, read := []scored{}, []memory.Memory{}
	for i := range hits {
		one, is := itemOf(&hits[i].Memory)
		if !is {
			continue
		}
		read = append(read, hits[i].Memory)
		out := scored{item: one}
		if meant {
			out.Score = &hits[i].Score
		}
		found = append(found, out)
	}
	if body.Refresh == nil || *body.Refresh {
		if err := refresh(c, read); err != nil {
			return err
		}
	}
	return c.Reply(http.StatusOK, map[string]any{"items": found})
}

// newest are the items that were put last.
func newest(c *server.Call, of memory.Scope, which filter.Filter, offset, limit int) (hits []memory.Hit, err error) {
	for m, err := range c.DB.Memories().All(c.Context(), memory.ListQuery{Scope: of, Filter: which, OrderBy: "updated_at", Descending: true}) {
		if err != nil {
			return nil, err
		}
		if offset--; offset >= 0 {
			continue
		}
		if hits = append(hits, memory.Hit{Memory: m}); len(hits) == limit {
			break
		}
	}
	return hits, nil
}

// fits reports whether labels begin with a pattern, in which * is any label.
func fits(labels, pattern []string) bool {
	if len(labels) < len(pattern) {
		return false
	}
	for i, p := range pattern {
		if p != "*" && p != labels[i] {
			return false
		}
	}
	return true
}

func (s *store) namespaces(c *server.Call) error {
	body := struct {
		Prefix   []string `json:"prefix"`
		Suffix   []string `json:"suffix"`
		MaxDepth *int     `json:"max_depth"`
		Limit    int      `json:"limit"`
		Offset   int      `json:"offset"`
	}{Limit: 100}
	if err := c.Decode(&body); err != nil {
		return err
	}
	of, err := s.scope(c)
	for _, labels := range [][]string{body.Prefix, body.Suffix} {
		if err == nil {
			err = checked(exchange.CheckLabels(labels, false))
		}
	}
	if err == nil {
		err = checkWindow(body.Limit, body.Offset)
	}
	if err == nil && body.MaxDepth != nil && *body.MaxDepth < 1 {
		err = invalid("max_depth: give 1 or more")
	}
	if err != nil {
		return err
	}
	seen := map[string][]string{}
	for m, err := range c.DB.Memories().All(c.Context(), memory.ListQuery{Scope: of, Filter: filter.And(items(of, nil)...)}) {
		if err != nil {
			return err
		}
		one, is := itemOf(&m)
		if !is || !fits(one.Namespace, body.Prefix) || len(one.Namespace) < len(body.Suffix) || !fits(one.Namespace[len(one.Namespace)-len(body.Suffix):], body.Suffix) {
			continue
		}
		labels := one.Namespace
		if body.MaxDepth != nil {
			labels = labels[:min(len(labels), *body.MaxDepth)]
		}
		seen[strings.Join(labels, ".")] = labels
	}
	all := slices.SortedFunc(maps.Values(seen), slices.Compare[[]string])
	all = all[min(body.Offset, len(all)):]
	return c.Reply(http.StatusOK, map[string]any{"namespaces": append([][]string{}, all[:min(body.Limit, len(all))]...)})
}
