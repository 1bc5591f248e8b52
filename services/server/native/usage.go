package native

import (
	"errors"
	"net/http"
	"time"

	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/scope"
	"github.com/seed-7aedc3ff/memdb/services/server"
	"github.com/seed-7aedc3ff/memdb/usage"
)

// ofCalls are the parameters that choose calls of models.
var ofCalls = []param{
	ofUser, ofAgent,
	{name: "model", kind: text, summary: "only this model"},
	{name: "since", kind: moment, summary: "only calls at or after this time"},
	{name: "until", kind: moment, summary: "only calls before this time"},
}

var period = param{name: "per", kind: text, values: []string{string(usage.PerDay), string(usage.PerMonth)}, summary: "the period in UTC; the default is all time"}

func usageRoutes() []route {
	return []route{
		{at: "POST /usage", summary: "Record the usage of a model call", body: call{}, reply: usage.Line{}, status: http.StatusCreated, handle: addUsage, params: ofOwner(
			param{name: "within_budget", kind: flag, summary: "fail with 409 if a budget has no room for the cost"},
		)},
		{at: "GET /usage/total", summary: "Sum tokens and cost", reply: usage.Totals{}, handle: totalUsage, params: ofCalls},
		{at: "GET /usage/by/{what}", summary: "Sum tokens and cost by agent, model or day", path: []param{{name: "what", kind: text, values: []string{string(usage.ByAgent), string(usage.ByModel), string(usage.ByDay)}, summary: "what to sum by"}}, reply: usage.GroupLine{}, lines: true, handle: usageBy, params: ofCalls},
		{at: "GET /usage/rank", summary: "List agents by cost, most expensive first", reply: usage.Ranked{}, lines: true, handle: rankUsage, params: ofCalls},
		{at: "POST /usage/rollup", summary: "Replace old usage records by one for each day and model", reply: rolledUp{}, handle: rollUp, params: ofOwner(
			param{name: "before", kind: moment, required: true, summary: "the end of the days whose records are summed"},
		)},
		{at: "GET /usage/budgets", summary: "List the budgets of an owner", reply: usage.BudgetLine{}, lines: true, handle: listBudgets, params: ofOwner()},
		{at: "PUT /usage/budgets", summary: "Set the budget of a period", body: budget{}, reply: usage.BudgetLine{}, handle: setBudget, params: ofOwner()},
		{at: "DELETE /usage/budgets", summary: "Remove a budget", reply: deletedOne, handle: removeBudget, params: ofOwner(period)},
		{at: "GET /usage/budgets/check", summary: "Report whether the budgets allow a cost", reply: usage.Allowance{}, handle: checkBudget, params: ofOwner(
			param{name: "cost", kind: money, summary: "the cost of the call in USD; the default asks for any cost"},
		)},
	}
}

// call is a call of a model.
type call struct {
	Model            string        `json:"model" openapi:"required"`
	PromptTokens     int64         `json:"prompt_tokens"`
	CompletionTokens int64         `json:"completion_tokens"`
	TotalTokens      int64         `json:"total_tokens"` // prompt and completion where it is left out
	Cost             usage.USD     `json:"cost_usd"`
	Time             exchange.Time `json:"timestamp"` // now where it is left out
}

func addUsage(a *ask) error {
	b, err := decoded[call](a)
	if err != nil {
		return err
	}
	owner, err := a.owner("add usage")
	if err != nil {
		return err
	}
	r := usage.Record{Owner: owner, Model: b.Model, PromptTokens: b.PromptTokens, CompletionTokens: b.CompletionTokens, TotalTokens: b.TotalTokens, Cost: b.Cost, Time: b.Time.Time}
	added, err := a.DB.Usage().Add(a.Context(), r, &usage.AddOptions{WithinBudget: value[bool](a, "within_budget")})
	if errors.Is(err, usage.ErrBudget) {
		return &server.Failure{Status: http.StatusConflict, Code: "over_budget", Message: err.Error(), Err: err}
	}
	if err != nil {
		return err
	}
	return a.Reply(http.StatusCreated, usage.NewLine(added))
}

