package cli

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/entries"
	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/sessions"
	"github.com/seed-7aedc3ff/memdb/usage"
)

const rescueExample = `
memdbctl rescue ./damaged.db ./rescued.db
memdbctl rescue ./damaged.db ./rescued.db --json`

func (a *app) rescueCmd() *cobra.Command {
	cmd := newCmd(groupDatabase, "rescue SRC DEST", "Make a new database of all that a damaged one has left", rescueExample)
	cmd.Long = `Make a new database in the folder DEST of all that is left of the one in SRC: also where
files of it are damaged or gone, so that nothing opens it. Its tables and logs are read one by
one, block by block; the newest of what they hold counts. SRC is never written to, and may be
a copy on a medium that can only be read. DEST must not exist, and its disk needs room for
twice the database while the rescue runs.

What was lost is printed, by what it is and why it cannot be read. The new database has the
memories with their histories, keys and values, sessions, the graph, notes, usage and the
policy, as an export has them; the log of changes and earlier states stay behind. Exit code 5
says that nothing could be read.`
	cmd.Args = exactly(2, "the folder of the damaged database, and that of the new one")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		began := a.now()
		from, err := a.path(args[0])
		if err != nil {
			return err
		}
		to, err := a.path(args[1])
		if err != nil {
			return err
		}
		var r exchange.RescueReport
		err = a.during("rescue", func() (err error) {
			r, err = exchange.Rescue(cmd.Context(), filepath.Clean(from), filepath.Clean(to), &engine.Options{Clock: a.now})
			return err
		})
		if err != nil {
			return err
		}
		return a.printRescued(r, a.now().Sub(began).Seconds())
	}
	return cmd
}

// rescuedJSON is the result of a rescue.
type rescuedJSON struct {
	Memories  int        `json:"memories"`
	History   int        `json:"history"`
	Entries   int        `json:"entries"`
	Entities  int        `json:"entities"`
	Relations int        `json:"relations"`
	Sessions  int        `json:"sessions"`
	Messages  int        `json:"messages"`
	Notes     int        `json:"notes"`
	Usage     int        `json:"usage"`
	Lost      []lostJSON `json:"lost"`
	Seconds   float64    `json:"seconds"`
}

// lostJSON is something that could not be read.
type lostJSON struct {
	What   string `json:"what"`
	Count  int    `json:"count"`
	Reason string `json:"reason"`
}

func (a *app) printRescued(r exchange.RescueReport, seconds float64) error {
	out := rescuedJSON{
		Memories: r.Memories, History: r.History, Entries: r.Lines[entries.TypeLine], Entities: r.Lines[graph.TypeEntity], Relations: r.Lines[graph.TypeRelation],
		Sessions: r.Lines[sessions.TypeSession], Messages: r.Lines[sessions.TypeMessage], Notes: r.Notes, Usage: r.Lines[usage.TypeUsage],
		Lost: []lostJSON{}, Seconds: seconds,
	}
	for _, l := range r.Lost {
		out.Lost = append(out.Lost, lostJSON(l))
	}
	if a.json {
		return a.printJSON(out)
	}
	a.printf("rescued %s\n", list([]string{
		count(out.Memories, "memory", "memories") + " (" + count(out.Notes, "note", "notes") + ")", count(out.History, "event", "events") + " of histories", count(out.Entries, "key", "keys"),
		count(out.Entities, "entity", "entities"), count(out.Relations, "relation", "relations"), count(out.Sessions, "session", "sessions"),
		count(out.Messages, "message", "messages"), count(out.Usage, "record of usage", "records of usage"),
	}, "and"))
	for _, l := range out.Lost {
		a.printf("lost: %s\n", escape(fmt.Sprintf("%s (%s): %s", l.What, number(l.Count), l.Reason)))
	}
	if len(out.Lost) == 0 {
		a.printf("nothing was lost\n")
	}
	return nil
}
