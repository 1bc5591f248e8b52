package cli

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/api"
	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/memory"
)

const whyExample = `
memdbctl why m17 "tea or coffee?" --user ada
memdbctl why launch "when do we launch?" --agent planner --filter "role = user" --json
memdbctl why m17 "who has a dog?" --user ada --graph --limit 3`

const whyLong = `Say why a recall finds a memory, or does not: whether it is there and the filter
holds for it, by which words and vectors it meets the query, its rank by each part of
the score and by the whole, and what stands before it. The flags are those of recall.

The memory is looked for in the scope of the query alone: one that is not there, or
belongs to somebody else, is not found (exit code 3), and one of the scope that was
deleted is told of. Access counts stay as they are.`

func (a *app) whyCmd() *cobra.Command {
	var (
		q      api.WhyRequest
		models modelFlags
		v      *vectorModel
	)
	op := api.Why.Operation
	op.Summary = "Say why a recall finds a memory, or does not"
	fields := slices.DeleteFunc(api.Why.Fields(), func(f api.Field) bool { // what changes how hits are shown
		return slices.Contains([]string{"highlight", "explain", "no_touch", "vectors", "tokens"}, f.Name)
	})
	h := help{long: whyLong, example: whyExample, group: groupMemories, open: a.openBy(&models, &v)}
	cmd := a.operation(&op, fields, &q, h, func(ctx context.Context, c *caller) error {
		return a.why(ctx, v, c.db, &q)
	})
	cmd.Use = "why ID QUERY…"
	graphAlone(cmd)
	models.embedderFlag(cmd)
	alsoCheck(cmd, func(args []string) error {
		switch {
		case len(args) == 0:
			return usagef(cmd, "there is no ID; give it, and the query")
		case len(args) == 1 && q.Embedding == nil:
			return usagef(cmd, "there is no query; give a text behind the ID, or --embedding")
		}
		return nil
	})
	return cmd
}

func (a *app) why(ctx context.Context, v *vectorModel, db *engine.DB, q *api.WhyRequest) error {
	var w memory.Why
	q.Lost = a.unreadable.lost
	said, err := v.ask(ctx, &q.Question, func() (unembedded string, err error) {
		if w, err = api.Why.Run(ctx, db, q); w.Plan != nil {
			unembedded = w.Plan.Unembedded
		}
		return unembedded, err
	})
	if err != nil {
		return err
	}
	if w.Plan != nil {
		w.Plan.Unembedded = said
	}
	if a.json {
		return a.printJSON(w)
	}
	a.printWhy(w)
	return nil
}

// printWhy prints the answer first, and then what it rests on.
func (a *app) printWhy(w memory.Why) {
	a.printf("%s\n", escape(whyText(w)))
	t := &table{header: []string{"", ""}, whole: true}
	row := func(key string, values ...string) {
		if len(values) > 0 {
			t.add(key, strings.Join(values, ", "))
		}
	}
	m := w.Memory
	row("scope", scopeText(m.Scope)...)
	if m.ExpiresAt != nil {
		row("expires", m.ExpiresAt.Format(time.RFC3339))
	}
	row("languages", m.Languages...)
	if len(m.Terms) > 0 {
		row("terms", strings.Join(m.Terms, " ")+more(m.TermCount-len(m.Terms)))
	}
	for _, f := range w.Filter {
		row("fails the filter", f)
	}
	if w.Plan != nil {
		row("query read in", w.Languages...)
		for _, term := range w.Terms {
			row("query term", termText(term))
		}
		if w.Plan.Unembedded != "" {
			row("query vector", "none: "+w.Plan.Unembedded)
		}
		if w.Vector != nil {
			row("vector", vectorText(w.Vector))
		}
	}
	for _, p := range w.Parts {
		row("part", fmt.Sprintf("%s %.3f, rank %s, the most is %.3f", strings.ReplaceAll(p.Part, "_", " "), p.Value, number(p.Rank), p.Most))
	}
	a.printTable(t)
	if len(w.Before) > 0 {
		a.printBefore(w)
	}
	if w.Plan != nil {
		a.printf("%s\n", a.dim(escape(planText(w.Plan))))
	}
}

