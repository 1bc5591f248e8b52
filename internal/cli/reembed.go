package cli

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/services/config"
)

const embedExample = `
memdbctl embed --config memdb.toml
memdbctl embed --config memdb.toml --limit 1000 --json`

// configured reads the file of --config or MEMDB_CONFIG, which must name an embedder other than the
// lexical.
func (a *app) configured(cmd *cobra.Command, f *modelFlags) (*config.Config, error) {
	file := a.configFile(f)
	if file == "" {
		return nil, usagef(cmd, "name a file with an embedder by --config or %s", config.FileVariable)
	}
	c, err := a.loadConfig(file)
	if err != nil {
		return nil, err
	}
	if c.Embedder == nil || c.Embedder.Provider == config.Lexical {
		return nil, &memory.Error{
			Kind: memory.ErrInvalid, What: "read " + file, Why: "it names no embedder whose vectors are stored; lexical vectors are made when they are asked for",
			Do: "name another provider under embedder",
		}
	}
	return c, nil
}

func (a *app) embedCmd() *cobra.Command {
	cmd := newCmd(groupDatabase, "embed", "Embed the memories that have no vector yet", embedExample)
	cmd.Long = `Embed the memories that have a text and no vector, by the embedder of --config, of the
file that MEMDB_CONFIG names, or the one that has made the vectors of the database: those
from before there was one, and those for which it has failed. What the calls took is
recorded as usage; budgets are checked before.`
	cmd.Args = exactly(0, "no arguments")
	var (
		models modelFlags
		limit  int
	)
	models.flags(cmd, "the embedder of this `FILE` of TOML or JSON (default $MEMDB_CONFIG, then that of the vectors that are there)")
	cmd.Flags().IntVar(&limit, "limit", 0, limitHelp+" (default all)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if limit < 0 {
			return usagef(cmd, "--limit %d: it is negative", limit)
		}
		ctx := cmd.Context()
		if a.configFile(&models) == "" && !a.served() {
			return a.embedAsBefore(ctx, limit)
		}
		c, err := a.configured(cmd, &models)
		if err != nil {
			return err
		}
		return a.useModels(ctx, c, func(db *engine.DB, _ *config.Services) error { return a.embed(ctx, db, limit) })
	}
	return cmd
}

// embedAsBefore embeds with what has made the vectors of the database.
func (a *app) embedAsBefore(ctx context.Context, limit int) error {
	if err := a.exists(); err != nil {
		return err
	}
	v := &vectorModel{app: a}
	return a.createBy(ctx, v, nil, func(db *engine.DB) error {
		switch {
		case v.why != nil:
			return v.why
		case v.services == nil:
			return &memory.Error{
				Kind: memory.ErrInvalid, What: "embed", Why: "the database has no vectors of an embedder yet",
				Do: "name a file with an embedder by --config or " + config.FileVariable,
			}
		}
		return a.embed(ctx, db, limit)
	})
}

// embeddedJSON is the result of embed.
type embeddedJSON struct {
	Embedded int   `json:"embedded"`
	Left     int64 `json:"left"`
}

// embed embeds what is pending, and prints how much that was. Where the embedder refuses what
// is left, that is the error of the verb.
func (a *app) embed(ctx context.Context, db *engine.DB, limit int) error {
	const part = 1000
	bar := &progress{app: a}
	total := 0
	var failed error
	for limit == 0 || total < limit {
		most := part
		if limit > 0 {
			most = min(most, limit-total)
		}
		n, err := db.EmbedPending(ctx, most)
		if total += n; n == 0 || err != nil {
			failed = err
			break
		}
		bar.say("embedded %s", number(total))
	}
	bar.clear()
	stats, err := db.Stats(ctx)
	if err != nil {
		return err
	}
	if a.json {
		err = a.printJSON(embeddedJSON{total, stats.Pending})
	} else {
		a.printf("embedded %s, %s left\n", count(total, "memory", "memories"), number(int(stats.Pending)))
	}
	if err != nil {
		return err
	}
	return failed
}

const reembedExample = `
memdbctl reembed --config new.toml
memdbctl reembed --config new.toml --limit 10000
memdbctl reembed --config new.toml --keep --json`

// reembedFlags are those of reembed.
type reembedFlags struct {
	modelFlags
	limit         int
	partial, keep bool
}

