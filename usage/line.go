package usage

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// The types of lines of an export.
const (
	TypeAgent  = "agent"
	TypeBudget = "budget"
	TypeUsage  = "usage"
)

// Line is a record as one flat JSON object.
type Line struct {
	Type             string        `json:"type"`
	User             string        `json:"user"`
	Agent            string        `json:"agent"`
	Number           uint64        `json:"number,omitzero"`
	Model            string        `json:"model"`
	PromptTokens     int64         `json:"prompt_tokens"`
	CompletionTokens int64         `json:"completion_tokens"`
	TotalTokens      int64         `json:"total_tokens"`
	Cost             USD           `json:"cost_usd"`
	Calls            int64         `json:"calls,omitzero"` // where it is not 1
	Time             clock.Instant `json:"timestamp"`
}

// NewLine is the line of a record.
func NewLine(r Record) Line {
	l := Line{
		TypeUsage, r.User, r.Agent, r.Number, r.Model, r.PromptTokens, r.CompletionTokens, r.TotalTokens, r.Cost, r.Calls, clock.Instant{Time: r.Time},
	}
	if l.Calls == 1 {
		l.Calls = 0
	}
	return l
}

// BudgetLine is a budget as one flat JSON object.
type BudgetLine struct {
	Type  string `json:"type"`
	User  string `json:"user"`
	Agent string `json:"agent"`
	Per   Period `json:"per,omitempty"`
	Limit *USD   `json:"limit_usd"`
}

// NewBudgetLine is the line of a budget.
func NewBudgetLine(b Budget) BudgetLine {
	return BudgetLine{TypeBudget, b.User, b.Agent, b.Per, &b.Limit}
}

