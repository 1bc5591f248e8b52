package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/policy"
)

const recallExample = `
memdbctl recall "tea or coffee?" --user ada
memdbctl recall '+tea -milk "green tea"' --user ada --syntax operators --highlight
memdbctl recall "launch date" --agent planner --profile hybrid --limit 3 --explain
memdbctl recall "where does she live" --user ada --tokens 500
memdbctl recall "what does Ada work on?" --user ada --graph --explain
memdbctl recall "launch" --scope '{"agent":"planner"}' --scope '{"user":"ada","run":"r7"}'
memdbctl recall "launch" --all-scopes --filter '{"field":"team","operator":"in","value":["web","app"]}' --json
memdbctl recall --queries questions.jsonl --agent planner >answers.jsonl
memdbctl recall --queries queries.fbin --agent bench --profile vector >answers.jsonl`

func (a *app) recallCmd() *cobra.Command {
	cmd := newCmd(groupMemories, "recall QUERY… | recall --queries FILE", "Find the memories that fit a query", recallExample)
	cmd.Long = `Find the memories that fit a query, best first.

--queries reads a JSON object a line, {"id","query","embedding","user","agent",
"run","filter","limit","profile"}, from a file, or from the input for "-", and
prints {"id","hits":[{"id","score"}],"took_us"} for each. What a line leaves out
is taken from the flags. Of a .fbin or .u8bin file each row is the vector of a query,
of the ID "0" and so on. Such queries leave access counts alone. Queries a second
and the times that half and 99% of them take go to stderr.

Where an embedder has made the vectors of the database, the query is embedded by it: that
of --config, of the file that MEMDB_CONFIG names, or the one that the database knows,
with the key of its provider in the environment. Where that fails the query is searched
by its text alone, which is said: in JSON under "unembedded", in a last line of its own or in
the plan.`
	var (
		q       memory.Query
		queries string
		vectors bool
		models  modelFlags
	)
	recallFlags(cmd, &q)
	flags := cmd.Flags()
	flags.BoolVar(&q.Explain, "explain", false, "show the parts of each score and the plan")
	flags.BoolVar(&q.Highlight, "highlight", false, "mark what the query looks for «so»; with --json its spans in bytes")
	flags.IntVar(&q.Tokens, "tokens", 0, "as many as make up so many tokens, at four bytes each, none that repeats another; short answers with their questions")
	flags.BoolVar(&q.NoTouch, "no-touch", false, "leave access counts and times alone")
	flags.BoolVar(&vectors, "vectors", false, "with the vectors, in JSON")
	models.embedderFlag(cmd)
	flags.StringVar(&queries, "queries", "", "many queries, from this `FILE` of JSON lines or vectors")
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		switch asked := len(args) > 0 || q.Embedding != nil; {
		case queries != "" && asked:
			return usagef(cmd, "--queries takes no other query")
		case queries == "" && !asked:
			return usagef(cmd, "there is no query; give a text, --embedding or --queries")
		}
		if len(q.Scopes) > 0 && queries != "" {
			return usagef(cmd, "--scope stands alone: not with --queries")
		}
		switch tokens := cmd.Flags().Changed("tokens"); {
		case tokens && q.Tokens < 1:
			return usagef(cmd, "--tokens %d: give 1 or more", q.Tokens)
		case tokens && queries != "":
			return usagef(cmd, "--tokens is for one query, not for --queries")
		}
		if err := checkQuery(cmd, &q); err != nil {
			return err
		}
		if q.Tokens > 0 && !cmd.Flags().Changed("limit") {
			q.Limit = 0 // as many as fit
		}
		return nil
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		withNone(cmd, &q.Filter)
		v, err := a.vectorModel(&models, true)
		if err != nil {
			return err
		}
		if queries != "" {
			return a.recallQueries(cmd.Context(), v, queries, q)
		}
		q.Text, q.WithVectors = strings.Join(args, " "), vectors
		if a.everyone {
			return a.recallEveryone(cmd, &q)
		}
		return a.recall(cmd.Context(), v, q)
	}
	return cmd
}

