package api

import (
	"context"
	"time"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/usage"
)

// ModelCall is what one call of a model used.
type ModelCall struct {
	Model            string        `json:"model" openapi:"required" help:"the model"`
	PromptTokens     int64         `json:"prompt_tokens" flag:"prompt" unit:"tokens" help:"the tokens of the prompt"`
	CompletionTokens int64         `json:"completion_tokens" flag:"completion" unit:"tokens" help:"the tokens of the completion"`
	TotalTokens      int64         `json:"total_tokens" flag:"total" unit:"tokens" help:"all tokens; the default is the sum of prompt and completion"`
	Cost             usage.USD     `json:"cost_usd" flag:"cost" help:"the cost in USD, exact to 18 digits after the point"`
	Time             exchange.Time `json:"timestamp" flag:"at" help:"when it was; the default is now"`
}

// UsageAddRequest records the usage of a call.
type UsageAddRequest struct {
	Owner
	ModelCall    `body:"object"`
	WithinBudget bool `query:"within_budget" help:"fail if a budget has no room for the cost"`
}

// UsageAdd records the usage of a call of a model.
var UsageAdd = &Op[UsageAddRequest, usage.Line]{
	Operation: Operation{Name: "usage add", Route: "POST /usage", Summary: "Record the usage of a model call", Doing: "add usage", Access: Creates, Status: 201, Once: true},
	Run: func(ctx context.Context, db *engine.DB, q *UsageAddRequest) (usage.Line, error) {
		r := usage.Record{
			Owner: q.owner(), Model: q.Model, PromptTokens: q.PromptTokens, CompletionTokens: q.CompletionTokens, TotalTokens: q.TotalTokens,
			Cost: q.Cost, Time: q.Time.Time,
		}
		added, err := db.Usage().Add(ctx, r, &usage.AddOptions{WithinBudget: q.WithinBudget})
		return usage.NewLine(added), err
	},
}

// ModelCalls chooses calls of models.
type ModelCalls struct {
	Owners
	Model string    `query:"model" help:"only this model"`
	Since time.Time `query:"since" bound:"lower" help:"only calls at or after this time"`
	Until time.Time `query:"until" help:"only calls before this time"`
}

func (c *ModelCalls) query() usage.Query {
	return usage.Query{Owner: c.owner(), Model: c.Model, Since: c.Since, Until: c.Until}
}

// UsageTotal sums the usage of calls.
var UsageTotal = &Op[ModelCalls, usage.Totals]{
	Operation: Operation{Name: "usage total", Route: "GET /usage/total", Summary: "Sum tokens and cost", Doing: "read usage"},
	Run: func(ctx context.Context, db *engine.DB, q *ModelCalls) (usage.Totals, error) {
		return db.Usage().Total(ctx, q.query())
	},
}

// UsageByRequest sums the usage of calls in groups.
type UsageByRequest struct {
	ModelCalls
	What usage.By `path:"what" arg:"agent|model|day" enum:"agent,model,day" help:"what to sum by"`
}

// UsageBy sums the usage of calls by agent, model or day.
var UsageBy = &List[UsageByRequest, usage.GroupLine]{
	Operation: Operation{Name: "usage by", Route: "GET /usage/by/{what}", Summary: "Sum tokens and cost by agent, model or day", Doing: "read usage"},
	Run: func(ctx context.Context, db *engine.DB, q *UsageByRequest, yield func(usage.GroupLine) error) (End, error) {
		groups, err := db.Usage().By(ctx, q.What, q.query())
		if err != nil {
			return End{}, err
		}
		return End{}, each(groups, func(g usage.Group) error { return yield(usage.NewGroupLine(q.What, g)) })
	},
}

// UsageRank lists the agents by what they cost.
var UsageRank = &List[ModelCalls, usage.Ranked]{
	Operation: Operation{Name: "usage rank", Route: "GET /usage/rank", Summary: "List agents by cost, most expensive first", Doing: "read usage"},
	Run: func(ctx context.Context, db *engine.DB, q *ModelCalls, yield func(usage.Ranked) error) (End, error) {
		all, err := db.Usage().Rank(ctx, q.query())
		if err != nil {
			return End{}, err
		}
		return End{}, each(all, yield)
	},
}

