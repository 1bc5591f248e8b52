package cli

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/api"
	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/usage"
)

const usageExample = `
memdbctl usage add --agent researcher --model small-1 --prompt 1200 --completion 300 --cost 0.0123
memdbctl usage total --agent researcher --since 2026-11-01
memdbctl usage rank --json
memdbctl usage by day --agent researcher`

func (a *app) usageCmd() *cobra.Command {
	cmd := newCmd(groupMemories, "usage", "Record what calls of models take, and keep budgets", usageExample)
	return withVerbs(
		cmd,
		opCmd(a, api.UsageAdd, shown[api.UsageAddRequest, usage.Line]{
			help: help{example: "\nmemdbctl usage add --agent researcher --model small-1 --prompt 1200 --completion 300 --cost 0.0123"},
			show: func(_ *api.UsageAddRequest, r usage.Line) {
				a.printf("recorded %s for %s dollars\n", count(r.TotalTokens, "token", "tokens"), r.Cost)
			},
		}),
		opCmd(a, api.UsageTotal, shown[api.ModelCalls, usage.Totals]{
			help: help{example: "\nmemdbctl usage total\nmemdbctl usage total --agent researcher --since 2026-11-01 --until 2026-12-01"},
			show: func(_ *api.ModelCalls, s usage.Totals) {
				a.printf("%s, %s, %s dollars\n", count(s.Records, "call", "calls"), count(s.TotalTokens, "token", "tokens"), s.Cost)
			},
		}),
		listCmd(a, api.UsageBy, listShown[api.UsageByRequest, usage.GroupLine]{
			help: help{example: "\nmemdbctl usage by model --agent researcher\nmemdbctl usage by day --since 2026-11-01"},
			columns: func(q *api.UsageByRequest) []string {
				return []string{"CALLS", "TOKENS", "DOLLARS", strings.ToUpper(string(q.What))}
			},
			cells: func(g usage.GroupLine) []any { return []any{g.Records, g.TotalTokens, g.Cost.String(), g.Name()} },
		}),
		listCmd(a, api.UsageRank, listShown[api.ModelCalls, usage.Ranked]{
			help:    help{example: "\nmemdbctl usage rank --since 2026-11-01"},
			columns: columns[api.ModelCalls]("DOLLARS", "TOKENS", "AGENT", "NAME"),
			cells:   func(r usage.Ranked) []any { return []any{r.Cost.String(), r.TotalTokens, r.AgentID, r.Name} },
		}),
		opCmd(a, api.UsageRollUp, shown[api.UsageRollUpRequest, api.UsageRolledUp]{
			help: help{
				long: `Replace the records of the days before a time by one for each day and model.
Totals of whole days, in UTC, stay the same; a range that begins or ends within
such a day is refused from then on.`,
				example: "\nmemdbctl usage rollup --agent researcher --before 2026-01-01",
			},
			show: func(*api.UsageRollUpRequest, api.UsageRolledUp) { a.printf("rolled up\n") },
		}),
		a.usageBudgetCmd(),
	)
}

const usageBudgetExample = `
memdbctl usage budget set 5 --per day --agent researcher
memdbctl usage budget check --cost 0.05 --agent researcher`

func (a *app) usageBudgetCmd() *cobra.Command {
	cmd := newCmd("", "budget", "Bound what an owner spends", usageBudgetExample)
	return withVerbs(
		cmd,
		opCmd(a, api.UsageBudgetSet, shown[api.UsageBudgetSetRequest, usage.BudgetLine]{
			help: help{example: "\nmemdbctl usage budget set 5 --per day --agent researcher"},
			show: func(_ *api.UsageBudgetSetRequest, b usage.BudgetLine) { a.printf("set %s dollars\n", b.Limit) },
		}),
		opCmd(a, api.UsageBudgetCheck, shown[api.UsageBudgetCheckRequest, usage.Allowance]{
			help: help{example: "\nmemdbctl usage budget check --cost 0.05 --agent researcher"},
			show: func(_ *api.UsageBudgetCheckRequest, at usage.Allowance) {
				if at.Limit == nil {
					a.printf("no budget, %s dollars spent\n", at.Spent)
				} else {
					a.printf("%s of %s dollars spent\n", at.Spent, at.Limit)
				}
			},
			end: func(at usage.Allowance) error {
				if at.Allowed {
					return nil
				}
				return &exitError{code: exitFailed, err: errors.New("the budget has no room; wait for the next period, or set a larger one")}
			},
		}),
		listCmd(a, api.UsageBudgetList, listShown[api.Owner, usage.BudgetLine]{
			help:    help{example: "\nmemdbctl usage budget list --agent researcher"},
			columns: columns[api.Owner]("DOLLARS", "PER"),
			cells:   func(b usage.BudgetLine) []any { return []any{b.Limit.String(), string(b.Per)} },
		}),
		opCmd(a, api.UsageBudgetRemove, shown[api.UsageBudgetRemoveRequest, exchange.Deleted]{
			help: help{example: "\nmemdbctl usage budget remove --per day --agent researcher"},
			show: printDeletedOf[api.UsageBudgetRemoveRequest](a),
		}),
	)
}
