package usage

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/codec"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
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
	// Occurrence is set where the record was imported without a number: it was the n-th of its input
	// with the same content.
	Occurrence uint64 `json:"occurrence,omitzero"`
}

// NewLine is the line of a record.
func NewLine(r Record) Line {
	l := Line{
		TypeUsage, r.User, r.Agent, r.Number, r.Model, r.PromptTokens, r.CompletionTokens, r.TotalTokens, r.Cost, r.Calls, clock.Instant{Time: r.Time}, 0,
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
		identified, err := hasIdentities(v, owner)
		if err != nil {
			return err
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
			l := &line{NewLine(r)}
			if identified {
				if l.Occurrence, err = occurrence(v, owner, ms, value, number); err != nil {
					return err
				}
			}
			return yield(l)
		})
	})
}

// hasIdentities reports whether an owner has records that were imported without a number.
func hasIdentities(v part.View, owner uint32) (some bool, err error) {
	lower := identitiesKey(v, owner, 0)
	err = v.Scan(lower, layout.PrefixEnd(lower), func([]byte, []byte) error {
		some = true
		return kv.ErrStop
	})
	return some, err
}

// occurrence is the place of a record among those of its input, 0 where it was not imported, or had a
// number.
func occurrence(v part.View, owner uint32, ms uint64, value []byte, number uint64) (n uint64, err error) {
	for n = 1; ; n++ {
		of, found, err := identified(v, identityKey(v, owner, ms, value, n))
		if err != nil || !found {
			return 0, err
		}
		if of == number {
			return n, nil
		}
	}
}

// identified is the number of the record under a key of an identity.
func identified(v part.View, key []byte) (number uint64, found bool, err error) {
	b, found, err := v.Get(key)
	if err != nil || !found {
		return 0, false, err
	}
	r := codec.NewReader(b)
	version, number := r.Byte(), r.Uvarint()
	if r.Err() != nil || r.Len() > 0 || version != identityVersion {
		return 0, false, damaged("the identity of a record", r.Err())
	}
	return number, true, nil
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

// Content is what makes two lines without a number the same, nil for any other line.
func (l *line) Content() []byte {
	if l.Number != 0 || l.Occurrence != 0 {
		return nil
	}
	r := l.Record()
	if r.check("") != nil {
		return nil // which Store says
	}
	b := codec.AppendBytes(codec.AppendBytes(nil, r.User), r.Agent)
	return append(binary.AppendVarint(b, r.Time.UnixMilli()), r.encode()...)
}

// Occurs says that the line is the n-th of its input with its content.
func (l *line) Occurs(n uint64) { l.Occurrence = n }

// Store adds the record. One that is there, with the same number, time and content, is left
// alone; where another record has its number at that time, it gets the next one. A line without a
// number is known by its content and its occurrence; without that, too, it is always a new record.
func (l *line) Store(t part.Tx, _ bool) (part.Outcome, error) {
	const doing = "store a record of usage"
	r := l.Record()
	if err := r.check(doing); err != nil {
		return part.Unchanged, err
	}
	owner, known, err := t.Owner(r.Owner)
	if err == nil && known {
		known, err = l.stored(t, doing, owner, &r)
	}
	if err != nil || known {
		return part.Unchanged, err
	}
	if err := t.Need(doing, needed(&r)); err != nil {
		return part.Unchanged, err
	}
	value := r.encode()
	if err := put(t, &r); err != nil || l.Occurrence == 0 {
		return part.Stored, err
	}
	if owner, _, err = t.Owner(r.Owner); err != nil {
		return part.Stored, err
	}
	identity := binary.AppendUvarint([]byte{identityVersion}, r.Number)
	return part.Stored, t.Set(identityKey(t, owner, uint64(r.Time.UnixMilli()), value, l.Occurrence), identity)
}

// stored reports whether the record of the line is there, and gives it a number that no other one has
// at its time.
func (l *line) stored(t part.Tx, doing string, owner uint32, r *Record) (bool, error) {
	ms, value := uint64(r.Time.UnixMilli()), r.encode()
	if l.Occurrence > 0 {
		if _, found, err := identified(t, identityKey(t, owner, ms, value, l.Occurrence)); err != nil || found {
			return found, err
		}
	}
	if r.Number == 0 {
		return false, nil
	}
	h, known, err := homeOf(t, owner)
	if err != nil {
		return false, err
	}
	for number := r.Number; ; r.Number++ {
		have, found, err := t.Get(recordKey(t, owner, ms, r.Number))
		same := found && bytes.Equal(have, value)
		if err == nil && same && l.Occurrence > 0 { // or it is another one of the same content
			var n uint64
			n, err = occurrence(t, owner, ms, value, r.Number)
			same = n == 0
		}
		switch {
		case err != nil || same:
			return same, err
		case found:
		case known && ms < h.floor && number <= h.last && r.Calls == 1:
			return false, &fault.Error{
				Kind: fault.ErrExists, What: doing, Why: fmt.Sprintf("its day was rolled up, and record %d may be part of that", number),
				Do: "leave its number out if it is a new record",
			}
		default:
			return false, nil
		}
	}
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
