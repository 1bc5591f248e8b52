package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/services/config"
	"github.com/seed-7aedc3ff/memdb/services/summarize"
	"github.com/seed-7aedc3ff/memdb/sessions"
)

const sessionSaveExample = `
memdbctl session save monday monday.jsonl --agent support
cat monday.jsonl | memdbctl session save monday - --agent support --channel telegram
memdbctl session save monday monday.json --agent support --strict`

func (a *app) sessionSaveCmd() *cobra.Command {
	cmd := newCmd("", "save RUN FILE | save RUN -", "Replace all that a session holds", sessionSaveExample)
	cmd.Long = `Replace all that a session holds with the lines of a file, or of the input, or with a
JSON list: messages as "session show --all --json" prints them, or in the form of
OpenAI (chat and Responses), Anthropic, Gemini, Bedrock Converse, the Vercel AI SDK,
LangChain or Ollama. Parts and keys that no form has are kept as they are and counted;
--strict refuses them. Damaged messages are saved, too: "session repair" repairs them.
A message without an ID gets one. No memories are stored.`
	cmd.Args = exactly(2, "a session and a file")
	cmd.ValidArgsFunction = nil
	var (
		owner memory.Owner
		opts  sessions.SaveOptions
	)
	ownerFlags(cmd, &owner)
	cmd.Flags().StringVar(&opts.Channel, "channel", "", "where it takes place, as telegram")
	cmd.Flags().BoolVar(&opts.Strict, "strict", false, "refuse parts and keys that no form of messages has")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		if owner == (memory.Owner{}) {
			return &memory.Error{Kind: memory.ErrScope, What: "save a session"} // before a database is made
		}
		items, err := a.readItems(ctx, args[1])
		if err != nil {
			return err
		}
		return a.create(ctx, nil, func(db *engine.DB) error {
			n, err := db.Sessions().Save(ctx, owner, args[0], items, &opts)
			switch {
			case err != nil:
				return err
			case a.json:
				return a.printJSON(map[string]int{"messages": n, "unknown": sessions.Unknown(items)})
			}
			a.printf("saved %s%s\n", count(n, "message", "messages"), unknownNote(sessions.Unknown(items)))
			return nil
		})
	}
	return cmd
}

// readItems reads messages and markers, a JSON object a line.
func (a *app) readItems(ctx context.Context, name string) (items []sessions.Item, err error) {
	in, err := a.openInput(ctx, name)
	if err != nil {
		return nil, err
	}
	defer done(in)
	return exchange.ReadSession(in, "read "+name)
}

const sessionCompactExample = `
memdbctl session compact monday --agent support
memdbctl session compact monday --agent support --threshold 50 --keep-recent 15 --drop --json
ANTHROPIC_API_KEY=… memdbctl session compact monday --agent support --llm
memdbctl session compact monday --agent support --config memdb.toml`

func (a *app) sessionCompactCmd() *cobra.Command {
	cmd := newCmd("", "compact RUN", "Summarise the older messages of a session", sessionCompactExample)
	cmd.Long = `Summarise the messages of a session behind its newest marker, but for the most
recent, where there are as many as --threshold says. The summary is a memory of the
kind archive, and a marker stands behind what was summarised. The summary is made
without a network and a language model: it is an extract, and says so. With --config
the language model of that file writes it, and with --llm that of the first key in the
environment: ANTHROPIC_API_KEY (claude-haiku-4-5), OPENAI_API_KEY or GOOGLE_API_KEY.
What the calls took is recorded as the owner's usage; a budget is checked before.`
	cmd.Args = exactly(1, "one session")
	var (
		owner  memory.Owner
		opts   sessions.CompactOptions
		models modelFlags
		ask    bool
	)
	ownerFlags(cmd, &owner)
	cmd.Flags().BoolVar(&ask, "llm", false, "have the language model of the environment summarise")
	models.flags(cmd, "have the language model of this `FILE` of TOML or JSON summarise")
	cmd.Flags().IntVar(&opts.Threshold, "threshold", sessions.DefaultThreshold, "from so many messages on")
	cmd.Flags().IntVar(&opts.KeepRecent, "keep-recent", sessions.DefaultKeepRecent, "so many are not summarised; less than the threshold")
	cmd.Flags().BoolVar(&opts.Drop, "drop", false, "remove the messages that were summarised; their memories stay")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if opts.Threshold < 1 || opts.KeepRecent < 1 || opts.KeepRecent >= opts.Threshold {
			return usagef(cmd, "--threshold %d --keep-recent %d: both are 1 or more, and the threshold is the greater one", opts.Threshold, opts.KeepRecent)
		}
		ctx := cmd.Context()
		if !ask && models.config == "" {
			return a.use(ctx, func(db *engine.DB) error { return a.compact(ctx, db, owner, args[0], &opts) })
		}
		c := config.FromEnv(a.env, "anthropic")
		if models.config != "" {
			var err error
			if c, err = a.loadConfig(models.config); err != nil {
				return err
			}
		}
		return a.useModels(ctx, c, func(db *engine.DB, s *config.Services) error {
			model, err := s.NeedLLM()
			if err != nil {
				return err
			}
			if opts.Summarizer, err = summarize.New(model, summarize.Options{Owner: owner}); err != nil {
				return err
			}
			return a.compact(ctx, db, owner, args[0], &opts)
		})
	}
	return cmd
}

