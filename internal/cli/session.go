package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/api"
	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/sessions"
)

const sessionExample = `
memdbctl session append monday "Which plan is the cheapest?" --agent support
memdbctl session show monday --agent support
memdbctl session list --agent support`

func (a *app) sessionCmd() *cobra.Command {
	cmd := newCmd(groupMemories, "session", "Keep conversations: their messages in order", sessionExample)
	verbs := append([]*cobra.Command{a.sessionAppendCmd(), a.sessionShowCmd()}, a.sessionStates()...)
	return withVerbs(cmd, append(verbs, a.sessionSaveCmd(), a.sessionCompactCmd(), a.sessionRepairCmd())...)
}

const sessionAppendExample = `
memdbctl session append monday "Which plan is the cheapest?" --agent support
memdbctl session append monday "The small one" --agent support --role assistant --channel telegram
memdbctl session append monday "yes" --agent support --no-memory --message-id m7
tail -1 log.txt | memdbctl session append monday - --agent support --json
memdbctl session append monday --messages turns.jsonl --agent support --strict`

func (a *app) sessionAppendCmd() *cobra.Command {
	cmd := newCmd("", "append RUN TEXT | append RUN - | append RUN --messages FILE", "Append a message, and store it as a memory", sessionAppendExample)
	cmd.Long = `Append a message at the end of a session, which is made if there is none, and
store its text as a memory of that run, in one commit. With --memory-id alone, the
message refers to a memory that is there, and needs no text. --messages appends the
messages of a file in one commit, in any form that "session save" reads, and prints a
line for each. Parts and keys that no form has are kept and counted; --strict refuses
them.`
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 || len(args) > 2 {
			return usagef(cmd, "it takes a session and a text")
		}
		return nil
	}
	var (
		owner memory.Owner
		m     sessions.Message
		opts  sessions.AppendOptions
		id    string
		file  string
	)
	ownerFlags(cmd, &owner)
	flags := cmd.Flags()
	flags.StringVar(&file, "messages", "", "append the messages of this `FILE`, a JSON object a line or a list; - is the input")
	flags.BoolVar(&opts.Strict, "strict", false, "refuse parts and keys that no form of messages has")
	flags.StringVar(&opts.Channel, "channel", "", "where it takes place, as telegram")
	flags.StringVar(&m.Role, "role", "user", "who said it: user, assistant, system or tool")
	flags.StringVar(&m.ID, "message-id", "", "the message's `ID` (default a new UUID)")
	flags.StringVar(&id, "memory-id", "", "the memory's `ID`: that of one that is there, or of the one that is stored")
	flags.BoolVar(&opts.NoMemory, "no-memory", false, "keep the text in the message, and store no memory")
	flags.Func("at", "when it was said (default now), a `time`: "+timeForms, a.timeFlag(&m.At))
	flags.IntVar(&opts.TrimRemoves, "trim", 0, "remove the oldest messages beyond so many (default none)")
	a.requestFlag(cmd)
	complete(cmd, "role", "user", "assistant", "system", "tool")
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		ctx := cmd.Context()
		if owner == (memory.Owner{}) {
			return &memory.Error{Kind: memory.ErrScope, What: "append a message"} // before a database is made
		}
		if file != "" {
			if err := onlyFile(cmd, args); err != nil {
				return err
			}
			items, err := a.readItems(ctx, file)
			if err != nil {
				return err
			}
			all, err := messagesOf(items)
			if err != nil {
				return err
			}
			return a.appendMessages(ctx, owner, args[0], all, &opts)
		}
		opts.Strict = true // what flags say is to be known
		if len(args) < 2 && id == "" {
			return usagef(cmd, "there is no text; give it as an argument, or - to type it")
		}
		if m.Text, err = a.readText(ctx, args[1:]); err != nil {
			return err
		}
		if id != "" {
			m.MemoryIDs = []string{id}
		}
		return a.appendMessages(ctx, owner, args[0], []sessions.Message{m}, &opts)
	}
	return cmd
}

