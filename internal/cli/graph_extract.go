package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/mention"
	"github.com/seed-7aedc3ff/memdb/services/config"
	"github.com/seed-7aedc3ff/memdb/services/extract"
)

const graphExtractExample = `
memdbctl graph extract --user ada
memdbctl graph extract --agent planner --run monday --again --json
memdbctl graph extract --agent planner --config models.toml`

func (a *app) graphExtractCmd() *cobra.Command {
	cmd := newCmd("", "extract", "Link memories to the people, places, dates and handles in their texts", graphExtractExample)
	cmd.Long = `Link memories that are there to what their texts mention: people, places, dates and
handles, found by rule, or with --config by the language model of that file. Entities that
are not there are made; a name that an entity has already means that one. Memories that were
linked so before are left out, unless --again is given. recall --graph uses the links, and
store --extract links what it stores at once.`
	cmd.Args = exactly(0, "no argument")
	var o engine.ExtractOptions
	var models modelFlags
	scopeFlags(cmd, &o.Scope)
	cmd.Flags().BoolVar(&o.AllScopes, "all-scopes", false, everyoneHelp)
	cmd.Flags().BoolVar(&o.Again, "again", false, "from memories that are linked already, too")
	models.flags(cmd, "extract with the language model of this `FILE`")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx := cmd.Context()
		if models.config == "" {
			o.Extractor = mention.Rules{}
			return a.use(ctx, func(db *engine.DB) error { return a.extract(ctx, db, o) })
		}
		c, err := a.loadConfig(models.config)
		if err != nil {
			return err
		}
		return a.useModels(ctx, c, func(db *engine.DB, s *config.Services) error {
			if s.LLM == nil {
				return usagef(cmd, "%s names no language model", models.config)
			}
			o.Extractor = extract.New(s.LLM, extract.Options{Owner: o.Owner()})
			return a.extract(ctx, db, o)
		})
	}
	return cmd
}

func (a *app) extract(ctx context.Context, db *engine.DB, o engine.ExtractOptions) error {
	var done engine.Extracted
	err := a.during("extract", func() (err error) {
		done, err = db.ExtractEntities(ctx, o)
		return err
	})
	if err != nil {
		if done.Memories > 0 {
			a.note("before it failed, %s were linked", count(done.Memories, "memory", "memories"))
		}
		return err
	}
	if a.json {
		return a.printJSON(done)
	}
	a.printf("%s read: %s, %s, %s\n", count(done.Memories, "memory", "memories"), count(done.Entities, "new entity", "new entities"),
		count(done.Relations, "new relation", "new relations"), count(done.Links, "new link", "new links"))
	return nil
}
