package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/memory"
)

const demoExample = `
memdbctl demo
memdbctl demo --db ./demo.data`

const (
	demoAgent = "demo"
	// demoWidth is that of the output where no terminal says otherwise.
	demoWidth = 80
	// party is the turn that the demo updates, and glue the one it deletes.
	party = "turn-27"
	glue  = "turn-20"
)

func (a *app) demoCmd() *cobra.Command {
	cmd := newCmd(groupData, "demo", "Show on a small conversation what the database does", demoExample)
	cmd.Long = `Show on a small conversation what the database does: it is stored, asked, changed
and partly deleted, and ages; a graph stands beside it. The demo works in a temporary folder, or in that of --db,
under the agent "` + demoAgent + `", where it can be looked at afterwards.`
	cmd.Args = exactly(0, "no argument")
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		kept := cmd.Flags().Changed("db")
		if !kept {
			if a.dir, err = os.MkdirTemp("", "memdb-demo-"); err != nil {
				return fmt.Errorf("demo: %w", err)
			}
			defer func() { err = errors.Join(err, os.RemoveAll(a.dir)) }()
		}
		ctx := cmd.Context()
		return a.createAs(ctx, &engine.Options{IndexedText: talkIndexedText()}, "speaker and date", func(db *engine.DB) error {
			d := &demo{app: a, db: db, memories: db.Memories()}
			return d.play(ctx, kept)
		})
	}
	return cmd
}

// demo shows one thing after the other.
type demo struct {
	*app
	db       *engine.DB
	memories engine.Memories
}

// scope is where the demo works.
func (d *demo) scope() memory.Scope { return memory.Scope{Agent: demoAgent} }

func (d *demo) play(ctx context.Context, kept bool) error {
	for _, step := range []func(context.Context) error{
		d.store,
		d.ask("Who looks after Pixel?", memory.ProfileHybrid, demoAgent),
		d.ask("How is Oskar's knee?", memory.ProfileHybrid, demoAgent),
		d.ask("Which machine costs 2,400 euros?", memory.ProfileText, demoAgent),
		d.storeAgain,
		d.update,
		d.delete,
		d.relate,
		d.ask("Who looks after Pixel?", memory.ProfileHybrid, "another-agent"),
		d.decay,
	} {
		if err := step(ctx); err != nil {
			return fmt.Errorf("demo: %w", err)
		}
	}
	if !d.json {
		d.title("Go on")
		if kept {
			d.line("memdbctl list --agent %s --db %s", demoAgent, d.dir)
		}
		d.line(`memdbctl store "Ada prefers tea to coffee" --user ada`)
		d.line(`memdbctl recall "tea or coffee?" --user ada`)
		d.line("memdbctl --help")
	}
	return nil
}

// turns are the memories of the conversation.
func (d *demo) turns() []memory.Memory {
	now := d.now()
	var mems []memory.Memory
	for i, t := range talk {
		at := now.Add(-time.Duration(t.days)*24*time.Hour + time.Duration(i)*time.Minute)
		m := memory.Memory{
			ID:    fmt.Sprintf("turn-%02d", i+1),
			Scope: memory.Scope{Agent: demoAgent, Run: at.UTC().Format(time.DateOnly)},
			Role:  memory.RoleUser, Text: t.text,
			Metadata:  map[string]any{"speaker": t.speaker},
			CreatedAt: at, EventTime: at,
		}
		if t.speaker == oskar {
			m.Role = memory.RoleAssistant
		}
		mems = append(mems, m)
	}
	return mems
}

func (d *demo) store(ctx context.Context) error {
	mems := d.turns()
	start := d.now()
	// A demo that is repeated in its folder undoes what the last one changed.
	stored, err := d.memories.StoreBatch(ctx, mems, &memory.StoreOptions{Upsert: true})
	if err != nil {
		return err
	}
	took := d.now().Sub(start)
	if d.json {
		return d.printJSON(struct {
			Step   string `json:"step"`
			Stored int    `json:"stored"`
		}{"store", len(stored)})
	}
	d.title("Store a conversation of five months: %d turns, one durable commit, %s", len(stored), took.Round(time.Microsecond))
	const first = 3
	for _, m := range mems[:first] {
		d.line("%s  %-5s  %s", m.Run, m.Metadata["speaker"], m.Text)
	}
	d.line("… and %d more", len(mems)-first)
	return nil
}

// ask is a step that recalls, and shows what the score of each hit is made of.
func (d *demo) ask(question string, p memory.Profile, agent string) func(context.Context) error {
	q := memory.Query{Scope: memory.Scope{Agent: agent}, Text: question, Limit: 3, Profile: p, Explain: true}
	return func(ctx context.Context) error {
		r, err := d.memories.Recall(ctx, q)
		if err != nil {
			return err
		}
		return d.printAnswer(q, r)
	}
}

