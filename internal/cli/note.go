package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/notes"
)

const noteExample = `
memdbctl note add deploy "The deploy runs at 18:00 UTC." --agent ops
memdbctl note alias deploy release --agent ops
memdbctl note get release --agent ops
memdbctl note search "when is the deploy" --agent ops`

func (a *app) noteCmd() *cobra.Command {
	cmd := newCmd(groupMemories, "note", "Keep notes by name, beside the archives of sessions", noteExample)
	cmd.Long = `Keep notes by name. A note has a canonical name and any number of aliases, all
different from those of the owner's other notes and archives, and a number that
counts them. Archives are what compactions of sessions leave; they are found and
addressed as notes are. Notes and archives are memories, too.`
	return withVerbs(cmd, a.noteAddCmd(), a.noteGetCmd(), a.noteRenameCmd(), a.noteAliasCmd(), a.noteWriteCmd(), a.noteRemoveCmd(), a.noteListCmd(), a.noteSearchCmd())
}

// noteDone says what became of a note.
func (a *app) noteDone(done string, n notes.Note) error {
	if a.json {
		return a.printJSON(notes.NewLine(n))
	}
	a.printf("%s %s %d, %s\n", done, n.Kind, n.ID, escape(n.Name))
	return nil
}

// noteCommand is a verb that works with notes of an owner.
func noteCommand(use, short, example string, o *memory.Owner) *cobra.Command {
	cmd := newCmd("", use, short, "\n"+example)
	ownerFlags(cmd, o)
	return cmd
}

// readContent is the content of a note that the argument is, or the input for "-".
func (a *app) readContent(ctx context.Context, arg string) (string, error) {
	if arg != "-" {
		return arg, nil
	}
	return a.readBounded(ctx, "the content", memory.MaxText, "split it into several notes")
}

func (a *app) noteAddCmd() *cobra.Command {
	var owner memory.Owner
	var kind string
	cmd := noteCommand("add NAME TEXT | add NAME -", "Store a note under a new name", `memdbctl note add deploy "The deploy runs at 18:00 UTC." --agent ops
cat minutes.txt | memdbctl note add minutes - --agent ops --kind archive`, &owner)
	cmd.Args = exactly(2, "a name and a text")
	cmd.Flags().StringVar(&kind, "kind", string(memory.KindNote), "note or archive")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if kind != string(memory.KindNote) && kind != string(memory.KindArchive) {
			return usagef(cmd, "--kind %q is neither note nor archive", cut(kind, 60))
		}
		if err := checkOwner("add a note", owner); err != nil {
			return err
		}
		ctx := cmd.Context()
		content, err := a.readContent(ctx, args[1])
		if err != nil {
			return err
		}
		return a.create(ctx, nil, func(db *engine.DB) error {
			n, err := db.Notes().Add(ctx, owner, args[0], content, memory.Kind(kind))
			if err != nil {
				return err
			}
			return a.noteDone("added", n)
		})
	}
	return cmd
}

// asOfFlag is --as-of.
func asOfFlag(cmd *cobra.Command, lsn *uint64) {
	cmd.Flags().Uint64Var(lsn, "as-of", 0, "as it was recorded at this `LSN` (default now)")
}

// notesAt calls fn with the notes of now, or of an LSN.
func notesAt(ctx context.Context, db *engine.DB, lsn uint64, fn func(notes.Notes) error) error {
	if lsn == 0 {
		return fn(db.Notes())
	}
	return db.ViewAt(ctx, lsn, func(tx *engine.Tx) error { return fn(tx.Notes()) })
}

func (a *app) noteGetCmd() *cobra.Command {
	var owner memory.Owner
	var asOf uint64
	cmd := noteCommand("get NAME", "Print the note of a name or an alias", `memdbctl note get deploy --agent ops
memdbctl note get deploy --agent ops --json`, &owner)
	cmd.Args = exactly(1, "one name")
	asOfFlag(cmd, &asOf)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		return a.read(ctx, func(db *engine.DB) error {
			return notesAt(ctx, db, asOf, func(n notes.Notes) error {
				note, err := n.Get(ctx, owner, args[0])
				switch {
				case err != nil:
					return err
				case a.json:
					return a.printJSON(notes.NewLine(note))
				}
				a.printf("%s\n", note.Content)
				return nil
			})
		})
	}
	return cmd
}

func (a *app) noteRenameCmd() *cobra.Command {
	var owner memory.Owner
	var keep bool
	cmd := noteCommand("rename OLD NEW", "Give a note another canonical name", `memdbctl note rename deploy release-plan --agent ops --keep`, &owner)
	cmd.Args = exactly(2, "the old name and the new one")
	cmd.Flags().BoolVar(&keep, "keep", false, "keep the old name as an alias")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		return a.use(ctx, func(db *engine.DB) error {
			n, err := db.Notes().Rename(ctx, owner, args[0], args[1], keep)
			if err != nil {
				return err
			}
			return a.noteDone("renamed", n)
		})
	}
	return cmd
}

