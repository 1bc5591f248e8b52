package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/mention"
)

const storeExample = `
memdbctl store "Ada prefers tea to coffee" --user ada
echo "a longer text" | memdbctl store --user ada --run 2026-11-20 --role assistant
memdbctl store "Launch is on Friday" --agent planner --kind fact --importance 0.9 --metadata '{"team":"web"}'
memdbctl store "Ada met Bob in Ghent" --user ada --extract
memdbctl store "Launch is on Monday" --agent planner --id launch --upsert --json`

func (a *app) storeCmd() *cobra.Command {
	cmd := newCmd(groupMemories, "store [TEXT… | -]", "Store a memory", storeExample)
	cmd.Annotations = map[string]string{inputWithout: "yes"}
	var (
		mem    memory.Memory
		patch  memory.Patch
		opts   memory.StoreOptions
		in     intoSession
		rules  bool
		models modelFlags
	)
	scopeFlags(cmd, &mem.Scope)
	markNone(cmd)
	flags := cmd.Flags()
	flags.StringVar(&mem.ID, "id", "", "its ID (default a new UUID)")
	flags.StringVar((*string)(&mem.Kind), "kind", "", "what it is: message, fragment, fact, note, archive or summary")
	a.changeFlags(cmd, &patch)
	flags.BoolVar(&opts.Upsert, "upsert", false, "change the memory that has the ID already")
	flags.BoolVar(&opts.NoDedup, "no-dedup", false, "store a text that is there already once more")
	flags.BoolVar(&rules, "extract", false, "link it to the people, places, dates and handles in its text, found by rule")
	models.embedderFlag(cmd)
	in.flags(cmd)
	a.requestFlag(cmd)
	complete(cmd, "kind", "message", "fragment", "fact", "note", "archive", "summary")
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if err := in.scope(cmd, &mem.Scope); err != nil {
			return err
		}
		if mem.Scope == (memory.Scope{}) {
			return &memory.Error{Kind: memory.ErrScope, What: "store a memory"} // before a database is made
		}
		if len(args) == 0 && patch.Embedding == nil {
			if a.inTerminal {
				return usagef(cmd, "there is no text; give it as an argument, or - to type it")
			}
			args = []string{"-"}
		}
		if mem.Text, err = a.readText(cmd.Context(), args); err != nil {
			return err
		}
		fill(&mem, &patch)
		if err := mem.Check(); err != nil {
			return err // likewise
		}
		var o *engine.Options
		if rules {
			o = &engine.Options{Extractor: mention.Rules{}}
		}
		v, err := a.vectorModel(&models, false)
		if err != nil {
			return err
		}
		if in.session != "" {
			return a.storeInSession(cmd.Context(), v, o, mem, &opts, &in)
		}
		return a.store(cmd.Context(), v, o, mem, &opts)
	}
	return cmd
}

// fill sets what the flags gave in a new memory.
func fill(m *memory.Memory, p *memory.Patch) {
	set(&m.Role, p.Role)
	set(&m.Source, p.Source)
	set(&m.Name, p.Name)
	set(&m.Aliases, p.Aliases)
	set(&m.Metadata, p.Metadata)
	set(&m.EventTime, p.EventTime)
	set(&m.ExpiresAt, p.ExpiresAt)
	set(&m.Pinned, p.Pinned)
	m.Embedding, m.Importance, m.Confidence = p.Embedding, p.Importance, p.Confidence
}

func set[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

func (a *app) store(ctx context.Context, v *vectorModel, with *engine.Options, m memory.Memory, o *memory.StoreOptions) error {
	return a.createBy(ctx, v, with, func(db *engine.DB) error {
		s, err := db.Memories().Store(ctx, m, o)
		if err != nil {
			return err
		}
		v.lacking(&m, &s)
		return a.printStored(s)
	})
}

func (a *app) printStored(s memory.Stored) error {
	if a.json {
		return a.printJSON(exchange.NewStored(s))
	}
	a.printf("%s %s%s\n", outcome(s), escape(s.ID), a.pending(s))
	return nil
}

// pending says behind what was stored that its vector is not there yet, and why.
func (a *app) pending(s memory.Stored) string {
	if !s.Pending {
		return ""
	}
	a.note("%s has no vector yet: %s; memdbctl embed makes it", s.ID, s.PendingWhy)
	return ", vector pending"
}

// outcome says in a word or three what became of a memory.
func outcome(s memory.Stored) string {
	switch {
	case s.Stored:
		return "stored"
	case s.Deduplicated:
		return "already there as"
	case s.Updated:
		return "updated"
	}
	return "unchanged"
}
