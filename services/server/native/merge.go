package native

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-7aedc3ff/memdb/api"
	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/services/server"
)

// What is asked of somebody whose shard is not known is answered from the parts of all shards of a
// cluster.

// A partList is the list of one shard.
type partList[T any] struct {
	api.ListEnd
	shard int
	lines []T
}

// listsOf has each shard answer a list. They stand in the order of the shards.
func listsOf[T any](p *server.Parts) ([]partList[T], error) {
	parts, err := p.Ask(nil)
	if err != nil {
		return nil, err
	}
	lists := make([]partList[T], len(parts))
	for i, part := range parts {
		l := &lists[i]
		lines, last := part.LinesOf()
		if err := json.Unmarshal(last, &l.ListEnd); err != nil || !l.End {
			return nil, server.Fail(statusCut, "failed", "the list of shard %d was cut off", part.Shard)
		}
		l.shard, l.lines = part.Shard, make([]T, len(lines))
		for n, line := range lines {
			if err := json.Unmarshal(line, &l.lines[n]); err != nil {
				return nil, err
			}
		}
	}
	return lists, nil
}

// gathered has each shard answer a list, and returns the lines of all in the order of the shards,
// with how much is damaged.
func gathered[T any](p *server.Parts) (all []T, unreadable int, err error) {
	lists, err := listsOf[T](p)
	for _, l := range lists {
		all, unreadable = append(all, l.lines...), unreadable+l.Unreadable
	}
	return all, unreadable, err
}

// statusCut is that of a list that another node began and did not end.
const statusCut = http.StatusBadGateway

// A named line is one of which the name is known.
type named struct {
	raw
	name string
}

func namedBy(key string) func(r raw) string {
	return func(r raw) string {
		var of map[string]json.RawMessage
		var name string
		if json.Unmarshal(r, &of) == nil && json.Unmarshal(of[key], &name) == nil {
			return name
		}
		return ""
	}
}

var (
	byUser  = namedBy("user")
	byAgent = namedBy("id")
)

