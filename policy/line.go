package policy

import (
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// TypeLine is the type of a line of an export that holds the policy.
const TypeLine = "policy"

// Line is the policy as one flat JSON object. When read, version and LSN are ignored: the database makes its own. A key
// that is missing has the value of the preset default.
type Line struct {
	Type string `json:"type"`
	Policy
}

// line is a Line on its way in or out of a database.
type line struct {
	Line
	part *Part
}

// NewLine is an empty line of the policy, nil for another type.
func (p *Part) NewLine(typ string) part.Line {
	if typ != TypeLine {
		return nil
	}
	return &line{Line{Policy: Default()}, p}
}

// Lines has the policy where one was set, in an export of everything.
func (p *Part) Lines(v part.View, in scope.Scope, yield func(part.Line) error) error {
	if in != (scope.Scope{}) {
		return nil
	}
	q, err := Stored(v)
	if err != nil || q.Version == 0 {
		return err
	}
	q.Version, q.LSN = 0, 0
	return yield(&line{Line{TypeLine, q}, p})
}

// Type is TypeLine.
func (*line) Type() string { return TypeLine }

// Check returns why the line cannot be stored.
func (l *line) Check() error { return l.Policy.Check() }

// Owner is nobody: the policy is that of the database.
func (*line) Owner() scope.Owner { return scope.Owner{} }

// SetOwner does nothing.
func (*line) SetOwner(scope.Owner) {}

// Store makes the line the policy. One that was set and says something else is ErrExists, or replaced under upsert.
func (l *line) Store(t part.Tx, upsert bool) (part.Outcome, error) {
	have, err := Stored(t)
	switch {
	case err != nil:
		return part.Unchanged, err
	case have.Version > 0 && have.Same(&l.Policy):
		return part.Unchanged, nil
	case have.Version > 0 && !upsert:
		return part.Unchanged, &fault.Error{Kind: fault.ErrExists, What: "store the policy", Why: "there is another one", Do: "import with Upsert"}
	}
	if _, err := l.part.put(t, l.Policy); err != nil {
		return part.Unchanged, err
	}
	if have.Version > 0 {
		return part.Updated, nil
	}
	return part.Stored, nil
}
