package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/embed"
	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/services/config"
)

// vectorModel finds the embedder that a verb uses: that of --config, of the file that MEMDB_CONFIG
// names, or else the one that has made the vectors of the database.
type vectorModel struct {
	app    *app
	config *config.Config // nil: that of the database
	// reads: the verb stores nothing, so that a database without vectors needs no embedder.
	reads bool
	// unmetered: calls are not counted, since the database cannot be written.
	unmetered bool
	services  *config.Services
	// why there is no embedder although there is, or should be, one.
	why error
}

// ownModels marks a verb that uses the embedder of the program that serves the database: it
// needs no variable of the environment then.
const ownModels = "uses the embedder of the program"

// embedderFlag is --config of a verb that works without one.
func (f *modelFlags) embedderFlag(cmd *cobra.Command) {
	f.flags(cmd, "the embedder of this `FILE` of TOML or JSON (default $"+config.FileVariable+", then that of the vectors that are there)")
	if cmd.Annotations == nil {
		cmd.Annotations = map[string]string{}
	}
	cmd.Annotations[ownModels] = "yes"
}

// configFile is the name of the configuration: that of --config, or of the environment.
func (a *app) configFile(f *modelFlags) string {
	if f.config != "" {
		return f.config
	}
	return a.getenv(config.FileVariable)
}

// vectorModel reads the configuration of a verb, if it has one.
func (a *app) vectorModel(f *modelFlags, reads bool) (*vectorModel, error) {
	v := &vectorModel{app: a, reads: reads}
	if a.served() {
		if f.config != "" {
			a.note("the program that holds %s embeds texts by itself, and --config has no effect", a.dir)
		}
		return v, nil
	}
	file := a.configFile(f)
	if file == "" {
		return v, nil
	}
	var err error
	v.config, err = a.loadConfig(file)
	return v, err
}

// served reports whether the database is that of the program that runs the verb.
func (a *app) served() bool { return a.shell != nil && a.shell.served }

// needed reports whether the database has to be opened with the embedder, by what made its vectors.
func (v *vectorModel) needed(m engine.VectorModel) bool { return v.config != nil || m.Model != "" }

// of makes the embedder for a database, nil where there is none: then why says what is missing.
func (v *vectorModel) of(m engine.VectorModel) embed.Embedder {
	v.services, v.why = nil, nil
	if !v.needed(m) || v.reads && m.Dim == 0 || m.Model == (embed.Lexical{}).Model() {
		return nil
	}
	c := v.config
	if c == nil {
		if c, v.why = config.OfVectors(m, v.app.env); v.why != nil {
			return nil
		}
	}
	s, err := v.app.openModels(c, !v.unmetered)
	switch {
	case err != nil:
		v.why = err
	case s.Engine == nil && m.Model != "":
		v.why = fmt.Errorf("the vectors are of %s, and the configuration names no embedder; name that one, or call reembed", m.Model)
	case s.Engine == nil:
	case m.Dim != 0 && (m.Model != "" && m.Model != s.Engine.Model() || m.Dim != s.Engine.Dim()):
		v.why = fmt.Errorf("the vectors are of %s with %d dimensions, and the configuration has %s with %d; name the embedder that made them, or call reembed",
			m.Model, m.Dim, s.Engine.Model(), s.Engine.Dim())
	default:
		v.services = s
		return s.Engine
	}
	return nil
}

// whyNot is why a text has no vector: what the embedder lacks, or what the database says.
func (v *vectorModel) whyNot(said string) string {
	if v.why != nil {
		return v.why.Error()
	}
	return said
}

// lacking says of a memory that was stored without the embedder that there is to be that its vector
// is pending.
func (v *vectorModel) lacking(m *exchange.Record, s *exchange.Stored) {
	if v.why != nil && s.Stored && m.Text != "" && m.Embedding == nil {
		s.Pending = true
	}
	if s.Pending {
		s.PendingWhy = v.whyNot(s.PendingWhy)
	}
}

// options are those of an opening with the embedder.
func (v *vectorModel) options(o *engine.Options) *engine.Options {
	if o == nil {
		o = &engine.Options{}
	}
	o.EmbedderOf = v.of
	return o
}

// use calls fn with a database that was opened so, whose usage counts the calls.
func (v *vectorModel) use(fn func(*engine.DB) error) func(*engine.DB) error {
	return func(db *engine.DB) error {
		if v.services != nil {
			v.services.Meter(db.Usage())
		}
		return fn(db)
	}
}

// readBy is read with the embedder of the verb.
func (a *app) readBy(ctx context.Context, v *vectorModel, fn func(*engine.DB) error) error {
	return a.readWith(ctx, func(o *engine.Options) *engine.Options {
		v.unmetered = o != nil && o.ReadOnly
		return v.options(o)
	}, v.use(fn))
}

// createBy is create with the embedder of the verb.
func (a *app) createBy(ctx context.Context, v *vectorModel, o *engine.Options, fn func(*engine.DB) error) error {
	return a.create(ctx, v.options(o), v.use(fn))
}
