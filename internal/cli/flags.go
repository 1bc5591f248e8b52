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

	"github.com/seed-7aedc3ff/memdb/exchange"
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

// vectorFlag is a flag for a vector.
func vectorFlag(cmd *cobra.Command, v *[]float32, usage string) {
	cmd.Flags().Func("embedding", usage, func(s string) error {
		var list exchange.Vector
		if err := exchange.Decode([]byte(s), &list); err != nil {
			return err
		}
		if len(list) == 0 {
			return errors.New("it is no list of numbers")
		}
		*v = list
		return nil
	})
}

// changeFlags are the flags of what store sets and update changes.
func (a *app) changeFlags(cmd *cobra.Command, p *memory.Patch) {
	flags := cmd.Flags()
	flags.Func("role", "who said it: user, assistant, system or tool", func(s string) error {
		p.Role = new(memory.Role(s))
		return nil
	})
	flags.Func("source", "where it came from, as user_message, or any `word`", func(s string) error {
		p.Source = new(memory.Source(s))
		return nil
	})
	flags.Func("name", "a `name` to call it by", func(s string) error {
		p.Name = &s
		return nil
	})
	flags.Func("alias", "another `name`; can be repeated", func(s string) error {
		if p.Aliases == nil {
			p.Aliases = new([]string)
		}
		*p.Aliases = append(*p.Aliases, s)
		return nil
	})
	flags.Func("metadata", "any facts about it, a `JSON` object", func(s string) error {
		parsed, err := exchange.ParseObject(s)
		o := map[string]any(parsed)
		p.Metadata = &o
		return err
	})
	vectorFlag(cmd, &p.Embedding, "its vector, a `JSON` list of numbers")
	flags.Func("importance", "from 0 to 1, or auto: computed from the text", func(s string) error {
		if p.AutoImportance = s == "auto"; p.AutoImportance {
			return nil
		}
		return parseShare(s, &p.Importance)
	})
	flags.Func("confidence", "from 0 to 1", func(s string) error { return parseShare(s, &p.Confidence) })
	flags.Func("event-time", "when it happened, a `time`: "+timeForms, func(s string) error {
		p.EventTime = new(time.Time)
		return a.timeFlag(p.EventTime)(s)
	})
	flags.Func("expires", "when it ends, likewise, but a date is the end of that day; or never", func(s string) error {
		return a.inZone(func(r scalar.Reader) (err error) {
			p.ExpiresAt, err = a.parseExpiry(r, s)
			return err
		})
	})
	flags.BoolFunc("pinned", "it is never evicted", func(s string) error {
		b, err := strconv.ParseBool(s)
		if err != nil {
			return fmt.Errorf("%q is neither true nor false", s)
		}
		p.Pinned = &b
		return nil
	})
	complete(cmd, "role", "user", "assistant", "system", "tool")
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

// parseExpiry reads when a memory ends, the zero time for never. What is over already would be
// stored and not be there.
func (a *app) parseExpiry(r scalar.Reader, s string) (*time.Time, error) {
	if s == "never" {
		return new(time.Time{}), nil
	}
	t, err := r.End(s)
	if now := a.now(); err == nil && !t.After(now) {
		err = fmt.Errorf("%q is %s, which is past; give a later time, or delete the memory", s, exchange.Time{Time: t})
	}
	return &t, err
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
