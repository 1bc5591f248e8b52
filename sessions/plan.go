package sessions

import (
	"bytes"
	"encoding/json"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
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
	// IDsGiven are messages that had no ID.
	IDsGiven int `json:"ids_given,omitempty"`
}

// Fixes is how many of them a repair fixes: orphans and oversized messages are only told of.
func (s *RepairStats) Fixes() int {
	return s.EmptyRemoved + s.DuplicatesRemoved + s.ConsecutiveMerged + s.Reordered + s.IDsGiven
}

// PlanRepair returns what a session holds once it is repaired, and what there is to repair.
// The messages have their texts. Nothing that a message says is lost, and what is returned
// is a fixed point: a repair of it fixes nothing. In this order,
//
//   - messages that have nothing to say, neither text, parts, tools nor a memory, are removed;
//   - of messages with one ID that say the same the first stays; one that says something else
//     gets an ID of its own, and so does one that has none;
//   - references to memories that are gone, and messages of more than Oversized bytes, are
//     counted;
//   - messages that are earlier than one before them are moved before it;
//   - messages of one role that follow each other are merged, but for those of the system and
//     of its developer, and those that call tools or bring their results: the first takes the
//     texts, parts and references of the others, up to MaxText and MaxParts.
//
// Nothing is moved or merged across a marker. A message without a time stays behind the one
// that it follows, and so does the result of a tool behind its call.
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
	return out, stats
}

func withoutEmpty(items []Item, stats *RepairStats) (kept []Item) {
	for _, i := range items {
		if i.Message != nil && i.Message.silent() {
			stats.EmptyRemoved++
			continue
		}
		kept = append(kept, i)
	}
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
	if m.Role != other.Role || m.Name != other.Name || !m.joins() || !other.joins() {
		return nil, false
	}
	both := *m
	both.Text = joined([]string{m.Text, other.Text})
	if len(m.Parts)+len(other.Parts) > 0 {
		all := slices.Concat(m.allParts(), other.allParts())
		both.Parts = slices.Concat([]byte{'['}, bytes.Join(all, []byte{','}), []byte{']'})
	}
	if len(both.Text) > MaxText || len(both.Parts) > MaxParts || valid.Depth(both.Parts) > MaxDepth {
		return nil, false
	}
	both.MemoryIDs = slices.Concat(m.MemoryIDs, other.MemoryIDs)
	both.pieces = slices.Concat(m.pieces, other.pieces)
	both.Orphan = m.Orphan || other.Orphan
	return &both, true
}

// joins reports whether the message may be merged with one of its role: each of the system
// stands by itself, and so does one that has to do with tools, or has more than text and parts.
func (m *Message) joins() bool {
	calls, results := m.tools()
	return m.Role != "system" && m.Role != "developer" && len(calls)+len(results)+len(m.Extra) == 0
}

// allParts are the parts of a message with its text among them: what has only a text is one
// part that is text.
func (m *Message) allParts() (all [][]byte) {
	for _, raw := range rawParts(m.Parts) {
		all = append(all, raw)
	}
	if m.textInParts() {
		return all
	}
	var part bytes.Buffer
	enc := json.NewEncoder(&part)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(struct { // strings never fail
		Type string `json:"type"`
		Text string `json:"text"`
	}{textTypes[0], m.Text})
	return slices.Insert(all, 0, bytes.TrimSpace(part.Bytes()))
}

// textInParts reports whether the parts say the text, line by line.
func (m *Message) textInParts() bool {
	said := map[string]bool{"": true}
	for line := range strings.SplitSeq(m.partsText(), "\n") {
		said[line] = true
	}
	for line := range strings.SplitSeq(m.Text, "\n") {
		if !said[line] {
			return false
		}
	}
	return true
}

// unit is what is moved as one: a message, or a call of a tool with the results behind it.
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
	uses := make([]toolUse, len(items))
	for n, i := range items {
		uses[n].calls, uses[n].results = i.Message.tools()
	}
	of := map[int]int{} // the last call of a message of results
	for _, p := range pairsOf(uses) {
		of[p.result] = max(of[p.result], p.call)
	}
	begin := 0
	var before time.Time
	for n, i := range items {
		if call, is := of[n]; n > 0 && is && call >= begin {
			u := &units[len(units)-1]
			u.items = append(u.items, i)
			continue
		}
		begin = n
		if !i.Message.At.IsZero() {
			before = i.Message.At
		}
		units = append(units, unit{[]Item{i}, before})
	}
	return units
}