func (a *app) noteAliasCmd() *cobra.Command {
	var owner memory.Owner
	cmd := noteCommand("alias NAME ALIAS", "Give a note one more name", `memdbctl note alias deploy release --agent ops`, &owner)
	cmd.Long = `Give a note one more name. An alias that another note has is taken from that note;
the canonical name of another note cannot be taken.`
	cmd.Args = exactly(2, "a name and an alias")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		return a.use(ctx, func(db *engine.DB) error {
			n, err := db.Notes().Alias(ctx, owner, args[0], args[1])
			if err != nil {
				return err
			}
			return a.noteDone("gave an alias to", n)
		})
	}
	return cmd
}

func (a *app) noteWriteCmd() *cobra.Command {
	var owner memory.Owner
	cmd := noteCommand("write NAME TEXT | write NAME -", "Replace the content of a note", `memdbctl note write deploy "The deploy runs at 19:00 UTC." --agent ops`, &owner)
	cmd.Args = exactly(2, "a name and a text")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		content, err := a.readContent(ctx, args[1])
		if err != nil {
			return err
		}
		return a.use(ctx, func(db *engine.DB) error {
			n, err := db.Notes().Write(ctx, owner, args[0], content)
			if err != nil {
				return err
			}
			if n.Kind == memory.KindArchive {
				a.warn("%s is an archive, which is meant to stay as it was; memdbctl history %s has what it was", escape(n.Name), n.MemoryID)
			}
			return a.noteDone("wrote", n)
		})
	}
	return cmd
}

func (a *app) noteRemoveCmd() *cobra.Command {
	var owner memory.Owner
	cmd := noteCommand("remove NAME", "Delete a note with all of its names", `memdbctl note remove deploy --agent ops`, &owner)
	cmd.Args = exactly(1, "one name")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		return a.use(ctx, func(db *engine.DB) error {
			if err := db.Notes().Remove(ctx, owner, args[0]); err != nil {
				return err
			}
			return a.printDeleted(1)
		})
	}
	return cmd
}

func (a *app) noteListCmd() *cobra.Command {
	var owner memory.Owner
	var asOf uint64
	cmd := noteCommand("list", "List notes and archives in the order in which they came", `memdbctl note list --agent ops`, &owner)
	cmd.Args = exactly(0, "no argument")
	asOfFlag(cmd, &asOf)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx := cmd.Context()
		return a.read(ctx, func(db *engine.DB) error {
			t := a.noteRows(false)
			err := notesAt(ctx, db, asOf, func(n notes.Notes) error {
				return n.List(ctx, owner, func(note notes.Note) error { return t.addNote(note, nil) })
			})
			if err != nil {
				return err
			}
			return t.end()
		})
	}
	return cmd
}

func (a *app) noteSearchCmd() *cobra.Command {
	var owner memory.Owner
	var asOf uint64
	var limit int
	cmd := noteCommand("search QUERY", "Rank notes and archives by BM25 over their content and name", `memdbctl note search "when is the deploy" --agent ops --limit 3`, &owner)
	cmd.Args = cobra.MinimumNArgs(1)
	cmd.Flags().IntVar(&limit, "limit", 0, limitHelp+" (0: all)")
	asOfFlag(cmd, &asOf)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if limit < 0 {
			return usagef(cmd, "--limit %d is negative", limit)
		}
		ctx := cmd.Context()
		return a.read(ctx, func(db *engine.DB) error {
			t := a.noteRows(true)
			err := notesAt(ctx, db, asOf, func(n notes.Notes) error {
				found, err := n.Search(ctx, owner, strings.Join(args, " "), limit)
				for _, f := range found {
					if err == nil {
						err = t.addNote(f.Note, &f.Score)
					}
				}
				return err
			})
			if err != nil {
				return err
			}
			return t.end()
		})
	}
	return cmd
}

// noteRows begins a list of notes.
func (a *app) noteRows(scored bool) *rows {
	header := []string{"ID", "KIND", "NAME", "ALIASES", "CONTENT"}
	if scored {
		header = append([]string{"SCORE"}, header...)
	}
	return a.rows(header...)
}

// addNote adds a note to a list.
func (r *rows) addNote(n notes.Note, score *float64) error {
	line, cells := notes.NewLine(n), []any{fmt.Sprint(n.ID), string(n.Kind), n.Name, strings.Join(n.Aliases, ", "), n.Content}
	if score != nil {
		line.Score, cells = score, append([]any{fmt.Sprintf("%.3f", *score)}, cells...)
	}
	return r.add(line, cells...)
}
