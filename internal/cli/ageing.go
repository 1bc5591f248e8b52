package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/api"
	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/policy"
)

func (a *app) policyCmd() *cobra.Command {
	cmd := newCmd(groupAgeing, "policy", "Show or set how memories age", "memdbctl policy show\nmemdbctl policy set rate=0.1 max_age_ms=60d")
	return withVerbs(
		cmd,
		opCmd(a, api.PolicyShow, shown[api.Nothing, policy.Policy]{
			help: help{example: "memdbctl policy show --json"}, show: func(_ *api.Nothing, p policy.Policy) { a.printPolicy(p) },
		}),
		a.policySetCmd(),
	)
}

const policySetExample = `
memdbctl policy set --preset substrate
memdbctl policy set max_age_ms=60d min_importance=0.3 cap=5000
memdbctl policy set consolidate_cron='0 */12 * * *' evict_cron=never`

func (a *app) policySetCmd() *cobra.Command {
	cmd := opCmd(a, api.PolicySet, shown[api.PolicySetRequest, policy.Policy]{
		help: help{
			long: `Set keys of the policy, or with --preset begin with a preset: default, agentos or
substrate. What is not named stays as it is. The keys are those that show --json prints;
a length of time is as 30d or 12h, or in milliseconds. Each change is a new version.`,
			example: policySetExample,
		},
		show: func(_ *api.PolicySetRequest, p policy.Policy) { a.printPolicy(p) },
		more: func(cmd *cobra.Command, q *api.PolicySetRequest) {
			cmd.Flags().Func("preset", "begin with this preset: default, agentos or substrate", func(s string) error {
				q.Keys = append(q.Keys, "preset="+s)
				return nil
			})
			complete(cmd, "preset", policy.PresetDefault, policy.PresetAgentOS, policy.PresetSubstrate)
		},
	})
	cmd.Use = "set [KEY=VALUE…]"
	cmd.ValidArgsFunction = func(*cobra.Command, []string, string) (keys []string, _ cobra.ShellCompDirective) {
		for _, k := range policy.Keys() {
			keys = append(keys, k+"=")
		}
		return keys, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
	alsoCheck(cmd, func(args []string) error {
		for _, arg := range args {
			if !strings.Contains(arg, "=") {
				return usagef(cmd, "%q is not KEY=VALUE", arg)
			}
		}
		if len(args) == 0 && !cmd.Flags().Changed("preset") {
			return usagef(cmd, "it takes KEY=VALUE, or --preset")
		}
		return nil
	})
	return cmd
}

// printPolicy shows the keys of a policy and their values.
func (a *app) printPolicy(p policy.Policy) {
	var values map[string]json.RawMessage
	_ = json.Unmarshal([]byte(compactJSON(p)), &values) // it is an object
	t := &table{header: []string{"", ""}, whole: true}
	for _, key := range append([]string{"preset", "version", "lsn"}, policy.Keys()...) {
		t.add(key, string(values[key]))
	}
	a.printTable(t)
}

const consolidateExample = `
memdbctl consolidate
memdbctl consolidate --agent planner --rate 0.1 --json`

func (a *app) consolidateCmd() *cobra.Command {
	cmd := newCmd(groupAgeing, "consolidate", "Decay, prune and merge memories as the policy says", consolidateExample)
	cmd.Long = `Take a share of the confidence of memories that were neither recalled nor stored for the
policy's idle time, down to its floor; remove those whose decayed importance is too low;
and merge what says the same within one user, agent, run, role, kind and source: what
differs in case, spaces and punctuation alone goes into the newest. Without --user and --agent
those of everyone. --undo LSN brings back all that a consolidation with this LSN has taken.`
	cmd.Args = exactly(0, "no argument")
	var o engine.ConsolidateOptions
	ownerScope(cmd, &o.Scope)
	cmd.Flags().Func("rate", "what they lose of their confidence, from 0 to 1 (default that of the policy)", func(s string) error { return parseShare(s, &o.Rate) })
	cmd.Flags().Func("prune", "remove what has a lower decayed importance, from 0 to 1 (default that of the policy)", func(s string) error { return parseShare(s, &o.PruneBelow) })
	var merge bool
	cmd.Flags().BoolVar(&merge, "merge", true, "merge what says the same (default as the policy says)")
	cmd.Flags().Lookup("merge").DefValue = "" // which is the policy's
	cmd.Flags().BoolVar(&o.DryRun, "dry-run", false, "change nothing, show what would be merged and pruned, and report what would change")
	undo := undoFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx := cmd.Context()
		if cmd.Flags().Changed("undo") {
			return a.undo(cmd, *undo)
		}
		if cmd.Flags().Changed("merge") {
			o.Merge = &merge
		}
		return a.use(ctx, func(db *engine.DB) error { return a.consolidate(ctx, db, &o) })
	}
	return cmd
}

