package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/services/config"
	"github.com/seed-7aedc3ff/memdb/services/facts"
)

const factExample = `
memdbctl fact add "I moved to Ghent, and I prefer tea to coffee" --user ada
memdbctl fact search "where does she live?" --user ada
memdbctl fact list --user ada --json
memdbctl fact history 7c9e6679-7425-40de-944b-e07fc1f90ae7`

func (a *app) factCmd() *cobra.Command {
	cmd := newCmd(groupMemories, "fact", "Keep what conversations tell as facts, each once", factExample)
	cmd.Long = `Keep what conversations tell as facts: memories of the kind fact, each of which is
there once. These verbs see, change and delete memories of this kind and the graph
that was made of them, and nothing else.

The language model is that of --config, or of the first key in the environment of
OPENAI_API_KEY (a server at OPENAI_BASE_URL), ANTHROPIC_API_KEY and GOOGLE_API_KEY.
Without a language model the messages themselves are the facts, but for greetings and
small talk, and a fact is known only where its text is the same.`
	a.models.persistentFlags(cmd, "the models of this `FILE` of TOML or JSON (default $MEMDB_CONFIG, then of the environment)")
	return withVerbs(
		cmd,
		a.factAddCmd(), a.factSearchCmd(), a.factListCmd(), a.factGetCmd(), a.factUpdateCmd(),
		a.factDeleteCmd(), a.factDeleteAllCmd(), a.factHistoryCmd(), a.factResetCmd(),
	)
}

// A withDB opens the database for a call, as create, use and read do.
type withDB func(ctx context.Context, fn func(*engine.DB) error) error

// withFacts calls fn with the memory of facts, which stands on the models of --config, or of
// the environment.
func (a *app) withFacts(ctx context.Context, open withDB, fn func(*facts.Facts) error) error {
	s, c, err := a.factModels(false)
	if err != nil {
		return err
	}
	a.embedder = s.Engine
	defer func() { a.embedder = nil }()
	return open(ctx, func(db *engine.DB) error {
		s.Meter(db.Usage())
		c.DB = db
		f, err := facts.New(c)
		if err != nil {
			return err
		}
		return fn(f)
	})
}

// addFacts adds facts, and prints them. The folder is held only while something is read or written;
// with --request-id it is held to the end.
func (a *app) addFacts(ctx context.Context, scope memory.Scope, messages facts.Messages, o *facts.AddOptions, exact *bool) error {
	s, c, err := a.factModels(!o.Raw)
	if err != nil {
		return err
	}
	if exact != nil {
		c.ExactScope = exact
	}
	a.embedder = s.Engine
	defer func() { a.embedder = nil }()
	l := &lease{app: a}
	s.MeterBy(l.usage)
	add := func(*engine.DB) error {
		added, err := facts.AddBy(ctx, l.use, *c, scope, messages, o)
		if err != nil {
			return err
		}
		return a.printAdded(added)
	}
	if a.attempt == nil {
		return add(nil)
	}
	return l.use(ctx, func(db *engine.DB) error { return a.once(ctx, db, add) })
}

// factModels are the models of --config, or of the environment, and what a memory of facts makes
// of them. asks reports that the language model decides; the others do without one, so that a server
// need not refuse the model of a client's environment.
func (a *app) factModels(asks bool) (*config.Services, *facts.Config, error) {
	c := &config.Config{}
	if asks || !a.bound() {
		c = config.FromEnv(a.env)
	}
	if file := a.configFile(&a.models); file != "" {
		var err error
		if c, err = a.loadConfig(file); err != nil {
			return nil, nil, err
		}
	}
	s, err := a.openModels(c, true)
	if err == nil {
		err = s.NeedFolder("open " + a.dir)
	}
	if err != nil {
		return nil, nil, err
	}
	return s, &facts.Config{
		ForClients: a.remote != nil,
		LLM:        s.LLM, Embedder: s.Embedder, Graph: a.models.graph && s.LLM != nil,
		GraphStore: s.GraphStore, Prompts: facts.Prompts(s.Prompts), Version: facts.Version(s.Version), ExactScope: s.ExactScope,
	}, nil
}

