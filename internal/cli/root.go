package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/embed"
	"github.com/seed-7aedc3ff/memdb/internal/scalar"
)

// app is one run of the program: its console and the flags that every verb has.
type app struct {
	console
	stdout *bufio.Writer // over out; flushed when the verb ends
	keys   io.Writer     // the terminal itself, which the line editor of the shell steers

	dir  string
	json bool
	// format is what --format says: table, json or csv; empty for a table, or json by --json.
	format string
	quiet  bool
	wait   time.Duration
	waits  bool // --wait was given
	// follows is true for a command that also reads later commits.
	follows bool
	// args are those of the process, or of the line of a shell.
	args []string
	// forwarded: another program has run the verb, with this exit code.
	forwarded *int
	// everyone: the server has several databases, and all are asked by the verb.
	everyone bool
	// salvage opens a database that is damaged with what is whole.
	salvage bool

	// zone is the zone of times without an offset; zoned are the flags with times so far.
	zone  *time.Location
	zoned []func(scalar.Reader) error

	version bool
	// toldPlain: the user was warned that the key is sent without encryption.
	toldPlain bool

	running bool // the command line was understood
	// noHelp is why --help shows none: the verb does not exist.
	noHelp error

	// models are those that fact verbs use, and embedder that of the database, nil for none.
	models   modelFlags
	embedder embed.Embedder

	// bounds are those of a client on another machine, nil for none.
	bounds *Bounds

	// shell is the shell that the verb is a line of, nil for none.
	shell *shell

	// unreadable is what the command knows to be lost.
	unreadable unreadable

	// requestID is what --request-id says, and attempt what follows from it, nil without it.
	requestID string
	attempt   *attempt
}

// run does what the arguments say and returns the exit code.
func run(ctx context.Context, args []string, c console) int {
	return (&app{console: c}).run(ctx, args)
}

func (a *app) run(ctx context.Context, args []string) int {
	a.keys = a.err
	a.out, a.err = onScreen(a.out, a.outWidth, false), onScreen(a.err, a.errWidth, true)
	c := a.console
	a.args = args
	a.stdout = bufio.NewWriter(c.out)
	root := a.root()
	root.SetArgs(append([]string{}, args...)) // of nil, the library would take the arguments of the process
	root.SetIn(c.in)
	root.SetOut(a.stdout)
	root.SetErr(c.err)
	completeCompletion(root) // which keeps the output that is set now
	verb, err := root.ExecuteContextC(ctx)
	err = cmp.Or(err, a.noHelp)
	if err != nil && !a.running {
		err = usageError(verb, err)
	}
	if errors.Is(err, errForwarded) {
		return *a.forwarded // which has said what there is to say
	}
	err = a.endUnreadable(err)
	if failed := a.stdout.Flush(); err == nil && failed != nil {
		err = outputError(failed)
	}
	a.printError(ctx, verb, err)
	return ExitCode(err)
}

// errForwarded ends a verb that another program has run.
var errForwarded = errors.New("the verb was run by the program that holds the database")