// compact compacts a session, and prints what became of it.
func (a *app) compact(ctx context.Context, db *engine.DB, owner memory.Owner, session string, o *sessions.CompactOptions) error {
	r, err := db.Sessions().Compact(ctx, owner, session, o)
	switch {
	case err != nil:
		return err
	case a.json:
		return a.printJSON(r)
	case !r.Compacted:
		a.printf("nothing to compact: %s behind the newest marker\n", count(r.Kept, "message", "messages"))
		return nil
	}
	a.printf("summarised %s in %s, kept %d\n", count(r.Summarized, "message", "messages"), escape(r.ArchiveName), r.Kept)
	return nil
}

const sessionRepairExample = `
memdbctl session repair monday --agent support --dry-run
memdbctl session repair monday --agent support --json
memdbctl session repair monday --agent support --undo`

func (a *app) sessionRepairCmd() *cobra.Command {
	cmd := newCmd("", "repair RUN", "Repair a session", sessionRepairExample)
	cmd.Long = `Repair a session: remove messages that say nothing, in whatever form (an empty or
blank text, no parts, turns of an assistant that only think), and those that repeat
what one with their ID says; give an ID to messages without one of their own; put
messages in the order of their times; merge consecutive messages of one role where
they are texts and media alone. No text is lost, and calls of tools and their results
stay as they are. Calls without a result, results without a call and second results
of a call are counted, as are messages whose memory is gone and those over 512,000
bytes. A second repair fixes nothing. --undo restores what was there before, until
something is appended.`
	cmd.Args = exactly(1, "one session")
	var (
		owner     memory.Owner
		dry, undo bool
	)
	ownerFlags(cmd, &owner)
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only say what there is to repair")
	cmd.Flags().BoolVar(&undo, "undo", false, "take the last repair back")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if dry && undo {
			return usagef(cmd, "--dry-run and --undo exclude each other")
		}
		ctx := cmd.Context()
		with := a.use
		if dry {
			with = a.read
		}
		return with(ctx, func(db *engine.DB) error {
			if undo {
				return a.undoRepair(ctx, db, owner, args[0])
			}
			r, err := db.Sessions().Repair(ctx, owner, args[0], dry)
			switch {
			case err != nil:
				return err
			case a.json:
				return a.printJSON(r)
			}
			s := r.Stats
			a.printf("%s: %d empty, %d twice, %d merged, %d reordered; %d without their memory, %d oversized\n",
				count(r.TotalFixes, "fix", "fixes"), s.EmptyRemoved, s.DuplicatesRemoved, s.ConsecutiveMerged, s.Reordered, s.OrphanedRefs, s.OversizedDetected)
			if s.UnansweredCalls+s.OrphanResults+s.DoubledResults > 0 {
				a.printf("left as they are: %s without a result, %s without a call, %s of a call that has one\n",
					count(s.UnansweredCalls, "call", "calls"), count(s.OrphanResults, "result", "results"), count(s.DoubledResults, "more result", "more results"))
			}
			return nil
		})
	}
	return cmd
}

func (a *app) undoRepair(ctx context.Context, db *engine.DB, owner memory.Owner, name string) error {
	if err := db.Sessions().UndoRepair(ctx, owner, name); err != nil {
		return err
	}
	s, err := db.Sessions().Get(ctx, owner, name)
	if err != nil {
		return err
	}
	line := sessions.NewSessionLine(s)
	if a.json {
		return a.printJSON(line)
	}
	showSession[struct{}](a)(nil, line)
	return nil
}
