package cli

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/services/config"
)

// modelFlags say which models of providers a verb uses.
type modelFlags struct {
	config string
	graph  bool // entities and relations, too
}

// persistentFlags are those of a verb and of all below it.
func (f *modelFlags) persistentFlags(cmd *cobra.Command, usage string) {
	cmd.PersistentFlags().StringVar(&f.config, "config", "", usage)
	cmd.PersistentFlags().BoolVar(&f.graph, "graph", true, "a `BOOL`, false: no entities and relations by the language model")
	_ = cmd.MarkPersistentFlagFilename("config", "toml", "json") // fails only for a flag that there is not
}

func (f *modelFlags) flags(cmd *cobra.Command, usage string) {
	cmd.Flags().StringVar(&f.config, "config", "", usage)
	_ = cmd.MarkFlagFilename("config", "toml", "json") // fails only for a flag that there is not
}

// env looks a variable of the environment up.
func (a *app) env(name string) (string, bool) {
	value := a.getenv(name)
	return value, value != ""
}

// bound reports whether a server runs the command for a client who is no administrator.
func (a *app) bound() bool { return a.bounds != nil && a.bounds.Scopes != nil }

// openModels makes the models of a configuration. A server asks those that a client names for an
// administrator, and for others only where its own configuration goes.
func (a *app) openModels(c *config.Config, metered bool) (*config.Services, error) {
	if a.bound() {
		for _, e := range c.Endpoints(a.env) {
			if !slices.Contains(a.bounds.Models, e) {
				return nil, &memory.Error{
					Kind: memory.ErrInvalid, What: "ask the model at " + e.String(), Why: "it is not one of the server's configuration, and the server asks no other for the key " + a.bounds.Key,
					Do: "name no model by --config, MEMDB_CONFIG or a provider's key in the environment, or have the server's operator configure it",
				}
			}
		}
	}
	return c.Open(a.env, metered)
}

// useModels is use with the models of a configuration. The embedder is that of the database,
// and all calls are counted in its usage.
func (a *app) useModels(ctx context.Context, c *config.Config, fn func(*engine.DB, *config.Services) error) error {
	if err := a.exists(); err != nil {
		return err
	}
	s, err := a.openModels(c, true)
	if err != nil {
		return err
	}
	var o *engine.Options
	if s.Engine != nil {
		o = &engine.Options{Embedder: s.Engine}
	}
	return a.create(ctx, o, func(db *engine.DB) error {
		s.Meter(db.Usage())
		return fn(db, s)
	})
}