const factAddExample = `
memdbctl fact add "I prefer tea to coffee" --user ada
memdbctl fact add --messages chat.json --user ada --agent planner --metadata '{"topic":"travel"}' --json
echo "I moved to Ghent" | memdbctl fact add - --user ada`

func (a *app) factAddCmd() *cobra.Command {
	cmd := newCmd("", "add TEXT… | add - | add --messages FILE", "Take the facts out of what was said", factAddExample)
	cmd.Annotations = map[string]string{inputWithout: "yes"}
	cmd.Long = `Take the facts out of a text that a user said, or of messages, and store them: those
that are new are added, those that correct others change them. All of it is one commit.

--messages reads messages, {"role","content"} with the role user, assistant or system: a
JSON list of them, or one a line. A JSON string is what one user said.

A model is shown, and changes, only facts of exactly the scope that is given: with --agent
alone those that no user is named of. --exact-scope=false opens all facts of the agent to it.

The folder is held only while something is read or written, not while a model answers. What
was decided by is looked at again before it is stored.

--infer=false stores each message of a user or an assistant as a fact, as it is.`
	var (
		scope memory.Scope
		o     facts.AddOptions
		file  string
		infer bool
		exact bool
	)
	scopeFlags(cmd, &scope)
	flags := cmd.Flags()
	flags.StringVar(&file, "messages", "", "read messages from this `FILE`, - for the input")
	flags.Func("metadata", "any facts about what is added, a `JSON` object", func(s string) (err error) {
		o.Metadata, err = exchange.ParseObject(s)
		return err
	})
	flags.BoolVar(&infer, "infer", true, "a `BOOL`, false: the messages are the facts, as they are")
	flags.Lookup("infer").NoOptDefVal = "" // or the false of "--infer false" would be a word of the text
	flags.BoolVar(&exact, "exact-scope", true, "a `BOOL`, false: a model sees and changes facts of all scopes that match the one given, not of exactly this one")
	flags.Lookup("exact-scope").NoOptDefVal = ""
	filterFlag(cmd, &o.Filter)
	flags.StringVar(&o.Prompt, "prompt", "", "a `text` in place of the built-in prompt that asks a model for facts")
	a.requestFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		if scope == (memory.Scope{}) {
			return &memory.Error{Kind: memory.ErrScope, What: "add facts"} // before a database is made
		}
		messages, err := a.factMessages(cmd, args, file)
		if err != nil {
			return err
		}
		o.Raw = !infer
		var only *bool // as the configuration says
		if flags.Changed("exact-scope") {
			only = &exact
		}
		return a.addFacts(ctx, scope, messages, &o, only)
	}
	return cmd
}

// factMessages are the messages of the arguments or of --messages.
func (a *app) factMessages(cmd *cobra.Command, args []string, file string) (facts.Messages, error) {
	switch fromFile := cmd.Flags().Changed("messages"); {
	case fromFile && len(args) > 0:
		return nil, usagef(cmd, "--messages takes no other text")
	case fromFile:
		return a.readMessages(cmd.Context(), file)
	case len(args) == 0 && a.inTerminal:
		return nil, usagef(cmd, "there is no text; give it as an argument, or - to type it, or --messages FILE")
	case len(args) == 0:
		args = []string{"-"}
	}
	text, err := a.readText(cmd.Context(), args)
	if err == nil && text == "" {
		err = usagef(cmd, "the text is empty")
	}
	return facts.Text(text), err
}

// readMessages reads the messages of a file.
func (a *app) readMessages(ctx context.Context, name string) (facts.Messages, error) {
	in, err := a.openInput(ctx, name)
	if err != nil {
		return nil, err
	}
	defer done(in)
	messages, err := facts.ReadMessages(in)
	if err != nil {
		return nil, &exitError{exitFailed, inputError(name, err)} // the file is wrong, not the command line
	}
	return messages, nil
}

