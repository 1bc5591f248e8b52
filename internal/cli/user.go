package cli

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/exchange"
)

const userExample = `
memdbctl user list
memdbctl user show ada --json
memdbctl user delete ada --yes`

func (a *app) userCmd() *cobra.Command {
	cmd := newCmd(groupMemories, "user", "List users, and delete a user with all it has", userExample)
	return withVerbs(cmd, a.userListCmd(), a.userShowCmd(), a.userDeleteCmd())
}

func (a *app) printUsers(users ...engine.User) error {
	t := a.rows("MEMORIES", "ENTRIES", "SESSIONS", "ENTITIES", "RELATIONS", "CALLS", "AGENTS", "USER")
	for i := range users {
		u := &users[i]
		if err := t.add(exchange.NewUser(*u), u.Memories, u.Entries, u.Sessions, u.Entities, u.Relations, u.Usage, len(u.Agents), u.User); err != nil {
			return err
		}
	}
	return t.end()
}

func (a *app) userListCmd() *cobra.Command {
	cmd := newCmd("", "list", "List the users that have something", "\nmemdbctl user list --json")
	cmd.Long = `List the users that have something, with how much that is, over all agents. It reads
all that the database holds beside the memories.`
	cmd.Args = exactly(0, "no argument")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx := cmd.Context()
		return a.read(ctx, func(db *engine.DB) error {
			all, err := db.Users(ctx)
			if err != nil {
				return err
			}
			return a.printUsers(all...)
		})
	}
	return cmd
}

func (a *app) userShowCmd() *cobra.Command {
	cmd := newCmd("", "show USER", "Show how much a user has, over all agents", "\nmemdbctl user show ada --json")
	cmd.Args = exactly(1, "one user")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		return a.read(ctx, func(db *engine.DB) error {
			u, err := db.User(ctx, args[0])
			if err != nil {
				return err
			}
			return a.printUsers(u)
		})
	}
	return cmd
}

func (a *app) userDeleteCmd() *cobra.Command {
	cmd := newCmd("", "delete USER --yes", "Delete a user with all it has, over all agents", "\nmemdbctl user delete ada --yes --json")
	cmd.Long = `Delete all that belongs to a user, of every agent and of none: memories with their
history and what the trash keeps of them, notes, entries, sessions, the graph, usage
and budgets. Nothing brings it back. It prints what is left in the files, and until
when. Where it was interrupted, or a program that is open may still read what was
there, it goes on when it is called again.`
	cmd.Args = exactly(1, "one user")
	var yes bool
	cmd.Flags().BoolVar(&yes, "yes", false, "yes, all that it has")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !yes {
			return usagef(cmd, "it deletes all that %s has; say so with --yes", cut(args[0], 60))
		}
		ctx := cmd.Context()
		return a.use(ctx, func(db *engine.DB) error {
			var d engine.UserDeleted
			err := a.during("user delete", func() (err error) {
				d, err = db.DeleteUser(ctx, args[0])
				return err
			})
			if err != nil {
				return err
			}
			kept := slices.ContainsFunc(d.Left, func(l engine.Left) bool { return l.Count > 0 })
			if !kept && !hasSome(d.Deleted) {
				return nothingOf("delete the user", args[0])
			}
			return a.printUserDeleted(d)
		})
	}
	return cmd
}

func (a *app) printUserDeleted(d engine.UserDeleted) error {
	n := d.Deleted
	if a.json {
		return a.printJSON(exchange.NewUserDeleted(d))
	}
	a.printf("deleted %s, %s of history and %s\n", count(n["memories"], "memory", "memories"), count(n["history"], "event", "events"),
		count(n["entries"]+n["sessions"]+n["entities"]+n["relations"]+n["usage"], "thing beside", "things beside"))
	for _, l := range d.Left {
		switch {
		case l.Count > 0:
			a.printf("left: %s of %s, until %s\n", l.What, count(l.Count, "memory", "memories"), l.Until)
		case l.Bytes > 0:
			a.printf("left: %s, of %s with those of others, until %s\n", l.What, size(l.Bytes), l.Until)
		default:
			a.printf("left: %s, until %s\n", l.What, l.Until)
		}
	}
	return nil
}