// printBefore prints what stands before the memory, or in its place.
func (a *app) printBefore(w memory.Why) {
	if w.Rank > 0 {
		a.printf("before it:\n")
	} else {
		a.printf("found in its place:\n")
	}
	t := &table{header: []string{"SCORE", "ID", "TEXT"}}
	for _, h := range w.Before {
		t.add(score(h.Score), h.ID, h.Text)
		t.note(partsText(h.Parts))
	}
	a.printTable(t)
}

// whyText is the answer in a sentence.
func whyText(w memory.Why) string {
	place := fmt.Sprintf("it has rank %s of %s, with a score of %s", number(w.Rank), number(w.Ranked), score(w.Score))
	switch w.Reason {
	case memory.WhyFound:
		return fmt.Sprintf("%s is found: %s", w.ID, place)
	case memory.WhyDeleted:
		return fmt.Sprintf("%s is not found: it was deleted%s", w.ID, deathText(w.Memory))
	case memory.WhyExpired:
		if w.Memory.DeletedAt != nil {
			return fmt.Sprintf("%s is not found: it has expired, and was deleted%s", w.ID, deathText(w.Memory))
		}
		return fmt.Sprintf("%s is not found: it has expired", w.ID)
	case memory.WhyLimit:
		if w.Rank == 0 {
			return fmt.Sprintf("%s is not found: it stands behind the first %s; give a higher --limit", w.ID, number(w.Ranked))
		}
		return fmt.Sprintf("%s is not found: %s, and the limit is %s; give a higher --limit", w.ID, place, number(w.Limit))
	case memory.WhyMinScore:
		return fmt.Sprintf("%s is not found: %s, and the least is %s; give a lower --min-score", w.ID, place, score(w.MinScore))
	case memory.WhyMissed:
		return fmt.Sprintf("%s is not found: by all vectors %s, but the search by their graph has missed it", w.ID, place)
	}
	return fmt.Sprintf("%s is not found: %s", w.ID, map[memory.WhyReason]string{
		memory.WhyFilter:      "the filter does not hold for it",
		memory.WhyDemanded:    "the operators of the query demand what it lacks, or exclude what it has",
		memory.WhyNoWords:     "the query has no word to look for",
		memory.WhyNoMatch:     "it has no word of the query, and neither has a memory next to it in its run; it has no vector that is compared, either",
		memory.WhyNoVector:    "the profile ranks by vectors, and it has none",
		memory.WhyNoCandidate: "it meets the query, but neither its text nor its vector is among the best, which alone are ranked",
	}[w.Reason])
}

// deathText says when and why a memory was deleted.
func deathText(m memory.WhyMemory) string {
	s := " at " + m.DeletedAt.Format(time.RFC3339)
	if m.DeletedFor != "" {
		s += " (" + string(m.DeletedFor) + ")"
	}
	if m.Into != "" {
		s += ", merged into " + m.Into
	}
	return s
}

func scopeText(s memory.Scope) (parts []string) {
	for _, f := range []struct{ name, value string }{{"user", s.User}, {"agent", s.Agent}, {"run", s.Run}} {
		if f.value != "" {
			parts = append(parts, f.name+" "+f.value)
		}
	}
	return parts
}

func termText(t memory.WhyTerm) string {
	s := t.Term
	if t.Near {
		s += " (near a word of the query)"
	}
	s += ": in " + count(t.Memories, "memory", "memories")
	if t.Has {
		return s + ", and in this one: BM25 " + strconv.FormatFloat(t.BM25, 'f', 3, 64)
	}
	return s + ", not in this one"
}

func vectorText(v *memory.WhyVector) string {
	switch {
	case v.Similarity != nil:
		return fmt.Sprintf("similarity %.3f in the space %s", *v.Similarity, v.Space)
	case v.Pending:
		return "none: its text is still to be embedded; run memdbctl embed"
	}
	return "none to compare with that of the query"
}

// more says how many of a list are left out.
func more(n int) string {
	if n <= 0 {
		return ""
	}
	return " and " + number(n) + " more"
}
