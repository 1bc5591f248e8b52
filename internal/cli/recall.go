package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/api"
	"github.com/seed-7aedc3ff/memdb/engine"
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

const recallLong = `Find the memories that fit a query, best first.

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

func (a *app) recallCmd() *cobra.Command {
	var (
		q       api.RecallRequest
		queries string
		models  modelFlags
		v       *vectorModel
	)
	op := api.Recall.Operation
	op.Summary = "Find the memories that fit a query"
	h := help{long: recallLong, example: recallExample, group: groupMemories, open: a.openBy(&models, &v)}
	var cmd *cobra.Command
	cmd = a.operation(&op, api.Recall.Fields(), &q, h, func(ctx context.Context, c *caller) error {
		switch {
		case a.everyone:
			return a.recallEveryone(cmd, &q.Question)
		case queries != "":
			return a.recallQueries(ctx, v, c.db, queries, &q)
		}
		return a.recall(ctx, v, c.db, &q)
	})
	cmd.Use = "recall QUERY… | recall --queries FILE"
	graphAlone(cmd)
	models.embedderFlag(cmd)
	cmd.Flags().StringVar(&queries, "queries", "", "many queries, from this `FILE` of JSON lines or vectors")
	alsoCheck(cmd, func(args []string) error {
		switch asked := len(args) > 0 || q.Embedding != nil; {
		case queries != "" && asked:
			return usagef(cmd, "--queries takes no other query")
		case queries == "" && !asked:
			return usagef(cmd, "there is no query; give a text, --embedding or --queries")
		case len(q.Scopes) > 0 && queries != "":
			return usagef(cmd, "--scope stands alone: not with --queries")
		case q.Tokens > 0 && queries != "":
			return usagef(cmd, "--tokens is for one query, not for --queries")
		}
		return nil
	})
	return cmd
}

// graphAlone has --graph without a value use the graph with the weight that is a good one to begin with.
func graphAlone(cmd *cobra.Command) {
	cmd.Flags().Lookup("graph").NoOptDefVal = strconv.FormatFloat(policy.GraphWeight, 'g', -1, 64)
}

// openBy reads a database with the embedder of a command.
func (a *app) openBy(models *modelFlags, by **vectorModel) withDB {
	return func(ctx context.Context, fn func(*engine.DB) error) (err error) {
		if *by, err = a.vectorModel(models, true); err != nil {
			return err
		}
		return a.readBy(ctx, *by, fn)
	}
}

func (a *app) recall(ctx context.Context, v *vectorModel, db *engine.DB, q *api.RecallRequest) error {
	q.Lost = a.unreadable.lost
	r, err := v.recall(ctx, db, q)
	if err != nil {
		return err
	}
	found := foundHits{Recalled: r, wide: isWide(&q.Question)}
	if found.warnings, err = a.warnQuestion(ctx, db, &q.Question); err != nil {
		return err
	}
	return a.printAnswer(&found)
}

// warnQuestion warns of the fields of a question that no memory has.
func (a *app) warnQuestion(ctx context.Context, db *engine.DB, q *api.Question) ([]string, error) {
	f, err := q.Filter.Parse(ctx)
	if err != nil {
		return nil, err
	}
	scopes, _, err := q.Named("recall")
	if err != nil {
		return nil, err
	}
	return a.warnFields(ctx, db, asked{scopes: scopes, all: q.AllScopes}, f, "")
}

// foundHits are what a query found.
type foundHits struct {
	api.Recalled
	// warnings are about fields that no memory has.
	warnings []string
	wide     bool // hits may be of several owners
}

// isWide reports whether a query is about several scopes.
func isWide(q *api.Question) bool { return q.AllScopes || len(q.Scopes) > 1 }

func (a *app) printAnswer(r *foundHits) error {
	if a.json {
		return a.printHitsJSON(r)
	}
	if r.Unembedded != "" {
		a.note("the query has no vector, and its text alone was searched: %s", r.Unembedded)
	}
	return a.printHits(r)
}

// recall is api.Recall, which goes on by the text of a query that cannot be embedded, whatever its
// profile: Unembedded says why.
func (v *vectorModel) recall(ctx context.Context, db *engine.DB, q *api.RecallRequest) (r api.Recalled, err error) {
	said, err := v.ask(ctx, &q.Question, func() (unembedded string, err error) {
		r, err = api.Recall.Run(ctx, db, q)
		return r.Unembedded, err
	})
	r.Unembedded = said
	if r.Plan != nil {
		r.Plan.Unembedded = said
	}
	return r, err
}

// ask calls what answers a question, by its text where it cannot be embedded, and says why not.
func (v *vectorModel) ask(ctx context.Context, q *api.Question, answer func() (unembedded string, err error)) (string, error) {
	said, err := answer()
	if errors.Is(err, memory.ErrEmbedder) {
		said = err.Error()
	}
	if said == "" && v.why != nil && q.Query != "" && q.Embedding == nil && q.Profile != memory.ProfileText {
		said = v.why.Error()
	}
	if q.Profile == memory.ProfileVector && said != "" && ctx.Err() == nil {
		q.Profile = memory.ProfileText
		_, err = answer()
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
		return a.printJSON(planJSON{r.Plan, r.warnings})
	case r.Unembedded != "":
		return a.printJSON(unembeddedJSON{r.Unembedded, r.warnings})
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