// mergeLines answers the lines of all shards, in the order of their names.
func mergeLines(name func(r raw) string) func(c *server.Call, p *server.Parts) error {
	return func(c *server.Call, p *server.Parts) error {
		lines, unreadable, err := gathered[raw](p)
		if err != nil {
			return err
		}
		all := make([]named, len(lines))
		for i, l := range lines {
			all[i] = named{l, name(l)}
		}
		slices.SortStableFunc(all, func(a, b named) int { return strings.Compare(a.name, b.name) })
		a := &ask{Call: c}
		return a.list(func(s *stream) error {
			s.end.Unreadable = unreadable
			for _, l := range all {
				if err := s.write(json.RawMessage(l.raw)); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// mergeGroups adds up the groups of all shards. One that several have, as that of an agent, stands
// where the first has it.
func mergeGroups(c *server.Call, p *server.Parts) error {
	lines, unreadable, err := gathered[memory.GroupSize](p)
	if err != nil {
		return err
	}
	sums := map[memory.Scope]int{} // places in all
	var all []memory.GroupSize
	for _, g := range lines {
		i, known := sums[g.Scope]
		if !known {
			sums[g.Scope] = len(all)
			all = append(all, g)
			continue
		}
		of := &all[i]
		of.Memories += g.Memories
		if g.First.Before(of.First) {
			of.First = g.First
		}
		if g.Last.After(of.Last) {
			of.Last = g.Last
		}
	}
	slices.SortStableFunc(all, func(a, b memory.GroupSize) int {
		return cmp.Or(strings.Compare(a.User, b.User), strings.Compare(a.Agent, b.Agent), strings.Compare(a.Run, b.Run))
	})
	a := &ask{Call: c}
	return a.list(func(s *stream) error {
		s.end.Unreadable = unreadable
		return writeAll(s, all)
	})
}

// defaultPage is how many a list has where that is not said.
const defaultPage = 100

// countIn is a limit as a call has it. The shards have refused what is no number by then.
func countIn(s string) map[string][]any {
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil {
		return nil
	}
	return map[string][]any{"limit": {int(n)}}
}

// usualHits is how many hits a recall has where that is not said, as in the engine.
const usualHits = 10

// mergeRecall answers a recall from all shards as one database with everything would: the statistics
// of all are summed in rounds, each shard ranks its own by the sums, and the hits are joined by
// their scores. One shard embeds the query for all.
func mergeRecall(c *server.Call, p *server.Parts) error {
	var asked map[string]json.RawMessage
	if err := json.Unmarshal(p.Body(), &asked); err != nil {
		return invalid("recall", err.Error(), "")
	}
	limit := usualHits
	if of, given := asked["limit"]; given {
		if err := json.Unmarshal(of, &limit); err != nil {
			return invalid("recall", "the limit is no number", "")
		}
	}
	out := api.Recalled{Hits: []exchange.Hit{}}
	var sum memory.Statistics
	for n := 0; sum.Lacks(); n++ {
		parts, err := askWith(p, asked, api.Parts{Sum: &sum, Count: true, Embed: n == 0})
		if err != nil {
			return err
		}
		for _, part := range parts {
			s := api.Recalled{Counted: &api.Counted{}}
			if err := json.Unmarshal(part.Body, &s); err != nil {
				return err
			}
			if err := sum.Add(&s.Statistics); err != nil {
				return err
			}
			out.Unembedded = cmp.Or(out.Unembedded, s.Unembedded)
			if len(s.Embedding) > 0 {
				if err := setAll(asked, map[string]any{"embedding": s.Embedding, "space": s.Space}); err != nil {
					return err
				}
			}
		}
		if n == mostRounds {
			return server.Fail(http.StatusBadGateway, "failed", "the shards do not end to count; see that all nodes run one version of memdbd")
		}
	}
	quiet := false
	if of, given := asked["no_touch"]; given && json.Unmarshal(of, &quiet) != nil {
		return invalid("recall", "no_touch is neither true nor false", "")
	}
	asked["no_touch"] = json.RawMessage("true") // what no room is left for was not recalled
	parts, err := askWith(p, asked, api.Parts{Sum: &sum})
	if err != nil {
		return err
	}
	lists := make([][]partHit, len(parts))
	for i, part := range parts {
		var found api.Recalled
		if err := json.Unmarshal(part.Body, &found); err != nil {
			return err
		}
		lists[i] = partHitsOf(&found)
		out.Unreadable += found.Unreadable
	}
	given := slices.Clone(lists)
	if out.Hits = joinHits(lists, limit); !quiet {
		for i := range given {
			given[i] = given[i][:len(given[i])-len(lists[i])]
		}
		if err := touchGiven(p, asked, given); err != nil && c.Context().Err() != nil {
			return err // otherwise some are not counted, and what was found is found all the same
		}
	}
	return c.Reply(http.StatusOK, out)
}

// touchGiven has each shard note which of its hits were given.
func touchGiven(p *server.Parts, asked map[string]json.RawMessage, given [][]partHit) error {
	var parts []server.Part
	for shard, hits := range given {
		if len(hits) == 0 {
			continue
		}
		of := api.Parts{}
		for _, h := range hits {
			of.Touch = append(of.Touch, h.Seq)
		}
		body, err := bodyWith(asked, of)
		if err != nil {
			return err
		}
		parts = append(parts, server.Part{Shard: shard, Body: body})
	}
	return p.AskSome(parts)
}

// mostRounds is more than a recall takes to have its statistics.
const mostRounds = 9

// partHit is a hit of a shard. alike is its score by near words, where these alone found it.
type partHit struct {
	exchange.Hit
	alike float64
}

// partHits are the hits of a shard's answer.
func partHitsOf(r *api.Recalled) []partHit {
	hits := make([]partHit, len(r.Hits))
	for i, h := range r.Hits {
		hits[i].Hit = h
		if i < len(r.Alike) {
			hits[i].alike = r.Alike[i]
		}
	}
	return hits
}

// joinHits takes the best of several lists out of them, best first. Of equal ones those that near words alone found come
// last, by what these give them, and the others stand in the order of their creation; those of one list stand in its own,
// which corrections give.
func joinHits(lists [][]partHit, limit int) []exchange.Hit {
	out := []exchange.Hit{}
	for len(out) < limit {
		best := -1
		for i, l := range lists {
			if len(l) > 0 && (best < 0 || compareHits(&l[0], &lists[best][0]) < 0) {
				best = i
			}
		}
		if best < 0 {
			break
		}
		out = append(out, lists[best][0].Hit)
		lists[best] = lists[best][1:]
	}
	return out
}

func compareHits(a, b *partHit) int {
	switch {
	case a.Score != b.Score:
		return cmp.Compare(b.Score, a.Score)
	case a.Near != b.Near && a.Near:
		return 1
	case a.Near != b.Near:
		return -1
	}
	return cmp.Or(cmp.Compare(b.alike, a.alike), a.CreatedAt.Compare(b.CreatedAt.Time))
}

// askWith asks all shards, with what the call asked and what the parts need beside it.
func askWith(p *server.Parts, asked map[string]json.RawMessage, of api.Parts) ([]server.Part, error) {
	body, err := bodyWith(asked, of)
	if err != nil {
		return nil, err
	}
	return p.Ask(body)
}

func bodyWith(asked map[string]json.RawMessage, of api.Parts) ([]byte, error) {
	if err := setAll(asked, map[string]any{"parts": of}); err != nil {
		return nil, err
	}
	return json.Marshal(asked)
}

// setAll sets fields of an object.
func setAll(object map[string]json.RawMessage, fields map[string]any) error {
	for name, value := range fields {
		b, err := json.Marshal(value)
		if err != nil {
			return err
		}
		object[name] = b
	}
	return nil
}
