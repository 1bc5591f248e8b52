package messages

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/seed-7aedc3ff/memdb/internal/rawjson"
)

// Use is what a message has to do with tools, in the order in which it says it. The zero Use is that
// of a message which has nothing to do with them.
type Use struct {
	steps []step
	links []link   // values of unknown parts, which may be IDs
	plain []string // such values of a message that has only words
}

// step is a call or a result.
type step struct {
	result             bool
	id, other, name    string
	answered, optional bool
	byRole             bool // a result by the role of its message alone
}

// link is a value of an unknown part. strong says that its key is one of an ID.
type link struct {
	value  string
	strong bool
}

// Tools reports whether the message calls a tool or brings a result, or may: it has unknown parts.
func (u *Use) Tools() bool { return len(u.steps)+len(u.links) > 0 }

// Pair are the indexes of a message with a call, or with the first of two linked parts, and of a
// later one with a result of it.
type Pair struct{ Call, Result int }

// Pairing is what Pairs finds.
type Pairing struct {
	Pairs []Pair
	// Unanswered counts calls that have no result, Orphans results that have no call, and Doubled
	// results of a call that has one already.
	Unanswered, Orphans, Doubled int
}

const (
	// maxLinks bounds the values of one message that may be IDs.
	maxLinks = 256
	// maxShared is how many messages may share a value that is the ID of a call; one that more share
	// identifies something else, such as the conversation.
	maxShared = 16
	// linkReach and weakReach bound how far two messages that share such a value are from each
	// other: by the key of an ID, and by any other key.
	linkReach, weakReach = 64, 8
	// maxID bounds the length of such a value.
	maxID = 128
)

// Use returns what the message has to do with tools.
func (m *Message) Use() (u Use) {
	if len(m.Parts)+len(m.ToolCalls)+len(m.Extra) == 0 && m.ToolCallID == "" && m.Role != "tool" && m.Role != "function" {
		return u
	}
	foreign := false
	m.each(func(key string, p *part) {
		if p.odd {
			u.links = appendLinks(u.links, key, p.raw, maxNesting)
		}
		switch p.kind {
		case call:
			u.steps = append(u.steps, step{id: p.id, other: p.other, name: p.name, answered: p.answered, optional: p.optional})
		case result:
			u.steps = append(u.steps, step{result: true, id: p.id, name: p.name})
		case unknown:
			if !nothing(p.raw) {
				foreign = true
				u.links = appendLinks(u.links, key, p.raw, maxNesting)
			}
		}
	})
	speaker, _ := Speaker(m.Role)
	if m.ToolCallID != "" || speaker == "tool" && len(u.steps) == 0 {
		name := m.Name
		if o, ok := membersOf(m.Extra); ok && name == "" {
			name = fields(o).text("toolname")
		}
		u.steps = append(u.steps, step{result: true, id: m.ToolCallID, name: name, byRole: m.ToolCallID == ""})
	}
	m.topLinks(&u, foreign)
	return u
}

// topLinks adds the values of keys beside the content that may be IDs. Beside unknown content they
// may be that of a call; beside words alone they are no such ID.
func (m *Message) topLinks(u *Use, foreign bool) {
	o, _ := membersOf(m.Extra)
	for _, f := range o {
		if value, strong := linkOf(f.key, f.value); strong && !known[normal(f.key)] {
			if foreign && m.Text == "" && len(m.Parts) == 0 {
				u.links = append(u.links, link{value, true})
			} else {
				u.plain = append(u.plain, value)
			}
		}
	}
}

// appendLinks adds the values of an unknown part that may be IDs.
func appendLinks(all []link, key string, raw json.RawMessage, depth int) []link {
	if len(all) >= maxLinks || depth == 0 || len(raw) == 0 {
		return all
	}
	switch raw[0] {
	case '{':
		_ = rawjson.Members(raw, func(key string, v []byte) error { // it was valid when it was kept
			all = appendLinks(all, key, v, depth-1)
			return nil
		})
	case '[':
		_ = rawjson.Elements(raw, func(v []byte) error {
			all = appendLinks(all, key, v, depth-1)
			return nil
		})
	default:
		if value, strong := linkOf(key, raw); value != "" && !known[normal(key)] {
			all = append(all, link{value, strong})
		}
	}
	return all
}

// idKeys are the ends of the normal names of keys that hold an ID.
var idKeys = []string{"id", "ref", "uuid", "guid", "handle", "token", "ticket", "key", "correlation", "call", "replyto", "inreplyto"}

// linkOf is the value under a key if it may be an ID: a word with a digit, or any word under the key
// of an ID.
func linkOf(key string, raw json.RawMessage) (value string, strong bool) {
	strong = endsIn(normal(key), idKeys...)
	s, text := rawjson.String(raw)
	if !text {
		if s = string(raw); !strong || s == "" || s[0] != '-' && (s[0] < '0' || s[0] > '9') {
			return "", false
		}
	}
	if s == "" || len(s) > maxID || strings.ContainsAny(s, " \t\n") || !strong && !strings.ContainsAny(s, "0123456789") {
		return "", false
	}
	return s, strong
}