func (a *app) reembedCmd() *cobra.Command {
	cmd := newCmd(groupDatabase, "reembed", "Embed all memories with another model", reembedExample)
	cmd.Long = `Embed all memories that have a text with the embedder of --config, in a space beside
the vectors that are used, and then switch to the new ones in one commit, and drop those
of before. Interrupted, or ended by --limit, it leaves everything as it was, and goes on
where it stopped when it is called again; where the vectors are of that model already, it
drops those of before that are still there. After the switch programs open the database
with the new embedder.

It waits until the new vectors are linked, as import does, so that the first search is as
fast as any.`
	cmd.Args = exactly(0, "no arguments")
	var f reembedFlags
	f.flags(cmd, "the new embedder, of this `FILE` of TOML or JSON (default $MEMDB_CONFIG)")
	cmd.Flags().IntVar(&f.limit, "limit", 0, "maximum number of memories to embed; the next call continues with the rest (default all)")
	cmd.Flags().BoolVar(&f.partial, "partial", false, "switch although the embedder has refused some texts: they have no vector then")
	cmd.Flags().BoolVar(&f.keep, "keep", false, "keep the vectors of before, so that reembed goes back without a call of the embedder")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if f.limit < 0 {
			return usagef(cmd, "--limit %d: it is negative", f.limit)
		}
		c, err := a.configured(cmd, &f.modelFlags)
		if err != nil {
			return err
		}
		return a.reembed(cmd.Context(), c, &f)
	}
	return cmd
}

// reembeddedJSON is the result of reembed.
type reembeddedJSON struct {
	Model string `json:"model"`
	engine.Reembedding
	Switched bool `json:"switched"`
	Dropped  int  `json:"dropped"`
	// LinkSeconds is how long the linking of vectors took, where it took any time.
	LinkSeconds float64 `json:"link_seconds,omitempty"`
}

func (a *app) reembed(ctx context.Context, c *config.Config, f *reembedFlags) error {
	if err := a.exists(); err != nil {
		return err
	}
	s, err := a.openModels(c, true)
	if err != nil {
		return err
	}
	r := reembeddedJSON{Model: s.Engine.Model()}
	err = a.create(ctx, &engine.Options{}, func(db *engine.DB) (err error) {
		s.Meter(db.Usage())
		bar := &progress{app: a, name: "reembed"}
		defer bar.clear()
		r.Reembedding, err = db.Reembed(ctx, s.Engine, &engine.ReembedOptions{Limit: f.limit, Progress: func(now engine.Reembedding) {
			bar.say("embedded %s, %s left", number(now.Embedded), number(now.Left))
		}})
		if errors.Is(err, memory.ErrInvalid) && !f.keep {
			return a.dropKept(ctx, db, &r, err)
		}
		if err != nil || r.Left > 0 && (!f.partial || r.Left > r.Refused) {
			return err
		}
		took, err := bar.link(ctx, db)
		if err != nil {
			return err
		}
		r.Switched, r.LinkSeconds = true, took.Seconds()
		return db.SwitchModel(ctx, r.Model, f.partial)
	})
	switch {
	case err != nil || !r.Switched || f.keep:
	case a.served(): // the program must open the database again first
		a.warn("the vectors of before are kept; once the program has opened the database with the new embedder, reembed drops them")
	default:
		err = a.create(ctx, &engine.Options{}, func(db *engine.DB) (err error) {
			r.Dropped, err = db.DropSpace(ctx, r.Before)
			return err
		})
	}
	if err != nil {
		return err
	}
	return a.printReembedded(&r)
}

// dropKept drops the vectors of before of an earlier call, which kept them or was interrupted
// behind its switch. Where there are none, the error of this call is the one of Reembed.
func (a *app) dropKept(ctx context.Context, db *engine.DB, r *reembeddedJSON, refused error) error {
	stats, err := db.Stats(ctx)
	if err != nil {
		return err
	}
	for _, s := range stats.Spaces {
		if s.Name == "default" && s.Model != r.Model {
			return refused
		}
	}
	for _, s := range stats.Spaces {
		if !strings.HasPrefix(s.Name, engine.BesidePrefix) || s.Vectors == 0 {
			continue
		}
		n, err := db.DropSpace(ctx, s.Name)
		if r.Dropped += n; err != nil {
			return err
		}
	}
	if r.Dropped == 0 {
		return refused
	}
	return nil
}

func (a *app) printReembedded(r *reembeddedJSON) error {
	if a.json {
		return a.printJSON(r)
	}
	if r.Dropped > 0 && !r.Switched {
		a.printf("the vectors are of %s already; dropped those of before of %s\n", escape(r.Model), count(r.Dropped, "memory", "memories"))
		return nil
	}
	a.printf("embedded %s with %s\n", count(r.Embedded, "memory", "memories"), escape(r.Model))
	switch {
	case r.Switched:
		a.printf("switched to the new vectors; open the database with that model from now on\n")
	case r.Left == r.Refused:
		a.printf("the embedder has refused %s; to switch without them, give --partial\n", count(r.Refused, "text", "texts"))
	default:
		a.printf("%s left; call it again to go on\n", number(r.Left))
	}
	if r.Kept > 0 {
		a.printf("%s without a text can't be embedded, and only the vectors of before would find them\n", count(r.Kept, "memory", "memories"))
	}
	return nil
}