// UsageRollUpRequest replaces the records of the days before a time.
type UsageRollUpRequest struct {
	Owner
	Before time.Time `query:"before" required:"true" help:"the end of the days whose records are summed"`
}

// UsageRolledUp is the reply of UsageRollUp.
type UsageRolledUp struct {
	// RolledUp is true.
	RolledUp bool `json:"rolled_up"`
}

// UsageRollUp replaces old records by one for each day and model.
var UsageRollUp = &Op[UsageRollUpRequest, UsageRolledUp]{
	Operation: Operation{Name: "usage rollup", Route: "POST /usage/rollup", Summary: "Replace old usage records by one for each day and model", Doing: "roll usage up", Access: Writes},
	Run: func(ctx context.Context, db *engine.DB, q *UsageRollUpRequest) (UsageRolledUp, error) {
		return UsageRolledUp{true}, db.Usage().RollUp(ctx, q.owner(), q.Before)
	},
}

// NewBudget is the limit of a period.
type NewBudget struct {
	Per   usage.Period `json:"per" enum:"day,month" help:"the period in UTC: day or month; the default is all time"`
	Limit *usage.USD   `json:"limit_usd" openapi:"required" arg:"USD" help:"the limit in USD"`
}

// UsageBudgetSetRequest sets a budget.
type UsageBudgetSetRequest struct {
	Owner
	NewBudget `body:"object"`
}

// UsageBudgetSet sets the budget of a period.
var UsageBudgetSet = &Op[UsageBudgetSetRequest, usage.BudgetLine]{
	Operation: Operation{Name: "usage budget set", Route: "PUT /usage/budgets", Summary: "Set the budget of a period", Doing: "set a budget", Access: Creates},
	Run: func(ctx context.Context, db *engine.DB, q *UsageBudgetSetRequest) (usage.BudgetLine, error) {
		if q.Limit == nil {
			return usage.BudgetLine{}, invalid("set a budget", "there is no limit_usd", "give it")
		}
		b := usage.Budget{Owner: q.owner(), Per: q.Per, Limit: *q.Limit}
		return usage.NewBudgetLine(b), db.Usage().SetBudget(ctx, b)
	},
}

// UsageBudgetList lists the budgets of an owner.
var UsageBudgetList = &List[Owner, usage.BudgetLine]{
	Operation: Operation{Name: "usage budget list", Route: "GET /usage/budgets", Summary: "List the budgets of an owner", Doing: "list budgets"},
	Run: func(ctx context.Context, db *engine.DB, q *Owner, yield func(usage.BudgetLine) error) (End, error) {
		all, err := db.Usage().Budgets(ctx, q.owner())
		if err != nil {
			return End{}, err
		}
		return End{}, each(all, func(b usage.Budget) error { return yield(usage.NewBudgetLine(b)) })
	},
}

// UsageBudgetRemoveRequest removes a budget.
type UsageBudgetRemoveRequest struct {
	Owner
	Per usage.Period `query:"per" enum:"day,month" help:"the period in UTC: day or month; the default is all time"`
}

// UsageBudgetRemove removes the budget of a period.
var UsageBudgetRemove = &Op[UsageBudgetRemoveRequest, exchange.Deleted]{
	Operation: Operation{Name: "usage budget remove", Route: "DELETE /usage/budgets", Summary: "Remove a budget", Doing: "remove a budget", Access: Writes},
	Run: func(ctx context.Context, db *engine.DB, q *UsageBudgetRemoveRequest) (exchange.Deleted, error) {
		return exchange.Deleted{Deleted: 1}, db.Usage().RemoveBudget(ctx, q.owner(), q.Per)
	},
}

// UsageBudgetCheckRequest asks whether a cost fits.
type UsageBudgetCheckRequest struct {
	Owner
	Cost *usage.USD `query:"cost" help:"the cost of the call in USD; the default asks for any cost"`
}

// UsageBudgetCheck reports whether the budgets allow a cost.
var UsageBudgetCheck = &Op[UsageBudgetCheckRequest, usage.Allowance]{
	Operation: Operation{Name: "usage budget check", Route: "GET /usage/budgets/check", Summary: "Report whether the budgets allow a cost", Doing: "check a budget"},
	Run: func(ctx context.Context, db *engine.DB, q *UsageBudgetCheckRequest) (usage.Allowance, error) {
		return db.Usage().Check(ctx, q.owner(), q.Cost)
	},
}