// Pairs finds the call of each result: the last one before it with its ID, or, where one of the two
// has no ID, the first without an answer of the messages with calls that the result directly
// follows, if possible one of the same tool. Of unknown parts, messages near each other are a pair that share a
// value which looks like the ID of a call.
func Pairs(all []Use) Pairing {
	p := pairing{byID: map[string]*made{}}
	for i := range all {
		p.message(i, &all[i])
	}
	p.link(all)
	for _, c := range p.calls {
		if !c.answered && !c.optional {
			p.Unanswered++
		}
	}
	slices.SortFunc(p.Pairs, func(a, b Pair) int { return cmp.Or(a.Call-b.Call, a.Result-b.Result) })
	p.Pairs = slices.Compact(p.Pairs)
	return p.Pairing
}

// made is a call that a message has made.
type made struct {
	at int
	step
}

type pairing struct {
	Pairing
	byID    map[string]*made
	calls   []*made
	open    []*made // those that results without an ID may follow
	results bool    // such results have begun
	orphans map[int]int
}

// message takes the steps of a message.
func (p *pairing) message(i int, u *Use) {
	if len(u.steps) == 0 {
		p.open, p.results = nil, false
		return
	}
	for _, s := range u.steps {
		if !s.result {
			if p.results {
				p.open, p.results = nil, false
			}
			c := &made{i, s}
			p.calls, p.open = append(p.calls, c), append(p.open, c)
			for _, id := range []string{s.other, s.id} {
				if id != "" {
					p.byID[id] = c
				}
			}
			continue
		}
		p.result(i, s)
	}
}

// result finds the call of a result.
func (p *pairing) result(i int, s step) {
	p.results = true
	c := p.byID[s.id]
	if s.id == "" || c == nil {
		c = p.inOrder(s)
	}
	switch {
	case c == nil && s.byRole:
		return // a message of the role of a tool that says by nothing else that it is a result
	case c == nil:
		if p.orphans == nil {
			p.orphans = map[int]int{}
		}
		p.orphans[i]++
		p.Orphans++
		return
	case c.answered && c.at != i && !s.byRole:
		p.Doubled++
	}
	c.answered = true
	p.pair(c.at, i)
}

// inOrder is the open call that a result follows by order: one with an ID only for a result without.
func (p *pairing) inOrder(s step) *made {
	var found, last *made
	for _, c := range p.open {
		if s.id != "" && c.id != "" {
			continue
		}
		last = c
		if c.answered || found != nil && (s.name == "" || found.name == s.name) {
			continue
		}
		if found == nil || c.name == s.name {
			found = c
		}
	}
	if found == nil {
		return last
	}
	return found
}

func (p *pairing) pair(call, result int) {
	if call < result {
		p.Pairs = append(p.Pairs, Pair{call, result})
	}
}

// shared are the messages that have a value, in their order.
type shared struct {
	at     []int
	strong bool
	linked bool // an unknown part has it
	plain  bool // a message that has only words has it, too
	of     *made
}

// link pairs messages by values that unknown parts have in common, with each other or with the ID of
// a call.
func (p *pairing) link(all []Use) {
	if !slices.ContainsFunc(all, func(u Use) bool { return len(u.links) > 0 }) {
		return
	}
	values := map[string]*shared{}
	have := func(value string, i int) *shared {
		s := values[value]
		if s == nil {
			s = &shared{}
			values[value] = s
		}
		if n := len(s.at); n == 0 || s.at[n-1] != i {
			s.at = append(s.at, i)
		}
		return s
	}
	var order []*shared
	for i := range all {
		for _, s := range all[i].steps {
			if s.id != "" {
				of := have(s.id, i)
				of.strong = true
				of.of = cmp.Or(p.byID[s.id], of.of)
			}
		}
		for _, l := range all[i].links {
			s := have(l.value, i)
			s.strong = s.strong || l.strong
			if !s.linked {
				s.linked = true
				order = append(order, s)
			}
		}
		for _, value := range all[i].plain {
			have(value, i).plain = true
		}
	}
	for _, s := range order {
		p.shared(s, len(all))
	}
}

// shared pairs those of so many messages that share a value, if it looks like the ID of a call.
func (p *pairing) shared(s *shared, messages int) {
	n, reach := len(s.at), linkReach
	if !s.strong {
		reach = weakReach
	}
	if n < 2 || s.plain || n > maxShared || n > 3 && n > messages/2 || !s.strong && n > 2 {
		return
	}
	for k := 1; k < n; k++ {
		if s.at[k]-s.at[k-1] > reach {
			continue
		}
		p.pair(s.at[k-1], s.at[k])
		if s.of != nil {
			s.of.answered = true
		}
		if orphans := p.orphans[s.at[k]]; orphans > 0 {
			p.Orphans -= orphans
			delete(p.orphans, s.at[k])
		}
	}
}
