package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/api"
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
	return listCmd(a, api.SessionAppend, listShown[api.SessionAppendRequest, sessions.Appended]{
		help: help{
			long: `Append a message at the end of a session, which is made if there is none, and
store its text as a memory of that run, in one commit. With --memory-id alone, the
message refers to a memory that is there, and needs no text. --messages appends the
messages of a file in one commit, in any form that "session save" reads, and prints a
line for each. Parts and keys that no form has are kept and counted; --strict refuses
them.`,
			example: sessionAppendExample,
		},
		line: func(r sessions.Appended) {
			what := "appended"
			if r.Repeated {
				what = "already there as"
			}
			a.printf("%s %s, %s%s\n", what, escape(r.MessageID), count(r.Messages, "message", "messages"), unknownNote(r.Unknown))
		},
	})
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
	return listCmd(a, api.SessionShow, listShown[api.SessionShowRequest, api.SessionItem]{
		help: help{
			long: `Print the newest messages of a session, from its newest marker on: the marker
says that those before are summarised. --all prints everything that it holds. A call
of a tool and its results are not parted: of --last and --tokens there are fewer
messages then. A message whose memory is gone is an orphan; it keeps its text, unless
the memory was deleted and its history is gone.`,
			example: sessionShowExample,
		},
		line: a.printItem,
	})
}

// printItem shows a message or a marker.
func (a *app) printItem(i api.SessionItem) {
	if i.Marker != nil {
		a.printf("%s\n", a.dim(fmt.Sprintf("--- %s summarised in %s", count(i.Marker.Summarized, "message", "messages"), escape(i.Marker.ArchiveName))))
		return
	}
	m, orphan := i.Message.Message(), ""
	if i.Message.Orphan {
		orphan = a.dim(" (its memory is gone)")
	}
	a.printf("%s %s: %s%s\n", a.dim(i.Message.At.String()), a.bold(escape(m.Role)), escape(m.Content()), orphan)
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
