package cli

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/usage"
)

const usageExample = `
memdbctl usage add --agent researcher --model small-1 --prompt 1200 --completion 300 --cost 0.0123
memdbctl usage total --agent researcher --since 2026-11-01
memdbctl usage rank --json
memdbctl usage by day --agent researcher`

func (a *app) usageCmd() *cobra.Command {
	cmd := newCmd(groupMemories, "usage", "Record what calls of models take, and keep budgets", usageExample)
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = takesOne(`add, total, by, rank, rollup and budget`)
	cmd.AddCommand(a.usageAddCmd(), a.usageTotalCmd(), a.usageByCmd(), a.usageRankCmd(), a.usageRollUpCmd(), a.usageBudgetCmd())
	return cmd
}

// takesOne refuses a group of verbs without one of them.
func takesOne(names string) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return unknownVerb(cmd, args[0])
		}
		return usagef(cmd, "it takes one of %s", names)
	}
}

// ownerGiven refuses a verb that stores something for nobody, before a database is made.
func ownerGiven(o memory.Owner, doing string) error {
	if o == (memory.Owner{}) {
		return &memory.Error{Kind: memory.ErrScope, What: doing}
	}
	return nil
}

const usageAddExample = `
memdbctl usage add --agent researcher --model small-1 --prompt 1200 --completion 300 --cost 0.0123`

func (a *app) usageAddCmd() *cobra.Command {
	cmd := newCmd("", "add", "Record a call of a model", usageAddExample)
	cmd.Args = exactly(0, "no argument")
	var (
		r    usage.Record
		opts usage.AddOptions
	)
	ownerFlags(cmd, &r.Owner)
	flags := cmd.Flags()
	flags.StringVar(&r.Model, "model", "", "the model that was called")
	flags.Int64Var(&r.PromptTokens, "prompt", 0, "`tokens` of the prompt")
	flags.Int64Var(&r.CompletionTokens, "completion", 0, "`tokens` of the completion")
	flags.Int64Var(&r.TotalTokens, "total", 0, "all `tokens` (default prompt and completion)")
	flags.Func("cost", "the cost in `USD`, exact to 18 digits behind the point", func(s string) (err error) {
		r.Cost, err = usage.ParseUSD(s)
		return err
	})
	flags.Func("at", "when it was (default now), a "+timeForms, a.timeFlag(&r.Time))
	flags.BoolVar(&opts.WithinBudget, "within-budget", false, "fail where a budget has no room for it")
	a.requestFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx := cmd.Context()
		if err := ownerGiven(r.Owner, "add"); err != nil {
			return err
		}
		return a.create(ctx, nil, func(db *engine.DB) error {
			added, err := db.Usage().Add(ctx, r, &opts)
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(usage.NewLine(added))
			}
			a.printf("recorded %s for %s dollars\n", count(added.TotalTokens, "token", "tokens"), added.Cost)
			return nil
		})
	}
	return cmd
}

// queryFlags are those that choose records.
func (a *app) queryFlags(cmd *cobra.Command, q *usage.Query) {
	ownerFlags(cmd, &q.Owner)
	cmd.Flags().StringVar(&q.Model, "model", "", "of this model")
	cmd.Flags().Func("since", "from then on, a "+timeForms, a.sinceFlag(&q.Since))
	cmd.Flags().Func("until", "before this `time`, likewise", a.timeFlag(&q.Until))
}

func (a *app) usageTotalCmd() *cobra.Command {
	cmd := newCmd("", "total", "Sum tokens and cost", "\nmemdbctl usage total\nmemdbctl usage total --agent researcher --since 2026-11-01 --until 2026-12-01")
	cmd.Args = exactly(0, "no argument")
	var q usage.Query
	a.queryFlags(cmd, &q)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx := cmd.Context()
		return a.read(ctx, func(db *engine.DB) error {
			s, err := db.Usage().Total(ctx, q)
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(s)
			}
			a.printf("%s, %s, %s dollars\n", count(s.Records, "call", "calls"), count(s.TotalTokens, "token", "tokens"), s.Cost)
			return nil
		})
	}
	return cmd
}

func (a *app) usageByCmd() *cobra.Command {
	cmd := newCmd("", "by agent | by model | by day", "Sum tokens and cost by agent, model or day", "\nmemdbctl usage by model --agent researcher\nmemdbctl usage by day --since 2026-11-01")
	cmd.Args = exactly(1, "agent, model or day")
	cmd.ValidArgs = []string{string(usage.ByAgent), string(usage.ByModel), string(usage.ByDay)}
	cmd.ValidArgsFunction = nil
	var q usage.Query
	a.queryFlags(cmd, &q)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		return a.read(ctx, func(db *engine.DB) error {
			by := usage.By(args[0])
			groups, err := db.Usage().By(ctx, by, q)
			if err != nil {
				return err
			}
			t := a.rows("CALLS", "TOKENS", "DOLLARS", strings.ToUpper(args[0]))
			for _, g := range groups {
				if err := t.add(usage.NewGroupLine(by, g), g.Records, g.TotalTokens, g.Cost.String(), g.Name); err != nil {
					return err
				}
			}
			return t.end()
		})
	}
	return cmd
}

func (a *app) usageRankCmd() *cobra.Command {
	cmd := newCmd("", "rank", "List agents by their cost", "\nmemdbctl usage rank --since 2026-11-01")
	cmd.Args = exactly(0, "no argument")
	var q usage.Query
	a.queryFlags(cmd, &q)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx := cmd.Context()
		return a.read(ctx, func(db *engine.DB) error {
			ranking, err := db.Usage().Rank(ctx, q)
			if err != nil {
				return err
			}
			t := a.rows("DOLLARS", "TOKENS", "AGENT", "NAME")
			for _, r := range ranking {
				if err := t.add(r, r.Cost.String(), r.TotalTokens, r.AgentID, r.Name); err != nil {
					return err
				}
			}
			return t.end()
		})
	}
	return cmd
}

