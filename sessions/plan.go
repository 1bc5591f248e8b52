package sessions

import (
	"slices"
	"sort"
	"time"
)

// Oversized is from how many bytes of text and parts on a message counts as oversized.
const Oversized = 512_000

// RepairStats count what a repair finds.
type RepairStats struct {
	EmptyRemoved      int `json:"empty_removed"`
	DuplicatesRemoved int `json:"duplicates_removed"`
	ConsecutiveMerged int `json:"consecutive_merged"`
	OrphanedRefs      int `json:"orphaned_refs"`
	Reordered         int `json:"reordered"`
	OversizedDetected int `json:"oversized_detected"`
}

// Fixes is how many of them a repair fixes: orphans and oversized messages are only told of.
func (s *RepairStats) Fixes() int {
	return s.EmptyRemoved + s.DuplicatesRemoved + s.ConsecutiveMerged + s.Reordered
}

// PlanRepair returns what a session holds once it is repaired, and what there is to repair.
// The messages have their texts. What is returned is a fixed point: a repair of it fixes
// nothing. In this order,
//
//   - messages without an ID, or with neither text, parts nor memory, are removed;
//   - of messages with one ID the first stays;
//   - references to memories that are gone, and messages of more than Oversized bytes, are
//     counted;
//   - messages of one role that follow each other are merged, but for those of the system: the
//     first takes the texts, parts and references of the others;
//   - messages that are earlier than one before them are moved before it, and merged again
//     where that brought the same role together.
//
// Nothing is moved or merged across a marker. A message without a time stays behind the one
// that it follows.
func PlanRepair(items []Item) ([]Item, RepairStats) {
	var stats RepairStats
	kept := withoutEmpty(items, &stats)
	kept = withoutDuplicates(kept, &stats)
	for _, i := range kept {
		if i.Message == nil {
			continue
		}
		if i.Message.Orphan {
			stats.OrphanedRefs++
		}
		if len(i.Message.Text)+len(i.Message.Parts) > Oversized {
			stats.OversizedDetected++
		}
	}
	var out []Item
	for len(kept) > 0 {
		end := slices.IndexFunc(kept, func(i Item) bool { return i.Marker != nil })
		if end < 0 {
			end = len(kept)
		}
		out = append(out, settled(kept[:end], &stats)...)
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
		if m := i.Message; m != nil && (m.ID == "" || m.Text == "" && len(m.Parts) == 0 && len(m.MemoryIDs) == 0) {
			stats.EmptyRemoved++
			continue
		}
		kept = append(kept, i)
	}
	return kept
}

func withoutDuplicates(items []Item, stats *RepairStats) (kept []Item) {
	seen := map[string]bool{}
	for _, i := range items {
		if i.Message != nil {
			if seen[i.Message.ID] {
				stats.DuplicatesRemoved++
				continue
			}
			seen[i.Message.ID] = true
		}
		kept = append(kept, i)
	}
	return kept
}

// settled merges and orders messages between two markers until neither changes them.
func settled(items []Item, stats *RepairStats) []Item {
	for {
		before := stats.Fixes()
		items = merged(items, stats)
		items = ordered(items, stats)
		if stats.Fixes() == before {
			return items
		}
	}
}

// merged merges messages of one role that follow each other.
func merged(items []Item, stats *RepairStats) (out []Item) {
	for _, i := range items {
		if n := len(out); n > 0 && out[n-1].Message.Role == i.Message.Role && i.Message.Role != "system" {
			both := *out[n-1].Message
			both.join(i.Message)
			out[n-1] = Item{Message: &both}
			stats.ConsecutiveMerged++
			continue
		}
		out = append(out, i)
	}
	return out
}

// join adds to a message what another one says.
func (m *Message) join(other *Message) {
	m.Text = joined([]string{m.Text, other.Text})
	m.Parts = joinedParts(m.Parts, other.Parts)
	m.MemoryIDs = slices.Concat(m.MemoryIDs, other.MemoryIDs)
	m.pieces = slices.Concat(m.pieces, other.pieces)
	m.Orphan = m.Orphan || other.Orphan
}

// joinedParts is one list of the parts of two messages; what is no list is one part.
func joinedParts(a, b []byte) []byte {
	if len(a) == 0 || len(b) == 0 {
		return slices.Concat(a, b)
	}
	inner := func(p []byte) []byte {
		if p[0] == '[' {
			return p[1 : len(p)-1]
		}
		return p
	}
	x, y := inner(a), inner(b)
	out := append([]byte{'['}, x...)
	if len(x) > 0 && len(y) > 0 {
		out = append(out, ',')
	}
	return append(append(out, y...), ']')
}

// ordered puts messages in the order of their times, and counts those that are earlier than
// one before them.
func ordered(items []Item, stats *RepairStats) []Item {
	type timed struct {
		Item
		at time.Time
	}
	all := make([]timed, len(items))
	var before, latest time.Time
	for n, i := range items {
		at := i.Message.At
		if at.IsZero() {
			at = before
		}
		if all[n] = (timed{i, at}); at.Before(latest) && !i.Message.At.IsZero() {
			stats.Reordered++
		}
		if before = at; at.After(latest) {
			latest = at
		}
	}
	sort.SliceStable(all, func(i, j int) bool { return all[i].at.Before(all[j].at) })
	out := make([]Item, len(all))
	for n, i := range all {
		out[n] = i.Item
	}
	return out
}
