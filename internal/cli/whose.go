package cli

import (
	"context"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// exact are the verbs, and those below them, that are about what exactly one owner has, whose empty
// user or agent means none.
var exact = []string{"store", "kv", "note", "session", "graph", "usage add", "usage budget"}

// Whose is whose things a command line is about, for a server that has them in one of several
// databases: the user, or the agent of what has no user. named is false where it is about more than
// one owner's, or does not say.
func Whose(ctx context.Context, args []string, key []memory.Scope) (o scope.Owner, named bool) {
	cmd, ok := parsed(ctx, args)
	if !ok { // the verb says what is wrong, wherever it runs
		return o, false
	}
	given := func(name string) (*pflag.Flag, string) {
		f := cmd.Flags().Lookup(name)
		if f == nil {
			return nil, ""
		}
		return f, f.Value.String()
	}
	user, name := given("user")
	_, agent := given("agent")
	for _, wide := range []string{"all-scopes", "scope", "queries"} {
		if f, _ := given(wide); f != nil && f.Changed {
			return o, false
		}
	}
	if topVerb(cmd) == "user" && cmd.Flags().NArg() == 1 {
		return scope.Owner{User: cmd.Flags().Arg(0)}, true
	}
	if len(key) == 1 && key[0].User != "" {
		name = key[0].User
	}
	if name != "" {
		return scope.Owner{User: name, Agent: agent}, true
	}
	none := user != nil && user.Changed
	if agent == "" && len(key) == 1 {
		agent = key[0].Agent
	}
	o = scope.Owner{Agent: agent}
	return o, agent != "" && (none || (slices.Contains(exact, topVerb(cmd)) || slices.Contains(exact, verbOf(cmd))))
}

// OfEveryone is the exit code by which a server has its client ask all databases, where a verb that Merges is about
// more than one owner's things. Nothing was printed.
const OfEveryone = 64

// Merges reports whether all databases of a server answer a command line as one, by a call of the native interface.
func Merges(ctx context.Context, args []string) bool {
	cmd, ok := parsed(ctx, args)
	if !ok {
		return false
	}
	switch topVerb(cmd) {
	case "list", "groups":
		return true
	case "recall":
		return !cmd.Flags().Changed("queries")
	}
	return false
}

// parsed is the verb of a command line with its flags; ok is false where it is none.
func parsed(ctx context.Context, args []string) (cmd *cobra.Command, ok bool) {
	root := (&app{console: console{getenv: func(string) string { return "" }}}).root()
	cmd, rest, err := root.Find(args)
	if err != nil {
		return nil, false
	}
	cmd.SetContext(ctx) // by which flags are read
	return cmd, cmd.ParseFlags(rest) == nil
}
