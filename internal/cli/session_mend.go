package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/api"
	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/services/config"
	"github.com/seed-7aedc3ff/memdb/services/summarize"
)

const sessionSaveExample = `
memdbctl session save monday monday.jsonl --agent support
cat monday.jsonl | memdbctl session save monday - --agent support --channel telegram
memdbctl session save monday monday.json --agent support --strict`

func (a *app) sessionSaveCmd() *cobra.Command {
	return opCmd(a, api.SessionSave, shown[api.SessionSaveRequest, api.SessionSaved]{
		help: help{
			long: `Replace all that a session holds with the lines of a file, or of the input, or with a
JSON list: messages as "session show --all --json" prints them, or in the form of
OpenAI (chat and Responses), Anthropic, Gemini, Bedrock Converse, the Vercel AI SDK,
LangChain or Ollama. Parts and keys that no form has are kept as they are and counted;
--strict refuses them. Damaged messages are saved, too: "session repair" repairs them.
A message without an ID gets one. No memories are stored.`,
			example: sessionSaveExample,
		},
		show: func(_ *api.SessionSaveRequest, r api.SessionSaved) {
			a.printf("saved %s%s\n", count(r.Messages, "message", "messages"), unknownNote(r.Unknown))
		},
	})
}

const sessionCompactExample = `
memdbctl session compact monday --agent support
memdbctl session compact monday --agent support --threshold 50 --keep-recent 15 --drop --json
ANTHROPIC_API_KEY=… memdbctl session compact monday --agent support --llm
memdbctl session compact monday --agent support --config memdb.toml`

func (a *app) sessionCompactCmd() *cobra.Command {
	op, q := api.SessionCompact, new(api.SessionCompactRequest)
	var (
		models modelFlags
		ask    bool
		opened *config.Services
	)
	cmd := a.operation(&op.Operation, op.Fields(), q, help{example: sessionCompactExample}, func(ctx context.Context, db *engine.DB) error {
		if opened != nil {
			opened.Meter(db.Usage())
		}
		r, err := op.Run(ctx, db, q)
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
	})
	cmd.Long = `Summarise the messages of a session behind its newest marker, but for the most
recent, where there are as many as --threshold says. The summary is a memory of the
kind archive, and a marker stands behind what was summarised. The summary is made
without a network and a language model: it is an extract, and says so. With --config
the language model of that file writes it, and with --llm that of the first key in the
environment: ANTHROPIC_API_KEY (claude-haiku-4-5), OPENAI_API_KEY or GOOGLE_API_KEY.
What the calls took is recorded as the owner's usage; a budget is checked before.`
	cmd.Flags().BoolVar(&ask, "llm", false, "have the language model of the environment summarise")
	models.flags(cmd, "have the language model of this `FILE` of TOML or JSON summarise")
	cmd.PreRunE = func(*cobra.Command, []string) (err error) {
		if !ask && models.config == "" {
			return nil
		}
		opened, err = a.summarizer(q, models.config)
		return err
	}
	return cmd
}

// summarizer has the model of a configuration, or of the environment, summarise a session.
func (a *app) summarizer(q *api.SessionCompactRequest, file string) (*config.Services, error) {
	c := config.FromEnv(a.env, "anthropic")
	if file != "" {
		var err error
		if c, err = a.loadConfig(file); err != nil {
			return nil, err
		}
	}
	if err := a.exists(); err != nil {
		return nil, err
	}
	s, err := a.openModels(c, true)
	if err != nil {
		return nil, err
	}
	if s.Engine != nil && a.shell != nil && a.shell.served {
		if _, err := a.useServed(&engine.Options{Embedder: s.Engine}); err != nil {
			return nil, err
		}
	}
	if s.Engine != nil {
		a.embedder = s.Engine
	}
	model, err := s.NeedLLM()
	if err != nil {
		return nil, err
	}
	q.Summarizer, err = summarize.New(model, summarize.Options{Owner: memory.Owner{User: q.User, Agent: q.Agent}})
	return s, err
}

const sessionRepairExample = `
memdbctl session repair monday --agent support --dry-run
memdbctl session repair monday --agent support --json
memdbctl session repair monday --agent support --undo`

func (a *app) sessionRepairCmd() *cobra.Command {
	return opCmd(a, api.SessionRepair, shown[api.SessionRepairRequest, api.SessionRepairReply]{
		help: help{
			long: `Repair a session: remove messages that say nothing, in whatever form (an empty or
blank text, no parts, turns of an assistant that only think), and those that repeat
what one with their ID says; give an ID to messages without one of their own; put
messages in the order of their times; merge consecutive messages of one role where
they are texts and media alone. No text is lost, and calls of tools and their results
stay as they are. Calls without a result, results without a call and second results
of a call are counted, as are messages whose memory is gone and those over 512,000
bytes. A second repair fixes nothing. --undo restores what was there before, until
something is appended.`,
			example: sessionRepairExample,
		},
		show: func(q *api.SessionRepairRequest, r api.SessionRepairReply) {
			if r.Repaired == nil {
				showSession[api.SessionRepairRequest](a)(q, *r.Session)
				return
			}
			s := r.Repaired.Stats
			a.printf("%s: %d empty, %d twice, %d merged, %d reordered; %d without their memory, %d oversized\n",
				count(r.Repaired.TotalFixes, "fix", "fixes"), s.EmptyRemoved, s.DuplicatesRemoved, s.ConsecutiveMerged, s.Reordered, s.OrphanedRefs, s.OversizedDetected)
			if s.UnansweredCalls+s.OrphanResults+s.DoubledResults > 0 {
				a.printf("left as they are: %s without a result, %s without a call, %s of a call that has one\n",
					count(s.UnansweredCalls, "call", "calls"), count(s.OrphanResults, "result", "results"), count(s.DoubledResults, "more result", "more results"))
			}
		},
	})
}
