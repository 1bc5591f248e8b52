package sessions

import (
	"slices"

	"github.com/seed-7aedc3ff/memdb/internal/part"
)

// pairReach is how many messages before and behind a cut are looked at for calls of tools
// whose results lie on the other side. The results of a call follow it; of more calls than
// this in one message no model is known.
const pairReach = 128

// A window, a trim and a compaction cut a session at a position, and a call of a tool stays
// together with its results: a model refuses a result whose call it is not shown.

// toolUse is what a message has to do with tools.
type toolUse struct{ calls, results []string }

// pair are the places of a call and of a result of it.
type pair struct{ call, result int }

// pairsOf finds the call of each result: the last one before it under its ID, or, where one of
// the two has no ID, that of the message which the result follows, be it behind other results.
func pairsOf(all []toolUse) (pairs []pair) {
	last := map[string]int{}
	open := -1 // the message with calls that results may follow
	for i, m := range all {
		for _, id := range m.calls {
			last[id] = i
			open = i
		}
		for _, id := range m.results {
			call, known := last[id]
			if !known || id == "" {
				call, known = open, open >= 0 && (id == "" || slices.Contains(all[open].calls, ""))
			}
			if known && call < i {
				pairs = append(pairs, pair{call, i})
			}
		}
		if len(m.calls)+len(m.results) == 0 {
			open = -1
		}
	}
	return pairs
}

// earlier is the last cut at or before one that parts no pair, and later the first one at or
// behind it.
func earlier(pairs []pair, cut int) int {
	for i := 0; i < len(pairs); i++ {
		if p := pairs[i]; p.call < cut && cut <= p.result {
			cut, i = p.call, -1
		}
	}
	return cut
}

func later(pairs []pair, cut int) int {
	for i := 0; i < len(pairs); i++ {
		if p := pairs[i]; p.call < cut && cut <= p.result {
			cut, i = p.result+1, -1
		}
	}
	return cut
}

// around are the pairs near a position of a session, from a lowest one on, and the position
// that their places are counted from.
func around(v part.View, p place, h *head, lowest, cut uint32) (pairs []pair, from uint32, err error) {
	from = max(lowest, cut-min(cut, pairReach))
	if from >= cut {
		return nil, from, nil
	}
	var all []toolUse
	err = eachMessage(v, p, h.content, from, min(h.next, cut+pairReach), func(_ uint32, m *Message) error {
		calls, results := m.tools()
		all = append(all, toolUse{calls, results})
		return nil
	})
	return pairsOf(all), from, err
}

// wholeFrom is the last position at or before a cut, from a lowest one on, that parts no call
// of a tool from its results.
func wholeFrom(v part.View, p place, h *head, lowest, cut uint32) (uint32, error) {
	pairs, from, err := around(v, p, h, lowest, cut)
	if err != nil || len(pairs) == 0 {
		return cut, err
	}
	return from + uint32(earlier(pairs, int(cut-from))), nil
}

// wholeWithin is the first such position at or behind a cut.
func wholeWithin(v part.View, p place, h *head, cut uint32) (uint32, error) {
	pairs, from, err := around(v, p, h, h.first, cut)
	if err != nil || len(pairs) == 0 {
		return cut, err
	}
	return from + uint32(later(pairs, int(cut-from))), nil
}

// begins is where a window of so many messages begins: at the newest marker or behind it. A
// window that would part a call from its results is shorter, and only where nothing would be
// left of it longer, as it is where a marker parts them.
func begins(v part.View, p place, h *head, marker uint32, most int) (uint32, error) {
	cut := uint32(max(0, int64(h.next)-int64(most)))
	if cut <= marker {
		return wholeFrom(v, p, h, h.first, marker)
	}
	from, err := wholeWithin(v, p, h, cut)
	if err == nil && from >= h.next && most > 0 {
		from, err = wholeFrom(v, p, h, h.first, cut)
	}
	return from, err
}
