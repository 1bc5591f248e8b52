package entries

import (
	"encoding/json"

	"github.com/seed-7aedc3ff/memdb/scope"
)

// The JSON of entries is that of an export's lines: what one program marshals, another one
// imports.

// Entry is the entry of the line.
func (l *Line) Entry() Entry {
	return Entry{
		Owner: scope.Owner{User: l.User, Agent: l.Agent}, Key: l.Key, Value: l.Value, Version: l.Version,
		UpdatedAt: l.UpdatedAt.Time, ExpiresAt: l.ExpiresAt.Time,
	}
}

// MarshalJSON writes the [Line] of the entry.
func (e Entry) MarshalJSON() ([]byte, error) { return json.Marshal(NewLine(e)) }

// UnmarshalJSON reads a [Line]. Keys that it does not have are ignored.
func (e *Entry) UnmarshalJSON(b []byte) error {
	var l Line
	err := json.Unmarshal(b, &l)
	if err == nil {
		*e = l.Entry()
	}
	return err
}
