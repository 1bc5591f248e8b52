package sessions

import (
	"encoding/json"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/messages"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
)

// Oversized is from how many bytes of text and parts on a message counts as oversized.
const Oversized = 512_000

// RepairStats count what a repair finds.
type RepairStats struct {
	// Each counts the messages that were repaired in the way of its name.
	EmptyRemoved      int `json:"empty_removed"`
	DuplicatesRemoved int `json:"duplicates_removed"`
	ConsecutiveMerged int `json:"consecutive_merged"`
	OrphanedRefs      int `json:"orphaned_refs"`
	Reordered         int `json:"reordered"`
	OversizedDetected int `json:"oversized_detected"`
	// UnansweredCalls are calls of tools without a result, OrphanResults are results without a call,
	// and DoubledResults are those of a call that has one already. They are counted after the repair.
	UnansweredCalls int `json:"unanswered_calls"`
	OrphanResults   int `json:"orphan_results"`
	DoubledResults  int `json:"doubled_results"`
	// IDsGiven are messages that had no ID.
	IDsGiven int `json:"ids_given,omitempty"`
}

// Fixes is how many of them a repair fixes: orphans, oversized messages, and calls and results that do
// not fit are only reported.
func (s *RepairStats) Fixes() int {
	return s.EmptyRemoved + s.DuplicatesRemoved + s.ConsecutiveMerged + s.Reordered + s.IDsGiven
}

// PlanRepair returns what a session holds once it is repaired, and what there is to repair.
// The messages have their texts. Nothing that a message says is lost, and what is returned
// is a fixed point: a repair of it fixes nothing. In this order,
//
//   - messages that say nothing in any form (an empty or blank text, no parts, blank parts, an empty
//     list of calls) and refer to no memory are removed, but for the empty result of a call; so are
//     those of an assistant that only thinks, where no message of the same turn follows that says
//     something or calls a tool;
//   - of messages with one ID that say the same the first stays; one that says something else
//     gets an ID of its own, and so does one that has none;
//   - references to memories that are gone, and messages of more than Oversized bytes, are
//     counted;
//   - messages that are earlier than one before them are moved before it;
//   - messages of one role that follow each other are merged, where they are made of texts and media
//     in one form: the first takes the texts, parts and references of the others, up to MaxText and
//     MaxParts. Those of the system and of its developer stay as they are, and so do those that call
//     tools, bring their results, think, or have parts or keys beside these.
//
// Nothing is moved or merged across a marker. A message without a time stays behind the one
// that it follows, the result of a tool behind its call, and what is said behind the thought.
func PlanRepair(items []Item) ([]Item, RepairStats) {
	var stats RepairStats
	kept := withIDs(withoutEmpty(items, &stats), &stats)
	for _, i := range kept {
		if i.Message == nil {
			continue
		}
		if i.Message.Orphan {
			stats.OrphanedRefs++
		}
		if i.Message.size() > Oversized {
			stats.OversizedDetected++
		}
	}
	var out []Item
	for len(kept) > 0 {
		end := slices.IndexFunc(kept, func(i Item) bool { return i.Marker != nil })
		if end < 0 {
			end = len(kept)
		}
		out = append(out, merged(ordered(kept[:end], &stats), &stats)...)
		if end < len(kept) {
			out = append(out, kept[end])
			end++
		}
		kept = kept[end:]
	}
	found := messages.Pairs(usesOf(out))
	stats.UnansweredCalls, stats.OrphanResults, stats.DoubledResults = found.Unanswered, found.Orphans, found.Doubled
	return out, stats
}

// usesOf is what each item has to do with tools: a marker nothing.
func usesOf(items []Item) []messages.Use {
	uses := make([]messages.Use, len(items))
	for n, i := range items {
		if i.Message != nil {
			uses[n] = i.Message.form().Use()
		}
	}
	return uses
}

// withoutEmpty removes messages that say nothing, and turns of an assistant that only think. The
// result of a call may be empty.
func withoutEmpty(items []Item, stats *RepairStats) (kept []Item) {
	answers := map[int]bool{}
	for _, p := range messages.Pairs(usesOf(items)).Pairs {
		answers[p.Result] = true
	}
	says := false // a message behind, of the same turn of an assistant
	for n, i := range slices.Backward(items) {
		if i.Message == nil {
			says = false
			kept = append(kept, i)
			continue
		}
		m := i.Message
		speaker, _ := messages.Speaker(m.Role)
		empty, thinks := m.form().Empty()
		empty = empty && len(m.MemoryIDs) == 0 && !answers[n]
		assists := speaker == "assistant"
		if empty && (!thinks || assists && !says) {
			stats.EmptyRemoved++
			continue
		}
		says = assists
		kept = append(kept, i)
	}
	slices.Reverse(kept)
	return kept
}

// withIDs removes messages that say again what one with their ID says, and gives an ID to
// each that has none, or that of one which says something else.
func withIDs(items []Item, stats *RepairStats) (kept []Item) {
	taken := map[string]bool{}
	first := map[string]*Message{}
	for _, i := range items {
		if i.Message != nil {
			taken[i.Message.ID] = true
		}
	}
	for _, i := range items {
		if m := i.Message; m != nil {
			have := first[m.ID]
			switch {
			case m.ID == "":
				stats.IDsGiven++
				i = identified(m, taken)
			case have == nil:
				first[m.ID] = m
			case have.repeats(m):
				stats.DuplicatesRemoved++
				continue
			default:
				stats.DuplicatesRemoved++
				i = identified(m, taken)
			}
		}
		kept = append(kept, i)
	}
	return kept
}

