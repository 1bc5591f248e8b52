package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/api"
	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/mention"
)

const storeExample = `
memdbctl store "Ada prefers tea to coffee" --user ada
echo "a longer text" | memdbctl store --user ada --run 2026-11-20 --role assistant
memdbctl store "Launch is on Friday" --agent planner --kind fact --importance 0.9 --metadata '{"team":"web"}'
memdbctl store "Ada met Bob in Ghent" --user ada --extract
memdbctl store "Launch is on Monday" --agent planner --id launch --upsert --json`

func (a *app) storeCmd() *cobra.Command {
	var (
		rules  bool
		models modelFlags
		v      *vectorModel
	)
	open := func(ctx context.Context, fn func(*engine.DB) error) (err error) {
		if v, err = a.vectorModel(&models, false); err != nil {
			return err
		}
		var o *engine.Options
		if rules {
			o = &engine.Options{Extractor: mention.Rules{}}
		}
		return a.createBy(ctx, v, o, fn)
	}
	store := *api.MemoryStore
	store.Summary = "Store a memory"
	store.Run = func(ctx context.Context, db *engine.DB, q *api.MemoryStoreRequest) (exchange.StoredInSession, error) {
		s, err := api.MemoryStore.Run(ctx, db, q)
		v.lacking(&q.Record, &s.Stored)
		return s, err
	}
	return opCmd(a, &store, shown[api.MemoryStoreRequest, exchange.StoredInSession]{
		help: help{example: storeExample, group: groupMemories, open: open},
		more: func(cmd *cobra.Command, q *api.MemoryStoreRequest) {
			cmd.Use = "store [TEXT… | -]"
			importanceFlag(cmd, &q.Importance, &q.AutoImportance)
			cmd.Flags().BoolVar(&rules, "extract", false, "link it to the people, places, dates and handles in its text, found by rule")
			models.embedderFlag(cmd)
			markNone(cmd)
			cmd.Annotations[inputWithout] = "yes"
			run := cmd.RunE
			cmd.RunE = func(cmd *cobra.Command, args []string) error {
				if len(args) == 0 && q.Embedding == nil {
					if a.inTerminal {
						return usagef(cmd, "there is no text; give it as an argument, or - to type it")
					}
					args = []string{"-"}
				}
				return run(cmd, args)
			}
		},
		show: func(_ *api.MemoryStoreRequest, s exchange.StoredInSession) { a.printStored(s) },
	})
}

func (a *app) printStored(s exchange.StoredInSession) {
	message := ""
	if s.MessageID != "" {
		message = ", message " + escape(s.MessageID)
	}
	a.printf("%s %s%s%s\n", outcome(s.Stored), escape(s.ID), message, a.pending(s.Stored))
}

// pending says behind what was stored that its vector is not there yet, and why.
func (a *app) pending(s exchange.Stored) string {
	if !s.Pending {
		return ""
	}
	a.note("%s has no vector yet: %s; memdbctl embed makes it", s.ID, s.PendingWhy)
	return ", vector pending"
}

// outcome says in a word or three what became of a memory.
func outcome(s exchange.Stored) string {
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
