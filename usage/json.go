package usage

import (
	"encoding/json"

	"github.com/seed-7aedc3ff/memdb/scope"
)

// The JSON of records, budgets and manifests is that of an export's lines: what one program
// marshals, another one imports.

// Record is the record of the line.
func (l *Line) Record() Record {
	r := Record{
		Owner: scope.Owner{User: l.User, Agent: l.Agent}, Number: l.Number, Model: l.Model, PromptTokens: l.PromptTokens, CompletionTokens: l.CompletionTokens,
		TotalTokens: l.TotalTokens, Cost: l.Cost, Calls: l.Calls, Time: l.Time.Time,
	}
	if r.Calls == 0 {
		r.Calls = 1
	}
	return r
}

// MarshalJSON writes the [Line] of the record.
func (r Record) MarshalJSON() ([]byte, error) { return json.Marshal(NewLine(r)) }

// UnmarshalJSON reads a [Line]. Keys that it does not have are ignored.
func (r *Record) UnmarshalJSON(b []byte) error {
	var l Line
	err := json.Unmarshal(b, &l)
	if err == nil {
		*r = l.Record()
	}
	return err
}

// MarshalJSON writes the [BudgetLine] of the budget.
func (b Budget) MarshalJSON() ([]byte, error) { return json.Marshal(NewBudgetLine(b)) }

// UnmarshalJSON reads a [BudgetLine]. Keys that it does not have are ignored.
func (b *Budget) UnmarshalJSON(data []byte) error {
	var l BudgetLine
	if err := json.Unmarshal(data, &l); err != nil {
		return err
	}
	*b = Budget{Owner: scope.Owner{User: l.User, Agent: l.Agent}, Per: l.Per}
	if l.Limit != nil {
		b.Limit = *l.Limit
	}
	return nil
}

// MarshalJSON writes the [AgentLine] of the manifest.
func (a Agent) MarshalJSON() ([]byte, error) { return json.Marshal(NewAgentLine(a)) }

// UnmarshalJSON reads an [AgentLine]. Keys that it does not have are ignored.
func (a *Agent) UnmarshalJSON(b []byte) error {
	var l AgentLine
	err := json.Unmarshal(b, &l)
	if err == nil {
		*a = Agent{l.ID, l.Name, l.CreatedAt.Time, l.Metadata}
	}
	return err
}