// recallFlags are the flags that say what is asked, of whom.
func recallFlags(cmd *cobra.Command, q *memory.Query) {
	scopeFlags(cmd, &q.Scope)
	markNone(cmd)
	flags := cmd.Flags()
	flags.Func("scope", "of this scope, a `JSON` object; can be repeated: several are searched as one", func(s string) error {
		var one memory.Scope
		if err := exchange.DecodeStrict([]byte(s), &one); err != nil {
			return err
		}
		q.Scopes = append(q.Scopes, one)
		return nil
	})
	flags.BoolVar(&q.AllScopes, "all-scopes", false, everyoneHelp)
	filterFlag(cmd, &q.Filter)
	flags.IntVar(&q.Limit, "limit", 10, limitHelp+", up to "+number(memory.MaxLimit))
	flags.Float64Var(&q.MinScore, "min-score", 0, "only hits of this `SCORE` at least, as the profile counts it (0: all)")
	flags.StringVar((*string)(&q.Profile), "profile", "", "how to rank: best, text, vector, hybrid or substrate (default best)")
	flags.StringVar((*string)(&q.Syntax), "syntax", "", "how to read the text: plain, or operators (+word -word \"a phrase\" begin* simil~ AND OR NOT)")
	flags.Float64Var(&q.Graph, "graph", 0, "use the graph, with this `WEIGHT` up to 1 (without a value: "+strconv.FormatFloat(policy.GraphWeight, 'g', -1, 64)+")")
	flags.Lookup("graph").NoOptDefVal = strconv.FormatFloat(policy.GraphWeight, 'g', -1, 64)
	vectorFlag(cmd, &q.Embedding, "the query's vector, a `JSON` list of numbers")
	complete(cmd, "syntax", string(memory.SyntaxPlain), string(memory.SyntaxOperators))
	complete(cmd, "profile", string(memory.ProfileBest), string(memory.ProfileText), string(memory.ProfileVector),
		string(memory.ProfileHybrid), string(memory.ProfileSubstrate))
}

// checkQuery refuses flags of a query that exclude each other.
func checkQuery(cmd *cobra.Command, q *memory.Query) error {
	if len(q.Scopes) > 0 && (q.Scope != memory.Scope{} || q.AllScopes) {
		return usagef(cmd, "--scope stands alone: not with --user, --agent, --run or --all-scopes")
	}
	return checkLimit(cmd, q.Limit)
}

func (a *app) recall(ctx context.Context, v *vectorModel, q memory.Query) error {
	return a.readBy(ctx, v, func(db *engine.DB) error {
		q.Lost = a.unreadable.lost
		r, err := v.recall(ctx, db, q)
		if err != nil {
			return err
		}
		found := foundHits{Plan: r.Plan, Unembedded: r.Unembedded, wide: isWide(&q)}
		if found.Warnings, err = a.warnFields(ctx, db, asked{q.Scope, q.Scopes, q.AllScopes}, q.Filter, ""); err != nil {
			return err
		}
		for _, h := range r.Hits {
			found.Hits = append(found.Hits, exchange.NewHit(h, q))
		}
		return a.printAnswer(&found)
	})
}

// foundHits are what a query found, as the answer of a server has it.
type foundHits struct {
	Hits       []exchange.Hit `json:"hits"`
	Plan       *memory.Plan   `json:"-"` // which is not read from answers
	Unembedded string         `json:"unembedded"`
	Unreadable int            `json:"unreadable"`
	// Warnings are about fields that no memory has.
	Warnings []string `json:"-"`
	wide     bool     // hits may be of several owners
}

// isWide reports whether a query is about several scopes.
func isWide(q *memory.Query) bool { return q.AllScopes || len(q.Scopes) > 1 }

func (a *app) printAnswer(r *foundHits) error {
	if a.json {
		return a.printHitsJSON(r)
	}
	if r.Unembedded != "" {
		a.note("the query has no vector, and its text alone was searched: %s", r.Unembedded)
	}
	return a.printHits(r)
}

// recall is Recall, which goes on by the text of a query that cannot be embedded, whatever its
// profile: Unembedded says why.
func (v *vectorModel) recall(ctx context.Context, db *engine.DB, q memory.Query) (memory.Result, error) {
	var r memory.Result
	said, err := v.ask(ctx, q, func(q memory.Query) (unembedded string, err error) {
		r, err = db.Memories().Recall(ctx, q)
		return r.Unembedded, err
	})
	r.Unembedded = said
	if r.Plan != nil {
		r.Plan.Unembedded = said
	}
	return r, err
}