func (a *app) printAdded(added facts.Added) error {
	if a.json {
		return a.printJSON(added)
	}
	t := &table{header: []string{"EVENT", "ID", "TEXT"}}
	for _, r := range added.Results {
		t.add(string(r.Event), r.ID, r.Memory)
		if r.Event == facts.Update {
			t.note("before: " + *r.OldMemory)
		}
	}
	if len(t.rows) > 0 {
		a.printTable(t)
	} else {
		a.note("there is no fact in it")
	}
	a.noteDegraded(added.Degraded)
	return nil
}

// noteDegraded says what was left out or done in a lesser way.
func (a *app) noteDegraded(list []facts.Degradation) {
	for _, d := range list {
		about := ""
		if d.Fact != "" {
			about = " of " + compactJSON(d.Fact)
		}
		say := a.note
		if d.Err != nil {
			say = a.warn // something is lost
		}
		say("%s%s: %s", d.Step, about, d.Why)
	}
}

func (a *app) factSearchCmd() *cobra.Command {
	cmd := newCmd("", "search QUERY…", "Find the facts that fit a query", `
memdbctl fact search "where does she live?" --user ada
memdbctl fact search "deadlines" --user ada --filter 'topic = travel' --limit 5 --json`)
	var (
		scope memory.Scope
		o     facts.SearchOptions
	)
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usagef(cmd, "there is no query")
		}
		return checkLimit(cmd, o.Limit)
	}
	scopeFlags(cmd, &scope)
	filterFlag(cmd, &o.Filter)
	cmd.Flags().IntVar(&o.Limit, "limit", facts.DefaultLimit, limitHelp+", up to "+number(memory.MaxLimit))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		query, err := a.readText(ctx, args)
		if err != nil {
			return err
		}
		return a.withFacts(ctx, a.read, func(f *facts.Facts) error {
			f.Graph = a.models.graph // one that was made before is searched without a model, too
			found, err := f.Search(ctx, scope, query, &o)
			if err != nil {
				return err
			}
			if len(found.Results) == 0 {
				a.note("nothing was found")
			}
			a.noteDegraded(found.Degraded)
			return a.printFacts(found.Results, true)
		})
	}
	return cmd
}

func (a *app) factListCmd() *cobra.Command {
	cmd := newCmd("", "list", "List the facts of a scope", `
memdbctl fact list --user ada
memdbctl fact list --user ada --agent planner --filter 'created_at >= 2026-01-01' --json`)
	cmd.Args = exactly(0, "no argument")
	var (
		scope memory.Scope
		o     facts.SearchOptions
	)
	scopeFlags(cmd, &scope)
	filterFlag(cmd, &o.Filter)
	cmd.Flags().IntVar(&o.Limit, "limit", facts.DefaultLimit, limitHelp+", up to "+number(memory.MaxLimit))
	cmd.Flags().StringVar(&o.After, "after", "", "the page that follows another one, by the `cursor` that it ended with")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := checkLimit(cmd, o.Limit); err != nil {
			return err
		}
		ctx := cmd.Context()
		return a.withFacts(ctx, a.read, func(f *facts.Facts) error {
			found, err := f.GetAll(ctx, scope, &o)
			if err != nil {
				return err
			}
			if err := a.printFacts(found.Results, false); err != nil || found.Next == "" {
				return err
			}
			return a.printNext(found.Next)
		})
	}
	return cmd
}

// printFacts prints facts, a line for each.
func (a *app) printFacts(items []facts.Item, scored bool) error {
	header, before := []string{"ID", "TEXT"}, 1
	if scored {
		header, before = append([]string{"SCORE"}, header...), 2
	}
	t := a.ownedRows(false, before, header...)
	for _, item := range items {
		cells := []any{item.ID, item.Memory}
		if scored {
			cells = append([]any{score(*item.Score)}, cells...)
		}
		if err := t.addOf(item.Scope, item, cells...); err != nil {
			return err
		}
	}
	return t.end()
}