func (a *app) consolidate(ctx context.Context, db *engine.DB, o *engine.ConsolidateOptions) error {
	t := a.rows("BY", "SCORE", "ID", "TEXT", "INTO", "TEXT")
	if o.DryRun {
		o.Visit = func(m engine.Merge) error {
			return t.add(m, m.By, share(&m.Score), m.ID, m.Text, m.Into, m.IntoText)
		}
		o.VisitPruned = func(p engine.Pruned) error {
			return t.add(p, string(p.Reason), "", p.ID, p.Text, "", "")
		}
	}
	var r engine.Consolidated
	err := a.during("consolidate", func() (err error) {
		r, err = db.Consolidate(ctx, o)
		return err
	})
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(exchange.NewConsolidated(r))
	}
	if err := t.end(); err != nil {
		return err
	}
	if r.Skipped != "" {
		a.printf("skipped: %s\n", r.Skipped)
		return nil
	}
	a.printf("decayed %s of %s, pruned %s, merged %s\n", count(r.Decayed, "memory", "memories"), number(r.Processed), number(r.Deleted), number(r.Merged))
	return nil
}

const evictExample = `
memdbctl evict --dry-run
memdbctl evict --agent planner --max-age 15d --min-importance 0.3 --cap 5000 --json`

func (a *app) evictCmd() *cobra.Command {
	cmd := newCmd(groupAgeing, "evict [all]", "Remove memories that the policy does not keep", evictExample)
	cmd.Long = `Remove what has expired, what is too old, was not recalled lately and is not important,
what has too low a confidence, and of an owner with too many memories the least important.
Notes, archives, summaries and what is pinned stay. Without --user and --agent, or with all,
everyone's. --undo LSN brings back what an eviction with this LSN has removed.`
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) > 1 || len(args) == 1 && args[0] != "all" {
			return usagef(cmd, "it takes nothing, or all")
		}
		if len(args) == 1 && (cmd.Flags().Changed("user") || cmd.Flags().Changed("agent")) {
			return usagef(cmd, "all excludes --user and --agent")
		}
		return nil
	}
	cmd.ValidArgs, cmd.ValidArgsFunction = []string{"all"}, nil
	var o engine.EvictOptions
	ownerScope(cmd, &o.Scope)
	flags := cmd.Flags()
	flags.Func("max-age", "what is older may go, as 30d (default that of the policy)", func(s string) error {
		age, err := policy.ParseSpan(s)
		o.MaxAge = new(time.Duration(age))
		return err
	})
	flags.Func("min-importance", "what is at least as important stays whatever its age, from 0 to 1 (default likewise)", func(s string) error { return parseShare(s, &o.MinImportance) })
	flags.Func("cap", "how many an owner keeps (default likewise)", func(s string) error {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return fmt.Errorf("%q is no whole number", s)
		}
		o.Cap = &n
		return nil
	})
	flags.BoolVar(&o.DryRun, "dry-run", false, "remove nothing, and show what would go")
	undo := undoFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx := cmd.Context()
		if cmd.Flags().Changed("undo") {
			return a.undo(cmd, *undo)
		}
		return a.use(ctx, func(db *engine.DB) error { return a.evict(ctx, db, &o) })
	}
	return cmd
}

func (a *app) evict(ctx context.Context, db *engine.DB, o *engine.EvictOptions) error {
	t := a.ownedRows(o.Scope == (memory.Scope{}), 3, "REASON", "IMPORTANCE", "CONFIDENCE", "ID")
	o.Visit = func(v engine.Victim) error {
		if a.quiet && !a.json {
			return nil
		}
		return t.addOf(memory.Scope{User: v.User, Agent: v.Agent, Run: v.Run}, v, string(v.Reason), share(&v.Importance), share(&v.Confidence), v.ID)
	}
	var r engine.Evicted
	err := a.during("evict", func() (err error) {
		r, err = db.Evict(ctx, o)
		return err
	})
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(r)
	}
	if err := t.end(); err != nil {
		return err
	}
	if r.Skipped != "" {
		a.printf("skipped: %s\n", r.Skipped)
		return nil
	}
	done := "evicted"
	if o.DryRun {
		done = "would evict"
	}
	a.printf("%s %s\n", done, count(r.Evicted, "memory", "memories"))
	return nil
}

// undoFlag is --undo.
func undoFlag(cmd *cobra.Command) *uint64 {
	return cmd.Flags().Uint64("undo", 0, "bring back what the commit of this LSN has removed, while the trash keeps it")
}

// undo brings back what a commit has removed. It goes with no other flag of its verb.
func (a *app) undo(cmd *cobra.Command, lsn uint64) error {
	for _, name := range []string{"user", "agent", "rate", "prune", "merge", "max-age", "min-importance", "cap", "dry-run"} {
		if f := cmd.Flags().Lookup(name); f != nil && f.Changed {
			return usagef(cmd, "--undo excludes --%s", name)
		}
	}
	ctx := cmd.Context()
	return a.use(ctx, func(db *engine.DB) error {
		r, err := db.Undo(ctx, lsn)
		if err != nil {
			return err
		}
		if a.json {
			return a.printJSON(r)
		}
		a.printf("restored %s, %s without vectors that they had\n", count(r.Restored, "memory", "memories"), number(r.WithoutVectors))
		return nil
	})
}

// ownerScope are --user and --agent.
func ownerScope(cmd *cobra.Command, s *memory.Scope) {
	cmd.Flags().StringVar(&s.User, "user", "", userHelp)
	cmd.Flags().StringVar(&s.Agent, "agent", "", agentHelp)
}
