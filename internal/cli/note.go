package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/api"
	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/notes"
)

const noteExample = `
memdbctl note add deploy "The deploy runs at 18:00 UTC." --agent ops
memdbctl note alias deploy release --agent ops
memdbctl note get release --agent ops
memdbctl note search "when is the deploy" --agent ops`

const noteAddExample = `
memdbctl note add deploy "The deploy runs at 18:00 UTC." --agent ops
cat minutes.txt | memdbctl note add minutes - --agent ops --kind archive`

func (a *app) noteCmd() *cobra.Command {
	cmd := newCmd(groupMemories, "note", "Keep notes by name, beside the archives of sessions", noteExample)
	cmd.Long = `Keep notes by name. A note has a canonical name and any number of aliases, all
different from those of the owner's other notes and archives, and a number that
counts them. Archives are what compactions of sessions leave; they are found and
addressed as notes are. Notes and archives are memories, too.`
	return withVerbs(
		cmd,
		opCmd(a, api.NoteAdd, shown[api.NoteAddRequest, notes.Line]{
			help: help{example: noteAddExample}, show: noteDone[api.NoteAddRequest](a, "added"),
		}),
		opCmd(a, api.NoteGet, shown[api.NoteGetRequest, notes.Line]{
			help: help{example: "\nmemdbctl note get deploy --agent ops\nmemdbctl note get deploy --agent ops --json"},
			show: func(_ *api.NoteGetRequest, n notes.Line) { a.printf("%s\n", n.Content) },
		}),
		opCmd(a, api.NoteRename, shown[api.NoteRenameRequest, notes.Line]{
			help: help{example: "\nmemdbctl note rename deploy release-plan --agent ops --keep"}, show: noteDone[api.NoteRenameRequest](a, "renamed"),
		}),
		opCmd(a, api.NoteAlias, shown[api.NoteAliasRequest, notes.Line]{
			help: help{
				long: `Add an alias to a note. An alias that another note has is taken from that note;
the canonical name of another note cannot be taken.`,
				example: "\nmemdbctl note alias deploy release --agent ops",
			},
			show: noteDone[api.NoteAliasRequest](a, "gave an alias to"),
		}),
		opCmd(a, api.NoteWrite, shown[api.NoteWriteRequest, notes.Line]{
			help: help{example: "\nmemdbctl note write deploy \"The deploy runs at 19:00 UTC.\" --agent ops"}, show: noteDone[api.NoteWriteRequest](a, "wrote"),
			end: func(n notes.Line) error {
				if n.Kind == memory.KindArchive {
					a.warn("%s is an archive, which is meant to stay as it was; memdbctl history %s has what it was", escape(n.Name), n.MemoryID)
				}
				return nil
			},
		}),
		opCmd(a, api.NoteRemove, shown[api.NoteName, exchange.Deleted]{
			help: help{example: "\nmemdbctl note remove deploy --agent ops"}, show: printDeletedOf[api.NoteName](a),
		}),
		listCmd(a, api.NoteList, listShown[api.NoteListRequest, notes.Line]{
			help: help{example: "\nmemdbctl note list --agent ops"}, columns: columns[api.NoteListRequest]("ID", "KIND", "NAME", "ALIASES", "CONTENT"), cells: noteCells,
		}),
		listCmd(a, api.NoteSearch, listShown[api.NoteSearchRequest, notes.Line]{
			help:    help{example: "\nmemdbctl note search \"when is the deploy\" --agent ops --limit 3"},
			columns: columns[api.NoteSearchRequest]("SCORE", "ID", "KIND", "NAME", "ALIASES", "CONTENT"),
			cells:   func(n notes.Line) []any { return append([]any{fmt.Sprintf("%.3f", *n.Score)}, noteCells(n)...) },
		}),
	)
}

// noteDone says what became of a note.
func noteDone[Q any](a *app, done string) func(*Q, notes.Line) {
	return func(_ *Q, n notes.Line) { a.printf("%s %s %d, %s\n", done, n.Kind, n.ID, escape(n.Name)) }
}

func noteCells(n notes.Line) []any {
	return []any{fmt.Sprint(n.ID), string(n.Kind), n.Name, strings.Join(n.Aliases, ", "), n.Content}
}
