package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/internal/scalar"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// newCmd is a verb with its flags in the order of their definition.
func newCmd(group, use, short, example string) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, GroupID: group,
		Example: strings.TrimRight(indent(example), "\n"),
		// File names are no argument of most verbs.
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().SortFlags = false
	return cmd
}

// withVerbs is a command with the verbs below it, one of which it needs.
func withVerbs(cmd *cobra.Command, verbs ...*cobra.Command) *cobra.Command {
	names := make([]string, len(verbs))
	for i, v := range verbs {
		names[i] = v.Name()
	}
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) > 0:
			return unknownVerb(cmd, args[0])
		case len(names) == 1:
			return usagef(cmd, "it takes %s", names[0])
		case len(names) > 10: // the help lists them
			return usagef(cmd, "it takes a verb")
		}
		last := len(names) - 1
		return usagef(cmd, "it takes one of %s and %s", strings.Join(names[:last], ", "), names[last])
	}
	cmd.AddCommand(verbs...)
	return cmd
}

func indent(s string) string {
	return "  " + strings.ReplaceAll(strings.TrimSpace(s), "\n", "\n  ")
}

// The help of flags that many commands have.
const (
	userHelp     = "ID of the `user` who owns it"
	agentHelp    = "ID of the `agent` that owns it"
	runHelp      = "ID of its `run`, the session it belongs to"
	everyoneHelp = "all users and agents, for administrators"
	limitHelp    = "maximum `number` of results"
)

// scopeFlags are --user, --agent and --run.
func scopeFlags(cmd *cobra.Command, s *memory.Scope) {
	cmd.Flags().StringVar(&s.User, "user", "", userHelp)
	cmd.Flags().StringVar(&s.Agent, "agent", "", agentHelp)
	cmd.Flags().StringVar(&s.Run, "run", "", runHelp)
}

// ownerFlags are --user and --agent.
func ownerFlags(cmd *cobra.Command, o *memory.Owner) {
	cmd.Flags().StringVar(&o.User, "user", "", userHelp)
	cmd.Flags().StringVar(&o.Agent, "agent", "", agentHelp)
	markNone(cmd)
}

// takesNone marks a verb for which --user "" and --agent "" mean none.
const takesNone = "an empty user or agent means none"

func markNone(cmd *cobra.Command) {
	if cmd.Annotations == nil {
		cmd.Annotations = map[string]string{}
	}
	cmd.Annotations[takesNone] = "yes"
}

// lackOf is what the flags say that there is none of.
func lackOf(cmd *cobra.Command) memory.Lack {
	none := func(name string) bool {
		f := cmd.Flags().Lookup(name)
		return f != nil && f.Changed && f.Value.String() == ""
	}
	return memory.Lack{User: none("user"), Agent: none("agent")}
}

// filterFlag is --filter. A second one would widen what the first one chose, if it
// took its place.
func filterFlag(cmd *cobra.Command, f *filter.Filter) {
	given := false
	cmd.Flags().Func("filter", "only memories that match this `filter`, such as \"role = user\", or JSON", func(s string) (err error) {
		if given {
			return errors.New("it is given twice; join the two with and")
		}
		given = true
		*f, err = filter.Parse(cmd.Context(), []byte(s))
		return err
	})
}

func parseShare(s string, to **float64) error {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return fmt.Errorf("%q is no number", s)
	}
	*to = &f
	return nil
}

// timeForms says in the usage of a flag how its time is written.
const timeForms = "RFC 3339, a date, RFC 2822, or a number since 1970"

// timezoneFlag is --timezone, which may come before or after the flags that hold times.
func (a *app) timezoneFlag(flags *pflag.FlagSet) {
	flags.Func("timezone", "the `zone` of times that name none, as Europe/Amsterdam or +02:00 (default UTC)", func(s string) (err error) {
		if a.zone, err = parseZone(s); err != nil {
			return err
		}
		for _, read := range a.zoned {
			err = cmp.Or(err, read(scalar.Reader{Zone: a.zone}))
		}
		return err
	})
}

// inZone has the times of a flag read: now, and again where --timezone comes behind it.
func (a *app) inZone(read func(scalar.Reader) error) error {
	a.zoned = append(a.zoned, read)
	return read(scalar.Reader{Zone: a.zone})
}

// timeFlag reads a time for a flag.
func (a *app) timeFlag(to *time.Time) func(string) error {
	return func(s string) error {
		return a.inZone(func(r scalar.Reader) (err error) {
			*to, err = r.Time(s)
			return err
		})
	}
}

// sinceFlag reads a lower bound for a flag.
func (a *app) sinceFlag(to *time.Time) func(string) error {
	return func(s string) error {
		return a.inZone(func(r scalar.Reader) (err error) {
			*to, err = r.Since(s)
			return err
		})
	}
}

// complete offers the values of a flag to the shell.
func complete(cmd *cobra.Command, flag string, values ...string) {
	// It fails only for a flag that there is not, or one that is named twice.
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// compactJSON is a value as people read it in a table.
func compactJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}
