package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/api"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// recallEveryone has a server answer a question from all of its databases as one.
func (a *app) recallEveryone(cmd *cobra.Command, q *api.Question) error {
	n, err := a.node(cmd)
	if err != nil {
		return err
	}
	found := foundHits{wide: isWide(q)}
	if err := n.call(cmd.Context(), http.MethodPost, nativePath+"/recall", noShard, q, &found.Recalled); err != nil {
		return err
	}
	found.Plan = nil // which is of one database
	a.unreadable.ofServer(found.Unreadable)
	return a.printAnswer(&found)
}

// ofServer notes how much the databases of a server could not read.
func (u *unreadable) ofServer(n int) {
	if u.reads = true; n > 0 {
		u.n, u.first = max(u.n, n), cmp.Or(u.first, "a database of the server has lost it")
	}
}

// listEveryone has a server list or count the memories of all of its databases.
func (a *app) listEveryone(cmd *cobra.Command, l *listing) error {
	n, err := a.node(cmd)
	if err != nil {
		return err
	}
	asked := ofScope(&l.Scopes)
	if l.Filter != nil {
		asked.Set("filter", compactJSON(l.Filter))
	}
	if l.count {
		var of api.MemoryCounted
		if err := n.call(cmd.Context(), http.MethodGet, nativePath+"/count?"+asked.Encode(), noShard, nil, &of); err != nil {
			return err
		}
		return a.printCount(of)
	}
	asked.Set("limit", strconv.Itoa(l.Limit))
	if l.all {
		asked.Set("limit", strconv.Itoa(memory.MaxLimit))
	}
	for name, value := range map[string]string{"order_by": l.OrderBy, "after": l.After} {
		if value != "" {
			asked.Set(name, value)
		}
	}
	for name, set := range map[string]bool{"descending": l.Descending, "vectors": l.Vectors} {
		if set {
			asked.Set(name, "true")
		}
	}
	t, lost := a.memoryRows(l.AllScopes), 0
	for {
		end, err := answers(cmd.Context(), n, nativePath+"/memories?"+asked.Encode(), t.addMemory)
		if err != nil {
			return err
		}
		lost += end.Unreadable
		a.unreadable.ofServer(lost)
		switch err = t.end(); {
		case err != nil:
			return err
		case end.Next == "":
			return nil
		case !l.all:
			return a.printNext(end.Next)
		}
		asked.Set("after", end.Next)
	}
}

// groupEveryone has a server add up the groups of all of its databases.
func (a *app) groupEveryone(cmd *cobra.Command, q *api.MemoryGroupsRequest, yield func(memory.GroupSize) error) error {
	n, err := a.node(cmd)
	if err != nil {
		return err
	}
	asked := ofScope(&q.Scopes)
	asked.Set("by", string(q.By))
	end, err := answers(cmd.Context(), n, nativePath+"/groups?"+asked.Encode(), yield)
	a.unreadable.ofServer(end.Unreadable)
	return err
}

// ofScope are the parameters that say of whom a server is asked.
func ofScope(s *api.Scopes) url.Values {
	asked := url.Values{}
	for name, value := range map[string]string{"user": s.User, "agent": s.Agent, "run": s.Run} {
		if value != "" {
			asked.Set(name, value)
		}
	}
	if s.AllScopes {
		asked.Set("all_scopes", "true")
	}
	return asked
}

// linesEnd is the last line of an answer in lines.
type linesEnd struct {
	Next       string `json:"next"`
	Unreadable int    `json:"unreadable"`
}

// answers reads each line of an answer into a new value, which it hands to fn, and returns the last line.
func answers[T any](ctx context.Context, n *node, path string, fn func(v T) error) (end linesEnd, err error) {
	last, err := n.lines(ctx, path, noShard, `{"end":`, func(line []byte) error {
		var v T
		if err := json.Unmarshal(line, &v); err != nil {
			return n.unread(err)
		}
		return fn(v)
	})
	if err != nil {
		return end, err
	}
	if err := json.Unmarshal(last, &end); err != nil {
		return end, n.unread(err)
	}
	return end, nil
}
