package recall

import (
	"context"
	"fmt"
	"slices"

	"github.com/seed-7aedc3ff/memdb/internal/analysis"
	"github.com/seed-7aedc3ff/memdb/internal/doctable"
	"github.com/seed-7aedc3ff/memdb/internal/panics"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// found is a hit with its document.
type found struct {
	memory.Hit
	doc uint32
	seq uint64
}

// arrange puts the hits into the order that the caller's hook gives, and leaves of them what a
// budget of tokens has room for.
func (r *recalling) arrange(ctx context.Context, hits []found) ([]found, error) {
	hits = r.rerank(ctx, hits)
	if r.q.Tokens > 0 {
		return r.fill(ctx, hits)
	}
	return hits, nil
}

// rerank puts the hits into the order that the caller's hook gives. Where that fails, or takes
// too long, the order stays, and the plan says why.
func (r *recalling) rerank(ctx context.Context, hits []found) []found {
	if r.q.Rerank == nil || len(hits) < 2 {
		return hits
	}
	within := r.q.RerankWithin
	if within == 0 {
		within = memory.RerankWithin
	}
	ctx, cancel := r.host.Within(ctx, within)
	defer cancel()
	type answer struct {
		order []int
		err   error
	}
	done := make(chan answer, 1)
	own := make([]memory.Hit, len(hits)) // the hook may go on with them when nobody waits for it
	for i, h := range hits {
		own[i] = h.Hit
	}
	hook, text := r.q.Rerank, r.q.Text
	go func() {
		var a answer
		if err := panics.Catch("ranks hits again", func() { a.order, a.err = hook(ctx, text, own) }); err != nil {
			a.err = err
		}
		done <- a
	}()
	var a answer
	select {
	case a = <-done:
	case <-ctx.Done():
		a.err = fmt.Errorf("the hook took more than %v", within)
	}
	r.stage("rerank")
	if a.err != nil {
		r.unranked = a.err.Error()
		return hits
	}
	return inOrder(hits, a.order)
}

// inOrder are the hits at the places that an order names, each once, and then the others.
func inOrder(hits []found, order []int) []found {
	out := make([]found, 0, len(hits))
	taken := make([]bool, len(hits))
	for _, i := range order {
		if i >= 0 && i < len(hits) && !taken[i] {
			taken[i] = true
			out = append(out, hits[i])
		}
	}
	for i, h := range hits {
		if !taken[i] {
			out = append(out, h)
		}
	}
	return out
}

const (
	// worth is the share of the best hit's score below which one is not worth its tokens.
	worth = .2
	// repeats is the share of the words that two texts have in common from which on one repeats
	// the other.
	repeats = .8
	// answerWords is how many words an answer has at most that is read with its question.
	answerWords = 30
)

// fill leaves the hits that a budget of tokens has room for, in their order: whole texts, none
// that repeats another one, and with a short answer the question before it.
func (r *recalling) fill(ctx context.Context, hits []found) ([]found, error) {
	count := r.q.Count
	if count == nil {
		count = func(s string) int { return (len(s) + 3) / 4 }
	}
	left, most := r.q.Tokens, 0.0
	var out []found
	var chosen []map[string]bool
	for _, h := range hits {
		most = max(most, h.Score)
		if h.Score < worth*most {
			continue
		}
		words, err := r.wordsIn(ctx, h.Text)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(chosen, func(other map[string]bool) bool { return repeat(words, other) }) {
			continue
		}
		cost := count(h.Text)
		if cost > left {
			continue // a shorter one may have room
		}
		if len(words) <= answerWords {
			if err := r.question(ctx, &h); err != nil {
				return nil, err
			}
			if h.Asked != nil {
				if more := count(h.Asked.Text); cost+more <= left {
					cost += more
				} else {
					h.Asked = nil
				}
			}
		}
		left -= cost
		out, chosen = append(out, h), append(chosen, words)
	}
	r.tokens = r.q.Tokens - left
	return out, nil
}

// wordsIn are the different terms of a text.
func (r *recalling) wordsIn(ctx context.Context, text string) (map[string]bool, error) {
	bag := analysis.Bags.Get().(*analysis.Bag)
	defer analysis.Bags.Put(bag)
	bag.Reset()
	if err := bag.AddWords(ctx, r.st.Words.Analyzer.Load(), firstBytes(text, FirstHitBytes), 1); err != nil {
		return nil, err
	}
	words := make(map[string]bool, bag.Len())
	bag.Each(func(term string, _ uint32) { words[term] = true })
	return words, nil
}

// repeat reports whether one text says again what another one says, by their words.
func repeat(a, b map[string]bool) bool {
	if len(a) == 0 || len(b) == 0 {
		return len(a) == len(b)
	}
	both := 0
	for w := range a {
		if b[w] {
			both++
		}
	}
	return float64(both) >= repeats*float64(len(a)+len(b)-both)
}

// question fills in the turn before a hit in its run, where that asks and the filter leaves it.
func (r *recalling) question(ctx context.Context, h *found) error {
	before := uint32(doctable.None)
	r.neighbours(h.doc, func(doc uint32, places int) {
		if places == -1 {
			before = doc
		}
	})
	if before == doctable.None || !r.set.Contains(before) {
		return nil
	}
	asks, err := r.asking(ctx, []uint32{before})
	if err != nil || !asks[0] {
		return err
	}
	m, err := r.host.Load(r.st.Docs.Row(before).Version, false)
	if err != nil {
		return r.st.Without(err)
	}
	h.Asked = &m
	return nil
}
