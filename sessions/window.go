package sessions

import (
	"github.com/seed-7aedc3ff/memdb/internal/messages"
	"github.com/seed-7aedc3ff/memdb/internal/part"
)

// pairReach is how many messages before and after a cut are searched for calls of tools whose results
// are on the other side. The results of a call mostly follow it. Where the call of a result, or the
// result of a call, is not among them, up to maxReach are searched.
const (
	pairReach = 128
	maxReach  = 2048
)

// A window, a trim and a compaction cut a session at a position, and a call of a tool stays
// together with its results: a model refuses a result whose call it is not shown.

// earlier is the last cut at or before one that parts no pair, and later the first one at or
// behind it.
func earlier(pairs []messages.Pair, cut int) int {
	for i := 0; i < len(pairs); i++ {
		if p := pairs[i]; p.Call < cut && cut <= p.Result {
			cut, i = p.Call, -1
		}
	}
	return cut
}

func later(pairs []messages.Pair, cut int) int {
	for i := 0; i < len(pairs); i++ {
		if p := pairs[i]; p.Call < cut && cut <= p.Result {
			cut, i = p.Result+1, -1
		}
	}
	return cut
}

// around are the pairs near a position of a session, from a lowest one on, and the position
// that their places are counted from.
func around(v part.View, p place, h *head, lowest, cut uint32) (pairs []messages.Pair, from uint32, err error) {
	for reach := uint32(pairReach); ; reach *= 4 {
		from = max(lowest, cut-min(cut, reach))
		to := min(h.next, cut+reach)
		if from >= cut || cut >= to {
			return nil, from, nil
		}
		uses := make([]messages.Use, 0, to-from)
		err = eachMessage(v, p, h.content, from, to, func(_ uint32, m *Message) error {
			uses = append(uses, m.form().Use())
			return nil
		})
		found := messages.Pairs(uses)
		far := found.Orphans > 0 && from > lowest || found.Unanswered > 0 && to < h.next
		if err != nil || !far || reach >= maxReach {
			return found.Pairs, from, err
		}
	}
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