// AgentLine is a manifest as one flat JSON object.
type AgentLine struct {
	Type      string          `json:"type"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	CreatedAt clock.Instant   `json:"created_at,omitzero"`
	Metadata  json.RawMessage `json:"metadata,omitempty"`
}

// NewAgentLine is the line of a manifest.
func NewAgentLine(a Agent) AgentLine {
	return AgentLine{TypeAgent, a.ID, a.Name, clock.Instant{Time: a.CreatedAt}, a.Metadata}
}

type (
	line       struct{ Line }
	budgetLine struct{ BudgetLine }
	agentLine  struct {
		AgentLine
		moved bool // it was that of another agent
	}
)

// NewLine is an empty line of a record, a budget or a manifest, nil for another type.
func (Part) NewLine(typ string) part.Line {
	switch typ {
	case TypeUsage:
		return &line{}
	case TypeBudget:
		return &budgetLine{}
	case TypeAgent:
		return &agentLine{}
	}
	return nil
}

// Leads has the manifests: where agents must have one, nothing is stored before it.
func (Part) Leads(v part.View, in scope.Scope, yield func(part.Line) error) error {
	return eachAgent(v, func(_ uint32, a *Agent) error {
		if !scope.Contains(in, a.owner().Scope()) {
			return nil
		}
		return yield(&agentLine{AgentLine: NewAgentLine(*a)})
	})
}

// Lines has for each owner its budgets, and its records in the order of their times.
// Reservations are left out.
func (Part) Lines(v part.View, in scope.Scope, yield func(part.Line) error) error {
	return eachHome(v, func(owner uint32, h home) error {
		if !scope.Contains(in, h.owner.Scope()) {
			return nil
		}
		budgets, err := budgetsOf(v, owner, h.owner)
		if err != nil {
			return err
		}
		for _, b := range budgets {
			if err := yield(&budgetLine{NewBudgetLine(b)}); err != nil {
				return err
			}
		}
		lower, upper := span(v, kindRecord, owner)
		return v.Scan(lower, upper, func(key, value []byte) error {
			_, ms, number, ok := parseRecordKey(key)
			if !ok {
				return layout.BadKey("usage record", key)
			}
			r, err := decodeRecord(ms, number, value)
			if err != nil {
				return err
			}
			r.Owner = h.owner
			return yield(&line{NewLine(r)})
		})
	})
}

// Type is TypeUsage.
func (*line) Type() string { return TypeUsage }

// Count is how many calls the line stands for: more than one where they were rolled up.
func (l *line) Count() int64 { return max(l.Calls, 1) }

// Check returns why the line cannot be stored.
func (l *line) Check() error {
	if l.Time.IsZero() {
		return errors.New("the usage has no timestamp")
	}
	return nil
}

// Owner is whose record it is.
func (l *line) Owner() scope.Owner { return scope.Owner{User: l.User, Agent: l.Agent} }

// SetOwner gives the record to another owner.
func (l *line) SetOwner(o scope.Owner) { l.User, l.Agent = o.User, o.Agent }

// Store adds the record. One that is there, with the same number, time and content, is left
// alone; where another record has its number at that time, it gets the next one. A line
// without a number is always a new record.
func (l *line) Store(t part.Tx, _ bool) (part.Outcome, error) {
	const doing = "store a record of usage"
	r := l.Record()
	if err := r.check(doing); err != nil {
		return part.Unchanged, err
	}
	owner, known, err := t.Owner(r.Owner)
	if err != nil {
		return part.Unchanged, err
	}
	for value := r.encode(); known && r.Number > 0; r.Number++ {
		have, found, err := t.Get(recordKey(t, owner, uint64(r.Time.UnixMilli()), r.Number))
		if err != nil || found && bytes.Equal(have, value) {
			return part.Unchanged, err
		}
		if !found {
			break
		}
	}
	if err := t.Need(doing, needed(&r)); err != nil {
		return part.Unchanged, err
	}
	return part.Stored, put(t, &r)
}

// Type is TypeBudget.
func (*budgetLine) Type() string { return TypeBudget }

// Check returns why the line cannot be stored.
func (l *budgetLine) Check() error {
	if l.Limit == nil {
		return errors.New("the budget has no limit_usd")
	}
	return nil
}

// Owner is whose budget it is.
func (l *budgetLine) Owner() scope.Owner { return scope.Owner{User: l.User, Agent: l.Agent} }

// SetOwner gives the budget to another owner.
func (l *budgetLine) SetOwner(o scope.Owner) { l.User, l.Agent = o.User, o.Agent }

// Store sets the budget.
func (l *budgetLine) Store(t part.Tx, upsert bool) (part.Outcome, error) {
	const doing = "store a budget"
	b := Budget{l.Owner(), l.Per, *l.Limit}
	if err := scope.Check(doing, b.Scope()); err != nil {
		return part.Unchanged, err
	}
	per, err := b.Per.number(doing)
	if err != nil {
		return part.Unchanged, err
	}
	owner, known, err := t.Owner(b.Owner)
	var have []byte
	if err == nil && known {
		have, known, err = t.Get(budgetKey(t, owner, per))
	}
	switch {
	case err != nil:
		return part.Unchanged, err
	case known && bytes.Equal(have[1:], b.Limit.bytes()):
		return part.Unchanged, nil
	case known && !upsert:
		return part.Unchanged, differs(doing, "there is one with another limit")
	case known:
		return part.Updated, setBudget(t, doing, per, &b)
	}
	return part.Stored, setBudget(t, doing, per, &b)
}

func differs(doing, why string) error {
	return &fault.Error{Kind: fault.ErrExists, What: doing, Why: why, Do: "import with Upsert, or delete it first"}
}

// Type is TypeAgent.
func (*agentLine) Type() string { return TypeAgent }

// Check returns why the line cannot be stored.
func (l *agentLine) Check() error {
	if l.ID == "" {
		return errors.New("the agent has no id")
	}
	return nil
}

// Owner is the agent without a user.
func (l *agentLine) Owner() scope.Owner { return scope.Owner{Agent: l.ID} }

// SetOwner makes it the manifest of another agent, unless that has one.
func (l *agentLine) SetOwner(o scope.Owner) { l.ID, l.moved = o.Agent, true }

// Store stores the manifest.
func (l *agentLine) Store(t part.Tx, upsert bool) (part.Outcome, error) {
	doing := fmt.Sprintf("store the agent %q", valid.Short(l.ID))
	a := Agent{l.ID, l.Name, l.CreatedAt.Time, l.Metadata}
	if err := a.check(doing); err != nil {
		return part.Unchanged, err
	}
	have, found, err := agentOf(t, a.ID)
	if a.CreatedAt.IsZero() {
		if a.CreatedAt = have.CreatedAt; !found {
			a.CreatedAt = clock.FromMillis(t.Now())
		}
	}
	switch {
	case err != nil:
		return part.Unchanged, err
	case found && (l.moved || bytes.Equal(have.encode(), a.encode())):
		return part.Unchanged, nil
	case found && !upsert:
		return part.Unchanged, differs(doing, "it has another manifest")
	case found:
		return part.Updated, putAgent(t, doing, &a)
	}
	return part.Stored, putAgent(t, doing, &a)
}