func (a *app) usageRollUpCmd() *cobra.Command {
	cmd := newCmd("", "rollup --before TIME", "Replace old records by one for each day and model", "\nmemdbctl usage rollup --agent researcher --before 2026-01-01")
	cmd.Long = `Replace the records of the days before a time by one for each day and model.
Totals of whole days, in UTC, stay the same; a range that begins or ends within
such a day is refused from then on.`
	cmd.Args = exactly(0, "no argument")
	var (
		owner memory.Owner
		q     usage.Query
	)
	ownerFlags(cmd, &owner)
	cmd.Flags().Func("before", "when they end, a "+timeForms, a.timeFlag(&q.Until))
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if q.Until.IsZero() {
			return usagef(cmd, "give --before")
		}
		ctx := cmd.Context()
		return a.use(ctx, func(db *engine.DB) error {
			if err := db.Usage().RollUp(ctx, owner, q.Until); err != nil {
				return err
			}
			if a.json {
				return a.printJSON(map[string]bool{"rolled_up": true})
			}
			a.printf("rolled up\n")
			return nil
		})
	}
	return cmd
}

const usageBudgetExample = `
memdbctl usage budget set 5 --per day --agent researcher
memdbctl usage budget check --cost 0.05 --agent researcher`

func (a *app) usageBudgetCmd() *cobra.Command {
	cmd := newCmd("", "budget", "Bound what an owner spends", usageBudgetExample)
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = takesOne("set, check, list and remove")
	cmd.AddCommand(a.budgetSetCmd(), a.budgetCheckCmd(), a.budgetListCmd(), a.budgetRemoveCmd())
	return cmd
}

func perFlag(cmd *cobra.Command, p *usage.Period) {
	cmd.Flags().StringVar((*string)(p), "per", "", "`period` in UTC: day or month (default for ever)")
	complete(cmd, "per", string(usage.PerDay), string(usage.PerMonth))
}

func (a *app) budgetSetCmd() *cobra.Command {
	cmd := newCmd("", "set USD", "Set a budget, in place of the one of that period", "\nmemdbctl usage budget set 5 --per day --agent researcher")
	cmd.Args = exactly(1, "one amount in dollars")
	var b usage.Budget
	ownerFlags(cmd, &b.Owner)
	perFlag(cmd, &b.Per)
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if b.Limit, err = usage.ParseUSD(args[0]); err != nil {
			return usagef(cmd, "%v", err)
		}
		if err := ownerGiven(b.Owner, "set a budget"); err != nil {
			return err
		}
		ctx := cmd.Context()
		return a.create(ctx, nil, func(db *engine.DB) error {
			if err := db.Usage().SetBudget(ctx, b); err != nil {
				return err
			}
			if a.json {
				return a.printJSON(usage.NewBudgetLine(b))
			}
			a.printf("set %s dollars\n", b.Limit)
			return nil
		})
	}
	return cmd
}

func (a *app) budgetCheckCmd() *cobra.Command {
	cmd := newCmd("", "check", "Say whether the budgets have room", "\nmemdbctl usage budget check --cost 0.05 --agent researcher")
	cmd.Args = exactly(0, "no argument")
	var (
		owner memory.Owner
		cost  *usage.USD
	)
	ownerFlags(cmd, &owner)
	cmd.Flags().Func("cost", "for a call of so many `USD` (default: for anything)", func(s string) error {
		c, err := usage.ParseUSD(s)
		cost = &c
		return err
	})
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx := cmd.Context()
		var at usage.Allowance
		err := a.read(ctx, func(db *engine.DB) (err error) {
			at, err = db.Usage().Check(ctx, owner, cost)
			return err
		})
		if err != nil {
			return err
		}
		if a.json {
			err = a.printJSON(at)
		} else if at.Limit == nil {
			a.printf("no budget, %s dollars spent\n", at.Spent)
		} else {
			a.printf("%s of %s dollars spent\n", at.Spent, at.Limit)
		}
		if err == nil && !at.Allowed {
			err = &exitError{code: exitFailed, err: errors.New("the budget has no room; wait for the next period, or set a larger one")}
		}
		return err
	}
	return cmd
}

func (a *app) budgetListCmd() *cobra.Command {
	cmd := newCmd("", "list", "List the budgets of an owner", "\nmemdbctl usage budget list --agent researcher")
	cmd.Args = exactly(0, "no argument")
	var owner memory.Owner
	ownerFlags(cmd, &owner)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx := cmd.Context()
		return a.read(ctx, func(db *engine.DB) error {
			budgets, err := db.Usage().Budgets(ctx, owner)
			if err != nil {
				return err
			}
			t := a.rows("DOLLARS", "PER")
			for _, b := range budgets {
				if err := t.add(usage.NewBudgetLine(b), b.Limit.String(), string(b.Per)); err != nil {
					return err
				}
			}
			return t.end()
		})
	}
	return cmd
}

func (a *app) budgetRemoveCmd() *cobra.Command {
	cmd := newCmd("", "remove", "Remove a budget", "\nmemdbctl usage budget remove --per day --agent researcher")
	cmd.Args = exactly(0, "no argument")
	var (
		owner memory.Owner
		per   usage.Period
	)
	ownerFlags(cmd, &owner)
	perFlag(cmd, &per)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx := cmd.Context()
		return a.use(ctx, func(db *engine.DB) error {
			if err := db.Usage().RemoveBudget(ctx, owner, per); err != nil {
				return err
			}
			return a.printDeleted(1)
		})
	}
	return cmd
}