func (d *demo) printAnswer(q memory.Query, r memory.Result) error {
	if d.json {
		hits := []exchange.Hit{}
		for _, h := range r.Hits {
			hits = append(hits, exchange.NewHit(h, q))
		}
		return d.printJSON(struct {
			Step  string         `json:"step"`
			Agent string         `json:"agent"`
			Query string         `json:"query"`
			Hits  []exchange.Hit `json:"hits"`
			Plan  *memory.Plan   `json:"plan"`
		}{"recall", q.Agent, q.Text, hits, r.Plan})
	}
	d.title("Recall %q as agent %s, by %s", q.Text, q.Agent, q.Profile)
	for _, h := range r.Hits {
		d.line("%s  %-5s  %s", score(h.Score), h.Metadata["speaker"], h.Text)
		d.detail("  %s", partsText(h.Parts))
	}
	if len(r.Hits) == 0 {
		d.line("nothing: what one agent remembers, no other one finds")
		return nil
	}
	d.detail("%s", planText(r.Plan))
	return nil
}

// storeAgain stores a text that is there under another ID.
func (d *demo) storeAgain(ctx context.Context) error {
	m := d.turns()[0]
	m.ID = ""
	s, err := d.memories.Store(ctx, m, nil)
	if err != nil {
		return err
	}
	if d.json {
		return d.printJSON(struct {
			Step string `json:"step"`
			exchange.Stored
		}{"store again", exchange.NewStored(s)})
	}
	d.title("Store the first turn once more")
	d.line("%s %s: the same text is kept once", outcome(exchange.NewStored(s)), s.ID)
	return nil
}

func (d *demo) update(ctx context.Context) error {
	text := "The opening party of the workshop is on Sunday at noon."
	m, err := d.memories.Update(ctx, d.scope(), party, memory.Patch{Text: &text})
	if err != nil {
		return err
	}
	if d.json {
		if err := d.printJSON(struct {
			Step   string          `json:"step"`
			Memory exchange.Record `json:"memory"`
		}{"update", exchange.Show(m, false)}); err != nil {
			return err
		}
	} else {
		d.title("Update %s, and look at its history", m.ID)
	}
	return d.history(ctx, party)
}

func (d *demo) delete(ctx context.Context) error {
	if err := d.memories.Delete(ctx, d.scope(), glue); err != nil {
		return err
	}
	if d.json {
		if err := d.printJSON(struct {
			Step string `json:"step"`
			exchange.Deleted
		}{"delete", exchange.Deleted{Deleted: 1}}); err != nil {
			return err
		}
	} else {
		d.title("Delete %s: it is found no more, its history stays", glue)
	}
	return d.history(ctx, glue)
}

// history shows the last two changes of a memory.
func (d *demo) history(ctx context.Context, id string) error {
	entries, err := d.memories.History(ctx, d.scope(), id)
	if err != nil {
		return err
	}
	entries = entries[max(0, len(entries)-2):]
	for _, e := range entries {
		if d.json {
			if err := d.printJSON(struct {
				Step string `json:"step"`
				exchange.Past
			}{"history", exchange.NewPast(e)}); err != nil {
				return err
			}
			continue
		}
		d.line("%s  %-6s  %s", e.Time.UTC().Format(time.DateOnly), e.Event, pastText(exchange.NewPast(e)))
	}
	return nil
}

func (d *demo) title(format string, args ...any) {
	d.printf("\n%s\n", d.bold(d.fit(0, format, args...)))
}

func (d *demo) line(format string, args ...any) {
	d.printf("  %s\n", d.fit(2, format, args...))
}

func (d *demo) detail(format string, args ...any) {
	d.printf("  %s\n", d.dim(d.fit(2, format, args...)))
}

// fit is a line that fits the terminal behind an indent.
func (d *demo) fit(indent int, format string, args ...any) string {
	columns := d.outWidth
	if columns == 0 {
		columns = demoWidth
	}
	s := strings.TrimRight(escape(fmt.Sprintf(format, args...)), " ")
	return cut(s, columns-indent)
}

// decay lets a week without recalls cost confidence. What was recalled just now keeps it.
func (d *demo) decay(ctx context.Context) error {
	r, err := d.db.Consolidate(ctx, &engine.ConsolidateOptions{Scope: d.scope(), Merge: new(false)})
	if err != nil {
		return err
	}
	if d.json {
		return d.printJSON(struct {
			Step    string `json:"step"`
			Decayed int    `json:"memories_decayed"`
		}{"consolidate", r.Decayed})
	}
	page, err := d.memories.List(ctx, memory.ListQuery{Scope: d.scope(), OrderBy: "confidence"})
	if err != nil {
		return err
	}
	d.title("Consolidate: %s of %d were not recalled for a week", count(r.Decayed, "memory", "memories"), r.Processed)
	d.line("confidence %s  %s", share(page.Memories[0].Confidence), page.Memories[0].Text)
	if i := slices.IndexFunc(page.Memories, func(m memory.Memory) bool { return m.AccessCount > 0 }); i >= 0 {
		m := page.Memories[i]
		d.line("confidence %s  %s", share(m.Confidence), m.Text)
		d.detail("recalled just now, so it keeps its confidence")
	}
	return nil
}