// onlyFile refuses what describes one message beside a file of several.
func onlyFile(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return usagef(cmd, "--messages excludes a text")
	}
	for _, name := range []string{"role", "message-id", "memory-id", "at"} {
		if cmd.Flags().Changed(name) {
			return usagef(cmd, "--messages excludes --%s: each message has its own", name)
		}
	}
	return nil
}

// messagesOf are the messages of items, of which none may be a marker.
func messagesOf(items []sessions.Item) (all []sessions.Message, err error) {
	for _, i := range items {
		if i.Marker != nil {
			return nil, &memory.Error{Kind: memory.ErrInvalid, What: "append messages", Why: "there is a marker among them", Do: "leave it out, or replace the session with session save"}
		}
		all = append(all, *i.Message)
	}
	return all, nil
}

func (a *app) appendMessages(ctx context.Context, owner memory.Owner, run string, messages []sessions.Message, opts *sessions.AppendOptions) error {
	return a.create(ctx, nil, func(db *engine.DB) error {
		all, err := db.Sessions().Append(ctx, owner, run, messages, opts)
		if err != nil {
			return err
		}
		for _, one := range all {
			if err := a.printAppended(one); err != nil {
				return err
			}
		}
		return nil
	})
}

func (a *app) printAppended(r sessions.Appended) error {
	if a.json {
		return a.printJSON(r)
	}
	what := "appended"
	if r.Repeated {
		what = "already there as"
	}
	a.printf("%s %s, %s%s\n", what, escape(r.MessageID), count(r.Messages, "message", "messages"), unknownNote(r.Unknown))
	return nil
}

// unknownNote says how many parts and keys were kept that no form of messages has.
func unknownNote(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("; %s of no known form, kept as they are", count(n, "part or key", "parts and keys"))
}

const sessionShowExample = `
memdbctl session show monday --agent support
memdbctl session show monday --agent support --tokens 2000 --json
memdbctl session show monday --agent support --all`

func (a *app) sessionShowCmd() *cobra.Command {
	cmd := newCmd("", "show RUN", "Print the newest messages of a session", sessionShowExample)
	cmd.Long = `Print the newest messages of a session, from its newest marker on: the marker
says that those before are summarised. --all prints everything that it holds. A call
of a tool and its results are not parted: of --last and --tokens there are fewer
messages then. A message whose memory is gone is an orphan; it keeps its text, unless
the memory was deleted and its history is gone.`
	cmd.Args = exactly(1, "one session")
	var (
		owner memory.Owner
		w     sessions.Window
		all   bool
	)
	ownerFlags(cmd, &owner)
	cmd.Flags().IntVar(&w.Last, "last", sessions.DefaultWindow, "maximum number of messages")
	cmd.Flags().IntVar(&w.Tokens, "tokens", 0, "as many as make up so many tokens, at four bytes each")
	cmd.Flags().BoolVar(&all, "all", false, "everything, also from before a marker")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		last, tokens := cmd.Flags().Changed("last"), cmd.Flags().Changed("tokens")
		switch {
		case all && (last || tokens):
			return usagef(cmd, "--all excludes --last and --tokens")
		case last && w.Last < 1:
			return usagef(cmd, "--last %d: give 1 or more", w.Last)
		case tokens && w.Tokens < 1:
			return usagef(cmd, "--tokens %d: give 1 or more", w.Tokens)
		case tokens && !last:
			w.Last = 0
		}
		ctx := cmd.Context()
		return a.read(ctx, func(db *engine.DB) error {
			if all {
				return a.showAll(ctx, db, owner, args[0])
			}
			s, err := db.Sessions().Load(ctx, owner, args[0], &w)
			if err != nil {
				return err
			}
			return a.showLoaded(&s)
		})
	}
	return cmd
}