// ask calls what answers a query, by its text where it cannot be embedded, and says why not.
func (v *vectorModel) ask(ctx context.Context, q memory.Query, answer func(memory.Query) (unembedded string, err error)) (string, error) {
	said, err := answer(q)
	if errors.Is(err, memory.ErrEmbedder) {
		said = err.Error()
	}
	if said == "" && v.why != nil && q.Text != "" && q.Embedding == nil && q.Profile != memory.ProfileText {
		said = v.why.Error()
	}
	if q.Profile == memory.ProfileVector && said != "" && ctx.Err() == nil {
		q.Profile = memory.ProfileText
		_, err = answer(q)
	}
	if said != "" {
		said = v.whyNot(said)
	}
	return said, err
}

// planJSON is the last line of an explained recall.
type planJSON struct {
	Plan     *memory.Plan `json:"plan"`
	Warnings []string     `json:"warnings,omitempty"`
}

// unembeddedJSON is the last line of another recall whose query has no vector.
type unembeddedJSON struct {
	Unembedded string   `json:"unembedded"`
	Warnings   []string `json:"warnings,omitempty"`
}

func (a *app) printHitsJSON(r *foundHits) error {
	for i := range r.Hits {
		if err := a.printJSON(r.Hits[i]); err != nil {
			return err
		}
	}
	switch {
	case r.Plan != nil:
		return a.printJSON(planJSON{r.Plan, r.Warnings})
	case r.Unembedded != "":
		return a.printJSON(unembeddedJSON{r.Unembedded, r.Warnings})
	}
	return nil
}

func (a *app) printHits(r *foundHits) error {
	if len(r.Hits) == 0 {
		a.note("nothing was found")
	}
	t := a.ownedRows(r.wide, 2, "SCORE", "ID", "TEXT")
	for i := range r.Hits {
		h := &r.Hits[i]
		text := h.Text
		if t.csv == nil {
			text = memory.Highlight(h.Text, h.Spans, "«", "»")
		}
		if err := t.addOf(memory.Scope{User: h.User, Agent: h.Agent, Run: h.Run}, nil, score(h.Score), h.ID, text); err != nil {
			return err
		}
		if h.Asked != nil && t.csv == nil {
			t.shown.note("answers: " + h.Asked.Text)
		}
		if h.Near && t.csv == nil {
			t.shown.note("by words near those of the query alone")
		}
		if h.Parts != nil && t.csv == nil {
			t.shown.note(partsText(*h.Parts))
		}
	}
	if err := t.end(); err != nil || r.Plan == nil {
		return err
	}
	if t.csv != nil {
		a.note("%s", planText(r.Plan))
		return nil
	}
	a.printf("%s\n", a.dim(escape(planText(r.Plan))))
	return nil
}

func score(f float64) string { return fmt.Sprintf("%.3f", f) }

// partsText lists the parts of a score that are not zero.
func partsText(p memory.Signals) string {
	var parts []string
	p.Each(func(name string, value float64) {
		if value != 0 {
			parts = append(parts, fmt.Sprintf("%s %.2f", strings.ReplaceAll(name, "_", " "), value))
		}
	})
	return strings.Join(parts, "  ")
}

// planText tells in a line how an answer was found.
func planText(p *memory.Plan) string {
	parts := []string{
		"profile " + string(p.Profile),
		number(p.InScope) + " in scope",
		number(p.Candidates) + " scored",
	}
	for _, s := range p.Stages {
		parts = append(parts, fmt.Sprintf("%s %d µs", s.Name, s.Micros))
	}
	if p.Vector != "" {
		parts = append(parts, "vectors of "+p.Vector)
	}
	for _, g := range p.Graph {
		parts = append(parts, "graph from "+strings.Join(g.Named, ", ")+": "+count(g.Entities, "entity", "entities")+", "+count(g.Memories, "memory", "memories"))
	}
	if len(p.Terms) > 0 {
		parts = append(parts, "terms "+strings.Join(p.Terms, " "))
	}
	if len(p.Near) > 0 {
		parts = append(parts, "near words "+strings.Join(p.Near, " "))
	}
	return "plan: " + strings.Join(parts, ", ")
}