const (
	groupMemories = "memories"
	groupData     = "data"
	groupAgeing   = "ageing"
	groupDatabase = "database"

	defaultDir  = "./memdb.data"
	defaultWait = 5 * time.Second
)

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "memdbctl",
		Short: "Store, find and look after what agents must remember",
		Long: `memdbctl works on a memdb database: a folder, or one file (NAME.memdb), that holds
memories, which are texts with a scope of user, agent and run, and finds them again.

Start with "memdbctl demo", which needs nothing.

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 no such memory, 4 the database is
held by another program, 5 damaged.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		RunE:          a.runRoot,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkFlags(cmd); err != nil {
				return err
			}
			if err := a.checkFormat(cmd); err != nil {
				return err
			}
			if a.shell != nil {
				if err := a.shell.check(cmd, a.dir); err != nil {
					return err
				}
				a.dir = a.shell.dir
			}
			if a.dir == "" {
				a.dir = cmp.Or(a.getenv("MEMDB_DIR"), defaultDir)
			}
			if a.wait < 0 {
				return usagef(cmd, "--wait %s: it is negative", a.wait)
			}
			a.running = true
			if a.bounds != nil {
				if err := a.admit(cmd); err != nil {
					return err
				}
			}
			a.waits = a.waits || cmd.Flags().Changed("wait")
			done, code, err := a.forward(cmd)
			if err != nil {
				return err
			}
			if done {
				a.forwarded = &code
				return errForwarded
			}
			return a.beginAttempt(cmd)
		},
	}
	root.SetFlagErrorFunc(flagError)
	a.rootFlags(root)
	return a.rootVerbs(root)
}

// rootFlags are the flags that every verb has.
func (a *app) rootFlags(root *cobra.Command) {
	flags := root.PersistentFlags()
	flags.SortFlags = false
	flags.StringVar(&a.dir, "db", "", "the folder `DIR` of the database (default $MEMDB_DIR, then "+defaultDir+"), or http://HOST:PORT of a server")
	flags.BoolVar(&a.json, "json", a.json, "print one JSON object a line")
	a.formatFlag(root)
	flags.BoolVar(&a.quiet, "quiet", a.quiet, "print results and errors only")
	root.Flags().BoolVar(&a.version, "version", false, "say which memdbctl this is, and which layout it reads")
	a.timezoneFlag(flags)
	flags.DurationVar(&a.wait, "wait", cmp.Or(a.wait, defaultWait), "how long to wait for a database that another program holds")
	flags.BoolVar(&a.salvage, "salvage", false, "open a damaged database with what is whole of it")
}

// rootVerbs are the verbs, and the help about them.
func (a *app) rootVerbs(root *cobra.Command) *cobra.Command {
	root.AddGroup(
		&cobra.Group{ID: groupMemories, Title: "Memories:"},
		&cobra.Group{ID: groupData, Title: "Data:"},
		&cobra.Group{ID: groupAgeing, Title: "Ageing:"},
		&cobra.Group{ID: groupDatabase, Title: "Database:"},
	)
	root.AddCommand(
		a.storeCmd(), a.getCmd(), a.updateCmd(), a.deleteCmd(), a.listCmd(), a.groupsCmd(), a.recallCmd(), a.whyCmd(), a.historyCmd(), a.kvCmd(), a.sessionCmd(), a.noteCmd(), a.graphCmd(),
		a.usageCmd(), a.agentCmd(), a.userCmd(), a.eraseCmd(), a.factCmd(),
		a.importCmd(), a.exportCmd(), a.demoCmd(),
		a.policyCmd(), a.consolidateCmd(), a.evictCmd(),
		a.checkCmd(), a.backupCmd(), a.restoreCmd(), a.rescueCmd(), a.convertCmd(), a.rebuildCmd(), a.compactCmd(), a.archiveCmd(), a.replicaCmd(), a.clusterCmd(), a.embedCmd(), a.reembedCmd(), a.keyCmd(), a.statsCmd(), a.plotCmd(), a.logCmd(), a.analyzeCmd(), a.resetCmd(), a.shellCmd(), a.mcpCmd(),
	)
	a.completeWords(root)
	root.SetHelpCommand(helpCmd())
	show := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		if rest := cmd.Flags().Args(); namesVerbs(cmd) && len(rest) > 0 { // of which there is no help
			a.noHelp = unknownVerb(cmd, rest[0])
			return
		}
		show(cmd, args)
	})
	return root
}

// takesMore marks a verb that takes other arguments beside the verbs below it.
const takesMore = "takes more than verbs"

// namesVerbs reports whether what follows a verb must be one below it.
func namesVerbs(cmd *cobra.Command) bool {
	return cmd.HasSubCommands() && cmd.Annotations[takesMore] == ""
}

// checkFlags refuses flags that were given and say nothing, as an unset variable of
// a shell does: they would widen what a verb reads or deletes, or store under an ID
// that nobody knows. An empty user or agent means none where the verb can tell that from any, and
// the other one is given.
func checkFlags(cmd *cobra.Command) error {
	flags := cmd.Flags()
	given := func(name string) bool {
		f := flags.Lookup(name)
		return f != nil && f.Changed
	}
	some := false
	for _, name := range []string{"user", "agent"} {
		some = some || given(name) && flags.Lookup(name).Value.String() != ""
	}
	for _, name := range []string{"db", "user", "agent", "run", "id", "order-by", "session", "channel", "message-id", "memory-id"} {
		if given(name) && flags.Lookup(name).Value.String() == "" {
			if owner := name == "user" || name == "agent"; !owner {
				return usagef(cmd, "--%s is empty", name)
			} else if cmd.Annotations[takesNone] == "" {
				return usagef(cmd, "--%s is empty, and this verb does not choose by what there is none of", name)
			} else if !some {
				return usagef(cmd, "--%s is empty, which means none; name the user or the agent that there is", name)
			}
		}
	}
	for _, name := range []string{"run", "agent", "user"} {
		if given(name) && given("all-scopes") {
			return usagef(cmd, "--all-scopes and --%s exclude each other", name)
		}
	}
	return nil
}

// runRoot is reached by a verb that there is not, and by none at all.
func (a *app) runRoot(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return unknownVerb(cmd, args[0])
	}
	if a.version {
		return a.printVersion()
	}
	cmd.SetOut(a.err)
	if err := cmd.Help(); err != nil {
		return outputError(err)
	}
	return errNoVerb
}

func helpCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "help [VERB]",
		Short: "Show what a verb does and takes",
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			found, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return unknownVerb(root, strings.Join(args, " "))
			}
			found.InitDefaultHelpFlag()
			return found.Help()
		},
	}
}

// completeCompletion makes the library's verb refuse a shell that there is not;
// as it comes, it prints its help and succeeds.
func completeCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	cmd, _, err := root.Find([]string{"completion"})
	if err != nil {
		return
	}
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return usagef(cmd, "it takes one of bash, zsh, fish and powershell, and got %q", strings.Join(args, " "))
	}
}

func unknownVerb(root *cobra.Command, name string) error {
	root.SuggestionsMinimumDistance = min(len(name)/3, 2) // so many letters of a word may be wrong
	names := root.SuggestionsFor(name)
	if len(names) > 0 {
		return usagef(root, "there is no verb %q; did you mean %s", name, strings.Join(names, " or "))
	}
	return usagef(root, "there is no verb %q", name)
}
