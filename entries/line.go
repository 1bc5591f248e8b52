package entries

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// TypeLine is the type of a line of an export that holds an entry.
const TypeLine = "kv"

// Line is an entry as one flat JSON object. When read, the version is ignored: the
// database makes its own.
type Line struct {
	Type      string          `json:"type"`
	User      string          `json:"user"`
	Agent     string          `json:"agent"`
	Key       string          `json:"key"`
	Value     json.RawMessage `json:"value"`
	Version   uint64          `json:"version,omitzero"`
	UpdatedAt clock.Instant   `json:"updated_at,omitzero"`
	ExpiresAt clock.Expiry    `json:"expires_at,omitzero"`
}

// NewLine is the line of an entry.
func NewLine(e Entry) Line {
	return Line{
		Type: TypeLine, User: e.User, Agent: e.Agent, Key: e.Key, Value: e.Value, Version: e.Version,
		UpdatedAt: clock.Instant{Time: e.UpdatedAt}, ExpiresAt: clock.Expiry{Instant: clock.Instant{Time: e.ExpiresAt}},
	}
}

// line is a Line on its way in or out of a database.
type line struct{ Line }

// NewLine is an empty line of an entry, nil for another type.
func (Part) NewLine(typ string) part.Line {
	if typ != TypeLine {
		return nil
	}
	return &line{}
}

// Lines has a line for each entry: by owner in the order of their first storing, and by
// key. Versions are left out, as another database gives its own.
func (Part) Lines(v part.View, in scope.Scope, yield func(part.Line) error) error {
	return eachOwner(v, func(owner uint32, first *Entry) error {
		if !scope.Contains(in, first.Scope()) {
			return nil
		}
		lower, upper := ownerSpan(v, owner)
		return v.Scan(lower, upper, func(key, value []byte) error {
			_, name, _ := parseEntryKey(key)
			e, err := decodeEntry(name, value)
			if err != nil || e.expired(v.Now()) {
				return err
			}
			l := &line{NewLine(e)}
			l.Version = 0
			return yield(l)
		})
	})
}

// Type is TypeLine.
func (*line) Type() string { return TypeLine }

// Check returns why the line cannot be stored.
func (l *line) Check() error {
	if l.Value == nil {
		return fmt.Errorf("the entry %q has no value", valid.Short(l.Key))
	}
	return nil
}

// Owner is whose the entry is.
func (l *line) Owner() scope.Owner { return scope.Owner{User: l.User, Agent: l.Agent} }

// SetOwner gives the entry to another owner.
func (l *line) SetOwner(o scope.Owner) { l.User, l.Agent = o.User, o.Agent }

// Store puts the entry. One that is there with the same value and times is left alone.
func (l *line) Store(t part.Tx, upsert bool) (part.Outcome, error) {
	doing := fmt.Sprintf("store the entry %q", valid.Short(l.Key))
	if err := checkEntry(doing, l.Owner(), l.Key); err != nil {
		return part.Unchanged, err
	}
	opts := &PutOptions{ExpiresAt: l.ExpiresAt.Time, UpdatedAt: l.UpdatedAt.Time}
	if err := opts.check(doing); err != nil {
		return part.Unchanged, err
	}
	value, err := encodeValue(doing, l.Value)
	if err != nil {
		return part.Unchanged, err
	}
	owner, known, err := t.Owner(l.Owner())
	var have Entry
	found := false
	if err == nil && known {
		have, found, err = stored(t, owner, l.Key)
		found = found && !have.expired(t.Now())
	}
	switch {
	case err != nil:
		return part.Unchanged, err
	case found && l.same(&have, value):
		return part.Unchanged, nil
	case found && !upsert:
		return part.Unchanged, &fault.Error{
			Kind: fault.ErrExists, What: doing, Why: "there is one with another value",
			Do: "import with Upsert, or delete it first",
		}
	}
	if _, err := put(t, doing, l.Owner(), l.Key, value, opts); err != nil {
		return part.Unchanged, err
	}
	if found {
		return part.Updated, nil
	}
	return part.Stored, nil
}

// same reports whether the stored entry is what the line says. A line without a time of
// update matches any.
func (l *line) same(have *Entry, value []byte) bool {
	return bytes.Equal(value, have.Value) &&
		(l.UpdatedAt.IsZero() || have.UpdatedAt.Equal(l.UpdatedAt.Time)) && have.ExpiresAt.Equal(l.ExpiresAt.Time)
}