// repeats reports whether two messages under one ID say the same, at whatever time.
func (m *Message) repeats(other *Message) bool {
	return m.Role == other.Role && m.Text == other.Text && m.alike(other) && slices.Equal(m.MemoryIDs, other.MemoryIDs)
}

func identified(m *Message, taken map[string]bool) Item {
	of := *m
	of.ID = giveID(m, taken)
	return Item{Message: &of}
}

// giveID is an ID that is not taken yet. It follows from what the message says, so that a
// repair that is planned twice, and a conversation that is saved twice, has the same IDs.
func giveID(m *Message, taken map[string]bool) string {
	for n := 0; ; n++ {
		said, _ := json.Marshal([]any{n, m.Role, clock.ToMillis(m.At), m.Text, string(m.Parts), string(m.ToolCalls), m.ToolCallID, m.MemoryIDs})
		id := uuid.NewSHA1(uuid.Nil, said).String()
		if !taken[id] {
			taken[id] = true
			return id
		}
	}
}

// merged merges messages of one role that follow each other.
func merged(items []Item, stats *RepairStats) (out []Item) {
	for _, i := range items {
		if n := len(out); n > 0 {
			if both, ok := out[n-1].Message.join(i.Message); ok {
				out[n-1] = Item{Message: both}
				stats.ConsecutiveMerged++
				continue
			}
		}
		out = append(out, i)
	}
	return out
}

// join is a message that says what two say, false where they are to stay two.
func (m *Message) join(other *Message) (*Message, bool) {
	if m.Role != other.Role || m.Name != other.Name || !m.joins(other) {
		return nil, false
	}
	both := *m
	both.Text = joined([]string{m.Text, other.Text})
	if len(m.Parts)+len(other.Parts) > 0 {
		both.Parts = []byte{'['}
		for n, raw := range slices.Concat(m.allParts(), other.allParts()) {
			if n > 0 {
				both.Parts = append(both.Parts, ',')
			}
			both.Parts = append(both.Parts, raw...)
		}
		both.Parts = append(both.Parts, ']')
	}
	if len(both.Text) > MaxText || len(both.Parts) > MaxParts || valid.Depth(both.Parts) > MaxDepth {
		return nil, false
	}
	both.MemoryIDs = slices.Concat(m.MemoryIDs, other.MemoryIDs)
	both.pieces = slices.Concat(m.pieces, other.pieces)
	both.Orphan = m.Orphan || other.Orphan
	return &both, true
}

// joins reports whether two messages may be merged: texts, and parts of one style. A text is written
// as a part beside parts that have a type.
func (m *Message) joins(other *Message) bool {
	if speaker, _ := messages.Speaker(m.Role); speaker == "system" {
		return false
	}
	a, b := m.form().Style(), other.form().Style()
	switch {
	case a == messages.Single || b == messages.Single:
		return false
	case a == b, a != messages.Bare && b != messages.Bare:
		return a != messages.Bare || m.textInParts() && other.textInParts()
	}
	return false
}

// allParts are the parts of a message with its text among them: what has only a text is one
// part that is text.
func (m *Message) allParts() (all []json.RawMessage) {
	all = messages.Elements(m.Parts)
	if m.textInParts() {
		return all
	}
	return slices.Insert(all, 0, messages.TextPart(m.Text))
}

// textInParts reports whether the parts say the text, line by line.
func (m *Message) textInParts() bool {
	said := map[string]bool{"": true}
	for line := range strings.SplitSeq((&messages.Message{Parts: m.Parts}).Words(), "\n") {
		said[line] = true
	}
	for line := range strings.SplitSeq(m.Text, "\n") {
		if !said[line] {
			return false
		}
	}
	return true
}

// unit is what is moved as one: a message, or a call of a tool with the results behind it, or a
// thought with what is said behind it.
type unit struct {
	items []Item
	at    time.Time
}

// ordered puts messages in the order of their times, and counts those that are earlier than
// one before them.
func ordered(items []Item, stats *RepairStats) []Item {
	var latest time.Time
	units := unitsOf(items)
	for n := range units {
		if at := units[n].items[0].Message.At; at.Before(latest) && !at.IsZero() {
			stats.Reordered++
		} else if at.After(latest) {
			latest = at
		}
	}
	sort.SliceStable(units, func(i, j int) bool { return units[i].at.Before(units[j].at) })
	out := make([]Item, 0, len(items))
	for _, u := range units {
		out = append(out, u.items...)
	}
	return out
}

// unitsOf cuts messages into units. One without a time has that of the one before.
func unitsOf(items []Item) (units []unit) {
	uses := usesOf(items)
	calls := map[int][]int{} // those of a message of results, in their order
	for _, p := range messages.Pairs(uses).Pairs {
		calls[p.Result] = append(calls[p.Result], p.Call)
	}
	run := 0         // where the messages that have to do with tools begin, up to this one
	thought := false // the message before only thinks, and this one goes on
	var before time.Time
	for n, i := range items {
		if !uses[n].Tools() {
			run = n + 1
		}
		u := unit{[]Item{i}, before}
		if !i.Message.At.IsZero() {
			u.at = i.Message.At
		}
		call := n // the first that nothing else stands between
		if at := slices.IndexFunc(calls[n], func(call int) bool { return call >= run }); at >= 0 {
			call = calls[n][at]
		}
		for last := len(units) - 1; last >= 0 && (thought || call <= n-len(u.items)); last-- {
			u = unit{append(units[last].items, u.items...), units[last].at}
			units, thought = units[:last], false
		}
		units, before = append(units, u), u.at
		_, thought = i.Message.form().Empty()
	}
	return units
}
