package native

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/wal"
)

// indexes are those that can be rebuilt.
var indexes = []string{engine.IndexText, engine.IndexVectors, engine.IndexGraph, engine.IndexAll}

func database() []route {
	type Stats engine.Stats // its named keys; those of parts stand beside them
	return []route{
		{at: "GET /stats", summary: "Show statistics of the database", reply: Stats{}, admin: true, whole: true, stream: true, handle: stats},
		{at: "GET /stats/by/{what}", path: []param{{name: "what", kind: text, values: groupings, summary: "what to group by"}}, summary: "Count memories by user, agent or run, largest first", reply: memory.GroupSize{}, lines: true, admin: true, whole: true, handle: statsBy},
		{at: "GET /stats/since", summary: "Show what was written since a time", reply: engine.Growth{}, admin: true, whole: true, stream: true, handle: statsSince, params: []param{
			{name: "time", kind: moment, required: true, summary: "the time in RFC 3339"},
		}},
		{at: "POST /check", summary: "Verify the database and its indexes", reply: engine.Report{}, admin: true, whole: true, stream: true, handle: check, params: []param{
			{name: "deep", kind: flag, summary: "also compare searches of the vector index with exact ones"},
		}},
		{at: "POST /compact", summary: "Free disk space that no live data uses", reply: exchange.Compacted{}, admin: true, whole: true, stream: true, handle: compact},
		{at: "POST /rebuild/{index}", path: []param{{name: "index", kind: text, values: indexes, summary: "the index"}}, summary: "Rebuild an index", reply: exchange.Rebuilt{}, lines: true, admin: true, whole: true, handle: rebuild},
		{at: "POST /embed", summary: "Embed memories that have no vector", reply: embedded{}, admin: true, whole: true, stream: true, handle: embed, params: []param{
			{name: "limit", kind: count, summary: "the largest number of memories; 0, the default, means all"},
		}},
		{at: "POST /reset", summary: "Delete everything in the database", reply: deletedOne, admin: true, whole: true, stream: true, handle: reset, params: []param{confirmed}},
		{at: "GET /log", summary: "List committed changes in their order", reply: wal.ChangeLine{}, lines: true, handle: tail, params: inAll(
			param{name: "from", kind: lsn, summary: "the LSN of the first commit; the default is the oldest in the log"},
			param{name: "limit", kind: count, summary: "the largest number of changes; 0, the default, returns all"},
			param{name: "follow", kind: flag, summary: "continue with later commits until the client disconnects"},
			param{name: "accesses", kind: flag, summary: "include how often recalls have found each memory"},
		)},
	}
}

func stats(a *ask) error {
	s, err := a.DB.Stats(a.Context())
	if err == nil {
		err = a.DB.AddStructures(a.Context(), &s)
	}
	return a.ok(s, err)
}

func statsBy(a *ask) error {
	sizes, err := a.DB.Memories().Groups(a.Context(), memory.GroupQuery{AllScopes: true, By: memory.Group(a.id("what"))})
	if err != nil {
		return err
	}
	slices.SortStableFunc(sizes, func(x, y memory.GroupSize) int { return cmp.Compare(y.Memories, x.Memories) })
	return a.list(func(s *stream) error { return writeAll(s, sizes) })
}

func statsSince(a *ask) error {
	at := value[time.Time](a, "time")
	if at.After(a.now()) {
		return invalid("show what was written", "the time is still to come", "give an earlier one")
	}
	g, err := a.DB.GrowthSince(a.Context(), at)
	return a.ok(g, err)
}

func check(a *ask) error {
	do := a.DB.Check
	if value[bool](a, "deep") {
		do = a.DB.CheckDeep
	}
	r, err := do(a.Context())
	if r.Problems == nil {
		r.Problems = []engine.Problem{}
	}
	return a.ok(r, err)
}

func compact(a *ask) error {
	c, err := a.DB.Compact(a.Context())
	return a.ok(exchange.NewCompacted(c), err)
}

func rebuild(a *ask) error {
	all := []string{a.id("index")}
	switch {
	case all[0] == engine.IndexAll:
		all = slices.DeleteFunc(slices.Clone(indexes), func(index string) bool { return index == engine.IndexAll })
	case !slices.Contains(indexes, all[0]):
		return invalid("rebuild", "there is no such index", "there are "+strings.Join(indexes, ", "))
	}
	return a.list(func(s *stream) error {
		for _, index := range all {
			r := exchange.Rebuilt{Index: index}
			n := new(int64)
			*r.Count() = n
			err := a.DB.Rebuild(a.Context(), index, func(done, _ int64) { *n = done })
			if err == nil {
				err = s.write(r)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

type embedded struct {
	Embedded int `json:"embedded"`
}

func embed(a *ask) error {
	n, err := a.DB.EmbedPending(a.Context(), value[int](a, "limit"))
	return a.ok(embedded{n}, err)
}

func reset(a *ask) error {
	if err := a.confirm("delete everything"); err != nil {
		return err
	}
	return a.deleted(a.DB.Reset(a.Context()))
}

// tail lists changes. A client that follows has each at once.
func tail(a *ask) error {
	c, err := a.chooseAll("read the log")
	if err != nil {
		return err
	}
	if len(c.scopes) > 1 || c.lack != (memory.Lack{}) {
		return invalid("read the log", "it takes one scope of users and agents that are there", "name the user, the agent or the run that is meant")
	}
	o := &engine.ChangesOptions{Scope: c.scopes[0], Follow: value[bool](a, "follow"), WithAccesses: value[bool](a, "accesses")}
	limit := value[int](a, "limit")
	if o.Follow && a.WantsArray() {
		return invalid("follow the log", "the list does not end, so it cannot be one JSON object", "accept application/x-ndjson")
	}
	return a.list(func(s *stream) error {
		if o.Follow {
			a.Idles()
			if err := s.begin(); err != nil {
				return err
			}
		}
		for change, err := range a.DB.Changes(a.Context(), value[uint64](a, "from"), o) {
			if err == nil {
				err = s.write(change)
			}
			if err == nil && o.Follow {
				err = s.lines.Flush()
			}
			if err != nil {
				return err
			}
			if s.end.Count == limit { // never with a limit of 0: there is a line by now
				return nil
			}
		}
		return nil
	})
}