func (a *app) showAll(ctx context.Context, db *engine.DB, owner memory.Owner, name string) error {
	for i, err := range db.Sessions().Items(ctx, owner, name) {
		if err != nil {
			return err
		}
		if err := a.printItem(i); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) showLoaded(s *sessions.Loaded) error {
	if s.Marker != nil {
		if err := a.printItem(sessions.Item{Marker: s.Marker}); err != nil {
			return err
		}
	}
	for i := range s.Messages {
		if err := a.printItem(sessions.Item{Message: &s.Messages[i]}); err != nil {
			return err
		}
	}
	return nil
}

// printItem prints a message or a marker.
func (a *app) printItem(i sessions.Item) error {
	switch {
	case a.json && i.Marker != nil:
		return a.printJSON(sessions.NewMarkerLine(i.Marker))
	case a.json:
		return a.printJSON(sessions.NewMessageLine(i.Message))
	case i.Marker != nil:
		a.printf("%s\n", a.dim(fmt.Sprintf("--- %s summarised in %s", count(i.Marker.Summarized, "message", "messages"), escape(i.Marker.ArchiveName))))
		return nil
	}
	m := i.Message
	orphan := ""
	if m.Orphan {
		orphan = a.dim(" (its memory is gone)")
	}
	a.printf("%s %s: %s%s\n", a.dim(exchange.Time{Time: m.At}.String()), a.bold(escape(m.Role)), escape(m.Content()), orphan)
	return nil
}

const sessionListExample = `
memdbctl session list --agent support
memdbctl session list --agent support --channel telegram --json`

const sessionOpenExample = `
memdbctl session open --channel telegram --agent support
memdbctl session open monday --agent support`

const sessionOpenLong = `Open a session by its name, or the one of a channel that was updated last and is
not closed. If there is none, it is made. One that is closed is open again.`

const sessionDeleteExample = `
memdbctl session delete monday --agent support
memdbctl session delete monday --agent support --with-memories`

// sessionStates are the commands about a session as a whole.
func (a *app) sessionStates() []*cobra.Command {
	end := func(op *api.Op[api.Session, sessions.SessionLine], verb string) *cobra.Command {
		return opCmd(a, op, shown[api.Session, sessions.SessionLine]{help: help{example: "\nmemdbctl session " + verb + " monday --agent support"}, show: showSession[api.Session](a)})
	}
	return []*cobra.Command{
		listCmd(a, api.SessionList, listShown[api.SessionListRequest, sessions.SessionLine]{
			help: help{example: sessionListExample}, columns: columns[api.SessionListRequest]("SESSION", "CHANNEL", "MESSAGES", "UPDATED", "STATE"),
			cells: func(s sessions.SessionLine) []any {
				return []any{s.Session, s.Channel, s.Messages, s.UpdatedAt.String(), stateOf(&s)}
			},
		}),
		opCmd(a, api.SessionOpen, shown[api.SessionOpenRequest, sessions.SessionLine]{
			help: help{long: sessionOpenLong, example: sessionOpenExample}, show: showSession[api.SessionOpenRequest](a),
		}),
		end(api.SessionClose, "close"),
		end(api.SessionArchive, "archive"),
		opCmd(a, api.SessionDelete, shown[api.SessionDeleteRequest, sessions.Deleted]{
			help: help{example: sessionDeleteExample},
			show: func(_ *api.SessionDeleteRequest, d sessions.Deleted) {
				a.printf("deleted a session of %s, and %s\n", count(d.Messages, "message", "messages"), count(d.Memories, "memory", "memories"))
			},
		}),
	}
}

func stateOf(s *sessions.SessionLine) string {
	switch {
	case s.Archived:
		return "archived"
	case s.Closed:
		return "closed"
	}
	return "open"
}

// showSession shows the state of a session.
func showSession[Q any](a *app) func(*Q, sessions.SessionLine) {
	return func(_ *Q, s sessions.SessionLine) {
		a.printf("%s is %s, %s\n", escape(s.Session), stateOf(&s), count(s.Messages, "message", "messages"))
	}
}