// calls are those that the parameters choose: all of everyone for an administrator who names nobody.
func (a *ask) calls() (usage.Query, error) {
	if a.given("user") && value[string](a, "user") == "" || a.given("agent") && value[string](a, "agent") == "" {
		return usage.Query{}, invalid("read usage", "the user or the agent is empty", "leave it out")
	}
	s, err := a.Scope(memory.Scope{User: value[string](a, "user"), Agent: value[string](a, "agent")})
	if err == nil && s.Run != "" {
		err = server.Denied("the key is one of a run, and usage belongs to a user and an agent")
	}
	q := usage.Query{Owner: scope.Owner{User: s.User, Agent: s.Agent}, Model: value[string](a, "model")}
	q.Since, q.Until = value[time.Time](a, "since"), value[time.Time](a, "until")
	return q, err
}

func totalUsage(a *ask) error {
	q, err := a.calls()
	if err != nil {
		return err
	}
	t, err := a.DB.Usage().Total(a.Context(), q)
	return a.ok(t, err)
}

func usageBy(a *ask) error {
	by := usage.By(a.id("what"))
	if by != usage.ByAgent && by != usage.ByModel && by != usage.ByDay {
		return server.Fail(http.StatusNotFound, "not_found", "usage is summed by agent, model or day")
	}
	q, err := a.calls()
	if err != nil {
		return err
	}
	groups, err := a.DB.Usage().By(a.Context(), by, q)
	if err != nil {
		return err
	}
	return a.list(func(s *stream) error {
		for _, g := range groups {
			if err := s.write(usage.NewGroupLine(by, g)); err != nil {
				return err
			}
		}
		return nil
	})
}

func rankUsage(a *ask) error {
	q, err := a.calls()
	if err != nil {
		return err
	}
	all, err := a.DB.Usage().Rank(a.Context(), q)
	if err != nil {
		return err
	}
	if !a.Admin() { // the names are those of manifests, which are not the key's
		for i := range all {
			all[i].Name = all[i].AgentID
		}
	}
	return a.list(func(s *stream) error { return writeAll(s, all) })
}

type rolledUp struct {
	RolledUp bool `json:"rolled_up"`
}

func rollUp(a *ask) error {
	owner, err := a.owner("roll usage up")
	if err != nil {
		return err
	}
	return a.ok(rolledUp{true}, a.DB.Usage().RollUp(a.Context(), owner, value[time.Time](a, "before")))
}

func listBudgets(a *ask) error {
	owner, err := a.owner("list budgets")
	if err != nil {
		return err
	}
	all, err := a.DB.Usage().Budgets(a.Context(), owner)
	if err != nil {
		return err
	}
	return a.list(func(s *stream) error {
		for _, b := range all {
			if err := s.write(usage.NewBudgetLine(b)); err != nil {
				return err
			}
		}
		return nil
	})
}

type budget struct {
	Per   usage.Period `json:"per"`
	Limit *usage.USD   `json:"limit_usd" openapi:"required"`
}

func setBudget(a *ask) error {
	b, err := decoded[budget](a)
	if err != nil {
		return err
	}
	owner, err := a.owner("set a budget")
	if err != nil {
		return err
	}
	if b.Limit == nil {
		return invalid("set a budget", "there is no limit_usd", "give it")
	}
	set := usage.Budget{Owner: owner, Per: b.Per, Limit: *b.Limit}
	return a.ok(usage.NewBudgetLine(set), a.DB.Usage().SetBudget(a.Context(), set))
}

func removeBudget(a *ask) error {
	owner, err := a.owner("remove a budget")
	if err != nil {
		return err
	}
	return a.deleted(1, a.DB.Usage().RemoveBudget(a.Context(), owner, usage.Period(value[string](a, "per"))))
}

func checkBudget(a *ask) error {
	owner, err := a.owner("check a budget")
	if err != nil {
		return err
	}
	at, err := a.DB.Usage().Check(a.Context(), owner, optional[usage.USD](a, "cost"))
	return a.ok(at, err)
}
