package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/engine"
)

const eraseExample = `
memdbctl erase --user ada --dry-run
memdbctl erase --user ada --yes
memdbctl erase --agent planner --yes --json
memdbctl erase --id launch --user ada --agent planner --yes`

func (a *app) eraseCmd() *cobra.Command {
	cmd := newCmd(groupMemories, "erase --yes", "Leave no trace of a memory, an agent or a user in the files", eraseExample)
	cmd.Long = `Erase every trace of a user over all agents (--user), of an agent over all users
(--agent), of a pair of both, or of one memory of theirs (--id), living or not: records,
history, trash, vectors and their snapshots, words of the text index, entries, sessions,
notes, graph, usage, changes in the log, and names that nobody else has. A memory is erased
with all that derives from it: the entities and relations that only its text named, memories
that were merged into it or have its ID as their source, and the sentences that summaries
took from it. Then the files are rewritten, and searched for the erased texts and names.
Nothing brings them back.

The report lists the summaries that had something of the erased (derived), whatever else has
an erased text or name (left), and what the database cannot reach: backups and exports that
were made before. An erasure waits for reads that were begun before. One that was
interrupted goes on in the next command that writes; stats and check report it until it is
done, and the same erase command then prints its report.`
	cmd.Args = exactly(0, "no argument")
	var q engine.EraseQuery
	var yes bool
	flags := cmd.Flags()
	flags.StringVar(&q.User, "user", "", userHelp)
	flags.StringVar(&q.Agent, "agent", "", agentHelp)
	flags.StringVar(&q.ID, "id", "", "only the memory with this ID")
	flags.BoolVar(&q.DryRun, "dry-run", false, "erase nothing; print how much there is")
	flags.BoolVar(&yes, "yes", false, "yes, erase it")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if q.User == "" && q.Agent == "" {
			return usagef(cmd, "name whose it is: --user, --agent or both")
		}
		ctx := cmd.Context()
		if q.DryRun || !yes {
			r, err := a.eraseDry(ctx, q)
			if err != nil {
				return err
			}
			if q.DryRun {
				return a.printErased(r, true)
			}
			return usagef(cmd, "it would erase %s, and nothing brings that back; say so with --yes", erasedText(&r.Erased))
		}
		return a.use(ctx, func(db *engine.DB) error {
			var r engine.EraseReport
			err := a.during("erase", func() (err error) {
				r, err = db.Erase(ctx, q)
				return err
			})
			if err != nil {
				return err
			}
			return a.printErased(r, false)
		})
	}
	return cmd
}

func (a *app) eraseDry(ctx context.Context, q engine.EraseQuery) (r engine.EraseReport, err error) {
	q.DryRun = true
	err = a.read(ctx, func(db *engine.DB) error {
		r, err = db.Erase(ctx, q)
		return err
	})
	return r, err
}

// erasedText is how much an erasure is about, in words.
func erasedText(n *engine.Erased) string {
	parts := []string{count(n.Memories, "memory", "memories")}
	for _, of := range []struct {
		n         int64
		one, many string
	}{
		{n.Versions, "version", "versions"},
		{n.Events, "event of history", "events of history"},
		{n.Entries, "entry", "entries"},
		{n.Messages, "message", "messages"},
		{n.Entities, "entity", "entities"},
		{n.Relations, "relation", "relations"},
		{n.Usage, "call of a model", "calls of models"},
		{n.Names, "name", "names"},
	} {
		if of.n > 0 {
			parts = append(parts, count(of.n, of.one, of.many))
		}
	}
	return strings.Join(parts, ", ")
}

func (a *app) printErased(r engine.EraseReport, dry bool) error {
	if a.json {
		return a.printJSON(r)
	}
	did := "erased"
	if dry {
		did = "would erase"
	}
	a.printf("%s %s\n", did, erasedText(&r.Erased))
	if !dry {
		a.printf("rewrote %s, removed %s, in %s\n", size(r.RewrittenBytes), count(int64(r.FilesRemoved), "file", "files"), fmt.Sprintf("%.1f s", r.Seconds))
	}
	for _, k := range r.Derived {
		a.printf("derived: %s: %s\n", escape(k.What), k.Why)
	}
	for _, k := range r.Left {
		a.printf("left: %s: %s\n", escape(k.What), k.Why)
	}
	for _, k := range r.OutOfReach {
		a.printf("out of reach: %s: %s\n", escape(k.What), k.Why)
	}
	return nil
}
